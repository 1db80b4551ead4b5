// What a compiled model answers in double precision: predictions, slacks, and sums of planes.
// Certificates are made of these, and of nothing that a solver keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/wide.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"

namespace mm {

// Weights in the layout of a model's structures, with the index that its argmax needs: for any data of that model.
struct PackedWeights {
  int64_t dimension;  // of the flat weights
  aligned<double> W;
  std::shared_ptr<const void> index;
};

// A structure whose outputs follow one another, a label in four bytes.
class OnOutputs {
 public:
  using Label = int32_t;
  explicit OnOutputs(WideStructure given);
  int64_t dimension() const { return structure_->dimension(); }
  int64_t blocks() const { return structure_->blocks(); }
  int64_t labels() const { return first_.back(); }  // of one output of every block
  int64_t labels_before(int64_t block) const { return first_[block]; }

 protected:
  std::shared_ptr<const Unlabelled> structure_;
  std::shared_ptr<const Labelled<Label>> outputs_;
  std::vector<int64_t> first_{0};  // where the output of each block begins

  void read_truth(int64_t i, std::vector<Label>& y) const;
};

// Weights are flat.
class Exact : public OnOutputs {
 public:
  using OnOutputs::OnOutputs;
  bool exact() const { return structure_->exact(); }  // the argmax never misses the best output

  // xi_i = max_y s_i(y) for every block; the maximising outputs too, unless `outputs` is null, and where the
  // argmax is a search the ceilings that it proved, unless `ceilings` is null. On average these may be above xi by
  // `leeway`: what some blocks do not need is left for others that are hard.
  void slacks(const double* flat, int threads, double* xi, Label* outputs, double* ceilings,
              double leeway = 0) const;
  // sum_y max(0, s_i(y)) of every block, from below and from above.
  //   one label per example:  every label is tried
  //   chains, graphs:         all violators are listed, at most `most`, or bracketed in `work` steps (violators.hpp)
  //   other structures:       no output violates more than the best one, and nothing bounds their sum
  void sums(const double* flat, int threads, int64_t most, int64_t work, double* floors,
            double* ceilings) const;
  // Where the structure sums over all outputs (SumsAll); `loss`: the factor of the loss in the exponent. Far below zero it
  // leaves the outputs without loss: those that agree with the true one as far as the loss looks.
  bool sums_all() const { return structure_->sums_all(); }
  // log sum_y exp(s_i(y)) of every block, s_i(y_i) = 0.
  void log_sums(const double* flat, int threads, double loss, double* xi) const;
  // The gradient of sum_i mass_i xi_i at these weights into `flat`; returns that sum.
  double tilt(const double* flat, const double* mass, int threads, double loss, double* gradient) const;
  // The scores of all blocks as potentials.
  void list_potentials(const double* flat, int threads, double loss, float* theta) const;
  // Numbers of the potentials of all blocks, without padding.
  int64_t potentials() const;
  // The plane of given distributions: sum_i mass_i (E Psi - Psi(y_i)) into `flat`; returns sum_i mass_i (H_i + E Delta).
  double mixture(const float* theta, const double* mass, int threads, bool augmented, double* flat) const;
  // n outputs of every block, drawn from its distribution at these weights: those of a block one after the other.
  void draw(const double* flat, int n, uint64_t seed, int threads, Label* outputs) const;
  PackedWeights pack(const double* flat, int threads = 1) const;
  bool fits(const PackedWeights& w) const {
    return w.dimension == dimension() && w.W.size() == structure_->weights();
  }
  // Of the first n blocks.
  void predict(const PackedWeights& w, int threads, Label* outputs, int64_t n) const;
  // argmax_y <w, Psi(x_i, y)> over the outputs without loss: those that agree with the true one as far as the loss
  // looks. Found as argmax_y <w, Psi(x_i, y)> - M Delta(y), where M is above all that scores can differ by; for a
  // loss whose values are whole numbers.
  void complete(const double* flat, int threads, Label* outputs) const;
  void truth(Label* outputs) const;  // of every block
  // <w, Psi(x, y)> of an output of every block.
  void scores(const PackedWeights& w, int threads, const Label* outputs, double* values) const;
  // Beliefs of all nodes and labels (beliefs.hpp), one block after the other: how many there are, 0 where the structure
  // has none, and their values at a temperature.
  int64_t beliefs() const;
  void beliefs(const PackedWeights& w, double temperature, int threads, double* values) const;
  // Of every node the best score less the best score with another label there; infinite where there is no other.
  void margins(const PackedWeights& w, int threads, double* values) const;
  // sum_p c_p psi(y_p) into `flat`, and sum_p c_p Delta(y_p) as the result; on several threads where weights are fewer
  // than labels.
  double combine(const int64_t* blocks, const double* c, int64_t n, const Label* outputs, int threads,
                 double* flat) const;
  // `slacks` and `combine`, whose rows are read once for both: by one thread, where outputs are one label. It pays where
  // the cache of a core holds both vectors beside the rows.
  bool walks() const { return structure_->walks(); }
  double slacks_and_plane(const double* flat, double* xi, const Planes<Label>& planes, double* sum) const;
  // Some weights of the vectors psi(y_p), a row for each plane.
  void select(const int64_t* blocks, int64_t n, const Label* outputs, const int64_t* columns, int64_t width,
              double* rows) const;
  // Whether these are outputs of these blocks, all of them and nothing else.
  bool knows(const int64_t* blocks, int64_t n, const Label* outputs, int64_t size) const;

 private:
  // What a thread has.
  struct Own {
    Unlabelled::Scratch s;
    std::unique_ptr<Violators> lister;
    std::vector<Label> y, truth;
    aligned<double> theta, m;    // potentials and expectations of a block
    std::vector<double> values;  // beliefs of a block, or chances
    double* sum = nullptr;
    double leeway = 0;  // that blocks have left so far
  };
  // Calls f(block, own) for the first n blocks, whose argmax is that of w.
  template <class F>
  void each(int64_t n, int threads, const PackedWeights& w, F&& f) const {
    each(n, threads, w, Split::any, f);
  }
  // `fixed`: if f reads what earlier blocks of the same part have left in `own`.
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
  // The same for all blocks; adds up the sums of the threads, each as long as W.
  template <class F>
  void add_up(int threads, double* flat, F&& f) const;
  // The potentials of a block at W into own.theta; returns the score of the true output.
  double scored(int64_t i, const double* W, double loss, Own& own) const;
  int64_t beliefs_of(int64_t block) const;
  std::vector<int64_t> first_potentials() const;  // where those of each block begin, and their number
  // Calls f(block, beliefs) for every block.
  template <class F>
  void each_belief(const PackedWeights& w, double temperature, int threads, F&& f) const;
};

// The last outputs of each block, most recently used first, and the best of them at a w.
//
//   xi_i >= max_{u kept} s_i(u): a cheap pass over kept outputs, tried before the oracle is asked.
//
// The true output is always among them. Double precision: what is found here becomes a cut.
class OutputCache : public OnOutputs {
 public:
  OutputCache(WideStructure given, int capacity);
  // An output for every block; the oldest output of a full block is evicted.
  void add(const Label* outputs);
  // The best kept output of each block at w, which becomes the most recently used.
  void best(const double* flat, int threads, double* xi, Label* outputs);

 private:
  int capacity_;
  std::vector<std::vector<Label>> kept_;  // the true output, then up to `capacity` others, latest first

  int count(int64_t i) const;
  void touch(int64_t i, const Label* y);
};

}  // namespace mm
