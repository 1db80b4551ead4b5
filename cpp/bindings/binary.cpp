#include "models/binary.hpp"

#include "bindings/ascent.hpp"
#include "bindings/box.hpp"
#include "bindings/exact.hpp"
#include "models/slack.hpp"

namespace mm {

void bind_binary(nb::module_& m) {
  nb::class_<BinaryData>(m, "BinaryData")
      .def(
          "__init__",
          [](BinaryData* self, const Features& rows, Array1<int32_t> truth, Array1<double> cost) {
            if (static_cast<int64_t>(truth.size()) != rows.size() || cost.size() != 2)
              throw nb::value_error("labels or costs do not fit the examples");
            for (size_t i = 0; i < truth.size(); ++i)
              if (truth.data()[i] != 0 && truth.data()[i] != 1) throw nb::value_error("a label is 0 or 1");
            new (self) BinaryData{&rows, to_vector(truth), to_vector(cost)};
          },
          nb::keep_alive<1, 2>());
  bind_exact<Binary<double>>(m, "BinaryExact");
  bind_exact<SlackRescaled<Binary<double>>>(m, "BinarySlackExact");
  bind_ascent<SlackRescaled<Binary<double>>>(m, "BinarySlackAscent64");
  bind_ascent<Binary<float>>(m, "BinaryAscent32");
  bind_ascent<Binary<double>>(m, "BinaryAscent64");
  bind_box<Binary<double>>(m, "BinaryBox");
  bind_box<SlackRescaled<Binary<double>>>(m, "BinarySlackBox");
}

}  // namespace mm
