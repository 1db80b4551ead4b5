#include <nanobind/stl/string.h>

#include "bindings/common.hpp"
#include "portable.hpp"
#include "runtime/cores.hpp"
#include "runtime/interrupt.hpp"
#include "shuffle.hpp"
#include "simd.hpp"

#define MM_STRING_(x) #x
#define MM_STRING(x) MM_STRING_(x)

void mm::check_weights(const Array1<double>& w, int64_t size) {
  const std::string text =
      "w has " + std::to_string(w.size()) + " weights, the model needs " + std::to_string(size);
  check(mm::size(w) == size, text.c_str());
}

// Python handles signals only in its main thread, so other threads need not take the interpreter's lock for them.
static unsigned long main_thread = 0;

static void raise_signals() {
  if (PyThread_get_thread_ident() != main_thread) return;
  nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Deadlines are seconds of `now`, and hold for passes that the calling thread starts.
static void bind_interrupt(nb::module_& m) {
  main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  mm::Interrupt::on_signals = &raise_signals;
  nb::exception<mm::TimeUp>(m, "TimeUp");
  m.def("now", &mm::Interrupt::now);
  m.def("set_deadline", [](double time) { return mm::Interrupt::here().set_deadline(time); });
  m.def("poll", &mm::poll);
}

NB_MODULE(MM_MODULE, m) {
  nb::set_leak_warnings(false);  // a model kept by the interpreter at exit is not a leak
  m.attr("name") = MM_STRING(MM_MODULE);
  m.attr("vector_bytes") = mm::vector_bytes;
  m.def("runs_v3", &mm::runs_v3, "Whether this machine runs code compiled for x86-64-v3.");
  m.def("shuffled", [](mm::Array1<int64_t> numbers, uint64_t seed) {
    std::vector<int64_t> order(numbers.data(), numbers.data() + mm::size(numbers));
    mm::shuffle(order, seed);
    return mm::to_numpy(std::move(order));
  });
  m.def("usable_cores", &mm::usable_cores, "The number of cores that this process may use.");
  m.def("cgroup_cores", &mm::cgroup_cores, nb::arg("root") = "",
        "The CPU quota of the cgroups of this process, in cores.");
  bind_interrupt(m);
  for (const bool kind : {true, false})
    for (const auto bind : mm::Bindings::all(kind)) bind(m);
}
