// What a compiled model answers in double precision: predictions, slacks, and sums of planes.
// Certificates are made of these, and of nothing that a solver keeps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "models/concept.hpp"
#include "models/sums.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"

namespace mm {

// Weights are flat, outputs stand one after the other, a label in four bytes.
class Exact {
 public:
  virtual ~Exact() = default;
  virtual int64_t dimension() const = 0;
  virtual int64_t blocks() const = 0;
  virtual int64_t labels() const = 0;  // of one output of every block
  virtual bool exact() const = 0;      // the argmax never misses the best output

  // xi_i = max_y s_i(y) for every block; the maximising outputs too, unless `outputs` is null, and where the
  // argmax is a search the ceilings that it proved, unless `ceilings` is null.
  virtual void slacks(const double* flat, int threads, double* xi, int32_t* outputs,
                      double* ceilings) const = 0;
  // sum_y max(0, s_i(y)) of every block, from below and from above.
  virtual void sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
                    double* ceilings) const = 0;
  virtual void predict(const double* flat, int threads, int32_t* outputs) const = 0;
  // sum_p c_p psi(y_p) into `flat`, and sum_p c_p Delta(y_p) as the result.
  virtual double combine(const int64_t* blocks, const double* c, int64_t n, const int32_t* outputs,
                         int threads, double* flat) const = 0;
  // Some weights of the vectors psi(y_p), a row for each plane.
  virtual void select(const int64_t* blocks, int64_t n, const int32_t* outputs, const int64_t* columns,
                      int64_t width, double* rows) const = 0;
  // Whether these are outputs of these blocks, all of them and nothing else.
  virtual bool knows(const int64_t* blocks, int64_t n, const int32_t* outputs, int64_t size) const = 0;
};

template <Structure S>
class ExactOf final : public Exact {
 public:
  using Label = typename S::Label;
  explicit ExactOf(const typename S::Data& data) : structure_(data), first_(1, 0) {
    for (int64_t i = 0; i < structure_.blocks(); ++i)
      first_.push_back(first_.back() + structure_.output_size(i));
  }
  int64_t dimension() const override { return structure_.dimension(); }
  int64_t blocks() const override { return structure_.blocks(); }
  int64_t labels() const override { return first_.back(); }
  bool exact() const override {
    if constexpr (requires { structure_.exact(); }) return structure_.exact();
    return true;
  }

  void slacks(const double* flat, int threads, double* xi, Label* outputs, double* ceilings) const override {
    const auto W = packed(flat);
    const auto& structure = seeing(W.data());
    parallel(structure.blocks(), threads, [&](int64_t from, int64_t to, int) {
      auto s = structure.scratch();
      if constexpr (requires { s.prove; }) s.prove |= ceilings != nullptr;
      std::vector<Label> y, truth;
      for (int64_t i = from; i < to; ++i) {
        poll();
        y.resize(structure.output_size(i));
        truth.resize(y.size());
        structure.truth(i, truth.data());
        structure.open(i, W.data(), s, true, 1);
        const double top = structure.best(s, W.data(), y.data());
        const double own = structure.score(s, truth.data());
        xi[i] = top - own;
        if constexpr (requires { s.ceiling; })
          if (ceilings) ceilings[i] = s.ceiling - own;
        if (outputs) std::copy(y.begin(), y.end(), outputs + first_[i]);
      }
    });
  }

  void sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
            double* ceilings) const override {
    const auto W = packed(flat);
    Sums<S>::all(structure_, W.data(), threads, most, work, floors, ceilings);
  }

  void predict(const double* flat, int threads, Label* outputs) const override {
    const auto W = packed(flat);
    const auto& structure = seeing(W.data());
    parallel(structure.blocks(), threads, [&](int64_t from, int64_t to, int) {
      auto s = structure.scratch();
      for (int64_t i = from; i < to; ++i) {
        poll();
        structure.open(i, W.data(), s, false, 1);
        structure.best(s, W.data(), outputs + first_[i]);
      }
    });
  }

  // Each thread has a sum of its own: for few threads, and weights that are fewer than the labels.
  double combine(const int64_t* blocks, const double* c, int64_t n, const Label* outputs, int threads,
                 double* flat) const override {
    std::vector<int64_t> first(1, 0);
    for (int64_t p = 0; p < n; ++p) first.push_back(first.back() + structure_.output_size(blocks[p]));
    if (static_cast<int64_t>(structure_.weights()) > first.back()) threads = 1;
    threads = static_cast<int>(std::clamp<int64_t>(threads, 1, most_threads));
    std::vector<aligned<double>> sums(threads);
    std::vector<double> offsets(threads, 0);
    parallel(n, threads, [&](int64_t from, int64_t to, int k) {
      sums[k].assign(structure_.weights(), 0);
      auto s = structure_.scratch();
      std::vector<Label> truth;
      for (int64_t p = from; p < to; ++p) {
        poll();
        const int64_t i = blocks[p];
        const Label* y = outputs + first[p];
        truth.resize(structure_.output_size(i));
        structure_.truth(i, truth.data());
        structure_.build_pair(s, i, y, truth.data());
        if (!structure_.same(i, y, truth.data())) structure_.apply(s, sums[k].data(), c[p]);
        offsets[k] += c[p] * structure_.loss(i, y);
      }
    });
    for (int k = 1; k < threads; ++k) {
      offsets[0] += offsets[k];
      for (size_t j = 0; j < sums[k].size(); ++j) sums[0][j] += sums[k][j];
    }
    sums[0].resize(structure_.weights());
    structure_.unpack(sums[0].data(), flat);
    return offsets[0];
  }

  void select(const int64_t* blocks, int64_t n, const Label* outputs, const int64_t* columns, int64_t width,
              double* rows) const override {
    std::vector<double> numbers(structure_.dimension(), -1), places(structure_.weights(), -1);
    for (int64_t k = 0; k < width; ++k) numbers[columns[k]] = static_cast<double>(k);
    structure_.pack(numbers.data(), places.data());
    auto s = structure_.scratch();
    Sparse move;
    move.resize(structure_.weights());
    std::vector<Label> truth;
    for (int64_t p = 0; p < n; outputs += structure_.output_size(blocks[p]), ++p) {
      truth.resize(structure_.output_size(blocks[p]));
      structure_.truth(blocks[p], truth.data());
      structure_.build_pair(s, blocks[p], outputs, truth.data());
      move.clear();
      structure_.apply(s, Gather(move), 1.0);
      for (size_t j : move.touched)
        if (places[j] >= 0) rows[p * width + static_cast<int64_t>(places[j])] = move.dense[j];
    }
  }

  bool knows(const int64_t* blocks, int64_t n, const Label* outputs, int64_t size) const override {
    const Label* end = outputs + size;
    for (int64_t p = 0; p < n; ++p) {
      const int64_t i = blocks[p];
      if (i < 0 || i >= structure_.blocks() || end - outputs < structure_.output_size(i)) return false;
      if (!structure_.valid(i, outputs)) return false;
      outputs += structure_.output_size(i);
    }
    return outputs == end;
  }

 private:
  S structure_;
  std::vector<int64_t> first_;

  // The structure ready for an argmax at W: some need an index of the weights.
  decltype(auto) seeing(const double* W) const {
    if constexpr (requires { structure_.indexed(W); })
      return structure_.indexed(W);
    else
      return (structure_);
  }

  aligned<double> packed(const double* flat) const {
    aligned<double> W(structure_.weights());
    structure_.pack(flat, W.data());
    return W;
  }
};

}  // namespace mm
