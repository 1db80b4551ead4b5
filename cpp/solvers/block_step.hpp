// How dual coordinate ascent looks at a block and moves it. It scores all outputs, so it needs no search.
//
// Under a proximal term w moves by `shrink` = 1 / (1 + k) times the vectors, and curvatures shrink by the same factor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/binary.hpp"
#include "models/groups.hpp"
#include "models/multiclass.hpp"

namespace mm {

struct Look {
  double share;   // the block's part of the gap: mass g = mass s(u) - sum_y a(y) s(y)
  double spread;  // s(u) - min_{a(v) > 0} s(v), the slope of the largest pair step
};

// The state of one block.
struct OneBlock {
  double mass;
  double share;  // its part of the gap at its last visit
  double* a;     // multipliers of its outputs
  int32_t outputs;
  int32_t rest;  // rounds that it still skips
};

// Has no branches, since the processor could not predict them.
template <class Real>
Look look_at(const Real* s, const double* a, double mass, int n) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double top = s[0], mean = 0, low = infinity;
  for (int y = 0; y < n; ++y) {
    const double value = s[y];
    top = value > top ? value : top;
    mean += a[y] > 0 ? a[y] * value : 0;
    low = std::min(low, a[y] > 0 ? value : infinity);
  }
  return low < top ? Look{mass * top - mean, top - low} : Look{0, 0};
}

// The lead of the best of n scores over the next best one.
template <class Real>
double lead_of(const Real* s, int n) {
  const Real* top = std::max_element(s, s + n);
  double next = -std::numeric_limits<double>::infinity();
  for (const Real* other = s; other < s + n; ++other)
    if (other != top) next = std::max<double>(next, *other);
  return *top - next;
}

// Equation (12): the new multiplier of an output if the true output has the rest of the mass. s is the slope.
inline double single_step(double a, double s, double curvature, double mass) {
  const double step = curvature > 0 ? s / curvature : s * std::numeric_limits<double>::infinity();
  return std::min(std::max(a + step, 0.0), mass);
}

template <class Structure>
class BlockStep;

// Two classes: one multiplier decides. A visit is short, and it reads memory in random order. So everything that it
// needs besides the features is in one cache line.
template <class Real>
class BlockStep<Binary<Real>> {
 public:
  struct alignas(64) Block {
    double mass, share, a[2];
    const int32_t* index;  // of the row of features, as in its view
    const void* value;
    int32_t length;
    float square;  // |x|^2
    int32_t own;   // the true label
    int32_t rest;
    static constexpr int32_t outputs = 2;
    RowView row() const { return {index, value, length}; }
  };

  explicit BlockStep(const Binary<Real>& structure) : data_(structure.data()) {}

  int outputs(int64_t) const { return 2; }
  Block block(int64_t i, double mass, double*) const {
    const RowView& row = data_.features->rows[i];
    return {mass, 0, {0, 0}, row.index, row.value, row.length, data_.features->norms[i], data_.truth[i], 0};
  }

  void prefetch(int64_t, const Block& b) const { data_.features->prefetch(b.row()); }

  Look look(int64_t i, const Block& b, const Real* W) {
    const double product = data_.features->dot_weights(i, b.row(), W);
    score_ = data_.cost[b.own] - sign_[b.own] * product;
    // No branch, since the processor could not predict it.
    const double away = b.a[b.own ^ static_cast<int>(!(score_ > 0))], size = std::abs(score_);
    return {size * away, away > 0 ? size : 0};
  }
  // Call this after a look that saw no spread. Returns s(u) less the next best score.
  double lead(const Block&) const { return std::abs(score_); }
  // sum_y a(y) Delta(y)
  double offset(const Block& b) const { return b.a[1 - b.own] * data_.cost[b.own]; }

  void move(int64_t i, Block& b, Real* W, double shrink) {
    double& other = b.a[1 - b.own];
    const double next = single_step(other, score_, shrink * b.square, b.mass);
    const double step = shrink * (next - other);
    if (step != 0) data_.features->axpy(i, b.row(), W, static_cast<Real>(sign_[b.own] * step));
    other = next;
    b.a[b.own] = b.mass - next;
  }

 private:
  const BinaryData& data_;
  static constexpr double sign_[2] = {-1, 1};
  double score_ = 0;  // score of the wrong label less score of the true one, at the last look
};

// Groups: pair steps. The inner products of a group are cached once they are known.
template <class Real>
class BlockStep<Groups<Real>> {
 public:
  explicit BlockStep(const Groups<Real>& structure) : structure_(structure), scratch_(structure.scratch()) {
    const GroupsData& data = structure.data();
    gram_first_.resize(data.blocks(), -1);
    int64_t size = 0;
    for (int64_t i = 0; i < data.blocks(); ++i) {
      const int n = data.size(i);
      if (n < 2 || n > most_) continue;
      gram_first_[i] = size;
      size += static_cast<int64_t>(n) * n;
    }
    gram_.assign(size, std::numeric_limits<double>::quiet_NaN());
  }

  using Block = OneBlock;
  int outputs(int64_t block) const { return structure_.data().size(block) + 1; }
  Block block(int64_t i, double mass, double* a) const { return {mass, 0, a, outputs(i), 0}; }

  void prefetch(int64_t i, const Block& b) const {
    const GroupsData& data = structure_.data();
    if (data.size(i) == 0) return;
    fetch_ahead(b.a);
    data.features->prefetch(data.group(i)->row);
  }

  Look look(int64_t i, const Block& b, const Real* W) {
    const GroupsData& data = structure_.data();
    if (data.size(i) == 1) return look_at_one(*data.group(i), W, b.a);
    structure_.open(i, W, scratch_, true, 1);
    return look_at(scratch_.scores.data(), b.a, b.mass, b.outputs);
  }
  double lead(const Block& b) const {
    return b.outputs == 2 ? std::abs(score_) : lead_of(scratch_.scores.data(), b.outputs);
  }

  // A group of one is solved by the update of its variable. Other groups make pair steps until the block is solved. A
  // group that is too large for cached inner products makes one pair step.
  void move(int64_t i, Block& b, Real* W, double shrink) {
    const GroupsData& data = structure_.data();
    const int n = data.size(i);
    double* a = b.a;
    if (n == 1) return move_one(*data.group(i), W, a, b.mass, shrink);
    if (gram_first_[i] < 0) return void(pair(i, a, W, shrink));
    before_.assign(a, a + n + 1);
    for (int round = 0; round < 3 * n; ++round)
      if (!pair(i, a, nullptr, shrink)) break;
    const Constraint* x = data.group(i);
    for (int j = 0; j < n; ++j)
      if (a[j + 1] != before_[j + 1]) add(x[j], W, shrink * (a[j + 1] - before_[j + 1]));
  }

 private:
  static constexpr int most_ = 32;  // constraints; inner products of larger groups take too much memory
  const Groups<Real>& structure_;
  typename Groups<Real>::Scratch scratch_;
  std::vector<double> gram_, before_;
  std::vector<int64_t> gram_first_;
  double score_ = 0;  // of a group of one, at the last look

  Look look_at_one(const Constraint& x, const Real* W, const double* a) {
    const double s =
        x.margin - x.factor * static_cast<double>(structure_.data().features->dot_weights(x.row, W));
    score_ = s;
    const double away = s > 0 ? a[0] : a[1], size = std::abs(s);
    return {size * away, away > 0 ? size : 0};
  }

  void move_one(const Constraint& x, Real* W, double* a, double mass, double shrink) {
    const double next = single_step(a[1], score_, x.square * shrink, mass);
    add(x, W, shrink * (next - a[1]));
    a[1] = next;
    a[0] = mass - next;
  }

  void add(const Constraint& x, Real* W, double c) const {
    structure_.data().features->axpy(x.row, W, static_cast<Real>(c * x.factor));
  }

  // <psi(y), psi(z)>
  double gram(int64_t i, int y, int z) {
    if (y == 0 || z == 0) return 0;
    const GroupsData& data = structure_.data();
    const Constraint* x = data.group(i);
    if (y == z) return x[y - 1].square;
    if (gram_first_[i] < 0) return product(*data.features, x[y - 1], x[z - 1]);
    double& known = gram_[gram_first_[i] + static_cast<int64_t>(y - 1) * data.size(i) + z - 1];
    if (std::isnan(known)) {
      known = product(*data.features, x[y - 1], x[z - 1]);
      gram_[gram_first_[i] + static_cast<int64_t>(z - 1) * data.size(i) + y - 1] = known;
    }
    return known;
  }

  // Makes one pair step and applies it to W, or to the scores if W is null. Returns false if no step gains anything.
  bool pair(int64_t i, double* a, Real* W, double shrink) {
    Real* s = scratch_.scores.data();
    const int n = outputs(i);
    const int u = static_cast<int>(std::max_element(s, s + n) - s);
    int v = -1;
    double most = 0, step = 0;
    for (int y = 0; y < n; ++y) {
      const double g = static_cast<double>(s[u]) - s[y];
      if (a[y] * g <= most) continue;  // an upper bound on the gain
      const double curvature = shrink * std::max(0.0, gram(i, u, u) + gram(i, y, y) - 2 * gram(i, u, y));
      const double t = curvature * a[y] <= g ? a[y] : g / curvature;
      const double gain = t * (g - t * curvature / 2);
      if (gain > most) most = gain, v = y, step = t;
    }
    const double noise = sizeof(Real) == 4 ? 1e-6 : 1e-14;
    if (v < 0 || static_cast<double>(s[u]) - s[v] <= noise * (1 + std::abs(s[u]))) return false;
    a[v] = step == a[v] ? 0 : a[v] - step;
    a[u] += step;
    const Constraint* x = structure_.data().group(i);
    if (W) {
      if (u > 0) add(x[u - 1], W, shrink * step);
      if (v > 0) add(x[v - 1], W, -shrink * step);
    } else {
      for (int y = 1; y < n; ++y) s[y] -= static_cast<Real>(shrink * step * (gram(i, u, y) - gram(i, v, y)));
    }
    return true;
  }
};

// Classes: psi_i(y) is x_i in the column of y less x_i in the column of the true label. So the projection of a + s /
// |x|^2 onto { a >= 0, sum a = mass } solves the block.
template <class Real>
class BlockStep<Multiclass<Real>> {
 public:
  explicit BlockStep(const Multiclass<Real>& structure)
      : structure_(structure), scratch_(structure.scratch()), target_(structure.labels()) {}

  using Block = OneBlock;
  int outputs(int64_t) const { return structure_.labels(); }
  Block block(int64_t, double mass, double* a) const { return {mass, 0, a, structure_.labels(), 0}; }

  void prefetch(int64_t i, const Block& b) const {
    fetch_ahead(b.a);
    structure_.data().features->prefetch(i);
  }

  Look look(int64_t i, const Block& b, const Real* W) {
    structure_.open(i, W, scratch_, true, 1);
    return look_at(scratch_.scores.data(), b.a, b.mass, structure_.labels());
  }
  double lead(const Block&) const { return lead_of(scratch_.scores.data(), structure_.labels()); }

  void move(int64_t i, Block& b, Real* W, double shrink) {
    const int K = structure_.labels();
    double* a = b.a;
    const Real* s = scratch_.scores.data();
    const double square = shrink * structure_.data().features->norms[i];
    const int u = static_cast<int>(std::max_element(s, s + K) - s);
    if (square > 0) {
      for (int y = 0; y < K; ++y) target_[y] = a[y] + (static_cast<double>(s[y]) - s[u]) / square;
      project(b.mass);
    } else {
      std::fill(target_.begin(), target_.end(), 0.0);
      target_[u] = b.mass;
    }
    scratch_.move.clear();
    for (int y = 0; y < K; ++y) {
      if (target_[y] == a[y]) continue;
      scratch_.move.push_back({y, shrink * (a[y] - target_[y])});
      a[y] = target_[y];
    }
    structure_.scatter(scratch_, W);
  }

 private:
  const Multiclass<Real>& structure_;
  typename Multiclass<Real>::Scratch scratch_;
  std::vector<double> target_;

  // Replaces the target by max(0, target - shift), with the shift that makes the sum `mass` (Michelot). The first shift
  // drops all entries that are at least `mass` below the largest. Each round drops more entries, until a round drops
  // none. Rounding may let an entry come back, so the loop goes on only while entries are dropped: it ends after at
  // most K rounds.
  void project(double mass) {
    double shift = -std::numeric_limits<double>::infinity();
    for (const double t : target_) shift = std::max(shift, t - mass);
    for (size_t before = target_.size() + 1;;) {
      double sum = 0;
      size_t count = 0;
      for (const double t : target_) sum += t > shift ? t : 0, count += t > shift;
      if (count >= before || count == 0) break;
      before = count;
      shift = (sum - mass) / static_cast<double>(count);
    }
    for (double& t : target_) t = t > shift ? t - shift : 0;
  }
};

}  // namespace mm
