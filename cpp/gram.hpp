// Rows of a kernel matrix, K[r, :] = k(x_r, x_0 .. x_{n-1}): all of them in memory, or computed in blocks of
// rows when they are asked for and kept in a cache of fixed size.
//
// Passes ask for rows in random order, each about once: to forget the least recently used would keep what was
// just used and is not needed for long. So a new block takes the place that is emptied next, and only one in
// `adopt` of them the place of the last used: those that are there stay and are hit, and yet all is replaced
// in time when other rows are in demand. A hit makes a block the last used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

namespace mm {

// For one thread: a row is valid until the next is asked for.
class Gram {
 public:
  using Compute = std::function<void(int64_t first, int64_t last, double* rows)>;

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

  const double* row(int64_t r) {
    if (whole_) return whole_ + r * n_;
    const int64_t b = r / block_rows_;
    if (slots_[b].rows.empty())
      load(b);
    else
      recent_.splice(recent_.begin(), recent_, slots_[b].place);
    return slots_[b].rows.data() + (r % block_rows_) * n_;
  }

 private:
  struct Slot {
    std::vector<double> rows;
    std::list<int64_t>::iterator place;
  };
  static constexpr int64_t adopt = 32;
  int64_t n_ = 0;
  const double* whole_ = nullptr;
  int64_t block_rows_ = 1, capacity_ = 1, held_ = 0, most_ = 0, computed_ = 0;
  Compute compute_;
  std::vector<Slot> slots_;
  std::list<int64_t> recent_;  // blocks in memory, the last used first

  void load(int64_t b) {
    std::vector<double> rows;
    const bool full = static_cast<int64_t>(recent_.size()) >= capacity_;
    if (full) {
      rows.swap(slots_[recent_.back()].rows);
      recent_.pop_back();
      held_ -= static_cast<int64_t>(rows.size());
    }
    const int64_t first = b * block_rows_, last = std::min(n_, first + block_rows_);
    rows.resize(static_cast<size_t>((last - first) * n_));
    compute_(first, last, rows.data());
    held_ += static_cast<int64_t>(rows.size());
    most_ = std::max(most_, held_);
    ++computed_;
    const auto place = full && computed_ % adopt != 0 ? recent_.end() : recent_.begin();
    slots_[b] = {std::move(rows), recent_.insert(place, b)};
  }
};

}  // namespace mm
