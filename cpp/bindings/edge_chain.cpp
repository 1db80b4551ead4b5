#include "models/edge_chain.hpp"

#include "bindings/powers.hpp"

namespace mm {

static void bind_edge_chain(nb::module_& m) {
  nb::class_<EdgeChainData> kind(m, "EdgeChainData");
  kind.def(
      "__init__",
      [](EdgeChainData* self, const ChainData& chain, const Features* edges, bool triples) {
        check(chain.labels <= 256, "labels must fit a byte");
        check(!edges || edges->size() == chain.offsets.back() - chain.blocks(),
              "edges do not fit the examples");
        new (self) EdgeChainData{&chain, edges, triples};
      },
      nb::arg("chain"), nb::arg("edges").none(), nb::arg("triples"), nb::keep_alive<1, 2>(),
      nb::keep_alive<1, 3>());
  kind.def("best_k", &best_k<EdgeChain>);
  bind_powers<EdgeChain>(kind);
}

static const Bindings edge_chain_bindings(&bind_edge_chain);

}  // namespace mm
