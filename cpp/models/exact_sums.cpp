// Exact computations about distributions over all outputs: log partition functions, gradients, entropies.
#include <algorithm>
#include <vector>

#include "models/exact.hpp"
#include "shuffle.hpp"

namespace mm {
namespace {

size_t potentials_of(const Unlabelled& structure, int64_t i) {
  return static_cast<size_t>(structure.potentials(i)) * structure.row_stride();
}

// <a, b>, in four sums, because each addition to a single sum would wait for the previous one.
double product(const aligned<double>& a, const aligned<double>& b) {
  double sums[4] = {};
  size_t k = 0;
  for (; k + 4 <= a.size(); k += 4)
    for (int l = 0; l < 4; ++l) sums[l] += a[k + l] * b[k + l];
  for (; k < a.size(); ++k) sums[0] += a[k] * b[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

int64_t Exact::potentials() const { return first_potentials().back(); }

double Exact::scored(int64_t i, const double* W, double loss, Own& own) const {
  read_truth(i, own.truth);
  structure_->open(i, W, own.s, loss != 0, loss);
  const double right = outputs_->score(own.s, own.truth.data());
  structure_->list_potentials(own.s, W, own.theta.data());
  return right;
}

void Exact::log_sums(const double* flat, int threads, double loss, double* xi) const {
  const PackedWeights w = pack(flat);
  const double* W = w.W.data();
  each(blocks(), threads, w, [&](int64_t i, Own& own) {
    own.theta.resize(potentials_of(*structure_, i));
    const double right = scored(i, W, loss, own);
    xi[i] = structure_->distribute(own.s, i, own.theta.data(), nullptr) - right;
  });
}

template <class F>
void Exact::add_up(int threads, double* flat, F&& f) const {
  const int parts = parts_with_sums(threads, potentials(), structure_->weights());
  std::vector<aligned<double>> sums(parts);
  parallel_parts(blocks(), parts, [&](int64_t from, int64_t to, int k) {
    sums[k].assign(structure_->weights(), 0);
    Own own{structure_->scratch()};
    own.sum = sums[k].data();
    for (int64_t i = from; i < to; ++i) {
      poll();
      own.theta.resize(potentials_of(*structure_, i)), own.m.resize(own.theta.size());
      f(i, own);
    }
  });
  for (int k = 1; k < parts; ++k)
    for (size_t j = 0; j < sums[k].size(); ++j) sums[0][j] += sums[k][j];
  structure_->unpack(sums[0].data(), flat);
}

double Exact::tilt(const double* flat, const double* mass, int threads, double loss, double* gradient) const {
  const PackedWeights w = pack(flat);
  const double* W = w.W.data();
  std::vector<double> xi(blocks(), 0);
  add_up(threads, gradient, [&](int64_t i, Own& own) {
    if (mass[i] == 0) return;
    const double right = scored(i, W, loss, own);
    xi[i] = mass[i] * (structure_->distribute(own.s, i, own.theta.data(), own.m.data()) - right);
    structure_->subtract_truth(i, own.m.data());
    structure_->add_expected(own.s, i, own.m.data(), own.sum, mass[i]);
  });
  double risk = 0;
  for (const double x : xi) risk += x;
  return risk;
}

std::vector<int64_t> Exact::first_potentials() const {
  std::vector<int64_t> first(1, 0);
  for (int64_t i = 0; i < blocks(); ++i)
    first.push_back(first.back() + structure_->potentials(i) * structure_->row_labels());
  return first;
}

void Exact::list_potentials(const double* flat, int threads, double loss, float* theta) const {
  const PackedWeights w = pack(flat);
  const int labels = structure_->row_labels(), stride = structure_->row_stride();
  const std::vector<int64_t> first = first_potentials();
  each(blocks(), threads, w, [&](int64_t i, Own& own) {
    own.theta.resize(potentials_of(*structure_, i));
    structure_->open(i, w.W.data(), own.s, loss != 0, loss);
    structure_->list_potentials(own.s, w.W.data(), own.theta.data());
    float* out = theta + first[i];
    for (auto row = own.theta.begin(); row < own.theta.end(); row += stride, out += labels)
      std::transform(row, row + labels, out, [](double x) { return static_cast<float>(x); });
  });
}

double Exact::mixture(const float* theta, const double* mass, int threads, bool augmented,
                      double* flat) const {
  const int labels = structure_->row_labels(), stride = structure_->row_stride();
  const std::vector<int64_t> first = first_potentials();
  std::vector<double> offsets(blocks(), 0);
  add_up(threads, flat, [&](int64_t i, Own& own) {
    if (mass[i] == 0) return;
    const float* given = theta + first[i];
    std::fill(own.theta.begin(), own.theta.end(), 0.0);
    for (size_t r = 0; r < own.theta.size(); r += stride, given += labels)
      std::copy(given, given + labels, own.theta.begin() + r);
    double offset = structure_->distribute(own.s, i, own.theta.data(), own.m.data());
    offset -= product(own.theta, own.m);
    if (augmented) offset += structure_->expected_loss(i, own.m.data());
    offsets[i] = mass[i] * offset;
    structure_->subtract_truth(i, own.m.data());
    structure_->add_expected(own.s, i, own.m.data(), own.sum, mass[i]);
  });
  double offset = 0;
  for (const double x : offsets) offset += x;
  return offset;
}

void Exact::draw(const double* flat, int n, uint64_t seed, int threads, Label* outputs) const {
  const PackedWeights w = pack(flat);
  const double* W = w.W.data();
  each(blocks(), threads, w, [&](int64_t i, Own& own) {
    const int size = structure_->output_size(i);
    own.theta.resize(potentials_of(*structure_, i)), own.m.resize(own.theta.size()), own.values.resize(size);
    structure_->open(i, W, own.s, false, 1);
    structure_->list_potentials(own.s, W, own.theta.data());
    structure_->distribute(own.s, i, own.theta.data(), own.m.data());
    uint64_t state = seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(i);  // for any number of threads
    for (int k = 0; k < n; ++k) {
      for (double& u : own.values) u = static_cast<double>(mixed(state) >> 11) * 0x1p-53;
      structure_->draw(own.s, i, own.m.data(), own.values.data(),
                       outputs + n * first_[i] + static_cast<int64_t>(k) * size);
    }
  });
}

}  // namespace mm
