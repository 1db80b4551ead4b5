// The violating outputs of a block: a list of them, or a bracket of the sum of their violations.
//
//     v(y) = c + <w, psi(y)>, with the loss in c (margin rescaling) or without (slack rescaling)
//     wanted: sum_y max(0, v(y)), or with a loss sum_y Delta(y) max(0, v(y))
//
// chain_sums.hpp implements this for chains, graph_sums.hpp for graphs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace mm {

struct SumBounds {
  double floor = 0, ceiling = 0;
};

class Violators {
 public:
  using Found = std::function<void(const int32_t* labels, double v, double loss)>;
  std::vector<double> loss;  // for each label of each node, or empty
  double constant = 0;       // c, if it is not in the scores

  virtual ~Violators() = default;
  // Call once all scores are known: returns an upper bound on max_y v(y).
  virtual double prepare() = 0;
  // Calls f for every labelling with v > least. Returns false if there are more than `most`, or if the search
  // takes too long.
  virtual bool each(int64_t most, double least, const Found& f) = 0;
  // Computes bounds of the sum in about this many steps.
  virtual SumBounds bracket(int64_t work) = 0;

  // Returns the sum of all violations; exact if at most `most` labellings violate.
  SumBounds sum(int64_t most, int64_t work) {
    if (!(prepare() > 0)) return {0, 0};
    double total = 0;
    const bool all =
        each(most, 0, [&](const int32_t*, double v, double d) { total += loss.empty() ? v : d * v; });
    if (all) return {total, total};
    SumBounds found = bracket(work);
    found.floor = std::max(found.floor, total);
    return found;
  }
};

}  // namespace mm
