#include "bindings/chain.hpp"
#include "bindings/powers.hpp"
#include "models/large_chain.hpp"

namespace mm {

std::unique_ptr<AnyStructure<uint16_t>> large_chain(const ChainData& data) {
  return std::make_unique<Erased<LargeChain<double, uint16_t>>>(data);
}
std::unique_ptr<Ascent> large_chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                           bool lean) {
  if (single) return make<AscentOf, LargeChain<float, uint16_t>>(data, std::move(mass), lean);
  return make<AscentOf, LargeChain<double, uint16_t>>(data, std::move(mass), lean);
}

}  // namespace mm
