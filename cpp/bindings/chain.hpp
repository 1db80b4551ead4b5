// The dual states of chains, in files of their own: they take the compiler longest.
#pragma once

#include <memory>
#include <vector>

#include "models/chain.hpp"
#include "solvers/ascent.hpp"

namespace mm {

std::unique_ptr<Ascent> chain_ascent(const ChainData& data, bool single, std::vector<double> mass, bool lean);
std::unique_ptr<Ascent> large_chain_ascent(const ChainData& data, bool single, std::vector<double> mass,
                                           bool lean);

}  // namespace mm
