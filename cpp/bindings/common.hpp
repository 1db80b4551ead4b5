// Conversions shared by the bindings.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace nb = nanobind;

namespace mm {

template <class T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Result<T> to_numpy(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Result<T>(kept->data(), {kept->size()}, owner);
}

template <class T>
std::vector<T> to_vector(const Array1<T>& a) {
  return std::vector<T>(a.data(), a.data() + a.size());
}

void bind_features(nb::module_& m);
void bind_binary(nb::module_& m);
void bind_multiclass(nb::module_& m);
void bind_chain(nb::module_& m);
void bind_gdmm(nb::module_& m);
void bind_grammar(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_factor_graph(nb::module_& m);
void bind_gdmm_graph(nb::module_& m);
void bind_gdmm_labels(nb::module_& m);
void bind_explicit(nb::module_& m);
void bind_simplex_qp(nb::module_& m);

}  // namespace mm
