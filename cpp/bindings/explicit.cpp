#include "models/explicit.hpp"

#include "bindings/ascent.hpp"

namespace mm {

void bind_explicit(nb::module_& m) {
  using A = Ascent<Explicit>;
  nb::class_<ExplicitData>(m, "ExplicitData").def(nb::init<int64_t, int64_t>());
  bind_ascent<Explicit>(m, "ExplicitAscent")
      .def("offer",
           [](A& a, int64_t block, double offset, Array1<int32_t> index, Array1<double> value) {
             const int32_t id = a.state.structure.add(offset, index.data(), value.data(),
                                                      static_cast<int64_t>(index.size()));
             a.state.structure.offer(block, id);
             return id;
           })
      .def("best_kept",
           [](const A& a, int64_t block, Array1<double> w) {  // the best score of a kept output at w
             auto s = a.state.structure.scratch();
             a.state.structure.open(block, w.data(), s, true, 1);
             double top = 0;  // of the true output
             for (const auto& y : a.state.blocks[block].outputs)
               top = std::max(top, a.state.structure.score(s, &y));
             return top;
           })
      .def("plane",
           [](const A& a, int32_t id) {
             const auto& plane = a.state.structure.plane(id);
             return nb::make_tuple(plane.offset, to_numpy(std::vector<int32_t>(plane.index)),
                                   to_numpy(std::vector<double>(plane.value)));
           })
      .def_prop_ro(
          "running",
          [](A& a) {
            return nb::ndarray<nb::numpy, double, nb::ndim<1>>(a.state.W.data(), {a.state.W.size()});
          },
          nb::rv_policy::reference_internal);
}

}  // namespace mm
