#include "models/chain_search.hpp"

#include <algorithm>
#include <limits>

namespace mm {
namespace {

struct Ranked {
  double score;
  int label, rank;  // of the predecessor
};

// Keeps the k best of the legal items.
void keep_best(std::vector<Ranked>& all, int k) {
  std::erase_if(all,
                [](const Ranked& item) { return item.score == -std::numeric_limits<double>::infinity(); });
  const size_t n = std::min(all.size(), static_cast<size_t>(k));
  std::partial_sort(all.begin(), all.begin() + n, all.end(),
                    [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  all.resize(n);
}

// argmax_j from[j] + A_t[j, k]
int predecessor(const SequenceScores& s, int t, const double* from, int k) {
  int top = 0;
  double value = from[0] + s.transition(t, 0, k);
  for (int j = 1; j < s.K; ++j)
    if (const double x = from[j] + s.transition(t, j, k); x > value) value = x, top = j;
  return top;
}

}  // namespace

void best_labellings(const SequenceScores& s, int k, std::vector<int32_t>& y, std::vector<double>& scores) {
  std::vector<std::vector<Ranked>> table(static_cast<size_t>(s.T) * s.K);
  const auto ranks = [&](int t, int label) -> auto& { return table[static_cast<size_t>(t) * s.K + label]; };
  for (int label = 0; label < s.K; ++label) ranks(0, label) = {{s.at(0, label) + s.start_of(label), -1, 0}};
  std::vector<Ranked> all;
  for (int t = 1; t < s.T; ++t)
    for (int label = 0; label < s.K; ++label) {
      all.clear();
      for (int from = 0; from < s.K; ++from)
        for (size_t rank = 0; rank < ranks(t - 1, from).size(); ++rank)
          all.push_back(
              {ranks(t - 1, from)[rank].score + s.transition(t, from, label), from, static_cast<int>(rank)});
      keep_best(all, k);
      for (auto& item : all) item.score += s.at(t, label);
      ranks(t, label) = all;
    }
  all.clear();
  for (int label = 0; label < s.K; ++label)
    for (size_t rank = 0; rank < ranks(s.T - 1, label).size(); ++rank)
      all.push_back({ranks(s.T - 1, label)[rank].score + s.end_of(label), label, static_cast<int>(rank)});
  keep_best(all, k);
  y.resize(all.size() * s.T);
  for (size_t j = 0; j < all.size(); ++j) {
    scores.push_back(all[j].score);
    int label = all[j].label, rank = all[j].rank;
    for (int t = s.T - 1; t >= 0; --t) {
      y[j * s.T + t] = label;
      const Ranked& item = ranks(t, label)[rank];
      label = item.label, rank = item.rank;
    }
  }
}

bool best_by_mistakes(const SequenceScores& s, double each, double shift, const std::vector<int32_t>& truth,
                      std::vector<double>& table, std::vector<int32_t>& y) {
  table.assign(static_cast<size_t>(s.T) * (s.T + 1) * s.K, -std::numeric_limits<double>::infinity());
  const auto F = [&](int t, int n) { return table.data() + (static_cast<size_t>(t) * (s.T + 1) + n) * s.K; };
  for (int k = 0; k < s.K; ++k) F(0, k != truth[0])[k] = s.at(0, k) + s.start_of(k);
  // F[t, n, k] = U[t, k] + max_j (F[t-1, n - [k wrong], j] + A_t[j, k])
  for (int t = 1; t < s.T; ++t)
    for (int n = 0; n <= t + 1; ++n)
      for (int k = 0; k < s.K; ++k) {
        const int before = n - (k != truth[t]);
        if (before < 0) continue;
        const double* from = F(t - 1, before);
        const int j = predecessor(s, t, from, k);
        F(t, n)[k] = from[j] + s.transition(t, j, k) + s.at(t, k);
      }
  double top = 0;
  int mistakes = 0, label = 0;
  for (int n = 1; n <= s.T; ++n)
    for (int k = 0; k < s.K; ++k) {
      const double value = n * each * (F(s.T - 1, n)[k] + s.end_of(k) + shift);
      if (value > top) top = value, mistakes = n, label = k;
    }
  for (int t = s.T - 1; mistakes > 0 && t >= 0; --t) {
    y[t] = label;
    mistakes -= label != truth[t];
    if (t > 0) label = predecessor(s, t, F(t - 1, mistakes), label);
  }
  return top > 0;
}

}  // namespace mm
