// Stochastic gradient for the log loss, with steps 1 / t.
//
//   w_t = (1 - 1/t) w_{t-1} + (n / t) mass_i (Psi(y_i) - E_p Psi),   p at w_{t-1}
//
// is the sum S_t = t w_t, to which a visit adds n mass_i (Psi(y_i) - E_p Psi): nothing is ever rescaled.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/concept.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"

namespace mm {

// The state behind virtual calls: what Python sees.
class SoftGradient {
 public:
  virtual ~SoftGradient() = default;
  virtual int64_t blocks() const = 0;
  virtual int64_t dimension() const = 0;
  virtual void visit(const int64_t* order, int64_t n) = 0;
  virtual void weights(double* flat) const = 0;
};

template <class S>
  requires SumsAll<S>
class SoftGradientOf final : public SoftGradient {
 public:
  using Real = typename S::Real;

  // `first`: t before the first visit, above 0; `count`: n, the blocks of a pass.
  SoftGradientOf(const typename S::Data& data, std::vector<double> mass, bool augmented, double first,
                 double count)
      : structure_(data),
        mass_(std::move(mass)),
        augmented_(augmented),
        time_(first),
        count_(count),
        sum_(structure_.weights()) {}

  int64_t blocks() const override { return structure_.blocks(); }
  int64_t dimension() const override { return structure_.dimension(); }
  void weights(double* flat) const override {
    structure_.unpack(sum_.data(), flat);
    for (int64_t j = 0; j < dimension(); ++j) flat[j] /= time_;
  }
  void visit(const int64_t* order, int64_t n) override {
    auto s = structure_.scratch();
    for (int64_t at = 0; at < n; ++at) {
      poll();
      const int64_t i = order[at];
      const size_t size = static_cast<size_t>(structure_.potentials(i)) * structure_.row_stride();
      theta_.resize(size), m_.resize(size);
      // Scores of S, and with them the loss, are t times those of w.
      structure_.open(i, sum_.data(), s, augmented_, static_cast<Real>(time_));
      structure_.list_potentials(s, sum_.data(), theta_.data());
      for (Real& x : theta_) x /= static_cast<Real>(time_);
      structure_.distribute(s, i, theta_.data(), m_.data());
      structure_.subtract_truth(i, m_.data());
      structure_.add_expected(s, i, m_.data(), sum_.data(), -count_ * mass_[i]);
      time_ += 1;
    }
  }

 private:
  const S structure_;
  std::vector<double> mass_;
  bool augmented_;
  double time_, count_;
  aligned<Real> sum_, theta_, m_;
};

}  // namespace mm
