// Grammar: a parse tree for a sentence, by a binarised context-free grammar.
//
//     Psi(x, y) counts rules: binary, unary, lexical, in this order
//     Delta(y, y') = number of labelled spans that are in exactly one of the trees, or [y != y']
//
// An output of a sentence of T words is its binarised tree of 2 T - 1 nodes in preorder, three numbers for
// each node. These are the unary chain above the node (number + 1; 0 for none), the binary or lexical rule,
// and the number of words of the left child (0 over a word). Trees and derivations correspond one to one.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "gather.hpp"
#include "models/chart.hpp"
#include "models/inside_outside.hpp"
#include "simd.hpp"

namespace mm {

struct GrammarData {
  const RuleTable& rules;
  std::vector<int64_t> offsets;                // words of sentence i: offsets[i] .. offsets[i + 1]
  std::vector<int32_t> words;                  // terminals
  std::vector<int32_t> truth;                  // true outputs one after the other; empty if not given
  bool spans = false;                          // whether the loss counts spans
  std::vector<int64_t> span_first, span_keys;  // labelled spans of the true trees, sorted in each tree

  int64_t blocks() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t dimension() const { return rules.binaries() + rules.unaries() + rules.lexicals(); }
  int length(int64_t block) const { return static_cast<int>(offsets[block + 1] - offsets[block]); }
  int64_t place(int64_t block) const { return 3 * (2 * offsets[block] - block); }
};

class Grammar {
 public:
  using Real = double;
  using Label = int32_t;
  using Data = GrammarData;

  struct Scratch {
    std::unique_ptr<Chart<false>> best;  // made when first needed
    std::unique_ptr<Chart<true>> several;
    std::unique_ptr<InsideOutside> sums;
    std::vector<double> chain_scores;
    Sparse move;
    const double* weights = nullptr;
    bool augmented = false;
    double loss_scale = 1;
    int64_t block = 0;
  };

  explicit Grammar(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return static_cast<size_t>(data_.dimension()); }
  int output_size(int64_t block) const { return 3 * (2 * data_.length(block) - 1); }
  Scratch scratch() const {
    Scratch s;
    s.chain_scores.resize(data_.rules.chains());
    s.move.resize(weights());
    return s;
  }
  template <class To>
  void pack(const double* flat, To* W) const {
    std::copy(flat, flat + weights(), W);
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    std::copy(W, W + weights(), flat);
  }
  void truth(int64_t block, Label* y) const {
    const Label* known = true_output(block);
    std::copy(known, known + output_size(block), y);
  }
  bool same(int64_t block, const Label* a, const Label* b) const {
    return std::equal(a, a + output_size(block), b);
  }
  double loss(int64_t block, const Label* y) const {
    if (!data_.spans) return same(block, y, true_output(block)) ? 0 : 1;
    const int64_t *first = true_keys(block), *last = first + true_spans(block);
    double sum = static_cast<double>(last - first);
    each_span(y, 0, data_.length(block), [&](int i, int j, int label) {
      sum += std::binary_search(first, last, span_key(i, j, label, data_.rules.reals)) ? -1 : 1;
    });
    return sum;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    const RuleTable& rules = data_.rules;
    s.block = block, s.weights = W, s.augmented = augmented, s.loss_scale = loss_scale;
    for (int c = 0; c < rules.chains(); ++c) s.chain_scores[c] = chain_score(c, W);
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const {
    const Real* lexical = s.weights + data_.rules.binaries() + data_.rules.unaries();
    double sum = s.augmented ? s.loss_scale * loss(s.block, y) : 0;
    for (const Label* end = y + output_size(s.block); y < end; y += 3)
      sum += (y[0] ? s.chain_scores[y[0] - 1] : 0) + (y[2] ? s.weights[y[1]] : lexical[y[1]]);
    return sum;
  }

  // The argmax of `score`. For a sentence without a parse: minus infinity, and every rule is -1.
  double best(Scratch& s, const Real*, Label* y) const {
    if (s.augmented && !data_.spans) return best_with_zero_one(s, y);
    return first_best(s, costs(s, s.block), y) + cost_of_none(s, s.block);
  }

  // Whether `best_slack` works; the spans loss needs a search over the loss multiplier instead.
  bool slack_argmax() const { return !data_.spans; }
  // argmax_y Delta(y) (score + shift) for the zero-one loss, whose Delta is 0 or 1.
  void best_slack(Scratch& s, const Real*, double shift, const Label* truth, Label* y) const {
    const double other = best_but(s, truth, y);
    if (!(other + shift > 0)) std::copy(truth, truth + output_size(s.block), y);
  }

  // Sums over all trees (SumsAll): a potential for each rule; its expectation is how often the rule is used.
  // If the block was opened with the loss, the exponent includes the loss.
  int row_labels() const { return 1; }
  int row_stride() const { return 1; }
  int64_t potentials(int64_t) const { return data_.dimension(); }
  void list_potentials(const Scratch&, const Real* W, Real* theta) const {
    std::copy(W, W + weights(), theta);
  }
  double distribute(Scratch& s, int64_t block, const Real* theta, Real* m) const {
    if (!s.sums) s.sums = std::make_unique<InsideOutside>(data_.rules);
    for (int c = 0; c < data_.rules.chains(); ++c) s.chain_scores[c] = chain_score(c, theta);
    if (m) std::fill(m, m + weights(), 0);
    const int32_t* words = data_.words.data() + data_.offsets[block];
    const SpanCosts added = costs(s, block);
    const double all = s.sums->run(words, data_.length(block), theta, s.chain_scores.data(), added, m) +
                       cost_of_none(s, block);
    return s.augmented && !data_.spans ? with_zero_one(s, block, theta, all, m) : all;
  }
  void draw(Scratch& s, int64_t, const Real*, const double* chance, Label* y) const {
    s.sums->draw(chance, y);
  }
  void subtract_truth(int64_t block, Real* m) const { add_rules(true_output(block), block, m, -1); }
  double expected_loss(int64_t, const Real*) const {
    throw std::logic_error("the expected loss is not one of rules");
  }
  void add_expected(const Scratch&, int64_t, const Real* m, Real* W, double c) const {
    for (size_t k = 0; k < weights(); ++k) W[k] += c * m[k];
  }

  // The k best trees by <w, Psi>, best first, one after the other, or all if there are fewer.
  void best_k(Scratch& s, const Real*, int k, std::vector<Label>& trees, std::vector<double>& scores) const {
    const auto& found = ranked(s, k);
    trees.resize(found.size() * output_size(s.block));
    for (size_t n = 0; n < found.size(); ++n) {
      scores.push_back(s.several->score(found[n]));
      s.several->trace(found[n], trees.data() + n * output_size(s.block));
    }
  }

  // Whether y is a derivation of the sentence in this grammar.
  bool valid(int64_t block, const Label* y) const {
    int symbol = -1;
    const Label* end = derives(block, y, 0, data_.length(block), symbol);
    return end == y + output_size(block) && data_.rules.real(symbol) && data_.rules.root[symbol];
  }

  // move = sum_j c_j Psi(x, y_j)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    clear(s, block);
    add_rules(plus, block, Gather(s.move), 1);
    add_rules(minus, block, Gather(s.move), -1);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    clear(s, block);
    for (int j = 0; j < n; ++j)
      if (c[j] != 0)
        add_rules(outputs + static_cast<size_t>(j) * output_size(block), block, Gather(s.move), c[j]);
  }
  double squared_norm(const Scratch& s) const { return s.move.squared_norm(); }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    s.move.apply(W, c);
  }

  // Calls f(i, j, label) for each phrase over words i .. j - 1 of an output: binary nodes of real symbols,
  // and the upper symbols of chains. Returns the end of the part of `y` that it has read.
  template <class F>
  const Label* each_span(const Label* y, int i, int j, F&& f) const {
    const RuleTable& rules = data_.rules;
    if (y[0] > 0)
      for (int32_t r = rules.chain_first[y[0] - 1]; r < rules.chain_first[y[0]]; ++r)
        f(i, j, rules.upper[rules.chain_rules[r]]);
    if (j - i == 1) return y + 3;
    if (rules.real(rules.parent[y[1]])) f(i, j, rules.parent[y[1]]);
    return each_span(each_span(y + 3, i, i + y[2], f), i + y[2], j, f);
  }

 private:
  const Data& data_;

  const Label* true_output(int64_t block) const {
    if (data_.truth.empty()) throw std::logic_error("the true trees were not given");
    return data_.truth.data() + data_.place(block);
  }
  const int64_t* true_keys(int64_t block) const { return data_.span_keys.data() + data_.span_first[block]; }
  int64_t true_spans(int64_t block) const { return data_.span_first[block + 1] - data_.span_first[block]; }
  // The spans loss is the sum of costs of labels, and of `cost_of_none`, the cost of a tree without labels.
  SpanCosts costs(const Scratch& s, int64_t block) const {
    if (!s.augmented || !data_.spans) return {};
    return {true_keys(block), true_keys(block) + true_spans(block), s.loss_scale};
  }
  double cost_of_none(const Scratch& s, int64_t block) const {
    return s.augmented && data_.spans ? s.loss_scale * static_cast<double>(true_spans(block)) : 0;
  }

  double chain_score(int c, const Real* W) const {
    const Real* unary = W + data_.rules.binaries();
    double sum = 0;
    for (int32_t r = data_.rules.chain_first[c]; r < data_.rules.chain_first[c + 1]; ++r)
      sum += unary[data_.rules.chain_rules[r]];
    return sum;
  }

  double first_best(Scratch& s, const SpanCosts& costs, Label* y) const {
    if (!s.best) s.best = std::make_unique<Chart<false>>(data_.rules);
    const int32_t* words = data_.words.data() + data_.offsets[s.block];
    s.best->fill(words, data_.length(s.block), s.weights, s.chain_scores.data(), costs, 1);
    const auto& found = s.best->roots(1);
    if (!found.empty()) {
      s.best->trace(found[0], y);
      return s.best->score(found[0]);
    }
    for (int n = 0; n < output_size(s.block); ++n) y[n] = n % 3 == 1 ? -1 : 0;
    return -std::numeric_limits<double>::infinity();
  }
  const std::vector<int32_t>& ranked(Scratch& s, int k) const {
    if (!s.several) s.several = std::make_unique<Chart<true>>(data_.rules);
    const int32_t* words = data_.words.data() + data_.offsets[s.block];
    s.several->fill(words, data_.length(s.block), s.weights, s.chain_scores.data(), {}, k);
    return s.several->roots(k);
  }

  // Finds the best tree other than the true one: the second best if the true tree is the best.
  double best_but(Scratch& s, const Label* truth, Label* y) const {
    const double top = first_best(s, {}, y);
    if (!same(s.block, y, truth)) return top;
    const auto& found = ranked(s, 2);
    for (int32_t other : found) {
      s.several->trace(other, y);
      if (!same(s.block, y, truth)) return s.several->score(other);
    }
    return -std::numeric_limits<double>::infinity();
  }
  double best_with_zero_one(Scratch& s, Label* y) const {
    const Label* truth = true_output(s.block);
    const double other = best_but(s, truth, y) + s.loss_scale;
    const double own = score(s, truth);
    if (other >= own) return other;
    std::copy(truth, truth + output_size(s.block), y);
    return own;
  }

  // Reads one node of a derivation and all nodes below it. Returns its end, or null if it breaks a rule.
  const Label* derives(int64_t block, const Label* y, int i, int j, int& symbol) const {
    const RuleTable& rules = data_.rules;
    const Label chain = y[0], rule = y[1], split = y[2];
    if (chain < 0 || chain > rules.chains() || rule < 0) return nullptr;
    const Label* end = y + 3;
    if (j - i == 1) {
      if (split != 0 || rule >= rules.lexicals()) return nullptr;
      if (rules.terminal[rule] != data_.words[data_.offsets[block] + i]) return nullptr;
      symbol = rules.tag[rule];
    } else {
      if (split < 1 || split >= j - i || rule >= rules.binaries()) return nullptr;
      int left = -1, right = -1;
      end = derives(block, end, i, i + split, left);
      if (end) end = derives(block, end, i + split, j, right);
      if (!end || left != rules.left[rule] || right != rules.right[rule]) return nullptr;
      symbol = rules.parent[rule];
    }
    if (chain > 0) {
      if (rules.chain_bottom(chain - 1) != symbol) return nullptr;
      symbol = rules.chain_top(chain - 1);
    }
    return end;
  }

  // counts += c for each rule of an output
  template <class Target>
  void add_rules(const Label* y, int64_t block, Target counts, double c) const {
    const int64_t unary = data_.rules.binaries(), lexical = unary + data_.rules.unaries();
    for (const Label* end = y + output_size(block); y < end; y += 3) {
      counts[y[2] ? y[1] : lexical + y[1]] += c;
      for (int32_t r = y[0] ? data_.rules.chain_first[y[0] - 1] : 0;
           y[0] && r < data_.rules.chain_first[y[0]]; ++r)
        counts[unary + data_.rules.chain_rules[r]] += c;
    }
  }
  // Makes all trees except the true one e^scale times as likely: Z' = e^scale (Z - Z_true) + Z_true.
  double with_zero_one(const Scratch& s, int64_t block, const Real* theta, double all, Real* m) const {
    const Label* truth = true_output(block);
    std::vector<double> own(weights(), 0);
    add_rules(truth, block, own.data(), 1);
    double score = 0;
    for (size_t k = 0; k < own.size(); ++k) score += own[k] * theta[k];
    const double p = std::exp(score - all), more = std::exp(s.loss_scale), sum = more * (1 - p) + p;
    for (size_t k = 0; m && k < own.size(); ++k) m[k] = (more * m[k] + (1 - more) * p * own[k]) / sum;
    return all + std::log(sum);
  }

  void clear(Scratch& s, int64_t block) const {
    s.block = block;
    s.move.clear();
  }
};

}  // namespace mm
