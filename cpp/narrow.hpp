// Rows of features in single precision: a copy for passes that are made many times, half the bytes of a visit and no
// conversion in the inner loop. Index lists stay where they are.
#pragma once

#include <memory>

#include "features.hpp"

namespace mm {

inline std::unique_ptr<Features> narrowed(const Features& wide) {
  auto narrow = std::make_unique<Features>();
  narrow->kind = wide.kind == Kind::dense64 ? Kind::dense32 : Kind::sparse32;
  narrow->columns = wide.columns;
  narrow->bias = wide.bias;
  narrow->rows = wide.rows;
  narrow->norms = wide.norms;
  size_t stored = 0;
  for (const RowView& row : wide.rows) stored += static_cast<size_t>(row.length);
  narrow->owned_values.resize(stored);
  float* to = narrow->owned_values.data();
  for (RowView& row : narrow->rows) {
    const double* from = static_cast<const double*>(row.value);
    row.value = to;
    for (int32_t j = 0; j < row.length; ++j) *to++ = static_cast<float>(from[j]);
  }
  return narrow;
}

}  // namespace mm
