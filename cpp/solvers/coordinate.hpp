// Dual coordinate ascent over constraints that can all be written down: the interface that bindings and solvers use for
// any structure. The mathematics is in dual_coordinate.hpp.
#pragma once

#include <cstdint>
#include <utility>

#include "arrays.hpp"

namespace mm {

struct EpochReport {
  int64_t visits = 0, updates = 0, active = 0;
  double violation = 0;  // running upper bound less D(a): sum_i mass_i g_i, each g_i at the w of its visit
};

struct RoundOptions {
  uint64_t seed = 0;
  double tolerance = 0;  // on g_i: a block with less is satisfied
  int sweeps = 3, skip = 3;
  double inner = 0.4, momentum = 0.4, decay = 1.3;  // as in solvers/proximal.py
  int64_t rounds = 1, visits = 0;  // limits: no round begins after this many rounds, or visits of epochs
  double enough = 0;               // stop once the gap is at most this
  double far = 10;         // factor on `enough`: if the epoch saw a larger gap, sweeps have moved w far
  double climb_below = 0;  // a round that leaves a smaller gap ends with a climb
  double few = 1;          // fraction: if the last epoch left more blocks unsatisfied, no block rests
};
struct RoundReport {
  int64_t visits = 0, rounds = 0;
  double ascent = 0, lag = 0;
};

// Weights are flat; an output is one label.
class Coordinate {
 public:
  virtual ~Coordinate() = default;
  virtual int64_t dimension() const = 0;
  virtual EpochReport epoch(uint64_t seed, bool shrinking, double tolerance) = 0;
  virtual void set_proximity(double k) = 0;  // before the first round
  virtual double proximity() const = 0;
  virtual RoundReport rounds(const RoundOptions& options) = 0;
  // mean |psi(u)|^2 and mean Delta(u) of the loss-augmented outputs u of some blocks at the running w
  virtual std::pair<double, double> probe(const int64_t* blocks, int64_t n) = 0;
  virtual void weights(double* flat) const = 0;  // as updates have left them
  virtual SupportArrays support() const = 0;
  virtual void restore(const int64_t* blocks, const double* multipliers, const int32_t* outputs,
                       int64_t n) = 0;
  virtual void reopen() = 0;   // visit all blocks again
  virtual void refresh() = 0;  // removes the rounding errors that updates of w have added up
  virtual double dual() const = 0;
  virtual int64_t planes() const = 0;
};

}  // namespace mm
