#include "models/chain.hpp"

#include "bindings/chain.hpp"
#include "bindings/powers.hpp"

namespace mm {

using Plain = Chain<double, uint16_t>;

static bool is_large(const ChainData& data, Rescaling rescaling) {
  return data.many && rescaling == Rescaling::margin;
}
static std::unique_ptr<AnyStructure<uint16_t>> any_structure(const ChainData& data, Rescaling rescaling) {
  if (is_large(data, rescaling)) return large_chain(data);
  return erased<Plain>(data, rescaling);
}
static std::unique_ptr<Ascent> make_ascent(const ChainData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (is_large(data, rescaling)) return large_chain_ascent(data, single, std::move(mass), lean);
  if (data.labels > 256 || rescaling == Rescaling::slack)  // does not fit a byte, or is behind virtual calls
    return any<AscentOf>(any_structure(data, rescaling), std::move(mass), lean);
  return chain_ascent(data, single, std::move(mass), lean);
}

// Numbers that Python reads in place.
template <class T>
static auto seen(const std::vector<T>& values) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()});
}
static void bind_pairs(nb::module_& m) {
  nb::class_<Pairs>(m, "Pairs")
      .def("__init__", [](Pairs* self, Array1<int64_t> first, Array1<Pairs::Label> label,
                          int labels) { new (self) Pairs(labels, to_vector(first), to_vector(label)); })
      .def_static("observed",
                  [](const Features& rows, Array1<int32_t> truth, int labels) {
                    check(size(truth) == rows.size(), "the labels do not fit the rows");
                    return unlocked([&] { return Pairs::observed(rows, truth.data(), labels); });
                  })
      .def("__reduce__",
           [](nb::object self) {
             return nb::make_tuple(
                 self.type(), nb::make_tuple(self.attr("first"), self.attr("label"), self.attr("labels")));
           })
      .def_prop_ro("first", [](const Pairs& p) { return seen(p.first()); })
      .def_prop_ro("label", [](const Pairs& p) { return seen(p.label()); })
      .def_prop_ro("labels", &Pairs::labels)
      .def("__len__", &Pairs::size);
}

static void bind_chain(nb::module_& m) {
  bind_pairs(m);
  nb::class_<ChainData> kind(m, "ChainData");
  kind.def(
      "__init__",
      [](ChainData* self, const Features& rows, int labels, bool start, bool end, Array1<int64_t> offsets,
         Array1<int32_t> truth, Array1<double> node_weight, Array1<double> cost, bool many,
         Array1<int64_t> illegal, const Pairs* pairs) {
        Costs costs{labels, to_vector(cost)};
        const bool weighted = node_weight.size() > 0;
        check(size(truth) == rows.size() && (!weighted || node_weight.size() == truth.size()) && costs.fits(),
              "labels, weights or costs do not fit the examples");
        check_offsets(offsets, rows.size(), EmptyRanges::refused, "sequences of rows");
        const int64_t known = static_cast<int64_t>(labels) * (labels + 2);
        check(within(illegal, 0, known), "no such transition");
        check(within(truth, 0, labels), "no such label");
        check(!pairs || (pairs->features() == rows.width() && pairs->labels() == labels && !rows.gram),
              "the pairs do not fit the features");
        new (self) ChainData{{&rows, pairs},
                             labels,
                             start,
                             end,
                             to_vector(offsets),
                             to_vector(truth),
                             to_vector(node_weight),
                             std::move(costs),
                             many,
                             to_vector(illegal)};
      },
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 12>(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  kind.def("best_k", &best_k<Plain>).def_rw("many", &ChainData::many);
  kind.def("least_constant_loss", [](const ChainData& self, Array1<double> mass) {
    check(size(mass) == self.blocks(), "masses do not fit the examples");
    return self.least_constant_loss(mass.data());
  });
  kind.def("hold", [](ChainData& self, Array1<int32_t> fixed) {
    check(fixed.size() == self.truth.size(), "a label or -1 for each position");
    check(within(fixed, -1, self.labels), "no such label");
    self.fixed = to_vector(fixed);
  });
  bind_powers(kind);
  bind_box_of<Plain>(kind);
}

static const Bindings chain_bindings(&bind_chain);

}  // namespace mm
