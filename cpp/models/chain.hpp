// Chain: a label for each position of a sequence, scored by position and by neighbouring labels.
//
//   <w, Psi(x, y)> = sum_t <w_{y_t}, x_t> + sum_{t>0} A[y_{t-1}, y_t] (+ start[y_0] + end[y_{T-1}])
//   Delta_i(y)     = sum_t node_weight_t * cost[y_it, y_t]
//
// A visit computes the local scores U = X_i W once; then a labelling is scored by T look-ups, and a move
// between labellings is a short list of (position, label, coefficient) and of transitions, from which both
// its squared norm and the update of W follow. Weights inside: feature-major rows of `stride` reals, then a
// row for each previous label, then the rows `start` and `end`. Weights outside (flat): unary (K, d), transitions
// (K, K), start (K) and end (K) where the model has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "features.hpp"
#include "models/chain_search.hpp"
#include "models/chain_sums.hpp"
#include "models/costs.hpp"

namespace mm {

struct ChainData {
  const Features* features = nullptr;
  int labels = 0;
  bool start = false, end = false;
  std::vector<int64_t> offsets;     // rows of sequence i: offsets[i] .. offsets[i + 1]
  std::vector<int32_t> truth;       // a label for each row
  std::vector<double> node_weight;  // for each row; 1 / T where the loss is a mean
  Costs cost;
  bool many = false;  // labels: the argmax follows the transitions that are not zero (LargeChain)
  int64_t blocks() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t dimension() const {
    const int64_t K = labels;
    return features->width() * K + K * K + (start ? K : 0) + (end ? K : 0);
  }
};

// out = max_j (from[j] + A[j, :]) for N vectors of columns.
template <class Real, int N>
inline void max_plus(const Real* from, const Real* A, int stride, int rows, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> top[N];
  for (int n = 0; n < N; ++n) top[n] = broadcast(from[0]) + load(A + n * lanes);
  for (int j = 1; j < rows; ++j) {
    const vec<Real> f = broadcast(from[j]);
    const Real* a = A + static_cast<int64_t>(j) * stride;
    for (int n = 0; n < N; ++n) top[n] = maximum(top[n], f + load(a + n * lanes));
  }
  for (int n = 0; n < N; ++n) store(out + n * lanes, top[n]);
}

// A vector whose pushes do not check its size: it is made large enough once per move.
template <class T>
class Stack {
 public:
  void clear(size_t most) {
    if (items_.size() < most) items_.resize(most);
    size_ = 0;
  }
  void push(const T& item) { items_[size_++] = item; }
  void drop_to(size_t size) { size_ = size; }
  size_t size() const { return size_; }
  T& operator[](size_t k) { return items_[k]; }
  const T& operator[](size_t k) const { return items_[k]; }

 private:
  std::vector<T> items_;
  size_t size_ = 0;
};

template <class Real_, class Label_>
class Chain {
 public:
  using Real = Real_;
  using Label = Label_;
  using Data = ChainData;
  static constexpr bool given_planes = false;

  struct Node {
    int t, label;
    double c;
  };
  struct Edge {
    int64_t key;  // previous * stride + next
    double c;
  };
  struct Scratch {
    aligned<Real> local;    // U with the loss, T x stride
    aligned<Real> forward;  // best score of a prefix that ends in a label
    std::vector<int> positions;
    std::vector<double> counted;  // slack rescaling: the same with the number of mistakes
    std::vector<double> table;    // a long move as a dense vector; zero between uses
    Stack<Node> nodes;
    Stack<Edge> edges;
    const Real* weights = nullptr;
    int64_t block = 0;
    bool partial = false;
  };

  explicit Chain(const Data& data)
      : data_(data),
        K_(data.labels),
        stride_(padded<Real>(data.labels)),
        transitions_(data.features->stored() * stride_) {
    size_t pairs = 0;
    for (int64_t i = 0; i < data.blocks(); ++i) {
      longest_ = std::max(longest_, length(i));
      first_pair_.push_back(pairs);
      if (length(i) <= longest_gram) pairs += static_cast<size_t>(length(i)) * (length(i) - 1) / 2;
    }
    pairs_ = pairs;
    cost_.assign(data.cost.uniform() ? 0 : static_cast<size_t>(K_) * stride_, 0);
    for (int a = 0; a < K_ && !data.cost.uniform(); ++a)
      for (int b = 0; b < K_; ++b)
        cost_[static_cast<size_t>(a) * stride_ + b] = static_cast<Real>(data.cost.of(a, b));
    counts_ = counts_mistakes();
  }

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  bool valid(int64_t block, const Label* y) const {
    return std::all_of(y, y + length(block), [&](Label k) { return k >= 0 && k < K_; });
  }
  size_t weights() const { return static_cast<size_t>(transitions_) + static_cast<size_t>(K_ + 2) * stride_; }
  size_t coefficients() const { return data_.features->gram ? static_cast<size_t>(transitions_) / 2 : 0; }
  int output_size(int64_t block) const { return length(block); }
  Scratch scratch() const {
    const size_t table = static_cast<size_t>(longest_) * stride_;
    Scratch s;
    s.local.resize(table);
    s.forward.resize(table);
    return s;
  }

  template <class To>
  void pack(const double* flat, To* W) const {
    each_weight([&](size_t inside, size_t outside) { W[inside] = static_cast<To>(flat[outside]); });
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    each_weight([&](size_t inside, size_t outside) { flat[outside] = W[inside]; });
  }

  // Space for inner products of positions, for those who measure many moves.
  void prepare() { gram_.assign(pairs_, std::numeric_limits<float>::quiet_NaN()); }

  void truth(int64_t block, Label* y) const {
    for (int t = 0; t < length(block); ++t) y[t] = static_cast<Label>(data_.truth[row(block, t)]);
  }
  double loss(int64_t block, const Label* y) const {
    double sum = 0;
    for (int t = 0; t < length(block); ++t) {
      const int64_t r = row(block, t);
      sum += data_.node_weight[r] * data_.cost.of(data_.truth[r], y[t]);
    }
    return sum;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    s.block = block;
    s.partial = false;
    for (int t = 0; t < length(block); ++t) local_scores(block, t, W, s, augmented, loss_scale);
    s.weights = W;
  }

  // Local scores at the positions where the n outputs do not agree: enough to compare them.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n) const {
    open_positions(block, W, s, outputs, n, [&](int t) { local_scores(block, t, W, s, true, 1); });
  }

  // s_i(y) up to a constant of the block (and, after a partial opening, of the compared outputs).
  double score(const Scratch& s, const Label* y) const {
    const int T = length(s.block);
    const Real* A = s.weights + transitions_;
    double sum = 0;
    if (!s.partial) {
      sum = s.local[y[0]];
      for (int t = 1; t < T; ++t)
        sum +=
            static_cast<double>(s.local[static_cast<size_t>(t) * stride_ + y[t]]) + A[edge(y[t - 1], y[t])];
      return sum + ends(A, y, T);
    }
    int scored = 0;  // transitions into positions before this one are counted
    for (int t : s.positions) {
      sum += s.local[static_cast<size_t>(t) * stride_ + y[t]];
      if (t > 0 && t >= scored) sum += A[edge(y[t - 1], y[t])];
      if (t + 1 < T) sum += A[edge(y[t], y[t + 1])];
      scored = t + 2;
    }
    return sum + ends(A, y, T);
  }

  // Viterbi: additions and maxima only; the labels are found again on the way back.
  double best(Scratch& s, const Real* W, Label* y) const {
    const int T = length(s.block);
    const Real* A = W + transitions_;
    Real* F = s.forward.data();
    std::memcpy(F, s.local.data(), sizeof(Real) * stride_);
    if (data_.start)
      for (int k = 0; k < stride_; ++k) F[k] += A[edge(K_, k)];
    for (int t = 1; t < T; ++t) advance(F + static_cast<size_t>(t - 1) * stride_, A, s.local.data(), t, F);
    Real* last = F + static_cast<size_t>(T - 1) * stride_;
    if (data_.end)
      for (int k = 0; k < stride_; ++k) last[k] += A[edge(K_ + 1, k)];
    int top = static_cast<int>(std::max_element(last, last + K_) - last);
    y[T - 1] = static_cast<Label>(top);
    for (int t = T - 1; t > 0; --t) {
      top = predecessor(F + static_cast<size_t>(t - 1) * stride_, A + top);
      y[t - 1] = static_cast<Label>(top);
    }
    return score(s, y);
  }

  bool slack_argmax() const { return counts_; }

  // argmax_y Delta(y) (score(y) + shift) for a loss that counts mistakes, each of one cost.
  void best_slack(Scratch& s, const Real* W, double shift, const Label* truth, Label* y) const {
    const int T = length(s.block);
    const std::vector<int32_t> known(truth, truth + T);
    std::vector<int32_t> found = known;
    best_by_mistakes(scores(s, W), data_.node_weight[row(s.block, 0)], shift, known, s.counted, found);
    std::copy(found.begin(), found.end(), y);
  }

  bool same(int64_t block, const Label* a, const Label* b) const {
    return std::memcmp(a, b, sizeof(Label) * length(block)) == 0;
  }

  // move = Psi(x, plus) - Psi(x, minus)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    const int T = length(block);
    s.block = block;
    s.nodes.clear(2 * static_cast<size_t>(T));
    s.edges.clear(2 * static_cast<size_t>(T) + 4);
    bool before = false;
    for (int t = 0; t < T; ++t) {
      const bool here = plus[t] != minus[t];
      if (here) {
        s.nodes.push({t, plus[t], 1.0});
        s.nodes.push({t, minus[t], -1.0});
      }
      if (t > 0 && (here || before)) {
        s.edges.push({edge(plus[t - 1], plus[t]), 1.0});
        s.edges.push({edge(minus[t - 1], minus[t]), -1.0});
      }
      before = here;
    }
    if (data_.start && plus[0] != minus[0]) {
      s.edges.push({edge(K_, plus[0]), 1.0});
      s.edges.push({edge(K_, minus[0]), -1.0});
    }
    if (data_.end && before) {
      s.edges.push({edge(K_ + 1, plus[T - 1]), 1.0});
      s.edges.push({edge(K_ + 1, minus[T - 1]), -1.0});
    }
  }

  // move = sum_j c_j Psi(x, y_j), where the c_j sum to zero: positions on which all agree drop out.
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    const int T = length(block);
    s.block = block;
    s.nodes.clear(static_cast<size_t>(T) * n);
    s.edges.clear(static_cast<size_t>(T + 2) * n);
    for (int t = 0; t < T; ++t) {
      const size_t nodes = s.nodes.size(), edges = s.edges.size();
      for (int j = 0; j < n; ++j) {
        if (c[j] == 0) continue;
        const Label* y = outputs + static_cast<size_t>(j) * T;
        gather_node(s, nodes, t, y[t], c[j]);
        if (t > 0) gather_edge(s, edges, edge(y[t - 1], y[t]), c[j]);
        if (data_.start && t == 0) gather_edge(s, edges, edge(K_, y[t]), c[j]);
        if (data_.end && t == T - 1) gather_edge(s, edges, edge(K_ + 1, y[t]), c[j]);
      }
      if (s.nodes.size() == nodes + 1) s.nodes.drop_to(nodes);
      if (s.edges.size() == edges + 1) s.edges.drop_to(edges);
    }
  }

  double squared_norm(Scratch& s) const {
    if (s.nodes.size() > many_nodes && !data_.features->gram) return squared_norm_by_table(s);
    double sum = 0;
    for (size_t a = 0; a < s.nodes.size(); ++a) {
      const Node& p = s.nodes[a];
      const int64_t r = row(s.block, p.t);
      double inner = 0;
      for (size_t b = 0; b < a; ++b) {
        const Node& q = s.nodes[b];
        if (p.label == q.label && p.t != q.t) inner += q.c * dot(s.block, q.t, p.t);
      }
      sum += p.c * (p.c * data_.features->norms[r] + 2 * inner);
    }
    for (size_t a = 0; a < s.edges.size(); ++a) {
      const Edge& p = s.edges[a];
      double inner = 0;
      for (size_t b = 0; b < a; ++b) inner += p.key == s.edges[b].key ? s.edges[b].c : 0.0;
      sum += p.c * (p.c + 2 * inner);
    }
    return sum;
  }

  // W += c * move
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    for (size_t a = 0; a < s.nodes.size(); ++a) {
      const Node& p = s.nodes[a];
      if (a + 1 < s.nodes.size() && s.nodes[a + 1].t == p.t && s.nodes[a + 1].c == -p.c) {
        const int other = s.nodes[++a].label;
        data_.features->add_pair(row(s.block, p.t), W, stride_, p.label, other, c * p.c);
      } else {
        data_.features->add_column(row(s.block, p.t), W, stride_, p.label, c * p.c);
      }
    }
    Target A = W + transitions_;
    for (size_t a = 0; a < s.edges.size(); ++a)
      A[s.edges[a].key] += static_cast<number_at<Target>>(c * s.edges[a].c);
  }

  // The local scores of the open block after W += c * move; those of transitions are read off W itself.
  void shift(Scratch& s, double c) const {
    const auto at = [&](int t) {
      Real* u = s.local.data() + static_cast<size_t>(t) * stride_;
      for (size_t a = 0; a < s.nodes.size(); ++a) {
        const Node& p = s.nodes[a];
        const double inner = p.t == t ? static_cast<double>(data_.features->norms[row(s.block, t)])
                                      : dot(s.block, std::min(p.t, t), std::max(p.t, t));
        u[p.label] += static_cast<Real>(c * p.c * inner);
      }
    };
    if (s.partial)
      for (int t : s.positions) at(t);
    else
      for (int t = 0; t < length(s.block); ++t) at(t);
  }

  // Whether a table of all transitions may be copied.
  bool can_list() const { return K_ <= 4096; }
  // All that scores a labelling of the open block.
  void list_scores(Scratch& s, ChainSums& sums) const {
    sums.read(scores(s, s.weights), data_.truth.data() + row(s.block, 0));
  }
  void list_losses(int64_t block, ChainSums& sums) const {
    sums.loss.resize(static_cast<size_t>(length(block)) * K_);
    for (int t = 0; t < length(block); ++t)
      for (int k = 0; k < K_; ++k) {
        const int64_t r = row(block, t);
        sums.loss[static_cast<size_t>(t) * K_ + k] = data_.node_weight[r] * data_.cost.of(data_.truth[r], k);
      }
  }

  void best_k(Scratch& s, const Real* W, int k, std::vector<Label>& y, std::vector<double>& values) const {
    best_labellings(scores(s, W), k, y, values);
  }

 protected:
  // Whether the loss of every sequence is a number of mistakes times one cost.
  bool counts_mistakes() const {
    for (int a = 0; a < K_; ++a)
      for (int b = 0; b < (data_.cost.uniform() ? 1 : K_); ++b)
        if (data_.cost.uniform() ? data_.cost.mistake(a) != 1 : data_.cost.of(a, b) != (a == b ? 0 : 1))
          return false;
    for (int64_t i = 0; i < blocks(); ++i)
      for (int t = 1; t < length(i); ++t)
        if (data_.node_weight[row(i, t)] != data_.node_weight[row(i, 0)]) return false;
    return true;
  }

  const Data& data_;
  int K_, stride_;
  int64_t transitions_;  // where the transition rows begin
  int longest_ = 0;
  bool counts_ = false;
  aligned<Real> cost_;
  // <x_t, x_q> of pairs of positions of a sequence, each computed when first asked for.
  static constexpr int longest_gram = 128;
  size_t pairs_ = 0;
  mutable std::vector<float> gram_;
  std::vector<size_t> first_pair_;

  // The pairs of a move of n nodes are n^2 / 2; a table costs n rows, but lies far from the cache.
  static constexpr size_t many_nodes = 48;

  double squared_norm_by_table(Scratch& s) const {
    if (s.table.empty()) s.table.assign(weights(), 0);
    apply(s, s.table.data(), 1.0);
    double sum = 0;
    for (size_t a = 0; a < s.nodes.size(); ++a)  // each entry counts once
      data_.features->take_squares(row(s.block, s.nodes[a].t), s.table.data() + s.nodes[a].label, stride_,
                                   sum);
    for (size_t a = 0; a < s.edges.size(); ++a) {
      double& x = s.table[transitions_ + s.edges[a].key];
      sum += x * x, x = 0;
    }
    return sum;
  }

  double dot(int64_t block, int t, int q) const {  // t < q
    if (gram_.empty() || length(block) > longest_gram)
      return data_.features->dot(row(block, t), row(block, q));
    float& known = gram_[first_pair_[block] + static_cast<size_t>(q) * (q - 1) / 2 + t];
    if (known != known) known = static_cast<float>(data_.features->dot(row(block, t), row(block, q)));
    return known;
  }

  int length(int64_t block) const {
    return static_cast<int>(data_.offsets[block + 1] - data_.offsets[block]);
  }
  int64_t row(int64_t block, int t) const { return data_.offsets[block] + t; }
  int64_t edge(int previous, int next) const { return static_cast<int64_t>(previous) * stride_ + next; }

  SequenceScores scores(const Scratch& s, const Real* W) const {
    const Real* A = W + transitions_;
    return {length(s.block),
            K_,
            stride_,
            s.local.data(),
            A,
            data_.start ? A + edge(K_, 0) : nullptr,
            data_.end ? A + edge(K_ + 1, 0) : nullptr};
  }
  double ends(const Real* A, const Label* y, int T) const {
    double sum = 0;
    if (data_.start) sum += A[edge(K_, y[0])];
    if (data_.end) sum += A[edge(K_ + 1, y[T - 1])];
    return sum;
  }

  // A partial opening: calls score(t) for the positions where the n outputs do not agree.
  template <class Score>
  void open_positions(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n,
                      Score&& score) const {
    const int T = length(block);
    s.block = block;
    s.partial = true;
    s.weights = W;
    s.positions.clear();
    for (int t = 0; t < T; ++t) {
      bool different = false;
      for (int j = 1; j < n; ++j) different |= outputs[static_cast<size_t>(j) * T + t] != outputs[t];
      if (!different) continue;
      s.positions.push_back(t);
      score(t);
    }
  }
  void local_scores(int64_t block, int t, const Real* W, Scratch& s, bool augmented, Real scale) const {
    row_scores(row(block, t), W, s.local.data() + static_cast<size_t>(t) * stride_, augmented, scale);
  }
  void row_scores(int64_t r, const Real* W, Real* u, bool augmented, Real scale) const {
    if (augmented && data_.cost.uniform()) {
      const double cost = data_.node_weight[r] * data_.cost.mistake(data_.truth[r]);
      std::fill(u, u + stride_, scale * static_cast<Real>(cost));
      u[data_.truth[r]] = 0;
    } else if (augmented) {
      const Real weight = scale * static_cast<Real>(data_.node_weight[r]);
      const Real* cost = &cost_[static_cast<size_t>(data_.truth[r]) * stride_];
      for (int k = 0; k < stride_; ++k) u[k] = weight * cost[k];
    } else {
      std::memset(u, 0, sizeof(Real) * stride_);
    }
    data_.features->add_scores(r, W, stride_, u);
  }

  void advance(const Real* from, const Real* A, const Real* local, int t, Real* F) const {
    Real* to = F + static_cast<size_t>(t) * stride_;
    by_vectors<Real>(
        stride_, [&]<int N>(int column) { max_plus<Real, N>(from, A + column, stride_, K_, to + column); });
    const Real* u = local + static_cast<size_t>(t) * stride_;
    for (int k = 0; k < stride_; ++k) to[k] += u[k];
  }

  int predecessor(const Real* from, const Real* column) const {
    int top = 0;
    Real value = from[0] + column[0];
    for (int j = 1; j < K_; ++j) {
      const Real x = from[j] + column[static_cast<int64_t>(j) * stride_];
      if (x > value) value = x, top = j;
    }
    return top;
  }

  static void gather_node(Scratch& s, size_t first, int t, int label, double c) {
    for (size_t a = first; a < s.nodes.size(); ++a)
      if (s.nodes[a].label == label) return void(s.nodes[a].c += c);
    s.nodes.push({t, label, c});
  }
  static void gather_edge(Scratch& s, size_t first, int64_t key, double c) {
    for (size_t a = first; a < s.edges.size(); ++a)
      if (s.edges[a].key == key) return void(s.edges[a].c += c);
    s.edges.push({key, c});
  }
  template <class F>
  void each_weight(F&& f) const {
    const int64_t d = data_.features->width();
    const int64_t K = K_;
    for (int64_t j = 0; j < d; ++j)
      for (int64_t k = 0; k < K; ++k) f(j * stride_ + k, k * d + j);
    size_t outside = static_cast<size_t>(d * K);
    for (int64_t previous = 0; previous < K; ++previous)
      for (int64_t next = 0; next < K; ++next) f(transitions_ + previous * stride_ + next, outside++);
    for (int64_t k = 0; data_.start && k < K; ++k) f(transitions_ + K * stride_ + k, outside++);
    for (int64_t k = 0; data_.end && k < K; ++k) f(transitions_ + (K + 1) * stride_ + k, outside++);
  }
};

}  // namespace mm
