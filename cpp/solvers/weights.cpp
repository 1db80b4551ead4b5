#include "solvers/weights.hpp"

#include <algorithm>
#include <utility>

#include "runtime/threads.hpp"

namespace mm {

template <class Real>
void Weights<Real>::set_origin(std::vector<double> m, double square) {
  origin = std::move(m);
  origin_square_ = square;
}

template <class Real>
void Weights<Real>::set_metric(Metric given) {
  metric = std::move(given);
  unclipped.assign(metric.bounded() ? W.size() : 0, 0);
}

template <class Real>
void Weights<Real>::apply_law(std::vector<double>& q) const {
  if (!metric.plain()) {
    metric.multiply(q);
    for (size_t j = 0; j < origin.size(); ++j) q[j] += origin[j];
  }
  if (proximity == 0) return;
  if (!center_resting_.any()) {
    for (size_t j = 0; j < q.size(); ++j) q[j] = (q[j] + proximity * center_[j]) * shrink();
    return;
  }
  center_resting_.each(0, [&](size_t j, Real z) { q[j] += proximity * z; });
  for (double& x : q) x = (x + 0.0) * shrink();  // + 0.0 as in the sum above, which has no negative zero
}

template <class Real>
void Weights<Real>::rest() {
  if (metric.plain()) resting_.take({W.data()}, W.size());
  rest_center();
}

template <class Real>
void Weights<Real>::rest_center() {
  if (metric.plain() && !center_.empty()) center_resting_.take({center_.data(), previous_.data()}, W.size());
}

template <class Real>
void Weights<Real>::clip(std::vector<double>& v) const {
  for (size_t j = 0; j < metric.lower.size(); ++j) v[j] = metric.clipped(j, v[j]);
}

template <class Real>
void Weights<Real>::write(const std::vector<double>& v) {
  for (size_t j = 0; j < unclipped.size(); ++j) unclipped[j] = static_cast<Real>(v[j]);
  for (size_t j = 0; j < v.size(); ++j) W[j] = static_cast<Real>(metric.clipped(j, v[j]));
  ++rewritten;
}

template <class Real>
double Weights<Real>::without_proximal(size_t j) const {
  const double v = unclipped.empty() ? W[j] : unclipped[j];
  return proximity == 0 ? v : (1 + proximity) * v - proximity * center_[j];
}

template <class Real>
template <class F>
void Weights<Real>::over_parts(F&& f) const {
  constexpr int64_t worthwhile = 200'000;  // weights per thread: fewer take less time than starting a thread
  const int64_t size = static_cast<int64_t>(W.size());
  parallel_parts(size, static_cast<int>(std::min<int64_t>(threads, 1 + size / worthwhile)), f);
}

template <class Real>
template <class F, class G>
std::pair<double, double> Weights<Real>::squared_lengths(F&& u, G&& v) const {
  const int64_t A = static_cast<int64_t>(coefficients_), size = static_cast<int64_t>(W.size());
  const auto squares = [&](int64_t first, int64_t last) {
    return sums_of(
        first, last, [&](int64_t j) { return u(j) * u(j); }, [&](int64_t j) { return v(j) * v(j); });
  };
  if (A > 0) {
    const auto rest = squares(2 * A, size);
    const auto own =
        sums_of(0, A, [&](int64_t j) { return u(j) * u(A + j); }, [&](int64_t j) { return v(j) * v(A + j); });
    return {own.first + rest.first, own.second + rest.second};
  }
  std::vector<std::pair<double, double>> sums(std::max(1, threads));
  over_parts([&](int64_t first, int64_t last, int part) { sums[part] = squares(first, last); });
  return sums_of(
      0, static_cast<int64_t>(sums.size()), [&](int64_t k) { return sums[k].first; },
      [&](int64_t k) { return sums[k].second; });
}

template <class Real>
template <class F>
double Weights<Real>::squared_length(F&& u) const {
  return squared_lengths(u, [](int64_t) { return 0.0; }).first;
}

template <class Real>
double Weights<Real>::negative_conjugate() const {
  if (metric.plain()) {
    const double square = squared_length([&](int64_t j) -> double {
      return proximity == 0 ? W[j] : (1 + proximity) * W[j] - proximity * center_[j];
    });
    return -(square - origin_square_) / 2;
  }
  double sum = 0;
  for (size_t j = 0; j < W.size(); ++j) {
    const double m = origin.empty() ? 0 : origin[j], v = without_proximal(j), w = metric.clipped(j, v);
    sum += ((v - m) * w - (w - m) * (w - m) / 2) / metric.scale(j);
  }
  return -sum;
}

template <class Real>
double Weights<Real>::conjugate_of(const std::vector<double>& q) const {
  std::vector<double> image = q;
  metric.multiply(image);
  double sum = 0;
  for (size_t j = 0; j < q.size(); ++j) sum += q[j] * ((origin.empty() ? 0 : origin[j]) + image[j] / 2);
  return sum;
}

template <class Real>
double Weights<Real>::lag() const {
  double sum = 0;
  for (size_t j = 0; j < W.size(); ++j) {
    const double w = W[j], v = without_proximal(j), own = metric.clipped(j, v);
    sum += (w - own) * ((w + own) / 2 - v) / metric.scale(j);
  }
  return std::max(sum, 0.0);
}

template <class Real>
double Weights<Real>::squared_distance() const {
  if (center_.empty()) return 0;
  return squared_length([&](int64_t j) { return static_cast<double>(W[j]) - center_[j]; });
}

template <class Real>
std::pair<double, double> Weights<Real>::conjugate_and_distance() const {
  const auto found =
      squared_lengths([&](int64_t j) { return (1 + proximity) * W[j] - proximity * center_[j]; },
                      [&](int64_t j) { return static_cast<double>(W[j]) - center_[j]; });
  return {-(found.first - origin_square_) / 2, found.second};
}

template <class Real>
void Weights<Real>::set_center(const std::vector<double>& z, double k) {
  center_.assign(z.begin(), z.end());
  previous_ = center_;
  proximity = k;
}

template <class Real>
void Weights<Real>::recenter(double momentum, double new_proximity) {
  if (center_.empty()) center_ = previous_ = W;
  const Real k = static_cast<Real>(proximity), beta = static_cast<Real>(momentum);
  const Real next = static_cast<Real>(new_proximity), h = static_cast<Real>(1 / (1 + new_proximity));
  Real *z = center_.data(), *p = previous_.data();
  // Without bounds v is W, and `at` must use the same pointer: with two pointers that may overlap, the compiler would
  // not vectorise the loop.
  const auto step = [&](Real* v, auto&& at) {
    over_parts([=](int64_t first, int64_t last, int) {
      for (int64_t j = first; j < last; ++j) {
        const Real w = at(j), q = (1 + k) * v[j] - k * z[j], center = w + beta * (w - p[j]);
        p[j] = w;
        z[j] = center;
        v[j] = (q + next * center) * h;
      }
    });
  };
  if (unclipped.empty())
    step(W.data(), [v = W.data()](int64_t j) { return v[j]; });
  else
    step(unclipped.data(), [w = W.data()](int64_t j) { return w[j]; });
  for (size_t j = 0; j < unclipped.size(); ++j) W[j] = static_cast<Real>(metric.clipped(j, unclipped[j]));
  proximity = new_proximity;
  ++rewritten;
}

template class Weights<float>;
template class Weights<double>;

}  // namespace mm
