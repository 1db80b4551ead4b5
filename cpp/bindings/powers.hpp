// What data of a compiled model can be asked for, registered in one line: `bind_powers(kind)`.
//
// A model writes one function for each power that it has, which picks the structure for a formulation:
//   make_exact(data, rescaling)                        exact answers
//   make_cache(data, rescaling, capacity)              the last outputs of each example
//   make_ascent(data, rescaling, single, mass, lean)   a dual state (hinge "max")
//   make_box(data, rescaling, mass, complete)          the box of multipliers (hinge "sum")
//   make_coordinate(data, single, mass)                dual coordinate ascent over explicit constraints
#pragma once

#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>

#include "bindings/common.hpp"
#include "models/exact.hpp"
#include "models/slack.hpp"
#include "solvers/ascent.hpp"
#include "solvers/box.hpp"
#include "solvers/dual_coordinate.hpp"
#include "solvers/output_cache.hpp"

namespace mm {

enum class Rescaling { margin, slack };

inline Rescaling rescaling_of(const std::string& name) {
  if (name == "margin") return Rescaling::margin;
  if (name == "slack") return Rescaling::slack;
  throw nb::value_error(("no such rescaling: " + name).c_str());
}

template <class Data>
std::vector<double> masses(const Data& data, const Array1<double>& mass) {
  if (static_cast<int64_t>(mass.size()) != data.blocks())
    throw nb::value_error("masses do not fit the examples");
  return to_vector(mass);
}

// A power of a plain structure, or of its slack-rescaled twin: pick<Exact, ExactOf, Multiclass<double>>(...).
template <class Kind, template <Structure> class Of, class Plain, class... Arguments>
std::unique_ptr<Kind> pick(Rescaling rescaling, Arguments&&... arguments) {
  if (rescaling == Rescaling::margin)
    return std::make_unique<Of<Plain>>(std::forward<Arguments>(arguments)...);
  return std::make_unique<Of<SlackRescaled<Plain>>>(std::forward<Arguments>(arguments)...);
}

template <class Data>
void bind_powers(nb::class_<Data>& kind) {
  using Name = const char*;
  const nb::keep_alive<0, 1> with_data;
  if constexpr (requires(const Data& d) { make_exact(d, Rescaling::margin); }) {
    kind.def("exact", [](const Data& d, Name r) { return make_exact(d, rescaling_of(r)); }, with_data);
    kind.def(
        "cache", [](const Data& d, Name r, int n) { return make_cache(d, rescaling_of(r), n); }, with_data);
  }
  kind.def(
      "ascent",
      [](const Data& d, Name r, bool single, Array1<double> mass, bool lean) {
        return make_ascent(d, rescaling_of(r), single, masses(d, mass), lean);
      },
      with_data);
  if constexpr (requires(const Data& d) { make_box(d, Rescaling::margin, std::vector<double>(), true); })
    kind.def(
        "box",
        [](const Data& d, Name r, Array1<double> mass, bool complete) {
          return make_box(d, rescaling_of(r), masses(d, mass), complete);
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

}  // namespace mm
