// The nonzero transitions of a chain, in the orders in which an argmax reads them.
//
//     gains(j):   entries A[j, k] > 0 of a row, the largest first        most(j)  = max(0, max_k A[j, k])
//                 in whole blocks; the last one ends with entries of -infinity
//     losses(j):  entries A[j, k] < 0 of a row, the smallest first
//     gains_into(k): entries A[j, k] > 0 of a column, the largest first  most_into(k) = max(0, max_j A[j, k])
//     by_most():  pairs (-most(j), j), sorted; only after `order_rows`
//
// A transition that no update ever touched is exactly zero, and is not stored. An update of one entry finds
// it by a linear search in its row and its column, and moves it to its new place.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "simd.hpp"

namespace mm {

template <class Real>
class SparseTransitions {
 public:
  struct Entry {
    Real value;
    int32_t other;  // the next label in a row, the previous one in a column
  };
  using Row = std::vector<Entry>;

  static constexpr size_t block = 4;

  const Row& gains(int j) const { return gains_[j]; }
  const Row& losses(int j) const { return losses_[j]; }
  const Row& gains_into(int k) const { return into_[k]; }
  const Real* most() const { return most_.data(); }
  const Real* most_into() const { return most_into_.data(); }

  void order_rows() { ordered_ = true; }
  const std::set<std::pair<Real, int32_t>>& by_most() const { return by_most_; }

  // Reads all of A, K rows of `stride` reals, plus penalties unless they are null. `most` is padded with
  // zeros to `stride`.
  void read(const Real* A, int K, int stride, const Real* penalty = nullptr) {
    for (auto* rows : {&gains_, &losses_, &into_}) empty(*rows, K);
    for (Row& row : gains_) row.assign(block, nothing);
    by_most_.clear();
    for (int j = 0; j < K && ordered_; ++j) by_most_.insert({0, j});
    most_.assign(stride, 0);
    for (int j = 0; j < K; ++j) {
      const int64_t row = static_cast<int64_t>(j) * stride;
      each_nonzero(A + row, penalty ? penalty + row : nullptr, K, [&](int k, Real value) {
        if (value < 0)
          losses_[j].push_back({value, k});
        else if (value > 0)
          gains_[j].push_back({value, k}), into_[k].push_back({value, j});
      });
      std::sort(gains_[j].begin(), gains_[j].end(), larger);
      pad(gains_[j]);
      std::sort(losses_[j].begin(), losses_[j].end(), smaller);
      settle(j);
    }
    most_into_.assign(K, 0);
    for (int k = 0; k < K; ++k) {
      std::sort(into_[k].begin(), into_[k].end(), larger);
      settle_column(k);
    }
  }

  // A[j, k] = value
  void set(int j, int k, Real value) {
    if (value > 0 && slide(into_[k], {value, j}, larger)) {
      slide(gains_[j], {value, k}, larger);
      settle(j);
      return settle_column(k);
    }
    if (value < 0 && slide(losses_[j], {value, k}, smaller)) return;
    if (take(into_[k], j))
      take(gains_[j], k);
    else
      take(losses_[j], k);
    if (value > 0) put(gains_[j], {value, k}, larger), put(into_[k], {value, j}, larger);
    if (value < 0) put(losses_[j], {value, k}, smaller);
    pad(gains_[j]);
    settle(j);
    settle_column(k);
  }

 private:
  std::vector<Row> gains_, losses_, into_;
  aligned<Real> most_, most_into_;

  // Padding at the end of gains. Its label is never looked up, because `take` only looks for stored entries.
  static constexpr Entry nothing = {-std::numeric_limits<Real>::infinity(), 0};

  bool ordered_ = false;
  std::set<std::pair<Real, int32_t>> by_most_;

  // Clears the rows but keeps their memory.
  static void empty(std::vector<Row>& rows, int K) {
    rows.resize(K);
    for (Row& row : rows) row.clear();
  }
  // Calls f(k, value) for the nonzero numbers of a row, of which there are few.
  template <class F>
  static void each_nonzero(const Real* row, const Real* penalty, int K, F&& f) {
    constexpr int lanes = Vector<Real>::lanes;
    const vec<Real> zero = broadcast(Real(0));
    for (int from = 0; from < K; from += lanes) {
      vec<Real> x = load(row + from);
      if (penalty) x = x + load(penalty + from);
      for (unsigned left = static_cast<unsigned>(lanes_different(x, zero)); left != 0; left &= left - 1) {
        const int k = from + std::countr_zero(left);
        if (k < K) f(k, row[k] + (penalty ? penalty[k] : Real(0)));
      }
    }
  }
  // Pads a row with `nothing` to as few whole blocks as possible, with at least one `nothing` at the end.
  static void pad(Row& row) {
    while (row.size() > 1 && row[row.size() - 2].value == nothing.value) row.pop_back();
    row.resize((row.size() + block - 1) / block * block, nothing);
  }
  void settle(int j) {
    const Real most = std::max(Real(0), gains_[j].front().value);
    if (ordered_ && most != most_[j]) by_most_.erase({-most_[j], j}), by_most_.insert({-most, j});
    most_[j] = most;
  }

  void settle_column(int k) { most_into_[k] = into_[k].empty() ? Real(0) : into_[k].front().value; }

  static bool larger(const Entry& a, const Entry& b) { return a.value > b.value; }
  static bool smaller(const Entry& a, const Entry& b) { return a.value < b.value; }
  // Changes the value of an entry, and moves it to where `put` would insert it. Returns whether the entry
  // exists.
  static bool slide(Row& row, Entry entry, bool (*before)(const Entry&, const Entry&)) {
    auto at = std::find_if(row.begin(), row.end(), [&](const Entry& e) { return e.other == entry.other; });
    if (at == row.end() || at->value == nothing.value) return false;
    for (; at != row.begin() && before(entry, at[-1]); --at) *at = at[-1];
    for (; at + 1 != row.end() && !before(entry, at[1]); ++at) *at = at[1];
    *at = entry;
    return true;
  }
  static bool take(Row& row, int label) {
    const auto at = std::find_if(row.begin(), row.end(), [&](const Entry& e) { return e.other == label; });
    if (at == row.end()) return false;
    row.erase(at);
    return true;
  }
  static void put(Row& row, Entry entry, bool (*before)(const Entry&, const Entry&)) {
    row.insert(std::upper_bound(row.begin(), row.end(), entry, before), entry);
  }
};

}  // namespace mm
