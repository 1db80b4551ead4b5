// Slack rescaling of any structure: the plane of an output is (Delta, Delta * psi).
//
//   s(y) = Delta(y) (c + <w, psi(y)>),   c = 1, or the scale of the loss in the subgradient method
//   a move sum_j c_j Delta_j psi_j puts c_j Delta_j on y_j and minus their sum on the true output
//
// The base structure answers `best_slack`, the argmax of s; where its `slack_argmax()` says that it cannot, the
// output is searched over the loss multiplier. Scores are absolute here (s of the true output is 0), so that a
// visit opens the whole block.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "models/any_structure.hpp"
#include "models/hull.hpp"
#include "simd.hpp"

namespace mm {

template <class Label_>
class SlackRescaled final : public AnyStructure<Label_> {
 public:
  using Any = AnyStructure<Label_>;
  using typename Any::Label;
  using typename Any::Scratch;
  explicit SlackRescaled(std::unique_ptr<Any> base) : base_(std::move(base)) {}

  int64_t blocks() const override { return base_->blocks(); }
  int64_t dimension() const override { return base_->dimension(); }
  size_t weights() const override { return base_->weights(); }
  size_t coefficients() const override { return base_->coefficients(); }
  int output_size(int64_t block) const override { return base_->output_size(block); }
  void pack(const double* flat, double* W, int threads = 1) const override { base_->pack(flat, W, threads); }
  void unpack(const double* W, double* flat) const override { base_->unpack(W, flat); }
  void unpack_spent(double* W, double* flat, int threads) const override {
    base_->unpack_spent(W, flat, threads);
  }
  void prepare() override { base_->prepare(); }
  void truth(int64_t block, Label* y) const override { base_->truth(block, y); }
  double loss(int64_t block, const Label* y) const override { return base_->loss(block, y); }
  bool same(int64_t block, const Label* a, const Label* b) const override { return base_->same(block, a, b); }
  bool valid(int64_t block, const Label* y) const override { return base_->valid(block, y); }
  double squared_norm(Scratch& s) const override { return base_->squared_norm(in(s).base); }
  void apply(const Scratch& s, double* W, double c) const override { base_->apply(in(s).base, W, c); }
  void apply(const Scratch& s, Gather W, double c) const override { base_->apply(in(s).base, W, c); }
  int labels() const override { return base_->labels(); }
  std::unique_ptr<Violators> lister() const override { return base_->lister(); }

  Scratch scratch() const override;
  void open(int64_t block, const double* W, Scratch& s, bool augmented, double scale) const override;
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label*, int) const override {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const override;
  double best(Scratch& s, const double* W, Label* y) const override;
  bool exact() const override { return base_->slack_argmax(); }
  double ceiling(const Scratch& s) const override { return in(s).ceiling; }
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const override;
  void build_mixture(Scratch& s, int64_t block, const Label* y, const double* c, int n) const override;
  void list_scores(Scratch& s, Violators& sums) const override;
  bool shifted(Scratch& s, double c) const override;

 private:
  struct Own : Any::State {
    Scratch base;
    int64_t block = 0;
    std::vector<Label> truth, outputs, candidate;
    std::vector<double> coefficients;
    double margin_of_truth = 0, scale = 1;
    double ceiling = 0;     // no output of the block scores more, after `best`
    aligned<double> zeros;  // weights of no margin, for the search
    HullSearch search;
  };
  std::unique_ptr<Any> base_;

  static Own& in(const Scratch& s) { return static_cast<Own&>(*s); }
  double search(Own& s, const double* W, Label* y) const;
  void gather(Own& s, int64_t block, const double* c, int n) const;
};

}  // namespace mm
