// The answers of a compiled model in double precision: predictions, slacks, and sums of planes.
// Certificates use only these answers, and no running values of a solver.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/wide.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"

namespace mm {

// Weights in the layout of a model's structures, with the index that the argmax needs. They fit any data of that model.
struct PackedWeights {
  int64_t dimension;  // the number of flat weights
  aligned<double> W;
  std::shared_ptr<const void> index;
};

// A structure with the outputs of all blocks in one array, and four bytes for a label.
class OnOutputs {
 public:
  using Label = int32_t;
  explicit OnOutputs(WideStructure given);
  int64_t dimension() const { return structure_->dimension(); }
  int64_t blocks() const { return structure_->blocks(); }
  int64_t labels() const { return first_.back(); }  // number of labels in one output of every block
  int64_t labels_before(int64_t block) const { return first_[block]; }

 protected:
  std::shared_ptr<const Unlabelled> structure_;
  std::shared_ptr<const Labelled<Label>> outputs_;
  std::vector<int64_t> first_{0};  // the start of each block's output

  void read_truth(int64_t i, std::vector<Label>& y) const;
};

// Exact computations for all blocks at given weights. Weights are flat.
class Exact : public OnOutputs {
 public:
  using OnOutputs::OnOutputs;
  bool exact() const { return structure_->exact(); }  // the argmax never misses the best output

  // xi_i = max_y s_i(y) for every block. `outputs`, unless null, receives the maximising outputs. If the argmax is a
  // search, `ceilings`, unless null, receives the upper bounds that it proved. They may exceed xi by `leeway` on
  // average: a block that needs less leaves the rest of its leeway to the next blocks.
  void slacks(const double* flat, int threads, double* xi, Label* outputs, double* ceilings,
              double leeway = 0) const;
  // A lower and an upper bound on sum_y max(0, s_i(y)) of every block.
  //   one label per example:  every label is tried
  //   chains, graphs:         up to `most` violators are listed; if there are more, the sum is bounded in `work` steps
  //                           (violators.hpp)
  //   other structures:       the worst output gives a lower bound; the upper bound is infinite
  void sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
            double* ceilings) const;
  // Whether the structure sums over all outputs (SumsAll). In the functions below, `loss` is the factor of the loss
  // in the exponent. A large negative factor leaves only the outputs without loss, which agree with the known part of
  // the true output.
  bool sums_all() const { return structure_->sums_all(); }
  // log sum_y exp(s_i(y)) of every block, s_i(y_i) = 0.
  void log_sums(const double* flat, int threads, double loss, double* xi) const;
  // Writes the gradient of sum_i mass_i xi_i at these weights to `gradient`, and returns the sum.
  double tilt(const double* flat, const double* mass, int threads, double loss, double* gradient) const;
  // Writes the scores of all blocks as potentials.
  void list_potentials(const double* flat, int threads, double loss, float* theta) const;
  // The number of potentials of all blocks, without padding.
  int64_t potentials() const;
  // Writes the plane of given distributions, sum_i mass_i (E Psi - Psi(y_i)), and returns sum_i mass_i (H_i + E Delta).
  double mixture(const float* theta, const double* mass, int threads, bool augmented, double* flat) const;
  // Draws n outputs of every block from its distribution at these weights. The n outputs of a block follow one another.
  void draw(const double* flat, int n, uint64_t seed, int threads, Label* outputs) const;
  PackedWeights pack(const double* flat, int threads = 1) const;
  bool fits(const PackedWeights& w) const {
    return w.dimension == dimension() && w.W.size() == structure_->weights();
  }
  // Predicts the outputs of the first n blocks.
  void predict(const PackedWeights& w, int threads, Label* outputs, int64_t n) const;
  // argmax_y <w, Psi(x_i, y)> over the outputs without loss, which agree with the known part of the true output. It
  // is computed as argmax_y <w, Psi(x_i, y)> - M Delta(y), with M above all differences of scores. The values of the
  // loss must be integers.
  void complete(const double* flat, int threads, Label* outputs) const;
  void truth(Label* outputs) const;  // writes the true output of every block
  // <w, Psi(x, y)> of an output of every block.
  void scores(const PackedWeights& w, int threads, const Label* outputs, double* values) const;
  // Beliefs of all nodes and labels (beliefs.hpp), block by block. The first function returns their number, which is
  // 0 if the structure has none. The second writes their values at a temperature.
  int64_t beliefs() const;
  void beliefs(const PackedWeights& w, double temperature, int threads, double* values) const;
  // For every node, the best score minus the best score with another label there; infinite if there is no other label.
  void margins(const PackedWeights& w, int threads, double* values) const;
  // Writes sum_p c_p psi(y_p) to `flat` and returns sum_p c_p Delta(y_p). Several threads work if weights are fewer
  // than labels.
  double combine(const int64_t* blocks, const double* c, int64_t n, const Label* outputs, int threads,
                 double* flat) const;
  // Computes `slacks` and `combine` together, and reads each row once for both, on one thread. walks() is true if
  // outputs are one label. This saves time if the cache of a core holds both vectors beside the rows.
  bool walks() const { return structure_->walks(); }
  double slacks_and_plane(const double* flat, double* xi, const Planes<Label>& planes, double* sum) const;
  // Selects some columns of the vectors psi(y_p): one row for each plane.
  void select(const int64_t* blocks, int64_t n, const Label* outputs, const int64_t* columns, int64_t width,
              double* rows) const;
  // Whether `outputs` contains exactly one valid output for each of these blocks.
  bool knows(const int64_t* blocks, int64_t n, const Label* outputs, int64_t size) const;

 private:
  // The working memory of a thread.
  struct Own {
    Unlabelled::Scratch s;
    std::unique_ptr<Violators> lister;
    std::vector<Label> y, truth;
    aligned<double> theta, m;    // potentials and expectations of a block
    std::vector<double> values;  // beliefs of a block, or random numbers
    double* sum = nullptr;
    double leeway = 0;  // leeway that earlier blocks have not used
  };
  // Calls f(block, own) for the first n blocks, with the index of w for the argmax.
  template <class F>
  void each(int64_t n, int threads, const PackedWeights& w, F&& f) const {
    each(n, threads, w, Split::any, f);
  }
  // Use `fixed` if f reads values that earlier blocks of the same part have left in `own`.
  enum class Split { any, fixed };
  template <class F>
  void each(int64_t n, int threads, const PackedWeights& w, Split split, F&& f) const {
    const auto part = [&](int64_t from, int64_t to, int) {
      Own own{structure_->scratch()};
      structure_->read_index(own.s, w.index.get());
      for (int64_t i = from; i < to; ++i) poll(), f(i, own);
    };
    split == Split::any ? parallel(n, threads, part) : parallel_parts(n, threads, part);
  }
  // Calls f for all blocks and adds up the sums of the threads, each as long as W.
  template <class F>
  void add_up(int threads, double* flat, F&& f) const;
  // Writes the potentials of a block at W to own.theta, and returns the score of the true output.
  double scored(int64_t i, const double* W, double loss, Own& own) const;
  int64_t beliefs_of(int64_t block) const;
  std::vector<int64_t> first_potentials() const;  // offset of each block's potentials, then the total
  // Calls f(block, beliefs) for every block.
  template <class F>
  void each_belief(const PackedWeights& w, double temperature, int threads, F&& f) const;
};

// A cache of the last outputs of each block, most recently used first. It finds the best of them at a given w.
//
//   xi_i >= max_{u kept} s_i(u): a cheap pass over cached outputs, tried before the oracle is called.
//
// The true output is always in the cache. The arithmetic is in double precision, because the result becomes a cut.
class OutputCache : public OnOutputs {
 public:
  OutputCache(WideStructure given, int capacity);
  // Adds an output for every block, and evicts the oldest output of a full block.
  void add(const Label* outputs);
  // Finds the best cached output of each block at w, which becomes the most recently used.
  void best(const double* flat, int threads, double* xi, Label* outputs);

 private:
  int capacity_;
  std::vector<std::vector<Label>> kept_;  // the true output, then up to `capacity` others, latest first

  int count(int64_t i) const;
  void touch(int64_t i, const Label* y);
};

}  // namespace mm
