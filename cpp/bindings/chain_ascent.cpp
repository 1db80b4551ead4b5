#include "bindings/chain.hpp"
#include "bindings/powers.hpp"

namespace mm {

std::unique_ptr<Ascent> chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                     bool lean) {
  if (single) return make<AscentOf, Chain<float, uint8_t>>(data, std::move(mass), lean);
  return make<AscentOf, Chain<double, uint8_t>>(data, std::move(mass), lean);
}

}  // namespace mm
