// Sums over all trees of a sentence: the chart of chart.hpp with sums of exponentials in place of maxima.
//
//     inside, in logarithms:   node(i, j, A), top(i, j, A), and log Z = log sum exp top over the roots
//     outside, in probabilities, from the whole sentence down:
//     p(chain over node B)  = p(top A) exp(node(B) + w[chain] - top(A))
//     p(rule A -> B C at m) = p(node A) exp(top(B) + top(C) + w[rule] + cost - node(A))
//
// Both children receive the probability of a rule. The sums of these probabilities are the expected numbers
// of rules. No step divides by a small number.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "models/chart.hpp"

namespace mm {

class InsideOutside {
 public:
  explicit InsideOutside(const RuleTable& rules) : rules_(rules), costs_(rules) {}

  // Returns log Z. Writes the expected number of each rule (binary, unary, lexical) into `counts`, unless it
  // is null.
  double run(const int32_t* words, int length, const double* w, const double* chain_scores,
             const SpanCosts& costs, double* counts) {
    words_ = words, length_ = length, w_ = w, chain_scores_ = chain_scores;
    costs_.start(costs);
    const size_t size = static_cast<size_t>(length) * (length + 1) / 2 * rules_.symbols;
    node_.assign(size, dead), top_.assign(size, dead), scale_.assign(rules_.symbols, 0);
    alive_.assign(static_cast<size_t>(length) * (length + 1) / 2, {});
    for (int j = 1; j <= length; ++j)
      for (int i = j - 1; i >= 0; --i) {
        poll();
        fill(i, j);
      }
    log_sum_ = dead;
    const double* roots = cell(top_, 0, length);
    for (int A = 0; A < rules_.reals; ++A)
      if (rules_.root[A]) log_sum_ = joined(log_sum_, roots[A]);
    if (counts && log_sum_ != dead) outside(counts);
    return log_sum_;
  }

  // Draws a tree after `run`, in the format of Chart::trace, from three numbers in [0, 1) for each node. It
  // goes from the root down, and draws each node by the sums inside. If there is no tree, every rule is -1.
  void draw(const double* chance, int32_t* y) {
    for (int n = 0; n < 3 * (2 * length_ - 1); ++n) y[n] = n % 3 == 1 ? -1 : 0;
    if (log_sum_ == dead) return;
    Choice root(chance[2]);
    for (int A = 0; A < rules_.reals; ++A)
      if (rules_.root[A]) root.offer(std::exp(cell(top_, 0, length_)[A] - log_sum_), A, 0);
    open_.assign(1, {0, length_, root.first});
    for (; !open_.empty(); chance += 3, y += 3) {
      const Open at = open_.back();
      open_.pop_back();
      costs_.mark(at.i, at.j, 1);
      const int below = draw_chain(at, chance[0], y);
      at.j == at.i + 1 ? draw_word(at, below, chance[1], y) : draw_rule(at, below, chance[1], y);
      costs_.mark(at.i, at.j, 0);
    }
  }

 private:
  struct Open {
    int i, j, symbol;  // the top of a subtree over words i .. j - 1
  };
  // Chooses one of several items, whose probabilities sum to one, by a number in [0, 1). Rounding errors go
  // to the last item.
  struct Choice {
    explicit Choice(double chance) : left(chance) {}
    double left;
    int first = -1, second = 0;
    void offer(double p, int a, int b) {
      if (left < 0 || !(p > 0)) return;
      first = a, second = b;
      left -= p;
    }
  };
  // Draws the chain above a node; returns the symbol below it.
  int draw_chain(const Open& at, double chance, int32_t* y) {
    const double *node = cell(node_, at.i, at.j), top = cell(top_, at.i, at.j)[at.symbol];
    Choice found(chance);
    found.offer(std::exp(node[at.symbol] - top), 0, at.symbol);
    for (int B = 0; B < rules_.reals; ++B)
      for (int32_t c = rules_.bottom_first[B]; node[B] != dead && c < rules_.bottom_first[B + 1]; ++c)
        if (rules_.chain_top(c) == at.symbol) found.offer(std::exp(node[B] + chain_score(c) - top), c + 1, B);
    y[0] = found.first;
    return found.second;
  }
  void draw_word(const Open& at, int A, double chance, int32_t* y) {
    const int64_t lexical = rules_.binaries() + rules_.unaries();
    const int32_t word = words_[at.i];
    Choice found(chance);
    for (int32_t r = rules_.terminal_first[word]; r < rules_.terminal_first[word + 1]; ++r)
      if (rules_.tag[r] == A) found.offer(std::exp(w_[lexical + r] - cell(node_, at.i, at.j)[A]), r, 0);
    y[1] = found.first;
  }
  void draw_rule(const Open& at, int A, double chance, int32_t* y) {
    const double base = node_cost(at.i, at.j, A) - cell(node_, at.i, at.j)[A];
    Choice found(chance);
    for (int m = at.i + 1; m < at.j; ++m)
      each_join(at.i, m, at.j, [&](int32_t r, double left, double right) {
        if (rules_.parent[r] == A) found.offer(std::exp(left + right + w_[r] + base), r, m);
      });
    y[1] = found.first, y[2] = found.second - at.i;
    open_.push_back({found.second, at.j, rules_.right[found.first]});
    open_.push_back({at.i, found.second, rules_.left[found.first]});
  }

  static constexpr double dead = -std::numeric_limits<double>::infinity();
  const RuleTable& rules_;
  const int32_t* words_ = nullptr;
  const double *w_ = nullptr, *chain_scores_ = nullptr;
  CellCosts costs_;
  int length_ = 0;
  double log_sum_ = 0;
  std::vector<double> node_, top_, scale_;  // log sums by cell and symbol; see `add`
  std::vector<double> node_share_, top_share_;
  std::vector<std::vector<int32_t>> alive_;  // symbols of each cell that have a top
  std::vector<Open> open_;                   // subtrees that are not drawn yet

  double* cell(std::vector<double>& values, int i, int j) {
    return values.data() + cell_index(i, j) * rules_.symbols;
  }
  // log(exp(a) + exp(b))
  static double joined(double a, double b) {
    if (b == dead) return a;
    if (a == dead) return b;
    const double top = std::max(a, b);
    return top + std::log1p(std::exp(std::min(a, b) - top));
  }
  // Adds exp(x) to the sum of A, which is stored as exp(values[A]) scale_[A]; values[A] is the largest x so
  // far.
  void add(double* values, int A, double x) {
    if (x <= values[A])
      scale_[A] += std::exp(x - values[A]);
    else
      scale_[A] = (values[A] == dead ? 0 : scale_[A] * std::exp(values[A] - x)) + 1, values[A] = x;
  }

  // Calls f(rule, left, right) for every rule and pair of children over words i .. m - 1 and m .. j - 1.
  template <class F>
  void each_join(int i, int m, int j, F&& f) {
    const double *L = cell(top_, i, m), *R = cell(top_, m, j);
    for (const int32_t B : alive_[cell_index(i, m)])
      for (int32_t r = rules_.left_first[B]; r < rules_.left_first[B + 1]; ++r)
        if (const double right = R[rules_.right[r]]; right != dead) f(r, L[B], right);
  }
  double node_cost(int i, int j, int A) const {
    return j - i == 1 || !rules_.real(A) ? 0 : costs_.of_label(A);
  }
  double chain_score(int c) const { return chain_scores_[c] + costs_.of_chain(c); }

  void fill(int i, int j) {
    double *node = cell(node_, i, j), *top = cell(top_, i, j);
    const int64_t lexical = rules_.binaries() + rules_.unaries();
    costs_.mark(i, j, 1);
    if (j == i + 1)
      for (int32_t r = rules_.terminal_first[words_[i]]; r < rules_.terminal_first[words_[i] + 1]; ++r)
        add(node, rules_.tag[r], w_[lexical + r]);
    for (int m = i + 1; m < j; ++m)
      each_join(i, m, j, [&](int32_t r, double left, double right) {
        add(node, rules_.parent[r], left + right + w_[r]);
      });
    for (int A = 0; A < rules_.symbols; ++A)
      if (node[A] != dead) node[A] += std::log(scale_[A]) + node_cost(i, j, A);
    std::copy(node, node + rules_.symbols, top);
    for (int B = 0; B < rules_.reals; ++B)
      for (int32_t c = rules_.bottom_first[B]; node[B] != dead && c < rules_.bottom_first[B + 1]; ++c) {
        double& own = top[rules_.chain_top(c)];
        own = joined(own, node[B] + chain_score(c));
      }
    for (int A = 0; A < rules_.symbols; ++A)
      if (top[A] != dead) alive_[cell_index(i, j)].push_back(A);
    costs_.mark(i, j, 0);
  }

  void outside(double* counts) {
    node_share_.assign(node_.size(), 0), top_share_.assign(top_.size(), 0);
    double* whole = cell(top_share_, 0, length_);
    for (int A = 0; A < rules_.reals; ++A)
      if (rules_.root[A]) whole[A] = std::exp(cell(top_, 0, length_)[A] - log_sum_);
    for (int size = length_; size > 0; --size)
      for (int i = 0; i + size <= length_; ++i) {
        poll();
        share(i, i + size, counts);
      }
  }

  void share(int i, int j, double* counts) {
    double *node = cell(node_, i, j), *top = cell(top_, i, j);
    double *node_share = cell(node_share_, i, j), *top_share = cell(top_share_, i, j);
    const int64_t unary = rules_.binaries(), lexical = unary + rules_.unaries();
    costs_.mark(i, j, 1);
    for (const int32_t A : alive_[cell_index(i, j)])
      if (top_share[A] > 0 && node[A] != dead) node_share[A] += top_share[A] * std::exp(node[A] - top[A]);
    for (int B = 0; B < rules_.reals; ++B)
      for (int32_t c = rules_.bottom_first[B]; node[B] != dead && c < rules_.bottom_first[B + 1]; ++c) {
        const int A = rules_.chain_top(c);
        if (!(top_share[A] > 0)) continue;
        const double p = top_share[A] * std::exp(node[B] + chain_score(c) - top[A]);
        node_share[B] += p;
        for (int32_t r = rules_.chain_first[c]; r < rules_.chain_first[c + 1]; ++r)
          counts[unary + rules_.chain_rules[r]] += p;
      }
    if (j == i + 1)
      for (int32_t r = rules_.terminal_first[words_[i]]; r < rules_.terminal_first[words_[i] + 1]; ++r) {
        const int A = rules_.tag[r];
        if (node_share[A] > 0) counts[lexical + r] += node_share[A] * std::exp(w_[lexical + r] - node[A]);
      }
    for (int m = i + 1; m < j; ++m) {
      double *left_share = cell(top_share_, i, m), *right_share = cell(top_share_, m, j);
      each_join(i, m, j, [&](int32_t r, double left, double right) {
        const int A = rules_.parent[r];
        if (!(node_share[A] > 0)) return;
        const double p = node_share[A] * std::exp(left + right + w_[r] + node_cost(i, j, A) - node[A]);
        counts[r] += p;
        left_share[rules_.left[r]] += p;
        right_share[rules_.right[r]] += p;
      });
    }
    costs_.mark(i, j, 0);
  }
};

}  // namespace mm
