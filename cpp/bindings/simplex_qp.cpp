#include "solvers/simplex_qp.hpp"

#include "bindings/common.hpp"

namespace mm {

static void bind_simplex_qp(nb::module_& m) {
  using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  using Variable = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def("simplex_qp", [](Matrix H, Array1<double> b, Variable beta, double tolerance, int64_t most) {
    const int64_t n = static_cast<int64_t>(b.size());
    if (static_cast<int64_t>(beta.size()) != n || static_cast<int64_t>(H.shape(0)) < n ||
        static_cast<int64_t>(H.shape(1)) < n)
      throw nb::value_error("simplex_qp: sizes do not fit");
    nb::gil_scoped_release release;
    return simplex_qp(H.data(), static_cast<int64_t>(H.shape(1)), b.data(), beta.data(), n, tolerance, most);
  });
}

static const Bindings simplex_qp_bindings(&bind_simplex_qp);

}  // namespace mm
