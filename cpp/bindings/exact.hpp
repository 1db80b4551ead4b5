// The exact answers of a compiled model, bound once for every structure.
#pragma once

#include <limits>
#include <string>

#include "bindings/common.hpp"
#include "models/exact.hpp"
#include "models/sums.hpp"
#include "solvers/output_cache.hpp"

namespace mm {

template <class Structure>
void check_size(const Exact<Structure>& e, const Array1<double>& w) {
  if (static_cast<int64_t>(w.size()) != e.structure().dimension()) {
    const std::string text = "w has " + std::to_string(w.size()) + " weights, the model needs " +
                             std::to_string(e.structure().dimension());
    throw nb::value_error(text.c_str());
  }
}

// Whether outputs that were kept before are outputs of these examples.
template <class Structure>
bool knows(const Exact<Structure>& e, Array1<int64_t> blocks, Array1<typename Structure::Label> outputs) {
  const auto *y = outputs.data(), *end = y + outputs.size();
  for (size_t p = 0; p < blocks.size(); ++p) {
    const int64_t i = blocks.data()[p];
    if (i < 0 || i >= e.structure().blocks() || end - y < e.structure().output_size(i)) return false;
    if (!e.structure().valid(i, y)) return false;
    y += e.structure().output_size(i);
  }
  return y == end;
}

template <class Structure>
void check_outputs(const Exact<Structure>& e, const Array1<int64_t>& blocks,
                   const Array1<typename Structure::Label>& outputs) {
  int64_t expected = 0;
  for (size_t p = 0; p < blocks.size(); ++p) {
    const int64_t i = blocks.data()[p];
    if (i < 0 || i >= e.structure().blocks()) throw nb::index_error("no such example");
    expected += e.structure().output_size(i);
  }
  if (expected != static_cast<int64_t>(outputs.size()))
    throw nb::value_error("the outputs do not fit the examples");
  const auto* y = outputs.data();
  for (size_t p = 0; p < blocks.size(); y += e.structure().output_size(blocks.data()[p]), ++p)
    if (!e.structure().valid(blocks.data()[p], y))
      throw nb::value_error("an output holds a label that the model does not have");
}

// Some weights of the vectors of planes: an array with a row for each plane, ravelled.
template <class Structure>
Result<double> select_weights(const Exact<Structure>& e, Array1<int64_t> blocks,
                              Array1<typename Structure::Label> outputs, Array1<int64_t> columns) {
  check_outputs(e, blocks, outputs);
  for (size_t k = 0; k < columns.size(); ++k)
    if (columns.data()[k] < 0 || columns.data()[k] >= e.structure().dimension())
      throw nb::index_error("no such weight");
  std::vector<double> rows(blocks.size() * columns.size(), 0);
  {
    nb::gil_scoped_release release;
    e.select(blocks.data(), static_cast<int64_t>(blocks.size()), outputs.data(), columns.data(),
             static_cast<int64_t>(columns.size()), rows.data());
  }
  return to_numpy(std::move(rows));
}

struct SparsePlane {
  double offset = 0;
  std::vector<int32_t> index;
  std::vector<double> value;
};

// argmax_y s_i(y) of some blocks as planes, with threads over the blocks.
template <class Structure>
void worst_planes(const Exact<Structure>& e, const double* w, const int64_t* blocks, int64_t n, int threads,
                  SparsePlane* found) {
  const auto W = e.packed(w);
  const auto& structure = e.seeing(W.data());
  const double one = 1;
  parallel(n, threads, [&](int64_t from, int64_t to, int) {
    auto s = structure.scratch();
    std::vector<typename Structure::Label> y;
    std::vector<double> flat(structure.dimension());
    for (int64_t p = from; p < to; ++p) {
      poll();
      y.resize(structure.output_size(blocks[p]));
      structure.open(blocks[p], W.data(), s, true, 1);
      structure.best(s, W.data(), y.data());
      found[p].offset = e.combine(blocks + p, &one, 1, y.data(), 1, flat.data());
      for (size_t j = 0; j < flat.size(); ++j) {
        if (flat[j] == 0) continue;
        found[p].index.push_back(static_cast<int32_t>(j));
        found[p].value.push_back(flat[j]);
      }
    }
  });
}

// The cache of a structure, named after its exact answers: MulticlassExact has a MulticlassCache.
template <class Structure>
void bind_cache(nb::module_& m, const char* exact) {
  using C = OutputCache<Structure>;
  using Label = typename Structure::Label;
  static const std::string name = std::string(exact).replace(std::string(exact).rfind("Exact"), 5, "Cache");
  nb::class_<C>(m, name.c_str())
      .def(nb::init<const typename Structure::Data&, int>(), nb::keep_alive<1, 2>())
      .def("add",
           [](C& c, Array1<Label> outputs) {
             if (static_cast<int64_t>(outputs.size()) != c.labels())
               throw nb::value_error("the outputs do not fit the examples");
             nb::gil_scoped_release release;
             c.add(outputs.data());
           })
      .def("best", [](C& c, Array1<double> w, int threads) {
        if (static_cast<int64_t>(w.size()) != c.structure().dimension())
          throw nb::value_error("w does not fit the model");
        std::vector<double> xi(c.structure().blocks());
        std::vector<Label> y(c.labels());
        {
          nb::gil_scoped_release release;
          c.best(w.data(), threads, xi.data(), y.data());
        }
        return nb::make_tuple(to_numpy(std::move(xi)), to_numpy(std::move(y)));
      });
}

template <class Structure>
nb::class_<Exact<Structure>> bind_exact(nb::module_& m, const char* name) {
  using E = Exact<Structure>;
  using Label = typename Structure::Label;
  bind_cache<Structure>(m, name);
  auto bound = nb::class_<E>(m, name);
  if constexpr (E::selects) bound.def("select", &select_weights<Structure>);
  return bound.def(nb::init<const typename Structure::Data&>(), nb::keep_alive<1, 2>())
      .def_prop_ro("dimension", [](const E& e) { return e.structure().dimension(); })
      .def_prop_ro("blocks", [](const E& e) { return e.structure().blocks(); })
      .def("slacks",
           [](const E& e, Array1<double> w, int threads, bool outputs) {
             check_size(e, w);
             std::vector<double> xi(e.structure().blocks());
             std::vector<Label> y(outputs ? e.labels() : 0);
             {
               nb::gil_scoped_release release;
               e.slacks(w.data(), threads, xi.data(), outputs ? y.data() : nullptr, nullptr);
             }
             return nb::make_tuple(to_numpy(std::move(xi)), to_numpy(std::move(y)));
           })
      .def("slack_bounds",
           [](const E& e, Array1<double> w, int threads) {
             check_size(e, w);
             std::vector<double> xi(e.structure().blocks());
             std::vector<double> ceilings(xi.size(), std::numeric_limits<double>::infinity());
             {
               nb::gil_scoped_release release;
               e.slacks(w.data(), threads, xi.data(), nullptr, ceilings.data());
             }
             return nb::make_tuple(to_numpy(std::move(xi)), to_numpy(std::move(ceilings)));
           })
      // sum_y max(0, s(y)) of every block, from below and from above.
      .def("sums",
           [](const E& e, Array1<double> w, int threads, int64_t most, int64_t work) {
             check_size(e, w);
             std::vector<double> floors(e.structure().blocks()), ceilings(floors.size());
             {
               nb::gil_scoped_release release;
               const auto W = e.packed(w.data());
               Sums<Structure>::all(e.structure(), W.data(), threads, most, work, floors.data(),
                                    ceilings.data());
             }
             return nb::make_tuple(to_numpy(std::move(floors)), to_numpy(std::move(ceilings)));
           })
      // The worst plane of each of some blocks: offset, indices and values.
      .def("planes",
           [](const E& e, Array1<double> w, Array1<int64_t> blocks, int threads) {
             check_size(e, w);
             const int64_t n = static_cast<int64_t>(blocks.size());
             for (int64_t p = 0; p < n; ++p)
               if (blocks.data()[p] < 0 || blocks.data()[p] >= e.structure().blocks())
                 throw nb::index_error("no such example");
             std::vector<SparsePlane> found(n);
             {
               nb::gil_scoped_release release;
               worst_planes(e, w.data(), blocks.data(), n, threads, found.data());
             }
             nb::list planes;
             for (auto& plane : found)
               planes.append(nb::make_tuple(plane.offset, to_numpy(std::move(plane.index)),
                                            to_numpy(std::move(plane.value))));
             return planes;
           })
      .def_prop_ro("exact",
                   [](const E& e) {
                     if constexpr (requires { e.structure().exact(); })
                       return e.structure().exact();
                     else
                       return true;
                   })
      .def("predict",
           [](const E& e, Array1<double> w, int threads) {
             check_size(e, w);
             std::vector<Label> y(e.labels());
             {
               nb::gil_scoped_release release;
               e.predict(w.data(), threads, y.data());
             }
             return to_numpy(std::move(y));
           })
      .def("combine",
           [](const E& e, Array1<int64_t> blocks, Array1<double> c, Array1<Label> outputs, int threads) {
             if (c.size() != blocks.size())
               throw nb::value_error("as many multipliers as outputs are needed");
             check_outputs(e, blocks, outputs);
             std::vector<double> flat(e.structure().dimension());
             double offset = 0;
             {
               nb::gil_scoped_release release;
               offset = e.combine(blocks.data(), c.data(), static_cast<int64_t>(blocks.size()),
                                  outputs.data(), threads, flat.data());
             }
             return nb::make_tuple(offset, to_numpy(std::move(flat)));
           });
}

}  // namespace mm
