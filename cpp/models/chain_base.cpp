#include "models/chain_base.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "models/forward_backward.hpp"
#include "models/max_plus.hpp"
#include "runtime/threads.hpp"

namespace mm {
template <class Real>
ChainBase<Real>::ChainBase(const Data& data)
    : data_(data),
      K_(data.labels),
      stride_(padded<Real>(data.labels)),
      transitions_(data.nodes.inside(stride_)) {
  for (int64_t i = 0; i < data.blocks(); ++i) {
    longest_ = std::max(longest_, length(i));
    first_pair_.push_back(pairs_);
    if (length(i) <= longest_gram && !data.nodes.pairs)
      pairs_ += static_cast<size_t>(length(i)) * (length(i) - 1) / 2;
  }
  cost_.assign(data.cost.uniform() ? 0 : static_cast<size_t>(K_) * stride_, 0);
  for (int a = 0; a < K_ && !data.cost.uniform(); ++a)
    for (int b = 0; b < K_; ++b)
      cost_[static_cast<size_t>(a) * stride_ + b] = static_cast<Real>(data.cost.of(a, b));
  if (data.cost.uniform() && !data.node_weight.empty()) read_truths();
  counts_ = counts_mistakes();
  far_ = weights() * sizeof(Real) > size_t(1) << 24;
  if (!data.illegal.empty()) read_illegal();
}

template <class Real>
void ChainBase<Real>::read_truths() {
  std::vector<Truth> found;
  found.reserve(data_.truth.size());
  for (size_t r = 0; r < data_.truth.size(); ++r) found.push_back(truth_at(static_cast<int64_t>(r)));
  truths_ = std::move(found);
}

template <class Real>
void ChainBase<Real>::read_illegal() {
  auto table = std::make_shared<aligned<Real>>(static_cast<size_t>(K_ + 2) * stride_, Real(0));
  for (const int64_t key : data_.illegal)
    (*table)[edge(static_cast<int>(key / K_), static_cast<int>(key % K_))] =
        -std::numeric_limits<Real>::infinity();
  penalty_ = std::move(table);
}

template <class Real>
const Real* ChainBase<Real>::legal_pairs(Scratch& s, const Real* W) const {
  const Real* A = W + transitions_;
  if (!penalty_) return A;
  const size_t size = penalty_->size();
  s.legal.resize(size);
  const Real* penalty = penalty_->data();
  for (size_t k = 0; k < size; ++k) s.legal[k] = A[k] + penalty[k];
  return s.legal.data();
}

template <class Real>
typename ChainBase<Real>::Scratch ChainBase<Real>::scratch() const {
  const size_t table = static_cast<size_t>(longest_) * stride_;
  Scratch s;
  s.local.resize(table);
  s.forward.resize(table);
  s.arrivals.resize(table);
  return s;
}

double ChainData::least_constant_loss(const double* mass) const {
  std::vector<double> weight(labels);  // by true label
  for (int64_t i = 0; i < blocks(); ++i)
    for (int64_t r = offsets[i]; r < offsets[i + 1]; ++r) weight[truth[r]] += mass[i] * weight_of(r);
  double least = std::numeric_limits<double>::infinity();
  for (int k = 0; k < labels; ++k) {
    double sum = 0;
    for (int j = 0; j < labels; ++j) sum += weight[j] * cost.of(j, k);
    least = std::min(least, sum);
  }
  return least;
}

template <class Real>
template <class F>
void ChainBase<Real>::each_weight(int threads, const F& f) const {
  // Weights per thread; for fewer, starting a thread takes longer than its work.
  constexpr int64_t worthwhile = 200'000;
  const int64_t size = data_.nodes.dimension(K_);
  parallel(data_.nodes.units(), static_cast<int>(std::min<int64_t>(threads, 1 + size / worthwhile)),
           [&](int64_t first, int64_t last, int) { data_.nodes.each(first, last, K_, stride_, F(f)); });
  const int64_t K = K_;
  F rest(f);
  size_t outside = static_cast<size_t>(size);
  for (int64_t previous = 0; previous < K; ++previous)
    for (int64_t next = 0; next < K; ++next) rest(transitions_ + previous * stride_ + next, outside++);
  for (int64_t k = 0; data_.start && k < K; ++k) rest(transitions_ + K * stride_ + k, outside++);
  for (int64_t k = 0; data_.end && k < K; ++k) rest(transitions_ + (K + 1) * stride_ + k, outside++);
}
template <class Real>
template <class To>
void ChainBase<Real>::pack(const double* flat, To* W, int threads) const {
  each_weight(threads, [=](size_t inside, size_t outside) { W[inside] = static_cast<To>(flat[outside]); });
}
template <class Real>
template <class From>
void ChainBase<Real>::unpack(const From* W, double* flat, int threads) const {
  each_weight(threads, [=](size_t inside, size_t outside) { flat[outside] = W[inside]; });
}

template <class Real>
void ChainBase<Real>::unpack_spent(double* W, double* flat, int threads) const {
  constexpr size_t piece = size_t(1) << 17, unknown = ~size_t(0);
  // The weights of a thread are contiguous in W, from its first one on.
  each_weight(threads, [=, done = unknown](size_t inside, size_t outside) mutable {
    flat[outside] = W[inside];
    if (done == unknown) done = inside;
    if (inside - done >= piece) forget(W + done, W + inside), done = inside;
  });
}

template <class Real>
void ChainBase<Real>::prefetch_view(int64_t block) const {
  const int64_t first = row(block, 0);
  constexpr int per_line = 64 / sizeof(RowView), most = 8 * per_line;
  for (int t = 0; t < std::min(length(block), most); t += per_line)
    data_.nodes.features->prefetch_view(first + t);
  if (truths_.empty())
    fetch_ahead(&data_.truth[first]);
  else
    fetch_ahead(&truths_[first]);
}
template <class Real>
void ChainBase<Real>::prefetch(int64_t block) const {
  constexpr int most = 12;
  for (int t = 0; t < std::min(length(block), most); ++t) data_.nodes.features->prefetch(row(block, t));
}

template <class Real>
void ChainBase<Real>::prepare() {
  gram_.assign(pairs_, std::numeric_limits<float>::quiet_NaN());
}

// Whether the loss of every sequence is a number of mistakes times a constant.
template <class Real>
bool ChainBase<Real>::counts_mistakes() const {
  for (int a = 0; a < K_; ++a)
    for (int b = 0; b < (data_.cost.uniform() ? 1 : K_); ++b)
      if (data_.cost.uniform() ? data_.cost.mistake(a) != 1 : data_.cost.of(a, b) != (a == b ? 0 : 1))
        return false;
  for (int64_t i = 0; i < blocks(); ++i)
    for (int t = 1; t < length(i); ++t)
      if (data_.weight_of(row(i, t)) != data_.weight_of(row(i, 0))) return false;
  return true;
}

template <class Real>
void ChainBase<Real>::open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
  s.block = block;
  s.partial = false;
  const int T = length(block), ahead = 4;
  for (int t = far_ ? -ahead : 0; t < T; ++t) {
    if (far_ && t + ahead < T) prefetch_row(row(block, t + ahead), W, Stage::weights);
    if (t >= 0) row_scores(row(block, t), W, local(s, t), augmented, loss_scale);
  }
  s.weights = W;
  for (int t = 0; t < T && !data_.fixed.empty(); ++t) {
    const int known = data_.fixed[row(block, t)];
    if (known < 0) continue;
    const Real own = local(s, t)[known];
    std::fill(local(s, t), local(s, t) + stride_, -std::numeric_limits<Real>::infinity());
    local(s, t)[known] = own;
  }
}

template <class Real>
void ChainBase<Real>::row_scores(int64_t r, const Real* W, Real* u, bool augmented, Real scale,
                                 uint64_t wanted) const {
  if (augmented && data_.cost.uniform()) {
    const Truth own = truth_at(r);
    const vec<Real> mistake = broadcast(scale * own.mistake);
    for (int k = 0; k < stride_; k += Vector<Real>::lanes) store(u + k, mistake);
    u[own.label] = 0;
  } else if (augmented) {
    const Real weight = scale * static_cast<Real>(data_.weight_of(r));
    const Real* cost = &cost_[static_cast<size_t>(data_.truth[r]) * stride_];
    for (int k = 0; k < stride_; ++k) u[k] = weight * cost[k];
  } else {
    std::memset(u, 0, sizeof(Real) * stride_);
  }
  data_.nodes.add_scores(r, W, stride_, u, wanted);
}

template <class Real>
const std::vector<int>& ChainBase<Real>::best_path(Scratch& s, const Real* A, const Real* pairs,
                                                   size_t step) const {
  const int T = length(s.block);
  Real *F = s.forward.data(), *reached = s.arrivals.data();
  std::memcpy(F, s.local.data(), sizeof(Real) * stride_);
  if (has_start())
    for (int k = 0; k < stride_; ++k) F[k] += A[edge(K_, k)];
  for (int t = 1; t < T; ++t) {
    const Real *from = F, *u = local(s, t), *P = pairs + t * step;
    F += stride_, reached += stride_;
    by_vectors<Real>(stride_, [&]<int N>(int column) {
      max_plus<Real, N>(from, P + column, stride_, K_, reached + column);
    });
    for (int k = 0; k < stride_; ++k) F[k] = reached[k] + u[k];
  }
  if (has_end())
    for (int k = 0; k < stride_; ++k) F[k] += A[edge(K_ + 1, k)];
  s.path.resize(T);
  s.path[T - 1] = static_cast<int>(std::max_element(F, F + K_) - F);
  for (int t = T - 1; t > 0; --t, reached -= stride_) {
    const int k = s.path[t];
    F -= stride_;
    s.path[t - 1] = predecessor(F, pairs + t * step + k, reached[k], data_.truth[row(s.block, t - 1)]);
  }
  return s.path;
}

template <class Real>
int ChainBase<Real>::predecessor(const Real* from, const Real* column, Real best, int likely) const {
  const auto reaches = [&](int j) { return from[j] + column[static_cast<int64_t>(j) * stride_] >= best; };
  if (reaches(likely)) return likely;
  for (int j = 0; j < K_; ++j)
    if (reaches(j)) return j;
  return 0;
}

template <class Real>
double ChainBase<Real>::squared_norm(Scratch& s) const {
  if (s.nodes.size() > many_nodes && !data_.nodes.features->gram) return squared_norm_by_table(s);
  double sum = 0;
  for (size_t a = 0; a < s.nodes.size(); ++a) {
    const Node& p = s.nodes[a];
    const int64_t r = row(s.block, p.t);
    double inner = 0;
    for (size_t b = 0; b < a; ++b) {
      const Node& q = s.nodes[b];
      if (p.label == q.label && p.t != q.t) inner += q.c * dot(s.block, q.t, p.t, p.label);
    }
    sum += p.c * (p.c * data_.nodes.norm(r, p.label) + 2 * inner);
  }
  return sum + squared_norm_of(s.edges);
}

template <class Real>
double ChainBase<Real>::loss_of_move(const Scratch& s) const {
  double sum = 0;
  for (size_t a = 0; a < s.nodes.size(); ++a) {
    const Node& node = s.nodes[a];
    const int64_t r = row(s.block, node.t);
    if (!data_.cost.uniform())
      sum += node.c * data_.weight_of(r) * data_.cost.of(data_.truth[r], node.label);
    else if (const Truth own = truth_at(r); node.label != own.label)
      sum += node.c * own.mistake;
  }
  return sum;
}

template <class Real>
double ChainBase<Real>::squared_norm_by_table(Scratch& s) const {
  s.tally.clear();
  apply(s, Count(s.tally), 1.0);
  return s.tally.squared_norm();
}

template <class Real>
double ChainBase<Real>::dot(int64_t block, int t, int q, int label) const {
  if (gram_.empty() || length(block) > longest_gram)
    return data_.nodes.dot(row(block, t), row(block, q), label);
  float& known = gram_[first_pair_[block] + static_cast<size_t>(q) * (q - 1) / 2 + t];
  if (known != known) known = static_cast<float>(data_.nodes.dot(row(block, t), row(block, q), label));
  return known;
}

template <class Real>
template <class Target>
void ChainBase<Real>::apply(const Scratch& s, Target W, double c) const {
  for (size_t a = 0; a < s.nodes.size(); ++a) {
    const Node& p = s.nodes[a];
    if (a + 1 < s.nodes.size() && s.nodes[a + 1].t == p.t && s.nodes[a + 1].c == -p.c) {
      const int other = s.nodes[++a].label;
      data_.nodes.add_two(row(s.block, p.t), W, stride_, p.label, other, c * p.c);
    } else {
      data_.nodes.add_column(row(s.block, p.t), W, stride_, p.label, c * p.c);
    }
  }
  Target A = W + transitions_;
  for (size_t a = 0; a < s.edges.size(); ++a)
    A[s.edges[a].key] += static_cast<number_at<Target>>(c * s.edges[a].c);
}

template <class Real>
void ChainBase<Real>::shift(Scratch& s, double c) const {
  const auto at = [&](int t) {
    Real* u = local(s, t);
    for (size_t a = 0; a < s.nodes.size(); ++a) {
      const Node& p = s.nodes[a];
      const double inner = p.t == t ? data_.nodes.norm(row(s.block, t), p.label)
                                    : dot(s.block, std::min(p.t, t), std::max(p.t, t), p.label);
      u[p.label] += static_cast<Real>(c * p.c * inner);
    }
  };
  if (s.partial)
    for (int t : s.positions) at(t);
  else
    for (int t = 0; t < length(s.block); ++t) at(t);
}

template <class Real>
void ChainBase<Real>::list_losses(int64_t block, Violators& sums) const {
  sums.loss.resize(static_cast<size_t>(length(block)) * K_);
  for (int t = 0; t < length(block); ++t)
    for (int k = 0; k < K_; ++k) {
      const int64_t r = row(block, t);
      sums.loss[static_cast<size_t>(t) * K_ + k] = data_.weight_of(r) * data_.cost.of(data_.truth[r], k);
    }
}

// Distributions over the labellings: potentials of positions and transitions, and their expectations
// (SumsAll).

template <class Real>
void ChainBase<Real>::list_potentials(Scratch& s, const Real* W, Real* theta) const {
  const int T = length(s.block);
  const Real* A = W + transitions_;
  Real* last = theta + static_cast<size_t>(T - 1) * stride_;
  std::copy_n(s.local.data(), static_cast<size_t>(T) * stride_, theta);
  std::copy_n(A, static_cast<size_t>(K_) * stride_, last + stride_);
  for (int k = 0; data_.start && k < K_; ++k) theta[k] += A[edge(K_, k)];
  for (int k = 0; data_.end && k < K_; ++k) last[k] += A[edge(K_ + 1, k)];
}

template <class Real>
ForwardBackward<Real>& ChainBase<Real>::sums_of(Scratch& s) {
  if (!s.sums) s.sums = std::make_shared<ForwardBackward<Real>>();
  return *s.sums;
}

template <class Real>
void ChainBase<Real>::draw(Scratch& s, int64_t block, const Real*, const double* chance, int32_t* y) const {
  sums_of(s).draw(chance, length(block), y);
}

template <class Real>
const Real* ChainBase<Real>::with_ends(Scratch& s, int64_t block, const Real* theta) const {
  if (!penalty_) return theta;
  const size_t nodes = static_cast<size_t>(length(block)) * stride_;
  s.nodes_with_ends.assign(theta, theta + nodes);
  Real *first = s.nodes_with_ends.data(), *last = first + nodes - stride_;
  for (int k = 0; k < K_; ++k) first[k] += penalty(edge(K_, k)), last[k] += penalty(edge(K_ + 1, k));
  return first;
}

template <class Real>
double ChainBase<Real>::distribute(Scratch& s, int64_t block, const Real* theta, Real* m) const {
  const int T = length(block);
  const size_t nodes = static_cast<size_t>(T) * stride_;
  const Real* penalty = penalty_ ? penalty_->data() : nullptr;
  return sums_of(s).run(T, K_, stride_, with_ends(s, block, theta), theta + nodes, penalty, 0, m,
                        m ? m + nodes : nullptr);
}

template <class Real>
void ChainBase<Real>::subtract_truth(int64_t block, Real* m) const {
  const int T = length(block);
  const int32_t* y = data_.truth.data() + row(block, 0);
  Real* E = m + static_cast<size_t>(T) * stride_;
  for (int t = 0; t < T; ++t) m[static_cast<size_t>(t) * stride_ + y[t]] -= 1;
  for (int t = 1; t < T; ++t) E[edge(y[t - 1], y[t])] -= 1;
}

template <class Real>
double ChainBase<Real>::expected_loss(int64_t block, const Real* m) const {
  double sum = 0;
  for (int t = 0; t < length(block); ++t, m += stride_) {
    const int64_t r = row(block, t);
    double own = 0;
    for (int k = 0; k < K_; ++k) own += m[k] * data_.cost.of(data_.truth[r], k);
    sum += data_.weight_of(r) * own;
  }
  return sum;
}

template <class Real>
double ChainBase<Real>::add_expected(Scratch&, int64_t block, const Real* m, Real* W, double c) const {
  const int T = length(block);
  const Real factor = static_cast<Real>(c);
  Real* A = W + transitions_;
  double sum = 0;
  for (int t = 0; t < T; ++t)
    sum += data_.nodes.add_measured(row(block, t), W, stride_, m + static_cast<size_t>(t) * stride_, factor);
  if (data_.start) sum += add_counted(A + edge(K_, 0), m, stride_, factor);
  if (data_.end)
    sum += add_counted(A + edge(K_ + 1, 0), m + static_cast<size_t>(T - 1) * stride_, stride_, factor);
  if (T > 1) sum += add_counted(A, m + static_cast<size_t>(T) * stride_, K_ * stride_, factor);
  return sum;
}

template class ChainBase<float>;
template class ChainBase<double>;
template void ChainBase<float>::pack(const double*, float*, int) const;
template void ChainBase<float>::pack(const double*, double*, int) const;
template void ChainBase<double>::pack(const double*, double*, int) const;
template void ChainBase<float>::unpack(const float*, double*, int) const;
template void ChainBase<float>::unpack(const double*, double*, int) const;
template void ChainBase<double>::unpack(const double*, double*, int) const;
template void ChainBase<float>::apply(const Scratch&, float*, double) const;
template void ChainBase<float>::apply(const Scratch&, double*, double) const;
template void ChainBase<float>::apply(const Scratch&, Gather, double) const;
template void ChainBase<double>::apply(const Scratch&, double*, double) const;
template void ChainBase<double>::apply(const Scratch&, Gather, double) const;

}  // namespace mm
