#include "models/wide.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mm {
namespace {

class Wide final : public AnyStructure<int32_t> {
 public:
  using Narrow = AnyStructure<uint16_t>;
  using Outputs = std::vector<uint16_t>;  // one after the other
  explicit Wide(std::unique_ptr<Narrow> narrow) : narrow_(std::move(narrow)) {}

  // Outputs go in and out as labels of two bytes.
  void truth(int64_t block, Label* y) const override {
    Outputs& own = of(block, nullptr);
    narrow_->truth(block, own.data());
    std::copy(own.begin(), own.end(), y);
  }
  double loss(int64_t block, const Label* y) const override {
    return narrow_->loss(block, of(block, y).data());
  }
  bool same(int64_t block, const Label* a, const Label* b) const override {
    return std::equal(a, a + output_size(block), b);
  }
  bool valid(int64_t block, const Label* y) const override {
    const Outputs& own = of(block, y);
    return std::equal(own.begin(), own.end(), y) && narrow_->valid(block, own.data());
  }
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* y,
                            int n) const override {
    in(s).block = block;
    narrow_->open_where_different(block, W, in(s).narrow, of(block, y, n, in(s).outputs).data(), n);
  }
  double best(Scratch& s, const double* W, Label* y) const override {
    Outputs& own = of(in(s).block, nullptr, 1, in(s).outputs);
    const double value = narrow_->best(in(s).narrow, W, own.data());
    std::copy(own.begin(), own.end(), y);
    return value;
  }
  double score(const Scratch& s, const Label* y) const override {
    return narrow_->score(in(s).narrow, of(in(s).block, y, 1, in(s).outputs).data());
  }
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const override {
    const int size = output_size(block);
    Outputs& own = of(block, plus, 1, in(s).outputs);
    own.insert(own.end(), minus, minus + size);
    narrow_->build_pair(in(s).narrow, block, own.data(), own.data() + size);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* y, const double* c, int n) const override {
    narrow_->build_mixture(in(s).narrow, block, of(block, y, n, in(s).outputs).data(), c, n);
  }
  void best_slack(Scratch& s, const double* W, double shift, const Label* truth, Label* y) const override {
    const int size = output_size(in(s).block);
    Outputs& own = of(in(s).block, truth, 1, in(s).outputs);
    own.resize(2 * static_cast<size_t>(size));
    narrow_->best_slack(in(s).narrow, W, shift, own.data(), own.data() + size);
    std::copy(own.begin() + size, own.end(), y);
  }

  // All else is asked of the structure as it is.
  int64_t blocks() const override { return narrow_->blocks(); }
  int64_t dimension() const override { return narrow_->dimension(); }
  size_t weights() const override { return narrow_->weights(); }
  size_t coefficients() const override { return narrow_->coefficients(); }
  int output_size(int64_t block) const override { return narrow_->output_size(block); }
  void pack(const double* flat, double* W, int threads) const override { narrow_->pack(flat, W, threads); }
  void unpack(const double* W, double* flat) const override { narrow_->unpack(W, flat); }
  void unpack_spent(double* W, double* flat, int threads) const override {
    narrow_->unpack_spent(W, flat, threads);
  }
  Scratch scratch() const override { return std::make_unique<Own>(narrow_->scratch()); }
  void prepare() override { narrow_->prepare(); }
  void open(int64_t block, const double* W, Scratch& s, bool augmented, double scale) const override {
    in(s).block = block;
    narrow_->open(block, W, in(s).narrow, augmented, scale);
  }
  double squared_norm(Scratch& s) const override { return narrow_->squared_norm(in(s).narrow); }
  void apply(const Scratch& s, double* W, double c) const override { narrow_->apply(in(s).narrow, W, c); }
  void apply(const Scratch& s, Gather W, double c) const override { narrow_->apply(in(s).narrow, W, c); }
  bool exact() const override { return narrow_->exact(); }
  void prove(Scratch& s, double leeway) const override { narrow_->prove(in(s).narrow, leeway); }
  double ceiling(const Scratch& s) const override { return narrow_->ceiling(in(s).narrow); }
  void tolerate(Scratch& s, double tolerance) const override { narrow_->tolerate(in(s).narrow, tolerance); }
  bool slack_argmax() const override { return narrow_->slack_argmax(); }
  std::unique_ptr<Violators> lister() const override { return narrow_->lister(); }
  void list_scores(Scratch& s, Violators& sums) const override { narrow_->list_scores(in(s).narrow, sums); }
  void list_losses(int64_t block, Violators& sums) const override { narrow_->list_losses(block, sums); }
  int node_labels(int64_t block, int node) const override { return narrow_->node_labels(block, node); }
  void beliefs(Scratch& s, const double* W, double temperature, double* out) const override {
    narrow_->beliefs(in(s).narrow, W, temperature, out);
  }
  bool sums_all() const override { return narrow_->sums_all(); }
  int row_labels() const override { return narrow_->row_labels(); }
  int row_stride() const override { return narrow_->row_stride(); }
  int64_t potentials(int64_t block) const override { return narrow_->potentials(block); }
  void list_potentials(Scratch& s, const double* W, double* theta) const override {
    narrow_->list_potentials(in(s).narrow, W, theta);
  }
  double distribute(Scratch& s, int64_t block, const double* theta, double* m) const override {
    return narrow_->distribute(in(s).narrow, block, theta, m);
  }
  void subtract_truth(int64_t block, double* m) const override { narrow_->subtract_truth(block, m); }
  double expected_loss(int64_t block, const double* m) const override {
    return narrow_->expected_loss(block, m);
  }
  void add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const override {
    narrow_->add_expected(in(s).narrow, block, m, W, c);
  }
  bool draws() const override { return narrow_->draws(); }
  void draw(Scratch& s, int64_t block, const double* m, const double* u, int32_t* y) const override {
    narrow_->draw(in(s).narrow, block, m, u, y);
  }
  bool shifted(Scratch& s, double c) const override { return narrow_->shifted(in(s).narrow, c); }
  std::shared_ptr<const void> index_of(const double* W) const override { return narrow_->index_of(W); }
  std::unique_ptr<AnyStructure> indexed(const double* W,
                                        const std::shared_ptr<const void>& index) const override {
    auto narrow = narrow_->indexed(W, index);
    return narrow ? widened(std::move(narrow)) : nullptr;
  }

 private:
  struct Own : State {
    Narrow::Scratch narrow;
    int64_t block = 0;  // that is open
    Outputs outputs;
    explicit Own(Narrow::Scratch&& given) : narrow(std::move(given)) {}
  };
  std::unique_ptr<Narrow> narrow_;

  static Own& in(const Scratch& s) { return static_cast<Own&>(*s); }
  // n outputs of a block as labels of two bytes, or room for them.
  Outputs& of(int64_t block, const Label* y, int n, Outputs& own) const {
    own.resize(static_cast<size_t>(n) * output_size(block));
    if (y) std::copy(y, y + own.size(), own.begin());
    return own;
  }
  // The same where no scratch is at hand; until this thread asks again.
  Outputs& of(int64_t block, const Label* y) const {
    thread_local Outputs own;
    return of(block, y, 1, own);
  }
};

}  // namespace

std::unique_ptr<AnyStructure<int32_t>> widened(std::unique_ptr<AnyStructure<uint16_t>> narrow) {
  return std::make_unique<Wide>(std::move(narrow));
}

}  // namespace mm
