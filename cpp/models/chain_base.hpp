// The part of chains that does not depend on the label type: data, weights, local scores, moves (chain.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/chain_sums.hpp"
#include "models/costs.hpp"
#include "models/node_weights.hpp"

namespace mm {

template <class Real>
class ForwardBackward;

struct ChainData {
  NodeWeights nodes;
  int labels = 0;
  bool start = false, end = false;
  std::vector<int64_t> offsets;     // rows of sequence i: offsets[i] .. offsets[i + 1]
  std::vector<int32_t> truth;       // a label for each row
  std::vector<double> node_weight;  // for each row, 1 / T if the loss is a mean; empty: all are one
  Costs cost;
  bool many = false;  // many labels: the argmax follows the nonzero transitions (LargeChain)
  // Illegal pairs of labels, previous * K + next; as `previous`, K means the start and K + 1 the end. `fixed`
  // has the label that a prediction must have in each row, or -1; it is empty if no label is fixed.
  std::vector<int64_t> illegal = {};
  std::vector<int32_t> fixed = {};
  int64_t blocks() const { return static_cast<int64_t>(offsets.size()) - 1; }
  double weight_of(int64_t row) const { return node_weight.empty() ? 1 : node_weight[row]; }
  // The least of sum_i mass_i Delta_i(y_i) over outputs y_i that have the same label everywhere.
  double least_constant_loss(const double* mass) const;
  int64_t dimension() const {
    const int64_t K = labels;
    return nodes.dimension(labels) + K * K + (start ? K : 0) + (end ? K : 0);
  }
};

// A vector whose pushes do not check its size: `clear` makes it large enough once per move.
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

// W += c x for n numbers, a multiple of the vector width. Returns the change of |W|^2.
template <class Real>
double add_counted(Real* W, const Real* x, size_t n, Real c) {
  constexpr size_t lanes = Vector<Real>::lanes;
  WideSum<Real> sum;
  for (size_t k = 0; k < n; k += lanes) {
    const vec<Real> old = load(W + k), d = broadcast(c) * load(x + k);
    sum.add(d * (old + old + d));
    store(W + k, old + d);
  }
  return sum.total();
}

template <class Real_>
class ChainBase {
 public:
  using Real = Real_;
  using Data = ChainData;

  struct Node {
    int t, label;
    double c;
  };
  struct Edge {
    int64_t key;  // previous * stride + next
    double c;
  };
  // |sum_a c_a e_key(a)|^2
  static double squared_norm_of(const Stack<Edge>& edges) {
    double sum = 0;
    for (size_t a = 0; a < edges.size(); ++a) {
      double inner = 0;
      for (size_t b = 0; b < a; ++b) inner += edges[a].key == edges[b].key ? edges[b].c : 0.0;
      sum += edges[a].c * (edges[a].c + 2 * inner);
    }
    return sum;
  }
  struct Scratch {
    aligned<Real> local;          // U with the loss, T x stride
    aligned<Real> forward;        // best score of a prefix that ends in a label
    aligned<Real> arrivals;       // `forward` without the local score of that label
    aligned<Real> legal;          // transitions and ends with penalties, if some are illegal
    std::vector<int> positions;   // partial opening: where outputs differ
    std::vector<int> moved;       // partial opening: where outputs differ here or one position before
    std::vector<int> path;        // the best labelling
    std::vector<double> counted;  // slack rescaling: `forward` by the number of mistakes
    Tally tally;                  // buffer for the norm of a long move
    Stack<Node> nodes;
    Stack<Edge> edges;
    std::shared_ptr<ForwardBackward<Real>> sums;  // made when first needed
    aligned<Real> nodes_with_ends;  // potentials with penalties, if some starts or ends are illegal
    const Real* weights = nullptr;
    int64_t block = 0;
    bool partial = false;
  };

  explicit ChainBase(const Data& data);

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return static_cast<size_t>(transitions_) + static_cast<size_t>(K_ + 2) * stride_; }
  size_t coefficients() const {
    return data_.nodes.features->gram ? static_cast<size_t>(transitions_) / 2 : 0;
  }
  int output_size(int64_t block) const { return length(block); }
  Scratch scratch() const;
  template <class To>
  void pack(const double* flat, To* W, int threads = 1) const;
  template <class From>
  void unpack(const From* W, double* flat, int threads = 1) const;
  // The same, and frees the memory of W on the way, so that both are never in memory as a whole.
  void unpack_spent(double* W, double* flat, int threads) const;
  void prefetch_view(int64_t block) const;
  void prefetch(int64_t block) const;
  void prepare();  // allocates the cache of inner products of positions, for solvers that measure many moves

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const;
  double squared_norm(Scratch& s) const;
  double loss_of_move(const Scratch& s) const;  // sum_j c_j Delta(y_j); the c_j sum to zero
  // W += c * move
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const;
  // Updates the local scores of the open block after W += c * move. The scores of transitions are read from W
  // itself.
  void shift(Scratch& s, double c) const;

  bool slack_argmax() const { return counts_; }
  // Lists violators only if the table of all transitions is small enough to copy.
  std::unique_ptr<Violators> lister() const { return K_ <= 4096 ? std::make_unique<ChainSums>() : nullptr; }
  void list_losses(int64_t block, Violators& sums) const;

  // Sums over all labellings (SumsAll). There is a row of potentials for each position, which includes the
  // scores of start and end, then the table of the transitions. Illegal labellings have probability zero,
  // whatever their potentials.
  int row_labels() const { return K_; }
  int row_stride() const { return stride_; }
  int64_t potentials(int64_t block) const { return length(block) + K_; }
  void list_potentials(Scratch& s, const Real* W, Real* theta) const;
  double distribute(Scratch& s, int64_t block, const Real* theta, Real* m) const;
  void subtract_truth(int64_t block, Real* m) const;
  double expected_loss(int64_t block, const Real* m) const;
  double add_expected(Scratch& s, int64_t block, const Real* m, Real* W, double c) const;
  void draw(Scratch& s, int64_t block, const Real* m, const double* chance, int32_t* y) const;

 protected:
  const Data& data_;
  int K_, stride_;
  int64_t transitions_;  // offset of the transition rows
  int longest_ = 0;
  bool counts_ = false;
  // Whether W is larger than 16 MB, and so than most caches. Then its rows are prefetched; for a smaller W
  // prefetching only costs time.
  bool far_ = false;
  aligned<Real> cost_;
  // If all mistakes at a row cost the same: this cost, and the true label. The table exists only if positions
  // have weights. Without them two look-ups are enough, and the table would take more memory than the labels.
  struct Truth {
    Real mistake;
    int32_t label;
  };
  std::vector<Truth> truths_;
  Truth truth_at(int64_t r) const {
    if (!truths_.empty()) return truths_[r];
    const int32_t label = data_.truth[r];
    return {static_cast<Real>(data_.weight_of(r) * data_.cost.mistake(label)), label};
  }
  // The penalties of transitions and ends, in their layout: -infinity if illegal, else 0. Null if all are
  // legal; copies of a structure share it.
  std::shared_ptr<const aligned<Real>> penalty_;
  // A cache of <x_t, x_q> for pairs of positions of a sequence, each computed when first needed. Sequences
  // above `longest_gram` are not cached: the memory is quadratic in the length.
  static constexpr int longest_gram = 128;
  size_t pairs_ = 0;
  mutable std::vector<float> gram_;
  std::vector<size_t> first_pair_;

  // Above this number of nodes n, squared_norm adds up the move in a table, at the cost of n rows. Below, it takes
  // n^2 / 2 inner products of pairs, which is faster for few nodes because the table causes cache misses.
  static constexpr size_t many_nodes = 48;

  // Returns transitions and ends as an argmax reads them: one row for each previous label, then the rows of
  // start and end.
  const Real* legal_pairs(Scratch& s, const Real* W) const;
  bool has_start() const { return data_.start || penalty_; }
  bool has_end() const { return data_.end || penalty_; }
  Real penalty(int64_t edge) const { return penalty_ ? (*penalty_)[edge] : Real(0); }

  // Returns the potentials of positions plus the penalties of the ends.
  const Real* with_ends(Scratch& s, int64_t block, const Real* theta) const;
  static ForwardBackward<Real>& sums_of(Scratch& s);

  // Viterbi with additions and maxima only: the way back searches each predecessor again, and tries the true
  // label first, which is the most likely one. In predictions, without true labels, it tries label 0 first.
  // The table at `pairs + t * step` scores the labels of positions t - 1 and t.
  const std::vector<int>& best_path(Scratch& s, const Real* A, const Real* pairs, size_t step) const;
  void row_scores(int64_t r, const Real* W, Real* u, bool augmented, Real scale,
                  uint64_t wanted = ~uint64_t(0)) const;
  // Prefetches what the scores of a row, or a move there, will read.
  void prefetch_row(int64_t r, const Real* W, Stage stage) const {
    const Features& features = *data_.nodes.features;
    if (stage == Stage::views) return features.prefetch_view(r);
    if (stage == Stage::rows) return features.prefetch(r);
    data_.nodes.prefetch_weights(r, W, stride_);
  }
  double dot(int64_t block, int t, int q, int label) const;  // t < q

  int length(int64_t block) const {
    return static_cast<int>(data_.offsets[block + 1] - data_.offsets[block]);
  }
  int64_t row(int64_t block, int t) const { return data_.offsets[block] + t; }
  int64_t edge(int previous, int next) const { return static_cast<int64_t>(previous) * stride_ + next; }
  Real* local(Scratch& s, int t) const { return s.local.data() + static_cast<size_t>(t) * stride_; }

 private:
  bool counts_mistakes() const;
  void read_illegal();
  void read_truths();
  double squared_norm_by_table(Scratch& s) const;
  int predecessor(const Real* from, const Real* column, Real best, int likely) const;
  // Calls f(inside, outside) for every weight; each thread has its own copy of f.
  template <class F>
  void each_weight(int threads, const F& f) const;
};

extern template class ChainBase<float>;
extern template class ChainBase<double>;

}  // namespace mm
