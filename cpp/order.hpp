// A strict weak order of all numbers, including NaN. NaN (after an overflow) compares false with everything,
// and std::sort may read outside its range if the order is inconsistent.
#pragma once

namespace mm {

// From the largest to the smallest, NaN last.
struct Descending {
  template <class Real>
  bool operator()(Real a, Real b) const {
    return a > b || (b != b && a == a);
  }
};

}  // namespace mm
