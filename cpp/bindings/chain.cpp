#include "models/chain.hpp"

#include "bindings/ascent.hpp"
#include "bindings/box.hpp"
#include "bindings/exact.hpp"
#include "models/large_chain.hpp"
#include "models/slack.hpp"

namespace mm {

namespace {
template <class Structure>
void bind_best_k(nb::module_& m, const char* name) {
  bind_exact<Structure>(m, name).def(
      "best_k", [](const Exact<Structure>& e, Array1<double> w, int64_t block, int k) {
        check_size(e, w);
        if (block < 0 || block >= e.structure().blocks()) throw nb::index_error("no such example");
        const auto W = e.packed(w.data());
        std::vector<int32_t> labels;
        std::vector<double> scores;
        {
          nb::gil_scoped_release release;
          auto s = e.structure().scratch();
          e.structure().open(block, W.data(), s, false, 1);
          e.structure().best_k(s, W.data(), k, labels, scores);
        }
        return nb::make_tuple(to_numpy(std::move(labels)), to_numpy(std::move(scores)));
      });
}
}  // namespace

void bind_chain(nb::module_& m) {
  nb::class_<ChainData>(m, "ChainData")
      .def(
          "__init__",
          [](ChainData* self, const Features& rows, int labels, bool start, bool end, Array1<int64_t> offsets,
             Array1<int32_t> truth, Array1<double> node_weight, Array1<double> cost) {
            Costs costs{labels, to_vector(cost)};
            if (static_cast<int64_t>(truth.size()) != rows.size() || node_weight.size() != truth.size() ||
                !costs.fits() || offsets.size() == 0 || offsets.data()[offsets.size() - 1] != rows.size())
              throw nb::value_error("labels, weights or costs do not fit the examples");
            new (self) ChainData{&rows,
                                 labels,
                                 start,
                                 end,
                                 to_vector(offsets),
                                 to_vector(truth),
                                 to_vector(node_weight),
                                 std::move(costs)};
          },
          nb::keep_alive<1, 2>());
  using Structure = Chain<double, int32_t>;
  bind_best_k<Structure>(m, "ChainExact");
  bind_best_k<LargeChain<double, int32_t>>(m, "LargeChainExact");
  bind_exact<SlackRescaled<Structure>>(m, "ChainSlackExact");
  bind_ascent<SlackRescaled<Chain<double, uint8_t>>>(m, "ChainSlackAscent64x8");
  bind_ascent<SlackRescaled<Chain<double, uint16_t>>>(m, "ChainSlackAscent64x16");
  bind_ascent<Chain<float, uint8_t>>(m, "ChainAscent32x8");
  bind_ascent<Chain<double, uint8_t>>(m, "ChainAscent64x8");
  bind_ascent<Chain<float, uint16_t>>(m, "ChainAscent32x16");
  bind_ascent<Chain<double, uint16_t>>(m, "ChainAscent64x16");
  bind_ascent<LargeChain<float, uint16_t>>(m, "LargeChainAscent32x16");
  bind_ascent<LargeChain<double, uint16_t>>(m, "LargeChainAscent64x16");
  bind_box<Chain<double, uint16_t>>(m, "ChainBox");
  bind_box<SlackRescaled<Chain<double, uint16_t>>>(m, "ChainSlackBox");
}

}  // namespace mm
