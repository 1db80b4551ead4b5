// Conversions shared by the bindings.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "offsets.hpp"
#include "runtime/pages.hpp"

namespace nb = nanobind;

namespace mm {

template <class T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T, class Allocator>
Result<T> to_numpy(std::vector<T, Allocator>&& values) {
  using Values = std::vector<T, Allocator>;
  auto* kept = new Values(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
  return Result<T>(kept->data(), {kept->size()}, owner);
}

template <class T>
std::vector<T> to_vector(const Array1<T>& a) {
  return std::vector<T>(a.data(), a.data() + a.size());
}

template <class T>
int64_t size(const Array1<T>& a) {
  return static_cast<int64_t>(a.size());
}

inline void check(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}
// Whether all numbers of an array are in [from, end).
template <class Numbers>
bool within(const Numbers& numbers, int64_t from, int64_t end) {
  return std::all_of(numbers.data(), numbers.data() + numbers.size(),
                     [&](int64_t x) { return x >= from && x < end; });
}
template <class Data>
void check_block(const Data& data, int64_t block) {
  if (block < 0 || block >= data.blocks()) throw nb::index_error("no such example");
}

// Calls f without the lock of the interpreter, and returns its result.
template <class F>
auto unlocked(F&& f) {
  nb::gil_scoped_release release;
  return f();
}

// Returns an array of n numbers that `fill` writes without the lock of the interpreter.
template <class T = double, class Fill>
Result<T> filled(int64_t n, Fill&& fill) {
  Zeros<T> values(static_cast<size_t>(n));
  unlocked([&] { fill(values.data()); });
  return to_numpy(std::move(values));
}

// Returns the result of f, and the vector of n numbers that f writes.
template <class F>
nb::tuple with_vector(int64_t n, F&& f) {
  double value = 0;
  auto vector = filled(n, [&](double* sum) { value = f(sum); });
  return nb::make_tuple(value, std::move(vector));
}

void check_weights(const Array1<double>& w, int64_t size);  // in module.cpp

// Cached outputs, as uint8, uint16 or int32.
using LabelArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline LabelView view(const LabelArray& labels) {
  const nb::dlpack::dtype type = labels.dtype();
  if (type != nb::dtype<uint8_t>() && type != nb::dtype<uint16_t>() && type != nb::dtype<int32_t>())
    throw nb::type_error("labels must be of type uint8, uint16 or int32");
  return {labels.data(), labels.size(), static_cast<size_t>(type.bits / 8)};
}
inline nb::object to_numpy(Labels&& labels) {
  return std::visit([](auto& own) { return nb::cast(to_numpy(std::move(own))); }, labels);
}
inline nb::tuple to_numpy(SupportArrays&& support) {
  return nb::make_tuple(to_numpy(std::move(support.blocks)), to_numpy(std::move(support.multipliers)),
                        to_numpy(std::move(support.outputs)));
}

// A file of bindings registers its function by `static const Bindings chain_bindings(&bind_chain)`. The module calls
// all these functions, base classes first. Names must be unique, because several files are compiled as one.
struct Bindings {
  using Bind = void (*)(nb::module_&);
  static std::vector<Bind>& all(bool kind) {
    static std::vector<Bind> lists[2];
    return lists[kind];
  }
  explicit Bindings(Bind bind, bool kind = false) { all(kind).push_back(bind); }
};

// An empty array means that the argument is not given.
inline const double* given(const Array1<double>& values, int64_t size) {
  if (values.size() == 0) return nullptr;
  check_weights(values, size);
  return values.data();
}

template <class State>
Result<double> weights_of(const State& state) {
  return filled(state.dimension(), [&](double* flat) { state.weights(flat); });
}

// The prior of a state: its mean, and its metric with bounds.
template <class State>
void set_origin(State& state, Array1<double> mean) {
  check_weights(mean, state.dimension());
  state.set_origin(mean.data());
}
template <class State>
void bind_prior(nb::class_<State>& kind) {
  kind.def("set_origin", &set_origin<State>)
      .def("set_metric", [](State& a, Array1<double> diagonal, Array1<double> lower, Array1<double> matrix) {
        const int64_t d = a.dimension();
        a.set_metric(given(diagonal, d), given(lower, d), given(matrix, d * d));
      });
}

}  // namespace mm
