#include "models/multiclass.hpp"

#include "bindings/narrow_coordinate.hpp"
#include "bindings/powers.hpp"

namespace mm {

static std::unique_ptr<Ascent> make_ascent(const MulticlassData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (single && rescaling == Rescaling::margin)
    return make<AscentOf, Multiclass<float>>(data, std::move(mass), lean);
  return any<AscentOf>(erased<Multiclass<double>>(data, rescaling), std::move(mass), lean);
}
static std::unique_ptr<Coordinate> make_coordinate(const MulticlassData& data, bool single,
                                                   std::vector<double> mass) {
  if (!single) return make<CoordinateOf, Multiclass<double>>(data, std::move(mass));
  return make_narrow<Multiclass<float>>(data, std::move(mass));
}

// Returns <w_k, x_i>, with a row for each example.
static Result<double> scores(const MulticlassData& data, Array1<double> w) {
  check_weights(w, data.dimension());
  return filled(data.blocks() * data.labels, [&](double* out) {
    const Multiclass<double> structure(data);
    aligned<double> W(structure.weights());
    structure.pack(w.data(), W.data());
    auto s = structure.scratch();
    for (int64_t i = 0; i < data.blocks(); ++i) {
      poll();
      structure.open(i, W.data(), s, false, 1);
      std::copy(s.scores.begin(), s.scores.begin() + data.labels, out + i * data.labels);
    }
  });
}

static void bind_multiclass(nb::module_& m) {
  nb::class_<MulticlassData> kind(m, "MulticlassData");
  kind.def(
      "__init__",
      [](MulticlassData* self, const Features& rows, int labels, Array1<int32_t> truth, Array1<double> cost) {
        Costs costs{labels, to_vector(cost)};
        check(size(truth) == rows.size() && costs.fits(), "labels or costs do not fit the examples");
        new (self) MulticlassData{&rows, labels, to_vector(truth), std::move(costs)};
      },
      nb::keep_alive<1, 2>());
  kind.def("scores", &scores);
  bind_powers<Multiclass<double>>(kind);
  bind_box_of<Multiclass<double>>(kind);
}

static const Bindings multiclass_bindings(&bind_multiclass);

}  // namespace mm
