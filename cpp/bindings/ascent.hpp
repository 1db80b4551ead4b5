// The dual state and its passes, bound once for every structure.
#pragma once

#include <limits>
#include <stdexcept>

#include "bindings/common.hpp"
#include "runtime/threads.hpp"
#include "solvers/dual_ascent.hpp"
#include "solvers/proximal.hpp"
#include "solvers/subgradient.hpp"

namespace mm {

template <class Structure>
class Ascent {
 public:
  using Label = typename Structure::Label;
  DualState<Structure> state;
  int64_t ahead = 0;  // blocks of a batch of searches ahead; 0: as many as are worthwhile, or none

  Ascent(const typename Structure::Data& data, Array1<double> mass, bool lean)
      : state(data, to_vector(mass), lean), ascent_(state) {}

  nb::tuple visit(Array1<int64_t> order, int rule, bool oracle, bool update, bool slacks, bool line_search,
                  double tolerance, int keep, int threads, int64_t room) {
    const VisitOptions options{
        static_cast<Rule>(rule), oracle, update, slacks, line_search, tolerance, keep, room};
    const int64_t n = static_cast<int64_t>(order.size());
    std::vector<double> violations(n), xi(slacks ? n : 0);
    VisitReport report;
    {
      nb::gil_scoped_release release;
      ++state.clock;
      try {
        report = run(order.data(), n, options, violations.data(), xi.data(), threads);
      } catch (...) {  // an interrupt, between two visits: the state is whole, but for what reports count
        held_ = state.held();
        state.steps += static_cast<double>(n);  // visits that were not made have not moved anything
        throw;
      }
      state.steps += static_cast<double>(n);
      held_ += report.bytes;
    }
    return nb::make_tuple(to_numpy(std::move(violations)), to_numpy(std::move(xi)), report.oracle_calls,
                          report.updates, report.violation, report.gain, report.refused);
  }

  nb::tuple subgradient(Array1<int64_t> order, double active) {
    nb::gil_scoped_release release;
    const VisitReport r = subgradient_pass(state, order.data(), static_cast<int64_t>(order.size()), active);
    held_ = state.held();
    nb::gil_scoped_acquire acquire;
    return nb::make_tuple(r.oracle_calls, r.violation);
  }

  // mean |psi(u)|^2 and mean Delta(u) of the loss-augmented outputs u of some blocks
  nb::tuple probe(Array1<int64_t> blocks) {
    auto s = state.structure.scratch();
    Move<Structure> move;
    std::vector<Label> u, y;
    double square = 0, loss = 0;
    for (size_t k = 0; k < blocks.size(); ++k) {
      const int64_t i = blocks.data()[k];
      u.resize(state.structure.output_size(i));
      y.resize(u.size());
      state.structure.truth(i, y.data());
      state.structure.open(i, state.W.data(), s, true, 1);
      state.structure.best(s, state.W.data(), u.data());
      state.structure.build_pair(s, i, u.data(), y.data());
      move.renew();
      square += state.squared_norm(move, s);
      loss += state.structure.loss(i, u.data());
    }
    return nb::make_tuple(square / blocks.size(), loss / blocks.size());
  }

  Result<double> weights(bool exact) const {
    std::vector<double> flat(state.structure.dimension());
    {
      nb::gil_scoped_release release;
      if (exact) {
        std::vector<double> w;
        state.law(w);
        state.structure.unpack(w.data(), flat.data());
      } else {
        state.structure.unpack(state.W.data(), flat.data());
      }
    }
    return to_numpy(std::move(flat));
  }

  // Averaged iterate: sum_j c_j d_j, to be combined with w by the solver that asked for it.
  Result<double> weighted() const {
    std::vector<double> flat(state.structure.dimension());
    state.structure.unpack(state.weighted.data(), flat.data());
    return to_numpy(std::move(flat));
  }

  nb::tuple support() const {
    std::vector<int64_t> blocks;
    std::vector<double> multipliers;
    std::vector<Label> outputs;
    state.each_support([&](int64_t i, const Kept& plane, const Label* y) {
      blocks.push_back(i);
      multipliers.push_back(plane.multiplier);
      outputs.insert(outputs.end(), y, y + state.structure.output_size(i));
    });
    return nb::make_tuple(to_numpy(std::move(blocks)), to_numpy(std::move(multipliers)),
                          to_numpy(std::move(outputs)));
  }

  // The same for some blocks alone, in their order; those that keep nothing are passed over.
  nb::tuple support_of(Array1<int64_t> wanted) const {
    std::vector<int64_t> blocks;
    std::vector<double> multipliers;
    std::vector<Label> outputs;
    for (size_t k = 0; k < wanted.size(); ++k) {
      const int64_t i = wanted.data()[k];
      if (i < 0 || i >= static_cast<int64_t>(state.blocks.size())) throw nb::index_error("no such block");
      const auto& planes = state.blocks[i].planes;
      for (size_t j = 0; j < planes.size(); ++j) {
        if (planes[j].multiplier <= 0) continue;
        blocks.push_back(i);
        multipliers.push_back(planes[j].multiplier);
        const Label* y = state.output(i, static_cast<int>(j));
        outputs.insert(outputs.end(), y, y + state.structure.output_size(i));
      }
    }
    return nb::make_tuple(to_numpy(std::move(blocks)), to_numpy(std::move(multipliers)),
                          to_numpy(std::move(outputs)));
  }

  // Of each block: the bytes of what it keeps, how many outputs have a multiplier, and whether one of these
  // is not the true output.
  nb::tuple survey() const {
    const size_t n = state.blocks.size();
    std::vector<int64_t> bytes(n);
    std::vector<int32_t> spread(n, 1);
    std::vector<uint8_t> moved(n, 0);
    std::vector<Label> truth;
    for (size_t i = 0; i < n; ++i) {
      const auto& planes = state.blocks[i].planes;
      bytes[i] = state.cost(static_cast<int64_t>(i));
      if (planes.empty()) continue;
      truth.resize(state.structure.output_size(i));
      state.structure.truth(i, truth.data());
      spread[i] = 0;
      for (size_t j = 0; j < planes.size(); ++j) {
        if (planes[j].multiplier <= 0) continue;
        ++spread[i];
        moved[i] |= !state.structure.same(i, state.output(i, static_cast<int>(j)), truth.data());
      }
    }
    return nb::make_tuple(to_numpy(std::move(bytes)), to_numpy(std::move(spread)),
                          to_numpy(std::move(moved)));
  }

  void clear() {
    for (size_t i = 0; i < state.blocks.size(); ++i) {
      state.lay(static_cast<int64_t>(i));
      for (auto& plane : state.blocks[i].planes) plane.multiplier = 0;
    }
    held_ = state.held();
  }

  // Takes multipliers from outside; they must fit the masses (checked by the caller).
  void restore(Array1<int64_t> blocks, Array1<double> multipliers, Array1<Label> outputs) {
    for (auto& block : state.blocks)
      for (auto& plane : block.planes) plane.multiplier = 0;
    std::vector<Label> truth;
    const Label* y = outputs.data();
    const Label* end = y + outputs.size();
    for (size_t p = 0; p < blocks.size(); ++p) {
      const int64_t i = blocks.data()[p];
      if (i < 0 || i >= static_cast<int64_t>(state.blocks.size()) || end - y < state.structure.output_size(i))
        throw std::invalid_argument("the kept outputs do not fit the examples");
      restore_plane(i, y, multipliers.data()[p], truth);
      y += state.structure.output_size(i);
    }
    if (y != end) throw std::invalid_argument("the kept outputs do not fit the examples");
    held_ = state.held();
    state.refresh();
  }

  // Takes w of multipliers that are fixed from now on; those that are kept add to it.
  void freeze(Array1<double> w) {
    if (static_cast<int64_t>(w.size()) != state.structure.dimension())
      throw nb::value_error("the fixed part does not fit the problem");
    state.base.assign(state.structure.weights(), 0);
    state.structure.pack(w.data(), state.base.data());
    state.refresh();
  }

  void prune(int64_t most) { held_ = state.prune(most); }
  int64_t held() const { return held_; }

  int64_t bytes() const {
    int64_t n = 0;
    for (const auto& b : state.blocks)
      n += static_cast<int64_t>(b.planes.size() * sizeof(Kept) + b.outputs.size() * sizeof(Label));
    return n;
  }

 private:
  DualAscent<Structure> ascent_;
  int64_t held_ = 0;  // bytes of all outputs, as the allocator counts them

  void restore_plane(int64_t i, const Label* y, double multiplier, std::vector<Label>& truth) {
    auto& block = state.blocks[i];
    if (block.planes.empty()) {
      truth.resize(state.structure.output_size(i));
      state.structure.truth(i, truth.data());
      // The true output with the whole mass is what a block that keeps nothing stands for.
      if (multiplier >= state.mass[i] && state.structure.same(i, y, truth.data())) return;
      state.lay(i);
      block.planes[0].multiplier = 0;
    }
    const int j = state.find(i, y);
    if (j < 0)
      state.add(i, y, multiplier);
    else
      block.planes[j].multiplier += multiplier;
  }

  // Threads on disjoint blocks and one w, without locks: an update of w may be lost, a multiplier never.
  // w is recomputed from the multipliers after each oracle pass, so the law holds to what the cached passes
  // of one round may lose; the result is not reproducible.
  VisitReport run(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                  double* slacks, int threads) {
    if constexpr (requires { Structure::one_thread; }) {
      const int64_t batch = ahead ? ahead : ascent_.worthwhile(n);
      if (threads > 1 && options.oracle && !options.slacks && batch > 1)
        return ascent_.pass_ahead(order, n, options, violations, batch, threads);
    } else {
      if (threads > 1) return race(order, n, options, violations, slacks, threads);
    }
    return ascent_.pass(order, n, options, violations, slacks);
  }

  VisitReport race(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                   double* slacks, int threads) {
    std::vector<VisitReport> reports(threads);
    VisitOptions shared = options;
    if (options.room >= 0) shared.room = options.room / threads;
    parallel(n, threads, [&](int64_t from, int64_t to, int k) {
      DualAscent<Structure> own(state);
      double* part = options.slacks ? slacks + from : slacks;
      reports[k] = own.pass(order + from, to - from, shared, violations + from, part);
    });
    VisitReport total;
    for (const auto& r : reports) total += r;
    if (options.oracle) state.refresh();
    return total;
  }
};

// Takes diag(Sigma), or Sigma itself, and lower bounds, all over flat weights; empty ones are not given.
template <class Structure>
void set_metric(Ascent<Structure>& a, Array1<double> diagonal, Array1<double> lower, Array1<double> matrix) {
  const Structure& structure = a.state.structure;
  const size_t d = static_cast<size_t>(structure.dimension());
  const auto fits = [&](size_t n, size_t wanted) { return n == 0 || n == wanted; };
  if (!fits(diagonal.size(), d) || !fits(lower.size(), d) || !fits(matrix.size(), d * d))
    throw nb::value_error("a metric must have as many weights as the model");
  if (matrix.size() && lower.size()) throw nb::value_error("bounds need a diagonal metric");
  Metric metric;
  const auto pack = [&](Array1<double> flat, double padding, std::vector<double>& to) {
    if (flat.size() == 0) return;
    to.assign(structure.weights(), padding);
    structure.pack(flat.data(), to.data());
  };
  pack(diagonal, 1, metric.diagonal);
  pack(lower, -std::numeric_limits<double>::infinity(), metric.lower);
  if (matrix.size()) {
    metric.matrix = to_vector(matrix);
    std::vector<double> number(d), place(structure.weights(), -1);
    for (size_t f = 0; f < d; ++f) number[f] = static_cast<double>(f);
    structure.pack(number.data(), place.data());
    metric.inside.assign(d, 0);
    metric.outside.assign(place.size(), 0);
    for (size_t j = 0; j < place.size(); ++j)
      if (place[j] >= 0)
        metric.outside[j] = static_cast<size_t>(place[j]), metric.inside[metric.outside[j]] = j;
  }
  a.state.set_metric(std::move(metric));
}

template <class Structure>
nb::class_<Ascent<Structure>> bind_ascent(nb::module_& m, const char* name) {
  using A = Ascent<Structure>;
  auto bound = nb::class_<A>(m, name);
  if constexpr (Move<Structure>::possible) bound.def("set_metric", &set_metric<Structure>);
  return bound.def(nb::init<const typename Structure::Data&, Array1<double>, bool>(), nb::keep_alive<1, 2>())
      .def("visit", &A::visit)
      .def_rw("ahead", &A::ahead)
      .def("subgradient", &A::subgradient)
      .def("probe", &A::probe)
      .def("weights", &A::weights)
      .def("weighted", &A::weighted)
      .def("start_average", [](A& a) { a.state.weighted.assign(a.state.structure.weights(), 0); })
      .def("set_origin",
           [](A& a, Array1<double> flat) {
             if (static_cast<int64_t>(flat.size()) != a.state.structure.dimension())
               throw nb::value_error("an origin must have as many weights as the model");
             std::vector<double> packed(a.state.structure.weights(), 0);
             a.state.structure.pack(flat.data(), packed.data());
             double square = 0;
             for (size_t j = 0; j < flat.size(); ++j) square += flat.data()[j] * flat.data()[j];
             a.state.set_origin(std::move(packed), square);
           })
      .def("support", &A::support)
      .def("support_of", &A::support_of)
      .def("survey", &A::survey)
      .def("restore", &A::restore)
      .def("clear", &A::clear)
      .def("freeze", &A::freeze)
      .def("prune", &A::prune, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("held", &A::held)
      .def(
          "refresh", [](A& a) { a.state.refresh(); }, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "dual", [](const A& a) { return a.state.dual(); }, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "offset", [](const A& a) { return a.state.offset(); }, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "recenter", [](A& a, double momentum, double k) { recenter(a.state, momentum, k); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("lag", [](const A& a) { return a.state.lag(); })
      .def("squared_distance", [](const A& a) { return squared_distance_to_center(a.state); })
      .def_prop_ro("proximity", [](const A& a) { return a.state.proximity; })
      .def_prop_ro("steps", [](const A& a) { return a.state.steps; })
      .def_prop_ro("n_planes", [](const A& a) { return a.state.planes(); })
      .def_prop_ro("bytes", &A::bytes);
}

}  // namespace mm
