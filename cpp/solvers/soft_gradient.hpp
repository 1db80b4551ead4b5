// Stochastic gradient for the log loss, with steps 1 / t.
//
//   w_t = (1 - 1/t) w_{t-1} + (n / t) mass_i (Psi(y_i) - E_p Psi),   p at w_{t-1}
//
// This is the sum S_t = t w_t. A visit adds n mass_i (Psi(y_i) - E_p Psi) to it, so nothing is ever rescaled. If the
// objective has a linear term - <v, w>, a visit also adds v. Its scores are then the scores of S plus the number of
// visits times the scores of v.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/concept.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"

namespace mm {

// The interface of the state for Python, with virtual calls.
class SoftGradient {
 public:
  virtual ~SoftGradient() = default;
  virtual int64_t blocks() const = 0;
  virtual int64_t dimension() const = 0;
  virtual void visit(const int64_t* order, int64_t n) = 0;
  virtual void weights(double* flat) const = 0;
  virtual double time() const = 0;
  virtual void go_on(double time, const double* flat) = 0;  // resumes from these weights at this t
};

template <class S>
  requires SumsAll<S>
class SoftGradientOf final : public SoftGradient {
 public:
  using Real = typename S::Real;

  // `first` is t before the first visit, above 0. `count` is n, the number of blocks in a pass. `linear` is v as flat
  // weights, or null.
  SoftGradientOf(const typename S::Data& data, std::vector<double> mass, bool augmented, double first,
                 double count, const double* linear)
      : structure_(data),
        mass_(std::move(mass)),
        augmented_(augmented),
        time_(first),
        count_(count),
        sum_(structure_.weights()) {
    if (!linear) return;
    linear_.resize(sum_.size());
    structure_.pack(linear, linear_.data());
  }

  int64_t blocks() const override { return structure_.blocks(); }
  int64_t dimension() const override { return structure_.dimension(); }
  void weights(double* flat) const override {
    aligned<Real> whole(sum_);
    for (size_t j = 0; j < linear_.size(); ++j) whole[j] += visits_ * linear_[j];
    structure_.unpack(whole.data(), flat);
    for (int64_t j = 0; j < dimension(); ++j) flat[j] /= time_;
  }
  double time() const override { return time_; }
  void go_on(double time, const double* flat) override {
    structure_.pack(flat, sum_.data());
    for (Real& x : sum_) x *= static_cast<Real>(time);
    time_ = time, visits_ = 0;
  }
  void visit(const int64_t* order, int64_t n) override {
    auto s = structure_.scratch();
    for (int64_t at = 0; at < n; ++at) {
      poll();
      const int64_t i = order[at];
      const size_t size = static_cast<size_t>(structure_.potentials(i)) * structure_.row_stride();
      theta_.resize(size), m_.resize(size);
      // The scores of S are t times the scores of w, so the loss must be multiplied by t, too.
      structure_.open(i, sum_.data(), s, augmented_, static_cast<Real>(time_));
      structure_.list_potentials(s, sum_.data(), theta_.data());
      add_linear(s, i);
      for (Real& x : theta_) x /= static_cast<Real>(time_);
      structure_.distribute(s, i, theta_.data(), m_.data());
      structure_.subtract_truth(i, m_.data());
      structure_.add_expected(s, i, m_.data(), sum_.data(), -count_ * mass_[i]);
      time_ += 1, visits_ += 1;
    }
  }

 private:
  const S structure_;
  std::vector<double> mass_;
  bool augmented_;
  double time_, count_, visits_ = 0;
  aligned<Real> sum_, theta_, m_, linear_, more_;

  // Adds the potentials of the sum of all v that visits have added.
  void add_linear(typename S::Scratch& s, int64_t i) {
    if (linear_.empty()) return;
    more_.resize(theta_.size());
    structure_.open(i, linear_.data(), s, false, 1);
    structure_.list_potentials(s, linear_.data(), more_.data());
    for (size_t k = 0; k < theta_.size(); ++k) theta_[k] += static_cast<Real>(visits_) * more_[k];
  }
};

}  // namespace mm
