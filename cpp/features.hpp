// Rows of features, dense or sparse, read where the caller keeps them.
//
//   scores:  s += x_r W            (W has a row of `stride` reals for each feature)
//   scatter: W[:, k] += c x_r
//   dot:     <x_r, x_q>
//   one weight a feature:  dot_weights = <x_r, w>,   axpy: w += c x_r
//
// A constant feature `bias` may be appended to every row without touching the caller's arrays.
//
// Rows under a kernel are known by their inner products K alone. W then holds w twice, as coefficients A over
// the n rows and as its values U = K A on them, one below the other, 2n rows in all:
//   scores:  s += U[r]        scatter: A[r, k] += c, U[:, k] += c K[r]        dot: K[r, q]
// Both halves are linear in w, and |w|^2 = sum A * U needs no look at K.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gather.hpp"
#include "gram.hpp"
#include "simd.hpp"

namespace mm {

enum class Kind : uint8_t { dense32, dense64, sparse32, sparse64, binary };

struct RowView {
  const int32_t* index;  // null for dense rows
  const void* value;     // null for binary rows
  int32_t length;
};

template <class T>
struct DenseRow {
  const T* values;
  int32_t length;
  int64_t index(int32_t j) const { return j; }
  T value(int32_t j) const { return values[j]; }
};
template <class T>
struct SparseRow {
  const int32_t* indices;
  const T* values;
  int32_t length;
  int64_t index(int32_t j) const { return indices[j]; }
  T value(int32_t j) const { return values[j]; }
};
struct BinaryRow {
  const int32_t* indices;
  int32_t length;
  int64_t index(int32_t j) const { return indices[j]; }
  static constexpr float value(int32_t) { return 1.0f; }
};

// out[0 : N vectors] += sum_j x_j W[index_j, 0 : N vectors], the sums held in registers.
template <class Real, int N, class Row>
inline void accumulate(const Row& row, const Real* W, int stride, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> even[N], odd[N];
  for (int n = 0; n < N; ++n) even[n] = load(out + n * lanes), odd[n] = vec<Real>{};
  int32_t j = 0;
  for (; j + 1 < row.length; j += 2) {  // two chains of sums hide the latency of the addition
    const Real* a = W + row.index(j) * stride;
    const Real* b = W + row.index(j + 1) * stride;
    const vec<Real> x = broadcast(static_cast<Real>(row.value(j)));
    const vec<Real> y = broadcast(static_cast<Real>(row.value(j + 1)));
    for (int n = 0; n < N; ++n) even[n] += x * load(a + n * lanes);
    for (int n = 0; n < N; ++n) odd[n] += y * load(b + n * lanes);
  }
  if (j < row.length) {
    const Real* a = W + row.index(j) * stride;
    const vec<Real> x = broadcast(static_cast<Real>(row.value(j)));
    for (int n = 0; n < N; ++n) even[n] += x * load(a + n * lanes);
  }
  for (int n = 0; n < N; ++n) store(out + n * lanes, even[n] + odd[n]);
}

template <class Real, class Row>
inline void accumulate_all(const Row& row, const Real* W, int stride, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  for (int column = 0; column < stride; column += 4 * lanes) {
    switch ((stride - column) / lanes) {
      case 1:
        accumulate<Real, 1>(row, W + column, stride, out + column);
        break;
      case 2:
        accumulate<Real, 2>(row, W + column, stride, out + column);
        break;
      case 3:
        accumulate<Real, 3>(row, W + column, stride, out + column);
        break;
      default:
        accumulate<Real, 4>(row, W + column, stride, out + column);
    }
  }
}

// <x, w>, in four chains of sums: one would wait for its own addition each time.
template <class Real, class T>
inline Real dot_of(const DenseRow<T>& row, const Real* w) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> sums[4] = {};
  int32_t j = 0;
  for (; j + 4 * lanes <= row.length; j += 4 * lanes)
    for (int n = 0; n < 4; ++n)
      sums[n] += load_as<Real>(row.values + j + n * lanes) * load(w + j + n * lanes);
  for (; j + lanes <= row.length; j += lanes) sums[0] += load_as<Real>(row.values + j) * load(w + j);
  Real sum = sum_of_lanes<Real>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; j < row.length; ++j) sum += static_cast<Real>(row.values[j]) * w[j];
  return sum;
}
template <class Real, class Row>
inline Real dot_of(const Row& row, const Real* w) {
  Real sums[4] = {0, 0, 0, 0};
  int32_t j = 0;
  for (; j + 4 <= row.length; j += 4)
    for (int n = 0; n < 4; ++n) sums[n] += static_cast<Real>(row.value(j + n)) * w[row.index(j + n)];
  for (; j < row.length; ++j) sums[0] += static_cast<Real>(row.value(j)) * w[row.index(j)];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// w += c x
template <class Real, class T>
inline void axpy_of(const DenseRow<T>& row, Real* w, Real c) {
  constexpr int lanes = Vector<Real>::lanes;
  const vec<Real> factor = broadcast(c);
  int32_t j = 0;
  for (; j + lanes <= row.length; j += lanes)
    store(w + j, load(w + j) + factor * load_as<Real>(row.values + j));
  for (; j < row.length; ++j) w[j] += c * static_cast<Real>(row.values[j]);
}
template <class Real, class Row, class Target>
inline void axpy_of(const Row& row, Target w, Real c) {
  for (int32_t j = 0; j < row.length; ++j) w[row.index(j)] += c * static_cast<Real>(row.value(j));
}

class Features {
 public:
  Kind kind = Kind::dense64;
  int64_t columns = 0;
  double bias = 0;
  std::vector<RowView> rows;
  std::vector<float> norms;         // |x_r|^2 with the bias, to steer; certificates never use it
  std::vector<int32_t> owned;       // index lists built here for dense inputs with many zeros
  std::vector<float> owned_values;  // their values, unless all are one
  std::shared_ptr<Gram> gram;       // of rows under a kernel, else null

  int64_t width() const { return columns + (bias != 0); }
  int64_t stored() const { return gram ? 2 * columns : width(); }  // rows of W
  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // Calls f with the row in its own type: one branch a row, none inside.
  template <class F>
  decltype(auto) with_row(int64_t r, F&& f) const {
    const RowView& v = rows[r];
    switch (kind) {
      case Kind::dense32:
        return f(DenseRow<float>{static_cast<const float*>(v.value), v.length});
      case Kind::dense64:
        return f(DenseRow<double>{static_cast<const double*>(v.value), v.length});
      case Kind::sparse32:
        return f(SparseRow<float>{v.index, static_cast<const float*>(v.value), v.length});
      case Kind::sparse64:
        return f(SparseRow<double>{v.index, static_cast<const double*>(v.value), v.length});
      default:
        return f(BinaryRow{v.index, v.length});
    }
  }

  template <class Real>
  void add_scores(int64_t r, const Real* W, int stride, Real* out) const {
    if (gram) {
      const Real* u = W + (columns + r) * stride;
      for (int k = 0; k < stride; ++k) out[k] += u[k];
      return;
    }
    with_row(r, [&](const auto& row) { accumulate_all<Real>(row, W, stride, out); });
    if (bias != 0) {
      const Real* last = W + columns * stride;
      for (int k = 0; k < stride; ++k) out[k] += static_cast<Real>(bias) * last[k];
    }
  }

  // <x_r, W[:, column]>
  template <class Real>
  Real score_of(int64_t r, const Real* W, int stride, int column) const {
    if (gram) return W[(columns + r) * stride + column];
    const Real sum = with_row(r, [&](const auto& row) {
      Real s = 0;
      for (int32_t j = 0; j < row.length; ++j)
        s += static_cast<Real>(row.value(j)) * W[row.index(j) * stride + column];
      return s;
    });
    return bias == 0 ? sum : sum + static_cast<Real>(bias) * W[columns * stride + column];
  }

  // W[:, plus] += c x and W[:, minus] -= c x in one walk over the row.
  template <class Target, class Real = number_at<Target>>
  void add_pair(int64_t r, Target W, int stride, int plus, int minus, Real c) const {
    if (gram) {
      W[r * stride + plus] += c;
      W[r * stride + minus] -= c;
      const double* row = gram->row(r);
      Target u = W + columns * stride;
      for (int64_t j = 0; j < columns; ++j, u += stride) {
        const Real d = c * static_cast<Real>(row[j]);
        u[plus] += d;
        u[minus] -= d;
      }
      return;
    }
    with_row(r, [&](const auto& row) {
      for (int32_t j = 0; j < row.length; ++j) {
        Target w = W + row.index(j) * stride;
        const Real d = c * static_cast<Real>(row.value(j));
        w[plus] += d;
        w[minus] -= d;
      }
    });
    if (bias != 0) {
      Target w = W + columns * stride;
      w[plus] += c * static_cast<Real>(bias);
      w[minus] -= c * static_cast<Real>(bias);
    }
  }

  template <class Target, class Real = number_at<Target>>
  void add_column(int64_t r, Target W, int stride, int column, Real c) const {
    if (gram) {
      W[r * stride + column] += c;
      const double* row = gram->row(r);
      Target u = W + columns * stride + column;
      for (int64_t j = 0; j < columns; ++j, u += stride) *u += c * static_cast<Real>(row[j]);
      return;
    }
    with_row(r, [&](const auto& row) {
      for (int32_t j = 0; j < row.length; ++j)
        W[row.index(j) * stride + column] += c * static_cast<Real>(row.value(j));
    });
    if (bias != 0) W[columns * stride + column] += c * static_cast<Real>(bias);
  }

  template <class Real>
  Real dot_weights(int64_t r, const Real* w) const {
    if (gram) return w[columns + r];
    const Real sum = with_row(r, [&](const auto& row) { return dot_of<Real>(row, w); });
    return bias == 0 ? sum : sum + static_cast<Real>(bias) * w[columns];
  }

  template <class Target, class Real = number_at<Target>>
  void axpy(int64_t r, Target w, Real c) const {
    if (gram) return add_column(r, w, 1, 0, c);
    with_row(r, [&](const auto& row) { axpy_of(row, w, c); });
    if (bias != 0) w[columns] += c * static_cast<Real>(bias);
  }

  double dot(int64_t r, int64_t q) const {
    if (gram) return gram->row(r)[q];
    const double sum = with_row(r, [&](const auto& a) {
      using Row = std::decay_t<decltype(a)>;
      return with_row(q, [&](const auto& b) {
        if constexpr (std::is_same_v<Row, std::decay_t<decltype(b)>>)
          return product(a, b);
        else
          return 0.0;  // one set of rows has one kind
      });
    });
    return sum + bias * bias;
  }

  void measure() {
    norms.resize(rows.size());
    for (int64_t r = 0; r < size(); ++r) {
      const double sum = with_row(r, [&](const auto& row) {
        double s = 0;
        for (int32_t j = 0; j < row.length; ++j) s += static_cast<double>(row.value(j)) * row.value(j);
        return s;
      });
      norms[r] = static_cast<float>(sum + bias * bias);
    }
  }

 private:
  template <class T>
  static double product(const DenseRow<T>& a, const DenseRow<T>& b) {
    double lane[4] = {0, 0, 0, 0};
    int32_t j = 0;
    for (; j + 3 < a.length; j += 4)
      for (int k = 0; k < 4; ++k) lane[k] += static_cast<double>(a.values[j + k]) * b.values[j + k];
    for (; j < a.length; ++j) lane[0] += static_cast<double>(a.values[j]) * b.values[j];
    return lane[0] + lane[1] + lane[2] + lane[3];
  }
  template <class Row>
  static double product(const Row& a, const Row& b) {  // merge of sorted index lists
    double sum = 0;
    int32_t i = 0, j = 0;
    while (i < a.length && j < b.length) {
      const int64_t p = a.index(i), q = b.index(j);
      if (p == q) sum += static_cast<double>(a.value(i)) * b.value(j);
      i += p <= q;
      j += q <= p;
    }
    return sum;
  }
};

// What structures share that have one weight a feature, inside as outside: no table, no padding.
template <class Data>
class OneWeightAFeature {
 public:
  explicit OneWeightAFeature(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return static_cast<size_t>(data_.features->stored()); }
  size_t coefficients() const { return data_.features->gram ? weights() / 2 : 0; }
  int output_size(int64_t) const { return 1; }
  void prepare() {}

  template <class To>
  void pack(const double* flat, To* W) const {
    for (int64_t f = 0; f < data_.dimension(); ++f) W[f] = static_cast<To>(flat[f]);
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    for (int64_t f = 0; f < data_.dimension(); ++f) flat[f] = W[f];
  }

 protected:
  const Data& data_;
};

}  // namespace mm
