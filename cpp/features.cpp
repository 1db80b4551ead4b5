// The inner loops over rows of features. This file compiles them once for each type of weights.
#include "features.hpp"

#include <bit>
#include <type_traits>

#include "feature_rows.hpp"

namespace mm {
namespace {

// out[0 : N vectors] += sum_j x_j W[index_j, 0 : N vectors]. The sums stay in registers.
template <class Real, int N, class Row>
void accumulate(const Row& row, const Real* W, int stride, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> even[N], odd[N];
  for (int n = 0; n < N; ++n) even[n] = load(out + n * lanes), odd[n] = vec<Real>{};
  int32_t j = 0;
  for (; j + 1 < row.length; j += 2) {  // two independent sums hide the latency of the addition
    const Real* a = W + row.index(j) * stride;
    const Real* b = W + row.index(j + 1) * stride;
    const vec<Real> x = broadcast(static_cast<Real>(row.value(j)));
    const vec<Real> y = broadcast(static_cast<Real>(row.value(j + 1)));
    for (int n = 0; n < N; ++n) even[n] += x * load(a + n * lanes);
    for (int n = 0; n < N; ++n) odd[n] += y * load(b + n * lanes);
  }
  if (j < row.length) {
    const Real* a = W + row.index(j) * stride;
    const vec<Real> x = broadcast(static_cast<Real>(row.value(j)));
    for (int n = 0; n < N; ++n) even[n] += x * load(a + n * lanes);
  }
  for (int n = 0; n < N; ++n) store(out + n * lanes, even[n] + odd[n]);
}

// The same for only the one or two vectors whose bits are set in `wanted`.
template <class Real, class Row>
void accumulate_two(const Row& row, const Real* W, int stride, Real* out, uint64_t wanted) {
  constexpr int lanes = Vector<Real>::lanes;
  const int first = std::countr_zero(wanted) * lanes, second = (63 - std::countl_zero(wanted)) * lanes;
  vec<Real> even[2] = {load(out + first), load(out + second)}, odd[2] = {};
  const auto add = [&](vec<Real>* sums, int32_t j) {
    const Real* a = W + row.index(j) * stride;
    const vec<Real> x = broadcast(static_cast<Real>(row.value(j)));
    sums[0] += x * load(a + first);
    sums[1] += x * load(a + second);
  };
  int32_t j = 0;
  for (; j + 1 < row.length; j += 2) add(even, j), add(odd, j + 1);
  if (j < row.length) add(even, j);
  store(out + first, even[0] + odd[0]);
  store(out + second, even[1] + odd[1]);
}

// <x, w>, in four sums, because each addition to a single sum would wait for the previous one.
template <class Real, class T>
Real dot_of(const DenseRow<T>& row, const Real* w) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> sums[4] = {};
  int32_t j = 0;
  for (; j + 4 * lanes <= row.length; j += 4 * lanes)
    for (int n = 0; n < 4; ++n)
      sums[n] += load_as<Real>(row.values + j + n * lanes) * load(w + j + n * lanes);
  for (; j + lanes <= row.length; j += lanes) sums[0] += load_as<Real>(row.values + j) * load(w + j);
  Real sum = sum_of_lanes<Real>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; j < row.length; ++j) sum += static_cast<Real>(row.values[j]) * w[j];
  return sum;
}
template <class Real, class Row>
Real dot_of(const Row& row, const Real* w) {
  Real sums[4] = {0, 0, 0, 0};
  int32_t j = 0;
  for (; j + 4 <= row.length; j += 4)
    for (int n = 0; n < 4; ++n) sums[n] += static_cast<Real>(row.value(j + n)) * w[row.index(j + n)];
  for (; j < row.length; ++j) sums[0] += static_cast<Real>(row.value(j)) * w[row.index(j)];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// w += c x
template <class Real, class T>
void axpy_of(const DenseRow<T>& row, Real* w, Real c) {
  constexpr int lanes = Vector<Real>::lanes;
  const vec<Real> factor = broadcast(c);
  int32_t j = 0;
  for (; j + lanes <= row.length; j += lanes)
    store(w + j, load(w + j) + factor * load_as<Real>(row.values + j));
  for (; j < row.length; ++j) w[j] += c * static_cast<Real>(row.values[j]);
}
template <class Real, class Row, class Target>
void axpy_of(const Row& row, Target w, Real c) {
  int32_t j = 0;
  if constexpr (std::is_pointer_v<Target>) {
    for (; j + 4 <= row.length;
         j += 4) {  // read four before writing one, because the compiler cannot know that the indices differ
      Real next[4];
      for (int n = 0; n < 4; ++n) next[n] = w[row.index(j + n)] + c * static_cast<Real>(row.value(j + n));
      for (int n = 0; n < 4; ++n) w[row.index(j + n)] = next[n];
    }
  }
  for (; j < row.length; ++j) w[row.index(j)] += c * static_cast<Real>(row.value(j));
}

// <x, w>, and sum += c x
template <class Row>
double dot_and_axpy_of(const Row& row, const double* w, double* sum, double c) {
  double products[4] = {};
  int32_t j = 0;
  const auto add = [&](double& product, int32_t at) {
    const int64_t i = row.index(at);
    const double x = row.value(at);
    product += x * w[i];
    sum[i] += c * x;
  };
  for (; j + 4 <= row.length; j += 4)
    for (int n = 0; n < 4; ++n) add(products[n], j + n);
  for (; j < row.length; ++j) add(products[0], j);
  return (products[0] + products[1]) + (products[2] + products[3]);
}
template <class T>
double dot_and_axpy_of(const DenseRow<T>& row, const double* w, double* sum, double c) {
  axpy_of(row, sum, c);  // afterwards the row is in the cache
  return dot_of<double>(row, w);
}

// W[index_j, 0 : N vectors] += scale x_j c. Returns the change of |W|^2, computed from the scores before the update:
//   |W + x d'|^2 - |W|^2 = <d, 2 x'W + |x|^2 d>,   d = scale c
template <class Real, int N, class Row>
double add_and_measure(const Row& row, Real* W, int stride, const Real* c, Real scale) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> d[N], scores[N] = {};
  for (int n = 0; n < N; ++n) d[n] = broadcast(scale) * load(c + n * lanes);
  Real square = 0;
  for (int32_t j = 0; j < row.length; ++j) {
    Real* w = W + row.index(j) * stride;
    const Real value = static_cast<Real>(row.value(j));
    const vec<Real> x = broadcast(value);
    square += value * value;
    for (int n = 0; n < N; ++n) {
      const vec<Real> old = load(w + n * lanes);
      scores[n] += x * old;
      store(w + n * lanes, old + x * d[n]);
    }
  }
  WideSum<Real> sums;
  for (int n = 0; n < N; ++n) sums.add(d[n] * (scores[n] + scores[n] + broadcast(square) * d[n]));
  return sums.total();
}

// W[:, plus] += c x and W[:, minus] -= c x by whole vectors, because scores soon read whole vectors.
template <class Real>
void add_two_lanes(const Features& features, int64_t r, Real* W, int stride, int plus, int minus, Real c) {
  constexpr int lanes = Vector<Real>::lanes;
  const vec<Real> up = one_lane<Real>(plus % lanes, c), down = one_lane<Real>(minus % lanes, -c);
  const auto add = [](Real* w, vec<Real> x) { store(w, load(w) + x); };
  Real *first = W + plus / lanes * lanes, *second = W + minus / lanes * lanes;
  if (first == second) {
    const vec<Real> both = up + down;
    return each_feature(features, r, [=](int64_t j, auto x) {
      add(first + j * stride, broadcast(static_cast<Real>(x)) * both);
    });
  }
  each_feature(features, r, [=](int64_t j, auto x) {
    const vec<Real> factor = broadcast(static_cast<Real>(x));
    add(first + j * stride, factor * up);
    add(second + j * stride, factor * down);
  });
}

// <a, b>
template <class T>
double product(const DenseRow<T>& a, const DenseRow<T>& b) {
  double lane[4] = {0, 0, 0, 0};
  int32_t j = 0;
  for (; j + 3 < a.length; j += 4)
    for (int k = 0; k < 4; ++k) lane[k] += static_cast<double>(a.values[j + k]) * b.values[j + k];
  for (; j < a.length; ++j) lane[0] += static_cast<double>(a.values[j]) * b.values[j];
  return lane[0] + lane[1] + lane[2] + lane[3];
}
template <class Row>
double product(const Row& a, const Row& b) {  // merge of sorted index lists
  double sum = 0;
  int32_t i = 0, j = 0;
  while (i < a.length && j < b.length) {
    const int64_t p = a.index(i), q = b.index(j);
    if (p == q) sum += static_cast<double>(a.value(i)) * b.value(j);
    i += p <= q;
    j += q <= p;
  }
  return sum;
}

}  // namespace

template <class Real>
void Features::add_scores(int64_t r, const Real* W, int stride, Real* out, uint64_t wanted) const {
  if (gram) {
    const Real* u = W + (columns + r) * stride;
    for (int k = 0; k < stride; ++k) out[k] += u[k];
    return;
  }
  with_row(*this, r, [&](const auto& row) {
    if (std::popcount(wanted) <= 2 && !(wanted >> 63))
      return accumulate_two<Real>(row, W, stride, out, wanted);
    by_vectors<Real>(stride,
                     [&]<int N>(int column) { accumulate<Real, N>(row, W + column, stride, out + column); });
  });
  if (bias != 0) {
    const Real* last = W + columns * stride;
    for (int k = 0; k < stride; ++k) out[k] += static_cast<Real>(bias) * last[k];
  }
}

template <class Real>
void Features::prefetch_weights(int64_t r, const Real* W, int stride) const {
  if (gram || kind == Kind::dense32 || kind == Kind::dense64) return;
  with_row(*this, r, [&](const auto& row) {
    for (int32_t j = 0; j < row.length; ++j) {
      const Real* w = W + row.index(j) * stride;
      fetch_ahead(w);
      if (stride * sizeof(Real) > 64) fetch_ahead(w + stride - 1);
    }
  });
}

template <class Real>
Real Features::score_of(int64_t r, const Real* W, int stride, int column) const {
  if (gram) return W[(columns + r) * stride + column];
  const Real sum = with_row(*this, r, [&](const auto& row) {
    Real s = 0;
    for (int32_t j = 0; j < row.length; ++j)
      s += static_cast<Real>(row.value(j)) * W[row.index(j) * stride + column];
    return s;
  });
  return bias == 0 ? sum : sum + static_cast<Real>(bias) * W[columns * stride + column];
}

template <class Real>
Real Features::dot_weights(int64_t r, const RowView& view, const Real* w) const {
  if (gram) return w[columns + r];
  const Real sum = with_view(kind, view, [&](const auto& row) { return dot_of<Real>(row, w); });
  return bias == 0 ? sum : sum + static_cast<Real>(bias) * w[columns];
}

double Features::dot(int64_t r, int64_t q) const {
  if (gram) return gram->row(r)[q];
  const double sum = with_row(*this, r, [&](const auto& a) {
    using Row = std::decay_t<decltype(a)>;
    return with_row(*this, q, [&](const auto& b) {
      if constexpr (std::is_same_v<Row, std::decay_t<decltype(b)>>)
        return product(a, b);
      else
        return 0.0;  // never reached: all rows have the same kind
    });
  });
  return sum + bias * bias;
}

template <class Target>
void Features::add_pair(int64_t r, Target W, int stride, int plus, int minus, number_at<Target> c) const {
  using Real = number_at<Target>;
  const Target up = W + plus, down = W + minus;
  const auto add = [=](int64_t at, Real d) {
    up[at] += d;
    down[at] -= d;
  };
  if (gram) {
    add(r * stride, c);
    const Gram::Row row = gram->row(r);
    for (int64_t j = 0; j < columns; ++j) add((columns + j) * stride, c * static_cast<Real>(row[j]));
    return;
  }
  if constexpr (std::is_pointer_v<Target>)
    if (stride % Vector<Real>::lanes == 0) return add_two_lanes(*this, r, W, stride, plus, minus, c);
  each_feature(*this, r, [=](int64_t j, auto x) { add(j * stride, c * static_cast<Real>(x)); });
}

template <class Target>
void Features::add_column(int64_t r, Target W, int stride, int column, number_at<Target> c) const {
  using Real = number_at<Target>;
  if (gram) {
    W[r * stride + column] += c;
    const Gram::Row row = gram->row(r);
    Target u = W + columns * stride + column;
    for (int64_t j = 0; j < columns; ++j, u += stride) *u += c * static_cast<Real>(row[j]);
    return;
  }
  each_feature(*this, r, [=](int64_t j, auto x) { W[j * stride + column] += c * static_cast<Real>(x); });
}

template <class Target>
void Features::axpy(int64_t r, const RowView& view, Target w, number_at<Target> c) const {
  if (gram) return add_column(r, w, 1, 0, c);
  with_view(kind, view, [&](const auto& row) { axpy_of(row, w, c); });
  if (bias != 0) w[columns] += c * static_cast<number_at<Target>>(bias);
}

double Features::dot_and_axpy(int64_t r, const double* w, double* sum, double c) const {
  const double product = with_row(*this, r, [&](const auto& row) { return dot_and_axpy_of(row, w, sum, c); });
  if (bias == 0) return product;
  sum[columns] += c * bias;
  return product + bias * w[columns];
}

template <class Real>
void Features::add_outer(int64_t r, Real* W, int stride, const Real* c) const {
  by_vectors<Real>(stride, [&]<int N>(int column) {
    constexpr int lanes = Vector<Real>::lanes;
    vec<Real> d[N];
    for (int n = 0; n < N; ++n) d[n] = load(c + column + n * lanes);
    each_feature(*this, r, [=](int64_t j, auto value) {
      Real* w = W + j * stride + column;
      const vec<Real> x = broadcast(static_cast<Real>(value));
      for (int n = 0; n < N; ++n) store(w + n * lanes, load(w + n * lanes) + x * d[n]);
    });
  });
}

template <class Real>
double Features::add_measured(int64_t r, Real* W, int stride, const Real* c, Real scale) const {
  double sum = 0;
  const auto add = [&](const auto& row, Real* at) {
    by_vectors<Real>(stride, [&]<int N>(int column) {
      sum += add_and_measure<Real, N>(row, at + column, stride, c + column, scale);
    });
  };
  with_row(*this, r, [&](const auto& row) { add(row, W); });
  if (bias != 0) add(DenseRow<double>{&bias, 1}, W + columns * stride);
  return sum;
}

void Features::take_squares(int64_t r, double* W, int stride, double& sum) const {
  each_feature(*this, r, [&](int64_t j, double) {
    double& w = W[j * stride];
    sum += w * w, w = 0;
  });
}

template void Features::add_scores(int64_t, const float*, int, float*, uint64_t) const;
template void Features::add_scores(int64_t, const double*, int, double*, uint64_t) const;
template void Features::prefetch_weights(int64_t, const float*, int) const;
template void Features::prefetch_weights(int64_t, const double*, int) const;
template float Features::score_of(int64_t, const float*, int, int) const;
template double Features::score_of(int64_t, const double*, int, int) const;
template float Features::dot_weights(int64_t, const RowView&, const float*) const;
template double Features::dot_weights(int64_t, const RowView&, const double*) const;
template void Features::add_outer(int64_t, float*, int, const float*) const;
template void Features::add_outer(int64_t, double*, int, const double*) const;
template double Features::add_measured(int64_t, float*, int, const float*, float) const;
template double Features::add_measured(int64_t, double*, int, const double*, double) const;
template void Features::add_pair(int64_t, float*, int, int, int, float) const;
template void Features::add_pair(int64_t, double*, int, int, int, double) const;
template void Features::add_pair(int64_t, Gather, int, int, int, double) const;
template void Features::add_pair(int64_t, Count, int, int, int, double) const;
template void Features::add_column(int64_t, float*, int, int, float) const;
template void Features::add_column(int64_t, double*, int, int, double) const;
template void Features::add_column(int64_t, Gather, int, int, double) const;
template void Features::add_column(int64_t, Count, int, int, double) const;
template void Features::axpy(int64_t, const RowView&, float*, float) const;
template void Features::axpy(int64_t, const RowView&, double*, double) const;
template void Features::axpy(int64_t, const RowView&, Gather, double) const;

}  // namespace mm
