// The interface of every state that keeps outputs. It does not depend on the kind of passes, so Python binds it once.
// Weights are flat.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "solvers/dual_state.hpp"

namespace mm {

class KeptState {
 public:
  KeptState() = default;
  KeptState(const KeptState&) = delete;
  virtual ~KeptState() = default;
  virtual int64_t dimension() const = 0;
  virtual int64_t blocks() const = 0;
  // Set the prior: its mean; diag(Sigma) or Sigma itself; lower bounds. A part that is not given is null.
  virtual void set_origin(const double* flat) = 0;
  virtual void set_metric(const double* diagonal, const double* lower, const double* matrix) = 0;
  virtual SupportArrays support() const = 0;
  virtual void restore(const int64_t* blocks, const double* multipliers, int64_t n, LabelView outputs) = 0;
  virtual void refresh() = 0;  // removes the rounding errors that updates of w have added up
  virtual double dual() = 0;
  virtual int64_t planes() const = 0;
  virtual int64_t bytes_kept() const = 0;  // of all outputs, as the allocator counts them
  // Forgets outputs without a multiplier until at most `most` bytes are kept or no such output is left.
  virtual void prune(int64_t most) = 0;
};

template <Structure S, class Kind>
class KeptStateOf : public Kind {
 public:
  DualState<S> state;

  KeptStateOf(std::unique_ptr<S> structure, std::vector<double> mass, bool lean = false)
      : state(std::move(structure), std::move(mass), lean) {}

  int64_t dimension() const override { return state.structure.dimension(); }
  int64_t blocks() const override { return static_cast<int64_t>(state.blocks.size()); }
  void set_origin(const double* flat) override { state.take_origin(flat); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) override {
    state.take_metric(diagonal, lower, matrix);
  }
};

}  // namespace mm
