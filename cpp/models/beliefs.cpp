#include "models/beliefs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mm {

void Beliefs::of_sequence(const SequenceScores& s, double* out) {
  forward_.resize(static_cast<size_t>(s.T) * s.K);
  top_.resize(s.K), sum_.resize(s.K), after_.assign(s.K, 0);
  for (int k = 0; k < s.K; ++k) forward_[k] = s.at(0, k) + s.start_of(k);
  for (int t = 1; t < s.T; ++t) {
    double* F = forward_.data() + static_cast<size_t>(t) * s.K;
    into(F - s.K, s.A + t * s.step, s.stride, s.K, s.K, F);
    for (int k = 0; k < s.K; ++k) F[k] += s.at(t, k);
  }
  for (int k = 0; k < s.K; ++k) after_[k] = s.end_of(k);
  for (int t = s.T - 1; t >= 0; --t) {
    for (int k = 0; k < s.K; ++k) {
      const size_t at = static_cast<size_t>(t) * s.K + k;
      out[at] = forward_[at] + after_[k];
      after_[k] += s.at(t, k);
    }
    if (t == 0) break;
    const double* A = s.A + t * s.step;
    for (int k = 0; k < s.K; ++k) sum_[k] = from(after_.data(), A + k * s.stride, s.K);
    after_.swap(sum_);
  }
}

void Beliefs::of_forest(const PairwiseView& p, double* out) {
  const Topology& g = *p.graph;
  std::copy(p.unary, p.unary + g.place.back(), out);
  messages_.resize(g.nodes());
  for (size_t at = g.order.size(); at-- > 0;) {
    const int v = g.order[at], l = g.parent[v];
    if (l < 0) continue;
    const int u = g.other(l, v);
    messages_[v].resize(g.count[u]);
    send(p, l, v, out + g.place[v], messages_[v].data());
    for (int k = 0; k < g.count[u]; ++k) out[g.place[u] + k] += messages_[v][k];
  }
  for (const int v : g.order) {
    const int l = g.parent[v];
    if (l < 0) continue;
    const int u = g.other(l, v);
    after_.resize(g.count[u]), back_.resize(g.count[v]);
    for (int k = 0; k < g.count[u]; ++k) after_[k] = out[g.place[u] + k] - messages_[v][k];
    send(p, l, u, after_.data(), back_.data());
    for (int k = 0; k < g.count[v]; ++k) out[g.place[v] + k] += back_[k];
  }
}

double Beliefs::term(double below) const {
  const double x = below / temperature_;
  return x > -45 ? std::exp(x) : 0;  // also 0 for NaN, from -infinity minus -infinity
}

template <class Value>
double Beliefs::soft_maximum(int64_t n, Value&& value) const {
  double top = never;
  for (int64_t k = 0; k < n; ++k) top = std::max(top, value(k));
  if (temperature_ == 0 || top == never) return top;
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += term(value(k) - top);
  return top + temperature_ * std::log(sum);
}
double Beliefs::pooled(const double* values, int64_t n) const {
  return soft_maximum(n, [&](int64_t k) { return values[k]; });
}
double Beliefs::from(const double* values, const double* row, int n) const {
  return soft_maximum(n, [&](int64_t k) { return values[k] + row[k]; });
}

void Beliefs::into(const double* values, const double* table, int64_t stride, int rows, int columns,
                   double* out) {
  top_.assign(columns, never);
  for (int j = 0; j < rows; ++j)
    for (int k = 0; k < columns; ++k) top_[k] = std::max(top_[k], values[j] + table[j * stride + k]);
  if (temperature_ == 0) return void(std::copy_n(top_.begin(), columns, out));
  sum_.assign(columns, 0);
  for (int j = 0; j < rows; ++j)
    for (int k = 0; k < columns; ++k) sum_[k] += term(values[j] + table[j * stride + k] - top_[k]);
  for (int k = 0; k < columns; ++k)
    out[k] = top_[k] == never ? never : top_[k] + temperature_ * std::log(sum_[k]);
}

void Beliefs::send(const PairwiseView& p, int link, int v, const double* values, double* out) {
  const Topology& g = *p.graph;
  const int rows = g.count[g.a[link]], columns = g.count[g.b[link]];
  if (g.a[link] == v) return into(values, p.tables[link], columns, rows, columns, out);
  for (int j = 0; j < rows; ++j)
    out[j] = from(values, p.tables[link] + static_cast<int64_t>(j) * columns, columns);
}

}  // namespace mm
