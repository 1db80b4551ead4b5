// The dual state: outputs kept for each block, their multipliers, and w.
//
//   q = - sum_i sum_y a_i(y) psi_i(y)          the weighted sum of vectors
//   w = (q + k z) / (1 + k)                    the law that ties w to the multipliers
//
// With an origin m, for a prior around m, q stands for m - sum a psi throughout:
//   R(w) = 1/2 |w - m|^2,   D(a) = sum a Delta - 1/2 |q|^2 + 1/2 |m|^2
// With a metric (metric.hpp) q stands for m - Sigma sum a psi, and the proximal term is k/2 |w - z|^2 in it;
// with bounds w = max(lower, v), and the unclipped v = (q + k z) / (1 + k) is kept behind it.
//
// z is the centre of a proximal term k/2 |w - z|^2; k = 0 is the plain problem. W below is w in the
// structure's own layout. Multipliers of a block are >= 0 and sum to its mass C v_i. A block that keeps
// nothing stands for its true output with all of the mass: it takes no memory until something is found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "simd.hpp"
#include "solvers/metric.hpp"

namespace mm {

struct Kept {
  double multiplier;
  int32_t idle;       // visits since the multiplier was last positive
  int32_t stamp = 0;  // the pass that found the output, or last moved a multiplier to it
};

// What the allocator takes for so many bytes (glibc: a header, multiples of 16, at least 32).
inline int64_t heap_bytes(size_t bytes) {
  return bytes == 0 ? 0 : std::max<int64_t>(32, static_cast<int64_t>((bytes + 8 + 15) / 16 * 16));
}

template <class Structure>
class DualState {
 public:
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;

  struct Block {
    std::vector<Kept> planes;
    std::vector<Label> outputs;  // planes.size() outputs, one after the other
  };

  Structure structure;
  std::vector<double> mass;
  std::vector<Block> blocks;
  aligned<Real> W;
  aligned<Real> center, previous;  // of the proximal term; empty while it was never used
  std::vector<double> origin;      // m in the structure's layout; empty: zero
  double origin_square = 0;        // |m|^2
  Metric metric;                   // of a prior with several scales, and bounds; else plain
  aligned<Real> behind;            // v, where there are bounds; else empty
  std::vector<double> weighted;    // sum_j c_j d_j of an averaged iterate; empty unless asked for
  double proximity = 0;            // k
  double steps = 0;                // visits so far
  std::vector<double> base;        // a part of q whose multipliers are fixed and forgotten; else empty
  int32_t clock = 0;               // passes so far

  // lean: without the structure's tables of inner products, which are as long as the data.
  DualState(const typename Structure::Data& data, std::vector<double> block_mass, bool lean = false)
      : structure(data), mass(std::move(block_mass)), blocks(mass.size()), W(structure.weights()) {
    if (!lean) structure.prepare();
    watch();
  }

  // Some structures keep an index of W: to be told whenever W changes other than by their own `apply`.
  void watch() {
    if constexpr (requires { structure.watch(W.data()); }) structure.watch(W.data());
  }

  // Lays the true output down where a block keeps nothing.
  void lay(int64_t block) {
    if (!blocks[block].planes.empty()) return;
    std::vector<Label> y(structure.output_size(block));
    structure.truth(block, y.data());
    add(block, y.data(), mass[block]);
  }
  // Takes it up again where there is nothing else.
  void take_up(int64_t block) {
    Block& b = blocks[block];
    if (b.planes.size() != 1) return;
    std::vector<Label> y(structure.output_size(block));
    structure.truth(block, y.data());
    if (structure.same(block, b.outputs.data(), y.data())) b = Block();
  }

  // Starts at w = m; `square` is what |m|^2 adds to the dual.
  void set_origin(std::vector<double> packed, double square) {
    origin = std::move(packed);
    origin_square = square;
    refresh();
  }

  // Takes the metric of a prior; set_origin follows where its mean is not zero.
  void set_metric(Metric given) {
    metric = std::move(given);
    behind.assign(metric.bounded() ? W.size() : 0, 0);
    refresh();
  }

  // w += c Sigma (the move that was built)
  void shift(Move<Structure>& move, const typename Structure::Scratch& s, double c) {
    if (metric.plain()) return structure.apply(s, W.data(), c);
    const bool bounds = metric.bounded();
    move.each(metric, structure, s, W.size(), c, [&](size_t j, double change) {
      if (!bounds) {
        W[j] += static_cast<Real>(change);
      } else {
        behind[j] += static_cast<Real>(change);
        W[j] = static_cast<Real>(metric.clipped(j, behind[j]));
      }
      if constexpr (requires { structure.changed(W.data(), j); }) structure.changed(W.data(), j);
    });
  }
  // the same, into the average
  void weigh(Move<Structure>& move, const typename Structure::Scratch& s, double c) {
    if (metric.plain()) return structure.apply(s, weighted.data(), c);
    move.each(metric, structure, s, W.size(), c, [&](size_t j, double change) { weighted[j] += change; });
  }
  double squared_norm(Move<Structure>& move, typename Structure::Scratch& s) const {
    return move.squared_norm(metric, structure, s, W.size());
  }

  // v_j without the proximal term: m + Sigma q.
  double unclipped(size_t j) const {
    const double v = behind.empty() ? W[j] : behind[j];
    return proximity == 0 ? v : (1 + proximity) * v - proximity * center[j];
  }

  double shrink() const { return 1 / (1 + proximity); }
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
    // As much memory as is needed: blocks are many, and their outputs few.
    b.outputs.reserve(b.outputs.size() + structure.output_size(block));
    b.planes.reserve(b.planes.size() + 1);
    b.outputs.insert(b.outputs.end(), y, y + structure.output_size(block));
    b.planes.push_back({multiplier, 0, clock});
    return static_cast<int>(b.planes.size()) - 1;
  }
  void remove(int64_t block, int j) {
    Block& b = blocks[block];
    const size_t size = structure.output_size(block), last = b.planes.size() - 1;
    if constexpr (Structure::given_planes) structure.release(b.outputs[j]);
    for (size_t t = 0; t < size; ++t) b.outputs[j * size + t] = b.outputs[last * size + t];
    b.planes[j] = b.planes[last];
    b.planes.pop_back();
    b.outputs.resize(last * size);
  }

  // Calls f(block, plane, output) for each plane with a positive multiplier.
  template <class F>
  void each_support(F&& f) const {
    std::vector<Label> y;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].planes.empty() && mass[i] > 0) {
        y.resize(structure.output_size(i));
        structure.truth(i, y.data());
        f(i, Kept{mass[i], 0}, y.data());
      }
      for (size_t j = 0; j < blocks[i].planes.size(); ++j)
        if (blocks[i].planes[j].multiplier > 0) f(i, blocks[i].planes[j], output(i, static_cast<int>(j)));
    }
  }

  // The memory that a block's outputs take now, and with one more.
  int64_t cost(int64_t block, int more = 0) const {
    const Block& b = blocks[block];
    const size_t size = structure.output_size(block);
    size_t n = b.planes.capacity(), labels = b.outputs.capacity();
    if (more > 0)
      n = std::max(n, b.planes.size() + more), labels = std::max(labels, b.outputs.size() + size * more);
    int64_t bytes = heap_bytes(n * sizeof(Kept)) + heap_bytes(labels * sizeof(Label));
    if constexpr (Structure::given_planes)
      for (const Label y : b.outputs) bytes += structure.bytes_of(y);
    return bytes;
  }
  int64_t held() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < blocks.size(); ++i) bytes += cost(static_cast<int64_t>(i));
    return bytes;
  }

  // Removes outputs without a multiplier, the oldest first, until no more than `most` bytes are held (or none
  // is left to remove); returns what is held then.
  int64_t prune(int64_t most) {
    int64_t now = held();
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
      take_up(i);
      now += cost(i) - before;
    }
    return now;
  }

  // m - sum a psi in double precision, from the multipliers alone (under a metric without m); returns
  // sum a Delta.
  double recompute(std::vector<double>& q) const {
    q = base;
    q.resize(structure.weights(), 0);
    if (metric.plain())
      for (size_t j = 0; j < origin.size(); ++j) q[j] += origin[j];
    auto s = structure.scratch();
    std::vector<Label> y;
    double offset = 0;
    each_support([&](int64_t i, const Kept& plane, const Label* u) {
      y.resize(structure.output_size(i));
      structure.truth(i, y.data());
      if (structure.same(i, u, y.data())) return;
      structure.build_pair(s, i, u, y.data());
      structure.apply(s, q.data(), -plane.multiplier);
      offset += plane.multiplier * structure.loss(i, u);
    });
    return offset;
  }

  // v by the law, in double precision.
  void unclipped_law(std::vector<double>& v) const {
    recompute(v);
    if (!metric.plain()) {
      metric.multiply(v);
      for (size_t j = 0; j < origin.size(); ++j) v[j] += origin[j];
    }
    if (proximity == 0) return;
    for (size_t j = 0; j < v.size(); ++j) v[j] = (v[j] + proximity * center[j]) * shrink();
  }
  // w by the law, in double precision.
  void law(std::vector<double>& w) const {
    unclipped_law(w);
    for (size_t j = 0; j < metric.lower.size(); ++j) w[j] = metric.clipped(j, w[j]);
  }

  // |v|^2 for v_j = at(j). Under a kernel the first `coefficients` entries are A, the next K A; else none are.
  template <class F>
  double squared_length(F&& at) const {
    size_t half = 0;
    if constexpr (requires { structure.coefficients(); }) half = structure.coefficients();
    double sum = 0;
    for (size_t j = 0; j < half; ++j) sum += at(j) * at(half + j);
    for (size_t j = 2 * half; j < W.size(); ++j) {
      const double v = at(j);
      sum += v * v;
    }
    return sum;
  }

  // sum a Delta
  double offset() const {
    double sum = 0;
    each_support([&](int64_t i, const Kept& plane, const Label* u) {
      sum += plane.multiplier * structure.loss(i, u);
    });
    return sum;
  }

  // D(a) = sum a Delta - R*(q) with q read off the running w.
  double dual() const {
    const double offset = this->offset();
    if (!metric.plain()) return offset - conjugate();
    const double square = squared_length([&](size_t j) -> double {
      return proximity == 0 ? W[j] : (1 + proximity) * W[j] - proximity * center[j];
    });
    return offset - (square - origin_square) / 2;
  }

  // R*(q) in the metric.
  double conjugate() const {
    double sum = 0;
    if (!metric.matrix.empty()) {  // <m, q> + 1/2 q' Sigma q
      std::vector<double> q, image;
      recompute(q);
      image = q;
      metric.multiply(image);
      for (size_t j = 0; j < q.size(); ++j) sum += q[j] * ((origin.empty() ? 0 : origin[j]) + image[j] / 2);
      return sum;
    }
    for (size_t j = 0; j < W.size(); ++j) {
      const double m = origin.empty() ? 0 : origin[j], v = unclipped(j), w = metric.clipped(j, v);
      sum += ((v - m) * w - (w - m) * (w - m) / 2) / metric.scale(j);
    }
    return sum;
  }

  // R(w) + R*(q) - <q, w> in the metric: by how much the proximal term keeps w from the law of q.
  double lag() const {
    double sum = 0;
    for (size_t j = 0; j < W.size(); ++j) {
      const double w = W[j], v = unclipped(j), own = metric.clipped(j, v);
      sum += (w - own) * ((w + own) / 2 - v) / metric.scale(j);
    }
    return std::max(sum, 0.0);
  }

  // Removes the rounding that the updates of w have gathered.
  void refresh() {
    std::vector<double> w;
    unclipped_law(w);
    for (size_t j = 0; j < behind.size(); ++j) behind[j] = static_cast<Real>(w[j]);
    for (size_t j = 0; j < w.size(); ++j) W[j] = static_cast<Real>(metric.clipped(j, w[j]));
    watch();
  }

  int64_t planes() const {
    int64_t n = 0;
    for (const Block& b : blocks) n += std::max<int64_t>(1, static_cast<int64_t>(b.planes.size()));
    return n;
  }
};

}  // namespace mm
