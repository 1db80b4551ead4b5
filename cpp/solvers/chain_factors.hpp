// The factors of chains: active labels of each position and active pairs of neighbouring labels, with their marginals
// and the messages between them.
//
// An active label has its mass in q_j. For the pair on either side of the position it has the residual (M_jf q_f)(y) -
// q_j(y) and the multiplier lambda_jf(y). A pair stores the places of its two labels, so that it is scored without a
// search. Labels and pairs that have lost all mass rest. Only the multipliers of a resting label are kept, as a price;
// all other messages are zero. A label is live if it has mass or was found since `rest`. The mass of a position moves
// among its live labels only.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "models/chain_base.hpp"
#include "solvers/path_decomposition.hpp"

namespace mm {

using BothSides = std::array<double, 2>;  // for the pair before a position, for the pair after it

struct ActiveLabel {
  int32_t label;
  bool live = true, fresh = false;  // fresh: found since `rest`
  double mass = 0;
  BothSides residual{}, multiplier{};
  double message(int side) const { return residual[side] + multiplier[side]; }
  void find() { fresh |= !live, live = true; }
};

struct Price {  // the multipliers of a label that rests
  int32_t label;
  BothSides multiplier;
};

struct ActivePair {
  int32_t first, second;  // labels
  int32_t left, right;    // places of these among the active labels of their positions
  double mass = 0;
};

class ChainFactors {
 public:
  std::vector<std::vector<ActiveLabel>> labels;  // of each position
  std::vector<std::vector<Price>> prices;        // of each position
  std::vector<std::vector<ActivePair>> pairs;    // of each position with the one before it, if any

  ChainFactors(const ChainData& data, std::vector<double> block_mass)
      : data_(data), block_mass_(std::move(block_mass)) {
    const size_t n = static_cast<size_t>(data.offsets.back());
    mass_.resize(n), first_.resize(n), last_.resize(n), labels.resize(n), prices.resize(n), pairs.resize(n);
    for (int64_t i = 0; i < data.blocks(); ++i)
      for (int64_t r = data.offsets[i]; r < data.offsets[i + 1]; ++r) {
        mass_[r] = block_mass_[i];
        first_[r] = r == data.offsets[i];
        last_[r] = r + 1 == data.offsets[i + 1];
        labels[r].reserve(usual), pairs[r].reserve(first_[r] ? 0 : usual);
        put_truth(r);
      }
  }

  double mass(int64_t r) const { return mass_[r]; }
  bool first(int64_t r) const { return first_[r]; }
  bool last(int64_t r) const { return last_[r]; }
  int neighbours(int64_t r) const { return !first_[r] + !last_[r]; }

  ActiveLabel& label(int64_t r, int32_t y) { return labels[r][place(r, y)]; }
  int32_t place(int64_t r, int32_t y) {
    for (size_t n = 0; n < labels[r].size(); ++n)
      if (labels[r][n].label == y) return static_cast<int32_t>(n);
    labels[r].push_back({y, false, false, 0, {}, take_price(r, y)});
    return static_cast<int32_t>(labels[r].size() - 1);
  }
  ActivePair& pair(int64_t r, int32_t y, int32_t z) {
    for (ActivePair& p : pairs[r])
      if (p.first == y && p.second == z) return p;
    const int32_t left = place(r - 1, y), right = place(r, z);
    pairs[r].push_back({y, z, left, right});
    return pairs[r].back();
  }

  // The number of labels and pairs with mass.
  int64_t active() const {
    int64_t n = 0;
    for (const auto& own : labels)
      for (const ActiveLabel& y : own) n += has_mass(y);
    for (const auto& own : pairs)
      for (const ActivePair& p : own) n += has_mass(p);
    return n;
  }

  // Lets all labels and pairs without mass rest, for one sequence. Sums the residuals again.
  void rest(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::erase_if(pairs[r], [](const ActivePair& p) { return !has_mass(p); });
      for (ActiveLabel& y : labels[r]) {
        y.live = has_mass(y), y.fresh = false;
        y.residual = {first_[r] ? 0 : -y.mass, last_[r] ? 0 : -y.mass};
      }
    }
    for (int64_t r = begin + 1; r < end; ++r)
      for (const ActivePair& p : pairs[r]) {
        labels[r - 1][p.left].residual[1] += p.mass;
        labels[r][p.right].residual[0] += p.mass;
      }
    for (int64_t r = begin; r < end; ++r)
      if (std::any_of(labels[r].begin(), labels[r].end(), idle)) set_aside(r);
  }

  // Activates the pairs of live labels of a sequence in which at least one label is fresh.
  void join(int64_t begin, int64_t end) {
    for (int64_t r = begin + 1; r < end; ++r)
      for (const ActiveLabel& y : labels[r - 1])
        for (const ActiveLabel& z : labels[r])
          if (y.live && z.live && (y.fresh || z.fresh)) pair(r, y.label, z.label);
  }

  // lambda_jf += eta (M_jf q_f - q_j). Returns the sum of |m_jf(y) (M_jf q_f - q_j)(y)| before this update.
  double update_multipliers(int64_t begin, int64_t end, double eta) {
    double sum = 0;
    for (int64_t r = begin; r < end; ++r)
      for (ActiveLabel& y : labels[r])
        for (int side = 0; side < 2; ++side) {
          sum += std::abs(y.residual[side] * y.message(side));
          y.multiplier[side] += eta * y.residual[side];
        }
    return sum;
  }

  // Labellings with multipliers for all blocks: a feasible point near the marginals.
  SupportArrays support() const {
    SupportList<int32_t> found;
    PathDecomposition decomposition;
    for (int64_t i = 0; i < data_.blocks(); ++i) {
      const int64_t first = data_.offsets[i];
      if (block_mass_[i] <= 0) continue;
      decomposition.start(shares_of(labels[first]), block_mass_[i]);
      for (int64_t r = first + 1; r < data_.offsets[i + 1]; ++r)
        decomposition.extend(shares_of(pairs[r]), shares_of(labels[r]));
      decomposition.finish();
      for (const auto& path : decomposition.paths())
        found.add(i, path.mass, path.labels.data(), static_cast<int>(path.labels.size()));
    }
    return found;
  }

  // Sets the marginals from labellings with multipliers. A block without labellings gets its true labels.
  void restore(const int64_t* blocks, const double* multipliers, int64_t n, const int32_t* outputs) {
    for (auto& own : labels) own.clear();
    for (auto& own : prices) own.clear();
    for (auto& own : pairs) own.clear();
    for (int64_t p = 0; p < n; ++p)
      for (int64_t r = data_.offsets[blocks[p]]; r < data_.offsets[blocks[p] + 1]; ++r, ++outputs) {
        label(r, *outputs).mass += multipliers[p];
        if (!first_[r]) pair(r, outputs[-1], *outputs).mass += multipliers[p];
      }
    for (size_t r = 0; r < labels.size(); ++r)
      if (labels[r].empty()) put_truth(static_cast<int64_t>(r));
    for (int64_t i = 0; i < data_.blocks(); ++i) rest(data_.offsets[i], data_.offsets[i + 1]);
  }

 private:
  static constexpr size_t usual = 4;  // active labels or pairs of a position, for which memory is reserved
  const ChainData& data_;
  std::vector<double> block_mass_, mass_;  // for each block; for each position
  std::vector<uint8_t> first_, last_;      // of its sequence
  std::vector<int32_t> moved_;             // new places of the labels of a position; -1: rests

  template <class Item>
  static bool has_mass(const Item& item) {
    return item.mass > 0;
  }
  void put_truth(int64_t r) {
    labels[r].push_back({data_.truth[r], true, false, mass_[r], {}, {}});
    if (!first_[r]) pairs[r].push_back({data_.truth[r - 1], data_.truth[r], 0, 0, mass_[r]});
  }

  // Whether a label has no mass and no pair with mass. After `rest` its residuals are sums of masses, so both are zero
  // then.
  static bool idle(const ActiveLabel& y) { return !y.live && y.residual[0] == 0 && y.residual[1] == 0; }
  void set_aside(int64_t r) {
    moved_.clear();
    int32_t next = 0;
    for (const ActiveLabel& y : labels[r]) {
      moved_.push_back(idle(y) ? -1 : next++);
      if (idle(y) && y.multiplier != BothSides{}) prices[r].push_back({y.label, y.multiplier});
    }
    std::erase_if(labels[r], idle);
    for (ActivePair& p : pairs[r]) p.right = moved_[p.right];
    if (!last_[r])
      for (ActivePair& p : pairs[r + 1]) p.left = moved_[p.left];
  }
  // Returns the multipliers of a label that no longer rests, and removes its price.
  BothSides take_price(int64_t r, int32_t label) {
    for (Price& price : prices[r])
      if (price.label == label) {
        const BothSides found = price.multiplier;
        price = prices[r].back();
        prices[r].pop_back();
        return found;
      }
    return {};
  }

  static std::vector<Share> shares_of(const std::vector<ActiveLabel>& own) {
    std::vector<Share> shares;
    for (const ActiveLabel& y : own)
      if (y.mass > 0) shares.push_back({y.label, -1, y.mass});
    return shares;
  }
  static std::vector<Share> shares_of(const std::vector<ActivePair>& own) {
    std::vector<Share> shares;
    for (const ActivePair& p : own)
      if (p.mass > 0) shares.push_back({p.first, p.second, p.mass});
    return shares;
  }
};

}  // namespace mm
