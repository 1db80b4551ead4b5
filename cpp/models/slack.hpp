// Slack rescaling of any structure: the plane of an output is (Delta, Delta * psi).
//
//   s(y) = Delta(y) (c + <w, psi(y)>),   c = 1, or the scale of the loss in the subgradient method
//   a move sum_j c_j Delta_j psi_j puts c_j Delta_j on y_j and minus their sum on the true output
//
// The base structure answers `best_slack`, the argmax of s. Scores are absolute here (s of the true output
// is 0), so that a visit opens the whole block.
#pragma once

#include <cstdint>
#include <vector>

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
  };
  Scratch scratch() const {
    Scratch s;
    static_cast<typename Base::Scratch&>(s) = Base::scratch();
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
  double best(Scratch& s, const Real* W, Label* y) const {
    Base::best_slack(s, W, s.scale - s.margin_of_truth, s.truth.data(), y);
    return score(s, y);
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

 private:
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
