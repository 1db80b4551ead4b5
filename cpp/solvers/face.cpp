#include "solvers/face.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace mm {

void FaceState::add(int64_t block, const double* a, int outputs) {
  const size_t first = labels_.size();
  for (int y = 0; y < outputs; ++y)
    if (a[y] > 0) labels_.push_back(y), a_.push_back(a[y]);
  if (labels_.size() < first + 2)
    labels_.resize(first), a_.resize(first);
  else
    groups_.push_back({block, first, labels_.size(), 0, std::accumulate(a, a + outputs, 0.0)});
}

double FaceState::gap() const {
  double sum = 0;
  for (const Group& g : groups_) {
    const double top = *std::max_element(&s_[g.first], s_.data() + g.last);
    for (size_t e = g.first; e < g.last; ++e) sum += a_[e] * (top - s_[e]);
  }
  return sum;
}

double FaceState::mean(const Group& g) const {
  double sum = 0;
  for (size_t e = g.first; e < g.last; ++e) sum += s_[e];
  return sum / static_cast<double>(g.last - g.first);
}

double FaceState::turn(double& before) {
  double product = 0, slope = 0;
  for (const Group& g : groups_) {
    const double m = mean(g);
    for (size_t e = g.first; e < g.last; ++e) product += g.inverse * (s_[e] - m) * (s_[e] - m);
  }
  const double beta = before > 0 ? product / before : 0;
  before = product;
  for (const Group& g : groups_) {
    const double m = mean(g);
    for (size_t e = g.first; e < g.last; ++e) {
      p_[e] = g.inverse * (s_[e] - m) + beta * p_[e];
      slope += p_[e] * (s_[e] - m);
    }
  }
  return slope;
}

double FaceState::longest() const {
  double longest_step = std::numeric_limits<double>::infinity();
  for (size_t e = 0; e < a_.size(); ++e)
    if (p_[e] < 0) longest_step = std::min(longest_step, a_[e] / -p_[e]);
  return longest_step;
}

void FaceState::step_by(double step) {
  for (const Group& g : groups_) {
    double sum = 0;
    for (size_t e = g.first; e < g.last; ++e) {
      a_[e] = std::max(0.0, a_[e] + step * p_[e]);  // rounding may make it negative
      sum += a_[e];
    }
    // Rounding of a long step would take the multipliers away from their mass.
    *std::max_element(&a_[g.first], a_.data() + g.last) += g.mass - sum;
  }
}

void FaceState::leave() {
  constexpr double rounding =
      1e-14;  // multipliers below this fraction of a block's largest one count as zero
  size_t kept = 0, groups = 0;
  for (Group g : groups_) {
    const size_t first = kept;
    const double most = *std::max_element(&a_[g.first], a_.data() + g.last);
    double rest = 0;
    for (size_t e = g.first; e < g.last; ++e) {
      if (a_[e] <= rounding * most) {
        rest += a_[e];
        left_.push_back({g.block, labels_[e], 0.0});
        continue;
      }
      labels_[kept] = labels_[e], a_[kept] = a_[e], s_[kept] = s_[e], p_[kept] = p_[e];
      ++kept;
    }
    *std::max_element(&a_[first], a_.data() + kept) += rest;
    if (kept == first + 1)
      left_.push_back({g.block, labels_[--kept], a_[first]});
    else
      groups_[groups++] = {g.block, first, kept, g.inverse, g.mass};
  }
  groups_.resize(groups);
  labels_.resize(kept), a_.resize(kept), s_.resize(kept), p_.resize(kept);
}

}  // namespace mm
