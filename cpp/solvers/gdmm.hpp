// Greedy direction method of multipliers: a structural SVM as small multiclass problems that exchange messages.
//
// Yen et al. (2016), in the scaling of this library: mass_i = C v_i, and marginals q instead of the paper's
// alpha = mass e_truth - q. A variable j has a unigram factor with marginals q_j over its labels, a pair f = (a, b)
// of neighbours has a bigram factor with marginals q_f over pairs of labels; q >= 0, and each sums to its mass.
//
//   min_q  1/2 |w(q)|^2 - sum_j <delta_j, q_j>     subject to  M_jf q_f = q_j  for both ends j of every pair f   (10)
//   w(q) = sum_f (mass phi_f(truth) - sum_y q_f(y) phi_f(y))
//   L = (10) + rho/2 sum_jf |m_jf|^2,   m_jf = M_jf q_f - q_j + lambda_jf                        messages     (12)
//   lambda_jf += eta (M_jf q_f - q_j)                                                            multipliers  (13)
//
// The gradient of -L is a score of the labels of a factor,
//   unigram   s(y)    = <w_y, x_j> + delta_j(y) + rho sum_{f of j} m_jf(y)
//   bigram    s(y, z) = A[y, z] - rho m_af(y) - rho m_bf(z)
// A visit to a factor asks for the best label (15), puts it into the active set, and moves the marginals q inside the
// active set along a direction d, by the exact step, at most `inner` times:
//   frank-wolfe   d = mass e_best - q
//   away          the steeper of that and d = q - mass e_worst                                       (16), (17)
//   pairwise      d = e_best - e_worst, both at once
//   unigram   curvature sum_y (|x_j|_y^2 + [start] + [end] + rho pairs(j)) d_y^2,  |x|_y over the weights of y
//   bigram    curvature |d|^2 + rho |M_a d|^2 + rho |M_b d|^2
// With a prior (metric.hpp, Sigma diagonal) R* is in place of 1/2 |w|^2, squares of features and ones count with their
// scale, and w is clipped where it has a bound: R* curves no more than without, so a step gains what it claims.
// Messages are kept for active labels only: all others are exactly zero.
// The best pair is found in the paper's four cases, see `PairSearch`.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"
#include "models/large_chain.hpp"
#include "runtime/interrupt.hpp"
#include "solvers/factor_direction.hpp"
#include "solvers/pair_search.hpp"
#include "solvers/path_decomposition.hpp"
#include "solvers/priored_weights.hpp"

namespace mm {

struct ChainGdmmOptions {
  double rho = 1;
  int inner = 4;
  int partitions = 1;       // labels of a unigram factor are searched in one of this many parts
  bool exhaustive = false;  // look at every pair of labels
  Direction direction = Direction::pairwise;
};

struct ChainGdmmReport {
  int64_t searches = 0, updates = 0;
  double violation = 0;  // sum_f of mass (s(best) - mean s): the gap of the factors, each at its own visit
};

class ChainGdmm {
 public:
  using Structure = LargeChain<double, uint16_t>;
  Structure structure;
  PrioredWeights<Structure> prior;  // w is in it
  aligned<double>& W;

  // Variables are the positions of all sequences, pairs are neighbours; nothing below knows more of a chain.
  ChainGdmm(const ChainData& data, std::vector<double> block_mass)
      : structure(data),
        prior(structure),
        W(prior.W),
        data_(data),
        block_mass_(std::move(block_mass)),
        search_(data.labels) {
    structure.index().order_rows();
    const int64_t n = data.offsets.back();
    mass_.resize(n);
    unigrams_.resize(n);
    pairs_of_.resize(n, {-1, -1});
    for (int64_t i = 0; i < data.blocks(); ++i)
      for (int64_t r = data.offsets[i]; r < data.offsets[i + 1]; ++r) {
        mass_[r] = block_mass_[i];
        unigrams_[r] = {{data.truth[r], -1, mass_[r]}};
        if (r == data.offsets[i]) continue;
        pairs_of_[r - 1][1] = pairs_of_[r][0] = static_cast<int64_t>(pairs_.size());
        pairs_.push_back({{r - 1, r}, {{data.truth[r - 1], data.truth[r], mass_[r]}}, {}});
      }
    scores_.resize(structure.row_length());
    structure.watch(W.data());
  }
  ChainGdmm(const ChainGdmm&) = delete;

  int64_t active() const {
    int64_t n = 0;
    for (const auto& shares : unigrams_) n += static_cast<int64_t>(shares.size());
    for (const auto& pair : pairs_) n += static_cast<int64_t>(pair.shares.size());
    return n;
  }

  // Labellings with multipliers of all blocks: a feasible point near the marginals.
  SupportArrays support() const {
    SupportList<int32_t> found;
    PathDecomposition decomposition;
    for (int64_t i = 0; i < data_.blocks(); ++i) {
      const int64_t first = data_.offsets[i];
      if (block_mass_[i] <= 0) continue;
      decomposition.start(unigrams_[first], block_mass_[i]);
      for (int64_t r = first + 1; r < data_.offsets[i + 1]; ++r)
        decomposition.extend(pairs_[pairs_of_[r][0]].shares, unigrams_[r]);
      decomposition.finish();
      for (const auto& path : decomposition.paths())
        found.add(i, path.mass, path.labels.data(), static_cast<int>(path.labels.size()));
    }
    return found;
  }

  // One pass over the factors of the blocks of an order (Algorithm 1, step 1).
  ChainGdmmReport pass(const int64_t* order, int64_t n, const ChainGdmmOptions& options, uint64_t seed) {
    ChainGdmmReport report;
    random_ = seed | 1;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t first = data_.offsets[order[k]], last = data_.offsets[order[k] + 1];
      for (int64_t r = first; r < last; ++r) {
        poll();
        if (pairs_of_[r][0] >= 0) visit_pair(pairs_of_[r][0], options, report);
        visit_variable(r, options, report);
      }
    }
    return report;
  }

  // lambda_jf += eta (M_jf q_f - q_j), and what became zero is forgotten (step 2); returns sum |M q_f - q_j|.
  double update_multipliers(double eta) {
    double sum = 0;
    for (Pair& pair : pairs_)
      for (auto& messages : pair.messages) {
        for (Message& m : messages) {
          m.multiplier += eta * m.residual;
          sum += std::abs(m.residual);
        }
        std::erase_if(messages, [](const Message& m) {
          return std::abs(m.residual) < 1e-300 && std::abs(m.multiplier) < 1e-300;
        });
      }
    return sum;
  }

  // sum_jf <m_jf, M_jf q_f - q_j>: what the messages add to the gap of the factors, over rho.
  double disagreement() const {
    double sum = 0;
    for (const Pair& pair : pairs_)
      for (const auto& messages : pair.messages)
        for (const Message& m : messages) sum += std::abs(m.residual * (m.residual + m.multiplier));
    return sum;
  }

  // Takes the marginals of labellings with multipliers; w, messages and active sets are rebuilt.
  void restore(const int64_t* blocks, const double* multipliers, int64_t n, const int32_t* outputs) {
    for (auto& shares : unigrams_) shares.clear();
    for (Pair& pair : pairs_) pair.shares.clear(), pair.messages[0].clear(), pair.messages[1].clear();
    for (int64_t p = 0; p < n; ++p) {
      const int64_t first = data_.offsets[blocks[p]], last = data_.offsets[blocks[p] + 1];
      for (int64_t r = first; r < last; ++r, ++outputs) {
        put(unigrams_[r], *outputs, -1).mass += multipliers[p];
        if (r > first) put(pairs_[pairs_of_[r][0]].shares, outputs[-1], *outputs).mass += multipliers[p];
      }
    }
    for (size_t r = 0; r < unigrams_.size(); ++r)  // a block that is not mentioned is where its truth is
      if (unigrams_[r].empty()) unigrams_[r] = {{data_.truth[r], -1, mass_[r]}};
    for (Pair& pair : pairs_)
      if (pair.shares.empty())
        pair.shares = {{data_.truth[pair.ends[0]], data_.truth[pair.ends[1]], mass_[pair.ends[0]]}};
    rebuild();
  }

  // w of the marginals, which need not be consistent, in double precision.
  void rebuild() {
    std::vector<double> q(structure.weights(), 0);
    for (size_t r = 0; r < unigrams_.size(); ++r) {
      add_node(static_cast<int64_t>(r), data_.truth[r], mass_[r], q.data());
      for (const Share& s : unigrams_[r]) add_node(static_cast<int64_t>(r), s.first, -s.mass, q.data());
    }
    for (const Pair& pair : pairs_) {
      structure.add_edge(data_.truth[pair.ends[0]], data_.truth[pair.ends[1]], mass_[pair.ends[0]], q.data());
      for (const Share& s : pair.shares) structure.add_edge(s.first, s.second, -s.mass, q.data());
    }
    prior.follow(q);
    structure.watch(W.data());
  }
  int64_t dimension() const { return structure.dimension(); }
  void set_origin(const double* flat) { prior.take_origin(flat), rebuild(); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) {
    if (matrix) throw std::invalid_argument("the metric of a chain must be diagonal");
    prior.take_metric(diagonal, lower, nullptr), rebuild();
  }

  // The searches for pairs of a pass, and nothing else: the sum of the scores found.
  double seek(const int64_t* order, int64_t n, double rho, bool exhaustive) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k)
      for (int64_t r = data_.offsets[order[k]] + 1; r < data_.offsets[order[k] + 1]; ++r) {
        const Pair& pair = pairs_[pairs_of_[r][0]];
        sum += best_pair(pair.messages[0], pair.messages[1], rho, exhaustive).score;
      }
    return sum;
  }

  // max_{y, z} A[y, z] - rho m_a(y) - rho m_b(z) at these messages, by the four cases or by looking at all pairs.
  Scored best_pair(const Messages& left, const Messages& right, double rho, bool exhaustive) {
    const PairTable table{W.data() + structure.first_transition(), structure.row_length(),
                          &structure.index()};
    return exhaustive ? search_.every(table, left, right, rho) : search_.ordered(table, left, right, rho);
  }

 private:
  friend class ChainFrankWolfe;  // its steps are over all factors at once
  struct Pair {
    std::array<int64_t, 2> ends;
    std::vector<Share> shares;
    std::array<Messages, 2> messages;
  };
  const ChainData& data_;
  std::vector<double> block_mass_, mass_;  // mass_: of each position
  std::vector<std::vector<Share>> unigrams_;
  std::vector<std::array<int64_t, 2>> pairs_of_;  // the pairs in which a variable is the second, the first
  std::vector<Pair> pairs_;
  PairSearch search_;
  aligned<double> scores_;
  std::vector<double> active_scores_, direction_;
  uint64_t random_ = 1;
  Sparse move_;  // of one label, under a metric

  bool is_first(int64_t r) const { return pairs_of_[r][0] < 0; }
  bool is_last(int64_t r) const { return pairs_of_[r][1] < 0; }
  template <class Target>
  void add_node(int64_t r, int label, double c, Target to) const {
    structure.add_node(r, is_first(r), is_last(r), label, c, to);
  }
  // The features of a label, entry by entry.
  const Sparse& features_of(int64_t r, int label) {
    move_.resize(W.size());
    move_.clear();
    add_node(r, label, 1.0, Gather(move_));
    return move_;
  }
  // |x_j|^2 over the weights of a label, in the metric.
  double node_norm(int64_t r, int label) {
    if (!prior.metric.scaled()) return structure.node_norm(r, is_first(r), is_last(r), label);
    double sum = 0;
    for (const size_t j : features_of(r, label).touched)
      sum += prior.metric.scale(j) * move_.dense[j] * move_.dense[j];
    return sum;
  }
  // w by the law of q + c x_j in the weights of a label; of q + c in those of a transition.
  void move_node(int64_t r, int label, double c) {
    if (prior.metric.plain()) return add_node(r, label, c, W.data());
    for (const size_t j : features_of(r, label).touched) move_weight(j, c * move_.dense[j]);
  }
  void move_edge(int previous, int next, double c) {
    if (prior.metric.plain()) return structure.add_edge(previous, next, c, W.data());
    move_weight(structure.edge_place(previous, next), c);
  }
  void move_weight(size_t j, double c) {
    if (prior.metric.bounded()) {
      prior.unclipped[j] += prior.metric.scale(j) * c;
      W[j] = prior.metric.clipped(j, prior.unclipped[j]);
    } else {
      W[j] += prior.metric.scale(j) * c;
    }
    structure.changed(W.data(), j);
  }

  static Share& put(std::vector<Share>& shares, int32_t first, int32_t second) {
    for (Share& s : shares)
      if (s.first == first && s.second == second) return s;
    shares.push_back({first, second, 0});
    return shares.back();
  }
  uint64_t draw() {  // xorshift
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return random_;
  }

  void visit_variable(int64_t r, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    if (mass_[r] <= 0) return;
    auto& shares = unigrams_[r];
    const int degree = (pairs_of_[r][0] >= 0) + (pairs_of_[r][1] >= 0);
    score_variable(r, options.rho);
    put(shares, best_label(options.partitions), -1);
    ++report.searches;
    const auto norm = [&](const Share& s) { return node_norm(r, s.first) + options.rho * degree; };
    const auto score = [&](const Share& s) { return scores_[s.first]; };
    const auto renew = [&] {  // scores follow the moves, but for what is clipped
      if (prior.metric.bounded()) score_variable(r, options.rho);
    };
    const auto bend = [&] {
      double sum = 0;
      for (size_t n = 0; n < shares.size(); ++n)
        if (direction_[n] != 0) sum += norm(shares[n]) * direction_[n] * direction_[n];
      return sum;
    };
    const auto moved = [&](const Share& s, double more) {
      move_node(r, s.first, -more);
      scores_[s.first] -= norm(s) * more;
      for (int side = 0; side < 2; ++side)
        if (const int64_t f = pairs_of_[r][side]; f >= 0)
          message(pairs_[f].messages[1 - side], s.first).residual -= more;
    };
    improve(shares, mass_[r], score, bend, moved, renew, options, report);
  }
  // Loss, score and messages of every label of a position, into scores_.
  void score_variable(int64_t r, double rho) {
    structure.unary_scores(r, is_first(r), is_last(r), W.data(), scores_.data());
    for (int side = 0; side < 2; ++side) {
      const int64_t f = pairs_of_[r][side];
      if (f < 0) continue;
      for (const Message& m : pairs_[f].messages[1 - side])  // r is the second end of the pair before it
        scores_[m.label] += rho * (m.residual + m.multiplier);
    }
  }

  int32_t best_label(int partitions) {
    const int64_t K = data_.labels, parts = std::min<int64_t>(K, partitions);
    const int64_t part = parts == 1 ? 0 : static_cast<int64_t>(draw() % static_cast<uint64_t>(parts));
    const int64_t first = K * part / parts, last = K * (part + 1) / parts;
    return static_cast<int32_t>(std::max_element(scores_.begin() + first, scores_.begin() + last) -
                                scores_.begin());
  }

  double pair_score(const Pair& pair, int y, int z, double rho) const {
    return structure.edge_weight(W.data(), y, z) - rho * value_of(pair.messages[0], y) -
           rho * value_of(pair.messages[1], z);
  }
  void visit_pair(int64_t f, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    Pair& pair = pairs_[f];
    const double mass = mass_[pair.ends[0]], rho = options.rho;
    if (mass <= 0) return;
    const Scored best = best_pair(pair.messages[0], pair.messages[1], rho, options.exhaustive);
    put(pair.shares, best.first, best.second);
    ++report.searches;
    const auto score = [&](const Share& s) { return pair_score(pair, s.first, s.second, rho); };
    const auto bend = [&] {
      return squares(pair.shares) + rho * (marginal_squares(pair.shares, direction_, &Share::first) +
                                           marginal_squares(pair.shares, direction_, &Share::second));
    };
    const auto moved = [&](const Share& s, double more) {
      move_edge(s.first, s.second, -more);
      message(pair.messages[0], s.first).residual += more;
      message(pair.messages[1], s.second).residual += more;
    };
    improve(pair.shares, mass, score, bend, moved, [] {}, options, report);
  }

  // Moves the marginals of an active set, each time by the exact step.
  template <class Score, class Bend, class Moved, class Renew>
  void improve(std::vector<Share>& shares, double mass, Score&& score, Bend&& bend, Moved&& moved,
               Renew&& renew, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    for (int turn = 0; turn < options.inner; ++turn) {
      if (turn > 0) renew();
      active_scores_.clear();
      for (const Share& s : shares) active_scores_.push_back(score(s));
      const double gap = choose(options.direction, shares, active_scores_, mass, direction_);
      if (turn == 0) report.violation += gap;
      double slope = 0, longest = HUGE_VAL;  // until the first share is used up
      for (size_t n = 0; n < shares.size(); ++n) {
        slope += direction_[n] * active_scores_[n];
        if (direction_[n] < 0) longest = std::min(longest, shares[n].mass / -direction_[n]);
      }
      if (slope <= 1e-14 * mass || !(longest > 0)) break;
      const double free = slope / bend(), step = std::min(longest, free);
      for (size_t n = 0; n < shares.size(); ++n) {
        if (direction_[n] == 0) continue;
        const double more = step * direction_[n];
        moved(shares[n], more);
        const bool used = step == longest && direction_[n] < 0 && shares[n].mass / -direction_[n] <= longest;
        shares[n].mass = used ? 0 : shares[n].mass + more;
      }
      ++report.updates;
    }
    std::erase_if(shares, [](const Share& s) { return s.mass <= 0; });
  }

  // |d|^2 in the metric of the transitions
  double squares(const std::vector<Share>& shares) const {
    double sum = 0;
    for (size_t n = 0; n < shares.size(); ++n)
      sum += direction_[n] * direction_[n] *
             prior.metric.scale(structure.edge_place(shares[n].first, shares[n].second));
    return sum;
  }
};

}  // namespace mm
