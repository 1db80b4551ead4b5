// Groups: explicit constraints; the constraints of a group share one slack (generalised SVM of the dual
// coordinate paper, Section 1).
//
//     xi_i = max(0, max_j l_ij - <w, x_ij>)
//     output 0 is "no constraint": psi = 0, Delta = 0;   output j >= 1:  psi_i(j) = -x_ij,  Delta_i(j) = l_ij
//
// A constraint is a row of features with a factor, x_ij = factor_ij row_ij, so that the two sides of a
// regression target need no copy of the row. W has the layout of the flat weights: one weight per feature.
#pragma once

#include <cstdint>
#include <vector>

#include "features.hpp"

namespace mm {

struct Constraint {
  double margin;  // l
  int64_t row;
  float factor;
  float square;  // |x|^2, a hint for solvers; certificates never use it
};

struct GroupsData {
  const Features* features = nullptr;
  std::vector<Constraint> constraints;
  std::vector<int64_t> first;  // constraints of group i: first[i] .. first[i + 1]
  int64_t blocks() const { return static_cast<int64_t>(first.size()) - 1; }
  int64_t dimension() const { return features->width(); }
  int size(int64_t group) const { return static_cast<int>(first[group + 1] - first[group]); }
  const Constraint* group(int64_t group) const { return constraints.data() + first[group]; }
};

// <x_a, x_b>
inline double product(const Features& features, const Constraint& a, const Constraint& b) {
  const double signs = static_cast<double>(a.factor) * b.factor;
  return signs * (a.row == b.row ? features.norms[a.row] : features.dot(a.row, b.row));
}

template <class Real_>
class Groups : public OneWeightPerFeature<GroupsData> {
  using Base = OneWeightPerFeature<GroupsData>;
  using Base::data_;

 public:
  using Real = Real_;
  using Label = int32_t;
  using Data = GroupsData;

  struct Term {
    Constraint x;
    double c;
  };
  struct Scratch {
    std::vector<Real> scores;
    std::vector<Term> move;
    int64_t block = 0;
  };

  using Base::Base;

  const Data& data() const { return data_; }
  bool valid(int64_t block, const Label* y) const { return *y >= 0 && *y <= data_.size(block); }
  Scratch scratch() const { return {}; }

  void truth(int64_t, Label* y) const { *y = 0; }
  double loss(int64_t block, const Label* y) const { return *y == 0 ? 0 : data_.group(block)[*y - 1].margin; }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    s.block = block;
    const Constraint* x = data_.group(block);
    const int n = data_.size(block);
    s.scores.resize(static_cast<size_t>(n) + 1);
    s.scores[0] = 0;
    Real dot = 0;
    for (int j = 0; j < n; ++j) {  // consecutive constraints on one row share the inner product
      if (j == 0 || x[j].row != x[j - 1].row) dot = data_.features->dot_weights(x[j].row, W);
      s.scores[j + 1] = -static_cast<Real>(x[j].factor) * dot;
      if (augmented) s.scores[j + 1] += loss_scale * static_cast<Real>(x[j].margin);
    }
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label* kept, int n) const {
    s.block = block;
    const Constraint* x = data_.group(block);
    s.scores.resize(static_cast<size_t>(data_.size(block)) + 1);
    s.scores[0] = 0;
    for (int k = 0; k < n; ++k) {
      if (kept[k] == 0) continue;
      const Constraint& c = x[kept[k] - 1];
      const Real dot = data_.features->dot_weights(c.row, W);
      s.scores[kept[k]] = static_cast<Real>(c.margin) - static_cast<Real>(c.factor) * dot;
    }
  }
  double score(const Scratch& s, const Label* y) const { return s.scores[*y]; }

  double best(Scratch& s, const Real*, Label* y) const {
    int top = 0;
    for (int j = 1; j <= data_.size(s.block); ++j)
      if (s.scores[j] > s.scores[top]) top = j;
    *y = top;
    return s.scores[top];
  }

  bool same(int64_t, const Label* a, const Label* b) const { return *a == *b; }

  // move = sum_j c_j psi(y_j) = - sum_j c_j x_j
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    s.block = block;
    s.move.clear();
    add(s, *plus, 1);
    add(s, *minus, -1);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.block = block;
    s.move.clear();
    for (int j = 0; j < n; ++j)
      if (c[j] != 0) add(s, outputs[j], c[j]);
  }
  double squared_norm(const Scratch& s) const {
    double sum = 0;
    for (size_t a = 0; a < s.move.size(); ++a)
      for (size_t b = 0; b <= a; ++b)
        sum +=
            (a == b ? 1 : 2) * s.move[a].c * s.move[b].c * product(*data_.features, s.move[a].x, s.move[b].x);
    return sum > 0 ? sum : 0;
  }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    for (const Term& t : s.move) data_.features->axpy(t.x.row, W, -c * t.c * t.x.factor);
  }

 private:
  void add(Scratch& s, Label y, double c) const {
    if (y != 0) s.move.push_back({data_.group(s.block)[y - 1], c});
  }
};

}  // namespace mm
