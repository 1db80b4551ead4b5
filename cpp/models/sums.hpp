// The summed error of a block: sum_y max(0, s_i(y)) over all outputs, exactly or between bounds.
//
//   one label an example:  every label is tried
//   chains:                all violators are listed, or bracketed where they are too many (chain_sums.hpp)
//   other structures:      no output violates more than the best one, and nothing bounds their sum
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain_sums.hpp"
#include "runtime/threads.hpp"

namespace mm {

template <class Structure>
concept OneLabel = requires { Structure::one_label; };
template <class Structure>
concept ListsScores = requires(const Structure& s, typename Structure::Scratch& scratch, ChainSums& sums) {
  s.list_scores(scratch, sums);
};

template <class Structure>
class Sums {
 public:
  using Label = typename Structure::Label;
  using Real = typename Structure::Real;

  // `most`: violators of a block that are listed; `work`: steps of a bracket, else.
  static SumBounds of(const Structure& structure, typename Structure::Scratch& s, ChainSums& sums,
                      int64_t block, const Real* W, int64_t most, int64_t work, std::vector<Label>& y) {
    structure.open(block, W, s, true, 1);
    y.resize(structure.output_size(block));
    structure.truth(block, y.data());
    if constexpr (OneLabel<Structure>) {
      const double own = structure.score(s, y.data());
      double sum = 0;
      for (Label k = 0; k < structure.labels(); ++k)
        if (k != y[0]) sum += std::max(0.0, structure.score(s, &k) - own);
      return {sum, sum};
    } else {
      if constexpr (ListsScores<Structure>) {
        if (structure.can_list()) {
          structure.list_scores(s, sums);
          return sums.sum(most, work);
        }
      }
      const double own = structure.score(s, y.data());
      const double found = structure.best(s, W, y.data()) - own;
      return {std::max(0.0, found), std::numeric_limits<double>::infinity()};
    }
  }

  static void all(const Structure& structure, const Real* W, int threads, int64_t most, int64_t work,
                  double* floors, double* ceilings) {
    parallel(structure.blocks(), threads, [&](int64_t from, int64_t to, int) {
      auto s = structure.scratch();
      ChainSums sums;
      std::vector<Label> y;
      for (int64_t i = from; i < to; ++i) {
        poll();
        const SumBounds found = of(structure, s, sums, i, W, most, work, y);
        floors[i] = found.floor, ceilings[i] = found.ceiling;
      }
    });
  }
};

}  // namespace mm
