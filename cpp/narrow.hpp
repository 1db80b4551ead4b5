// Rows of features in single precision: a copy for passes that are made many times, half the bytes of a visit and no
// conversion in the inner loop. Indices of 16 bits, where they are enough, lie behind the values of their row: a visit
// then reads one piece of memory. Others stay where they are.
#pragma once

#include <memory>

#include "features.hpp"
#include "runtime/pages.hpp"

namespace mm {

// How many numbers of four bytes a row takes.
inline size_t narrow_size(Kind kind, int32_t length) {
  return static_cast<size_t>(kind == Kind::short32 ? length + (length + 1) / 2 : length);
}

inline std::unique_ptr<Features> narrowed(const Features& wide) {
  auto narrow = std::make_unique<Features>();
  const bool few = wide.columns <= 65536;
  narrow->kind = wide.kind == Kind::dense64 ? Kind::dense32 : few ? Kind::short32 : Kind::sparse32;
  narrow->columns = wide.columns;
  narrow->bias = wide.bias;
  narrow->rows = wide.rows;
  narrow->norms = wide.norms;
  size_t stored = 0;
  for (const RowView& row : wide.rows) stored += narrow_size(narrow->kind, row.length);
  reserve_in_large_pages(narrow->own_pieces, stored);
  narrow->own_pieces.resize(stored);
  float* to = narrow->own_pieces.data();
  for (RowView& row : narrow->rows) {
    const double* from = static_cast<const double*>(row.value);
    row.value = to;
    for (int32_t j = 0; j < row.length; ++j) to[j] = static_cast<float>(from[j]);
    if (narrow->kind == Kind::short32) {
      uint16_t* places = reinterpret_cast<uint16_t*>(to + row.length);
      for (int32_t j = 0; j < row.length; ++j) places[j] = static_cast<uint16_t>(row.index[j]);
      row.index = nullptr;
    }
    to += narrow_size(narrow->kind, row.length);
  }
  return narrow;
}

}  // namespace mm
