// Slack rescaling of any structure: the plane of an output is (Delta, Delta * psi).
//
//     s(y) = Delta(y) (c + <w, psi(y)>),   c = 1, or the scale of the loss in the subgradient method
//     a move sum_j c_j Delta_j psi_j puts c_j Delta_j on y_j and minus their sum on the true output
//
// The base structure implements `best_slack`, the argmax of s. If its `slack_argmax()` is false, the output
// is found by a search over the loss multiplier. Scores are absolute here (s of the true output is 0), so
// that a visit opens the whole block.
#pragma once

#include <memory>

#include "models/any_structure.hpp"

namespace mm {

template <class Label>
std::unique_ptr<AnyStructure<Label>> slack_rescaled(std::unique_ptr<AnyStructure<Label>> base);

}  // namespace mm
