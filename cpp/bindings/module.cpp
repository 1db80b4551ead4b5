#include "bindings/common.hpp"
#include "simd.hpp"

#define MM_STRING_(x) #x
#define MM_STRING(x) MM_STRING_(x)

// Whether this machine runs code compiled for x86-64-v3 (AVX2, FMA and their companions).
static bool runs_v3() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

NB_MODULE(MM_MODULE, m) {
  nb::set_leak_warnings(false);  // a model kept by the interpreter at exit is no leak
  m.attr("name") = MM_STRING(MM_MODULE);
  m.attr("vector_bytes") = mm::vector_bytes;
  m.def("runs_v3", &runs_v3, "Whether this machine runs code compiled for x86-64-v3.");
  mm::bind_features(m);
  mm::bind_binary(m);
  mm::bind_multiclass(m);
  mm::bind_chain(m);
  mm::bind_gdmm(m);
  mm::bind_grammar(m);
  mm::bind_tree(m);
  mm::bind_groups(m);
  mm::bind_factor_graph(m);
  mm::bind_gdmm_graph(m);
  mm::bind_gdmm_labels(m);
  mm::bind_explicit(m);
  mm::bind_simplex_qp(m);
}
