// Finds the best pair of labels of an indicator factor with sparse messages, without a look at all pairs.
//
//   max_{y, z}  A[y, z] - rho m(y) - rho n(z)         m, n: zero except for a few labels
//
// The maximum is the best of four cases (Yen et al., Section 3.2):
//   (i)   m(y) = n(z) = 0:   the rows in the order of their largest entry, each row in order, until no row is better
//   (ii)  m(y) = 0 /= n(z):  for each such z its column in order, until an entry whose y has no message
//   (iii) m(y) /= 0 = n(z):  for each such y its row in order
//   (iv)  both not zero:     all such pairs
// Entries that are not stored are zero. In (i) to (iii) one of them represents all. It is found by trying one label
// after the other, beginning with the last one found. If every entry is stored, all pairs are looked at.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/sparse_transitions.hpp"

namespace mm {

struct Message {
  int32_t label;
  double value;
};
using Messages = std::vector<Message>;

struct Scored {
  double score;
  int32_t first, second;
};

struct PairTable {
  const double* A;
  int stride;
  const SparseTransitions<double>* index;
  double at(int y, int z) const { return A[static_cast<int64_t>(y) * stride + z]; }
};

class PairSearch {
 public:
  PairSearch(int labels, int stride)
      : K_(labels), stride_(stride), left_(labels), right_(labels), less_(stride, HUGE_VAL) {
    std::fill(less_.begin(), less_.begin() + labels, 0.0);
  }

  Scored every(const PairTable& table, const Messages& left, const Messages& right, double rho) const {
    std::vector<double> m(K_, 0), n(K_, 0);
    for (const Message& e : left) m[e.label] += rho * e.value;
    for (const Message& e : right) n[e.label] += rho * e.value;
    Scored best{-HUGE_VAL, 0, 0};
    for (int y = 0; y < K_; ++y)
      for (int z = 0; z < K_; ++z) offer(best, table.at(y, z) - m[y] - n[z], y, z);
    return best;
  }

  // The same with whole vectors, for few labels.
  Scored few(const PairTable& table, const Messages& left, const Messages& right, double rho) {
    for (const Message& e : right) less_[e.label] = rho * e.value;
    above_.assign(K_, 0);
    for (const Message& e : left) above_[e.label] = rho * e.value;
    Scored best{-HUGE_VAL, 0, 0};
    for (int y = 0; y < K_; ++y) {
      const double* row = table.A + static_cast<int64_t>(y) * stride_;
      vec<double> most = load(row) - load(less_.data());
      for (int z = lanes; z < stride_; z += lanes)
        most = maximum(most, load(row + z) - load(less_.data() + z));
      if (lanes_above(most, broadcast(best.score + above_[y])))
        best = {largest_lane<double>(most) - above_[y], y, -1};
    }
    const double* row = table.A + static_cast<int64_t>(best.first) * stride_;
    for (int z = 0, found = -1; z < K_; ++z)
      if (found < 0 || row[z] - less_[z] > row[found] - less_[found]) best.second = found = z;
    for (const Message& e : right) less_[e.label] = 0;
    return best;
  }

  Scored ordered(const PairTable& table, const Messages& left, const Messages& right, double rho,
                 Scored best = {-HUGE_VAL, 0, 0}) {
    mark(left_, left, 1);
    mark(right_, right, 1);
    bool found = free_pair(table, best);  // (i): a zero entry, then the gains
    for (const auto& [most, y] : table.index->by_most()) {
      if (-most <= best.score) break;
      if (!left_[y]) along(table.index->gains(y), right_, best, 0, [&](int z) { return std::pair(y, z); });
    }
    for (const Message& e : right) {  // (ii)
      const double less = rho * e.value;
      if (table.index->most_into()[e.label] - less <= best.score) continue;
      found &= free_in(
          best, less, [&](int y) { return !left_[y] && table.at(y, e.label) == 0; },
          [&](int y) { return std::pair(y, e.label); });
      along(table.index->gains_into(e.label), left_, best, less,
            [&](int y) { return std::pair(y, e.label); });
    }
    for (const Message& e : left) {  // (iii)
      const double less = rho * e.value;
      if (table.index->most()[e.label] - less <= best.score) continue;
      found &= free_in(
          best, less, [&](int z) { return !right_[z] && table.at(e.label, z) == 0; },
          [&](int z) { return std::pair(e.label, z); });
      along(table.index->gains(e.label), right_, best, less, [&](int z) { return std::pair(e.label, z); });
    }
    both(table, left, right, rho, best);  // (iv)
    mark(left_, left, 0);
    mark(right_, right, 0);
    return found ? best : every(table, left, right, rho);
  }

 private:
  static constexpr int lanes = Vector<double>::lanes;
  int K_, stride_;
  std::vector<uint8_t> left_, right_;  // labels with a message
  aligned<double> less_;               // for `few`: amounts that messages take from a second label
  std::vector<double> above_;          // amounts that messages take from a first label
  int next_ = 0;

  // Offers pairs of two labels with messages: the gains of each row in order, then all such pairs of the row if one
  // without a gain could be best.
  void both(const PairTable& table, const Messages& left, const Messages& right, double rho, Scored& best) {
    double most = -HUGE_VAL;
    for (const Message& o : right) most = std::max(most, -rho * o.value), less_[o.label] = rho * o.value;
    for (const Message& e : left) {
      const double own = -rho * e.value;
      for (const auto& gain : table.index->gains(e.label)) {
        if (gain.value + own + most <= best.score) break;
        if (right_[gain.other]) offer(best, gain.value + own - less_[gain.other], e.label, gain.other);
      }
      if (own + most <= best.score) continue;
      for (const Message& o : right)
        if (own - rho * o.value > best.score)
          offer(best, table.at(e.label, o.label) + own - rho * o.value, e.label, o.label);
    }
    for (const Message& o : right) less_[o.label] = 0;
  }

  static void mark(std::vector<uint8_t>& marks, const Messages& messages, uint8_t value) {
    for (const Message& m : messages) marks[m.label] = value;
  }
  static void offer(Scored& best, double score, int32_t y, int32_t z) {
    if (score > best.score) best = {score, y, z};
  }

  // Offers the first entry of an ordered list whose label has no message.
  template <class List, class Where>
  static void along(const List& list, const std::vector<uint8_t>& marks, Scored& best, double less,
                    Where&& where) {
    for (const auto& e : list) {
      if (e.value - less <= best.score) return;
      if (marks[e.other]) continue;
      const auto [y, z] = where(e.other);
      return offer(best, e.value - less, y, z);
    }
  }

  // Offers a free label, trying labels from the last one found. Returns false if no label is free.
  template <class Free, class Where>
  bool free_in(Scored& best, double less, Free&& free, Where&& where) {
    if (-less <= best.score) return true;  // it would be no better
    for (int n = 0; n < K_; ++n) {
      const int label = next_ + n < K_ ? next_ + n : next_ + n - K_;
      if (!free(label)) continue;
      next_ = label;
      const auto [y, z] = where(label);
      offer(best, -less, y, z);
      return true;
    }
    return false;
  }

  // Offers a pair of labels without messages and without a weight. Returns false if there is no such pair.
  bool free_pair(const PairTable& table, Scored& best) {
    if (best.score >= 0) return true;
    for (int n = 0; n < K_; ++n) {
      const int y = next_ + n < K_ ? next_ + n : next_ + n - K_;
      if (left_[y]) continue;
      for (int z = 0; z < K_; ++z)
        if (!right_[z] && table.at(y, z) == 0) return offer(best, 0, y, z), true;
    }
    return false;
  }
};

}  // namespace mm
