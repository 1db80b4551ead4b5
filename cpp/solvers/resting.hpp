// Gives the memory of vectors back to the system while they are not in use. The vectors have one length and are zero
// nearly everywhere; only their nonzero numbers are kept. Afterwards they lie at the same addresses, with the same
// bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "runtime/pages.hpp"

namespace mm {

template <class Real>
class Resting {
 public:
  bool any() const { return !vectors_.empty(); }

  // Leaves the vectors alone if they are small, or have many nonzero numbers.
  void take(std::initializer_list<Real*> vectors, size_t size) {
    if (any() || size * sizeof(Real) < worthwhile) return;
    vectors_ = vectors;
    const size_t most = size / 4;
    places_.reserve((size + bits - 1) / bits);
    values_.reserve(vectors_.size() * (most + bits));  // takes no memory until it is written
    for (size_t first = 0; first < size; first += bits) {
      if (values_.size() > vectors_.size() * most) return end();
      places_.push_back(first + bits <= size ? word(first, bits) : word(first, size - first));
      each_place(places_.size() - 1, [&](size_t place) {
        for (const Real* v : vectors_) values_.push_back(v[place]);
      });
    }
    for (Real* v : vectors_) forget(v, v + size);
  }
  // Writes the numbers back. Memory that the system took is zero now; memory that it did not take still has its
  // numbers.
  void give_back() {
    for (size_t k = 0; k < vectors_.size(); ++k)
      each(k, [v = vectors_[k]](size_t place, Real value) { v[place] = value; });
    end();
  }

  // Calls f(place, value) for the nonzero numbers of the k-th vector, and for some zeros.
  template <class F>
  void each(size_t k, F&& f) const {
    const Real* value = values_.data() + k;
    for (size_t w = 0; w < places_.size(); ++w)
      each_place(w, [&](size_t place) { f(place, *value), value += vectors_.size(); });
  }

 private:
  static constexpr size_t worthwhile = size_t(5) << 20;  // bytes of a vector; smaller ones keep their memory
  static constexpr size_t bits = 64;                     // of a word
  std::vector<Real*> vectors_;                           // empty while all vectors have their memory
  std::vector<uint64_t> places_;  // a bit for each place, set if one of the vectors is not zero there
  std::vector<Real> values_;  // first the values of all vectors at the first place, then at the second, ...

  void end() { *this = Resting(); }

  // A bit for each nonzero number from `first` on. Looks at the bits of the numbers, since a zero may be negative.
  uint64_t word(size_t first, size_t n) const {
    using Bits = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
    Bits seen[bits] = {};
    for (const Real* v : vectors_)
      for (size_t l = 0; l < n; ++l) seen[l] |= std::bit_cast<Bits>(v[first + l]);
    uint64_t found = 0;
    for (size_t l = 0; l < bits; ++l) found |= static_cast<uint64_t>(seen[l] != 0) << l;
    return found;
  }
  template <class F>
  void each_place(size_t w, F&& f) const {
    for (uint64_t left = places_[w]; left != 0; left &= left - 1)
      f(w * bits + static_cast<size_t>(std::countr_zero(left)));
  }
};

}  // namespace mm
