// Python bindings of the exact answers of a compiled model and of its cache of outputs; one set serves every model.
#include "models/exact.hpp"

#include <algorithm>

#include "bindings/common.hpp"

namespace mm {

static nb::tuple slacks(const Exact& e, Array1<double> w, int threads, bool outputs) {
  check_weights(w, e.dimension());
  std::vector<double> xi(e.blocks());
  std::vector<int32_t> y(outputs ? e.labels() : 0);
  unlocked([&] { e.slacks(w.data(), threads, xi.data(), outputs ? y.data() : nullptr, nullptr); });
  return nb::make_tuple(to_numpy(std::move(xi)), to_numpy(std::move(y)));
}

// Returns the floors and ceilings that f(floors, ceilings) writes for every block.
template <class F>
static nb::tuple bounds(const Exact& e, const Array1<double>& w, F&& f) {
  check_weights(w, e.dimension());
  std::vector<double> floors(e.blocks()), ceilings(floors.size());
  unlocked([&] { f(floors.data(), ceilings.data()); });
  return nb::make_tuple(to_numpy(std::move(floors)), to_numpy(std::move(ceilings)));
}
static nb::tuple slack_bounds(const Exact& e, Array1<double> w, int threads, double leeway) {
  return bounds(e, w, [&](double* xi, double* ceilings) {
    e.slacks(w.data(), threads, xi, nullptr, ceilings, leeway);
  });
}
static nb::tuple sums(const Exact& e, Array1<double> w, int threads, int64_t most, int64_t work) {
  return bounds(e, w, [&](double* floors, double* ceilings) {
    e.sums(w.data(), threads, most, work, floors, ceilings);
  });
}

static PackedWeights pack(const Exact& e, Array1<double> w) {
  check_weights(w, e.dimension());
  return unlocked([&] { return e.pack(w.data()); });
}
static Result<int32_t> predict_packed(const Exact& e, const PackedWeights& w, int threads) {
  check(e.fits(w), "weights that were packed for another model");
  return filled<int32_t>(e.labels(), [&](int32_t* y) { e.predict(w, threads, y, e.blocks()); });
}
static Result<int32_t> predict(const Exact& e, Array1<double> w, int threads) {
  return predict_packed(e, pack(e, w), threads);
}

// Predicts the outputs of the first n examples.
static Result<int32_t> glance(const Exact& e, Array1<double> w, int64_t n) {
  n = std::min(n, e.blocks());
  const PackedWeights packed = pack(e, w);
  return filled<int32_t>(e.labels_before(n), [&](int32_t* y) { e.predict(packed, 1, y, n); });
}

static Result<int32_t> complete(const Exact& e, Array1<double> w, int threads) {
  check_weights(w, e.dimension());
  return filled<int32_t>(e.labels(), [&](int32_t* y) { e.complete(w.data(), threads, y); });
}

static Result<double> scores(const Exact& e, const PackedWeights& w, Array1<int32_t> outputs, int threads) {
  check(e.fits(w), "weights that were packed for another model");
  check(size(outputs) == e.labels(), "the outputs do not fit the examples");
  return filled(e.blocks(), [&](double* values) { e.scores(w, threads, outputs.data(), values); });
}
static Result<double> beliefs(const Exact& e, const PackedWeights& w, double temperature, int threads) {
  check(e.fits(w) && temperature >= 0,
        "weights that were packed for another model, or a temperature below 0");
  return filled(e.beliefs(), [&](double* values) { e.beliefs(w, temperature, threads, values); });
}
static Result<double> margins(const Exact& e, const PackedWeights& w, int threads) {
  check(e.fits(w), "weights that were packed for another model");
  return filled(e.labels(), [&](double* values) { e.margins(w, threads, values); });
}

static bool knows(const Exact& e, Array1<int64_t> blocks, Array1<int32_t> outputs) {
  return e.knows(blocks.data(), size(blocks), outputs.data(), size(outputs));
}
static void check_outputs(const Exact& e, const Array1<int64_t>& blocks, const Array1<int32_t>& outputs) {
  check(knows(e, blocks, outputs),
        "outputs that do not fit the examples, or a label that the model does not have");
}

static nb::tuple combine(const Exact& e, Array1<int64_t> blocks, Array1<double> c, Array1<int32_t> outputs,
                         int threads) {
  check(c.size() == blocks.size(), "as many multipliers as outputs are needed");
  check_outputs(e, blocks, outputs);
  return with_vector(e.dimension(), [&](double* sum) {
    return e.combine(blocks.data(), c.data(), size(blocks), outputs.data(), threads, sum);
  });
}

// The slacks of all blocks and the plane of given outputs, from one walk. None if the outputs are not in the order of
// their blocks, or if the model cannot do this.
static nb::object slacks_and_plane(const Exact& e, Array1<double> w, Array1<int64_t> blocks, Array1<double> c,
                                   Array1<int32_t> outputs) {
  check_weights(w, e.dimension());
  check(c.size() == blocks.size(), "as many multipliers as outputs are needed");
  check_outputs(e, blocks, outputs);
  if (!e.walks() || !std::is_sorted(blocks.data(), blocks.data() + blocks.size())) return nb::none();
  Unwritten<double> xi(e.blocks());
  const Planes<int32_t> planes{blocks.data(), c.data(), outputs.data(), size(blocks)};
  const nb::tuple plane = with_vector(
      e.dimension(), [&](double* sum) { return e.slacks_and_plane(w.data(), xi.data(), planes, sum); });
  return nb::make_tuple(to_numpy(std::move(xi)), plane);
}

// Some weights of the vectors of planes: an array with a row for each plane, ravelled.
static Result<double> select(const Exact& e, Array1<int64_t> blocks, Array1<int32_t> outputs,
                             Array1<int64_t> columns) {
  check_outputs(e, blocks, outputs);
  if (!within(columns, 0, e.dimension())) throw nb::index_error("no such weight");
  return filled(size(blocks) * size(columns), [&](double* rows) {
    e.select(blocks.data(), size(blocks), outputs.data(), columns.data(), size(columns), rows);
  });
}

static void check_sums(const Exact& e, const Array1<double>& mass) {
  check(e.sums_all(), "this model has no sums over all outputs");
  check(size(mass) == e.blocks(), "masses do not fit the examples");
}
static Result<double> log_sums(const Exact& e, Array1<double> w, int threads, double loss) {
  check_weights(w, e.dimension());
  check(e.sums_all(), "this model has no sums over all outputs");
  return filled(e.blocks(), [&](double* xi) { e.log_sums(w.data(), threads, loss, xi); });
}
// Returns sum_i mass_i xi_i and its gradient.
static nb::tuple tilt(const Exact& e, Array1<double> w, Array1<double> mass, int threads, double loss) {
  check_weights(w, e.dimension());
  check_sums(e, mass);
  return with_vector(e.dimension(),
                     [&](double* sum) { return e.tilt(w.data(), mass.data(), threads, loss, sum); });
}
static Result<float> list_potentials(const Exact& e, Array1<double> w, int threads, double loss) {
  check_weights(w, e.dimension());
  check(e.sums_all(), "this model has no sums over all outputs");
  return filled<float>(e.potentials(),
                       [&](float* theta) { e.list_potentials(w.data(), threads, loss, theta); });
}
// Returns the plane of the distributions that the potentials define.
static nb::tuple mixture(const Exact& e, Array1<float> theta, Array1<double> mass, int threads,
                         bool augmented) {
  check_sums(e, mass);
  check(size(theta) == e.potentials(), "potentials that do not fit the examples");
  return with_vector(e.dimension(), [&](double* sum) {
    return e.mixture(theta.data(), mass.data(), threads, augmented, sum);
  });
}

static Result<int32_t> draw(const Exact& e, Array1<double> w, int n, uint64_t seed, int threads) {
  check_weights(w, e.dimension());
  check(e.sums_all() && n >= 0, "no outputs can be drawn");
  return filled<int32_t>(n * e.labels(), [&](int32_t* y) { e.draw(w.data(), n, seed, threads, y); });
}

static void bind_exact(nb::module_& m) {
  nb::class_<PackedWeights>(m, "PackedWeights");
  nb::class_<Exact>(m, "Exact")
      .def_prop_ro("dimension", &Exact::dimension)
      .def_prop_ro("blocks", &Exact::blocks)
      .def_prop_ro("exact", &Exact::exact)
      .def("slacks", &slacks)
      .def("slack_bounds", &slack_bounds)
      .def("sums", &sums)
      .def_prop_ro("sums_all", &Exact::sums_all)
      .def_prop_ro("potentials", &Exact::potentials)
      .def("log_sums", &log_sums)
      .def("tilt", &tilt)
      .def("list_potentials", &list_potentials)
      .def("mixture", &mixture)
      .def_prop_ro("draws", &Exact::sums_all)
      .def("draw", &draw)
      .def("pack", &pack)
      .def("predict", &predict)
      .def("predict", &predict_packed)
      .def("glance", &glance)
      .def("complete", &complete)
      .def("truth",
           [](const Exact& e) { return filled<int32_t>(e.labels(), [&](int32_t* y) { e.truth(y); }); })
      .def("scores", &scores)
      .def("beliefs", &beliefs)
      .def("margins", &margins)
      .def("combine", &combine)
      .def("slacks_and_plane", &slacks_and_plane)
      .def("select", &select)
      .def("knows", &knows);
  nb::class_<OutputCache>(m, "OutputCache")
      .def("add",
           [](OutputCache& c, Array1<int32_t> outputs) {
             check(size(outputs) == c.labels(), "the outputs do not fit the examples");
             unlocked([&] { c.add(outputs.data()); });
           })
      .def("best", [](OutputCache& c, Array1<double> w, int threads) {
        check_weights(w, c.dimension());
        std::vector<double> xi(c.blocks());
        std::vector<int32_t> y(c.labels());
        unlocked([&] { c.best(w.data(), threads, xi.data(), y.data()); });
        return nb::make_tuple(to_numpy(std::move(xi)), to_numpy(std::move(y)));
      });
}

static const Bindings exact_bindings(&bind_exact, true);

}  // namespace mm
