// Costs of mistakes: one number for each true label, or a matrix [true, predicted] with zeros on the
// diagonal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mm {

struct Costs {
  int labels = 0;
  std::vector<double> values;

  bool fits() const {
    const size_t n = static_cast<size_t>(labels);
    return values.size() == n || values.size() == n * n;
  }
  // Whether a mistake costs the same for every wrong label.
  bool uniform() const { return values.size() == static_cast<size_t>(labels); }
  double mistake(int right) const { return values[right]; }
  double of(int right, int label) const {
    if (uniform()) return right == label ? 0.0 : values[right];
    return row(right)[label];
  }
  const double* row(int right) const { return values.data() + static_cast<size_t>(right) * labels; }

  double most(int right) const {
    return uniform() ? values[right] : *std::max_element(row(right), row(right) + labels);
  }

  // out[k] += scale cost[right, k]. If `out` is padded to `size`, the padding may change.
  template <class Real>
  void add(int right, Real scale, Real* out, int size) const {
    if (uniform()) {
      const Real own = out[right], more = scale * static_cast<Real>(values[right]);
      for (int k = 0; k < size; ++k) out[k] += more;
      out[right] = own;
    } else {
      for (int k = 0; k < labels; ++k) out[k] += scale * static_cast<Real>(row(right)[k]);
    }
  }
};

}  // namespace mm
