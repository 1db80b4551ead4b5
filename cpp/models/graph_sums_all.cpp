// Distributions over the labellings of a forest (SumsAll), by sum-product from the leaves to the roots and
// back.
//
// The potentials are the scores of the nodes, then the table of each link. Each potential is a row of one
// number.
//     up(v, k)    = u_v[k] + sum over children c of  log sum_l exp(table(k, l) + up(c, l))
//     p(k, l)     ~ exp(rest(u, k) + table(k, l) + up(v, l)),   rest(u) = all of u's tree but the branch of v
#include <algorithm>
#include <cmath>

#include "exponential.hpp"
#include "models/graph_factors.hpp"

namespace mm {
namespace {

// m = exp(x) / sum exp(x)
void normalise(const double* x, int64_t n, double* m) {
  const double sum = log_sum(x, n);
  for (int64_t k = 0; k < n; ++k) m[k] = std::exp(x[k] - sum);
}

}  // namespace

bool GraphFactors::can_sum() const {
  return std::all_of(data_.shapes.begin(), data_.shapes.end(),
                     [](const Shape& g) { return g.forest && g.derived.empty(); });
}

int64_t GraphFactors::potentials(int64_t block) const {
  const Shape& g = data_.shape_of(block);
  int64_t size = g.place.back();
  for (int l = 0; l < g.links(); ++l) size += static_cast<int64_t>(g.count[g.a[l]]) * g.count[g.b[l]];
  return size;
}

void GraphFactors::list_potentials(const Scratch& s, const double*, double* theta) const {
  const Shape& g = data_.shape_of(s.block);
  theta = std::copy_n(s.unary.data(), g.place.back(), theta);
  for (int l = 0; l < g.links(); ++l)
    theta = std::copy_n(s.tables[l], static_cast<int64_t>(g.count[g.a[l]]) * g.count[g.b[l]], theta);
}

// Computes the offset of the table of each link.
void GraphFactors::place_links(const Shape& g, std::vector<int64_t>& place) {
  place.assign(1, g.place.back());
  for (int l = 0; l < g.links(); ++l)
    place.push_back(place.back() + static_cast<int64_t>(g.count[g.a[l]]) * g.count[g.b[l]]);
}

double GraphFactors::distribute(Scratch& s, int64_t block, const double* theta, double* m) const {
  const Shape& g = data_.shape_of(block);
  place_links(g, s.link_place);
  s.up.assign(theta, theta + g.place.back());
  s.messages.resize(g.nodes());
  double total = 0;
  for (size_t at = g.order.size(); at-- > 0;) {
    const int v = g.order[at], l = g.parent[v], n = g.count[v];
    const double* own = s.up.data() + g.place[v];
    if (l < 0) {
      total += log_sum(own, n);
      continue;
    }
    const int u = g.other(l, v), stride = g.count[g.b[l]];
    const double* table = theta + s.link_place[l];
    s.messages[v].resize(g.count[u]), s.row.resize(n);
    for (int k = 0; k < g.count[u]; ++k) {
      for (int j = 0; j < n; ++j)
        s.row[j] = own[j] + (g.a[l] == u ? table[k * stride + j] : table[j * stride + k]);
      s.messages[v][k] = log_sum(s.row.data(), n);
      s.up[g.place[u] + k] += s.messages[v][k];
    }
  }
  if (m) distribute_down(g, s, theta, m);
  return total;
}

void GraphFactors::distribute_down(const Shape& g, Scratch& s, const double* theta, double* m) const {
  for (const int v : g.order) {
    const int l = g.parent[v], n = g.count[v];
    double* own = s.up.data() + g.place[v];
    if (l >= 0) {
      const int u = g.other(l, v), rows = g.count[g.a[l]], stride = g.count[g.b[l]];
      const double* table = theta + s.link_place[l];
      double* pairs = m + s.link_place[l];
      s.row.resize(static_cast<size_t>(rows) * stride);
      for (int p = 0; p < rows; ++p)
        for (int q = 0; q < stride; ++q) {
          const int yu = g.a[l] == u ? p : q, yv = g.a[l] == u ? q : p;
          s.row[p * stride + q] = s.up[g.place[u] + yu] - s.messages[v][yu] + table[p * stride + q] + own[yv];
        }
      normalise(s.row.data(), static_cast<int64_t>(rows) * stride, pairs);
      // From here on up(v) also includes the rest of the tree, for v and for its children.
      for (int k = 0; k < n; ++k) {
        s.column.clear();
        for (int j = 0; j < g.count[u]; ++j)
          s.column.push_back(s.row[g.a[l] == u ? j * stride + k : k * stride + j]);
        own[k] = log_sum(s.column.data(), g.count[u]);
      }
    }
    normalise(own, n, m + g.place[v]);
  }
}

// Draws a labelling from a number in [0, 1) for each node. Roots follow their marginals; every other node
// follows the marginals of its link, given the label of its parent.
void GraphFactors::draw(const Scratch& s, int64_t block, const double* m, const double* chance,
                        int32_t* y) const {
  const Shape& g = data_.shape_of(block);
  for (const int v : g.order) {
    const int l = g.parent[v], n = g.count[v];
    const double* p = m + (l < 0 ? g.place[v] : s.link_place[l]);
    int64_t step = 1;
    if (l >= 0) {
      const int stride = g.count[g.b[l]], parent = y[g.other(l, v)];
      p += g.a[l] == v ? parent : static_cast<int64_t>(parent) * stride;
      step = g.a[l] == v ? stride : 1;
    }
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += p[k * step];
    double left = chance[v] * sum;
    int found = 0;
    for (int k = 0; k < n && left >= 0; ++k)
      if (p[k * step] > 0) found = k, left -= p[k * step];  // rounding errors go to the last label
    y[v] = found;
  }
}

void GraphFactors::subtract_truth(int64_t block, double* m) const {
  const Shape& g = data_.shape_of(block);
  for (int v = 0; v < g.nodes(); ++v) m[g.place[v] + truth_of(block, v)] -= 1;
  int64_t place = g.place.back();
  for (int l = 0; l < g.links(); ++l) {
    const int columns = g.count[g.b[l]];
    m[place + static_cast<int64_t>(truth_of(block, g.a[l])) * columns + truth_of(block, g.b[l])] -= 1;
    place += static_cast<int64_t>(g.count[g.a[l]]) * columns;
  }
}

double GraphFactors::expected_loss(int64_t block, const double* m) const {
  const Shape& g = data_.shape_of(block);
  double sum = 0;
  for (int v = 0; v < g.nodes(); ++v)
    for (int k = 0; k < g.count[v]; ++k) sum += m[g.place[v] + k] * node_loss(block, v, k);
  return sum;
}

void GraphFactors::add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const {
  const Shape& g = data_.shape_of(block);
  s.block = block;
  s.move.clear();
  for (int v = 0; v < g.nodes(); ++v)
    for (int k = 0; k < g.count[v]; ++k) push_node(s, g, v, k, m[g.place[v] + k]);
  const double* own = m + g.place.back();
  for (int l = 0; l < g.links(); ++l)
    for (int p = 0; p < g.count[g.a[l]]; ++p)
      for (int q = 0; q < g.count[g.b[l]]; ++q) push_pair(s, g, l, p, q, *own++);
  apply(s, W, c);
}

}  // namespace mm
