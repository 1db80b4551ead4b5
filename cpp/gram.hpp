// Rows of a kernel matrix, K[r, :] = k(x_r, x_0 .. x_{n-1}). Either all rows are in memory, or blocks of rows are
// computed on demand and kept in a cache of fixed size.
//
// Passes read rows in random order, each about once. Evicting the least recently used block would keep blocks that
// were just used and are not needed again soon. So if the cache is full, a new block is put at the end of the list,
// where it is evicted next. Only one of `adopt` new blocks is put at the front. The blocks in memory then stay and
// are hit, but all of them are replaced in time if other rows are in demand. A hit moves a block to the front.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace mm {

// Safe for any number of threads. The values of a row do not depend on the state of the cache.
class Gram {
  using Block = std::shared_ptr<std::vector<double>>;

 public:
  using Compute = std::function<void(int64_t first, int64_t last, double* rows)>;

  // The numbers of a row. They stay valid as long as this object lives, even if the cache drops their block meanwhile.
  class Row {
   public:
    double operator[](int64_t j) const { return numbers_[j]; }

   private:
    friend class Gram;
    Row(const double* numbers, Block keeps) : numbers_(numbers), keeps_(std::move(keeps)) {}
    const double* numbers_;
    Block keeps_;
  };

  Gram(const double* whole, int64_t n) : n_(n), whole_(whole) {}
  Gram(int64_t n, int64_t block_rows, int64_t capacity, Compute compute)
      : n_(n),
        block_rows_(block_rows),
        capacity_(std::max<int64_t>(1, capacity)),
        compute_(std::move(compute)),
        slots_((n + block_rows - 1) / block_rows) {}

  int64_t size() const { return n_; }
  int64_t most_bytes() const { return most_ * static_cast<int64_t>(sizeof(double)); }
  int64_t computed() const { return computed_; }

  Row row(int64_t r) {
    if (whole_) return Row(whole_ + r * n_, nullptr);
    const int64_t b = r / block_rows_;
    Block block = known(b);
    if (!block) block = load(b);
    const double* numbers = block->data() + (r % block_rows_) * n_;
    return Row(numbers, std::move(block));
  }

 private:
  struct Slot {
    Block rows;
    std::list<int64_t>::iterator place;
  };
  static constexpr int64_t adopt = 32;
  const int64_t n_ = 0;
  const double* const whole_ = nullptr;
  const int64_t block_rows_ = 1, capacity_ = 1;
  const Compute compute_;
  std::atomic<int64_t> most_ = 0, computed_ = 0;

  std::mutex changes_;  // protects the members below
  int64_t held_ = 0;
  std::vector<Slot> slots_;
  std::list<int64_t> recent_;  // blocks in memory, most recently used first

  Block known(int64_t b) {
    const std::scoped_lock lock(changes_);
    if (slots_[b].rows) recent_.splice(recent_.begin(), recent_, slots_[b].place);
    return slots_[b].rows;
  }

  // The lock is free while `compute_` runs, which may wait for the interpreter. Two threads may compute the same
  // block at the same time: the thread that ends last drops its own copy.
  Block load(int64_t b) {
    const bool full = replaces();
    const int64_t first = b * block_rows_, last = std::min(n_, first + block_rows_);
    auto rows = std::make_shared<std::vector<double>>(static_cast<size_t>((last - first) * n_));
    compute_(first, last, rows->data());
    const std::scoped_lock lock(changes_);
    Slot& slot = slots_[b];
    if (slot.rows) return slot.rows;
    make_room();
    held_ += static_cast<int64_t>(rows->size());
    most_ = std::max(most_.load(), held_);
    ++computed_;
    const auto place = full && computed_ % adopt != 0 ? recent_.end() : recent_.begin();
    slot = {rows, recent_.insert(place, b)};
    return rows;
  }
  // Evicts a block if the cache is full, and returns whether it did. The memory is then free while the new block is
  // computed.
  bool replaces() {
    const std::scoped_lock lock(changes_);
    return make_room();
  }
  // Requires the lock. Evicts blocks at the end of the list until there is space for one more; false: there was space.
  bool make_room() {
    bool full = false;
    for (; static_cast<int64_t>(recent_.size()) >= capacity_; recent_.pop_back(), full = true) {
      Block& rows = slots_[recent_.back()].rows;
      held_ -= static_cast<int64_t>(rows->size());
      rows.reset();
    }
    return full;
  }
};

}  // namespace mm
