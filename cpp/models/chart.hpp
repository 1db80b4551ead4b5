// The chart of CKY: the best, or the k best, derivations of a sentence.
//
//     node(i, j, A) = max over rules A -> B C and splits m of  top(i, m, B) + top(m, j, C) + w[rule]
//                     for j = i + 1: w[A -> word]
//     top(i, j, A)  = max of node(i, j, A) and node(i, j, B) + w[chain] over unary chains from A down to B
//     both include the cost of the labels over words i .. j - 1, if the loss is added
//
// Real symbols (labels of the trees) come first, then the symbols that binarisation made. Binarisation is to
// the left, so that a right child is always real. Rules are sorted by left, then right child, so that the
// rules of a pair of real children are found at once. Only pairs of symbols that are alive in their cells are
// tried.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/interrupt.hpp"

namespace mm {

struct RuleTable {
  int symbols = 0, reals = 0;
  std::vector<int32_t> left, right, parent;     // binary rules, sorted by (left, right)
  std::vector<int32_t> upper, lower;            // unary rules
  std::vector<int32_t> chain_first;             // unary rules of chain c: chain_first[c] .. [c + 1]
  std::vector<int32_t> chain_rules;             // from the top down; chains are sorted by bottom
  std::vector<int32_t> terminal, tag;           // lexical rules, sorted by terminal
  std::vector<uint8_t> root;                    // whether a real symbol may be a root
  std::vector<int32_t> pair_first, left_first;  // rules of a pair of real children; rules of a left child
  // Chains of a bottom symbol; lexical rules of a terminal.
  std::vector<int32_t> bottom_first, terminal_first;

  int64_t binaries() const { return static_cast<int64_t>(left.size()); }
  int64_t unaries() const { return static_cast<int64_t>(upper.size()); }
  int64_t lexicals() const { return static_cast<int64_t>(tag.size()); }
  int chains() const { return static_cast<int>(chain_first.size()) - 1; }
  int chain_top(int c) const { return upper[chain_rules[chain_first[c]]]; }
  int chain_bottom(int c) const { return lower[chain_rules[chain_first[c + 1] - 1]]; }
  bool real(int symbol) const { return symbol < reals; }

  void index(int terminals) {
    pair_first.assign(static_cast<size_t>(reals) * reals + 1, 0);
    left_first.assign(symbols + 1, 0);
    bottom_first.assign(reals + 1, 0);
    terminal_first.assign(terminals + 1, 0);
    for (size_t r = 0; r < left.size(); ++r) {
      ++left_first[left[r] + 1];
      if (real(left[r])) ++pair_first[static_cast<size_t>(left[r]) * reals + right[r] + 1];
    }
    for (int c = 0; c < chains(); ++c) ++bottom_first[chain_bottom(c) + 1];
    for (int32_t t : terminal) ++terminal_first[t + 1];
    for (auto* first : {&pair_first, &left_first, &bottom_first, &terminal_first})
      for (size_t j = 1; j < first->size(); ++j) (*first)[j] += (*first)[j - 1];
  }
};

// Costs that are added to the score of a label over a span: the loss, or none.
struct SpanCosts {
  const int64_t* first = nullptr;  // keys of the true labelled spans, sorted
  const int64_t* last = nullptr;
  double scale = 0;  // cost of a label that is not true; a true label has minus this
};

inline int64_t span_key(int i, int j, int label, int reals) {
  return ((static_cast<int64_t>(i) << 24) + j) * reals + label;
}

// The index of the cell of words i .. j - 1 in a chart.
inline size_t cell_index(int i, int j) { return static_cast<size_t>(j) * (j - 1) / 2 + i; }

// Costs of labels and chains over the words of the marked cell.
class CellCosts {
 public:
  explicit CellCosts(const RuleTable& rules) : rules_(rules), is_true_(rules.reals, 0) {}
  void start(const SpanCosts& spans) { spans_ = spans; }
  // Marks the true labels of the cell of words i .. j - 1 (flag 1), or removes the marks (flag 0).
  void mark(int i, int j, uint8_t flag) {
    if (spans_.first == spans_.last) return;
    const int64_t from = span_key(i, j, 0, rules_.reals), to = from + rules_.reals;
    for (const int64_t* key = std::lower_bound(spans_.first, spans_.last, from);
         key != spans_.last && *key < to; ++key)
      is_true_[*key - from] = flag;
  }
  double of_label(int label) const { return is_true_[label] ? -spans_.scale : spans_.scale; }
  double of_chain(int c) const {
    double sum = 0;
    if (spans_.scale != 0)
      for (int32_t r = rules_.chain_first[c]; r < rules_.chain_first[c + 1]; ++r)
        sum += of_label(rules_.upper[rules_.chain_rules[r]]);
    return sum;
  }

 private:
  const RuleTable& rules_;
  SpanCosts spans_;
  std::vector<uint8_t> is_true_;
};

template <bool Many>
class Chart {
 public:
  struct Node {
    double score;
    // `left` and `right` are indices of tops; `split` is the number of words of the left child.
    int32_t rule, split, left, right;
  };
  struct Top {
    double score;
    int32_t chain, node;  // chain + 1, or 0 for none
  };

  explicit Chart(const RuleTable& rules) : rules_(&rules), costs_(rules) {
    pending_nodes_.start(rules.symbols);
    pending_tops_.start(rules.reals);
  }

  // Fills the chart. `w` are the weights; `chain_scores` are sums over the unary rules of each chain.
  void fill(const int32_t* words, int length, const double* w, const double* chain_scores,
            const SpanCosts& costs, int k) {
    w_ = w, chain_scores_ = chain_scores, length_ = length;
    costs_.start(costs);
    pending_nodes_.k = pending_tops_.k = k;
    const size_t cells = static_cast<size_t>(length) * (length + 1) / 2, reals = rules_->reals;
    value_.assign(cells * reals, dead);
    where_.resize(cells * reals);
    cells_.resize(cells);
    nodes_.clear(), tops_.clear(), alive_.clear();
    for (int j = 1; j <= length; ++j)
      for (int i = j - 1; i >= 0; --i) {
        poll();
        if (j == i + 1)
          read_word(words[i]);
        else
          for (int m = i + 1; m < j; ++m) combine(i, m, j);
        close(i, j);
      }
  }

  // Returns the tops of all roots, best first, at most k.
  const std::vector<int32_t>& roots(int k) {
    found_.clear();
    const Cell& cell = cells_[cell_index(0, length_)];
    for (int32_t e = cell.first; e < cell.reals; ++e)
      if (rules_->root[alive_[e].symbol])
        for (int32_t r = 0; r < alive_[e].count; ++r) found_.push_back(alive_[e].first + r);
    const auto better = [&](int32_t a, int32_t b) {
      return tops_[a].score != tops_[b].score ? tops_[a].score > tops_[b].score : a < b;
    };
    const size_t n = std::min(found_.size(), static_cast<size_t>(k));
    std::partial_sort(found_.begin(), found_.begin() + n, found_.end(), better);
    found_.resize(n);
    return found_;
  }
  double score(int32_t top) const { return tops_[top].score; }

  // Writes the derivation below a top in preorder: (chain, rule, split) of each node.
  void trace(int32_t top, int32_t* y) {
    stack_.assign(1, top);
    while (!stack_.empty()) {
      const Top& t = tops_[stack_.back()];
      const Node& node = nodes_[t.node];
      stack_.pop_back();
      *y++ = t.chain;
      *y++ = node.rule;
      *y++ = node.split;
      if (node.split == 0) continue;
      stack_.push_back(node.right);
      stack_.push_back(node.left);
    }
  }

 private:
  static constexpr double dead = -std::numeric_limits<double>::infinity();
  struct Alive {
    int32_t symbol, first, count;  // range of its tops
  };
  struct Cell {
    int32_t first, reals, last;  // ranges of alive symbols: real ones, then the others
  };

  // The best items of each symbol of the current cell.
  template <class Item>
  struct Pending {
    int k = 1;
    std::vector<Item> best;                 // if not Many
    std::vector<std::vector<Item>> ranked;  // if Many: best first
    std::vector<int32_t> touched;
    void start(int symbols) {
      if constexpr (Many)
        ranked.resize(symbols);
      else
        best.assign(symbols, Item{dead});
    }
    bool offer(int32_t symbol, const Item& item) {
      if constexpr (!Many) {
        Item& old = best[symbol];
        if (!(item.score > old.score)) return false;
        if (old.score == dead) touched.push_back(symbol);
        old = item;
      } else {
        auto& list = ranked[symbol];
        if (static_cast<int>(list.size()) == k && !(item.score > list.back().score)) return false;
        if (list.empty()) touched.push_back(symbol);
        if (static_cast<int>(list.size()) == k) list.pop_back();
        auto place = list.end();
        while (place != list.begin() && (place - 1)->score < item.score) --place;
        list.insert(place, item);
      }
      return true;
    }
    int count(int32_t symbol) const {
      if constexpr (Many) return static_cast<int>(ranked[symbol].size());
      return 1;
    }
    const Item& get(int32_t symbol, int rank) const {
      if constexpr (Many) return ranked[symbol][rank];
      return best[symbol];
    }
    void clear() {
      for (int32_t symbol : touched)
        if constexpr (Many)
          ranked[symbol].clear();
        else
          best[symbol].score = dead;
      touched.clear();
    }
  };

  const RuleTable* rules_;
  const double* w_ = nullptr;
  const double* chain_scores_ = nullptr;
  CellCosts costs_;
  int length_ = 0;
  std::vector<Node> nodes_;
  std::vector<Top> tops_;
  std::vector<Alive> alive_;
  std::vector<Cell> cells_;
  std::vector<double> value_;   // best top of each real symbol of each cell, or `dead`
  std::vector<int32_t> where_;  // its entry in alive_
  std::vector<int32_t> stack_, found_;
  Pending<Node> pending_nodes_;
  Pending<Top> pending_tops_;

  void read_word(int32_t word) {
    const int64_t before = rules_->binaries() + rules_->unaries();
    for (int32_t r = rules_->terminal_first[word]; r < rules_->terminal_first[word + 1]; ++r)
      pending_nodes_.offer(rules_->tag[r], {w_[before + r], r, 0, 0, 0});
  }

  void combine(int i, int m, int j) {
    const Cell &L = cells_[cell_index(i, m)], &R = cells_[cell_index(m, j)];
    const size_t reals = rules_->reals, row = cell_index(m, j) * reals;
    if (R.first == R.reals) return;
    for (int32_t e = L.first; e < L.reals; ++e) {
      const int32_t* first = &rules_->pair_first[alive_[e].symbol * reals];
      for (int32_t f = R.first; f < R.reals; ++f) {
        const int32_t to = first[alive_[f].symbol + 1];
        for (int32_t r = first[alive_[f].symbol]; r < to; ++r) join(r, m - i, alive_[e], alive_[f]);
      }
    }
    for (int32_t e = L.reals; e < L.last; ++e) {
      const int32_t symbol = alive_[e].symbol, to = rules_->left_first[symbol + 1];
      for (int32_t r = rules_->left_first[symbol]; r < to; ++r)
        if (value_[row + rules_->right[r]] != dead)
          join(r, m - i, alive_[e], alive_[where_[row + rules_->right[r]]]);
    }
  }

  void join(int32_t rule, int32_t split, const Alive& a, const Alive& b) {
    const int32_t parent = rules_->parent[rule];
    for (int32_t p = a.first; p < a.first + a.count; ++p)
      for (int32_t q = b.first; q < b.first + b.count; ++q) {
        const double score = tops_[p].score + tops_[q].score + w_[rule];
        if (pending_nodes_.offer(parent, {score, rule, split, p, q})) continue;
        if (q == b.first) return;  // no later pair is better
        break;
      }
  }

  // Adds costs and chains to the nodes of a cell, and lists its alive symbols.
  void close(int i, int j) {
    const size_t reals = rules_->reals, row = cell_index(i, j) * reals;
    Cell& cell = cells_[cell_index(i, j)];
    costs_.mark(i, j, 1);
    for (int32_t symbol : pending_nodes_.touched)
      if (rules_->real(symbol)) add_tops(symbol, j - i > 1 ? costs_.of_label(symbol) : 0.0);
    cell.first = static_cast<int32_t>(alive_.size());
    for (int32_t symbol : pending_tops_.touched) {
      const int count = pending_tops_.count(symbol);
      where_[row + symbol] = static_cast<int32_t>(alive_.size());
      value_[row + symbol] = pending_tops_.get(symbol, 0).score;
      alive_.push_back({symbol, static_cast<int32_t>(tops_.size()), count});
      for (int r = 0; r < count; ++r) tops_.push_back(pending_tops_.get(symbol, r));
    }
    cell.reals = static_cast<int32_t>(alive_.size());
    for (int32_t symbol : pending_nodes_.touched) {
      if (rules_->real(symbol)) continue;
      const int count = pending_nodes_.count(symbol);
      alive_.push_back({symbol, static_cast<int32_t>(tops_.size()), count});
      for (int r = 0; r < count; ++r) {
        const Node& node = pending_nodes_.get(symbol, r);
        tops_.push_back({node.score, 0, static_cast<int32_t>(nodes_.size())});
        nodes_.push_back(node);
      }
    }
    cell.last = static_cast<int32_t>(alive_.size());
    costs_.mark(i, j, 0);
    pending_nodes_.clear();
    pending_tops_.clear();
  }

  void add_tops(int32_t symbol, double own_cost) {
    const int count = pending_nodes_.count(symbol);
    const int32_t first = static_cast<int32_t>(nodes_.size());
    for (int r = 0; r < count; ++r) {
      nodes_.push_back(pending_nodes_.get(symbol, r));
      nodes_.back().score += own_cost;
      pending_tops_.offer(symbol, {nodes_.back().score, 0, first + r});
    }
    for (int32_t c = rules_->bottom_first[symbol]; c < rules_->bottom_first[symbol + 1]; ++c) {
      const double more = chain_scores_[c] + costs_.of_chain(c);
      const int32_t top = rules_->chain_top(c);
      for (int r = 0; r < count; ++r)
        if (!pending_tops_.offer(top, {nodes_[first + r].score + more, c + 1, first + r})) break;
    }
  }
};

}  // namespace mm
