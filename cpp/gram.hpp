// Rows of a kernel matrix, K[r, :] = k(x_r, x_0 .. x_{n-1}): all of them in memory, or computed in blocks of
// rows when they are asked for and kept in a cache of fixed size, the least recently used forgotten first.
//
// A row stays valid as long as its handle. A block that a handle holds is never forgotten, and a new one is
// made only when there is room for it: the cache never holds more than its capacity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mm {

class Gram {
 public:
  using Block = std::shared_ptr<std::vector<double>>;
  using Compute = std::function<void(int64_t first, int64_t last, double* rows)>;
  struct Row {
    const double* values;
    Block held;
    double operator[](int64_t j) const { return values[j]; }
  };

  Gram(const double* whole, int64_t n) : n_(n), whole_(whole) {}
  Gram(int64_t n, int64_t block_rows, int64_t capacity, Compute compute)
      : n_(n),
        block_rows_(block_rows),
        capacity_(std::max<int64_t>(1, capacity)),
        compute_(std::move(compute)),
        slots_((n + block_rows - 1) / block_rows) {}

  int64_t size() const { return n_; }
  int64_t most_bytes() const { return most_ * block_rows_ * n_ * static_cast<int64_t>(sizeof(double)); }
  int64_t computed() const { return computed_; }

  Row row(int64_t r) {
    if (whole_) return {whole_ + r * n_, nullptr};
    for (;; std::this_thread::yield()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      Slot& slot = slots_[r / block_rows_];
      if (slot.block)
        recent_.splice(recent_.begin(), recent_, slot.place);
      else if (make_room())
        load(r / block_rows_);
      else
        continue;  // every block is held by another thread, each for one row only
      return {slot.block->data() + (r % block_rows_) * n_, slot.block};
    }
  }

 private:
  struct Slot {
    Block block;
    std::list<int64_t>::iterator place;
  };
  int64_t n_ = 0;
  const double* whole_ = nullptr;
  int64_t block_rows_ = 1, capacity_ = 1, most_ = 0, computed_ = 0;
  Compute compute_;
  std::vector<Slot> slots_;
  std::list<int64_t> recent_;  // blocks in memory, the last used first
  std::mutex mutex_;

  bool make_room() {
    if (static_cast<int64_t>(recent_.size()) < capacity_) return true;
    for (auto place = recent_.end(); place != recent_.begin();) {
      Slot& slot = slots_[*--place];
      if (slot.block.use_count() > 1) continue;
      slot.block.reset();
      recent_.erase(place);
      return true;
    }
    return false;
  }

  void load(int64_t b) {
    const int64_t first = b * block_rows_, last = std::min(n_, first + block_rows_);
    auto block = std::make_shared<std::vector<double>>(static_cast<size_t>((last - first) * n_));
    compute_(first, last, block->data());
    recent_.push_front(b);
    slots_[b] = {std::move(block), recent_.begin()};
    most_ = std::max(most_, static_cast<int64_t>(recent_.size()));
    ++computed_;
  }
};

}  // namespace mm
