// The steps of a search over sets before it branches (set_search.hpp). The ranges of gains decide some
// labels; the others are free. Their weights are collected, and a first set is found.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd.hpp"

namespace mm {

class SetRest {
 public:
  static double value_of(int n, const double* g, const double* upper, int stride, const int32_t* y) {
    double sum = 0;
    for (int v = 0; v < n; ++v) {
      if (!y[v]) continue;
      sum += g[v];
      const double* row = upper + static_cast<size_t>(v) * stride;
      for (int u = v + 1; u < n; ++u)
        if (y[u]) sum += row[u];
    }
    return sum;
  }

 protected:
  static constexpr double infinity = std::numeric_limits<double>::infinity(), tiny = 1e-12;
  static constexpr int lanes = Vector<double>::lanes;

  int m_ = 0, row_ = 0;               // number of free labels, and the length of a row of their weights
  std::vector<int32_t> free_, set_;   // free labels; labels of the best set so far
  double best_ = 0;                   // its value
  std::vector<double> gains_, caps_;  // of free labels; upper bounds on what they add
  std::vector<char> flags_;

  // Sets up everything except the weights between free labels. `gather` reads all of them; a climb reads only
  // the rows that it needs.
  void begin(int n, const double* g, const double* upper, int stride, int32_t* y) {
    upper_ = upper, stride_ = stride, best_ = 0;
    set_.clear();
    reduce(n, g, y);
    gains_.resize(m_);
    for (int j = 0; j < m_; ++j) {
      gains_[j] = g[free_[j]];
      for (const int v : sure_) gains_[j] += pair_of(v, free_[j]);
    }
    row_ = padded<double>(m_);
    A_.resize(static_cast<size_t>(m_) * row_);
    built_.assign(m_, 0);
  }
  const double* row(int v) const { return A_.data() + static_cast<size_t>(v) * row_; }
  // Reads the weights between free labels.
  void gather() {
    row_ = padded<double>(m_);
    A_.assign(static_cast<size_t>(m_) * row_, 0);
    for (int j = 0; j < m_; ++j) {
      const double* own = upper_ + static_cast<size_t>(free_[j]) * stride_;
      for (int i = j + 1; i < m_; ++i) A_[j * row_ + i] = A_[i * row_ + j] = own[free_[i]];
    }
  }

  // Climbs to a good first set: from known labels, from the empty set, or the better of the two.
  void climb(const std::vector<int32_t>& known, bool from_none) {
    double other = -infinity;
    if (from_none || known.empty()) {
      begin_climb();
      climb_on(other);
      if (known.empty()) return;
      other = best_;
    }
    begin_climb();
    for (int j = 0; j < m_; ++j)
      if (std::binary_search(known.begin(), known.end(), free_[j])) best_ += caps_[j], flip(j);
    if (!climb_on(other)) best_ = other;
  }
  // Keeps only the labels with a flag free.
  void compress() {
    int left = 0;
    for (int j = 0; j < m_; ++j)
      if (flags_[j]) free_[left] = free_[j], gains_[left] = gains_[j], ++left;
    if (left == m_) return;
    m_ = left;
    gather();
  }

 private:
  const double* upper_ = nullptr;
  int stride_ = 0;
  // Weights between free labels; for each label their sum, and the sum of the positive ones.
  aligned<double> A_, sums_, ups_;
  std::vector<int32_t> sure_;  // labels that are on
  std::vector<char> built_;    // whether a climb has read the row of weights
  // In a climb: -1 for labels that are on; gains of labels that are off, else -infinity.
  aligned<double> signs_, offs_;

  double pair_of(int v, int u) const {
    return upper_[static_cast<size_t>(std::min(u, v)) * stride_ + std::max(u, v)];
  }

  // Turns labels on or off if the ranges over all other labels decide them; the other labels are free.
  void reduce(int n, const double* g, int32_t* y) {
    measure(n);
    free_.clear(), sure_.clear();
    for (int v = 0; v < n; ++v) {
      const double high = g[v] + ups_[v], low = high + sums_[v] - 2 * ups_[v];
      y[v] = low >= 0 && high > 0;
      if (y[v])
        sure_.push_back(v);
      else if (high > 0)
        free_.push_back(v);
    }
    m_ = static_cast<int>(free_.size());
  }
  // Computes the sums of the weights of each label.
  void measure(int n) {
    sums_.assign(stride_, 0);
    ups_.assign(stride_, 0);
    for (int v = 0; v < n; ++v) {
      const double* row = upper_ + static_cast<size_t>(v) * stride_;
      vec<double> sum = {}, up = {};
      for (int u = v / lanes * lanes; u < stride_; u += lanes) {
        const vec<double> a = load<double>(row + u), positive = maximum(a, vec<double>{});
        sum += a, up += positive;
        store<double>(sums_.data() + u, load<double>(sums_.data() + u) + a);
        store<double>(ups_.data() + u, load<double>(ups_.data() + u) + positive);
      }
      sums_[v] += sum_of_lanes<double>(sum);
      ups_[v] += sum_of_lanes<double>(up);
    }
  }

  const double* climb_row(int v) {
    double* out = A_.data() + static_cast<size_t>(v) * row_;
    if (built_[v]) return out;
    built_[v] = 1;
    const double *above = upper_ + free_[v], *own = upper_ + static_cast<size_t>(free_[v]) * stride_;
    for (int i = 0; i < v; ++i) out[i] = above[static_cast<size_t>(free_[i]) * stride_];
    out[v] = 0;
    for (int i = v + 1; i < m_; ++i) out[i] = own[free_[i]];
    std::fill(out + m_, out + row_, 0);
    return out;
  }
  void begin_climb() {
    best_ = 0;
    flags_.assign(m_, 0);
    signs_.assign(row_, 1);
    caps_.assign(gains_.begin(), gains_.end());
    caps_.resize(row_, -infinity);
  }
  // Changes labels one at a time, or exchanges two, while that helps. Returns whether the set found is better
  // than `than`.
  bool climb_on(double than) {
    for (int step = 0; step < 4 * m_; ++step) {
      int off = -1;
      double most = tiny;
      int v = place_of_most(
          most, [&](int u) { return load<double>(signs_.data() + u) * load<double>(caps_.data() + u); });
      if (v < 0) most = exchange(v, off);
      if (v < 0) break;
      best_ += most;
      if (off >= 0) flip(off);
      flip(v);
    }
    if (best_ <= than) return false;
    set_.clear();
    for (int j = 0; j < m_; ++j)
      if (flags_[j]) set_.push_back(free_[j]);
    return true;
  }
  // Returns the first place of the largest value, which `values` gives as vectors; -1 if no value is above
  // `most`.
  template <class F>
  int place_of_most(double& most, F&& values) const {
    vec<double> tops = broadcast<double>(most);
    for (int u = 0; u < row_; u += lanes) tops = maximum(tops, values(u));
    double top = most;
    for (int k = 0; k < lanes; ++k) top = std::max(top, tops[k]);
    if (top == most) return -1;
    most = top;
    int u = 0, below = 0;
    constexpr int all = (1 << lanes) - 1;
    while ((below = lanes_above(broadcast<double>(top), values(u))) == all) u += lanes;
    return u + std::countr_zero(static_cast<unsigned>(~below));
  }

  void flip(int v) {
    const vec<double> sign = broadcast<double>(signs_[v]);
    const double* own = climb_row(v);
    flags_[v] = !flags_[v], signs_[v] = -signs_[v];
    for (int u = 0; u < row_; u += lanes)
      store<double>(caps_.data() + u, load<double>(caps_.data() + u) + sign * load<double>(own + u));
  }
  // Finds the best exchange of a label that is on for one that is off.
  double exchange(int& v, int& off) {
    double best = tiny;
    offs_.assign(caps_.begin(), caps_.end());
    for (int j = 0; j < m_; ++j)
      if (flags_[j]) offs_[j] = -infinity;
    for (int j = 0; j < m_; ++j) {
      if (!flags_[j]) continue;
      const double* own = climb_row(j);
      double most = best + caps_[j];
      const int place = place_of_most(most, [&](int u) {
        return load<double>(offs_.data() + u) + broadcast<double>(-1) * load<double>(own + u);
      });
      if (place >= 0) best = most - caps_[j], v = place, off = j;
    }
    return best;
  }
};

}  // namespace mm
