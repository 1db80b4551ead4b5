// Ranking: an order of the candidates of a query, learnt from grades (a ranking SVM with one slack per
// query).
//
//     Delta(y)       = 1/N sum of g_a - g_b over the pairs (a, b), g_a > g_b, that y orders wrongly
//     <w, Psi(x, y)> = 1/N sum of -(s_a - s_b) over the same pairs,   s_j = <w, x_j>,   N = sum of all g_a - g_b
//
// Both are zero for the true order. Let c_j(y) = (wrong pairs in which j has the higher grade) - (wrong pairs
// in which it has the lower grade). Then
//
//     Delta(y) + <w, Psi(x, y)> = 1/N sum_j c_j(y) (g_j - s_j)
//
// is largest for the order of s_j - g_j, which takes one sort: a wrong pair pays if s_a - s_b < g_a - g_b. An
// output is the indices of the candidates, best first. The order of neighbours with equal grades does not
// matter; they are sorted by index, so that equal outputs compare equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "features.hpp"
#include "order.hpp"

namespace mm {

struct RankingData {
  const Features* features = nullptr;
  std::vector<int64_t> first;   // candidates of query i: rows first[i] .. first[i + 1]
  std::vector<double> grade;    // of each row
  std::vector<int32_t> level;   // rank of the grade among the grades of the query; the lowest is 0
  std::vector<int32_t> higher;  // number of candidates of the query with a higher grade
  std::vector<int32_t> truth;   // the true orders
  std::vector<double> unit;     // 1/N of each query; 0 if all grades are equal
  int64_t blocks() const { return static_cast<int64_t>(first.size()) - 1; }
  int64_t dimension() const { return features->width(); }
  int size(int64_t query) const { return static_cast<int>(first[query + 1] - first[query]); }
};

class Ranking : public OneWeightPerFeature<RankingData> {
 public:
  using Real = double;
  using Label = int32_t;
  using Data = RankingData;

  struct Scratch {
    std::vector<double> scores, keys, counts;
    mutable std::vector<int32_t> seen;  // levels of the candidates above, in a Fenwick tree; for one count
    Sparse move;
    int64_t block = 0;
    double loss_scale = 0;
  };

  using OneWeightPerFeature::OneWeightPerFeature;

  int output_size(int64_t query) const { return data_.size(query); }
  Scratch scratch() const {
    Scratch s;
    s.move.resize(weights());
    return s;
  }

  void truth(int64_t query, Label* y) const {
    std::copy(data_.truth.begin() + data_.first[query], data_.truth.begin() + data_.first[query + 1], y);
  }
  bool same(int64_t query, const Label* a, const Label* b) const {
    return std::equal(a, a + data_.size(query), b);
  }
  bool valid(int64_t query, const Label* y) const {
    std::vector<char> met(data_.size(query), 0);
    for (int k = 0; k < data_.size(query); ++k)
      if (y[k] < 0 || y[k] >= data_.size(query) || met[y[k]]++) return false;
    return true;
  }
  double loss(int64_t query, const Label* y) const {
    Scratch s;
    return data_.unit[query] * weighted(query, y, s, [&](int j) { return grade(query, j); });
  }

  void open(int64_t query, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    s.block = query, s.loss_scale = augmented ? loss_scale : 0;
    const int n = data_.size(query);
    s.scores.resize(n), s.keys.resize(n);
    for (int j = 0; j < n; ++j) {
      s.scores[j] = data_.features->dot_weights(data_.first[query] + j, W);
      s.keys[j] = s.scores[j] - s.loss_scale * grade(query, j);
    }
  }
  void open_where_different(int64_t query, const Real* W, Scratch& s, const Label*, int) const {
    open(query, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const {
    return -data_.unit[s.block] * weighted(s.block, y, s, [&](int j) { return s.keys[j]; });
  }

  double best(Scratch& s, const Real*, Label* y) const {
    const int n = data_.size(s.block);
    // With the loss, equal keys are ordered like the truth, which scores the same. Without it the truth is
    // unknown.
    const bool augmented = s.loss_scale != 0;
    for (int j = 0; j < n; ++j) y[j] = j;
    std::sort(y, y + n, [&](Label a, Label b) {
      if (s.keys[a] != s.keys[b]) return Descending()(s.keys[a], s.keys[b]);
      if (augmented && level(s.block, a) != level(s.block, b)) return level(s.block, a) > level(s.block, b);
      return a < b;
    });
    if (augmented) sort_neighbours(s.block, y);
    return score(s, y);
  }
  // The argmax of slack rescaling is a search over the loss multiplier.
  bool slack_argmax() const { return false; }

  // move = sum_k c_k Psi(x, y_k)
  void build_pair(Scratch& s, int64_t query, const Label* plus, const Label* minus) const {
    begin(s, query);
    add_counts(s, plus, 1);
    add_counts(s, minus, -1);
    gather(s);
  }
  void build_mixture(Scratch& s, int64_t query, const Label* outputs, const double* c, int n) const {
    begin(s, query);
    for (int k = 0; k < n; ++k, outputs += data_.size(query))
      if (c[k] != 0) add_counts(s, outputs, c[k]);
    gather(s);
  }
  double squared_norm(const Scratch& s) const { return s.move.squared_norm(); }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    s.move.apply(W, c);
  }

 private:
  double grade(int64_t query, int j) const { return data_.grade[data_.first[query] + j]; }
  int32_t level(int64_t query, int j) const { return data_.level[data_.first[query] + j]; }

  void sort_neighbours(int64_t query, Label* y) const {
    const int n = data_.size(query);
    for (int a = 0, b = 0; a < n; a = b) {
      while (b < n && level(query, y[b]) == level(query, y[a])) ++b;
      std::sort(y + a, y + b);
    }
  }

  // Calls f(j, c_j(y)) for all candidates, in O(n log n).
  template <class F>
  void each_count(int64_t query, const Label* y, std::vector<int32_t>& seen, F&& f) const {
    const int n = data_.size(query);
    seen.assign(static_cast<size_t>(n) + 1, 0);
    for (int above = 0; above < n; ++above) {
      const int j = y[above], own = level(query, j);
      const int lower = below(seen, own), higher = above - below(seen, own + 1);
      f(j, lower - (data_.higher[data_.first[query] + j] - higher));
      for (int at = own + 1; at <= n; at += at & -at) ++seen[at];
    }
  }
  // The number of candidates in `seen` whose level is below this one.
  static int below(const std::vector<int32_t>& seen, int level) {
    int sum = 0;
    for (int at = level; at > 0; at -= at & -at) sum += seen[at];
    return sum;
  }
  template <class F>
  double weighted(int64_t query, const Label* y, const Scratch& s, F&& value) const {
    double sum = 0;
    each_count(query, y, s.seen, [&](int j, int count) { sum += count == 0 ? 0 : count * value(j); });
    return sum;
  }

  void begin(Scratch& s, int64_t query) const {
    s.block = query;
    s.counts.assign(data_.size(query), 0);
  }
  void add_counts(Scratch& s, const Label* y, double c) const {
    each_count(s.block, y, s.seen, [&](int j, int count) { s.counts[j] += c * count; });
  }
  void gather(Scratch& s) const {
    s.move.clear();
    for (int j = 0; j < data_.size(s.block); ++j)
      if (s.counts[j] != 0)
        data_.features->axpy(data_.first[s.block] + j, Gather(s.move), -data_.unit[s.block] * s.counts[j]);
  }
};

}  // namespace mm
