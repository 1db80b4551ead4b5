// Beliefs: the value of each label of each node, over all outputs that have the label there.
//
//     B(v, k) = c log sum_{y: y_v = k} exp(score(y) / c),     c > 0 a temperature
//             = max_{y: y_v = k} score(y)                     c = 0
//
// Margins are differences of the beliefs at c = 0. At a temperature, p(y_v = k) = exp((B(v, k) - c log
// Z) / c), and c log Z is the same sum over all k. Sums are taken in logarithms relative to the largest term,
// so that nothing overflows. Terms below e^-45 of the largest are dropped; rounding would lose them anyway.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain_search.hpp"
#include "models/pairwise.hpp"

namespace mm {

class Beliefs {
 public:
  explicit Beliefs(double temperature = 0) : temperature_(temperature) {}

  // Computes the T x K beliefs of a sequence, from the prefixes that end in a label and the suffixes that can
  // follow it.
  void of_sequence(const SequenceScores& s, double* out);

  // Computes the beliefs of a forest, in the layout of its scores: first from the leaves to the roots, then
  // back. A message back to a child leaves out the message that came from it.
  void of_forest(const PairwiseView& p, double* out);

  // The soft maximum of n values.
  double pooled(const double* values, int64_t n) const;

 private:
  static constexpr double never = -std::numeric_limits<double>::infinity();
  double temperature_;
  std::vector<double> forward_, top_, sum_, after_, back_;
  std::vector<std::vector<double>> messages_;

  double term(double below) const;
  template <class Value>
  double soft_maximum(int64_t n, Value&& value) const;
  // The soft maximum over n of values[n] + row[n].
  double from(const double* values, const double* row, int n) const;
  // out[k] = the soft maximum over j of values[j] + table[j, k]
  void into(const double* values, const double* table, int64_t stride, int rows, int columns, double* out);
  // The message from one end of a link, v, to the other.
  void send(const PairwiseView& p, int link, int v, const double* values, double* out);
};

}  // namespace mm
