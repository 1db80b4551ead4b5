// The log that a worker writes for the others: its moves of w, in the order in which it made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "features.hpp"

namespace mm {

// A move is w += c (Psi(y_1) - Psi(y_2)), or w += c sum_j c_j Psi(y_j). All moves are in one stretch of bytes, so that
// few cache lines go from one core to another. If the structure can list the changes that a difference makes, the log
// has this list, so that the two outputs are not compared again.
template <class Label>
class MoveLog {
 public:
  void clear() { bytes_.clear(); }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

  // Adds the move that was built last.
  template <class Structure>
  void add_pair(const Structure& structure, const typename Structure::Scratch& s, int64_t block,
                const Label* plus, const Label* minus, double c) {
    if constexpr (lists_moves<Structure>) {
      structure.list_move(s, list_);
      const size_t bytes = sizeof(int32_t) * list_.size();
      std::memcpy(grow({block, c, 0, round_up(bytes)}), list_.data(), bytes);
    } else {
      const size_t bytes = sizeof(Label) * structure.output_size(block);
      std::byte* at = grow({block, c, 0, round_up(2 * bytes)});
      std::memcpy(at, plus, bytes);
      std::memcpy(at + bytes, minus, bytes);
    }
  }
  void add_mixture(int64_t block, const Label* outputs, int length, const std::vector<double>& coefficients,
                   double c) {
    const size_t n = coefficients.size(), head = sizeof(double) * n, tail = sizeof(Label) * n * length;
    std::byte* at = grow({block, c, static_cast<uint32_t>(n), round_up(head + tail)});
    std::memcpy(at, coefficients.data(), head);
    std::memcpy(at + head, outputs, tail);
  }

  template <class Structure>
  static void replay(const std::byte* bytes, size_t size, const Structure& structure,
                     typename Structure::Scratch& s, typename Structure::Real* W) {
    if constexpr (lists_moves<Structure>) prefetch(bytes, size, structure, W);
    each_move(bytes, size, [&](const Made& move, const std::byte* at) {
      if (move.mixed) {
        const auto* c = reinterpret_cast<const double*>(at);
        structure.build_mixture(s, move.block, reinterpret_cast<const Label*>(c + move.mixed), c,
                                static_cast<int>(move.mixed));
      } else if constexpr (lists_moves<Structure>) {
        return structure.apply_list(move.block, reinterpret_cast<const int32_t*>(at), W, move.c);
      } else {
        const auto* y = reinterpret_cast<const Label*>(at);
        structure.build_pair(s, move.block, y, y + structure.output_size(move.block));
      }
      structure.apply(s, W, move.c);
    });
  }

 private:
  struct Made {
    int64_t block;
    double c;
    uint32_t mixed;  // number of outputs of a mixture; 0: a pair
    uint32_t bytes;  // number of bytes that follow
  };
  std::vector<std::byte> bytes_;
  std::vector<int32_t> list_;

  template <class Structure>
  static constexpr bool lists_moves =
      requires(const Structure& structure, const typename Structure::Scratch& s, std::vector<int32_t>& list) {
        structure.list_move(s, list);
      };

  // Prefetches the memory that replaying will read. Each stage needs the data that the stage before has fetched.
  template <class Structure>
  static void prefetch(const std::byte* bytes, size_t size, const Structure& structure,
                       const typename Structure::Real* W) {
    for (const Stage stage : {Stage::views, Stage::rows, Stage::weights})
      each_move(bytes, size, [&](const Made& move, const std::byte* at) {
        if (!move.mixed) structure.prefetch_list(move.block, reinterpret_cast<const int32_t*>(at), W, stage);
      });
  }
  static uint32_t round_up(size_t bytes) {
    constexpr size_t unit = alignof(Made);
    return static_cast<uint32_t>((bytes + unit - 1) / unit * unit);
  }
  std::byte* grow(const Made& move) {
    const size_t before = bytes_.size();
    bytes_.resize(before + sizeof(Made) + move.bytes);
    std::memcpy(bytes_.data() + before, &move, sizeof(Made));
    return bytes_.data() + before + sizeof(Made);
  }
  template <class F>
  static void each_move(const std::byte* bytes, size_t size, F&& f) {
    for (const std::byte* end = bytes + size; bytes < end;) {
      const Made& move = *reinterpret_cast<const Made*>(bytes);
      f(move, bytes + sizeof(Made));
      bytes += sizeof(Made) + move.bytes;
    }
  }
};

}  // namespace mm
