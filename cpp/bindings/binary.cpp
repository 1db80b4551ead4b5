#include "models/binary.hpp"

#include "bindings/powers.hpp"

namespace mm {

static auto make_exact(const BinaryData& data, Rescaling rescaling) {
  return pick<Exact, ExactOf, Binary<double>>(rescaling, data);
}
static auto make_cache(const BinaryData& data, Rescaling rescaling, int capacity) {
  return pick<OutputCache, OutputCacheOf, Binary<double>>(rescaling, data, capacity);
}
static std::unique_ptr<Ascent> make_ascent(const BinaryData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (single && rescaling == Rescaling::margin)
    return std::make_unique<AscentOf<Binary<float>>>(data, std::move(mass), lean);
  return pick<Ascent, AscentOf, Binary<double>>(rescaling, data, std::move(mass), lean);
}
static auto make_box(const BinaryData& data, Rescaling rescaling, std::vector<double> mass, bool complete) {
  return pick<Box, BoxOf, Binary<double>>(rescaling, data, std::move(mass), complete);
}

void bind_binary(nb::module_& m) {
  nb::class_<BinaryData> kind(m, "BinaryData");
  kind.def(
      "__init__",
      [](BinaryData* self, const Features& rows, Array1<int32_t> truth, Array1<double> cost) {
        if (static_cast<int64_t>(truth.size()) != rows.size() || cost.size() != 2)
          throw nb::value_error("labels or costs do not fit the examples");
        for (size_t i = 0; i < truth.size(); ++i)
          if (truth.data()[i] != 0 && truth.data()[i] != 1) throw nb::value_error("a label is 0 or 1");
        new (self) BinaryData{&rows, to_vector(truth), to_vector(cost)};
      },
      nb::keep_alive<1, 2>());
  bind_powers(kind);
}

}  // namespace mm
