#include "models/exact.hpp"

#include <algorithm>
#include <limits>

namespace mm {
namespace {

using Label = int32_t;
using Any = AnyStructure<Label>;

std::vector<int64_t> places(const Any& structure) {
  std::vector<int64_t> first(1, 0);
  for (int64_t i = 0; i < structure.blocks(); ++i) first.push_back(first.back() + structure.output_size(i));
  return first;
}

void read_truth(const Any& structure, int64_t i, std::vector<Label>& y) {
  y.resize(structure.output_size(i));
  structure.truth(i, y.data());
}

}  // namespace

Exact::Exact(std::unique_ptr<Any> structure)
    : structure_(std::move(structure)), first_(places(*structure_)) {}

PackedWeights Exact::pack(const double* flat, int threads) const {
  PackedWeights w{dimension(), aligned<double>(structure_->weights()), nullptr};
  structure_->pack(flat, w.W.data(), threads);
  w.index = structure_->index_of(w.W.data());
  return w;
}

void Exact::slacks(const double* flat, int threads, double* xi, Label* outputs, double* ceilings,
                   double leeway) const {
  const PackedWeights packed = pack(flat, threads);
  const aligned<double>& W = packed.W;
  const auto reading = structure_->indexed(W.data(), packed.index);
  const Any& structure = reading ? *reading : *structure_;
  if (structure.walks() && !outputs && !ceilings)
    return parallel(blocks(), threads,
                    [&](int64_t from, int64_t to, int) { structure.all_slacks(from, to, W.data(), xi); });
  each(structure, blocks(), threads, [&](int64_t i, Own& own) {
    own.leeway += leeway;
    if (ceilings) structure.prove(own.s, own.leeway / 4);
    own.y.resize(structure.output_size(i));
    read_truth(structure, i, own.truth);
    structure.open(i, W.data(), own.s, true, 1);
    const double top = structure.best(own.s, W.data(), own.y.data());
    const double right = structure.score(own.s, own.truth.data());
    xi[i] = top - right;
    if (ceilings) ceilings[i] = structure.ceiling(own.s) - right, own.leeway -= ceilings[i] - xi[i];
    if (outputs) std::copy(own.y.begin(), own.y.end(), outputs + first_[i]);
  });
}

void Exact::sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
                 double* ceilings) const {
  aligned<double> W(structure_->weights());
  structure_->pack(flat, W.data());
  parallel(blocks(), threads, [&](int64_t from, int64_t to, int) {
    auto s = structure_->scratch();
    const std::unique_ptr<Violators> sums = structure_->lister();
    std::vector<Label> y;
    for (int64_t i = from; i < to; ++i) {
      poll();
      structure_->open(i, W.data(), s, true, 1);
      SumBounds found;
      if (sums) {
        structure_->list_scores(s, *sums);
        found = sums->sum(most, work);
      } else {
        read_truth(*structure_, i, y);
        const double own = structure_->score(s, y.data());
        if (structure_->labels() > 0) {
          for (Label k = 0; k < structure_->labels(); ++k)
            if (k != y[0]) found.floor += std::max(0.0, structure_->score(s, &k) - own);
          found.ceiling = found.floor;
        } else {
          found.floor = std::max(0.0, structure_->best(s, W.data(), y.data()) - own);
          found.ceiling = std::numeric_limits<double>::infinity();
        }
      }
      floors[i] = found.floor, ceilings[i] = found.ceiling;
    }
  });
}

void Exact::predict(const PackedWeights& w, int threads, Label* outputs, int64_t n) const {
  const auto reading = structure_->indexed(w.W.data(), w.index);
  const Any& structure = reading ? *reading : *structure_;
  each(structure, n, threads, [&](int64_t i, Own& own) {
    structure.open(i, w.W.data(), own.s, false, 1);
    structure.best(own.s, w.W.data(), outputs + first_[i]);
  });
}

void Exact::complete(const double* flat, int threads, Label* outputs) const {
  std::vector<double> opposite(flat, flat + dimension());
  for (double& x : opposite) x = -x;
  const PackedWeights weights[2] = {pack(flat), pack(opposite.data())};
  const std::unique_ptr<Any> reading[2] = {structure_->indexed(weights[0].W.data(), weights[0].index),
                                           structure_->indexed(weights[1].W.data(), weights[1].index)};
  each(*structure_, blocks(), threads, [&](int64_t i, Own& own) {
    read_truth(*structure_, i, own.truth);
    double range = 1;  // max_y s(y) - min_y s(y), and more
    for (int side = 1; side >= 0; --side) {
      const Any& structure = reading[side] ? *reading[side] : *structure_;
      const double* W = weights[side].W.data();
      auto s = structure.scratch();
      structure.prove(s, 0);
      structure.open(i, W, s, false, 1);
      const double top = structure.best(s, W, outputs + first_[i]);
      const double most = structure.exact() ? top : structure.ceiling(s);
      range += 1.01 * std::max(0.0, most - structure.score(s, own.truth.data()));
      if (side > 0) continue;
      structure.open(i, W, s, true, -range);
      structure.best(s, W, outputs + first_[i]);
    }
  });
}

void Exact::truth(Label* outputs) const {
  for (int64_t i = 0; i < blocks(); ++i) structure_->truth(i, outputs + first_[i]);
}
void Exact::scores(const PackedWeights& w, int threads, const Label* outputs, double* values) const {
  each(*structure_, blocks(), threads, [&](int64_t i, Own& own) {
    structure_->open(i, w.W.data(), own.s, false, 1);
    values[i] = structure_->score(own.s, outputs + first_[i]);
  });
}

int64_t Exact::beliefs_of(int64_t block) const {
  int64_t size = 0;
  for (int v = 0; v < structure_->output_size(block); ++v) size += structure_->node_labels(block, v);
  return size;
}
int64_t Exact::beliefs() const {
  int64_t size = 0;
  for (int64_t i = 0; i < blocks(); ++i) size += beliefs_of(i);
  return size;
}

template <class F>
void Exact::each_belief(const PackedWeights& w, double temperature, int threads, F&& f) const {
  each(*structure_, blocks(), threads, [&](int64_t i, Own& own) {
    own.values.resize(beliefs_of(i));
    structure_->open(i, w.W.data(), own.s, false, 1);
    structure_->beliefs(own.s, w.W.data(), temperature, own.values.data());
    f(i, own.values.data());
  });
}

void Exact::beliefs(const PackedWeights& w, double temperature, int threads, double* values) const {
  std::vector<int64_t> first(1, 0);
  for (int64_t i = 0; i < blocks(); ++i) first.push_back(first.back() + beliefs_of(i));
  each_belief(w, temperature, threads, [&](int64_t i, const double* own) {
    std::copy(own, own + (first[i + 1] - first[i]), values + first[i]);
  });
}

void Exact::margins(const PackedWeights& w, int threads, double* values) const {
  each_belief(w, 0, threads, [&](int64_t i, const double* own) {
    for (int v = 0; v < structure_->output_size(i); ++v) {
      double best = -std::numeric_limits<double>::infinity(), second = best;
      for (int k = 0; k < structure_->node_labels(i, v); ++k, ++own) {
        second = std::max(second, std::min(best, *own));
        best = std::max(best, *own);
      }
      values[first_[i] + v] = best - second;
    }
  });
}

double Exact::combine(const int64_t* blocks, const double* c, int64_t n, const Label* outputs, int threads,
                      double* flat) const {
  std::vector<int64_t> first(1, 0);
  for (int64_t p = 0; p < n; ++p) first.push_back(first.back() + structure_->output_size(blocks[p]));
  // Each has a sum of its own: all of these together are no longer than the labels.
  const int64_t fit = first.back() / std::max<int64_t>(1, static_cast<int64_t>(structure_->weights()));
  const int most = static_cast<int>(std::clamp<int64_t>(fit, 1, most_threads));
  const int adders = std::clamp(threads, 1, most);
  std::vector<aligned<double>> sums(adders);
  std::vector<double> offsets(adders, 0);
  parallel(n, adders, [&](int64_t from, int64_t to, int k) {
    sums[k].assign(structure_->weights(), 0);
    if (structure_->walks()) {
      offsets[k] = structure_->all_planes(blocks + from, c + from, outputs + from, to - from, sums[k].data());
      return;
    }
    auto s = structure_->scratch();
    std::vector<Label> truth;
    for (int64_t p = from; p < to; ++p) {
      poll();
      const int64_t i = blocks[p];
      const Label* y = outputs + first[p];
      read_truth(*structure_, i, truth);
      structure_->build_pair(s, i, y, truth.data());
      if (!structure_->same(i, y, truth.data())) structure_->apply(s, sums[k].data(), c[p]);
      offsets[k] += c[p] * structure_->loss(i, y);
    }
  });
  for (int k = 1; k < adders; ++k) {
    offsets[0] += offsets[k];
    for (size_t j = 0; j < sums[k].size(); ++j) sums[0][j] += sums[k][j];
  }
  structure_->unpack_spent(sums[0].data(), flat, threads);
  return offsets[0];
}

void Exact::select(const int64_t* blocks, int64_t n, const Label* outputs, const int64_t* columns,
                   int64_t width, double* rows) const {
  std::vector<double> numbers(structure_->dimension(), -1), places(structure_->weights(), -1);
  for (int64_t k = 0; k < width; ++k) numbers[columns[k]] = static_cast<double>(k);
  structure_->pack(numbers.data(), places.data());
  auto s = structure_->scratch();
  Sparse move;
  move.resize(structure_->weights());
  std::vector<Label> truth;
  for (int64_t p = 0; p < n; outputs += structure_->output_size(blocks[p]), ++p) {
    read_truth(*structure_, blocks[p], truth);
    structure_->build_pair(s, blocks[p], outputs, truth.data());
    move.clear();
    structure_->apply(s, Gather(move), 1.0);
    for (size_t j : move.touched)
      if (places[j] >= 0) rows[p * width + static_cast<int64_t>(places[j])] = move.dense[j];
  }
}

bool Exact::knows(const int64_t* blocks, int64_t n, const Label* outputs, int64_t size) const {
  const Label* end = outputs + size;
  for (int64_t p = 0; p < n; ++p) {
    const int64_t i = blocks[p];
    if (i < 0 || i >= structure_->blocks() || end - outputs < structure_->output_size(i)) return false;
    if (!structure_->valid(i, outputs)) return false;
    outputs += structure_->output_size(i);
  }
  return outputs == end;
}

OutputCache::OutputCache(std::unique_ptr<Any> structure, int capacity)
    : structure_(std::move(structure)),
      capacity_(capacity),
      first_(places(*structure_)),
      kept_(structure_->blocks()) {
  for (int64_t i = 0; i < blocks(); ++i) read_truth(*structure_, i, kept_[i]);
}

void OutputCache::add(const Label* outputs) {
  for (int64_t i = 0; i < blocks(); ++i) touch(i, outputs + first_[i]);
}

void OutputCache::best(const double* flat, int threads, double* xi, Label* outputs) {
  aligned<double> W(structure_->weights());
  structure_->pack(flat, W.data());
  parallel(blocks(), threads, [&](int64_t from, int64_t to, int) {
    auto s = structure_->scratch();
    for (int64_t i = from; i < to; ++i) {
      poll();
      const int n = count(i);
      const size_t size = structure_->output_size(i);
      structure_->open_where_different(i, W.data(), s, kept_[i].data(), n);
      const double truth = structure_->score(s, kept_[i].data());
      double top = truth;
      int u = 0;
      for (int j = 1; j < n; ++j) {
        const double value = structure_->score(s, kept_[i].data() + j * size);
        if (value > top) top = value, u = j;
      }
      xi[i] = top - truth;
      std::copy_n(kept_[i].begin() + u * size, size, outputs + first_[i]);
      touch(i, outputs + first_[i]);
    }
  });
}

int OutputCache::count(int64_t i) const {
  return static_cast<int>(kept_[i].size() / static_cast<size_t>(structure_->output_size(i)));
}

void OutputCache::touch(int64_t i, const Label* y) {
  const size_t size = structure_->output_size(i);
  auto& kept = kept_[i];
  int j = 0;
  while (j < count(i) && !structure_->same(i, kept.data() + j * size, y)) ++j;
  if (j == 0) return;  // the true output stays where it is
  if (j == count(i)) {
    if (j <= capacity_)
      kept.insert(kept.end(), y, y + size);
    else
      std::copy(y, y + size, kept.begin() + --j * size);
  }
  std::rotate(kept.begin() + size, kept.begin() + j * size, kept.begin() + (j + 1) * size);
}

}  // namespace mm
