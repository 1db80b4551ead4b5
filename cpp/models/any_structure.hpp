// Any structure behind virtual calls, in double precision, for code that need not be compiled once per
// structure. Exact passes use it, and so do the dual states of structures whose visits take long compared
// with a virtual call.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "models/concept.hpp"
#include "models/violators.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

// The part of the interface that does not depend on the label type.
class Unlabelled {
 public:
  struct State {
    int64_t block = 0;               // the open block
    std::vector<uint16_t> narrowed;  // outputs for a structure that keeps labels in two bytes (wide.cpp)
    virtual ~State() = default;
  };
  using Scratch = std::unique_ptr<State>;

  virtual ~Unlabelled() = default;
  virtual int64_t blocks() const = 0;
  virtual int64_t dimension() const = 0;
  virtual size_t weights() const = 0;
  virtual size_t coefficients() const = 0;
  virtual int output_size(int64_t block) const = 0;
  virtual void pack(const double* flat, double* W, int threads = 1) const = 0;
  virtual void unpack(const double* W, double* flat) const = 0;
  virtual void unpack_spent(double* W, double* flat, int threads) const = 0;  // W is not read again
  virtual Scratch scratch() const = 0;
  virtual void prepare() = 0;
  virtual bool plain() const { return false; }  // whether W has the layout of the flat weights
  virtual void open(int64_t block, const double* W, Scratch& s, bool augmented, double scale) const = 0;
  virtual double squared_norm(Scratch& s) const = 0;
  virtual void apply(const Scratch& s, double* W, double c) const = 0;
  virtual void apply(const Scratch& s, Gather W, double c) const = 0;

  // Optional powers
  virtual bool exact() const { return true; }  // whether `best` always finds the best output
  // If `best` is not exact: asks it to prove a ceiling, at most `leeway` above the value that it finds.
  virtual void prove(Scratch&, double) const {}
  virtual double ceiling(const Scratch&) const { return std::numeric_limits<double>::infinity(); }
  virtual void tolerate(Scratch&, double) const {}  // by how much `best` may miss the best output in training
  virtual bool slack_argmax() const { return false; }  // whether `best_slack` is implemented
  virtual int labels() const { return 0; }  // the number of labels if an output is one label, else 0
  // If a visit is short compared with a virtual call, one call handles many blocks: slacks of blocks [from,
  // to), planes, or both.
  virtual bool walks() const { return false; }
  virtual void all_slacks(int64_t, int64_t, const double*, double*) const {}
  // The lister of violators, or null if there is none. It reads the scores of the open block, and losses.
  virtual std::unique_ptr<Violators> lister() const { return nullptr; }
  virtual void list_scores(Scratch&, Violators&) const {}
  virtual void list_losses(int64_t, Violators&) const {}
  // The number of labels of a node if `beliefs` works, else 0. `beliefs` gives values for all nodes and
  // labels (beliefs.hpp).
  virtual int node_labels(int64_t, int) const { return 0; }
  virtual void beliefs(Scratch&, const double*, double, double*) const {}
  // Distributions over all outputs (SumsAll). Structures without them have 0 rows of potentials.
  virtual bool sums_all() const { return false; }
  virtual int row_labels() const { return 0; }
  virtual int row_stride() const { return 0; }
  virtual int64_t potentials(int64_t) const { return 0; }
  virtual void list_potentials(Scratch&, const double*, double*) const {}
  virtual double distribute(Scratch&, int64_t, const double*, double*) const { return 0; }
  virtual void subtract_truth(int64_t, double*) const {}
  virtual double expected_loss(int64_t, const double*) const { return 0; }
  virtual void add_expected(Scratch&, int64_t, const double*, double*, double) const {}
  virtual void draw(Scratch&, int64_t, const double*, const double*, int32_t*) const {}
  // Updates the open scores after W += c * move; returns false if the block must be opened again.
  virtual bool shifted(Scratch&, double) const { return false; }
  // The index of the weights W if an argmax needs one, else null. `read_index` makes a scratch use it.
  virtual std::shared_ptr<const void> index_of(const double*) const { return nullptr; }
  virtual void read_index(Scratch&, const void*) const {}
};

// Outputs of some blocks with their multipliers; the arrays belong to the caller.
template <class Label>
struct Planes {
  const int64_t* blocks;
  const double* c;
  const Label* outputs;
  int64_t n;
};

// The part of the interface that takes or returns labels.
template <class Label>
class Labelled {
 public:
  using Scratch = Unlabelled::Scratch;

  virtual ~Labelled() = default;
  virtual void truth(int64_t block, Label* y) const = 0;
  virtual double loss(int64_t block, const Label* y) const = 0;
  virtual bool same(int64_t block, const Label* a, const Label* b) const = 0;
  virtual bool valid(int64_t block, const Label* y) const = 0;
  virtual void open_where_different(int64_t block, const double* W, Scratch& s, const Label* y,
                                    int n) const = 0;
  virtual double best(Scratch& s, const double* W, Label* y) const = 0;
  virtual double score(const Scratch& s, const Label* y) const = 0;
  virtual void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const = 0;
  // Optional powers
  virtual bool all_valid(const int64_t*, const Label*, int64_t) const { return false; }
  virtual double all_planes(const int64_t*, const double*, const Label*, int64_t, double*) const { return 0; }
  // Computes xi of all blocks at W, and the sum of the planes, which must be sorted by block. Each row is
  // read once for both.
  virtual double slacks_and_planes(const double*, double*, const Planes<Label>&, double*) const { return 0; }
};

template <class Label_>
class AnyStructure : public Unlabelled, public Labelled<Label_> {
 public:
  using Real = double;
  using Label = Label_;
  using Unlabelled::Scratch;
  virtual void build_mixture(Scratch& s, int64_t block, const Label* y, const double* c, int n) const = 0;
  virtual void best_slack(Scratch&, const double*, double, const Label*, Label*) const {}
};

template <Structure S>
class Erased final : public AnyStructure<typename S::Label> {
 public:
  using Label = typename S::Label;
  using Scratch = Unlabelled::Scratch;

  explicit Erased(const typename S::Data& data) : structure_(data) {}

  int64_t blocks() const override { return structure_.blocks(); }
  int64_t dimension() const override { return structure_.dimension(); }
  size_t weights() const override { return structure_.weights(); }
  size_t coefficients() const override {
    if constexpr (requires { structure_.coefficients(); }) return structure_.coefficients();
    return 0;
  }
  int output_size(int64_t block) const override { return structure_.output_size(block); }
  void pack(const double* flat, double* W, int threads = 1) const override {
    if constexpr (requires { structure_.pack(flat, W, threads); })
      structure_.pack(flat, W, threads);
    else
      structure_.pack(flat, W);
  }
  void unpack(const double* W, double* flat) const override { structure_.unpack(W, flat); }
  void unpack_spent(double* W, double* flat, int threads) const override {
    mm::unpack_spent(structure_, W, flat, threads);
  }
  Scratch scratch() const override { return std::make_unique<Own>(structure_); }
  void prepare() override {
    if constexpr (requires { structure_.prepare(); }) structure_.prepare();
  }
  bool plain() const override {
    if constexpr (requires { structure_.plain(); }) return structure_.plain();
    return false;
  }
  void truth(int64_t block, Label* y) const override { structure_.truth(block, y); }
  double loss(int64_t block, const Label* y) const override { return structure_.loss(block, y); }
  bool same(int64_t block, const Label* a, const Label* b) const override {
    return structure_.same(block, a, b);
  }
  bool valid(int64_t block, const Label* y) const override { return structure_.valid(block, y); }
  void open(int64_t block, const double* W, Scratch& s, bool augmented, double scale) const override {
    s->block = block;
    structure_.open(block, W, in(s), augmented, scale);
  }
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* y,
                            int n) const override {
    s->block = block;
    structure_.open_where_different(block, W, in(s), y, n);
  }
  double best(Scratch& s, const double* W, Label* y) const override { return structure_.best(in(s), W, y); }
  double score(const Scratch& s, const Label* y) const override { return structure_.score(in(s), y); }
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const override {
    structure_.build_pair(in(s), block, plus, minus);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* y, const double* c, int n) const override {
    structure_.build_mixture(in(s), block, y, c, n);
  }
  double squared_norm(Scratch& s) const override { return structure_.squared_norm(in(s)); }
  void apply(const Scratch& s, double* W, double c) const override { structure_.apply(in(s), W, c); }
  void apply(const Scratch& s, Gather W, double c) const override { structure_.apply(in(s), W, c); }

  bool exact() const override {
    if constexpr (requires { structure_.exact(); }) return structure_.exact();
    return true;
  }
  void prove(Scratch& s, double leeway) const override {
    if constexpr (requires { in(s).prove; }) in(s).prove = true;
    if constexpr (requires { in(s).leeway; }) in(s).leeway = leeway;
  }
  double ceiling(const Scratch& s) const override {
    if constexpr (requires { in(s).ceiling; }) return in(s).ceiling;
    return std::numeric_limits<double>::infinity();
  }
  void tolerate(Scratch& s, double tolerance) const override {
    if constexpr (requires { in(s).tolerance; }) in(s).tolerance = tolerance;
  }
  bool slack_argmax() const override {
    if constexpr (requires { structure_.slack_argmax(); }) return structure_.slack_argmax();
    return true;
  }
  void best_slack(Scratch& s, const double* W, double shift, const Label* truth, Label* y) const override {
    if constexpr (requires { structure_.best_slack(in(s), W, shift, truth, y); })
      structure_.best_slack(in(s), W, shift, truth, y);
  }
  int labels() const override {
    if constexpr (requires { structure_.labels(); }) return structure_.labels();
    return 0;
  }
  bool walks() const override { return labels() > 0; }
  void all_slacks(int64_t from, int64_t to, const double* W, double* xi) const override {
    if constexpr (requires { structure_.labels(); }) {
      auto s = structure_.scratch();
      for (int64_t i = from; i < to; ++i) {
        if (i % 8 == 0) poll();
        xi[i] = slack_of(i, W, s);
      }
    }
  }
  bool all_valid(const int64_t* blocks, const Label* outputs, int64_t n) const override {
    bool valid = true;
    if constexpr (requires { structure_.labels(); })
      for (int64_t p = 0; p < n && valid; ++p)
        valid = blocks[p] >= 0 && blocks[p] < structure_.blocks() && structure_.valid(blocks[p], outputs + p);
    return valid;
  }
  double all_planes(const int64_t* blocks, const double* c, const Label* outputs, int64_t n,
                    double* W) const override {
    double offset = 0;
    if constexpr (requires { structure_.labels(); }) {
      auto s = structure_.scratch();
      for (int64_t p = 0; p < n; ++p) {
        if (p % 8 == 0) poll();
        offset += add_plane(blocks[p], c[p], outputs + p, s, W);
      }
    }
    return offset;
  }
  double slacks_and_planes(const double* W, double* xi, const Planes<Label>& planes,
                           double* sum) const override {
    double offset = 0;
    if constexpr (requires { structure_.labels(); }) {
      auto s = structure_.scratch();
      const auto [blocks, c, outputs, n] = planes;
      for (int64_t i = 0, p = 0; i < structure_.blocks(); ++i) {
        if (i % 8 == 0) poll();
        Label own;
        structure_.truth(i, &own);
        while (p < n && blocks[p] == i && outputs[p] == own) ++p;  // the true output adds nothing
        bool seen = false;
        if constexpr (joins)
          if (p < n && blocks[p] == i && structure_.plain()) {
            xi[i] = structure_.slack_and_plane(i, W, outputs + p, c[p], sum);
            offset += c[p] * structure_.loss(i, outputs + p);
            seen = true, ++p;
          }
        if (!seen) xi[i] = slack_of(i, W, s);
        for (; p < n && blocks[p] == i; ++p) offset += add_plane(i, c[p], outputs + p, s, sum);
      }
    }
    return offset;
  }
  std::unique_ptr<Violators> lister() const override {
    if constexpr (requires { structure_.lister(); }) return structure_.lister();
    return nullptr;
  }
  void list_scores(Scratch& s, Violators& sums) const override {
    if constexpr (requires { structure_.lister(); }) structure_.list_scores(in(s), sums);
  }
  void list_losses(int64_t block, Violators& sums) const override {
    if constexpr (requires { structure_.lister(); }) structure_.list_losses(block, sums);
  }
  int node_labels(int64_t block, int node) const override {
    if constexpr (requires { structure_.node_labels(block, node); })
      return structure_.node_labels(block, node);
    return 0;
  }
  void beliefs(Scratch& s, const double* W, double temperature, double* out) const override {
    if constexpr (requires { structure_.beliefs(in(s), W, temperature, out); })
      structure_.beliefs(in(s), W, temperature, out);
  }
  bool sums_all() const override {
    if constexpr (requires { structure_.can_sum(); }) return structure_.can_sum();
    return SumsAll<S>;
  }
  int row_labels() const override {
    if constexpr (SumsAll<S>) return structure_.row_labels();
    return 0;
  }
  int row_stride() const override {
    if constexpr (SumsAll<S>) return structure_.row_stride();
    return 0;
  }
  int64_t potentials(int64_t block) const override {
    if constexpr (SumsAll<S>) return structure_.potentials(block);
    return 0;
  }
  void list_potentials(Scratch& s, const double* W, double* theta) const override {
    if constexpr (SumsAll<S>) structure_.list_potentials(in(s), W, theta);
  }
  double distribute(Scratch& s, int64_t block, const double* theta, double* m) const override {
    if constexpr (SumsAll<S>) return structure_.distribute(in(s), block, theta, m);
    return 0;
  }
  void subtract_truth(int64_t block, double* m) const override {
    if constexpr (SumsAll<S>) structure_.subtract_truth(block, m);
  }
  double expected_loss(int64_t block, const double* m) const override {
    if constexpr (SumsAll<S>) return structure_.expected_loss(block, m);
    return 0;
  }
  void add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const override {
    if constexpr (SumsAll<S>) structure_.add_expected(in(s), block, m, W, c);
  }
  void draw(Scratch& s, int64_t block, const double* m, const double* u, int32_t* y) const override {
    if constexpr (SumsAll<S>) structure_.draw(in(s), block, m, u, y);
  }
  bool shifted(Scratch& s, double c) const override {
    if constexpr (requires { structure_.shift(in(s), c); }) return structure_.shift(in(s), c), true;
    return false;
  }
  std::shared_ptr<const void> index_of(const double* W) const override {
    if constexpr (requires { structure_.index_of(W); }) return structure_.index_of(W);
    return nullptr;
  }
  void read_index(Scratch& s, const void* index) const override {
    if constexpr (requires { in(s).given; }) in(s).given = static_cast<decltype(in(s).given)>(index);
  }

 private:
  // Whether the structure can compute a slack and add a plane in one pass over its row.
  static constexpr bool joins =
      requires(const S& s, const Label* y, double* w) { s.slack_and_plane(0, w, y, 1.0, w); };

  double slack_of(int64_t i, const double* W, typename S::Scratch& s) const {
    Label y, own;
    structure_.truth(i, &own);
    structure_.open(i, W, s, true, 1);
    return structure_.best(s, W, &y) - structure_.score(s, &own);
  }
  // sum += c psi; returns c Delta.
  double add_plane(int64_t i, double c, const Label* y, typename S::Scratch& s, double* sum) const {
    Label own;
    structure_.truth(i, &own);
    if (*y == own) return 0;  // the true output adds nothing
    structure_.build_pair(s, i, y, &own);
    structure_.apply(s, sum, c);
    return c * structure_.loss(i, y);
  }

  struct Own : Unlabelled::State {
    typename S::Scratch s;
    explicit Own(const S& structure) : s(structure.scratch()) {}
  };
  S structure_;

  static typename S::Scratch& in(const Scratch& s) { return static_cast<Own&>(*s).s; }
};

}  // namespace mm
