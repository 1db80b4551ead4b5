// Converts rows of names to rows of a sparse matrix. The names are copies of Python's strings, so nothing here needs
// the interpreter. `RowLine` lets other threads convert rows while names are still being copied.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "names.hpp"
#include "runtime/pages.hpp"
#include "runtime/threads.hpp"

namespace mm {

// The known names with their columns, and how often each was given. Threads of one or several readings share it.
struct NameTable {
  Names names;
  std::vector<int32_t> others;  // columns of names that are not strings, by their number; -1: none yet
  std::vector<int64_t> counts;
  // A thread that holds the lock never waits for the interpreter, so a thread with the interpreter may wait for the
  // lock.
  mutable std::shared_mutex lock;

  int32_t other(int32_t number, bool grow) {
    if (grow && static_cast<size_t>(number) >= others.size()) others.resize(number + 1, -1);
    if (static_cast<size_t>(number) >= others.size()) return -1;
    if (grow && others[number] < 0) others[number] = names.skip();
    return others[number];
  }
  void count(int32_t column, double value) {
    if (static_cast<size_t>(column) >= counts.size()) counts.resize(column + 1);
    counts[column] += value != 0;
  }
};

// Rows of names with values. Entries after the last whole row do not count.
struct NamedRows {
  struct Other {
    size_t entry;
    int32_t number;
  };
  std::string text;          // the names, one after the other
  std::vector<size_t> ends;  // the end of each name in `text`
  std::vector<double> values;
  std::vector<Other> others;  // entries whose names are not strings; they have no text
  std::vector<size_t> rows;   // the number of entries up to the end of each row

  size_t entries() const { return rows.empty() ? 0 : rows.back(); }
  void put(double value) {  // for the name at the end of `text`
    ends.push_back(text.size());
    values.push_back(value);
  }
  void put(int32_t other, double value) {
    others.push_back({ends.size(), other});
    put(value);
  }
  void clear() { text.clear(), ends.clear(), values.clear(), others.clear(), rows.clear(); }
};

struct SparseRows {
  Unwritten<int32_t> indices;
  Unwritten<double> values;
  Unwritten<int32_t> starts = Unwritten<int32_t>(1, 0);
};

inline void check_entries(size_t n) {
  constexpr size_t most_entries = 0x7FFFFFFF;  // the index pointers have 32 bits
  if (n > most_entries)
    throw std::out_of_range("X has more than 2^31 - 1 attributes: give it in several parts");
}

// Assigns columns to names, with working memory for one thread.
class Numbering {
 public:
  Numbering(NameTable& table, bool grow, uint32_t hashed) : table_(table), grow_(grow), hashed_(hashed) {}

  // Finds the columns of all entries; -1 for an unknown name. New names get numbers in the order of the entries.
  void number(const NamedRows& given) {
    const size_t n = given.entries();
    numbers_.resize(n);
    views_.resize(n);
    for (size_t k = 0, from = 0; k < n; from = given.ends[k++])
      views_[k] = {given.text.data() + from, given.ends[k] - from};
    if (hashed_) {
      for (size_t k = 0; k < n; ++k) numbers_[k] = static_cast<int32_t>(crc32(views_[k]) % hashed_);
      return;
    }
    hashes_.resize(n);
    table_.names.find(views_, numbers_.data(), hashes_.data());
    if (grow_ || !given.others.empty()) in_order(given);
  }
  // Appends the rows with sorted columns. Values of the same column are added up, and zeros are left out.
  void append(const NamedRows& given, SparseRows& rows) {
    size_t first = 0, end = rows.indices.size();
    rows.indices.resize(end + given.entries());
    rows.values.resize(end + given.entries());
    for (const size_t last : given.rows) {
      order_.clear();
      for (size_t k = first; k < last; ++k)
        if (numbers_[k] >= 0) order_.push_back(static_cast<uint64_t>(numbers_[k]) << 32 | (k - first));
      std::sort(order_.begin(), order_.end());
      end = write(given.values.data() + first, rows, end);
      check_entries(end);
      rows.starts.push_back(static_cast<int32_t>(end));
      first = last;
    }
    rows.indices.resize(end);
    rows.values.resize(end);
  }

 private:
  void in_order(const NamedRows& given) {
    size_t next = 0;
    for (size_t k = 0; k < numbers_.size(); ++k) {
      if (next < given.others.size() && given.others[next].entry == k)
        numbers_[k] = table_.other(given.others[next++].number, grow_);
      else if (grow_ && numbers_[k] < 0)
        numbers_[k] = table_.names.add(views_[k], hashes_[k]);
      if (grow_) table_.count(numbers_[k], given.values[k]);
    }
  }
  // Writes the row in `order_` at `end`, and returns the new end.
  size_t write(const double* values, SparseRows& rows, size_t end) const {
    for (size_t k = 0; k < order_.size();) {
      const uint64_t column = order_[k] >> 32;
      double sum = 0.0;
      for (; k < order_.size() && order_[k] >> 32 == column; ++k) sum += values[order_[k] & 0xFFFFFFFFu];
      if (sum == 0) continue;
      rows.indices[end] = static_cast<int32_t>(column);
      rows.values[end++] = sum;
    }
    return end;
  }

  NameTable& table_;
  bool grow_;
  uint32_t hashed_;
  std::vector<std::string_view> views_;
  std::vector<uint64_t> hashes_;
  std::vector<int32_t> numbers_;
  std::vector<uint64_t> order_;  // (column, index in the row) of the entries of a row
};

// Takes rows of names one by one and converts them to sparse rows, batch by batch. With several threads, other threads
// help; they start when there is enough to do. Columns and rows are the same for any number of threads.
class RowLine {
 public:
  RowLine(NameTable& table, bool grow, uint32_t hashed, int threads)
      : table_(table),
        grow_(grow),
        hashed_(hashed),
        threads_(std::clamp(threads, 1, std::min(usable_cores(), static_cast<int>(most_threads)))),
        own_(table, grow, hashed) {}
  ~RowLine() { stop(); }
  RowLine(const RowLine&) = delete;
  RowLine& operator=(const RowLine&) = delete;

  // The buffer for the next row.
  NamedRows& open() { return open_; }
  void end_row() {
    open_.rows.push_back(open_.ends.size());
    if (open_.ends.size() >= (threads_ > 1 ? large : small) || open_.text.size() >= enough_text) pass_on();
  }
  SparseRows finish() {
    if (pool_.empty()) {
      number_and_append(open_);
    } else {
      pass_on();
      while (take(own_)) {
      }
      stop();
      if (failed_) std::rethrow_exception(failed_);
    }
    return made_.size() == 1 ? std::move(made_.front()) : joined();
  }

 private:
  // The size of a batch in names (`large` with several threads) and in bytes. Smaller batches gain less from several
  // threads.
  static constexpr size_t small = 1024, large = 8192, enough_text = 1 << 20;

  struct Batch {
    NamedRows names;
    SparseRows* rows = nullptr;  // the sparse rows made from the names
  };

  void pass_on() {
    if (threads_ > 1 && pool_.empty()) start();
    if (pool_.empty()) return number_and_append(open_);
    size_t waiting = 0;
    // This thread allocates the memory of all rows, and frees it.
    SparseRows& rows = made_.emplace_back();
    rows.indices.reserve(open_.entries());
    rows.values.reserve(open_.entries());
    rows.starts.reserve(open_.rows.size() + 1);
    {
      const std::scoped_lock changes(changes_);
      if (failed_) std::rethrow_exception(failed_);
      waiting_.push_back({std::move(open_), &rows});
      open_ = NamedRows();
      if (!free_.empty()) {
        open_ = std::move(free_.back());
        free_.pop_back();
      }
      waiting = waiting_.size();
    }
    news_.notify_one();
    if (waiting > 2 * pool_.size()) take(own_);  // the other threads have enough to do
  }
  // Converts a batch on this thread, without other threads.
  void number_and_append(NamedRows& given) {
    {
      const std::unique_lock alone(table_.lock);
      own_.number(given);
    }
    own_.append(given, made_.emplace_back());
    given.clear();
  }
  // Converts the batch that has waited longest. If names get new numbers, a thread takes a batch only while it holds
  // the lock for numbering, so batches are numbered in their order.
  bool take(Numbering& numbering) {
    std::unique_lock alone(table_.lock, std::defer_lock);
    std::shared_lock together(table_.lock, std::defer_lock);
    grow_ ? alone.lock() : together.lock();
    Batch own;
    {
      const std::scoped_lock changes(changes_);
      if (waiting_.empty()) return false;
      own = std::move(waiting_.front());
      waiting_.pop_front();
    }
    numbering.number(own.names);
    grow_ ? alone.unlock() : together.unlock();
    numbering.append(own.names, *own.rows);
    own.names.clear();
    const std::scoped_lock changes(changes_);
    free_.push_back(std::move(own.names));
    return true;
  }
  void start() {
    const size_t others = static_cast<size_t>(threads_) - 1;
    pool_.reserve(others);
    try {
      while (pool_.size() < others) pool_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system has no more threads
    }
  }
  void work() {
    try {
      Numbering numbering(table_, grow_, hashed_);
      while (wait()) take(numbering);
    } catch (...) {
      const std::scoped_lock changes(changes_);
      failed_ = std::current_exception();
    }
  }
  // Waits for a batch, or for the end of the reading. Returns whether there is a batch to take.
  bool wait() {
    std::unique_lock changes(changes_);
    news_.wait(changes, [&] { return ended_ || !waiting_.empty(); });
    return !waiting_.empty();
  }
  // Drops the waiting batches and joins the threads.
  void stop() {
    {
      const std::scoped_lock changes(changes_);
      ended_ = true;
      waiting_.clear();
    }
    news_.notify_all();
    for (std::thread& thread : pool_) thread.join();
    pool_.clear();
  }
  // Returns the rows of all batches, in their order, as one matrix.
  SparseRows joined() const {
    std::vector<size_t> entries{0}, rows{0};
    for (const SparseRows& own : made_) {
      entries.push_back(entries.back() + own.indices.size());
      rows.push_back(rows.back() + own.starts.size() - 1);
    }
    check_entries(entries.back());
    SparseRows all;
    all.indices.resize(entries.back());
    all.values.resize(entries.back());
    all.starts.resize(rows.back() + 1);
    parallel(static_cast<int64_t>(made_.size()), threads_, [&](int64_t first, int64_t last, int) {
      for (int64_t k = first; k < last; ++k) {
        const SparseRows& own = made_[k];
        std::copy(own.indices.begin(), own.indices.end(), all.indices.begin() + entries[k]);
        std::copy(own.values.begin(), own.values.end(), all.values.begin() + entries[k]);
        std::transform(own.starts.begin() + 1, own.starts.end(), all.starts.begin() + rows[k] + 1,
                       [&](int32_t start) { return start + static_cast<int32_t>(entries[k]); });
      }
    });
    return all;
  }

  NameTable& table_;
  const bool grow_;
  const uint32_t hashed_;
  const int threads_;
  Numbering own_;
  NamedRows open_;
  std::deque<SparseRows> made_;  // the rows of the batches, in their order
  std::vector<std::thread> pool_;

  std::mutex changes_;  // protects the members below
  std::condition_variable news_;
  std::deque<Batch> waiting_;
  std::vector<NamedRows> free_;  // memory to use again
  bool ended_ = false;
  std::exception_ptr failed_;
};

}  // namespace mm
