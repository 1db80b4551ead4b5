// The last outputs of each block, most recently used first, and the best of them at a w.
//
//   xi_i >= max_{u kept} s_i(u): a cheap pass over kept outputs, tried before the oracle is asked.
//
// The true output is always among them. Double precision: what is found here becomes a cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/concept.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"

namespace mm {

// Weights are flat; an output of every block, one after the other.
class OutputCache {
 public:
  virtual ~OutputCache() = default;
  virtual int64_t dimension() const = 0;
  virtual int64_t blocks() const = 0;
  virtual int64_t labels() const = 0;
  // The oldest output of a full block gives way.
  virtual void add(const int32_t* outputs) = 0;
  // The best kept output of each block at w, which becomes the most recently used.
  virtual void best(const double* flat, int threads, double* xi, int32_t* outputs) = 0;
};

template <Structure S>
class OutputCacheOf final : public OutputCache {
 public:
  using Label = typename S::Label;
  OutputCacheOf(const typename S::Data& data, int capacity)
      : structure_(data), capacity_(capacity), kept_(structure_.blocks()) {
    std::vector<Label> y;
    for (int64_t i = 0; i < structure_.blocks(); ++i) {
      y.resize(structure_.output_size(i));
      structure_.truth(i, y.data());
      kept_[i] = y;
      labels_ += static_cast<int64_t>(y.size());
    }
  }
  int64_t dimension() const override { return structure_.dimension(); }
  int64_t blocks() const override { return structure_.blocks(); }
  int64_t labels() const override { return labels_; }

  void add(const Label* outputs) override {
    for (int64_t i = 0; i < structure_.blocks(); ++i) {
      const int size = structure_.output_size(i);
      touch(i, outputs);
      outputs += size;
    }
  }

  void best(const double* flat, int threads, double* xi, Label* outputs) override {
    aligned<double> W(structure_.weights());
    structure_.pack(flat, W.data());
    std::vector<int64_t> first(1, 0);
    for (int64_t i = 0; i < structure_.blocks(); ++i)
      first.push_back(first.back() + structure_.output_size(i));
    parallel(structure_.blocks(), threads, [&](int64_t from, int64_t to, int) {
      auto s = structure_.scratch();
      std::vector<Label> y;
      for (int64_t i = from; i < to; ++i) {
        poll();
        const int size = structure_.output_size(i), n = count(i);
        structure_.open_where_different(i, W.data(), s, kept_[i].data(), n);
        const double truth = structure_.score(s, kept_[i].data());
        double top = truth;
        int u = 0;
        for (int j = 1; j < n; ++j) {
          const double value = structure_.score(s, kept_[i].data() + static_cast<size_t>(j) * size);
          if (value > top) top = value, u = j;
        }
        xi[i] = top - truth;
        y.assign(kept_[i].begin() + static_cast<size_t>(u) * size,
                 kept_[i].begin() + static_cast<size_t>(u + 1) * size);
        std::copy(y.begin(), y.end(), outputs + first[i]);
        touch(i, y.data());
      }
    });
  }

 private:
  S structure_;
  int capacity_;
  int64_t labels_ = 0;
  std::vector<std::vector<Label>> kept_;  // the true output, then up to `capacity` others, latest first

  int count(int64_t i) const {
    return static_cast<int>(kept_[i].size() / static_cast<size_t>(structure_.output_size(i)));
  }
  void touch(int64_t i, const Label* y) {
    const size_t size = structure_.output_size(i);
    auto& kept = kept_[i];
    int j = 0;
    while (j < count(i) && !structure_.same(i, kept.data() + j * size, y)) ++j;
    if (j == 0) return;  // the true output stays where it is
    if (j == count(i)) {
      if (j <= capacity_)
        kept.insert(kept.end(), y, y + size);
      else
        std::copy(y, y + size, kept.begin() + --j * size);
    }
    std::rotate(kept.begin() + size, kept.begin() + j * size, kept.begin() + (j + 1) * size);
  }
};

}  // namespace mm
