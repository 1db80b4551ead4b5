#include "models/multiclass.hpp"

#include "bindings/ascent.hpp"
#include "bindings/box.hpp"
#include "bindings/coordinate.hpp"
#include "bindings/exact.hpp"
#include "models/slack.hpp"

namespace mm {

void bind_multiclass(nb::module_& m) {
  nb::class_<MulticlassData>(m, "MulticlassData")
      .def(
          "__init__",
          [](MulticlassData* self, const Features& rows, int labels, Array1<int32_t> truth,
             Array1<double> cost) {
            Costs costs{labels, to_vector(cost)};
            if (static_cast<int64_t>(truth.size()) != rows.size() || !costs.fits())
              throw nb::value_error("labels or costs do not fit the examples");
            new (self) MulticlassData{&rows, labels, to_vector(truth), std::move(costs)};
          },
          nb::keep_alive<1, 2>());
  bind_exact<Multiclass<double>>(m, "MulticlassExact")
      .def("scores", [](const Exact<Multiclass<double>>& e, const MulticlassData& data, Array1<double> w) {
        check_size(e, w);
        const auto W = e.packed(w.data());
        auto s = e.structure().scratch();
        std::vector<double> out(static_cast<size_t>(data.blocks()) * data.labels);
        {
          nb::gil_scoped_release release;
          for (int64_t i = 0; i < data.blocks(); ++i) {
            e.structure().open(i, W.data(), s, false, 1);
            std::copy(s.scores.begin(), s.scores.begin() + data.labels, out.begin() + i * data.labels);
          }
        }
        return to_numpy(std::move(out));
      });
  bind_exact<SlackRescaled<Multiclass<double>>>(m, "MulticlassSlackExact");
  bind_ascent<SlackRescaled<Multiclass<double>>>(m, "MulticlassSlackAscent64");
  bind_ascent<Multiclass<float>>(m, "MulticlassAscent32");
  bind_ascent<Multiclass<double>>(m, "MulticlassAscent64");
  bind_coordinate<Multiclass<float>>(m, "MulticlassCoordinate32");
  bind_coordinate<Multiclass<double>>(m, "MulticlassCoordinate64");
  bind_box<Multiclass<double>>(m, "MulticlassBox");
  bind_box<SlackRescaled<Multiclass<double>>>(m, "MulticlassSlackBox");
}

}  // namespace mm
