// Random numbers and orders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mm {

// Returns the next random number of SplitMix64.
inline uint64_t mixed(uint64_t& seed) {
  uint64_t z = seed += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Shuffles by Fisher and Yates; returns the next seed.
inline uint64_t shuffle(std::vector<int64_t>& order, uint64_t seed) {
  for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[((mixed(seed) >> 32) * k) >> 32]);
  return seed;
}

// Shuffles runs of neighbouring blocks, and visits the blocks of a run in order, so that the processor reads
// memory ahead. If blocks are stored in a random order, this does not increase the number of visits that
// training needs.
class Runs {
 public:
  // Longer runs mix the blocks less; shorter ones read memory out of order more often.
  static constexpr size_t length = 16;
  // Returns the next seed.
  uint64_t shuffle(std::vector<int64_t>& order, uint64_t seed) {
    const size_t n = order.size(), lead = 1 + seed % length;  // the runs start at other blocks each time
    first_.clear();
    for (size_t k = 0; k < n; k = k == 0 ? lead : k + length) first_.push_back(static_cast<int64_t>(k));
    seed = mm::shuffle(first_, seed);
    arranged_.clear();
    for (const int64_t k : first_) {
      const size_t last = std::min(n, k == 0 ? lead : static_cast<size_t>(k) + length);
      arranged_.insert(arranged_.end(), order.begin() + k, order.begin() + static_cast<int64_t>(last));
    }
    order.swap(arranged_);
    return seed;
  }

 private:
  std::vector<int64_t> first_, arranged_;
};

}  // namespace mm
