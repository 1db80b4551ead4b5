#include "models/groups.hpp"

#include "bindings/ascent.hpp"
#include "bindings/coordinate.hpp"
#include "bindings/exact.hpp"

namespace mm {

static GroupsData groups_data(const Features& rows, Array1<int64_t> first, Array1<int64_t> row,
                              Array1<double> factor, Array1<double> margin) {
  const size_t n = row.size();
  if (factor.size() != n || margin.size() != n || first.size() < 1 || first.data()[0] != 0 ||
      first.data()[first.size() - 1] != static_cast<int64_t>(n))
    throw nb::value_error("groups, rows, factors and margins do not fit");
  for (size_t i = 0; i + 1 < first.size(); ++i)
    if (first.data()[i] > first.data()[i + 1]) throw nb::value_error("groups must not overlap");
  GroupsData data{&rows, {}, to_vector(first)};
  data.constraints.reserve(n);
  for (size_t c = 0; c < n; ++c) {
    const int64_t r = row.data()[c];
    if (r < 0 || r >= rows.size()) throw nb::value_error("a constraint names a row that is not there");
    const float f = static_cast<float>(factor.data()[c]);
    data.constraints.push_back({margin.data()[c], r, f, f * f * rows.norms[r]});
  }
  return data;
}

void bind_groups(nb::module_& m) {
  nb::class_<GroupsData>(m, "GroupsData")
      .def(
          "__init__",
          [](GroupsData* self, const Features& rows, Array1<int64_t> first, Array1<int64_t> row,
             Array1<double> factor,
             Array1<double> margin) { new (self) GroupsData(groups_data(rows, first, row, factor, margin)); },
          nb::keep_alive<1, 2>());
  bind_exact<Groups<double>>(m, "GroupsExact");
  bind_ascent<Groups<float>>(m, "GroupsAscent32");
  bind_ascent<Groups<double>>(m, "GroupsAscent64");
  bind_coordinate<Groups<float>>(m, "GroupsCoordinate32");
  bind_coordinate<Groups<double>>(m, "GroupsCoordinate64");
}

}  // namespace mm
