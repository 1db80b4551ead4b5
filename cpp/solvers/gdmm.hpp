// Greedy direction method of multipliers (GDMM): a structural SVM as small multiclass problems that exchange messages.
//
// Yen et al. (2016), in the scaling of this library: mass_i = C v_i, and marginals q instead of the paper's
// alpha = mass e_truth - q. A variable j has a unigram factor with marginals q_j over its labels. A pair f = (a, b) of
// neighbours has a bigram factor with marginals q_f over pairs of labels. All q are >= 0, and each sums to its mass.
//
//   min_q  1/2 |w(q)|^2 - sum_j <delta_j, q_j>     subject to  M_jf q_f = q_j  for both ends j of every pair f   (10)
//   w(q) = sum_f (mass phi_f(truth) - sum_y q_f(y) phi_f(y))
//   L = (10) + rho/2 sum_jf |m_jf|^2,   m_jf = M_jf q_f - q_j + lambda_jf                        messages     (12)
//   lambda_jf += eta (M_jf q_f - q_j)                                                            multipliers  (13)
//
// The gradient of -L is a score of the labels of a factor,
//   unigram   s(y)    = <w_y, x_j> + delta_j(y) + rho sum_{f of j} m_jf(y)
//   bigram    s(y, z) = A[y, z] - rho m_af(y) - rho m_bf(z)
// A visit to a factor finds the best label (15) and puts it into the active set. Then it moves the marginals q inside
// the active set along a direction d, by the exact step, at most `inner` times:
//   frank-wolfe   d = mass e_best - q
//   away          the steeper of frank-wolfe and d = q - mass e_worst                                (16), (17)
//   pairwise      d = e_best - e_worst, both at once
//   unigram   curvature sum_y (|x_j|_y^2 + [start] + [end] + rho pairs(j)) d_y^2,  |x|_y over the weights of y
//   bigram    curvature |d|^2 + rho |M_a d|^2 + rho |M_b d|^2
// With a prior (metric.hpp, Sigma diagonal) R* takes the place of 1/2 |w|^2. The squares and ones in the curvatures are
// then multiplied by the scales of their weights, and w is clipped at its bounds. Bounds do not make R* curve more, so
// a step gains what it claims. Messages are kept for labels that were active; all other messages are exactly zero.
// `PairSearch` finds the best pair, in the paper's four cases.
//
// With `sweeps`, the searches in a sequence are followed by sweeps of steps among its active labels alone, back and
// forth. Before each sweep the multipliers of the sequence make a smaller step. So the findings of one factor reach all
// others at little cost. Before the sweeps, all pairs of a newly found label with the active labels beside it become
// active, since a label without a pair can keep no mass. With a proximal term k/2 |w - z|^2
// (weights.hpp), w is (q + k z) / (1 + k), and curvatures of w are divided by 1 + k.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/large_chain.hpp"
#include "runtime/interrupt.hpp"
#include "solvers/chain_factors.hpp"
#include "solvers/factor_direction.hpp"
#include "solvers/pair_search.hpp"
#include "solvers/priored_weights.hpp"

namespace mm {

struct ChainGdmmOptions {
  double rho = 1;
  int inner = 4;
  int partitions = 1;       // a unigram factor searches one of this many parts of the labels
  bool exhaustive = false;  // look at every pair of labels
  Direction direction = Direction::pairwise;
  int sweeps = 0;  // number of sweeps over the active labels of a sequence, after its searches
  double eta = 1;  // step size of the multipliers before each sweep; multiplied by `gentle`
};

struct ChainGdmmReport {
  int64_t searches = 0, updates = 0;
  double violation = 0;  // sum_f of mass (s(best) - mean s): the gap of the factors, each at its own visit
};

class ChainGdmm {
 public:
  using Structure = LargeChain<double, uint16_t>;
  Structure structure;
  PrioredWeights<Structure> prior;  // contains w
  aligned<double>& W;
  ChainFactors factors;

  ChainGdmm(const ChainData& data, std::vector<double> block_mass)
      : structure(data),
        prior(structure),
        W(prior.W),
        factors(data, std::move(block_mass)),
        data_(data),
        search_(data.labels, structure.row_length()),
        ordered_(data.labels > few_labels) {
    structure.index().order_rows();
    scores_.resize(structure.row_length());
    watch();
  }
  ChainGdmm(const ChainGdmm&) = delete;

  SupportArrays support() const { return factors.support(); }

  // Makes one pass over the factors of some blocks, in this order (Algorithm 1, step 1).
  ChainGdmmReport pass(const int64_t* order, int64_t n, const ChainGdmmOptions& options, uint64_t seed) {
    ChainGdmmReport report;
    random_ = seed | 1;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t first = data_.offsets[order[k]], last = data_.offsets[order[k] + 1];
      if (factors.mass(first) <= 0) continue;
      poll();
      factors.rest(first, last);
      const double before = report.violation;
      for (int64_t r = first; r < last; ++r) {
        if (r > first) visit_pair(r, options, report);
        visit_variable(r, options, report);
      }
      if (options.sweeps > 0) sweep(first, last, options, report.violation - before);
    }
    return report;
  }

  // lambda_jf += eta (M_jf q_f - q_j) (step 2). Returns the sum of |m_jf(y) (M_jf q_f - q_j)(y)| before this update.
  // This sum times rho is the part of the factors' gap that the messages cause.
  double update_multipliers(double eta) {
    return factors.update_multipliers(0, static_cast<int64_t>(factors.labels.size()), eta);
  }

  // Sets the marginals from labellings with multipliers. Rebuilds w, messages and active sets.
  void restore(const int64_t* blocks, const double* multipliers, int64_t n, const int32_t* outputs) {
    factors.restore(blocks, multipliers, n, outputs);
    rebuild();
  }

  // Recomputes w in double precision from the marginals, which need not be consistent.
  void rebuild() {
    std::vector<double> q(structure.weights(), 0);
    for (int64_t r = 0; r < static_cast<int64_t>(factors.labels.size()); ++r) {
      add_node(r, data_.truth[r], factors.mass(r), q.data());
      for (const ActiveLabel& y : factors.labels[r]) add_node(r, y.label, -y.mass, q.data());
      if (factors.first(r)) continue;
      structure.add_edge(data_.truth[r - 1], data_.truth[r], factors.mass(r), q.data());
      for (const ActivePair& p : factors.pairs[r]) structure.add_edge(p.first, p.second, -p.mass, q.data());
    }
    prior.follow(q);
    watch();
  }
  // Begins the next round of the proximal term k/2 |w - z|^2, see weights.hpp.
  void recenter(double momentum, double proximity) {
    prior.recenter(momentum, proximity);
    watch();
  }
  // sum_i mass_i^2 |psi_i|^2 / sum_i mass_i Delta_i for outputs that are wrong everywhere and have no label twice. This
  // is C |psi|^2 over the loss; the weight k of a proximal term is chosen relative to it.
  double stiffness() {
    double square = 0, loss = 0;
    for (int64_t r = 0; r < static_cast<int64_t>(factors.labels.size()); ++r) {
      const double mass = factors.mass(r);
      square += 2 * mass * mass * (node_norm(r, data_.truth[r]) + !factors.first(r));
      loss += mass * data_.weight_of(r) * data_.cost.most(data_.truth[r]);
    }
    return loss > 0 ? square / loss : 0;
  }
  int64_t dimension() const { return structure.dimension(); }
  void set_origin(const double* flat) { prior.take_origin(flat), rebuild(); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) {
    if (matrix) throw std::invalid_argument("the metric of a chain must be diagonal");
    prior.take_metric(diagonal, lower, nullptr), rebuild();
  }

  // Makes the pair searches of a pass and nothing else. Returns the sum of the scores found.
  double seek(const int64_t* order, int64_t n, double rho, bool exhaustive) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k)
      for (int64_t r = data_.offsets[order[k]] + 1; r < data_.offsets[order[k] + 1]; ++r)
        sum += best_pair(r, rho, exhaustive).score;
    return sum;
  }

  // max_{y, z} A[y, z] - rho m_a(y) - rho m_b(z) at these messages, by the four cases or by a look at all pairs.
  // `known` is a pair with its score, with which the search begins.
  Scored best_pair(const Messages& left, const Messages& right, double rho, bool exhaustive,
                   Scored known = {-HUGE_VAL, 0, 0}) {
    const PairTable table{W.data() + structure.first_transition(), structure.row_length(),
                          &structure.index()};
    if (exhaustive) return search_.every(table, left, right, rho);
    return ordered_ ? search_.ordered(table, left, right, rho, known) : search_.few(table, left, right, rho);
  }
  // Searches pairs in order from now on, even if there are few labels.
  void order_pairs() { ordered_ = true, watch(); }
  // Call this after W was written as a whole.
  void watch() {
    if (ordered_) structure.watch(W.data());
  }

 private:
  friend class ChainFrankWolfe;  // its steps are over all factors at once
  // With more labels than this, pairs are searched in order. With fewer, a look at all pairs takes less time than it
  // takes to keep them in order.
  static constexpr int few_labels = 64;
  static constexpr double enough = 0.2;  // sweeps end at this fraction of the gap that the searches saw
  // Factor on eta between sweeps. With 1 fits came to rest far from the optimum, since sweeps see active labels only.
  static constexpr double gentle = 0.4;
  const ChainData& data_;
  PairSearch search_;
  bool ordered_;
  aligned<double> scores_;
  Messages left_, right_;
  FactorMoves moves_;
  uint64_t random_ = 1;
  Sparse move_;  // features of one label, under a metric

  double pair_score(int64_t r, int32_t y, int32_t z, double rho) {
    return structure.edge_weight(W.data(), y, z) -
           rho * (factors.label(r - 1, y).message(1) + factors.label(r, z).message(0));
  }
  double active_score(int64_t r, const ActivePair& p, double rho) const {
    return structure.edge_weight(W.data(), p.first, p.second) -
           rho * (factors.labels[r - 1][p.left].message(1) + factors.labels[r][p.right].message(0));
  }
  Scored best_pair(int64_t r, double rho, bool exhaustive) {
    read_messages(r - 1, 1, left_), read_messages(r, 0, right_);
    Scored known{-HUGE_VAL, 0, 0};
    for (const ActivePair& p : factors.pairs[r])
      if (const double s = active_score(r, p, rho); s > known.score) known = {s, p.first, p.second};
    return best_pair(left_, right_, rho, exhaustive, known);
  }
  void read_messages(int64_t r, int side, Messages& messages) const {
    messages.clear();
    for (const ActiveLabel& y : factors.labels[r])
      if (const double m = y.message(side); m != 0) messages.push_back({y.label, m});
    for (const Price& price : factors.prices[r])
      if (const double m = price.multiplier[side]; m != 0) messages.push_back({price.label, m});
  }

  template <class Target>
  void add_node(int64_t r, int label, double c, Target to) const {
    structure.add_node(r, factors.first(r), factors.last(r), label, c, to);
  }
  // Collects the features of a label, entry by entry.
  const Sparse& features_of(int64_t r, int label) {
    move_.resize(W.size());
    move_.clear();
    add_node(r, label, 1.0, Gather(move_));
    return move_;
  }
  // |x_j|^2 over the weights of a label, in the metric.
  double node_norm(int64_t r, int label) {
    if (!prior.metric.scaled()) return structure.node_norm(r, factors.first(r), factors.last(r), label);
    double sum = 0;
    for (const size_t j : features_of(r, label).touched)
      sum += prior.metric.scale(j) * move_.dense[j] * move_.dense[j];
    return sum;
  }
  // Change w by the law: q changes by c x_j in the weights of a label, or by c in the weight of a transition.
  void move_node(int64_t r, int label, double c) {
    if (prior.metric.plain()) return add_node(r, label, c * prior.shrink(), W.data());
    for (const size_t j : features_of(r, label).touched) move_weight(j, c * move_.dense[j]);
  }
  void move_edge(int previous, int next, double c) {
    if (!prior.metric.plain()) return move_weight(structure.edge_place(previous, next), c);
    c *= prior.shrink();
    ordered_ ? structure.add_edge(previous, next, c, W.data())
             : void(W[structure.edge_place(previous, next)] += c);
  }
  void move_weight(size_t j, double c) {
    c *= prior.metric.scale(j) * prior.shrink();
    if (prior.metric.bounded()) {
      prior.unclipped[j] += c;
      W[j] = prior.metric.clipped(j, prior.unclipped[j]);
    } else {
      W[j] += c;
    }
    if (ordered_) structure.changed(W.data(), j);
  }
  uint64_t draw() {  // xorshift
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return random_;
  }

  // Makes sweeps over the active labels of a sequence, back and forth, each after a step of its multipliers. Ends when
  // the gap of a sweep is small beside the gap that the searches saw.
  void sweep(int64_t first, int64_t last, ChainGdmmOptions options, double seen) {
    factors.join(first, last);
    options.inner = 1;
    for (int n = 0; n < options.sweeps; ++n) {
      ChainGdmmReport found;
      const double apart = options.rho * factors.update_multipliers(first, last, gentle * options.eta);
      const bool back = n % 2 == 0;
      for (int64_t k = 0; k < last - first; ++k) {
        const int64_t r = back ? last - 1 - k : first + k, pair = back ? r + 1 : r;
        if (k > 0 && factors.pairs[pair].size() > 1) move_pairs(pair, options, found);
        revisit_variable(r, options, found);
      }
      if (found.violation + apart <= enough * seen) return;
    }
  }

  void visit_variable(int64_t r, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    score_variable(r, options.rho);
    factors.label(r, best_label(options.partitions)).find();
    ++report.searches;
    move_labels(r, [&] { score_variable(r, options.rho); }, options, report);
  }
  void revisit_variable(int64_t r, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    const auto& labels = factors.labels[r];
    if (labels.size() < 2) return;
    const auto score = [&] {
      for (const ActiveLabel& y : labels)
        if (y.live)
          scores_[y.label] = structure.unary_score(r, factors.first(r), factors.last(r), W.data(), y.label) +
                             options.rho * (y.message(0) + y.message(1));
    };
    score();
    move_labels(r, score, options, report);
  }
  // Adds up loss, score and messages of every label of a position, into scores_.
  void score_variable(int64_t r, double rho) {
    structure.unary_scores(r, factors.first(r), factors.last(r), W.data(), scores_.data());
    for (const ActiveLabel& y : factors.labels[r]) scores_[y.label] += rho * (y.message(0) + y.message(1));
    for (const Price& price : factors.prices[r])
      scores_[price.label] += rho * (price.multiplier[0] + price.multiplier[1]);
  }
  int32_t best_label(int partitions) {
    const int64_t K = data_.labels, parts = std::min<int64_t>(K, partitions);
    const int64_t part = parts == 1 ? 0 : static_cast<int64_t>(draw() % static_cast<uint64_t>(parts));
    const int64_t first = K * part / parts, last = K * (part + 1) / parts;
    return first_of_largest(first, last);
  }
  // The first label with the largest score in [first, last).
  int32_t first_of_largest(int64_t first, int64_t last) const {
    constexpr int64_t lanes = Vector<double>::lanes;
    const double* s = scores_.data();
    double top = s[first];
    int64_t k = first;
    if (last - first >= lanes) {
      vec<double> most = load(s + first);
      for (k += lanes; k + lanes <= last; k += lanes) most = maximum(most, load(s + k));
      top = largest_lane<double>(most);
    }
    for (; k < last; ++k) top = std::max(top, s[k]);
    const int64_t found = std::find(s + first, s + last, top) - s;
    return static_cast<int32_t>(found < last ? found : first);  // a NaN is not found
  }
  // Moves mass among the live labels of a position. Their scores must be known.
  template <class Renew>
  void move_labels(int64_t r, Renew&& renew, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    auto& labels = factors.labels[r];
    const double messages = options.rho * factors.neighbours(r);
    const auto norm = [&](int n) { return node_norm(r, labels[n].label) * prior.shrink() + messages; };
    const auto read = [&](int turn) {
      if (turn > 0 && prior.metric.bounded()) renew();  // moves update scores_ as if w were not clipped
      for (int n = 0; n < static_cast<int>(labels.size()); ++n)
        if (labels[n].live) moves_.choices.push_back({n, labels[n].mass, scores_[labels[n].label]});
    };
    const auto bend = [&] {
      double sum = 0;
      for (const Change& d : moves_.direction) sum += norm(moves_.choices[d.at].at) * d.by * d.by;
      return sum;
    };
    const auto moved = [&](int n, double more) {
      ActiveLabel& y = labels[n];
      move_node(r, y.label, -more);
      scores_[y.label] -= norm(n) * more;
      if (!factors.first(r)) y.residual[0] -= more;
      if (!factors.last(r)) y.residual[1] -= more;
      return &y.mass;
    };
    report.updates += moves_.improve(options.direction, options.inner, factors.mass(r), report.violation,
                                     read, bend, moved);
  }

  void visit_pair(int64_t r, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    const Scored best = best_pair(r, options.rho, options.exhaustive);
    factors.pair(r, best.first, best.second);
    ++report.searches;
    move_pairs(r, options, report);
  }
  // Moves mass among the active pairs of a position and the one before it.
  void move_pairs(int64_t r, const ChainGdmmOptions& options, ChainGdmmReport& report) {
    auto& pairs = factors.pairs[r];
    auto &left = factors.labels[r - 1], &right = factors.labels[r];
    const double rho = options.rho;
    const auto read = [&](int) {
      for (int n = 0; n < static_cast<int>(pairs.size()); ++n) {
        const ActivePair& p = pairs[n];
        moves_.choices.push_back({n, p.mass, active_score(r, p, rho)});
      }
    };
    const auto bend = [&] {
      double sum = 0;
      for (const Change& d : moves_.direction) {
        const ActivePair& p = pairs[moves_.choices[d.at].at];
        sum += d.by * d.by * prior.metric.scale(structure.edge_place(p.first, p.second)) * prior.shrink();
        for (const Change& e : moves_.direction) {
          const ActivePair& o = pairs[moves_.choices[e.at].at];
          sum += rho * d.by * e.by * ((p.first == o.first) + (p.second == o.second));
        }
      }
      return sum;
    };
    const auto moved = [&](int n, double more) {
      ActivePair& p = pairs[n];
      move_edge(p.first, p.second, -more);
      left[p.left].residual[1] += more;
      right[p.right].residual[0] += more;
      return &p.mass;
    };
    report.updates += moves_.improve(options.direction, options.inner, factors.mass(r), report.violation,
                                     read, bend, moved);
  }
};

}  // namespace mm
