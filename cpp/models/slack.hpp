// Slack rescaling of any structure: the plane of an output is (Delta, Delta * psi).
//
//   s(y) = Delta(y) (c + <w, psi(y)>),   c = 1, or the scale of the loss in the subgradient method
//   a move sum_j c_j Delta_j psi_j puts c_j Delta_j on y_j and minus their sum on the true output
//
// The base structure answers `best_slack`, the argmax of s; where its `slack_argmax()` says that it cannot, the
// output is searched over the loss multiplier. Scores are absolute here (s of the true output is 0), so that a
// visit opens the whole block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain_sums.hpp"
#include "models/hull.hpp"
#include "simd.hpp"

namespace mm {

template <class Base>
class SlackRescaled : public Base {
 public:
  using Real = typename Base::Real;
  using Label = typename Base::Label;
  using Base::Base;

  struct Scratch : Base::Scratch {
    std::vector<Label> truth, outputs;
    std::vector<double> coefficients;
    double margin_of_truth = 0;
    double scale = 1;
    double ceiling = 0;   // no output of the block scores more, after `best`
    aligned<Real> zeros;  // weights of no margin, for the search
    std::vector<Label> candidate;
    HullSearch search;
  };
  Scratch scratch() const {
    Scratch s;
    static_cast<typename Base::Scratch&>(s) = Base::scratch();
    if constexpr (requires { s.prove; }) s.prove = true;  // the search is steered by what the oracle may miss
    return s;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool, Real loss_scale) const {
    Base::open(block, W, s, false, 1);
    s.scale = loss_scale;
    s.truth.resize(Base::output_size(block));
    Base::truth(block, s.truth.data());
    s.margin_of_truth = Base::score(s, s.truth.data());
  }
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    open(block, W, s, true, 1);
  }
  double score(const Scratch& s, const Label* y) const {
    const double loss = Base::loss(s.block, y);
    return loss == 0 ? 0 : loss * (s.scale + Base::score(s, y) - s.margin_of_truth);
  }
  bool exact() const {
    if constexpr (requires(const Base& b) { b.slack_argmax(); })
      return Base::slack_argmax();
    else
      return true;
  }
  double best(Scratch& s, const Real* W, Label* y) const {
    if (!exact()) return search(s, W, y);
    if constexpr (requires(const Base& b) { b.best_slack(s, W, 0.0, y, y); })
      Base::best_slack(s, W, s.scale - s.margin_of_truth, s.truth.data(), y);
    s.ceiling = score(s, y);
    return s.ceiling;
  }

  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    const int size = Base::output_size(block);
    const double c[2] = {1, -1};
    std::vector<Label>& pair = s.outputs;
    pair.assign(plus, plus + size);
    pair.insert(pair.end(), minus, minus + size);
    gather(s, block, c, 2);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    s.outputs.assign(outputs, outputs + static_cast<size_t>(n) * Base::output_size(block));
    gather(s, block, c, n);
  }

  // The scores of the open block after W += c * move.
  void shift(Scratch& s, double c) const
    requires requires(const Base& b, typename Base::Scratch& own) { b.shift(own, 1.0); }
  {
    Base::shift(s, c);
    s.margin_of_truth = Base::score(s, s.truth.data());
  }
  void list_scores(Scratch& s, ChainSums& sums) const
    requires requires(const Base& b, typename Base::Scratch& own, ChainSums& all) { b.list_scores(own, all); }
  {
    Base::list_scores(s, sums);
    Base::list_losses(s.block, sums);
    sums.constant = s.scale;
  }

 private:
  // What the margin oracle may have missed, if it is a search itself.
  static double missed(const typename Base::Scratch& s, double score) {
    if constexpr (requires { s.ceiling; }) return std::max(0.0, s.ceiling - score);
    return 0;
  }

  // The best output that the margin oracle shows at some multiplier of the loss, and the true one.
  double search(Scratch& s, const Real* W, Label* y) const {
    const int64_t block = s.block;
    const int size = Base::output_size(block);
    const auto point = [&](const Label* u, double lambda, double multiplier) {
      const double loss = Base::loss(block, u), score = Base::score(s, u);
      return HullPoint{loss, score - lambda * loss - s.margin_of_truth, multiplier, missed(s, score)};
    };
    std::vector<Label>& found = s.candidate;
    found.resize(size);
    s.zeros.resize(Base::weights());
    Base::open(block, s.zeros.data(), s, true, 1);
    Base::best(s, s.zeros.data(), y);  // the largest loss
    Base::open(block, W, s, false, 1);
    Base::best(s, W, found.data());
    const HullPoint left = point(found.data(), 0, 0);
    HullPoint right = point(y, 0, std::numeric_limits<double>::infinity());
    right.missed = 0;
    s.search.scale(s.scale);
    double top = s.search.value(right);
    if (s.search.value(left) > top) top = s.search.value(left), std::copy(found.begin(), found.end(), y);
    if (!(top > 0)) top = 0, std::copy(s.truth.begin(), s.truth.end(), y);
    const auto ask = [&](double lambda) {
      Base::open(block, W, s, true, static_cast<Real>(lambda));
      Base::best(s, W, found.data());
      return point(found.data(), lambda, lambda);
    };
    s.ceiling =
        s.search.run(left, right, s.scale, top, ask, [&] { std::copy(found.begin(), found.end(), y); });
    Base::open(block, W, s, false, 1);
    return score(s, y);
  }

  void gather(Scratch& s, int64_t block, const double* c, int n) const {
    const int size = Base::output_size(block);
    double total = 0;
    s.coefficients.resize(n + 1);
    for (int j = 0; j < n; ++j) {
      s.coefficients[j] = c[j] * Base::loss(block, s.outputs.data() + static_cast<size_t>(j) * size);
      total += s.coefficients[j];
    }
    s.coefficients[n] = -total;
    s.outputs.resize(static_cast<size_t>(n + 1) * size);
    Base::truth(block, s.outputs.data() + static_cast<size_t>(n) * size);
    Base::build_mixture(s, block, s.outputs.data(), s.coefficients.data(), n + 1);
  }
};

}  // namespace mm
