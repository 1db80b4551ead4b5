#include "bindings/chain.hpp"

namespace mm {

std::unique_ptr<Ascent> chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                     bool lean) {
  if (data.labels > 256)  // does not fit a byte
    return std::make_unique<AscentOf<Chain<double, uint16_t>>>(data, std::move(mass), lean);
  if (single) return std::make_unique<AscentOf<Chain<float, uint8_t>>>(data, std::move(mass), lean);
  return std::make_unique<AscentOf<Chain<double, uint8_t>>>(data, std::move(mass), lean);
}

}  // namespace mm
