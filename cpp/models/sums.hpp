// The summed error of a block: sum_y max(0, s_i(y)) over all outputs, exactly or between bounds.
//
//   one label per example:  every label is tried
//   chains:                 all violators are listed, or bracketed where they are too many (chain_sums.hpp)
//   other structures:       no output violates more than the best one, and nothing bounds their sum
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain_sums.hpp"

namespace mm {

template <class Structure>
concept OneLabel = requires { Structure::one_label; };
template <class Structure>
concept ListsScores = requires(const Structure& s, typename Structure::Scratch& scratch, ChainSums& sums) {
  s.list_scores(scratch, sums);
};

struct SumLimits {
  int64_t most;  // violators of a block that are listed
  int64_t work;  // steps of a bracket, else
};

template <class Structure>
SumBounds sum_of_violations(const Structure& structure, typename Structure::Scratch& s, int64_t block,
                            const typename Structure::Real* W, const SumLimits& limits) {
  using Label = typename Structure::Label;
  structure.open(block, W, s, true, 1);
  std::vector<Label> y(structure.output_size(block));
  structure.truth(block, y.data());
  const double own = structure.score(s, y.data());
  if constexpr (OneLabel<Structure>) {
    double sum = 0;
    for (Label k = 0; k < structure.labels(); ++k)
      if (k != y[0]) sum += std::max(0.0, structure.score(s, &k) - own);
    return {sum, sum};
  }
  if constexpr (ListsScores<Structure>)
    if (structure.can_list()) {
      ChainSums sums;
      structure.list_scores(s, sums);
      return sums.sum(limits.most, limits.work);
    }
  const double found = structure.best(s, W, y.data()) - own;
  return {std::max(0.0, found), std::numeric_limits<double>::infinity()};
}

}  // namespace mm
