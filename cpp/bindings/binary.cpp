#include "models/binary.hpp"

#include "bindings/narrow_coordinate.hpp"
#include "bindings/powers.hpp"

namespace mm {

static std::unique_ptr<Ascent> make_ascent(const BinaryData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (single && rescaling == Rescaling::margin)
    return make<AscentOf, Binary<float>>(data, std::move(mass), lean);
  return any<AscentOf>(erased<Binary<double>>(data, rescaling), std::move(mass), lean);
}

static std::unique_ptr<Coordinate> make_coordinate(const BinaryData& data, bool single,
                                                   std::vector<double> mass) {
  if (!single) return make<CoordinateOf, Binary<double>>(data, std::move(mass));
  return make_narrow<Binary<float>>(data, std::move(mass));
}

static void bind_binary(nb::module_& m) {
  nb::class_<BinaryData> kind(m, "BinaryData");
  kind.def(
      "__init__",
      [](BinaryData* self, const Features& rows, Array1<int32_t> truth, Array1<double> cost) {
        check(size(truth) == rows.size() && cost.size() == 2, "labels or costs do not fit the examples");
        check(within(truth, 0, 2), "a label is 0 or 1");
        new (self) BinaryData{&rows, to_vector(truth), to_vector(cost)};
      },
      nb::keep_alive<1, 2>());
  bind_powers<Binary<double>>(kind);
  bind_box_of<Binary<double>>(kind);
}

static const Bindings binary_bindings(&bind_binary);

}  // namespace mm
