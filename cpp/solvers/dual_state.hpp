// The dual state: the outputs kept for each block, their multipliers, and w, which follows from these (weights.hpp).
//
// The multipliers of a block are >= 0 and sum to its mass C v_i. A block without kept outputs has all of its mass on
// its true output. It takes no memory until an output is found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "solvers/priored_weights.hpp"

namespace mm {

struct Kept {
  double multiplier;
  int32_t idle;       // visits since the multiplier was last positive
  int32_t stamp = 0;  // the last pass that found the output, or in which it was the best one
};

// The bytes that the allocator takes for a request of this size (glibc: a header, multiples of 16, at least 32).
inline int64_t heap_bytes(size_t bytes) {
  return bytes == 0 ? 0 : std::max<int64_t>(32, static_cast<int64_t>((bytes + 8 + 15) / 16 * 16));
}

template <class Structure>
class DualState : public PrioredWeights<Structure> {
 public:
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;
  using Base = PrioredWeights<Structure>;
  using Base::metric;
  using Base::origin;
  using Base::structure;
  using Base::W;

  struct Block {
    std::vector<Kept> planes;
    std::vector<Label> outputs;  // planes.size() outputs, one after the other
    // |psi_j - psi_k|^2 of kept outputs k < j at j (j - 1) / 2 + k. An entry is NaN or missing until a visit asks for
    // it.
    std::vector<Real> distances;

    Real& distance(int j, int k) {
      const size_t high = std::max(j, k), low = std::min(j, k);
      return distances[high * (high - 1) / 2 + low];
    }
    void place_distances() {  // makes room for one for each pair
      const size_t pairs = planes.size() * (planes.size() - 1) / 2;
      if (distances.size() == pairs) return;
      distances.reserve(pairs);
      distances.resize(pairs, std::numeric_limits<Real>::quiet_NaN());
    }
  };

 private:
  std::unique_ptr<Structure> own_;
  const bool lean_;

 public:
  std::vector<double> mass;
  std::vector<Block> blocks;
  double steps = 0;          // visits so far
  std::vector<double> base;  // the part of q whose multipliers are fixed and no longer stored, or empty
  int32_t clock = 0;         // passes so far

  // lean: without the structure's tables of inner products, which are as long as the data, and without distances of
  // outputs. This leaves the memory to outputs.
  DualState(std::unique_ptr<Structure> given, std::vector<double> block_mass, bool lean = false)
      : Base(*given), own_(std::move(given)), lean_(lean), mass(std::move(block_mass)), blocks(mass.size()) {
    if constexpr (requires { structure.prepare(); })
      if (!lean_) structure.prepare();
    watch();
  }

  // Some structures keep an index of W. They must read W again after every change that their own `apply` did not make.
  void watch() {
    if constexpr (requires { structure.watch(W.data()); }) structure.watch(W.data());
  }

  void read_truth(int64_t block, std::vector<Label>& y) const {
    y.resize(structure.output_size(block));
    structure.truth(block, y.data());
  }
  // Keeps the true output with this multiplier, if the block keeps no outputs yet.
  void materialize_truth(int64_t block, double multiplier) {
    if (!blocks[block].planes.empty()) return;
    std::vector<Label> y;
    read_truth(block, y);
    add(block, y.data(), multiplier);
  }
  void drop_if_truth_only(int64_t block) {
    Block& b = blocks[block];
    if (b.planes.size() != 1) return;
    std::vector<Label> y;
    read_truth(block, y);
    if (structure.same(block, b.outputs.data(), y.data())) b = Block();
  }

  // Set the mean and the metric of a prior, given as flat vectors, and recompute w.
  void take_origin(const double* flat) { Base::take_origin(flat), refresh(); }
  void take_metric(const double* diagonal, const double* lower, const double* matrix) {
    Base::take_metric(diagonal, lower, matrix), refresh();
    for (Block& b : blocks) b.distances.clear();
  }

  const Label* output(int64_t block, int j) const {
    return blocks[block].outputs.data() + static_cast<size_t>(j) * structure.output_size(block);
  }
  int find(int64_t block, const Label* y) const {
    const int n = static_cast<int>(blocks[block].planes.size());
    for (int j = 0; j < n; ++j)
      if (structure.same(block, output(block, j), y)) return j;
    return -1;
  }
  int add(int64_t block, const Label* y, double multiplier) {
    Block& b = blocks[block];
    // Takes only as much memory as it needs, since there are many blocks with few outputs each.
    b.outputs.reserve(b.outputs.size() + structure.output_size(block));
    b.planes.reserve(b.planes.size() + 1);
    b.outputs.insert(b.outputs.end(), y, y + structure.output_size(block));
    b.planes.push_back({multiplier, 0, clock});
    return static_cast<int>(b.planes.size()) - 1;
  }
  void remove(int64_t block, int j) {
    Block& b = blocks[block];
    const size_t size = structure.output_size(block), last = b.planes.size() - 1;
    if constexpr (given_planes<Structure>) structure.release(b.outputs[j]);
    if (!b.distances.empty()) remove_distances(b, j);
    for (size_t t = 0; t < size; ++t) b.outputs[j * size + t] = b.outputs[last * size + t];
    b.planes[j] = b.planes[last];
    b.planes.pop_back();
    b.outputs.resize(last * size);
  }

  // |psi_j - psi_k|^2 of two kept outputs in the metric. It is computed on first use and cached; a lean state computes
  // it each time.
  double distance_between(int64_t block, int j, int k, Move<Structure>& move,
                          typename Structure::Scratch& s) {
    const auto computed = [&] {
      structure.build_pair(s, block, output(block, j), output(block, k));
      move.renew();
      return static_cast<Real>(this->squared_norm(move, s));
    };
    if (lean_) return computed();
    Block& b = blocks[block];
    b.place_distances();
    Real& known = b.distance(j, k);
    if (known != known) known = computed();
    return known;
  }

  // Calls f(block, plane, output) for each plane with a positive multiplier.
  template <class F>
  void each_support(F&& f) const {
    std::vector<Label> y;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].planes.empty() && mass[i] > 0) {
        read_truth(static_cast<int64_t>(i), y);
        f(i, Kept{mass[i], 0}, y.data());
      }
      for (size_t j = 0; j < blocks[i].planes.size(); ++j)
        if (blocks[i].planes[j].multiplier > 0) f(i, blocks[i].planes[j], output(i, static_cast<int>(j)));
    }
  }

  // Calls f(p, block, output) for outputs from outside. Throws if they do not fit the blocks.
  template <class F>
  void each_given(const int64_t* given, int64_t n, const LabelView& outputs, F&& f) const {
    const Label *y = outputs.as<Label>(), *end = y + outputs.size;
    const auto fits = [](bool holds) {
      if (!holds) throw std::invalid_argument("the kept outputs do not fit the examples");
    };
    for (int64_t p = 0; p < n; ++p) {
      const int64_t i = given[p];
      fits(i >= 0 && i < static_cast<int64_t>(blocks.size()) && end - y >= structure.output_size(i));
      f(p, i, y);
      y += structure.output_size(i);
    }
    fits(y == end);
  }

  // The memory that a block's outputs take now, or would take with `more` more of them.
  int64_t cost(int64_t block, int more = 0) const {
    const Block& b = blocks[block];
    const size_t size = structure.output_size(block);
    size_t n = b.planes.capacity(), labels = b.outputs.capacity(), pairs = b.distances.capacity();
    if (more > 0) {
      const size_t most = b.planes.size() + more;
      n = std::max(n, most), labels = std::max(labels, size * most);
      if (!lean_) pairs = std::max(pairs, most * (most - 1) / 2);
    }
    int64_t bytes =
        heap_bytes(n * sizeof(Kept)) + heap_bytes(labels * sizeof(Label)) + heap_bytes(pairs * sizeof(Real));
    if constexpr (given_planes<Structure>)
      for (const Label y : b.outputs) bytes += structure.bytes_of(y);
    return bytes;
  }
  int64_t bytes_kept() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < blocks.size(); ++i) bytes += cost(static_cast<int64_t>(i));
    return bytes;
  }

  // Removes outputs without a multiplier, the oldest first, until at most `most` bytes are kept or no such output is
  // left. Returns the number of bytes that are kept then.
  [[gnu::cold]] int64_t prune(int64_t most) {
    int64_t now = bytes_kept();
    if (now <= most) return now;
    std::vector<std::pair<int32_t, int64_t>> idle;  // stamp, block
    for (size_t i = 0; i < blocks.size(); ++i)
      for (const Kept& plane : blocks[i].planes)
        if (plane.multiplier <= 0) idle.emplace_back(plane.stamp, static_cast<int64_t>(i));
    std::sort(idle.begin(), idle.end());
    for (const auto& [stamp, i] : idle) {
      if (now <= most) break;
      Block& b = blocks[i];
      const int64_t before = cost(i);
      for (size_t j = 0; j < b.planes.size(); ++j)
        if (b.planes[j].multiplier <= 0 && b.planes[j].stamp == stamp) {
          remove(i, static_cast<int>(j));
          break;
        }
      b.planes.shrink_to_fit();
      b.outputs.shrink_to_fit();
      b.distances.shrink_to_fit();
      drop_if_truth_only(i);
      now += cost(i) - before;
    }
    return now;
  }

  // Computes m - sum a psi in double precision from the multipliers alone; under a metric without m. Returns sum a
  // Delta.
  double recompute(std::vector<double>& q) const {
    q = base;
    q.resize(structure.weights(), 0);
    if (metric.plain())
      for (size_t j = 0; j < origin.size(); ++j) q[j] += origin[j];
    auto s = structure.scratch();
    std::vector<Label> y;
    double offset = 0;
    each_support([&](int64_t i, const Kept& plane, const Label* u) {
      read_truth(i, y);
      if (structure.same(i, u, y.data())) return;
      structure.build_pair(s, i, u, y.data());
      structure.apply(s, q.data(), -plane.multiplier);
      offset += plane.multiplier * structure.loss(i, u);
    });
    return offset;
  }

  // Computes w by the law, in double precision.
  void law(std::vector<double>& w) const {
    recompute(w);
    this->apply_law(w);
    this->clip(w);
  }
  // Removes the rounding errors that updates of w have added up.
  void refresh() {
    std::vector<double> v;
    recompute(v);
    this->apply_law(v);
    this->write(v);
    watch();
  }

  // sum a Delta
  double offset() const {
    double sum = 0;
    each_support([&](int64_t i, const Kept& plane, const Label* u) {
      sum += plane.multiplier * structure.loss(i, u);
    });
    return sum;
  }
  // D(a) = sum a Delta - R*(q), with q from the running w, or recomputed if the metric is a matrix.
  double dual(double offset) const {
    if (metric.matrix.empty()) return offset + this->negative_conjugate();
    std::vector<double> q;
    recompute(q);
    return offset - this->conjugate_of(q);
  }

  int64_t planes() const {
    int64_t n = 0;
    for (const Block& b : blocks) n += std::max<int64_t>(1, static_cast<int64_t>(b.planes.size()));
    return n;
  }

 private:
  // Removes the distances of output j. The last output takes its place.
  static void remove_distances(Block& b, int j) {
    b.place_distances();
    const int last = static_cast<int>(b.planes.size()) - 1;
    for (int k = 0; k < last; ++k)
      if (k != j) b.distance(j, k) = b.distance(last, k);
    b.distances.resize(static_cast<size_t>(last) * (last - 1) / 2);
  }
};

}  // namespace mm
