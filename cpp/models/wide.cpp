#include "models/wide.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mm {
namespace {

// Converts outputs between labels of four and of two bytes.
class Wide final : public Labelled<int32_t> {
 public:
  using Label = int32_t;
  using Narrow = AnyStructure<uint16_t>;
  using Outputs = std::vector<uint16_t>;  // one output after the other
  explicit Wide(std::shared_ptr<const Narrow> narrow) : narrow_(std::move(narrow)) {}

  void truth(int64_t block, Label* y) const override {
    Outputs& own = of(block, nullptr);
    narrow_->truth(block, own.data());
    std::copy(own.begin(), own.end(), y);
  }
  double loss(int64_t block, const Label* y) const override {
    return narrow_->loss(block, of(block, y).data());
  }
  bool same(int64_t block, const Label* a, const Label* b) const override {
    return std::equal(a, a + narrow_->output_size(block), b);
  }
  bool valid(int64_t block, const Label* y) const override {
    const Outputs& own = of(block, y);
    return std::equal(own.begin(), own.end(), y) && narrow_->valid(block, own.data());
  }
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* y,
                            int n) const override {
    narrow_->open_where_different(block, W, s, of(block, y, n, s->narrowed).data(), n);
  }
  double best(Scratch& s, const double* W, Label* y) const override {
    Outputs& own = of(s->block, nullptr, 1, s->narrowed);
    const double value = narrow_->best(s, W, own.data());
    std::copy(own.begin(), own.end(), y);
    return value;
  }
  double score(const Scratch& s, const Label* y) const override {
    return narrow_->score(s, of(s->block, y, 1, s->narrowed).data());
  }
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const override {
    const int size = narrow_->output_size(block);
    Outputs& own = of(block, plus, 1, s->narrowed);
    own.insert(own.end(), minus, minus + size);
    narrow_->build_pair(s, block, own.data(), own.data() + size);
  }

 private:
  std::shared_ptr<const Narrow> narrow_;

  // Returns n outputs of a block as labels of two bytes, or room for them.
  Outputs& of(int64_t block, const Label* y, int n, Outputs& own) const {
    own.resize(static_cast<size_t>(n) * narrow_->output_size(block));
    if (y) std::copy(y, y + own.size(), own.begin());
    return own;
  }
  // The same without a scratch; the result is valid until this thread calls it again.
  Outputs& of(int64_t block, const Label* y) const {
    thread_local Outputs own;
    return of(block, y, 1, own);
  }
};

}  // namespace

WideStructure widened(std::unique_ptr<AnyStructure<uint16_t>> narrow) {
  const std::shared_ptr<const AnyStructure<uint16_t>> shared = std::move(narrow);
  return {shared, std::make_shared<Wide>(shared)};
}
WideStructure widened(std::unique_ptr<AnyStructure<int32_t>> wide) {
  const std::shared_ptr<const AnyStructure<int32_t>> shared = std::move(wide);
  return {shared, shared};
}

}  // namespace mm
