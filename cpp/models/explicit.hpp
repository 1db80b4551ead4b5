// Explicit: planes given as vectors, for models that are written in Python.
//
//     a plane is (offset, vector):  s_i(y) = offset + <w, vector>
//
// The oracle runs outside the core. It offers the plane that it found to the block before the visit. A label
// is the index of a plane in the pool. Plane 0 is the true output of every block, with offset 0 and vector 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gather.hpp"

namespace mm {

class Explicit {
 public:
  using Real = double;
  using Label = int32_t;

  struct Plane {
    double offset = 0;
    std::vector<int32_t> index;  // sorted
    std::vector<double> value;
  };
  struct Scratch {
    Sparse move;
    const double* weights = nullptr;
    double loss_scale = 1;
    int64_t block = 0;
  };

  Explicit(int64_t blocks, int64_t dimension)
      : blocks_(blocks), dimension_(dimension), pool_(1), offered_(blocks, 0) {}

  int64_t blocks() const { return blocks_; }
  int64_t dimension() const { return dimension_; }
  size_t weights() const { return static_cast<size_t>(dimension_); }
  int output_size(int64_t) const { return 1; }
  Scratch scratch() const {
    Scratch s;
    s.move.resize(weights());
    return s;
  }
  template <class To>
  void pack(const double* flat, To* W) const {
    std::copy(flat, flat + dimension_, W);
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    std::copy(W, W + dimension_, flat);
  }

  int32_t add(double offset, const int32_t* index, const double* value, int64_t n) {
    Plane plane{offset, {index, index + n}, {value, value + n}};
    if (free_.empty()) {
      pool_.push_back(std::move(plane));
      return static_cast<int32_t>(pool_.size() - 1);
    }
    const int32_t id = free_.back();
    free_.pop_back();
    pool_[id] = std::move(plane);
    return id;
  }
  void release(int32_t id) {
    if (id == 0) return;
    pool_[id] = Plane{};
    free_.push_back(id);
  }
  int64_t bytes_of(int32_t id) const {
    return id == 0 ? 0 : static_cast<int64_t>(sizeof(Plane) + 12 * pool_[id].index.size() + 32);
  }
  void offer(int64_t block, int32_t id) { offered_[block] = id; }
  const Plane& plane(int32_t id) const { return pool_[id]; }

  void truth(int64_t, Label* y) const { *y = 0; }
  double loss(int64_t, const Label* y) const { return pool_[*y].offset; }
  void open(int64_t block, const Real* W, Scratch& s, bool, Real loss_scale) const {
    s.block = block;
    s.weights = W;
    s.loss_scale = loss_scale;
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }
  // The value of a plane at w: loss_scale * offset + <w, vector>.
  double at(int32_t id, const double* w, double loss_scale = 1) const {
    const Plane& p = pool_[id];
    double sum = loss_scale * p.offset;
    for (size_t j = 0; j < p.index.size(); ++j) sum += w[p.index[j]] * p.value[j];
    return sum;
  }
  double score(const Scratch& s, const Label* y) const { return at(*y, s.weights, s.loss_scale); }
  double best(Scratch& s, const Real*, Label* y) const {
    *y = offered_[s.block];
    return score(s, y);
  }
  bool same(int64_t, const Label* a, const Label* b) const {
    const Plane &p = pool_[*a], &q = pool_[*b];
    return p.offset == q.offset && p.index == q.index && p.value == q.value;
  }

  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    s.block = block;
    s.move.clear();
    gather(s, pool_[*plus], 1);
    gather(s, pool_[*minus], -1);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.block = block;
    s.move.clear();
    for (int j = 0; j < n; ++j)
      if (c[j] != 0) gather(s, pool_[outputs[j]], c[j]);
  }
  double squared_norm(const Scratch& s) const { return s.move.squared_norm(); }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    s.move.apply(W, c);
  }
  bool shifted(Scratch&, double) const { return true; }  // scores are read from W itself
  int labels() const { return 0; }

 private:
  int64_t blocks_, dimension_;
  std::vector<Plane> pool_;
  std::vector<int32_t> free_, offered_;

  static void gather(Scratch& s, const Plane& p, double c) {
    for (size_t j = 0; j < p.index.size(); ++j) s.move.add(p.index[j], c * p.value[j]);
  }
};

}  // namespace mm
