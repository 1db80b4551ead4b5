// The best pair of labels of an indicator factor with sparse messages, without a look at all pairs.
//
//   max_{y, z}  A[y, z] - rho m(y) - rho n(z)         m, n: zero but for a few labels
//
// The maximum is that of four cases (Yen et al., Section 3.2):
//   (i)   m(y) = n(z) = 0:   the rows in the order of their largest entry, each row in order, until no row can do
//   (ii)  m(y) = 0 /= n(z):  for each such z its column in order, until an entry whose y has no message
//   (iii) m(y) /= 0 = n(z):  for each such y its row in order
//   (iv)  both not zero:     all such pairs
// Entries that are not stored are zero: in (i) to (iii) one of them represents all, found by trying labels one after
// the other from where the last one was found. Where every entry is stored, all of them are looked at.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/sparse_transitions.hpp"

namespace mm {

struct Message {
  int32_t label;
  double residual, multiplier;  // M q_f - q_j and lambda; the message is their sum
};
using Messages = std::vector<Message>;

inline double value_of(const Messages& messages, int32_t label) {
  for (const Message& m : messages)
    if (m.label == label) return m.residual + m.multiplier;
  return 0;
}
inline Message& message(Messages& messages, int32_t label) {
  for (Message& m : messages)
    if (m.label == label) return m;
  messages.push_back({label, 0, 0});
  return messages.back();
}

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
  explicit PairSearch(int labels) : K_(labels), left_(labels), right_(labels) {}

  Scored every(const PairTable& table, const Messages& left, const Messages& right, double rho) const {
    std::vector<double> m(K_, 0), n(K_, 0);
    for (const Message& e : left) m[e.label] += rho * (e.residual + e.multiplier);
    for (const Message& e : right) n[e.label] += rho * (e.residual + e.multiplier);
    Scored best{-HUGE_VAL, 0, 0};
    for (int y = 0; y < K_; ++y)
      for (int z = 0; z < K_; ++z) offer(best, table.at(y, z) - m[y] - n[z], y, z);
    return best;
  }

  Scored ordered(const PairTable& table, const Messages& left, const Messages& right, double rho) {
    Scored best{-HUGE_VAL, 0, 0};
    mark(left_, left, 1);
    mark(right_, right, 1);
    bool found = free_pair(table, best);  // (i): a zero, then the gains
    for (const auto& [most, y] : table.index->by_most()) {
      if (-most <= best.score) break;
      if (!left_[y]) along(table.index->gains(y), right_, best, 0, [&](int z) { return std::pair(y, z); });
    }
    for (const Message& e : right) {  // (ii)
      const double less = rho * (e.residual + e.multiplier);
      found &= free_in(
          best, less, [&](int y) { return !left_[y] && table.at(y, e.label) == 0; },
          [&](int y) { return std::pair(y, e.label); });
      along(table.index->gains_into(e.label), left_, best, less,
            [&](int y) { return std::pair(y, e.label); });
    }
    for (const Message& e : left) {  // (iii)
      const double less = rho * (e.residual + e.multiplier);
      found &= free_in(
          best, less, [&](int z) { return !right_[z] && table.at(e.label, z) == 0; },
          [&](int z) { return std::pair(e.label, z); });
      along(table.index->gains(e.label), right_, best, less, [&](int z) { return std::pair(e.label, z); });
    }
    for (const Message& e : left)  // (iv)
      for (const Message& o : right)
        offer(best,
              table.at(e.label, o.label) - rho * (e.residual + e.multiplier) -
                  rho * (o.residual + o.multiplier),
              e.label, o.label);
    mark(left_, left, 0);
    mark(right_, right, 0);
    return found ? best : every(table, left, right, rho);
  }

 private:
  int K_;
  std::vector<uint8_t> left_, right_;  // labels with a message
  int next_ = 0;

  static void mark(std::vector<uint8_t>& marks, const Messages& messages, uint8_t value) {
    for (const Message& m : messages) marks[m.label] = value;
  }
  static void offer(Scored& best, double score, int32_t y, int32_t z) {
    if (score > best.score) best = {score, y, z};
  }

  // The first entry of an ordered list whose label has no message.
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

  // A label that is free, from where the last one was; false if there is none.
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

  // A pair of labels without messages and without a weight.
  bool free_pair(const PairTable& table, Scored& best) {
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
