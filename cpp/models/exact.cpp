#include "models/exact.hpp"

#include <algorithm>
#include <limits>

namespace mm {

OnOutputs::OnOutputs(WideStructure given)
    : structure_(std::move(given.structure)), outputs_(std::move(given.outputs)) {
  for (int64_t i = 0; i < blocks(); ++i) first_.push_back(first_.back() + structure_->output_size(i));
}

void OnOutputs::read_truth(int64_t i, std::vector<Label>& y) const {
  y.resize(structure_->output_size(i));
  outputs_->truth(i, y.data());
}

PackedWeights Exact::pack(const double* flat, int threads) const {
  PackedWeights w{dimension(), aligned<double>(structure_->weights()), nullptr};
  structure_->pack(flat, w.W.data(), threads);
  w.index = structure_->index_of(w.W.data());
  return w;
}

void Exact::slacks(const double* flat, int threads, double* xi, Label* outputs, double* ceilings,
                   double leeway) const {
  const PackedWeights packed = pack(flat, threads);
  const double* W = packed.W.data();
  if (structure_->walks() && !outputs && !ceilings)
    return parallel(blocks(), threads,
                    [&](int64_t from, int64_t to, int) { structure_->all_slacks(from, to, W, xi); });
  // A block leaves its unused leeway to the next blocks of its part.
  each(blocks(), threads, packed, ceilings ? Split::fixed : Split::any, [&](int64_t i, Own& own) {
    own.leeway += leeway;
    if (ceilings) structure_->prove(own.s, own.leeway / 4);
    own.y.resize(structure_->output_size(i));
    read_truth(i, own.truth);
    structure_->open(i, W, own.s, true, 1);
    const double top = outputs_->best(own.s, W, own.y.data());
    const double right = outputs_->score(own.s, own.truth.data());
    xi[i] = top - right;
    if (ceilings) ceilings[i] = structure_->ceiling(own.s) - right, own.leeway -= ceilings[i] - xi[i];
    if (outputs) std::copy(own.y.begin(), own.y.end(), outputs + first_[i]);
  });
}

void Exact::sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
                 double* ceilings) const {
  const PackedWeights packed = pack(flat);
  const double* W = packed.W.data();
  each(blocks(), threads, packed, [&](int64_t i, Own& own) {
    if (!own.lister) own.lister = structure_->lister();
    structure_->open(i, W, own.s, true, 1);
    SumBounds found;
    if (own.lister) {
      structure_->list_scores(own.s, *own.lister);
      found = own.lister->sum(most, work);
    } else {
      read_truth(i, own.y);
      const double right = outputs_->score(own.s, own.y.data());
      if (structure_->labels() > 0) {
        for (Label k = 0; k < structure_->labels(); ++k)
          if (k != own.y[0]) found.floor += std::max(0.0, outputs_->score(own.s, &k) - right);
        found.ceiling = found.floor;
      } else {
        found.floor = std::max(0.0, outputs_->best(own.s, W, own.y.data()) - right);
        found.ceiling = std::numeric_limits<double>::infinity();
      }
    }
    floors[i] = found.floor, ceilings[i] = found.ceiling;
  });
}

void Exact::predict(const PackedWeights& w, int threads, Label* outputs, int64_t n) const {
  each(n, threads, w, [&](int64_t i, Own& own) {
    structure_->open(i, w.W.data(), own.s, false, 1);
    outputs_->best(own.s, w.W.data(), outputs + first_[i]);
  });
}

void Exact::complete(const double* flat, int threads, Label* outputs) const {
  std::vector<double> opposite(flat, flat + dimension());
  for (double& x : opposite) x = -x;
  const PackedWeights weights[2] = {pack(flat), pack(opposite.data())};
  each(blocks(), threads, weights[0], [&](int64_t i, Own& own) {
    read_truth(i, own.truth);
    double range = 1;  // an upper bound on max_y s(y) - min_y s(y)
    for (int side = 1; side >= 0; --side) {
      const double* W = weights[side].W.data();
      auto s = structure_->scratch();
      structure_->read_index(s, weights[side].index.get());
      structure_->prove(s, 0);
      structure_->open(i, W, s, false, 1);
      const double top = outputs_->best(s, W, outputs + first_[i]);
      const double most = structure_->exact() ? top : structure_->ceiling(s);
      range += 1.01 * std::max(0.0, most - outputs_->score(s, own.truth.data()));
      if (side > 0) continue;
      structure_->open(i, W, s, true, -range);
      outputs_->best(s, W, outputs + first_[i]);
    }
  });
}

void Exact::truth(Label* outputs) const {
  for (int64_t i = 0; i < blocks(); ++i) outputs_->truth(i, outputs + first_[i]);
}
void Exact::scores(const PackedWeights& w, int threads, const Label* outputs, double* values) const {
  each(blocks(), threads, w, [&](int64_t i, Own& own) {
    structure_->open(i, w.W.data(), own.s, false, 1);
    values[i] = outputs_->score(own.s, outputs + first_[i]);
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
  each(blocks(), threads, w, [&](int64_t i, Own& own) {
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
  // Each part has its own sum. All sums together are no longer than the labels.
  const int64_t fit = first.back() / std::max<int64_t>(1, static_cast<int64_t>(structure_->weights()));
  const int adders =
      static_cast<int>(std::clamp<int64_t>(threads, 1, std::clamp<int64_t>(fit, 1, most_threads)));
  std::vector<aligned<double>> sums(adders);
  std::vector<double> offsets(adders, 0);
  parallel_parts(n, adders, [&](int64_t from, int64_t to, int k) {
    sums[k].assign(structure_->weights(), 0);
    if (structure_->walks()) {
      offsets[k] = outputs_->all_planes(blocks + from, c + from, outputs + from, to - from, sums[k].data());
      return;
    }
    auto s = structure_->scratch();
    std::vector<Label> truth;
    for (int64_t p = from; p < to; ++p) {
      poll();
      const int64_t i = blocks[p];
      const Label* y = outputs + first[p];
      read_truth(i, truth);
      outputs_->build_pair(s, i, y, truth.data());
      if (!outputs_->same(i, y, truth.data())) structure_->apply(s, sums[k].data(), c[p]);
      offsets[k] += c[p] * outputs_->loss(i, y);
    }
  });
  for (int k = 1; k < adders; ++k) {
    offsets[0] += offsets[k];
    for (size_t j = 0; j < sums[k].size(); ++j) sums[0][j] += sums[k][j];
  }
  structure_->unpack_spent(sums[0].data(), flat, threads);
  return offsets[0];
}

double Exact::slacks_and_plane(const double* flat, double* xi, const Planes<Label>& planes,
                               double* sum) const {
  if (structure_->plain()) return outputs_->slacks_and_planes(flat, xi, planes, sum);
  const PackedWeights packed = pack(flat);
  aligned<double> vector(structure_->weights());
  const double offset = outputs_->slacks_and_planes(packed.W.data(), xi, planes, vector.data());
  structure_->unpack_spent(vector.data(), sum, 1);
  return offset;
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
    read_truth(blocks[p], truth);
    outputs_->build_pair(s, blocks[p], outputs, truth.data());
    move.clear();
    structure_->apply(s, Gather(move), 1.0);
    for (size_t j : move.touched)
      if (places[j] >= 0) rows[p * width + static_cast<int64_t>(places[j])] = move.dense[j];
  }
}

bool Exact::knows(const int64_t* blocks, int64_t n, const Label* outputs, int64_t size) const {
  if (structure_->walks()) return size == n && outputs_->all_valid(blocks, outputs, n);
  const Label* end = outputs + size;
  for (int64_t p = 0; p < n; ++p) {
    const int64_t i = blocks[p];
    if (i < 0 || i >= structure_->blocks() || end - outputs < structure_->output_size(i)) return false;
    if (!outputs_->valid(i, outputs)) return false;
    outputs += structure_->output_size(i);
  }
  return outputs == end;
}

OutputCache::OutputCache(WideStructure given, int capacity)
    : OnOutputs(std::move(given)), capacity_(capacity), kept_(blocks()) {
  for (int64_t i = 0; i < blocks(); ++i) read_truth(i, kept_[i]);
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
      outputs_->open_where_different(i, W.data(), s, kept_[i].data(), n);
      const double truth = outputs_->score(s, kept_[i].data());
      double top = truth;
      int u = 0;
      for (int j = 1; j < n; ++j) {
        const double value = outputs_->score(s, kept_[i].data() + j * size);
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
  while (j < count(i) && !outputs_->same(i, kept.data() + j * size, y)) ++j;
  if (j == 0) return;  // the true output stays first
  if (j == count(i)) {
    if (j <= capacity_)
      kept.insert(kept.end(), y, y + size);
    else
      std::copy(y, y + size, kept.begin() + --j * size);
  }
  std::rotate(kept.begin() + size, kept.begin() + j * size, kept.begin() + (j + 1) * size);
}

}  // namespace mm
