// Rows of features, dense or sparse, read where the caller keeps them.
//
//   scores:  s += x_r W            (W has a row of `stride` reals for each feature)
//   scatter: W[:, k] += c x_r
//   dot:     <x_r, x_q>
//   one weight per feature:  dot_weights = <x_r, w>,   axpy: w += c x_r
//
// A constant feature `bias` may be appended to every row without touching the caller's arrays.
//
// Rows under a kernel are known by their inner products K alone. W then holds w twice, as coefficients A over
// the n rows and as its values U = K A on them, one below the other, 2n rows in all:
//   scores:  s += U[r]        scatter: A[r, k] += c, U[:, k] += c K[r]        dot: K[r, q]
// Both halves are linear in w, and |w|^2 = sum A * U needs no look at K.
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

// short32: sparse rows that `narrowed` made, with indices of 16 bits behind the values of each row; bytes: binary rows
// whose indices are bytes, where the value is in other rows.
enum class Kind : uint8_t { dense32, dense64, sparse32, sparse64, binary, short32, bytes };

// What is asked for ahead, one after the other: views of rows, the rows, the weights that they name.
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
  std::vector<float> norms;         // |x_r|^2 with the bias, to steer; certificates never use it
  Unwritten<int32_t> owned;         // index lists built here for dense inputs with many zeros
  Unwritten<uint8_t> owned_bytes;   // the same, where that is all they need
  Unwritten<float> owned_values;    // their values, unless all are one
  Unwritten<double> owned_doubles;  // the same for double precision
  Unwritten<float> own_pieces;      // rows that `narrowed` made
  std::shared_ptr<Gram> gram;       // of rows under a kernel, else null

  int64_t width() const { return columns + (bias != 0); }
  int64_t stored() const { return gram ? 2 * columns : width(); }  // rows of W
  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // out += x_r W, at least in the vectors of columns that are wanted: a bit for each, of which the last stands for all others
  template <class Real>
  void add_scores(int64_t r, const Real* W, int stride, Real* out, uint64_t wanted = ~uint64_t(0)) const;
  // <x_r, W[:, column]>
  template <class Real>
  Real score_of(int64_t r, const Real* W, int stride, int column) const;
  // <x_r, w>; where the view of row r is at hand, with it
  template <class Real>
  Real dot_weights(int64_t r, const RowView& row, const Real* w) const;
  template <class Real>
  Real dot_weights(int64_t r, const Real* w) const {
    return dot_weights(r, rows[r], w);
  }
  double dot(int64_t r, int64_t q) const;

  // W[:, plus] += c x and W[:, minus] -= c x in one walk over the row.
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
  // Both in one walk over the row, not under a kernel: sum += c x, returns <x_r, w>
  double dot_and_axpy(int64_t r, const double* w, double* sum, double c) const;
  // W[j, :] += x_j c for whole vectors of columns, not under a kernel
  template <class Real>
  void add_outer(int64_t r, Real* W, int stride, const Real* c) const;
  // W[j, :] += scale x_j c for whole vectors of columns, not under a kernel; returns how |W|^2 has changed
  template <class Real>
  double add_measured(int64_t r, Real* W, int stride, const Real* c, Real scale) const;
  // sum += the squares of W[j, 0] where x_j is stored, which become zero; not under a kernel
  void take_squares(int64_t r, double* W, int stride, double& sum) const;

  // Asks for the rows of W that the scores of row r read: their ends. Dense rows read W from end to end.
  template <class Real>
  void prefetch_weights(int64_t r, const Real* W, int stride) const;

  void prefetch_view(int64_t r) const { fetch_ahead(&rows[r]); }
  void prefetch(int64_t r) const { prefetch(rows[r]); }
  void prefetch(const RowView& row) const {
    if (row.value) fetch_stretch(row.value, value_bytes() * row.length);
    if (row.index) fetch_stretch(row.index, int64_t(4) * row.length);
  }

 private:
  // Of an entry, as a row has them one after the other.
  int64_t value_bytes() const {
    if (kind == Kind::bytes) return 1;
    return kind == Kind::short32 ? 6 : kind == Kind::dense64 || kind == Kind::sparse64 ? 8 : 4;
  }
  static void fetch_stretch(const void* first, int64_t bytes) {  // the rest of a long one follows by itself
    for (int64_t at = 0; at < std::min<int64_t>(bytes, 256); at += 64)
      fetch_ahead(static_cast<const char*>(first) + at);
  }
};

// What structures share that have one weight per feature, inside as outside: no table, no padding.
template <class Data>
class OneWeightPerFeature {
 public:
  explicit OneWeightPerFeature(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return static_cast<size_t>(data_.features->stored()); }
  size_t coefficients() const { return data_.features->gram ? weights() / 2 : 0; }
  int output_size(int64_t) const { return 1; }

  // Whether weights inside are those outside.
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
