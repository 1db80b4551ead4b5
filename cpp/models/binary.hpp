// Binary: one of two labels for a row of features.
//
//     Psi(x, y) = y x / 2 with y = -1 for label 0 and +1 for label 1;   s_i(y) = cost[y_i] [y != y_i] + y <w, x_i> / 2
//     psi_i(other) = - y_i x_i, so that xi_i = max(0, cost[y_i] - y_i <w, x_i>): the hinge
//
// W has the layout of the flat weights: one weight per feature, without padding.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "features.hpp"

namespace mm {

struct BinaryData {
  const Features* features = nullptr;
  std::vector<int32_t> truth;  // 0 or 1 for each row
  std::vector<double> cost;    // cost of a mistake, by true label
  int64_t blocks() const { return features->size(); }
  int64_t dimension() const { return features->width(); }
};

template <class Real_>
class Binary : public OneWeightPerFeature<BinaryData> {
  using Base = OneWeightPerFeature<BinaryData>;
  using Base::data_;

 public:
  using Real = Real_;
  using Label = int32_t;
  using Data = BinaryData;

  struct Scratch {
    Real scores[2] = {0, 0};
    double move = 0;  // the built move is this number times x
    int64_t block = 0;
  };

  using Base::Base;

  const Data& data() const { return data_; }
  int labels() const { return 2; }
  bool valid(int64_t, const Label* y) const { return *y == 0 || *y == 1; }
  Scratch scratch() const { return {}; }

  void truth(int64_t block, Label* y) const { *y = data_.truth[block]; }
  double loss(int64_t block, const Label* y) const {
    const int32_t own = data_.truth[block];
    return *y == own ? 0 : data_.cost[own];
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    s.block = block;
    const Real half = data_.features->dot_weights(block, W) / 2;
    s.scores[0] = -half;
    s.scores[1] = half;
    if (augmented) {
      const int32_t own = data_.truth[block];
      s.scores[1 - own] += loss_scale * static_cast<Real>(data_.cost[own]);
    }
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const { return s.scores[*y]; }

  double best(Scratch& s, const Real*, Label* y) const {
    *y = s.scores[1] > s.scores[0];
    return s.scores[*y];
  }

  // argmax_y Delta(y) (scores[y] + shift); `shift` is the constant minus the score of the truth.
  void best_slack(const Scratch& s, const Real*, double shift, const Label* truth, Label* y) const {
    const Label other = 1 - *truth;
    *y = data_.cost[*truth] * (s.scores[other] + shift) > 0 ? other : *truth;
  }

  bool same(int64_t, const Label* a, const Label* b) const { return *a == *b; }

  bool light_moves() const { return false; }  // a visit reads the weights that a move changes

  // move = sum_j c_j Psi(x, y_j)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    s.block = block;
    s.move = *plus - *minus;
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.block = block;
    s.move = 0;
    for (int j = 0; j < n; ++j) s.move += c[j] * (outputs[j] - 0.5);
  }
  double squared_norm(const Scratch& s) const { return s.move * s.move * data_.features->norms[s.block]; }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    if (s.move != 0) data_.features->axpy(s.block, W, c * s.move);
  }
  // Returns the slack of a block, and adds c psi(y) to `sum`, in one pass over its row.
  double slack_and_plane(int64_t block, const double* W, const Label* y, double c, double* sum) const {
    const int32_t own = data_.truth[block];
    const double half = data_.features->dot_and_axpy(block, W, sum, c * (*y - own)) / 2;
    const double margin = own == 0 ? -half : half;
    const double score = (data_.cost[own] - margin) - margin;  // the same rounding as in `open`
    return score <= 0 ? 0 : score;                             // NaN is returned as NaN
  }
  // Sums over both labels (SumsAll): the potentials are one row of two numbers.
  int row_labels() const { return 2; }
  int row_stride() const { return 2; }
  int64_t potentials(int64_t) const { return 1; }
  void list_potentials(const Scratch& s, const Real*, Real* theta) const {
    theta[0] = s.scores[0], theta[1] = s.scores[1];
  }
  double distribute(Scratch&, int64_t, const Real* theta, Real* m) const {
    const int top = theta[1] > theta[0];
    const double below = std::exp(static_cast<double>(theta[1 - top]) - theta[top]), sum = 1 + below;
    if (m) m[top] = static_cast<Real>(1 / sum), m[1 - top] = static_cast<Real>(below / sum);
    return theta[top] + std::log1p(below);
  }
  void subtract_truth(int64_t block, Real* m) const { m[data_.truth[block]] -= 1; }
  double expected_loss(int64_t block, const Real* m) const {
    const int32_t own = data_.truth[block];
    return m[1 - own] * data_.cost[own];
  }
  void draw(const Scratch&, int64_t, const Real* m, const double* chance, Label* y) const {
    *y = *chance >= m[0];
  }
  double part_square(int64_t block) const { return data_.features->dot(block, block) / 2; }
  void prefetch_view(int64_t block) const { data_.features->prefetch_view(block); }
  void prefetch(int64_t block) const { data_.features->prefetch(block); }
  // |w + c x|^2 - |w|^2 = c <w, x> + c <w + c x, x>
  double add_expected(const Scratch&, int64_t block, const Real* m, Real* W, double c) const {
    const Real step = static_cast<Real>(c * (m[1] - m[0]) / 2);
    double products = data_.features->dot_weights(block, W);
    data_.features->axpy(block, W, step);
    products += data_.features->dot_weights(block, W);
    return step * products;
  }
  // Updates the scores of the open block after W += c * move.
  void shift(Scratch& s, double c) const {
    const Real half = static_cast<Real>(c * s.move * data_.features->norms[s.block] / 2);
    s.scores[0] -= half, s.scores[1] += half;
  }
};

}  // namespace mm
