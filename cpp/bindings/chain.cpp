#include "models/chain.hpp"

#include "bindings/chain.hpp"
#include "bindings/powers.hpp"
#include "models/large_chain.hpp"

namespace mm {

using Plain = Chain<double, int32_t>;
using Large = LargeChain<double, int32_t>;

static bool is_large(const ChainData& data, Rescaling rescaling) {
  return data.many && rescaling == Rescaling::margin;
}
static std::unique_ptr<Exact> make_exact(const ChainData& data, Rescaling rescaling) {
  if (is_large(data, rescaling)) return std::make_unique<ExactOf<Large>>(data);
  return pick<Exact, ExactOf, Plain>(rescaling, data);
}
static std::unique_ptr<OutputCache> make_cache(const ChainData& data, Rescaling rescaling, int capacity) {
  if (is_large(data, rescaling)) return std::make_unique<OutputCacheOf<Large>>(data, capacity);
  return pick<OutputCache, OutputCacheOf, Plain>(rescaling, data, capacity);
}
static std::unique_ptr<Ascent> make_ascent(const ChainData& data, Rescaling rescaling, bool single,
                                           std::vector<double> mass, bool lean) {
  if (is_large(data, rescaling)) return large_chain_ascent(data, single, std::move(mass), lean);
  if (rescaling == Rescaling::slack) return slack_chain_ascent(data, std::move(mass), lean);
  return chain_ascent(data, single, std::move(mass), lean);
}
static auto make_box(const ChainData& data, Rescaling rescaling, std::vector<double> mass, bool complete) {
  return pick<Box, BoxOf, Chain<double, uint16_t>>(rescaling, data, std::move(mass), complete);
}

// The k best labellings of a sequence, or as many as exist: labels one after the other, and scores.
static nb::tuple best_k(const ChainData& data, Array1<double> w, int64_t block, int k) {
  check_weights(w, data.dimension());
  if (block < 0 || block >= data.blocks()) throw nb::index_error("no such example");
  std::vector<int32_t> labels;
  std::vector<double> scores;
  {
    nb::gil_scoped_release release;
    const Plain structure(data);
    aligned<double> W(structure.weights());
    structure.pack(w.data(), W.data());
    auto s = structure.scratch();
    structure.open(block, W.data(), s, false, 1);
    structure.best_k(s, W.data(), k, labels, scores);
  }
  return nb::make_tuple(to_numpy(std::move(labels)), to_numpy(std::move(scores)));
}

void bind_chain(nb::module_& m) {
  nb::class_<ChainData> kind(m, "ChainData");
  kind.def(
      "__init__",
      [](ChainData* self, const Features& rows, int labels, bool start, bool end, Array1<int64_t> offsets,
         Array1<int32_t> truth, Array1<double> node_weight, Array1<double> cost, bool many) {
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
                             std::move(costs),
                             many};
      },
      nb::keep_alive<1, 2>());
  kind.def("best_k", &best_k).def_rw("many", &ChainData::many);
  bind_powers(kind);
}

}  // namespace mm
