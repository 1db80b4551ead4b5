// Rows of features with their own static type, so that loops over them are compiled once for each kind of
// row.
#pragma once

#include <cstdint>

#include "features.hpp"

namespace mm {

template <class T>
struct DenseRow {
  const T* values;
  int32_t length;
  int64_t index(int32_t j) const { return j; }
  T value(int32_t j) const { return values[j]; }
};
template <class T, class Index = int32_t>
struct SparseRow {
  const Index* indices;
  const T* values;
  int32_t length;
  int64_t index(int32_t j) const { return indices[j]; }
  T value(int32_t j) const { return values[j]; }
};
template <class Index = int32_t>
struct BinaryRow {
  const Index* indices;
  int32_t length;
  int64_t index(int32_t j) const { return indices[j]; }
  static constexpr float value(int32_t) { return 1.0f; }
};

// Calls f with the row in its own type, so that the loop inside f does not branch on the kind.
template <class F>
decltype(auto) with_view(Kind kind, const RowView& v, F&& f) {
  switch (kind) {
    case Kind::dense32:
      return f(DenseRow<float>{static_cast<const float*>(v.value), v.length});
    case Kind::dense64:
      return f(DenseRow<double>{static_cast<const double*>(v.value), v.length});
    case Kind::sparse32:
      return f(SparseRow<float>{v.index, static_cast<const float*>(v.value), v.length});
    case Kind::sparse64:
      return f(SparseRow<double>{v.index, static_cast<const double*>(v.value), v.length});
    case Kind::short32: {
      const float* values = static_cast<const float*>(v.value);
      return f(
          SparseRow<float, uint16_t>{reinterpret_cast<const uint16_t*>(values + v.length), values, v.length});
    }
    case Kind::bytes:
      return f(BinaryRow<uint8_t>{static_cast<const uint8_t*>(v.value), v.length});
    default:
      return f(BinaryRow<>{v.index, v.length});
  }
}
template <class F>
decltype(auto) with_row(const Features& features, int64_t r, F&& f) {
  return with_view(features.kind, features.rows[r], f);
}
// Calls f(index, value) for each feature of the row, including the bias.
template <class F>
void each_feature(const Features& features, int64_t r, F&& f) {
  with_row(features, r, [&](const auto& row) {
    auto own = f;  // the members of a local copy stay in registers, whatever f writes to
    for (int32_t j = 0; j < row.length; ++j) own(row.index(j), row.value(j));
  });
  if (features.bias != 0) f(features.columns, features.bias);
}
// Calls f(index, value, other value) for each feature that two rows share, including the bias.
template <class F>
void each_shared(const Features& features, int64_t r, int64_t q, F&& f) {
  with_row(features, r, [&](const auto& a) {
    with_row(features, q, [&](const auto& b) {
      for (int32_t i = 0, j = 0; i < a.length && j < b.length;) {  // merges the sorted index lists
        const int64_t left = a.index(i), right = b.index(j);
        if (left == right) f(left, a.value(i), b.value(j));
        i += left <= right;
        j += right <= left;
      }
    });
  });
  if (features.bias != 0) f(features.columns, features.bias, features.bias);
}

}  // namespace mm
