#include "bindings/chain.hpp"

namespace mm {

// With more labels than fit a byte it is a LargeChain.
std::unique_ptr<Ascent> chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                     bool lean) {
  if (single) return std::make_unique<AscentOf<Chain<float, uint8_t>>>(data, std::move(mass), lean);
  return std::make_unique<AscentOf<Chain<double, uint8_t>>>(data, std::move(mass), lean);
}

}  // namespace mm
