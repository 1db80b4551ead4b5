// The metric of a prior, and bounds: they say how a move of the multipliers moves w.
//
//   R(w) = 1/2 (w - m)' Sigma^-1 (w - m),  infinite where w < lower
//   q = - sum a psi      v = m + Sigma q      w = max(lower, v)
//   R*(q) = <q, w> - R(w) = sum_j (v_j - m_j) w_j / s_j - (w_j - m_j)^2 / (2 s_j),   Sigma = diag(s)
//
// Sigma is the identity, a diagonal (in the structure's layout), or a matrix (over flat weights, without bounds).
// Bounds do not raise the curvature of R*. So a step that is exact without bounds gains at least its claim with them.
#pragma once

#include <algorithm>
#include <vector>

#include "gather.hpp"

namespace mm {

struct Metric {
  std::vector<double> diagonal;  // of Sigma; empty: ones
  std::vector<double> lower;     // empty: no bounds
  std::vector<double> matrix;    // Sigma row by row; empty: diagonal
  std::vector<size_t> inside;    // with a matrix: the structure's place of each flat weight
  std::vector<size_t> outside;   // and back

  bool scaled() const { return !diagonal.empty() || !matrix.empty(); }
  bool bounded() const { return !lower.empty(); }
  bool plain() const { return !scaled() && !bounded(); }
  double scale(size_t j) const { return diagonal.empty() ? 1 : diagonal[j]; }

  // image = Sigma move, over flat weights
  void multiply(const Sparse& move, std::vector<double>& image) const {
    image.assign(inside.size(), 0);
    for (size_t j : move.touched) {
      const double c = move.dense[j];
      const double* row = matrix.data() + outside[j] * inside.size();
      for (size_t f = 0; f < inside.size(); ++f) image[f] += c * row[f];
    }
  }
  // q <- Sigma q
  void multiply(std::vector<double>& q) const {
    for (size_t j = 0; j < diagonal.size(); ++j) q[j] *= diagonal[j];
    if (matrix.empty()) return;
    Sparse whole;
    whole.resize(q.size());
    for (size_t j : inside) whole.add(j, q[j]);
    std::vector<double> image;
    multiply(whole, image);
    for (size_t f = 0; f < inside.size(); ++f) q[inside[f]] = image[f];
  }
  double clipped(size_t j, double v) const { return bounded() ? std::max(lower[j], v) : v; }
};

// One move in the metric: the move that was built in the structure's scratch, its length, and its effect on w.
template <class Structure>
class Move {
 public:
  using Scratch = typename Structure::Scratch;
  void renew() { gathered_ = false; }

  double squared_norm(const Metric& metric, const Structure& structure, Scratch& s, size_t size) {
    if (!metric.scaled()) return structure.squared_norm(s);
    gather(metric, structure, s, size);
    double sum = 0;
    if (!metric.matrix.empty()) {
      for (size_t j : move_.touched) sum += move_.dense[j] * image_[metric.outside[j]];
      return std::max(sum, 0.0);
    }
    for (size_t j : move_.touched) sum += metric.diagonal[j] * move_.dense[j] * move_.dense[j];
    return sum;
  }

  // Calls f(j, change) for each weight that c Sigma move changes.
  template <class F>
  void each(const Metric& metric, const Structure& structure, const Scratch& s, size_t size, double c,
            F&& f) {
    gather(metric, structure, s, size);
    if (!metric.matrix.empty()) {
      for (size_t k = 0; k < image_.size(); ++k) f(metric.inside[k], c * image_[k]);
      return;
    }
    for (size_t j : move_.touched) f(j, c * metric.scale(j) * move_.dense[j]);
  }

 private:
  Sparse move_;
  std::vector<double> image_;  // Sigma times the move, with a matrix
  bool gathered_ = false;

  void gather(const Metric& metric, const Structure& structure, const Scratch& s, size_t size) {
    if (gathered_) return;
    move_.resize(size);
    move_.clear();
    structure.apply(s, Gather(move_), 1.0);
    if (!metric.matrix.empty()) metric.multiply(move_, image_);
    gathered_ = true;
  }
};

}  // namespace mm
