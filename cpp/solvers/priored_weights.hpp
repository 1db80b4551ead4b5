// w in the layout of a structure, with a prior. A move of the multipliers changes w as the prior requires.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "solvers/weights.hpp"

namespace mm {

template <class Structure>
class PrioredWeights : public Weights<typename Structure::Real> {
 public:
  using Real = typename Structure::Real;
  using Base = Weights<Real>;
  using Base::metric;
  using Base::unclipped;
  using Base::W;
  using Base::weighted;
  Structure& structure;

  explicit PrioredWeights(Structure& of) : Base(of.weights(), coefficients(of)), structure(of) {}

  // Converts flat weights to the layout of the structure.
  [[gnu::cold]] std::vector<double> packed(const double* flat, double padding) const {
    std::vector<double> to(structure.weights(), padding);
    structure.pack(flat, to.data());
    return to;
  }
  // The two functions below set the mean of a prior, and its metric: diag(Sigma) or Sigma, and lower bounds. A null
  // pointer means that the value is not given. All values are flat. The caller must write W again afterwards.
  [[gnu::cold]] void take_origin(const double* flat) {
    double square = 0;
    for (int64_t j = 0; j < structure.dimension(); ++j) square += flat[j] * flat[j];
    this->set_origin(packed(flat, 0), square);
  }
  [[gnu::cold]] void take_metric(const double* diagonal, const double* lower, const double* matrix) {
    if (matrix && lower) throw std::invalid_argument("bounds need a diagonal metric");
    Metric given;
    if (diagonal) given.diagonal = packed(diagonal, 1);
    if (lower) given.lower = packed(lower, -std::numeric_limits<double>::infinity());
    if (matrix) take_matrix(given, matrix);
    this->set_metric(std::move(given));
  }

  // Sets the centre of a proximal term, from flat weights. The caller must write W again afterwards.
  [[gnu::cold]] void take_center(const double* flat, double k) { this->set_center(packed(flat, 0), k); }

  // w += c Sigma move, for the move that was built.
  void shift(Move<Structure>& move, const typename Structure::Scratch& s, double c) {
    if (metric.plain()) return structure.apply(s, W.data(), c);
    const bool bounds = metric.bounded();
    move.each(metric, structure, s, W.size(), c, [&](size_t j, double change) {
      if (!bounds) {
        W[j] += static_cast<Real>(change);
      } else {
        unclipped[j] += static_cast<Real>(change);
        W[j] = static_cast<Real>(metric.clipped(j, unclipped[j]));
      }
      if constexpr (requires { structure.changed(W.data(), j); }) structure.changed(W.data(), j);
    });
  }
  // Writes the w that belongs to q = - sum a psi, in double precision.
  void follow(std::vector<double>& q) {
    if (metric.plain())
      for (size_t j = 0; j < this->origin.size(); ++j) q[j] += this->origin[j];
    this->apply_law(q);
    this->write(q);
  }
  // The same as `shift`, for the average of the iterates.
  void weigh(Move<Structure>& move, const typename Structure::Scratch& s, double c) {
    if (metric.plain()) return structure.apply(s, weighted.data(), c);
    move.each(metric, structure, s, W.size(), c, [&](size_t j, double change) { weighted[j] += change; });
  }
  double squared_norm(Move<Structure>& move, typename Structure::Scratch& s) const {
    return move.squared_norm(metric, structure, s, W.size());
  }

 private:
  // Stores Sigma over flat weights, and the position of each flat weight in the structure.
  [[gnu::cold]] void take_matrix(Metric& given, const double* matrix) const {
    const size_t d = static_cast<size_t>(structure.dimension());
    std::vector<double> number(d);
    for (size_t f = 0; f < d; ++f) number[f] = static_cast<double>(f);
    const std::vector<double> place = packed(number.data(), -1);
    given.matrix.assign(matrix, matrix + d * d);
    given.inside.assign(d, 0);
    given.outside.assign(place.size(), 0);
    for (size_t j = 0; j < place.size(); ++j)
      if (place[j] >= 0) given.outside[j] = static_cast<size_t>(place[j]), given.inside[given.outside[j]] = j;
  }
  static size_t coefficients(const Structure& of) {
    if constexpr (requires { of.coefficients(); }) return of.coefficients();
    return 0;
  }
};

}  // namespace mm
