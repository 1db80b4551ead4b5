// Binary problems in which many links repel, so that the linear relaxation is loose.
//
//     f(y) = g . y + 1/2 y' W y + constant,   y in {0, 1}^n,   W_ab = theta(0,0) + theta(1,1) - theta(0,1) - theta(1,0)
//
// As y_v^2 = y_v, subtracting a diagonal S changes nothing on the corners. Let s be the diagonal of S:
//
//     f(x) = (g + s/2) . x + 1/2 x' (W - S) x
//
// If S - W is positive definite, f is concave on the box, and below its tangent at any x:
//
//     f(y) <= f(x) + sum_v max(d_v (1 - x_v), -d_v x_v),    d the gradient at x
//
// Coordinate ascent finds a good x, which is rounded to a labelling and improved. A Cholesky factorisation
// proves that S is large enough. S is made smaller where x is far from the corners, and larger elsewhere. If
// a gap remains, branch and bound splits on single nodes, the highest ceiling first. A node is fixed on the
// way if its term of the bound excludes the other label.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/pairwise.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

class ConcaveBound {
 public:
  // Above this, quadratic memory and cubic factorisations take too long.
  static constexpr int most_nodes = 256;
  // Limits the splits, each of about nodes^2 steps; more takes longer, less leaves a larger gap.
  static constexpr int64_t work = 200'000;

  // Whether the graph is small and dense enough for this method.
  static bool fits(const Topology& g) {
    const int64_t n = g.nodes();
    return g.binary && n <= most_nodes && (n <= 32 || 4 * static_cast<int64_t>(g.links()) >= n * (n - 1));
  }

  // Improves `y`, whose value is given. With `prove` it also lowers `ceiling`; without, it is a faster
  // heuristic.
  double solve(const PairwiseView& p, bool prove, int32_t* y, double value, double& ceiling) {
    read(p);
    best_ = value - constant_;
    best_y_.assign(y, y + n_);
    if (!open_root(prove)) return value;
    const int64_t splits = std::clamp<int64_t>(work / (static_cast<int64_t>(n_) * n_), 8, 64);
    for (int64_t split = 0; prove && split < splits && !open_.empty(); ++split) {
      poll();
      std::pop_heap(open_.begin(), open_.end());
      const Part part = std::move(open_.back());
      open_.pop_back();
      if (part.bound <= best_ + tiny * (1 + std::abs(best_))) continue;
      const int v = undecided(part);
      if (v < 0) {  // one labelling is left in this part
        consider(part.label);
        continue;
      }
      for (int8_t label = 0; label < 2; ++label) {
        Part half = part;
        half.label[v] = label;
        bound(half, 15);
        if (half.bound <= best_ + tiny * (1 + std::abs(best_))) continue;
        open_.push_back(std::move(half));
        std::push_heap(open_.begin(), open_.end());
      }
    }
    if (prove) {
      double top = best_;
      for (const Part& part : open_) top = std::max(top, part.bound);
      ceiling = std::min(ceiling, top + constant_);
    }
    std::copy(best_y_.begin(), best_y_.end(), y);
    value = p.value(y);
    ceiling = std::max(ceiling, value);
    return value;
  }

 private:
  static constexpr double tiny = 1e-12;
  struct Part {
    double bound;
    std::vector<int8_t> label;  // -1: free
    std::vector<double> x;
    bool operator<(const Part& other) const { return bound < other.bound; }
  };
  int n_ = 0;
  double constant_ = 0, best_ = 0;
  std::vector<double> linear_, W_, shift_, root_, power_, factor_, gradient_;
  std::vector<double> gain_;  // gain of turning a node on
  std::vector<int32_t> best_y_, y_;
  std::vector<Part> open_;

  void read(const PairwiseView& p) {
    const Topology& g = *p.graph;
    n_ = g.nodes();
    constant_ = 0;
    linear_.resize(n_);
    W_.assign(static_cast<size_t>(n_) * n_, 0);
    for (int v = 0; v < n_; ++v) constant_ += p.scores(v)[0], linear_[v] = p.scores(v)[1] - p.scores(v)[0];
    for (int l = 0; l < g.links(); ++l) {
      const double* t = p.tables[l];
      const size_t a = g.a[l], b = g.b[l];
      constant_ += t[0];
      linear_[a] += t[2] - t[0];
      linear_[b] += t[1] - t[0];
      W_[a * n_ + b] = W_[b * n_ + a] = t[0] + t[3] - t[1] - t[2];
    }
  }
  const double* row(int v) const { return W_.data() + static_cast<size_t>(v) * n_; }

  // Sets the shift to the smallest multiple of the sizes that is large enough; with `prove` a factorisation
  // must confirm it. Returns false if this fails.
  bool scale(const std::vector<double>& sizes, bool prove) {
    root_.resize(n_);
    for (int v = 0; v < n_; ++v) root_[v] = 1 / std::sqrt(sizes[v]);
    double s = 1.01 * largest_eigenvalue(prove ? 40 : 12) + 1e-9;
    shift_.resize(n_);
    for (int attempt = 0; attempt < 60; ++attempt, s *= 1.05) {
      for (int v = 0; v < n_; ++v) shift_[v] = s * sizes[v];
      if (!prove || positive()) return true;
    }
    return false;
  }
  // Estimates the largest eigenvalue of R W R, with R the diagonal `root_`: power iteration on R W R + c for
  // a large enough c.
  double largest_eigenvalue(int steps) {
    double c = 0;
    for (int v = 0; v < n_; ++v) {
      double sum = 0;
      for (int u = 0; u < n_; ++u) sum += std::abs(row(v)[u]) * root_[u];
      c = std::max(c, sum * root_[v]);
    }
    std::vector<double>&x = power_, &z = gradient_;
    x.resize(n_), z.resize(n_);
    for (int v = 0; v < n_; ++v) x[v] = std::sin(1.0 + v);
    double top = 0;
    for (int step = 0; step < steps && c > 0; ++step) {
      double norm = 0, product = 0, size = 0;
      for (int v = 0; v < n_; ++v) norm += x[v] * x[v], x[v] *= root_[v];
      for (int v = 0; v < n_; ++v) {
        double sum = 0;
        for (int u = 0; u < n_; ++u) sum += row(v)[u] * x[u];
        product += sum * x[v];
        z[v] = sum * root_[v] + c / 2 * x[v] / root_[v];
        size += z[v] * z[v];
      }
      top = std::max(top, product / norm);
      if (!(size > 0)) break;
      for (int v = 0; v < n_; ++v) x[v] = z[v] / std::sqrt(size);
    }
    return top;
  }
  // Whether diag(shift) - W is positive definite, by a Cholesky factorisation.
  bool positive() {
    factor_.resize(W_.size());
    for (int i = 0; i < n_; ++i) {
      double* own = factor_.data() + static_cast<size_t>(i) * n_;
      for (int j = 0; j <= i; ++j) {
        const double* other = factor_.data() + static_cast<size_t>(j) * n_;
        double sum = (i == j ? shift_[i] : 0) - row(i)[j];
        for (int k = 0; k < j; ++k) sum -= own[k] * other[k];
        if (i != j) {
          own[j] = sum / other[j];
          continue;
        }
        if (!(sum > 1e-10 * shift_[i])) return false;
        own[i] = std::sqrt(sum);
      }
    }
    return true;
  }

  // Computes the ceiling of the whole problem, with a shift that is lowered for nodes whose x is not at a
  // corner.
  bool open_root(bool prove) {
    std::vector<double> sizes(n_), best_shift;
    for (int v = 0; v < n_; ++v) {
      double sum = 0;
      for (int u = 0; u < n_; ++u) sum += row(v)[u] * row(v)[u];
      sizes[v] = std::sqrt(sum) + 1e-6;
    }
    Part root{std::numeric_limits<double>::infinity(), {}, {}}, part;
    part.x.assign(n_, 0.5);
    for (int pass = 0; pass < (prove ? 8 : 1); ++pass) {
      if (!scale(sizes, prove)) break;
      part.label.assign(n_, -1);
      bound(part, prove ? 60 : 20);
      if (part.bound < root.bound) root = part, best_shift = shift_;
      if (part.bound <= best_ + tiny * (1 + std::abs(best_))) break;
      double mean = 0;
      for (const double x : part.x) mean += x * (1 - x) / n_;
      if (!(mean > 0)) break;
      for (int v = 0; v < n_; ++v)
        sizes[v] = shift_[v] / std::sqrt(1 + (part.x[v] * (1 - part.x[v]) + 0.02) / (mean + 0.02));
    }
    if (best_shift.empty()) return false;
    shift_ = best_shift;
    open_.assign(1, std::move(root));
    return true;
  }

  // Computes the ceiling of a part, fixes nodes that it decides, and tries labellings near its x.
  void bound(Part& part, int sweeps) {
    gradient_.resize(n_);
    for (int v = 0; v < n_; ++v)
      if (part.label[v] >= 0) part.x[v] = part.label[v];
    for (int v = 0; v < n_; ++v) {
      double sum = linear_[v] + shift_[v] / 2 - shift_[v] * part.x[v];
      for (int u = 0; u < n_; ++u) sum += row(v)[u] * part.x[u];
      gradient_[v] = sum;
    }
    ascend(part, sweeps);
    double value = 0, more = 0;
    for (int v = 0; v < n_; ++v) {
      // f(x) = x . (h + d) / 2 with h the linear part and d the gradient
      value += part.x[v] * (linear_[v] + shift_[v] / 2 + gradient_[v]) / 2;
      if (part.label[v] < 0) more += excess(part, v);
    }
    part.bound = value + more;
    round(part);
    for (int v = 0; v < n_; ++v) {
      if (part.label[v] >= 0) continue;
      const double rest = part.bound - excess(part, v), d = gradient_[v];
      if (rest + d * (1 - part.x[v]) <= best_)
        part.label[v] = 0;
      else if (rest - d * part.x[v] <= best_)
        part.label[v] = 1;
    }
  }
  void consider(const std::vector<int8_t>& label) {
    double value = 0;
    for (int v = 0; v < n_; ++v) {
      if (!label[v]) continue;
      value += linear_[v];
      for (int u = 0; u < v; ++u)
        if (label[u]) value += row(v)[u];
    }
    if (value > best_) best_ = value, best_y_.assign(label.begin(), label.end());
  }
  double excess(const Part& part, int v) const {
    return std::max(gradient_[v] * (1 - part.x[v]), -gradient_[v] * part.x[v]);
  }
  void ascend(Part& part, int sweeps) {
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      double moved = 0;
      for (int v = 0; v < n_; ++v) {
        if (part.label[v] >= 0) continue;
        const double aim = part.x[v] + gradient_[v] / shift_[v];
        const double step = std::clamp(aim, 0.0, 1.0) - part.x[v];
        if (step == 0) continue;
        part.x[v] += step;
        moved = std::max(moved, std::abs(step));
        const double* w = row(v);
        for (int u = 0; u < n_; ++u) gradient_[u] += step * w[u];
        gradient_[v] -= step * shift_[v];
      }
      if (moved < 1e-4) break;
    }
  }
  // Rounds x to labels, then changes single labels and pairs while that helps.
  void round(const Part& part) {
    y_.resize(n_);
    for (int v = 0; v < n_; ++v) y_[v] = part.x[v] > 0.5;
    std::vector<double>& gain = gain_;
    gain.assign(linear_.begin(), linear_.end());
    for (int v = 0; v < n_; ++v)
      if (y_[v])
        for (int u = 0; u < n_; ++u) gain[u] += row(v)[u];
    const auto flip = [&](int v) {
      const double sign = y_[v] ? -1 : 1;
      y_[v] = 1 - y_[v];
      for (int u = 0; u < n_; ++u) gain[u] += sign * row(v)[u];
    };
    for (int step = 0; step < 4 * n_; ++step) {
      int v = 0, off = -1;
      double most = -1;
      for (int u = 0; u < n_; ++u)
        if (const double d = y_[u] ? -gain[u] : gain[u]; d > most || u == 0) most = d, v = u;
      if (most <= tiny) {
        most = exchange(gain, v, off);
        if (most <= tiny) break;
        flip(off);
      }
      flip(v);
    }
    double value = 0;
    for (int v = 0; v < n_; ++v)
      if (y_[v]) value += (linear_[v] + gain[v]) / 2;
    if (value > best_) best_ = value, best_y_ = y_;
  }
  // Finds the best pair of nodes to exchange: `off` is on and is turned off, `on` is off and is turned on.
  double exchange(const std::vector<double>& gain, int& on, int& off) const {
    double most = 0;
    for (int v = 0; v < n_; ++v) {
      if (!y_[v]) continue;
      for (int u = 0; u < n_; ++u) {
        if (y_[u]) continue;
        const double d = gain[u] - row(v)[u] - gain[v];
        if (d > most) most = d, on = u, off = v;
      }
    }
    return most;
  }
  static int undecided(const Part& part) {
    int at = -1;
    double nearest = 1;
    for (size_t v = 0; v < part.label.size(); ++v)
      if (part.label[v] < 0 && std::abs(part.x[v] - 0.5) < nearest)
        nearest = std::abs(part.x[v] - 0.5), at = static_cast<int>(v);
    return at;
  }
};

}  // namespace mm
