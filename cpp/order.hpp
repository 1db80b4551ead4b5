// An order of all numbers. std::sort and its kin may read outside of what they sort where an order is not one, and NaN
// (what overflow leaves behind) is neither above nor below anything.
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
