#include "models/explicit.hpp"

#include "bindings/common.hpp"
#include "solvers/ascent.hpp"
#include "solvers/box.hpp"

namespace mm {

// Binds a state of planes that Python gives. Planes can be offered to it.
template <class S, class Kind>
static nb::class_<S, Kind> bind_planes(nb::module_& m, const char* name) {
  nb::class_<S, Kind> bound(m, name);
  bound
      .def("__init__",
           [](S* self, int64_t blocks, int64_t dimension, Array1<double> mass, bool option) {
             check(size(mass) == blocks, "masses do not fit the examples");
             new (self) S(std::make_unique<Explicit>(blocks, dimension), to_vector(mass), option);
           })
      // Offers a plane to its block. Returns its number, and by how much a kept output beats it at w.
      .def("offer",
           [](S& a, int64_t block, double offset, Array1<int32_t> index, Array1<double> value,
              Array1<double> w) {
             auto& structure = a.state.structure;
             check(block >= 0 && block < structure.blocks() && index.size() == value.size() &&
                       size(w) == structure.dimension(),
                   "a plane does not fit the problem");
             check(within(index, 0, structure.dimension()), "a plane has an index outside w");
             const int32_t id = structure.add(offset, index.data(), value.data(), size(index));
             structure.offer(block, id);
             const double own = structure.at(id, w.data());
             double top = 0;  // the value of the true output
             for (const int32_t y : a.state.blocks[block].outputs)
               top = std::max(top, structure.at(y, w.data()));
             return nb::make_tuple(id, top - own);
           })
      .def("plane",
           [](const S& a, int32_t id) {
             const auto& plane = a.state.structure.plane(id);
             return nb::make_tuple(plane.offset, to_numpy(std::vector<int32_t>(plane.index)),
                                   to_numpy(std::vector<double>(plane.value)));
           })
      .def_prop_ro(
          "running",
          [](S& a) {
            const size_t size = static_cast<size_t>(a.state.structure.dimension());
            return nb::ndarray<nb::numpy, double, nb::ndim<1>>(a.state.W.data(), {size});
          },
          nb::rv_policy::reference_internal);
  return bound;
}

static void bind_explicit(nb::module_& m) {
  // For a dense a and a sparse b: the places of the nonzeros of a - b, their values, and whether all are finite and at
  // most 1e150.
  m.def("difference", [](Array1<double> a, Array1<int32_t> index, Array1<double> value) {
    std::vector<int32_t> where;
    std::vector<double> what;
    size_t next = 0;
    double finite = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      double d = a.data()[k];
      if (next < index.size() && static_cast<size_t>(index.data()[next]) == k) d -= value.data()[next++];
      if (d == 0) continue;
      finite += d * 1e158 * 0;  // above 1e150 this is NaN, too, since the square would be infinite
      where.push_back(static_cast<int32_t>(k));
      what.push_back(d);
    }
    return nb::make_tuple(to_numpy(std::move(where)), to_numpy(std::move(what)), finite == 0);
  });
  bind_planes<AscentOf<Explicit>, Ascent>(m, "ExplicitAscent");
  bind_planes<BoxOf<Explicit>, Box>(m, "ExplicitBox")
      .def("keep", [](BoxOf<Explicit>& b, int64_t block, int32_t id) {
        check_block(b.state.structure, block);
        b.keep(block, id);
      });
}

static const Bindings explicit_bindings(&bind_explicit);

}  // namespace mm
