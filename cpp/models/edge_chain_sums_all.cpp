// Distributions over the labellings of a chain with features on its edges, or of second order (SumsAll).
//
// The potentials begin with a row for each position, which includes the scores of start and end. A zero table
// follows, whose expectations belong to the transitions. Then there is a table P_t for each position except
// the first, and for second order the table D. Sums of second order are sums of first order over pairs of
// neighbouring labels:
//     state (j, k) of position t:  P_t[j, k] + u_t[k] (+ u_0[j] at t = 1),    from (i, j) to (j, k):  D[i, j, k]
#include <algorithm>
#include <limits>
#include <utility>

#include "models/edge_chain.hpp"
#include "models/forward_backward.hpp"

namespace mm {

int64_t EdgeChain::potentials(int64_t block) const {
  const int64_t T = length(block), K = K_;
  return T + T * K + (all_.triples ? K * K : 0);
}

void EdgeChain::list_potentials(Scratch& s, const double* W, double* theta) const {
  const int T = length(s.block);
  Base::list_potentials(s, W, theta);
  double* P = theta + static_cast<size_t>(T) * stride_;
  std::fill(P, P + pair_size_, 0.0);
  for (int t = 1; t < T; ++t) std::copy_n(table(std::as_const(s), t), pair_size_, P + t * pair_size_);
  if (all_.triples) std::copy_n(triples(W), K_ * pair_size_, P + T * pair_size_);
}

double EdgeChain::distribute(Scratch& s, int64_t block, const double* theta, double* m) const {
  const int T = length(block);
  const size_t nodes = static_cast<size_t>(T) * stride_;
  const double* u = this->with_ends(s, block, theta);
  if (all_.triples && T > 1) return distribute_pairs(s, T, u, theta + nodes, m);
  double* E = m ? m + nodes : nullptr;
  const double* penalty = this->penalty_ ? this->penalty_->data() : nullptr;
  const double log_sum =
      this->sums_of(s).run(T, K_, stride_, u, theta + nodes, penalty, static_cast<int64_t>(pair_size_), m, E);
  if (m && all_.triples) std::fill_n(E + T * pair_size_, K_ * pair_size_, 0.0);
  if (m) add_tables(T, E);
  return log_sum;
}

// Sets the first table to the sum of the others, which is the expectation of the transitions.
void EdgeChain::add_tables(int T, double* E) const {
  std::fill(E, E + pair_size_, 0.0);
  for (int t = 1; t < T; ++t)
    for (size_t k = 0; k < pair_size_; ++k) E[k] += E[t * pair_size_ + k];
}

double EdgeChain::distribute_pairs(Scratch& s, int T, const double* u, const double* P, double* m) const {
  const SequenceScores all = list_pairs(s, T, P + T * pair_size_, [&](int t, int j, int k) {
    return P[t * pair_size_ + pair(j, k)] + this->penalty(pair(j, k)) + u[t * stride_ + k] +
           (t == 1 ? u[j] : 0);
  });
  s.pair_expected.resize(m ? s.pair_scores.size() : 0), s.move_expected.resize(m ? s.pair_moves.size() : 0);
  const double log_sum =
      this->sums_of(s).run(all.T, all.K, static_cast<int>(all.stride), all.local, all.A, nullptr, 0,
                           m ? s.pair_expected.data() : nullptr, m ? s.move_expected.data() : nullptr);
  if (m) spread_pairs(s, T, m);
  return log_sum;
}

// Computes the expectations of labels, pairs and triples from the expectations of pair states and of their
// transitions.
void EdgeChain::spread_pairs(const Scratch& s, int T, double* m) const {
  const int wide = padded<double>(K_ * K_);
  double *E = m + static_cast<size_t>(T) * stride_, *D = E + T * pair_size_;
  std::fill(m, D + K_ * pair_size_, 0.0);
  for (int t = 1; t < T; ++t)
    for (int j = 0; j < K_; ++j)
      for (int k = 0; k < K_; ++k) {
        const double p = s.pair_expected[static_cast<size_t>(t - 1) * wide + j * K_ + k];
        E[t * pair_size_ + pair(j, k)] = p;
        m[t * stride_ + k] += p;
        if (t == 1) m[j] += p;
      }
  add_tables(T, E);
  for (int i = 0; i < K_; ++i)
    for (int j = 0; j < K_; ++j)
      for (int k = 0; k < K_; ++k)
        D[triple(i, j, k)] = s.move_expected[static_cast<size_t>(i * K_ + j) * wide + j * K_ + k];
}

void EdgeChain::subtract_truth(int64_t block, double* m) const {
  Base::subtract_truth(block, m);
  const int T = length(block);
  const int32_t* y = data_.truth.data() + data_.offsets[block];
  double *E = m + static_cast<size_t>(T) * stride_, *D = E + T * pair_size_;
  for (int t = 1; t < T; ++t) E[t * pair_size_ + pair(y[t - 1], y[t])] -= 1;
  for (int t = 2; all_.triples && t < T; ++t) D[triple(y[t - 2], y[t - 1], y[t])] -= 1;
}

double EdgeChain::add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const {
  const int T = length(block);
  const double *E = m + static_cast<size_t>(T) * stride_, *D = E + T * pair_size_;
  double sum = Base::add_expected(s, block, m, W, c);
  for (int t = 1; all_.edges && t < T; ++t)
    sum += all_.edges->add_measured(edge_row(block, t), W + edges_at_, static_cast<int>(pair_size_),
                                    E + t * pair_size_, c);
  if (all_.triples) sum += add_counted(W + triples_at_, D, K_ * pair_size_, c);
  return sum;
}

void EdgeChain::draw(Scratch& s, int64_t block, const double*, const double* chance, int32_t* y) const {
  const int T = length(block);
  if (!all_.triples || T == 1) return this->sums_of(s).draw(chance, T, y);
  std::vector<int32_t> states(T - 1);
  this->sums_of(s).draw(chance, T - 1, states.data());
  y[0] = states[0] / K_;
  for (int t = 1; t < T; ++t) y[t] = states[t - 1] % K_;
}

}  // namespace mm
