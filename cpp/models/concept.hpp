// A Structure is a model on data, as the solvers of the core see it. multiclass.hpp is the shortest to read.
//
// A block is an example. An output is `output_size(block)` labels. W are weights in the structure's own
// layout; flat weights have the layout of `coef_`. A visit opens a block, which computes its local scores
// once. All later steps of the visit read these scores:
//
//     open -> best, score          s(y) = Delta(y) + <w, Psi(x, y)>, up to a constant of the block
//     build_pair / build_mixture -> squared_norm, apply         a move sum_j c_j Psi(x, y_j)
//
// Callers detect these optional powers with `requires`:
//   watch(W), changed(W, j)               keep an index of the weights (LargeChain)
//   one_thread                            the index allows only one update at a time
//   light_moves()                         repeating a move is much cheaper than a visit; if not, use one thread
//   index_of(W), s.given                  the same index for constant weights, and a scratch that reads it
//   exact(), s.ceiling, s.prove           the argmax is a search: its proven upper bound, and whether to prove one
//   s.tolerance                           by how much such a search may miss the best output in training
//   best_slack, slack_argmax()            the argmax of slack rescaling
//   labels()                              number of labels if an output is one label: callers can try all
//   lister(), list_scores, list_losses    violators can be listed (violators.hpp)
//   node_labels, beliefs                  beliefs of each label of each node (beliefs.hpp)
//   potentials, distribute, ...           distributions over all outputs: SumsAll, below
//   unpack_spent(W, flat, threads)        unpack, and free the memory of W on the way
//   pack(flat, W, threads), unpack(W, flat, threads)   pack and unpack with several threads
//   shift(s, c)                           update the open scores after W += c * move; cheaper than opening again
//   prefetch_view(block), prefetch(block) prefetch the memory that a visit will read: views of rows, then rows
//   list_move(s, list)                    a move between outputs as a list for other threads: apply_list, prefetch_list
//   loss_of_move(s)                       the loss of the built move; cheaper than the losses of its outputs
//   coefficients()                        with a kernel: how many of the weights are coefficients
//   prepare()                             build tables as long as the data, which make visits faster
//   release(y), bytes_of(y)               outputs are planes that callers add (Explicit): given_planes, below
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "gather.hpp"

namespace mm {

template <class S>
concept Structure =
    requires(const S& structure, typename S::Scratch& s, int64_t block, const typename S::Real* W,
             typename S::Real scale, double c, int n, typename S::Label* y, const typename S::Label* u,
             const double* multipliers, double* flat, Gather move) {
      { structure.blocks() } -> std::convertible_to<int64_t>;
      { structure.dimension() } -> std::convertible_to<int64_t>;  // number of flat weights
      { structure.weights() } -> std::convertible_to<size_t>;     // length of W, which may be padded
      { structure.output_size(block) } -> std::convertible_to<int>;
      structure.pack(flat, flat);  // flat weights into W; padding stays unchanged
      structure.unpack(W, flat);   // and back
      structure.scratch();         // the buffers that a thread needs for its visits
      structure.truth(block, y);   // the true output
      { structure.loss(block, u) } -> std::convertible_to<double>;  // Delta
      { structure.same(block, u, u) } -> std::convertible_to<bool>;
      structure.open(block, W, s, true, scale);  // with the loss times `scale`, or without loss
      // Only the scores on which n outputs differ, with the loss.
      structure.open_where_different(block, W, s, u, n);
      { structure.best(s, W, y) } -> std::convertible_to<double>;  // the argmax, and its score
      { structure.score(s, u) } -> std::convertible_to<double>;
      structure.build_pair(s, block, u, u);                  // move = Psi(first) - Psi(second)
      structure.build_mixture(s, block, u, multipliers, n);  // move = sum_j c_j Psi(y_j)
      { structure.squared_norm(s) } -> std::convertible_to<double>;
      structure.apply(s, flat, c);  // W += c * move
      structure.apply(s, move, c);  // the same, entry by entry
    };

// Converts W into flat weights, with several threads if the structure can.
template <class S, class From>
void unpack(const S& structure, const From* W, double* flat, int threads) {
  if constexpr (requires { structure.unpack(W, flat, threads); })
    structure.unpack(W, flat, threads);
  else
    structure.unpack(W, flat);
}
// The same for a W that is not read again.
template <class S>
void unpack_spent(const S& structure, double* W, double* flat, int threads) {
  if constexpr (requires { structure.unpack_spent(W, flat, threads); })
    structure.unpack_spent(W, flat, threads);
  else
    structure.unpack(W, flat);
}

template <class S>
constexpr bool given_planes = requires(S& structure, typename S::Label y) { structure.release(y); };

// A structure that sums over all outputs. Potentials theta give a distribution of a block. They have
// `potentials(block)` rows of `row_stride()` reals; only the first `row_labels()` of a row count. The
// expectations m have the same layout:
//     p(y) = exp(<theta, phi(y)>) / Z,   m = E phi(y),   entropy = log Z - <theta, m>
// Psi(x, y) is linear in phi(y), the indicators of parts (labels of nodes, pairs of neighbours). `can_sum()`
// says whether the data allow it.
template <class S>
concept SumsAll = requires(const S& structure, typename S::Scratch& s, int64_t block,
                           const typename S::Real* W, typename S::Real* m, const typename S::Real* theta,
                           typename S::Real* own, double c, const double* u, int32_t* y) {
  { structure.row_labels() } -> std::convertible_to<int>;
  { structure.row_stride() } -> std::convertible_to<int>;
  { structure.potentials(block) } -> std::convertible_to<int64_t>;
  structure.list_potentials(s, W, m);  // the scores of the open block, so that p belongs to w
  // Returns log Z, and m unless it is null; minus infinity if no output is possible.
  { structure.distribute(s, block, theta, m) } -> std::convertible_to<double>;
  structure.subtract_truth(block, m);                                        // m -= phi(y_i)
  { structure.expected_loss(block, theta) } -> std::convertible_to<double>;  // E Delta under m
  structure.add_expected(s, block, theta, own, c);  // W += c E Psi under m; may return the change of |W|^2
  // An output from random numbers u in [0, 1); call after `distribute` of this m.
  structure.draw(s, block, theta, u, y);
};
// A structure with one row of potentials, whose parts have orthogonal features of equal length. Then scores
// alone give the change of |W|^2: if d sums to zero, |W + c Psi d|^2 = |W|^2 + 2 c <scores, d> + c^2
// part_square |d|^2.
template <class S>
concept OneRow = SumsAll<S> && requires(const S& structure, int64_t block) {
  { structure.part_square(block) } -> std::convertible_to<double>;
  structure.prefetch_view(block);  // prefetches the pointers to the features, some time before `prefetch`
  structure.prefetch(block);
};

}  // namespace mm
