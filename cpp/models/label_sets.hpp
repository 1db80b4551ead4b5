// Sets of labels: a factor graph whose nodes have two labels, off and on. Only labels that are on, and pairs
// of them, have weights. These are the same for all examples, and many pairs have one.
//
//     <w, Psi(x, y)> = sum_v y_v <w_v, x> + sum_{a < b} A_ab y_a y_b
//
// Few labels are on, so a visit compares and moves only their weights, not the tables of all links. The
// argmax is a search over sets (set_search.hpp). If a proof is wanted and the search is cut short, the argmax
// of factor graphs continues. W has the weights of labels feature-major, then A as the upper half of a
// square. The flat weights are as in factor_graph.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "models/factor_graph.hpp"
#include "models/set_search.hpp"

namespace mm {

class LabelSets : public FactorGraph {
 public:
  using Base = FactorGraph;

  struct Change {
    int32_t at;  // the label, or the index of a pair in the square
    double c;
  };
  struct Scratch : GraphFactors::Scratch {
    const double* W = nullptr;  // the weights with which the block was opened
    aligned<double> scores;     // scores of labels
    std::vector<double> gains;  // gain of turning a label on, with the loss
    double constant = 0;        // the score of the empty set
    double tolerance = 0;       // by how much a set may miss the best one in training
    double missed = 0;          // running average of how much first sets miss
    // The best of the outputs that were scored since the block was opened; a search starts with it.
    mutable std::vector<Label> known;
    mutable double known_score = 0;
    std::vector<int32_t> begin;  // its labels
    std::vector<int32_t> on, both, plus, minus;
    std::vector<Change> moved, moved_pairs;
    std::vector<double> sums;     // sums of coefficients; zero between uses
    std::vector<int32_t> second;  // labels found by the second search
    SetSearch search;
  };

  explicit LabelSets(const GraphData& data)
      : Base(data), bank_(data.banks[0]), size_(data.shapes[0].nodes()), stride_(padded<double>(size_)) {
    const Shape& g = data.shapes[0];
    square_ = bank_.inside + bank_.width() * bank_.stride;
    paired_.assign(static_cast<size_t>(size_) * stride_, 0);
    for (int l = 0; l < g.links(); ++l) paired_[place(g.a[l], g.b[l])] = 1;
    for (int v = 0; v < size_; ++v) {
      const Costs& cost = data.node_types[g.type[v]].cost;
      miss_.push_back(cost.of(1, 0)), alarm_.push_back(cost.of(0, 1));
    }
  }

  // Whether the data are of this kind: one shape, label v in column v, one weight for each pair of labels
  // that are both on.
  static bool fits(const GraphData& data) {
    if (!are_rows_of_labels(data) || data.banks.size() != 2) return false;
    const Shape& g = data.shapes[0];
    if (data.banks[1].features || data.argmax.method != Inference::automatic || g.forest ||
        !ConcaveBound::fits(g) || static_cast<int64_t>(g.edges.size()) != g.links())
      return false;
    for (const Shape::Edge& edge : g.edges) {
      const EdgeType& type = data.edge_types[edge.type];
      if (type.bank != 1 || type.column[3] < 0) return false;
      for (int pair = 0; pair < 3; ++pair)
        if (type.column[pair] != -1) return false;
    }
    return true;
  }

  size_t weights() const { return static_cast<size_t>(square_) + paired_.size(); }
  void pack(const double* flat, double* W) const {
    each_weight([&](int64_t inside, int64_t outside) { W[inside] = flat[outside]; });
  }
  void unpack(const double* W, double* flat) const {
    each_weight([&](int64_t inside, int64_t outside) { flat[outside] = W[inside]; });
  }
  Scratch scratch() const {
    Scratch s;
    s.scores.resize(bank_.stride);
    s.gains.resize(size_);
    return s;
  }

  double loss(int64_t block, const Label* y) const {
    const int64_t first = data_.node_first[block];
    double sum = 0;
    for (int v = 0; v < size_; ++v)
      if (y[v] != static_cast<Label>(data_.truth[first + v]))
        sum += (y[v] ? alarm_[v] : miss_[v]) * data_.weight[first + v];
    return sum;
  }

  void open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const {
    const int64_t first = data_.node_first[block];
    s.block = block, s.W = W, s.augmented = augmented, s.partial = false, s.constant = 0;
    s.tolerance = 0;
    s.known.clear(), s.known_score = -std::numeric_limits<double>::infinity();
    std::fill(s.scores.begin(), s.scores.end(), 0);
    bank_.features->add_scores(data_.node_row[first], W + bank_.inside, bank_.stride, s.scores.data());
    const double scale = augmented ? loss_scale : 0;
    for (int v = 0; v < size_; ++v) {
      const double weight = scale * data_.weight[first + v];
      const double missed = data_.truth[first + v] ? weight * miss_[v] : 0;
      s.constant += missed;
      s.gains[v] = s.scores[v] + (data_.truth[first + v] ? -missed : weight * alarm_[v]);
    }
  }
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }

  double score(const Scratch& s, const Label* y) const {
    const double* square = s.W + square_;
    double sum = s.constant;
    int on[ConcaveBound::most_nodes], n = 0;
    each_on(y, y, [&](int v) {
      sum += s.gains[v];
      for (int j = 0; j < n; ++j) sum += square[on[j] + v];
      on[n++] = v * stride_;
    });
    if (sum > s.known_score) s.known_score = sum, s.known.assign(y, y + size_);
    return sum;
  }

  double best(Scratch& s, const double*, Label* y) const {
    s.labels.resize(size_);
    s.begin.clear();
    if (!s.known.empty()) each_on(s.known.data(), s.known.data(), [&](int v) { s.begin.push_back(v); });
    const int64_t most = parts(s);
    double value =
        s.constant + s.search.solve(size_, s.gains.data(), s.W + square_, stride_,
                                    {most, s.prove ? s.leeway : 0}, s.begin, s.labels.data(), s.ceiling);
    if (most > 0 && !s.prove) learn(s);
    s.ceiling += s.constant;
    if (s.prove && s.search.cut_short() && !s.hurried()) value = go_on(s, value);
    std::copy(s.labels.begin(), s.labels.end(), y);
    if (s.augmented) value = at_least_truth(s, value, y);
    s.ceiling = std::max(s.ceiling, value);
    return value;
  }

  void list_scores(Scratch& s, Violators& sums) const {
    complete(s);
    Base::list_scores(s, sums);
  }

  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    s.block = block;
    s.both.clear(), s.plus.clear(), s.minus.clear();
    each_on(plus, minus, [&](int v) {
      (plus[v] == minus[v] ? s.both : plus[v] ? s.plus : s.minus).push_back(v);
    });
    s.moved.clear(), s.moved_pairs.clear();
    for (const auto& [own, c] : {std::pair(&s.plus, 1.0), std::pair(&s.minus, -1.0)})
      for (size_t j = 0; j < own->size(); ++j) {
        const int v = (*own)[j];
        s.moved.push_back({v, c});
        for (const int u : s.both) push_pair(s, u, v, c);
        for (size_t i = 0; i < j; ++i) push_pair(s, (*own)[i], v, c);
      }
  }

  // Adds up the coefficients of labels and pairs that occur in several outputs, so that each is in the move
  // once.
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.block = block;
    s.sums.resize(size_ + paired_.size());
    s.moved.clear(), s.moved_pairs.clear();
    for (int j = 0; j < n; ++j) {
      if (c[j] == 0) continue;
      const Label* y = outputs + static_cast<size_t>(j) * size_;
      s.on.clear();
      each_on(y, y, [&](int v) {
        s.moved.push_back({v, 0});
        s.sums[v] += c[j];
        for (const int u : s.on)
          if (push_pair(s, u, v, 0)) s.sums[size_ + place(u, v)] += c[j];
        s.on.push_back(v);
      });
    }
    take_sums(s.moved, s.sums.data());
    take_sums(s.moved_pairs, s.sums.data() + size_);
  }

  double squared_norm(Scratch& s) const {
    const double square = bank_.features->norms[data_.node_row[data_.node_first[s.block]]];
    double sum = 0;
    for (const Change& x : s.moved) sum += square * x.c * x.c;
    for (const Change& x : s.moved_pairs) sum += x.c * x.c;
    return sum;
  }

  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    const int64_t row = data_.node_row[data_.node_first[s.block]];
    for (const Change& x : s.moved)
      bank_.features->add_column(row, W + bank_.inside, bank_.stride, x.at, c * x.c);
    for (const Change& x : s.moved_pairs) W[square_ + x.at] += c * x.c;
  }

 private:
  using GraphFactors::data_;
  // The largest number of parts of a search: `proof` in predictions and proofs, `careful` in training. More parts
  // take longer; fewer leave more sets without a proof.
  static constexpr int64_t proof = 10'000, careful = 300;
  static constexpr int few = 14;  // with at most this many labels, a search is complete

  const Bank& bank_;
  int size_, stride_;
  int64_t square_ = 0;                // offset of the weights of pairs
  std::vector<char> paired_;          // whether an entry of the square has a weight
  std::vector<double> miss_, alarm_;  // costs of missing a label, of a wrong label

  // Calls f(v) for the labels that are on in a or in b, in order.
  template <class F>
  void each_on(const Label* a, const Label* b, F&& f) const {
    for (int first = 0; first < size_; first += 64) {
      uint64_t on = bits(a, first);
      if (b != a) on |= bits(b, first);
      for (; on; on &= on - 1) f(first + std::countr_zero(on));
    }
  }
  // Returns up to 64 labels of a set as bits. One multiplication gathers the lowest bits of the labels in
  // eight bytes.
  uint64_t bits(const Label* y, int first) const {
    constexpr int width = 8 * sizeof(Label), together = 64 / width;
    constexpr uint64_t spread = [] {
      uint64_t sum = 0;
      for (int j = 0; j < together; ++j) sum |= uint64_t{1} << (64 - together - j * (width - 1));
      return sum;
    }();
    const int n = std::min(64, size_ - first);
    uint64_t on = 0;
    int j = 0;
    for (; std::endian::native == std::endian::little && j + together <= n; j += together) {
      uint64_t word;
      std::memcpy(&word, y + first + j, sizeof word);
      on |= (word * spread) >> (64 - together) << j;
    }
    for (; j < n; ++j) on |= static_cast<uint64_t>(y[first + j]) << j;
    return on;
  }
  // The most parts of a search; 0 means only the first set. With few labels and no tolerance the search is
  // complete. In training one visit in sixteen makes a full search, and learns how much first sets miss. As
  // long as this is small compared with the tolerance, the other visits only take the first set.
  int64_t parts(Scratch& s) const {
    if (s.hurried()) return 1;
    const int64_t far = size_ <= few ? int64_t{2} << few : s.prove || !s.augmented ? proof : careful;
    if (s.prove || !s.augmented || (size_ <= few && s.tolerance == 0)) return far;
    return GraphFactors::thorough(s) || s.missed > s.tolerance / 2 ? far : 0;
  }
  static void learn(Scratch& s) { s.missed += (s.search.gained() - s.missed) / 16; }
  int32_t place(int a, int b) const { return std::min(a, b) * stride_ + std::max(a, b); }
  bool push_pair(Scratch& s, int a, int b, double c) const {
    const int32_t at = place(a, b);
    if (paired_[at]) s.moved_pairs.push_back({at, c});
    return paired_[at];
  }
  static void take_sums(std::vector<Change>& moved, double* sums) {
    for (Change& x : moved) x.c = sums[x.at], sums[x.at] = 0;
    std::erase_if(moved, [](const Change& x) { return x.c == 0; });
  }

  template <class F>
  void each_weight(F&& f) const {
    for (int64_t j = 0; j < bank_.width(); ++j)
      for (int64_t v = 0; v < bank_.columns; ++v)
        f(bank_.inside + j * bank_.stride + v, bank_.outside + v * bank_.width() + j);
    const Shape& g = data_.shapes[0];
    for (int l = 0; l < g.links(); ++l)
      f(square_ + place(g.a[l], g.b[l]),
        data_.banks[1].outside + data_.edge_types[g.edges[g.link_first[l]].type].column[3]);
  }

  // Computes scores and tables in the format of factor graphs.
  void complete(Scratch& s) const {
    const Shape& g = data_.shapes[0];
    s.unary.assign(2 * size_, 0);
    for (int v = 0; v < size_; ++v) s.unary[2 * v + 1] = s.gains[v];
    s.own.assign(4 * static_cast<size_t>(g.links()), 0);
    s.tables.resize(g.links());
    for (int l = 0; l < g.links(); ++l) {
      s.own[4 * l + 3] = s.W[square_ + place(g.a[l], g.b[l])];
      s.tables[l] = s.own.data() + 4 * l;
    }
    s.unary[0] += s.constant;
    s.unary[1] += s.constant;
  }

  // Continues a search that was cut short with the relaxations of factor graphs.
  double go_on(Scratch& s, double value) const {
    complete(s);
    s.second.resize(size_);
    double ceiling = 0;
    const double other = s.argmax.solve(this->view(s), data_.argmax, true, s.second.data(), ceiling);
    s.ceiling = std::min(s.ceiling, ceiling);
    if (other <= value) return value;
    s.labels = s.second;
    return other;
  }
  // Replaces y by the true output if that scores more.
  double at_least_truth(const Scratch& s, double value, Label* y) const {
    Label known[ConcaveBound::most_nodes];
    Base::truth(s.block, known);
    const double own = score(s, known);
    if (own <= value) return value;
    std::copy(known, known + size_, y);
    return own;
  }
};

}  // namespace mm
