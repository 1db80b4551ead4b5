// What a thread writes down for the others: moves of w in the order in which they were made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "features.hpp"

namespace mm {

// w += c (Psi(y_1) - Psi(y_2)), or c sum_j c_j Psi(y_j). All of them are one stretch of bytes, which goes from one core to
// another in few lines of the cache.
template <class Label>
class MoveLog {
 public:
  void clear() { bytes_.clear(); }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

  void add_pair(int64_t block, const Label* plus, const Label* minus, int length, double c) {
    std::byte* at = grow({block, c, 0}, 0, 2 * static_cast<size_t>(length));
    std::memcpy(at, plus, sizeof(Label) * length);
    std::memcpy(at + sizeof(Label) * length, minus, sizeof(Label) * length);
  }
  void add_mixture(int64_t block, const Label* outputs, int length, const std::vector<double>& coefficients,
                   double c) {
    const size_t n = coefficients.size();
    std::byte* at = grow({block, c, static_cast<int>(n)}, n, n * length);
    std::memcpy(at, coefficients.data(), sizeof(double) * n);
    std::memcpy(at + sizeof(double) * n, outputs, sizeof(Label) * n * length);
  }

  template <class Structure>
  static void replay(const std::byte* bytes, size_t size, const Structure& structure,
                     typename Structure::Scratch& s, typename Structure::Real* W) {
    each_move(bytes, size, structure, [&](const Made& move, const std::byte* at) {
      const auto* c = reinterpret_cast<const double*>(at);
      const auto* y = reinterpret_cast<const Label*>(c + move.mixed);
      if (move.mixed)
        structure.build_mixture(s, move.block, y, c, move.mixed);
      else
        structure.build_pair(s, move.block, y, y + structure.output_size(move.block));
      structure.apply(s, W, move.c);
    });
  }
  // Asks for the memory that replaying will read: each stage for what the one before has pointed to.
  template <class Structure>
  static void prefetch(const std::byte* bytes, size_t size, const Structure& structure,
                       const typename Structure::Real* W) {
    for (const Stage stage : {Stage::views, Stage::rows, Stage::weights})
      each_move(bytes, size, structure, [&](const Made& move, const std::byte* at) {
        if (move.mixed) return;
        const auto* y = reinterpret_cast<const Label*>(at);
        structure.prefetch_move(move.block, y, y + structure.output_size(move.block), W, stage);
      });
  }

 private:
  struct Made {
    int64_t block;
    double c;
    int64_t mixed;  // outputs of a mixture; 0: a pair
  };
  std::vector<std::byte> bytes_;

  static size_t padded(size_t coefficients, size_t labels) {
    constexpr size_t unit = alignof(Made);
    return sizeof(double) * coefficients + (sizeof(Label) * labels + unit - 1) / unit * unit;
  }
  std::byte* grow(const Made& move, size_t coefficients, size_t labels) {
    const size_t before = bytes_.size();
    bytes_.resize(before + sizeof(Made) + padded(coefficients, labels));
    std::memcpy(bytes_.data() + before, &move, sizeof(Made));
    return bytes_.data() + before + sizeof(Made);
  }
  template <class Structure, class F>
  static void each_move(const std::byte* bytes, size_t size, const Structure& structure, F&& f) {
    for (const std::byte* end = bytes + size; bytes < end;) {
      const Made& move = *reinterpret_cast<const Made*>(bytes);
      const size_t outputs = move.mixed ? static_cast<size_t>(move.mixed) : 2;
      bytes += sizeof(Made);
      f(move, bytes);
      bytes += padded(static_cast<size_t>(move.mixed), outputs * structure.output_size(move.block));
    }
  }
};

}  // namespace mm
