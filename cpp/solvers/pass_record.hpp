// The multipliers of a pass's blocks before their updates, so that the pass can be taken back in part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "solvers/dual_state.hpp"

namespace mm {

class PassRecord {
 public:
  void clear() { blocks_.clear(), multipliers_.clear(); }

  // Call this before the update of a block. A block without kept outputs has all of its mass on the true output.
  void save(int64_t block, const std::vector<Kept>& planes, double mass) {
    const size_t first = multipliers_.size();
    if (planes.empty()) multipliers_.push_back(mass);
    for (const Kept& plane : planes) multipliers_.push_back(plane.multiplier);
    blocks_.push_back({block, first, multipliers_.size() - first});
  }

  // Call this before output j of the visited block is removed and the last one takes its place. Returns false if the
  // output had a multiplier before the pass: then it must stay.
  bool forget(int64_t block, int j, size_t outputs) {
    if (blocks_.empty() || blocks_.back().block != block) return true;
    Saved& own = blocks_.back();
    double* saved = multipliers_.data() + own.first;
    const size_t at = static_cast<size_t>(j), last = outputs - 1;
    if (at < own.size && saved[at] > 0) return false;
    if (at < own.size) saved[at] = last < own.size ? saved[last] : 0;
    if (last < own.size) --own.size;
    return true;
  }

  // Swaps the saved multipliers with the current ones.
  template <class State>
  void exchange(State& state) {
    const std::vector<double> before = std::move(multipliers_);
    multipliers_.clear();
    for (Saved& own : blocks_) {
      auto& planes = state.blocks[own.block].planes;  // empty: all mass stays on the true output
      const size_t first = multipliers_.size();
      for (size_t j = 0; j < planes.size(); ++j) {
        multipliers_.push_back(planes[j].multiplier);
        planes[j].multiplier = j < own.size ? before[own.first + j] : 0;
      }
      own.first = first, own.size = planes.size();
    }
  }
  // Call this after an exchange. Moves the multipliers a fraction t of the way to the saved ones.
  template <class State>
  void advance(State& state, double t) {
    for (const Saved& own : blocks_)
      for (size_t j = 0; j < own.size; ++j) {
        double& multiplier = state.blocks[own.block].planes[j].multiplier;
        multiplier += t * (multipliers_[own.first + j] - multiplier);
      }
  }

 private:
  struct Saved {
    int64_t block;
    size_t first, size;  // the range of its multipliers; outputs that were found later have none
  };
  std::vector<Saved> blocks_;
  std::vector<double> multipliers_;
};

}  // namespace mm
