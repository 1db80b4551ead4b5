// Binds everything that the data of a compiled model can do, in one line: `bind_powers<Ranking>(kind)`, with its
// structure.
//
// If the structure of a model depends on the data or on the formulation, call `bind_powers(kind)` and write
//   any_structure(data, rescaling)                     the structure for a formulation, behind virtual calls
// Any model may also have
//   make_ascent(data, rescaling, single, mass, lean)   a dual state (hinge "max") that is compiled for its structure
//   make_coordinate(data, single, mass)                dual coordinate ascent over explicit constraints
//   bind_box_of<FactorGraph>(kind)                     the box of multipliers (hinge "sum") of a structure
#pragma once

#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <type_traits>

#include "bindings/common.hpp"
#include "models/exact.hpp"
#include "models/slack.hpp"
#include "models/wide.hpp"
#include "solvers/ascent.hpp"
#include "solvers/box.hpp"
#include "solvers/coordinate.hpp"

namespace mm {

// These are compiled in box.cpp and ascent.cpp.
extern template class BoxOf<AnyStructure<uint16_t>>;
extern template class BoxOf<AnyStructure<int32_t>>;
extern template class AscentOf<AnyStructure<uint16_t>>;
extern template class AscentOf<AnyStructure<int32_t>>;

enum class Rescaling { margin, slack };

inline Rescaling rescaling_of(const std::string& name) {
  if (name == "margin") return Rescaling::margin;
  if (name == "slack") return Rescaling::slack;
  throw nb::value_error(("no such rescaling: " + name).c_str());
}

template <class Plain>
std::unique_ptr<AnyStructure<typename Plain::Label>> erased(const typename Plain::Data& data,
                                                            Rescaling rescaling) {
  std::unique_ptr<AnyStructure<typename Plain::Label>> plain = std::make_unique<Erased<Plain>>(data);
  return rescaling == Rescaling::margin ? std::move(plain) : slack_rescaled(std::move(plain));
}

// The structure S behind virtual calls, or the one that the model's any_structure returns.
template <class S, class Data>
auto structure_of(const Data& data, Rescaling rescaling) {
  if constexpr (std::is_void_v<S>)
    return any_structure(data, rescaling);
  else
    return erased<S>(data, rescaling);
}

// Makes AscentOf or CoordinateOf a structure: make<AscentOf, Binary<float>>(data, mass, lean).
template <template <Structure> class Of, class S, class... Options>
std::unique_ptr<Of<S>> make(const typename S::Data& data, std::vector<double>&& mass, Options... options) {
  return std::make_unique<Of<S>>(std::make_unique<S>(data), std::move(mass), options...);
}
// Makes AscentOf or BoxOf a structure behind virtual calls: any<AscentOf>(erased<Plain>(data, rescaling), mass, lean).
template <template <Structure> class Of, class Label>
auto any(std::unique_ptr<AnyStructure<Label>> structure, std::vector<double>&& mass, bool option) {
  return std::make_unique<Of<AnyStructure<Label>>>(std::move(structure), std::move(mass), option);
}

template <class Data>
std::vector<double> masses(const Data& data, const Array1<double>& mass) {
  check(size(mass) == data.blocks(), "masses do not fit the examples");
  return to_vector(mass);
}

template <class S = void, class Data>
void bind_powers(nb::class_<Data>& kind) {
  using Name = const char*;
  const nb::keep_alive<0, 1> with_data;
  kind.def(
      "exact",
      [](const Data& d, Name r) {
        return std::make_unique<Exact>(widened(structure_of<S>(d, rescaling_of(r))));
      },
      with_data);
  kind.def(
      "cache",
      [](const Data& d, Name r, int capacity) {
        return std::make_unique<OutputCache>(widened(structure_of<S>(d, rescaling_of(r))), capacity);
      },
      with_data);
  kind.def(
      "ascent",
      [](const Data& d, Name r, bool single, Array1<double> mass, bool lean) -> std::unique_ptr<Ascent> {
        if constexpr (requires { make_ascent(d, rescaling_of(r), single, masses(d, mass), lean); })
          return make_ascent(d, rescaling_of(r), single, masses(d, mass), lean);
        else
          return any<AscentOf>(structure_of<S>(d, rescaling_of(r)), masses(d, mass), lean);
      },
      with_data);
  if constexpr (requires(const Data& d) { make_coordinate(d, true, std::vector<double>()); })
    kind.def(
        "coordinate",
        [](const Data& d, bool single, Array1<double> mass) {
          return make_coordinate(d, single, masses(d, mass));
        },
        with_data);
}

template <class S, class Data>
void bind_box_of(nb::class_<Data>& kind) {
  kind.def(
      "box",
      [](const Data& d, const char* r, Array1<double> mass, bool complete) -> std::unique_ptr<Box> {
        return any<BoxOf>(erased<S>(d, rescaling_of(r)), masses(d, mass), complete);
      },
      nb::keep_alive<0, 1>());
}

// Returns the k best outputs of an example, or fewer if fewer exist: labels one after the other, and scores.
template <class S>
nb::tuple best_k(const typename S::Data& data, Array1<double> w, int64_t block, int k) {
  check_weights(w, data.dimension());
  check_block(data, block);
  std::vector<int32_t> outputs;
  std::vector<double> scores;
  unlocked([&] {
    const S structure(data);
    aligned<double> W(structure.weights());
    structure.pack(w.data(), W.data());
    auto s = structure.scratch();
    structure.open(block, W.data(), s, false, 1);
    structure.best_k(s, W.data(), k, outputs, scores);
  });
  return nb::make_tuple(to_numpy(std::move(outputs)), to_numpy(std::move(scores)));
}

}  // namespace mm
