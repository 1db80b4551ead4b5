// States of chains for solvers. They have files of their own, since they take the compiler longest.
#pragma once

#include <memory>
#include <vector>

#include "models/any_structure.hpp"
#include "models/chain.hpp"
#include "solvers/ascent.hpp"

namespace mm {

std::unique_ptr<Ascent> chain_ascent(const ChainData& data, bool single, std::vector<double> mass, bool lean);
std::unique_ptr<AnyStructure<uint16_t>> large_chain(const ChainData& data);
std::unique_ptr<Ascent> large_chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                           bool lean);

}  // namespace mm
