#include "models/binary.hpp"

#include <numeric>

#include "bindings/powers.hpp"
#include "narrow.hpp"
#include "shuffle.hpp"
#include "solvers/dual_coordinate.hpp"

namespace mm {

static std::unique_ptr<Ascent> make_ascent(const BinaryData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (single && rescaling == Rescaling::margin)
    return make<AscentOf, Binary<float>>(data, std::move(mass), lean);
  return any<AscentOf>(erased<Binary<double>>(data, rescaling), std::move(mass), lean);
}

// Data with a copy of their rows in single precision, in a random order.
struct NarrowBinary {
  std::vector<int64_t> order;
  std::unique_ptr<Features> rows;
  BinaryData data;
  explicit NarrowBinary(const BinaryData& wide) : order(wide.blocks()) {
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, 0);
    rows = narrowed(*wide.features, order);
    data = {rows.get(), picked(wide.truth, order), wide.cost};
  }
};
static std::unique_ptr<Coordinate> make_coordinate(const BinaryData& data, bool single,
                                                   std::vector<double> mass) {
  if (!single) return make<CoordinateOf, Binary<double>>(data, std::move(mass));
  const Kind kind = data.features->kind;
  if (kind != Kind::dense64 && kind != Kind::sparse64)
    return make<CoordinateOf, Binary<float>>(data, std::move(mass));
  auto copy = std::make_shared<const NarrowBinary>(data);
  return make<CoordinateOf, Binary<float>>(copy->data, picked(mass, copy->order), copy, copy->order);
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
