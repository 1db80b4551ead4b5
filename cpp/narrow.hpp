// A copy of rows of features in single precision, for many passes over the same rows. A visit reads half the
// bytes, and the inner loop converts nothing. If 16-bit indices are enough, they lie behind the values of
// their row, so that a visit reads one piece of memory. Otherwise the copy keeps pointing to the original
// indices.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "features.hpp"
#include "runtime/pages.hpp"

namespace mm {

// The number of floats that a row takes.
inline size_t narrow_size(Kind kind, int32_t length) {
  return static_cast<size_t>(kind == Kind::short32 ? length + (length + 1) / 2 : length);
}

// Returns the values at `places`, in this order.
template <class Values>
Values picked(const Values& values, const std::vector<int64_t>& places) {
  Values found;
  found.reserve(places.size());
  for (const int64_t i : places) found.push_back(values[i]);
  return found;
}

// Copies the rows in this order.
inline std::unique_ptr<Features> narrowed(const Features& wide, const std::vector<int64_t>& order) {
  auto narrow = std::make_unique<Features>();
  const bool few = wide.columns <= 65536;
  narrow->kind = wide.kind == Kind::dense64 ? Kind::dense32 : few ? Kind::short32 : Kind::sparse32;
  narrow->columns = wide.columns;
  narrow->bias = wide.bias;
  narrow->rows = picked(wide.rows, order);
  narrow->norms = picked(wide.norms, order);
  std::vector<size_t> first(order.size());
  size_t stored = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    first[order[i]] = stored;
    stored += narrow_size(narrow->kind, narrow->rows[i].length);
  }
  reserve_in_large_pages(narrow->own_pieces, stored);
  narrow->own_pieces.resize(stored);
  float* pieces = narrow->own_pieces.data();
  // Reads in order and writes out of order, which is faster than the reverse.
  for (size_t i = 0; i < order.size(); ++i) {
    const RowView& row = wide.rows[i];
    const double* from = static_cast<const double*>(row.value);
    float* to = pieces + first[i];
    for (int32_t j = 0; j < row.length; ++j) to[j] = static_cast<float>(from[j]);
    if (narrow->kind != Kind::short32) continue;
    uint16_t* places = reinterpret_cast<uint16_t*>(to + row.length);
    for (int32_t j = 0; j < row.length; ++j) places[j] = static_cast<uint16_t>(row.index[j]);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    RowView& row = narrow->rows[i];
    row.value = pieces + first[order[i]];
    if (narrow->kind == Kind::short32) row.index = nullptr;
  }
  return narrow;
}

}  // namespace mm
