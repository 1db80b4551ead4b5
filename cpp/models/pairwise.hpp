// A pairwise problem on a graph, and its solution on forests.
//
//     maximise  sum_v theta_v(y_v) + sum_l theta_l(y_a, y_b)      nodes v, links l = (a, b)
//
// The scores of node v start at unary[place[v]]. The table of a link is row-major by the label of its end a.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace mm {

// The nodes, their labels and their links. No two links join the same nodes.
struct Topology {
  std::vector<int32_t> count;   // labels of each node
  std::vector<int64_t> place;   // offset of each node's scores; the last entry is their number
  std::vector<int32_t> a, b;    // ends of each link
  std::vector<int32_t> first;   // links of node v: around[first[v]] .. around[first[v + 1]]
  std::vector<int32_t> around;  // indices of links
  std::vector<int32_t> order;   // nodes, each after its parent in a spanning forest
  std::vector<int32_t> parent;  // link to the parent of each node, or -1
  // The sieve of each link whose table only forbids pairs: the labels of end b that each label of a allows
  // (see `Sieve`). Null for other links, which use their tables; empty if no link has a sieve.
  std::vector<const int32_t*> sieves;
  bool forest = true, binary = true;

  int nodes() const { return static_cast<int>(count.size()); }
  int links() const { return static_cast<int>(a.size()); }
  int other(int link, int v) const { return a[link] == v ? b[link] : a[link]; }

  void clear() {
    count.clear();
    a.clear();
    b.clear();
  }
  // Computes the other members from counts and links.
  void finish() {
    place.assign(1, 0);
    binary = true;
    for (const int32_t k : count) place.push_back(place.back() + k), binary &= k == 2;
    first.assign(count.size() + 1, 0);
    for (int l = 0; l < links(); ++l) ++first[a[l] + 1], ++first[b[l] + 1];
    for (size_t v = 0; v < count.size(); ++v) first[v + 1] += first[v];
    around.resize(2 * a.size());
    std::vector<int32_t> next(first.begin(), first.end() - 1);
    for (int l = 0; l < links(); ++l) around[next[a[l]]++] = l, around[next[b[l]]++] = l;
    root();
  }

 private:
  void root() {
    order.clear();
    parent.assign(count.size(), -1);
    std::vector<char> seen(count.size(), 0);
    int trees = 0;
    for (int start = 0; start < nodes(); ++start) {
      if (seen[start]) continue;
      seen[start] = 1, ++trees;
      size_t at = order.size();
      order.push_back(start);
      for (; at < order.size(); ++at)
        for (int32_t e = first[order[at]]; e < first[order[at] + 1]; ++e)
          if (const int u = other(around[e], order[at]); !seen[u])
            seen[u] = 1, parent[u] = around[e], order.push_back(u);
    }
    forest = links() == nodes() - trees;
  }
};

// The labels of a node that a state of a factor over several nodes allows: one, all but one, or all. With
// sieves the best state of m nodes with K labels takes O(m K), instead of a search over all labellings. A
// state that allows all labels but one takes the best score of the node, or the second best if the best label
// is the forbidden one.
struct Sieve {
  static constexpr int32_t everything = std::numeric_limits<int32_t>::min();
  static int32_t only(int k) { return k; }
  static int32_t all_but(int k) { return -1 - k; }

  // out[state] = max over the labels that it allows of from[label]
  static void of_labels(const int32_t* allows, int states, const double* from, int labels, double* out) {
    const auto [best, first, second] = two(from, labels);
    for (int s = 0; s < states; ++s) {
      const int32_t a = allows[s];
      out[s] = a >= 0 ? from[a] : a != everything && -1 - a == best ? second : first;
    }
  }
  // out[label] = max over the states that allow it of from[state]
  static void of_states(const int32_t* allows, int states, const double* from, int labels, double* out) {
    const double never = -std::numeric_limits<double>::infinity();
    double all = never, first = never, second = never;
    int kept = -1;  // the label that the best of the "all but" states forbids
    std::fill(out, out + labels, never);
    for (int s = 0; s < states; ++s) {
      const int32_t a = allows[s];
      if (a >= 0) {
        out[a] = std::max(out[a], from[s]);
      } else if (a == everything) {
        all = std::max(all, from[s]);
      } else if (const int k = -1 - a; k == kept) {
        first = std::max(first, from[s]);
      } else if (from[s] > first) {
        second = first, first = from[s], kept = k;
      } else {
        second = std::max(second, from[s]);
      }
    }
    for (int k = 0; k < labels; ++k) out[k] = std::max({out[k], all, k == kept ? second : first});
  }

 private:
  struct Two {
    int best;
    double first, second;
  };
  static Two two(const double* values, int n) {
    Two found{0, values[0], -std::numeric_limits<double>::infinity()};
    for (int k = 1; k < n; ++k)
      if (values[k] > found.first)
        found = {k, values[k], found.first};
      else
        found.second = std::max(found.second, values[k]);
    return found;
  }
};

struct PairwiseView {
  const Topology* graph = nullptr;
  const double* unary = nullptr;
  const double* const* tables = nullptr;

  const double* scores(int v) const { return unary + graph->place[v]; }
  double at(int link, int ya, int yb) const {
    return tables[link][static_cast<int64_t>(ya) * graph->count[graph->b[link]] + yb];
  }
  // The entry of a link's table for label yv of its end v and label yu of its other end.
  double seen_from(int link, int v, int yv, int yu) const {
    return graph->a[link] == v ? at(link, yv, yu) : at(link, yu, yv);
  }
  double value(const int32_t* y) const {
    double sum = 0;
    for (int v = 0; v < graph->nodes(); ++v) sum += scores(v)[y[v]];
    for (int l = 0; l < graph->links(); ++l) sum += at(l, y[graph->a[l]], y[graph->b[l]]);
    return sum;
  }
  // An upper bound on all labellings that costs no more than to read the scores: each term at its maximum.
  double sum_of_maxima() const {
    double sum = 0;
    for (int v = 0; v < graph->nodes(); ++v) sum += *std::max_element(scores(v), scores(v) + graph->count[v]);
    for (int l = 0; l < graph->links(); ++l) {
      const int64_t size = int64_t{graph->count[graph->a[l]]} * graph->count[graph->b[l]];
      sum += *std::max_element(tables[l], tables[l] + size);
    }
    return sum;
  }
  // out(y_u) = max over y_v of from(y_v) + theta_l; u is the other end of the link.
  void send(int link, int v, const double* from, double* out) const {
    const int rows = graph->count[graph->a[link]], columns = graph->count[graph->b[link]];
    const double* table = tables[link];
    if (!graph->sieves.empty() && graph->sieves[link]) {
      const auto send = graph->a[link] == v ? &Sieve::of_states : &Sieve::of_labels;
      return send(graph->sieves[link], rows, from, columns, out);
    }
    if (graph->a[link] == v) {
      for (int q = 0; q < columns; ++q) out[q] = from[0] + table[q];
      for (int p = 1; p < rows; ++p) {
        table += columns;
        for (int q = 0; q < columns; ++q) out[q] = std::max(out[q], from[p] + table[q]);
      }
    } else {
      for (int p = 0; p < rows; ++p, table += columns) {
        double top = from[0] + table[0];
        for (int q = 1; q < columns; ++q) top = std::max(top, from[q] + table[q]);
        out[p] = top;
      }
    }
  }
};

inline int top_of(const double* values, int n) {
  return static_cast<int>(std::max_element(values, values + n) - values);
}

// Max-product on a spanning forest, from the leaves to the roots. It uses only the tables of the links in the
// forest:
//     best[v, k] = theta_v(k) + sum over children u of  max_n theta(k, n) + best[u, n]
struct MaxProduct {
  std::vector<double> best, message;

  void climb(const PairwiseView& p) {
    const Topology& g = *p.graph;
    best.assign(p.unary, p.unary + g.place.back());
    for (size_t at = g.order.size(); at-- > 0;) {
      const int v = g.order[at], l = g.parent[v];
      if (l < 0) continue;
      const int u = g.other(l, v);
      message.resize(g.count[u]);
      p.send(l, v, best.data() + g.place[v], message.data());
      for (int k = 0; k < g.count[u]; ++k) best[g.place[u] + k] += message[k];
    }
  }
  // Finds the best labelling if the graph is a forest, by going back from the roots.
  double solve(const PairwiseView& p, int32_t* y) {
    const Topology& g = *p.graph;
    climb(p);
    for (const int v : g.order) {
      double* own = best.data() + g.place[v];
      if (const int l = g.parent[v]; l >= 0)
        for (int k = 0; k < g.count[v]; ++k) own[k] += p.seen_from(l, v, k, y[g.other(l, v)]);
      y[v] = top_of(own, g.count[v]);
    }
    return p.value(y);
  }
};

}  // namespace mm
