#include "bindings/chain.hpp"
#include "models/slack.hpp"

namespace mm {

template <class Label>
static std::unique_ptr<Ascent> of(const ChainData& data, std::vector<double> mass, bool lean) {
  return std::make_unique<AscentOf<SlackRescaled<Chain<double, Label>>>>(data, std::move(mass), lean);
}

std::unique_ptr<Ascent> slack_chain_ascent(const ChainData& data, std::vector<double> mass, bool lean) {
  return (data.labels <= 256 ? of<uint8_t> : of<uint16_t>)(data, std::move(mass), lean);
}

}  // namespace mm
