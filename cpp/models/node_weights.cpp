// The inner loops over pairs. This file compiles them once for each type of weights.
#include "models/node_weights.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "feature_rows.hpp"
#include "offsets.hpp"

namespace mm {

Pairs::Pairs(int labels, std::vector<int64_t> first, std::vector<Label> label)
    : labels_(labels), first_(std::move(first)), label_(std::move(label)) {
  check_offsets(first_, size(), EmptyRanges::allowed, "features of pairs");
  if (!valid()) throw std::invalid_argument("these are not pairs of a feature and a label");
  const int64_t words = (labels + 63) / 64;
  for (int64_t j = 0; j < features(); ++j) {
    rows_.push_back({first_[j], static_cast<int32_t>(first_[j + 1] - first_[j]), -1});
    if (rows_.back().count > std::max(few, words)) add_table(rows_.back());
  }
}

bool Pairs::valid() const {
  for (int64_t j = 0; j < features(); ++j)
    for (int64_t p = first_[j]; p < first_[j + 1]; ++p)
      if (label_[p] >= labels_ || (p > first_[j] && label_[p] <= label_[p - 1])) return false;
  return true;
}

void Pairs::add_table(Row& row) {
  if (words_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() - labels_)) return;
  row.table = static_cast<int32_t>(words_.size());
  int64_t p = row.first;
  for (int from = 0; from < labels_; from += 64) {
    Word word{0, p};
    for (; p < row.first + row.count && label_[p] < from + 64; ++p)
      word.bits |= uint64_t(1) << (label_[p] % 64);
    words_.push_back(word);
  }
}

Pairs Pairs::observed(const Features& features, const int32_t* truth, int labels) {
  const int64_t d = features.width();
  std::vector<int64_t> first(d + 1, 0);
  for (int64_t r = 0; r < features.size(); ++r)
    each_feature(features, r, [&](int64_t j, double x) { first[j + 1] += x != 0; });
  for (int64_t j = 0; j < d; ++j) first[j + 1] += first[j];
  // First the labels of each feature as often as they occur, then each label once.
  std::vector<Label> all(first[d]);
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (int64_t r = 0; r < features.size(); ++r)
    each_feature(features, r, [&](int64_t j, double x) {
      if (x != 0) all[next[j]++] = static_cast<Label>(truth[r]);
    });
  std::vector<int64_t> seen(labels, -1);
  int64_t kept = 0;
  for (int64_t j = 0; j < d; ++j) {
    const int64_t begin = kept;
    for (int64_t p = first[j]; p < next[j]; ++p)
      if (seen[all[p]] != j) seen[all[p]] = j, all[kept++] = all[p];
    std::sort(all.begin() + begin, all.begin() + kept);
    first[j] = begin;
  }
  first[d] = kept;
  return Pairs(labels, std::move(first), std::vector<Label>(all.begin(), all.begin() + kept));
}

template <class Real>
void NodeWeights::add_pair_scores(int64_t r, const Real* W, Real* u) const {
  each_feature(*features, r, [&](int64_t j, auto x) {
    const Pairs::Label* k = pairs->label().data();
    for (int64_t p = pairs->first()[j], end = pairs->first()[j + 1]; p < end; ++p)
      u[k[p]] += static_cast<Real>(x) * W[p];
  });
}

template <class Real>
Real NodeWeights::pair_score(int64_t r, const Real* W, int k) const {
  Real sum = 0;
  each_feature(*features, r, [&](int64_t j, auto x) {
    if (const int64_t p = pairs->find(j, k); p >= 0) sum += static_cast<Real>(x) * W[p];
  });
  return sum;
}

template <class Target>
void NodeWeights::add_to_pairs(int64_t r, Target W, int k, number_at<Target> c) const {
  each_feature(*features, r, [&](int64_t j, auto x) {
    if (const int64_t p = pairs->find(j, k); p >= 0) W[p] += c * static_cast<number_at<Target>>(x);
  });
}

template <class Real>
double NodeWeights::add_to_all_pairs(int64_t r, Real* W, const Real* c, Real scale) const {
  double sum = 0;
  each_feature(*features, r, [&](int64_t j, auto x) {
    const Pairs::Label* k = pairs->label().data();
    for (int64_t p = pairs->first()[j], end = pairs->first()[j + 1]; p < end; ++p) {
      const Real d = scale * static_cast<Real>(x) * c[k[p]];
      sum += static_cast<double>(d) * (2.0 * W[p] + d);
      W[p] += d;
    }
  });
  return sum;
}

double NodeWeights::pair_norm(int64_t r, int k) const {
  double sum = 0;
  each_feature(*features, r, [&](int64_t j, double x) { sum += pairs->find(j, k) >= 0 ? x * x : 0.0; });
  return sum;
}

double NodeWeights::pair_dot(int64_t r, int64_t q, int k) const {
  double sum = 0;
  each_shared(*features, r, q, [&](int64_t j, double x, double y) {
    if (pairs->find(j, k) >= 0) sum += x * y;
  });
  return sum;
}

template void NodeWeights::add_pair_scores(int64_t, const float*, float*) const;
template void NodeWeights::add_pair_scores(int64_t, const double*, double*) const;
template float NodeWeights::pair_score(int64_t, const float*, int) const;
template double NodeWeights::pair_score(int64_t, const double*, int) const;
template double NodeWeights::add_to_all_pairs(int64_t, float*, const float*, float) const;
template double NodeWeights::add_to_all_pairs(int64_t, double*, const double*, double) const;
template void NodeWeights::add_to_pairs(int64_t, float*, int, float) const;
template void NodeWeights::add_to_pairs(int64_t, double*, int, double) const;
template void NodeWeights::add_to_pairs(int64_t, Gather, int, double) const;
template void NodeWeights::add_to_pairs(int64_t, Count, int, double) const;

}  // namespace mm
