// The weights of a node: one for each pair of a feature and a label, or only for the observed pairs.
//
//   all pairs    W has a row of `stride` reals for each feature
//   pairs        W has one real for each pair (feature, label) of a list; the score of any other pair is zero
//
//   scores:  u[k] += sum_j x_j W(j, k)        column:  W(:, k) += c x        inner:  <x_r, x_q> over the pairs of k
//
// The set of pairs does not change. To a structure, W is a plain vector of weights, only shorter.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "features.hpp"

namespace mm {

// Pairs (feature, label): the sorted labels of each feature, one feature after the other.
//
// Bisection finds a pair in the list of its feature. A feature with many labels also has a table: for each 64 labels,
// a word of bits and the index of the first pair of the word. The index of a pair is that index plus the number of
// lower set bits.
class Pairs {
 public:
  using Label = uint16_t;
  Pairs(int labels, std::vector<int64_t> first, std::vector<Label> label);  // throws if pairs are invalid
  // The pairs for which some row has the feature and the label is the truth of that row.
  static Pairs observed(const Features& features, const int32_t* truth, int labels);

  int labels() const { return labels_; }
  const std::vector<int64_t>& first() const {
    return first_;
  }  // the labels of feature j are label[first[j]] .. label[first[j + 1]]
  const std::vector<Label>& label() const { return label_; }
  int64_t size() const { return static_cast<int64_t>(label_.size()); }
  int64_t features() const { return static_cast<int64_t>(first_.size()) - 1; }

  int64_t find(int64_t feature, int k) const {  // the index of a pair, or -1
    const Row& row = rows_[feature];
    if (row.table >= 0) {
      const Word& word = words_[row.table + k / 64];
      const uint64_t bit = uint64_t(1) << (k % 64);
      return word.bits & bit ? word.place + std::popcount(word.bits & (bit - 1)) : -1;
    }
    const Label* at = label_.data() + row.first;
    int32_t left = row.count;
    for (; left > 1; left -= left / 2) at = at[left / 2] <= k ? at + left / 2 : at;
    return left == 1 && *at == k ? at - label_.data() : -1;
  }

 private:
  struct Row {
    int64_t first;
    int32_t count;
    int32_t table;  // the index of its first word, or -1
  };
  struct Word {
    uint64_t bits;
    int64_t place;
  };
  // A feature with at most this many labels has no table: bisection is as fast there.
  static constexpr int64_t few = 4;
  int labels_;
  std::vector<int64_t> first_;
  std::vector<Label> label_;
  std::vector<Row> rows_;
  std::vector<Word> words_;

  bool valid() const;
  void add_table(Row& row);
};

class NodeWeights {
 public:
  const Features* features = nullptr;
  const Pairs* pairs = nullptr;  // null: all pairs

  int64_t dimension(int labels) const { return pairs ? pairs->size() : features->width() * labels; }
  // The number of reals of W, in rows of `stride`.
  int64_t inside(int stride) const {
    return pairs ? (pairs->size() + stride - 1) / stride * stride : features->stored() * stride;
  }
  // Calls f(inside, outside) for every weight of the units first .. last. A unit is a feature, or a pair if there are
  // `pairs`. `inside` is the index in W. `outside` is the index in the flat weights: a row of features for each
  // label, or the order of `pairs`.
  int64_t units() const { return pairs ? pairs->size() : features->width(); }
  template <class F>
  void each(int64_t first, int64_t last, int labels, int stride, F&& f) const {
    const int64_t d = units();
    if (pairs)
      for (int64_t p = first; p < last; ++p) f(p, p);
    else
      for (int64_t j = first; j < last; ++j)
        for (int64_t k = 0; k < labels; ++k) f(j * stride + k, k * d + j);
  }

  template <class Real>
  void add_scores(int64_t r, const Real* W, int stride, Real* u, uint64_t wanted = ~uint64_t(0)) const {
    pairs ? add_pair_scores(r, W, u) : features->add_scores(r, W, stride, u, wanted);
  }
  template <class Real>
  void prefetch_weights(int64_t r, const Real* W, int stride) const {
    if (!pairs) features->prefetch_weights(r, W, stride);
  }
  template <class Real>
  Real score_of(int64_t r, const Real* W, int stride, int k) const {
    return pairs ? pair_score(r, W, k) : features->score_of(r, W, stride, k);
  }
  template <class Target>
  void add_column(int64_t r, Target W, int stride, int k, number_at<Target> c) const {
    pairs ? add_to_pairs(r, W, k, c) : features->add_column(r, W, stride, k, c);
  }
  template <class Target>
  void add_two(int64_t r, Target W, int stride, int plus, int minus, number_at<Target> c) const {
    if (!pairs) return features->add_pair(r, W, stride, plus, minus, c);
    add_to_pairs(r, W, plus, c);
    add_to_pairs(r, W, minus, -c);
  }
  // W(:, k) += scale c[k] x_r for all k; returns the change of |W|^2
  template <class Real>
  double add_measured(int64_t r, Real* W, int stride, const Real* c, Real scale) const {
    return pairs ? add_to_all_pairs(r, W, c, scale) : features->add_measured(r, W, stride, c, scale);
  }
  double norm(int64_t r, int k) const { return pairs ? pair_norm(r, k) : features->norms[r]; }
  double dot(int64_t r, int64_t q, int k) const { return pairs ? pair_dot(r, q, k) : features->dot(r, q); }

 private:
  template <class Real>
  void add_pair_scores(int64_t r, const Real* W, Real* u) const;
  template <class Real>
  Real pair_score(int64_t r, const Real* W, int k) const;
  template <class Target>
  void add_to_pairs(int64_t r, Target W, int k, number_at<Target> c) const;
  template <class Real>
  double add_to_all_pairs(int64_t r, Real* W, const Real* c, Real scale) const;
  double pair_norm(int64_t r, int k) const;
  double pair_dot(int64_t r, int64_t q, int k) const;
};

}  // namespace mm
