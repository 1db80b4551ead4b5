// The best few labels of a position of a chain with many labels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mm {

template <class Real>
struct Leaders {
  struct Leader {
    Real value;
    int32_t label;
  };
  static constexpr int most = 8;  // more take longer to sort; with fewer, evaluations look at more labels
  int count;
  Leader best[most];  // best first
  Real rest;          // an upper bound on the values of all other labels

  void place(Leader one) {
    if (count == most) {
      rest = std::max(rest, std::min(one.value, best[count - 1].value));
      if (one.value <= best[count - 1].value) return;
      --count;
    }
    int n = count++;
    for (; n > 0 && best[n - 1].value < one.value; --n) best[n] = best[n - 1];
    best[n] = one;
  }
};

}  // namespace mm
