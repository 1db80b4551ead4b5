#include "models/edge_chain.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/max_plus.hpp"

namespace mm {
namespace {

enum : char { local_scores = 1, pair_table = 2 };

}  // namespace

EdgeChain::EdgeChain(const Data& data)
    : Base(*data.chain),
      all_(data),
      pair_size_(static_cast<size_t>(K_) * stride_),
      edges_at_(Base::weights()),
      triples_at_(edges_at_ + (data.edges ? static_cast<size_t>(data.edges->stored()) * pair_size_ : 0)) {}

EdgeChain::Scratch EdgeChain::scratch() const {
  const size_t tables = static_cast<size_t>(this->longest_) * pair_size_;
  Scratch s{Base::scratch()};
  s.open.resize(this->longest_);
  if (all_.edges) s.tables.resize(tables);
  if (all_.triples) s.states.resize(tables), s.from.resize(stride_);
  return s;
}

template <class F>
void EdgeChain::each_weight(F&& f) const {
  size_t outside = static_cast<size_t>(Base::dimension());
  const int64_t m = all_.edges ? all_.edges->width() : 0;
  for (int j = 0; j < K_; ++j)
    for (int k = 0; k < K_; ++k)
      for (int64_t e = 0; e < m; ++e) f(edges_at_ + e * pair_size_ + pair(j, k), outside++);
  for (int i = 0; all_.triples && i < K_; ++i)
    for (int j = 0; j < K_; ++j)
      for (int k = 0; k < K_; ++k) f(triples_at_ + triple(i, j, k), outside++);
}
void EdgeChain::pack(const double* flat, double* W) const {
  Base::pack(flat, W);
  each_weight([&](size_t inside, size_t outside) { W[inside] = flat[outside]; });
}
void EdgeChain::unpack(const double* W, double* flat) const {
  Base::unpack(W, flat);
  each_weight([&](size_t inside, size_t outside) { flat[outside] = W[inside]; });
}

void EdgeChain::open_table(Scratch& s, int t) const {
  if (!all_.edges) return;
  const double* A = s.weights + transitions_;
  double* P = table(s, t);
  std::copy(A, A + pair_size_, P);
  for (size_t k = 0; this->penalty_ && k < pair_size_; ++k) P[k] += (*this->penalty_)[k];
  all_.edges->add_scores(edge_row(s.block, t), s.weights + edges_at_, static_cast<int>(pair_size_), P);
}

void EdgeChain::open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const {
  Base::open(block, W, s, augmented, loss_scale);
  const int T = length(block);
  for (int t = 1; t < T; ++t) open_table(s, t);
  std::fill_n(s.open.begin(), T, local_scores | pair_table);
}

// Leaves out the positions and edges on which the outputs agree, because their scores are the same for all.
void EdgeChain::open_where_different(int64_t block, const double* W, Scratch& s, const Label* outputs,
                                     int n) const {
  Base::open_where_different(block, W, s, outputs, n);
  s.partial = false;
  const int T = length(block);
  std::fill_n(s.open.begin(), T, 0);
  for (int t : s.positions) {
    s.open[t] |= local_scores | pair_table;
    if (t + 1 < T) s.open[t + 1] |= pair_table;
  }
  for (int t = 1; t < T; ++t)
    if (s.open[t] & pair_table) open_table(s, t);
}

double EdgeChain::score(const Scratch& s, const Label* y) const {
  const int T = length(s.block);
  double sum = this->ends(s.weights + transitions_, y, T);
  for (int t = 0; t < T; ++t) {
    if (s.open[t] & local_scores) sum += s.local[static_cast<size_t>(t) * stride_ + y[t]];
    if (t > 0 && (s.open[t] & pair_table)) sum += table(s, t)[pair(y[t - 1], y[t])];
  }
  if (all_.triples)
    for (int t = 2; t < T; ++t) sum += triples(s.weights)[triple(y[t - 2], y[t - 1], y[t])];
  return sum;
}

double EdgeChain::best(Scratch& s, const double* W, Label* y) const {
  const SequenceScores all = sequence(s, W);
  if (all_.triples && all.T > 1)
    best_pairs(s, triples(W), all);
  else
    this->best_path(s, this->legal_pairs(s, W), all.A, all.step);
  std::copy(s.path.begin(), s.path.end(), y);
  return score(s, y);
}

// F_1[j, k] = start[j] + u_0[j] + P_1[j, k] + u_1[k]
void EdgeChain::first_states(const SequenceScores& all, double* F) const {
  for (int j = 0; j < K_; ++j) {
    const double value = all.at(0, j) + all.start_of(j);
    for (int k = 0; k < K_; ++k) F[pair(j, k)] = value + all.transition(1, j, k) + all.at(1, k);
  }
}

void EdgeChain::best_pairs(Scratch& s, const double* D, const SequenceScores& all) const {
  const int T = all.T;
  const auto states = [&](int t) { return s.states.data() + static_cast<size_t>(t) * pair_size_; };
  first_states(all, states(1));
  for (int t = 2; t < T; ++t) {
    const double *last = states(t - 1), *P = all.A + t * all.step, *u = this->local(s, t);
    for (int j = 0; j < K_; ++j) {
      for (int i = 0; i < K_; ++i) s.from[i] = last[pair(i, j)];
      double* F = states(t) + pair(j, 0);
      by_vectors<double>(stride_, [&]<int N>(int column) {
        max_plus<double, N>(s.from.data(), D + pair(j, column), pair_size_, K_, F + column);
      });
      for (int k = 0; k < K_; ++k) F[k] += P[pair(j, k)] + u[k];
    }
  }
  const double* F = states(T - 1);
  double top = -std::numeric_limits<double>::infinity();
  s.path.assign(T, 0);
  for (int j = 0; j < K_; ++j)
    for (int k = 0; k < K_; ++k)
      if (const double value = F[pair(j, k)] + all.end_of(k); value > top)
        top = value, s.path[T - 2] = j, s.path[T - 1] = k;
  for (int t = T - 1; t > 1; --t) {
    top = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < K_; ++i)
      if (const double value = states(t - 1)[pair(i, s.path[t - 1])] + D[triple(i, s.path[t - 1], s.path[t])];
          value > top)
        top = value, s.path[t - 2] = i;
  }
}

SequenceScores EdgeChain::sequence(Scratch& s, const double* W) const {
  SequenceScores all = this->scores(s, W);
  if (all_.edges) all.A = s.tables.data(), all.step = static_cast<int64_t>(pair_size_);
  return all;
}

void EdgeChain::best_slack(Scratch& s, const double* W, double shift, const Label* truth, Label* y) const {
  this->best_slack_of(sequence(s, W), s, shift, truth, y);
}

void EdgeChain::best_k(Scratch& s, const double* W, int k, std::vector<int32_t>& y,
                       std::vector<double>& values) const {
  const int T = length(s.block);
  std::vector<int32_t> found;
  if (!all_.triples || T == 1) {
    best_labellings(sequence(s, W), k, found, values);
    y.assign(found.begin(), found.end());
    return;
  }
  best_labellings(pair_states(s, W), k, found, values);
  for (size_t n = 0; n < values.size(); ++n)
    for (int t = 0; t < T; ++t) {
      const int32_t state = found[n * (T - 1) + std::max(t - 1, 0)];
      y.push_back(static_cast<Label>(t == 0 ? state / K_ : state % K_));
    }
}

void EdgeChain::beliefs(Scratch& s, const double* W, double temperature, double* out) const {
  const int T = length(s.block);
  Beliefs beliefs(temperature);
  if (!all_.triples || T == 1) return beliefs.of_sequence(sequence(s, W), out);
  const size_t states = static_cast<size_t>(K_) * K_;
  std::vector<double> of_pairs((T - 1) * states), column(K_);
  beliefs.of_sequence(pair_states(s, W), of_pairs.data());
  for (int k = 0; k < K_; ++k) out[k] = beliefs.pooled(of_pairs.data() + static_cast<size_t>(k) * K_, K_);
  for (int t = 1; t < T; ++t)
    for (int k = 0; k < K_; ++k) {
      for (int j = 0; j < K_; ++j) column[j] = of_pairs[(t - 1) * states + static_cast<size_t>(j) * K_ + k];
      out[static_cast<size_t>(t) * K_ + k] = beliefs.pooled(column.data(), K_);
    }
}

SequenceScores EdgeChain::pair_states(Scratch& s, const double* W) const {
  const int T = length(s.block);
  const SequenceScores all = sequence(s, W);
  return list_pairs(s, T, triples(W), [&](int t, int j, int k) {
    return all.transition(t, j, k) + all.at(t, k) + (t == 1 ? all.at(0, j) + all.start_of(j) : 0) +
           (t == T - 1 ? all.end_of(k) : 0);
  });
}

void EdgeChain::build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
  Base::build_pair(s, block, plus, minus);
  const double c[2] = {1, -1};
  build_edges(s, c, 2, [&](int j) { return j == 0 ? plus : minus; });
}
void EdgeChain::build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
  Base::build_mixture(s, block, outputs, c, n);
  const size_t T = length(block);
  build_edges(s, c, n, [&](int j) { return outputs + j * T; });
}

// Adds edges and triples to a move. Edges and triples on which all outputs agree drop out.
template <class Output>
void EdgeChain::build_edges(Scratch& s, const double* c, int n, Output&& output) const {
  const int T = length(s.block);
  s.pairs.clear(static_cast<size_t>(T) * n);
  s.triples.clear(static_cast<size_t>(T) * n);
  for (int t = 1; t < T; ++t) {
    const size_t pairs = s.pairs.size(), triples = s.triples.size();
    for (int j = 0; j < n; ++j) {
      if (c[j] == 0) continue;
      const Label* y = output(j);
      if (all_.edges) this->gather(s.pairs, pairs, Pair{t, pair(y[t - 1], y[t]), c[j]});
      if (all_.triples && t > 1)
        this->gather(s.triples, triples, Edge{triple(y[t - 2], y[t - 1], y[t]), c[j]});
    }
    if (s.pairs.size() == pairs + 1) s.pairs.drop_to(pairs);
    if (s.triples.size() == triples + 1) s.triples.drop_to(triples);
  }
}

double EdgeChain::squared_norm(Scratch& s) const {
  double sum = Base::squared_norm(s);
  for (size_t a = 0; a < s.pairs.size(); ++a) {
    const Pair& p = s.pairs[a];
    double inner = 0;
    for (size_t b = 0; b < a; ++b)
      if (s.pairs[b].key == p.key) inner += s.pairs[b].c * edge_dot(s.block, p.t, s.pairs[b].t);
    sum += p.c * (p.c * edge_dot(s.block, p.t, p.t) + 2 * inner);
  }
  return sum + Base::squared_norm_of(s.triples);
}

template <class Target>
void EdgeChain::apply(const Scratch& s, Target W, double c) const {
  Base::apply(s, W, c);
  for (size_t a = 0; a < s.pairs.size(); ++a) {
    const Pair& p = s.pairs[a];
    all_.edges->add_column(edge_row(s.block, p.t), W + edges_at_, static_cast<int>(pair_size_), p.key,
                           c * p.c);
  }
  for (size_t a = 0; a < s.triples.size(); ++a) W[triples_at_ + s.triples[a].key] += c * s.triples[a].c;
}

template void EdgeChain::apply(const Scratch&, double*, double) const;
template void EdgeChain::apply(const Scratch&, Gather, double) const;

}  // namespace mm
