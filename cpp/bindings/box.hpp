// The box of multipliers of the summed error, and its passes, bound once for every structure.
#pragma once

#include <stdexcept>

#include "bindings/common.hpp"
#include "solvers/set_ascent.hpp"

namespace mm {

template <class Structure>
class Box {
 public:
  using Label = typename Structure::Label;
  using Real = typename Structure::Real;
  DualState<Structure> state;

  // complete: V_i holds every output from the start
  Box(const typename Structure::Data& data, Array1<double> mass, bool complete)
      : state(data, to_vector(mass)), complete_(complete), ascent_(state, complete), sets_(state, complete) {
    if (static_cast<int64_t>(mass.size()) != state.structure.blocks())
      throw nb::value_error("masses do not fit the examples");
    if (complete)
      for (size_t i = 0; i < state.blocks.size(); ++i)
        BoxAscent<Structure>::fill(state, static_cast<int64_t>(i));
  }

  nb::tuple visit(Array1<int64_t> order, bool oracle, bool update, int keep, int threads) {
    const BoxOptions options{oracle, update, keep};
    const int64_t n = static_cast<int64_t>(order.size());
    BoxReport r;
    {
      nb::gil_scoped_release release;
      r = threads > 1 ? race(order.data(), n, options, threads) : ascent_.pass(order.data(), n, options);
    }
    return nb::make_tuple(r.oracle_calls, r.found, r.gap, r.change);
  }

  nb::tuple visit_sets(Array1<int64_t> order, bool oracle, double tolerance) {
    SetReport r;
    {
      nb::gil_scoped_release release;
      r = sets_.pass(order.data(), static_cast<int64_t>(order.size()), oracle, tolerance);
    }
    return nb::make_tuple(r.oracle_calls, r.found, r.violation, r.gain);
  }

  // A cut at w: slacks over V_i, offset, vector, which kept outputs violate (by number), calls, new outputs
  nb::tuple cut(Array1<double> w, bool oracle, int threads) {
    check(w);
    std::vector<double> slacks(state.blocks.size()), vector, flat(state.structure.dimension());
    std::vector<uint8_t> flags;
    CutReport r;
    {
      nb::gil_scoped_release release;
      const auto W = packed(w);
      r = cut_of_violators(state, complete_, W.data(), oracle, threads, slacks.data(), vector);
      state.structure.unpack(vector.data(), flat.data());
      number();
      flags.assign(count_, 0);
      each_number(
          [&](int64_t i, int j, int64_t k) { flags[k] = state.blocks[i].planes[j].stamp == state.clock; });
    }
    return nb::make_tuple(to_numpy(std::move(slacks)), r.offset, to_numpy(std::move(flat)),
                          to_numpy(std::move(flags)), r.oracle_calls, r.found);
  }

  // Multipliers of the kept outputs by number, as parts of their masses; and back.
  Result<double> shares() {
    number();
    std::vector<double> shares(count_, 0);
    each_number([&](int64_t i, int j, int64_t k) {
      shares[k] = state.mass[i] > 0 ? state.blocks[i].planes[j].multiplier / state.mass[i] : 0;
    });
    return to_numpy(std::move(shares));
  }
  void set_shares(Array1<double> shares) {
    number();
    each_number([&](int64_t i, int j, int64_t k) {
      const double part = k < static_cast<int64_t>(shares.size()) ? shares.data()[k] : 0;
      state.blocks[i].planes[j].multiplier = std::min(state.mass[i], part * state.mass[i]);
    });
  }

  // Violators at w (none: at the running w) that are not kept yet join, up to `most` for a block.
  int64_t widen(Array1<double> w, bool running, int64_t most, int threads) {
    if (!running) check(w);
    nb::gil_scoped_release release;
    const aligned<Real> given = running ? aligned<Real>() : packed(w);
    const Real* W = running ? state.W.data() : given.data();
    std::vector<int64_t> found(most_threads, 0);
    parallel(static_cast<int64_t>(state.blocks.size()), threads, [&](int64_t from, int64_t to, int k) {
      auto s = state.structure.scratch();
      ChainSums sums;
      for (int64_t i = from; i < to; ++i)
        if (poll(); state.mass[i] > 0) found[k] += mm::widen(state, W, i, most, s, sums);
    });
    int64_t total = 0;
    for (int64_t f : found) total += f;
    return total;
  }

  Result<double> weights() const {
    std::vector<double> flat(state.structure.dimension());
    {
      nb::gil_scoped_release release;
      std::vector<double> w;
      state.law(w);
      state.structure.unpack(w.data(), flat.data());
    }
    return to_numpy(std::move(flat));
  }

  nb::tuple support() const {
    std::vector<int64_t> blocks;
    std::vector<double> multipliers;
    std::vector<Label> outputs;
    for (size_t i = 0; i < state.blocks.size(); ++i)
      for (size_t j = 1; j < state.blocks[i].planes.size(); ++j) {
        const double a = state.blocks[i].planes[j].multiplier;
        if (a <= 0) continue;
        const Label* y = state.output(static_cast<int64_t>(i), static_cast<int>(j));
        blocks.push_back(static_cast<int64_t>(i)), multipliers.push_back(a);
        outputs.insert(outputs.end(), y, y + state.structure.output_size(i));
      }
    return nb::make_tuple(to_numpy(std::move(blocks)), to_numpy(std::move(multipliers)),
                          to_numpy(std::move(outputs)));
  }

  // Multipliers from outside, no more of each than its block's mass.
  void restore(Array1<int64_t> blocks, Array1<double> multipliers, Array1<Label> outputs) {
    const Label *y = outputs.data(), *end = y + outputs.size();
    for (size_t p = 0; p < blocks.size(); ++p) {
      const int64_t i = blocks.data()[p];
      if (i < 0 || i >= static_cast<int64_t>(state.blocks.size()) || end - y < state.structure.output_size(i))
        throw std::invalid_argument("the kept outputs do not fit the examples");
      restore_plane(i, y, std::max(0.0, multipliers.data()[p]));
      y += state.structure.output_size(i);
    }
    if (y != end) throw std::invalid_argument("the kept outputs do not fit the examples");
    state.refresh();
  }

  int64_t kept() const {
    int64_t n = 0;
    for (const auto& b : state.blocks) n += std::max<int64_t>(1, static_cast<int64_t>(b.planes.size())) - 1;
    return n;
  }
  int64_t sets() const { return sets_.sets(); }
  void adopt_sets() { sets_.adopt(); }
  void tell_sets() { sets_.tell(); }
  // A plane that was given joins V_i, whatever is there.
  void keep(int64_t i, Label y) {
    BoxAscent<Structure>::lay_truth(state, i);
    state.add(i, &y, 0);
  }

 private:
  bool complete_;
  BoxAscent<Structure> ascent_;
  SetAscent<Structure> sets_;
  std::vector<std::vector<int64_t>> numbers_;  // of the kept outputs, in the order in which they came
  int64_t count_ = 0;

  void check(const Array1<double>& w) const {
    if (static_cast<int64_t>(w.size()) != state.structure.dimension())
      throw nb::value_error("w does not fit the model");
  }
  aligned<Real> packed(const Array1<double>& w) const {
    aligned<Real> W(state.structure.weights());
    state.structure.pack(w.data(), W.data());
    return W;
  }
  void number() {
    numbers_.resize(state.blocks.size());
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i].empty()) numbers_[i].push_back(-1);  // the true output
      while (numbers_[i].size() < state.blocks[i].planes.size()) numbers_[i].push_back(count_++);
    }
  }
  template <class F>
  void each_number(F&& f) const {
    for (size_t i = 0; i < numbers_.size(); ++i)
      for (size_t j = 1; j < numbers_[i].size(); ++j)
        f(static_cast<int64_t>(i), static_cast<int>(j), numbers_[i][j]);
  }

  void restore_plane(int64_t i, const Label* y, double a) {
    BoxAscent<Structure>::lay_truth(state, i);
    auto& planes = state.blocks[i].planes;
    for (int j = 0; a > 0 && j < static_cast<int>(planes.size()); ++j) {
      if (!state.structure.same(i, state.output(i, j), y)) continue;
      if (j == 0) return;  // the true output
      const double part = std::min(a, state.mass[i] - planes[j].multiplier);
      planes[j].multiplier += part, a -= part;
      if (!Structure::given_planes || a <= 0) return;  // outputs of one plane may stand several times
    }
    const int j = state.find(i, y);
    if (j < 0) state.add(i, y, std::min(a, state.mass[i]));
  }

  // Threads on disjoint blocks and one w, without locks, as in bindings/ascent.hpp.
  BoxReport race(const int64_t* order, int64_t n, const BoxOptions& options, int threads) {
    std::vector<BoxReport> reports(std::min<int64_t>(threads, most_threads));
    parallel(n, threads, [&](int64_t from, int64_t to, int k) {
      BoxAscent<Structure> own(state, complete_);
      reports[k] = own.pass(order + from, to - from, options);
    });
    BoxReport total;
    for (const auto& r : reports) total += r;
    if (options.update) state.refresh();
    return total;
  }
};

template <class Structure>
nb::class_<Box<Structure>> bind_box(nb::module_& m, const char* name) {
  using B = Box<Structure>;
  return nb::class_<B>(m, name)
      .def(nb::init<const typename Structure::Data&, Array1<double>, bool>(), nb::keep_alive<1, 2>())
      .def("visit", &B::visit)
      .def("visit_sets", &B::visit_sets)
      .def("cut", &B::cut)
      .def("shares", &B::shares)
      .def("set_shares", &B::set_shares)
      .def("widen", &B::widen)
      .def("weights", &B::weights)
      .def("support", &B::support)
      .def("restore", &B::restore)
      .def("adopt_sets", &B::adopt_sets)
      .def("tell_sets", &B::tell_sets)
      .def(
          "refresh", [](B& b) { b.state.refresh(); }, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "dual", [](const B& b) { return b.state.dual(); }, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("kept", &B::kept)
      .def_prop_ro("sets", &B::sets);
}

}  // namespace mm
