// Labels in Python's lists: the distinct labels, and their codes. Many labels are objects of their own, anywhere in
// memory.
#include <algorithm>

#include "bindings/common.hpp"
#include "simd.hpp"

namespace mm {
namespace {

// Calls f(label) for the labels of all lists. Prefetches labels some places ahead.
template <class F>
void each_label(nb::list sequences, F&& f) {
  constexpr Py_ssize_t ahead = 8;
  for (nb::handle item : sequences) {
    const nb::object kept = nb::borrow(item);  // a label's own comparison may change the lists
    check(PyList_CheckExact(kept.ptr()), "labels must be in lists");
    for (Py_ssize_t t = 0; t < PyList_GET_SIZE(kept.ptr()); ++t) {
      if (t + ahead < PyList_GET_SIZE(kept.ptr())) fetch_ahead(PyList_GET_ITEM(kept.ptr(), t + ahead));
      f(nb::borrow(PyList_GET_ITEM(kept.ptr(), t)));
    }
  }
}

// Returns the distinct labels as keys, in the order in which they came.
nb::dict distinct_labels(nb::list sequences) {
  nb::dict found;
  each_label(sequences, [&](const nb::object& label) {
    if (!PyDict_SetDefault(found.ptr(), label.ptr(), Py_None)) throw nb::python_error();
  });
  return found;
}

// Returns the code of each label, or -1 for a label without a code.
Result<int32_t> label_codes(nb::list sequences, nb::dict codes) {
  std::vector<int32_t> found;
  size_t total = 0;
  for (nb::handle item : sequences) total += nb::len(item);
  found.reserve(total);
  each_label(sequences, [&](const nb::object& label) {
    PyObject* code = PyDict_GetItemWithError(codes.ptr(), label.ptr());
    if (!code && PyErr_Occurred()) throw nb::python_error();
    found.push_back(code ? nb::cast<int32_t>(nb::handle(code)) : -1);
  });
  return to_numpy(std::move(found));
}

}  // namespace

static void bind_labels(nb::module_& m) {
  m.def("distinct_labels", &distinct_labels);
  m.def("label_codes", &label_codes);
}

static const Bindings label_bindings(&bind_labels);

}  // namespace mm
