#include "solvers/soft_ascent.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/powers.hpp"
#include "models/binary.hpp"
#include "models/chain.hpp"
#include "models/multiclass.hpp"
#include "solvers/soft_gradient.hpp"

namespace mm {

template <class Single, class Double>
static void bind_for(nb::module_& m) {
  using Data = typename Single::Data;
  m.def(
      "soft_ascent",
      [](const Data& data, Array1<double> mass, bool augmented, double height, bool single,
         int threads) -> std::unique_ptr<SoftAscent> {
        auto own = masses(data, mass);
        return unlocked([&]() -> std::unique_ptr<SoftAscent> {
          if (single)
            return std::make_unique<SoftAscentOf<Single>>(data, std::move(own), augmented, height, threads);
          return std::make_unique<SoftAscentOf<Double>>(data, std::move(own), augmented, height, threads);
        });
      },
      nb::keep_alive<0, 1>());
  m.def(
      "soft_gradient",
      [](const Data& data, Array1<double> mass, bool augmented, double first, double count,
         std::optional<Array1<double>> linear) -> std::unique_ptr<SoftGradient> {
        check(first > 0, "time must begin above 0");
        if (linear) check_weights(*linear, Double(data).dimension());
        return std::make_unique<SoftGradientOf<Double>>(data, masses(data, mass), augmented, first, count,
                                                        linear ? linear->data() : nullptr);
      },
      nb::keep_alive<0, 1>());
}

template <class State>
static void check_order(const State& state, const Array1<int64_t>& order) {
  if (!within(order, 0, state.blocks())) throw nb::index_error("no such example");
}
static nb::tuple visit_soft(SoftAscent& state, Array1<int64_t> order) {
  check_order(state, order);
  SoftReport report = unlocked([&] { return state.visit(order.data(), size(order)); });
  return nb::make_tuple(to_numpy(std::move(report.shares)), report.gain, report.halved, report.visited);
}

static void bind_soft_ascent(nb::module_& m) {
  nb::class_<SoftAscent>(m, "SoftAscent")
      .def_prop_ro("potentials", &SoftAscent::potentials)
      .def_prop_ro("proximity", &SoftAscent::proximity)
      .def("visit", &visit_soft)
      .def("recenter", &SoftAscent::recenter)
      .def("set_center",
           [](SoftAscent& state, Array1<double> w, double k) {
             check_weights(w, state.dimension());
             state.set_center(w.data(), k);
           })
      .def("squared_distance", &SoftAscent::squared_distance)
      .def("dual", &SoftAscent::dual)
      .def("weights", &weights_of<SoftAscent>)
      .def("set_origin", &set_origin<SoftAscent>)
      .def("rebuild", [](SoftAscent& state) { unlocked([&] { state.rebuild(); }); })
      .def("read",
           [](SoftAscent& state, Array1<float> theta) {
             check(size(theta) == state.potentials(), "potentials that do not fit the examples");
             unlocked([&] { state.read(theta.data()); });
           })
      .def("write", [](const SoftAscent& state) {
        return filled<float>(state.potentials(), [&](float* theta) { state.write(theta); });
      });
  nb::class_<SoftGradient>(m, "SoftGradient")
      .def("visit",
           [](SoftGradient& state, Array1<int64_t> order) {
             check_order(state, order);
             unlocked([&] { state.visit(order.data(), size(order)); });
           })
      .def_prop_ro("time", &SoftGradient::time)
      .def("go_on",
           [](SoftGradient& state, double time, Array1<double> w) {
             check(time > 0, "time must be above 0");
             check_weights(w, state.dimension());
             state.go_on(time, w.data());
           })
      .def("weights", &weights_of<SoftGradient>);
  bind_for<Chain<float, uint16_t>, Chain<double, uint16_t>>(m);
  bind_for<Multiclass<float>, Multiclass<double>>(m);
  bind_for<Binary<float>, Binary<double>>(m);
}

// Registered after the data types of the models, which are arguments of these functions.
static const Bindings soft_ascent_bindings(&bind_soft_ascent);

}  // namespace mm
