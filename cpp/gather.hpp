// A move of w as a sparse vector: what structures add to weights, gathered entry by entry instead.
//
// `Gather` is given where a structure expects a pointer to weights: `W[j] += v` lands in a Sparse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mm {

struct Sparse {
  std::vector<double> dense;  // zero outside `touched`
  std::vector<char> seen;
  std::vector<size_t> touched;

  void resize(size_t n) {
    if (dense.size() == n) return;
    dense.assign(n, 0);
    seen.assign(n, 0);
    touched.clear();
  }
  void clear() {
    for (size_t j : touched) dense[j] = 0, seen[j] = 0;
    touched.clear();
  }
  void add(size_t j, double value) {
    if (!seen[j]) seen[j] = 1, touched.push_back(j);
    dense[j] += value;
  }
  double squared_norm() const {
    double sum = 0;
    for (size_t j : touched) sum += dense[j] * dense[j];
    return sum;
  }
  // W += c * this
  template <class Target>
  void apply(Target W, double c) const {
    for (size_t j : touched) W[static_cast<int64_t>(j)] += c * dense[j];
  }
};

class Gather {
 public:
  class Entry {
   public:
    Entry(Sparse* into, size_t at) : into_(into), at_(at) {}
    void operator+=(double value) const { into_->add(at_, value); }
    void operator-=(double value) const { into_->add(at_, -value); }

   private:
    Sparse* into_;
    size_t at_;
  };

  explicit Gather(Sparse& into, size_t at = 0) : into_(&into), at_(at) {}
  Entry operator[](int64_t j) const { return {into_, at_ + static_cast<size_t>(j)}; }
  Entry operator*() const { return {into_, at_}; }
  Gather operator+(int64_t j) const { return Gather(*into_, at_ + static_cast<size_t>(j)); }
  void operator+=(int64_t j) { at_ += static_cast<size_t>(j); }

 private:
  Sparse* into_;
  size_t at_;
};

// The type of the numbers behind a pointer to weights.
template <class Target>
struct NumberAt;
template <class T>
struct NumberAt<T*> {
  using type = T;
};
template <>
struct NumberAt<Gather> {
  using type = double;
};
template <class Target>
using number_at = typename NumberAt<Target>::type;

}  // namespace mm
