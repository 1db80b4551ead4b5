// Multiclass: one of K labels for a row of features.
//
//     Psi(x, y) = x in the column of y;   s_i(y) = cost[y_i, y] + <w_y - w_{y_i}, x_i>
//     |psi_i(u) - psi_i(v)|^2 = 2 |x_i|^2
//
// W is feature-major, W[f, k] at W[f * stride + k]. The flat weights are class-major (K, d).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "exponential.hpp"
#include "features.hpp"
#include "models/costs.hpp"

namespace mm {

struct MulticlassData {
  const Features* features = nullptr;
  int labels = 0;
  std::vector<int32_t> truth;  // label of each row; -1 if not given
  Costs cost;
  int64_t blocks() const { return features->size(); }
  int64_t dimension() const { return features->width() * labels; }
};

template <class Real_>
class Multiclass {
 public:
  using Real = Real_;
  using Label = int32_t;
  using Data = MulticlassData;

  struct Term {
    int label;
    double c;
  };
  struct Scratch {
    aligned<Real> scores;
    std::vector<Term> move;
    int64_t block = 0;
  };

  explicit Multiclass(const Data& data) : data_(data), K_(data.labels), stride_(padded<Real>(data.labels)) {
    for (int k = 0; k < lanes; ++k) {
      const bool padding = stride_ - lanes + k >= K_;
      counts_[k] = padding ? 0 : 1, floor_[k] = padding ? std::numeric_limits<Real>::lowest() : 0;
    }
  }

  const Data& data() const { return data_; }
  int labels() const { return K_; }
  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  bool valid(int64_t, const Label* y) const { return *y >= 0 && *y < K_; }
  size_t weights() const { return static_cast<size_t>(data_.features->stored()) * stride_; }
  size_t coefficients() const { return data_.features->gram ? weights() / 2 : 0; }
  int output_size(int64_t) const { return 1; }
  Scratch scratch() const { return {aligned<Real>(stride_), {}, 0}; }

  template <class To>
  void pack(const double* flat, To* W) const {
    const int64_t d = data_.features->width();
    for (int64_t f = 0; f < d; ++f)
      for (int k = 0; k < K_; ++k) W[f * stride_ + k] = static_cast<To>(flat[k * d + f]);
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    const int64_t d = data_.features->width();
    for (int64_t f = 0; f < d; ++f)
      for (int k = 0; k < K_; ++k) flat[k * d + f] = W[f * stride_ + k];
  }

  void truth(int64_t block, Label* y) const { *y = data_.truth[block]; }
  double loss(int64_t block, const Label* y) const { return data_.cost.of(data_.truth[block], *y); }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    s.block = block;
    for (auto& x : s.scores) x = 0;
    data_.features->add_scores(block, W, stride_, s.scores.data());
    if (augmented) data_.cost.add(data_.truth[block], loss_scale, s.scores.data(), stride_);
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const { return s.scores[*y]; }

  double best(Scratch& s, const Real*, Label* y) const {
    int top = 0;
    for (int k = 1; k < K_; ++k)
      if (s.scores[k] > s.scores[top]) top = k;
    *y = top;
    return s.scores[top];
  }

  // argmax_y Delta(y) (scores[y] + shift); `shift` is the constant minus the score of the truth.
  void best_slack(const Scratch& s, const Real*, double shift, const Label* truth, Label* y) const {
    *y = *truth;
    double top = 0;
    for (int k = 0; k < K_; ++k) {
      const double value = data_.cost.of(*truth, k) * (s.scores[k] + shift);
      if (value > top) top = value, *y = k;
    }
  }

  bool same(int64_t, const Label* a, const Label* b) const { return *a == *b; }

  // A move changes two weights of each feature of an example; a visit reads the weights of all labels. With
  // few labels both touch about as many cache lines. Then moves are light only if the cache of a core holds
  // all weights.
  bool light_moves() const {
    constexpr size_t cache = 1 << 20, long_row = 256;  // bytes
    return weights() * sizeof(Real) <= cache || stride_ * sizeof(Real) >= long_row;
  }

  // move = sum_j c_j Psi(x, y_j)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    s.block = block;
    s.move = {{*plus, 1.0}, {*minus, -1.0}};
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.block = block;
    s.move.clear();
    for (int j = 0; j < n; ++j)
      if (c[j] != 0) s.move.push_back({outputs[j], c[j]});
  }
  double squared_norm(const Scratch& s) const {
    double sum = 0;
    for (const Term& t : s.move) sum += t.c * t.c;
    return sum * data_.features->norms[s.block];
  }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    if (s.move.size() == 2 && s.move[0].c == -s.move[1].c)
      return data_.features->add_pair(s.block, W, stride_, s.move[0].label, s.move[1].label, c * s.move[0].c);
    for (const Term& t : s.move) data_.features->add_column(s.block, W, stride_, t.label, c * t.c);
  }

  // Updates the scores of the open block after W += c * move.
  void shift(Scratch& s, double c) const {
    for (const Term& t : s.move)
      s.scores[t.label] += static_cast<Real>(c * t.c * data_.features->norms[s.block]);
  }

  // Sums over all labels (SumsAll): the potentials are one row.
  int row_labels() const { return K_; }
  int row_stride() const { return stride_; }
  int64_t potentials(int64_t) const { return 1; }
  void list_potentials(const Scratch& s, const Real*, Real* theta) const {
    std::copy(s.scores.begin(), s.scores.end(), theta);
  }
  double distribute(Scratch& s, int64_t, const Real* theta, Real* m) const {
    Real* e = m ? m : s.scores.data();
    const int last = stride_ - lanes;
    vec<Real> tops = load(theta + last) * load(counts_) + load(floor_);
    for (int k = 0; k < last; k += lanes) tops = maximum(tops, load(theta + k));
    Real top = tops[0];
    for (int k = 1; k < lanes; ++k) top = std::max(top, tops[k]);
    exponentials(theta, top, stride_, e);
    store(e + last, load(e + last) * load(counts_));
    WideSum<Real> sums;
    for (int k = 0; k < stride_; k += lanes) sums.add(load(e + k));
    const double sum = sums.total();
    const vec<Real> inverse = broadcast(static_cast<Real>(1 / sum));
    for (int k = 0; k < stride_; k += lanes) store(e + k, load(e + k) * inverse);
    return top + std::log(sum);
  }
  double part_square(int64_t block) const { return data_.features->dot(block, block); }
  void prefetch_view(int64_t block) const { data_.features->prefetch_view(block); }
  void prefetch(int64_t block) const { data_.features->prefetch(block); }
  void subtract_truth(int64_t block, Real* m) const { m[data_.truth[block]] -= 1; }
  double expected_loss(int64_t block, const Real* m) const {
    double sum = 0;
    for (int k = 0; k < K_; ++k) sum += m[k] * data_.cost.of(data_.truth[block], k);
    return sum;
  }
  void draw(const Scratch&, int64_t, const Real* m, const double* chance, Label* y) const {
    double left = *chance;
    for (*y = 0; *y + 1 < K_ && (left -= m[*y]) >= 0; ++*y) continue;
  }
  double add_expected(const Scratch&, int64_t block, const Real* m, Real* W, double c) const {
    return data_.features->add_measured(block, W, stride_, m, static_cast<Real>(c));
  }

  // W[:, label] += c x for all terms of the move, which sum to zero, in one pass over the row. Overwrites the
  // scores. Adding whole vectors of columns is as fast as adding single columns.
  void scatter(Scratch& s, Real* W) const {
    const bool narrow = !data_.features->gram && static_cast<size_t>(stride_ / lanes) <= s.move.size();
    if (!narrow && s.move.size() == 2)
      return data_.features->add_pair(s.block, W, stride_, s.move[0].label, s.move[1].label, s.move[0].c);
    if (!narrow) return apply(s, W, 1);
    std::fill(s.scores.begin(), s.scores.end(), Real(0));
    for (const Term& t : s.move) s.scores[t.label] = static_cast<Real>(t.c);
    data_.features->add_outer(s.block, W, stride_, s.scores.data());
  }

 private:
  static constexpr int lanes = Vector<Real>::lanes;
  const Data& data_;
  int K_, stride_;
  // For the last vector of a row: 1 and 0 at labels, 0 and the lowest number at padding.
  Real counts_[lanes], floor_[lanes];
};

}  // namespace mm
