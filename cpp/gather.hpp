// A move of w as a sparse vector: collects, entry by entry, what structures would add to the weights.
//
// Structures take a `Gather` in place of a pointer to weights; then `W[j] += v` adds to a Sparse. A Sparse is
// as long as w. If w is long and only the norm of the move is needed, a `Count` adds to a Tally instead,
// which is only as long as the move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace mm {

struct Sparse {
  std::vector<double> dense;  // zero outside `touched`
  std::vector<char> seen;
  std::vector<size_t> touched;

  void resize(size_t n) {
    if (dense.size() == n) return;
    dense.assign(n, 0);
    seen.assign(n, 0);
    touched.clear();
  }
  void clear() {
    for (size_t j : touched) dense[j] = 0, seen[j] = 0;
    touched.clear();
  }
  void add(size_t j, double value) {
    if (!seen[j]) seen[j] = 1, touched.push_back(j);
    dense[j] += value;
  }
  double squared_norm() const {
    double sum = 0;
    for (size_t j : touched) sum += dense[j] * dense[j];
    return sum;
  }
  // W += c * this
  template <class Target>
  void apply(Target W, double c) const {
    for (size_t j : touched) W[static_cast<int64_t>(j)] += c * dense[j];
  }
};

// Entries in the order of their first use, found by a hash of their index.
class Tally {
 public:
  void clear() {
    entries_.clear();
    if (++turn_ == 0) slots_.assign(slots_.size(), {}), turn_ = 1;
  }
  void add(size_t j, double value) {
    if (2 * entries_.size() >= slots_.size()) grow();
    Slot& slot = find(j);
    if (slot.turn != turn_)
      slot = {turn_, static_cast<uint32_t>(entries_.size())}, entries_.push_back({j, 0});
    entries_[slot.entry].value += value;
  }
  double squared_norm() const {
    double sum = 0;
    for (const Entry& x : entries_) sum += x.value * x.value;
    return sum;
  }

 private:
  struct Entry {
    size_t j;
    double value;
  };
  struct Slot {
    uint32_t turn = 0, entry = 0;  // free if its turn is not the current one
  };
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  uint32_t turn_ = 1;

  Slot& find(size_t j) {
    const size_t last = slots_.size() - 1;
    size_t at = (j * 0x9E3779B97F4A7C15u) >> 32;
    for (;; ++at) {
      Slot& slot = slots_[at & last];
      if (slot.turn != turn_ || entries_[slot.entry].j == j) return slot;
    }
  }
  void grow() {
    slots_.assign(slots_.empty() ? 256 : 2 * slots_.size(), {});
    for (uint32_t k = 0; k < entries_.size(); ++k) find(entries_[k].j) = {turn_, k};
  }
};

template <class Into>
class GatherInto {
 public:
  class Entry {
   public:
    Entry(Into* into, size_t at) : into_(into), at_(at) {}
    void operator+=(double value) const { into_->add(at_, value); }
    void operator-=(double value) const { into_->add(at_, -value); }

   private:
    Into* into_;
    size_t at_;
  };

  explicit GatherInto(Into& into, size_t at = 0) : into_(&into), at_(at) {}
  Entry operator[](int64_t j) const { return {into_, at_ + static_cast<size_t>(j)}; }
  Entry operator*() const { return {into_, at_}; }
  GatherInto operator+(int64_t j) const { return GatherInto(*into_, at_ + static_cast<size_t>(j)); }
  void operator+=(int64_t j) { at_ += static_cast<size_t>(j); }

 private:
  Into* into_;
  size_t at_;
};

using Gather = GatherInto<Sparse>;
using Count = GatherInto<Tally>;

// The type of the numbers that a pointer to weights points to.
template <class Target>
using number_at = std::conditional_t<std::is_pointer_v<Target>, std::remove_pointer_t<Target>, double>;

}  // namespace mm
