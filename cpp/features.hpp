// Rows of features, dense or sparse, read from the caller's memory.
//
//     scores:  s += x_r W            (W has a row of `stride` reals for each feature)
//     scatter: W[:, k] += c x_r
//     dot:     <x_r, x_q>
//     one weight per feature:  dot_weights = <x_r, w>,   axpy: w += c x_r
//
// A constant feature `bias` may be appended to every row without touching the caller's arrays.
//
// With a kernel, only the inner products K of the rows are known. W then holds w twice, one below the other,
// in 2n rows: as coefficients A over the n rows, and as its values U = K A on them:
//
//     scores:  s += U[r]        scatter: A[r, k] += c, U[:, k] += c K[r]        dot: K[r, q]
//
// Both halves are linear in w, and |w|^2 = sum A * U does not read K.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gather.hpp"
#include "gram.hpp"
#include "runtime/pages.hpp"
#include "simd.hpp"

namespace mm {

// short32: sparse rows made by `narrowed`, with 16-bit indices behind the values of each row. bytes: binary
// rows whose indices are bytes, with `value` pointing to the indices.
enum class Kind : uint8_t { dense32, dense64, sparse32, sparse64, binary, short32, bytes };

// Stages of prefetching: views of rows, then the rows, then the weights of their features.
enum class Stage { views, rows, weights };

struct RowView {
  const int32_t* index;  // null for dense and short rows, and for bytes
  const void* value;     // null for binary rows
  int32_t length;
};

class Features {
 public:
  Kind kind = Kind::dense64;
  int64_t columns = 0;
  double bias = 0;
  Unwritten<RowView> rows;
  std::vector<float> norms;         // |x_r|^2 with the bias; a hint for solvers, not used in certificates
  Unwritten<int32_t> owned;         // index lists built for dense inputs with many zeros
  Unwritten<uint8_t> owned_bytes;   // index lists in bytes, if the indices are small enough
  Unwritten<float> owned_values;    // their values, unless all are one
  Unwritten<double> owned_doubles;  // the same in double precision
  Unwritten<float> own_pieces;      // rows made by `narrowed`
  std::shared_ptr<Gram> gram;       // kernel matrix of the rows, or null without a kernel

  int64_t width() const { return columns + (bias != 0); }
  int64_t stored() const { return gram ? 2 * columns : width(); }  // rows of W
  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // out += x_r W. `wanted` has a bit for each vector of columns; the last bit stands for all further vectors.
  // Other columns may be skipped.
  template <class Real>
  void add_scores(int64_t r, const Real* W, int stride, Real* out, uint64_t wanted = ~uint64_t(0)) const;
  // <x_r, W[:, column]>
  template <class Real>
  Real score_of(int64_t r, const Real* W, int stride, int column) const;
  // <x_r, w>; pass the view of row r if it is loaded already.
  template <class Real>
  Real dot_weights(int64_t r, const RowView& row, const Real* w) const;
  template <class Real>
  Real dot_weights(int64_t r, const Real* w) const {
    return dot_weights(r, rows[r], w);
  }
  double dot(int64_t r, int64_t q) const;

  // W[:, plus] += c x and W[:, minus] -= c x in one pass over the row.
  template <class Target>
  void add_pair(int64_t r, Target W, int stride, int plus, int minus, number_at<Target> c) const;
  // W[:, column] += c x
  template <class Target>
  void add_column(int64_t r, Target W, int stride, int column, number_at<Target> c) const;
  template <class Target>
  void axpy(int64_t r, const RowView& row, Target w, number_at<Target> c) const;
  template <class Target>
  void axpy(int64_t r, Target w, number_at<Target> c) const {
    axpy(r, rows[r], w, c);
  }
  // sum += c x and returns <x_r, w>, in one pass over the row; not with a kernel.
  double dot_and_axpy(int64_t r, const double* w, double* sum, double c) const;
  // W[j, :] += x_j c for whole vectors of columns; not with a kernel.
  template <class Real>
  void add_outer(int64_t r, Real* W, int stride, const Real* c) const;
  // W[j, :] += scale x_j c for whole vectors of columns; returns the change of |W|^2. Not with a kernel.
  template <class Real>
  double add_measured(int64_t r, Real* W, int stride, const Real* c, Real scale) const;
  // Adds the squares of W[j, 0] to `sum`, for the features j stored in row r, and sets them to zero; not with
  // a kernel.
  void take_squares(int64_t r, double* W, int stride, double& sum) const;

  // Prefetches the first and last cache line of each row of W that the scores of row r read. Does nothing for
  // dense rows, which read W in order.
  template <class Real>
  void prefetch_weights(int64_t r, const Real* W, int stride) const;

  void prefetch_view(int64_t r) const { fetch_ahead(&rows[r]); }
  void prefetch(int64_t r) const { prefetch(rows[r]); }
  void prefetch(const RowView& row) const {
    if (row.value) fetch_stretch(row.value, value_bytes() * row.length);
    if (row.index) fetch_stretch(row.index, int64_t(4) * row.length);
  }

 private:
  // Bytes per entry in the memory at `value`.
  int64_t value_bytes() const {
    if (kind == Kind::bytes) return 1;
    return kind == Kind::short32 ? 6 : kind == Kind::dense64 || kind == Kind::sparse64 ? 8 : 4;
  }
  static void fetch_stretch(const void* first, int64_t bytes) {  // the hardware prefetches the rest
    for (int64_t at = 0; at < std::min<int64_t>(bytes, 256); at += 64)
      fetch_ahead(static_cast<const char*>(first) + at);
  }
};

// Base of structures with one weight per feature, for which W has the layout of the flat weights.
template <class Data>
class OneWeightPerFeature {
 public:
  explicit OneWeightPerFeature(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return static_cast<size_t>(data_.features->stored()); }
  size_t coefficients() const { return data_.features->gram ? weights() / 2 : 0; }
  int output_size(int64_t) const { return 1; }

  // Whether W has the layout of the flat weights.
  bool plain() const { return !data_.features->gram; }
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
