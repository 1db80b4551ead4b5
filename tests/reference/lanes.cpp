// Prints the results of the operations of simd.hpp on fixed numbers, with all digits.
#include <cstdio>

#include "models/max_plus.hpp"
#include "simd.hpp"

template <class Real>
void show() {
  constexpr int lanes = mm::Vector<Real>::lanes;
  Real a[16], b[16], out[16];
  float single[16];
  for (int k = 0; k < 16; ++k) {
    a[k] = static_cast<Real>((k * 7 % 5) - 2.25), b[k] = static_cast<Real>((k * 3 % 7) - 2.25);
    single[k] = static_cast<float>(k) / 3;
  }
  for (int k = 0; k < 16; k += lanes) {
    const auto x = mm::load(a + k), y = mm::load(b + k);
    auto sum = x * y;
    sum += mm::broadcast(Real(0.5)) * mm::load_as<Real>(single + k);
    mm::store(out + k, mm::maximum(sum, x + y));
    for (int n = 0; n < lanes; ++n) {
      const bool above = mm::lanes_above(x, y) >> n & 1, least = mm::lanes_at_least(x, y) >> n & 1;
      std::printf("%d%d ", above, least);
    }
  }
  std::printf("%.17g\n", static_cast<double>(mm::sum_of_lanes<Real>(mm::load(a) * mm::load(b))));
  mm::by_vectors<Real>(
      8, [&]<int N>(int column) { mm::max_plus<Real, N>(a, b + column, 8, 2, out + 8 + column); });
  for (const Real value : out) std::printf("%.17g ", static_cast<double>(value));
  std::printf("\n");
}

int main() {
  show<float>();
  show<double>();
}
