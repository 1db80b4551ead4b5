#include "models/groups.hpp"

#include "bindings/powers.hpp"
#include "solvers/dual_coordinate.hpp"

namespace mm {

static GroupsData groups_data(const Features& rows, Array1<int64_t> first, Array1<int64_t> row,
                              Array1<double> factor, Array1<double> margin) {
  const size_t n = row.size();
  check(factor.size() == n && margin.size() == n, "rows, factors and margins do not fit");
  check_offsets(first, static_cast<int64_t>(n), EmptyRanges::allowed, "groups of constraints");
  GroupsData data{&rows, {}, to_vector(first)};
  data.constraints.reserve(n);
  for (size_t c = 0; c < n; ++c) {
    const int64_t r = row.data()[c];
    check(r >= 0 && r < rows.size(), "a constraint names a row that is not there");
    const float f = static_cast<float>(factor.data()[c]);
    data.constraints.push_back({margin.data()[c], r, f, f * f * rows.norms[r]});
  }
  return data;
}

static std::unique_ptr<AnyStructure<int32_t>> any_structure(const GroupsData& data, Rescaling rescaling) {
  check(rescaling == Rescaling::margin, "groups of constraints have no slack rescaling");
  return std::make_unique<Erased<Groups<double>>>(data);
}
static std::unique_ptr<Coordinate> make_coordinate(const GroupsData& data, bool single,
                                                   std::vector<double> mass) {
  if (single) return make<CoordinateOf, Groups<float>>(data, std::move(mass));
  return make<CoordinateOf, Groups<double>>(data, std::move(mass));
}

static void bind_groups(nb::module_& m) {
  nb::class_<GroupsData> kind(m, "GroupsData");
  kind.def(
      "__init__",
      [](GroupsData* self, const Features& rows, Array1<int64_t> first, Array1<int64_t> row,
         Array1<double> factor,
         Array1<double> margin) { new (self) GroupsData(groups_data(rows, first, row, factor, margin)); },
      nb::keep_alive<1, 2>());
  bind_powers(kind);
}

static const Bindings groups_bindings(&bind_groups);

}  // namespace mm
