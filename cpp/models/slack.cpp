#include "models/slack.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "models/hull.hpp"
#include "simd.hpp"

namespace mm {
namespace {

template <class Label>
class SlackRescaled final : public AnyStructure<Label> {
 public:
  using Any = AnyStructure<Label>;
  using Scratch = Unlabelled::Scratch;
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

  Scratch scratch() const override {
    auto own = std::make_unique<Own>();
    own->base = base_->scratch();
    base_->prove(own->base, 0);  // the search needs to know how much the oracle may miss
    return own;
  }
  void open(int64_t block, const double* W, Scratch& scratch, bool, double scale) const override {
    Own& s = in(scratch);
    base_->open(block, W, s.base, false, 1);
    s.block = block;
    s.scale = scale;
    s.truth.resize(base_->output_size(block));
    base_->truth(block, s.truth.data());
    s.margin_of_truth = base_->score(s.base, s.truth.data());
  }
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label*, int) const override {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& scratch, const Label* y) const override {
    const Own& s = in(scratch);
    const double loss = base_->loss(s.block, y);
    return loss == 0 ? 0 : loss * (s.scale + base_->score(s.base, y) - s.margin_of_truth);
  }
  double best(Scratch& scratch, const double* W, Label* y) const override {
    Own& s = in(scratch);
    if (!exact()) {
      s.ceiling = search(s, W, y);
      return score(scratch, y);
    }
    base_->best_slack(s.base, W, s.scale - s.margin_of_truth, s.truth.data(), y);
    return s.ceiling = score(scratch, y);
  }
  bool exact() const override { return base_->slack_argmax(); }
  double ceiling(const Scratch& s) const override { return in(s).ceiling; }
  void build_pair(Scratch& scratch, int64_t block, const Label* plus, const Label* minus) const override {
    Own& s = in(scratch);
    const int size = base_->output_size(block);
    const double c[2] = {1, -1};
    s.outputs.assign(plus, plus + size);
    s.outputs.insert(s.outputs.end(), minus, minus + size);
    gather(s, block, c, 2);
  }
  void build_mixture(Scratch& scratch, int64_t block, const Label* y, const double* c, int n) const override {
    Own& s = in(scratch);
    s.outputs.assign(y, y + static_cast<size_t>(n) * base_->output_size(block));
    gather(s, block, c, n);
  }
  void list_scores(Scratch& scratch, Violators& sums) const override {
    Own& s = in(scratch);
    base_->list_scores(s.base, sums);
    base_->list_losses(s.block, sums);
    sums.constant = s.scale;
  }
  bool shifted(Scratch& scratch, double c) const override {
    Own& s = in(scratch);
    if (!base_->shifted(s.base, c)) return false;
    s.margin_of_truth = base_->score(s.base, s.truth.data());
    return true;
  }

 private:
  struct Own : Unlabelled::State {
    Scratch base;
    std::vector<Label> truth, outputs, candidate;
    std::vector<double> coefficients;
    double margin_of_truth = 0, scale = 1;
    double ceiling = 0;     // after `best`: an upper bound on all scores of the block
    aligned<double> zeros;  // zero weights, to search the largest loss
    HullSearch search;
  };
  std::unique_ptr<Any> base_;

  static Own& in(const Scratch& s) { return static_cast<Own&>(*s); }

  // Finds the best among the true output and the outputs that the margin oracle returns at some loss
  // multipliers. Returns the ceiling.
  double search(Own& s, const double* W, Label* y) const {
    std::vector<Label>& found = s.candidate;
    found.resize(base_->output_size(s.block));
    // How much the margin oracle may have missed, if it is a search itself.
    const auto missed = [&](double score) {
      const double top = base_->ceiling(s.base);
      return std::isinf(top) && base_->exact() ? 0 : std::max(0.0, top - score);
    };
    const auto point = [&](const Label* u, double lambda, double multiplier) {
      const double loss = base_->loss(s.block, u), score = base_->score(s.base, u);
      return HullPoint{loss, score - lambda * loss - s.margin_of_truth, multiplier, missed(score)};
    };
    s.zeros.resize(base_->weights());
    base_->open(s.block, s.zeros.data(), s.base, true, 1);
    base_->best(s.base, s.zeros.data(), y);  // the largest loss
    base_->open(s.block, W, s.base, false, 1);
    base_->best(s.base, W, found.data());
    const HullPoint left = point(found.data(), 0, 0);
    HullPoint right = point(y, 0, std::numeric_limits<double>::infinity());
    right.missed = 0;
    s.search.scale(s.scale);
    double top = s.search.value(right);
    if (s.search.value(left) > top) top = s.search.value(left), std::copy(found.begin(), found.end(), y);
    if (!(top > 0)) top = 0, std::copy(s.truth.begin(), s.truth.end(), y);
    const auto ask = [&](double lambda) {
      base_->open(s.block, W, s.base, true, lambda);
      base_->best(s.base, W, found.data());
      return point(found.data(), lambda, lambda);
    };
    const auto keep = [&] { std::copy(found.begin(), found.end(), y); };
    const double ceiling = s.search.run(left, right, s.scale, top, ask, keep);
    base_->open(s.block, W, s.base, false, 1);
    return ceiling;
  }
  void gather(Own& s, int64_t block, const double* c, int n) const {
    const int size = base_->output_size(block);
    double total = 0;
    s.coefficients.resize(n + 1);
    for (int j = 0; j < n; ++j) {
      s.coefficients[j] = c[j] * base_->loss(block, s.outputs.data() + static_cast<size_t>(j) * size);
      total += s.coefficients[j];
    }
    s.coefficients[n] = -total;
    s.outputs.resize(static_cast<size_t>(n + 1) * size);
    base_->truth(block, s.outputs.data() + static_cast<size_t>(n) * size);
    base_->build_mixture(s.base, block, s.outputs.data(), s.coefficients.data(), n + 1);
  }
};

}  // namespace

template <class Label>
std::unique_ptr<AnyStructure<Label>> slack_rescaled(std::unique_ptr<AnyStructure<Label>> base) {
  return std::make_unique<SlackRescaled<Label>>(std::move(base));
}
template std::unique_ptr<AnyStructure<uint16_t>> slack_rescaled(std::unique_ptr<AnyStructure<uint16_t>>);
template std::unique_ptr<AnyStructure<int32_t>> slack_rescaled(std::unique_ptr<AnyStructure<int32_t>>);

}  // namespace mm
