// What a structure is: a model on data, as the solvers of the core see it. multiclass.hpp is the shortest to read.
//
// A block is an example. An output is `output_size(block)` labels. W are weights in the structure's own layout, flat
// weights are those of `coef_`. A visit opens a block, which computes local scores once; all that follows reads them:
//
//   open -> best, score          s(y) = Delta(y) + <w, Psi(x, y)>, up to a constant of the block
//   build_pair / build_mixture -> squared_norm, apply         a move sum_j c_j Psi(x, y_j)
//
// Optional powers, found by `requires` where they are used:
//   watch(W), changed(W, j)               keep an index of the weights (LargeChain); one_thread: updates one by one
//   light_moves()                         whether to repeat a move of w takes much less than a visit; else one thread visits
//   index_of(W), s.given                  the same for weights that do not change, and a scratch that has it
//   exact(), s.ceiling, s.prove           the argmax is a search: what it proved, and whether it should
//   s.tolerance                           by how much such a search may miss the best in training
//   best_slack, slack_argmax()            the argmax of slack rescaling
//   labels()                              an output is one of these: all can be tried
//   lister(), list_scores, list_losses    violators can be listed (violators.hpp)
//   node_labels, beliefs                  what each label of each node is worth (beliefs.hpp)
//   potentials, distribute, ...           distributions over all outputs: SumsAll, below
//   unpack_spent(W, flat, threads)        the same as unpack, and gives the memory of W back on the way
//   pack(flat, W, threads), unpack(W, flat, threads)   over threads
//   shift(s, c)                           the open scores after W += c * move, for less than opening again
//   prefetch_view(block), prefetch(block) asks for memory that a visit will read: views of rows, then rows
//   list_move(s, list)                    a move between two outputs as a list, for other threads: apply_list, prefetch_list
//   loss_of_move(s)                       of the move that was built, for less than the losses of its outputs
//   coefficients()                        under a kernel: how many of the weights are coefficients
//   prepare()                             tables as long as the data, which make visits faster
//   release(y), bytes_of(y)               outputs are planes from outside (Explicit): given_planes, below
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
      { structure.dimension() } -> std::convertible_to<int64_t>;  // of flat weights
      { structure.weights() } -> std::convertible_to<size_t>;     // of W, which may be padded
      { structure.output_size(block) } -> std::convertible_to<int>;
      structure.pack(flat, flat);  // flat weights into W; padding stays as it is
      structure.unpack(W, flat);   // and back
      structure.scratch();         // what a thread needs for its visits
      structure.truth(block, y);   // the true output
      { structure.loss(block, u) } -> std::convertible_to<double>;  // Delta
      { structure.same(block, u, u) } -> std::convertible_to<bool>;
      structure.open(block, W, s, true, scale);           // with scale times the loss, or without any
      structure.open_where_different(block, W, s, u, n);  // only as far as n outputs differ, with the loss
      { structure.best(s, W, y) } -> std::convertible_to<double>;  // the argmax, and its score
      { structure.score(s, u) } -> std::convertible_to<double>;
      structure.build_pair(s, block, u, u);                  // move = Psi(first) - Psi(second)
      structure.build_mixture(s, block, u, multipliers, n);  // move = sum_j c_j Psi(y_j)
      { structure.squared_norm(s) } -> std::convertible_to<double>;
      structure.apply(s, flat, c);  // W += c * move
      structure.apply(s, move, c);  // the same, entry by entry
    };

// Flat weights of W, over threads where that is known.
template <class S, class From>
void unpack(const S& structure, const From* W, double* flat, int threads) {
  if constexpr (requires { structure.unpack(W, flat, threads); })
    structure.unpack(W, flat, threads);
  else
    structure.unpack(W, flat);
}
// The same of W that is not read again.
template <class S>
void unpack_spent(const S& structure, double* W, double* flat, int threads) {
  if constexpr (requires { structure.unpack_spent(W, flat, threads); })
    structure.unpack_spent(W, flat, threads);
  else
    structure.unpack(W, flat);
}

template <class S>
constexpr bool given_planes = requires(S& structure, typename S::Label y) { structure.release(y); };

// A structure that sums over all outputs. A distribution of a block is given by potentials theta, in `potentials(block)`
// rows of `row_stride()` reals, of which the first `row_labels()` count; its expectations m have the same layout:
//   p(y) = exp(<theta, phi(y)>) / Z,   m = E phi(y),   entropy = log Z - <theta, m>
// where Psi(x, y) is linear in phi(y), the indicators of parts: labels of nodes, pairs of neighbours. `can_sum()`: whether
// these data allow it.
template <class S>
concept SumsAll = requires(const S& structure, typename S::Scratch& s, int64_t block,
                           const typename S::Real* W, typename S::Real* m, const typename S::Real* theta,
                           typename S::Real* own, double c, const double* u, int32_t* y) {
  { structure.row_labels() } -> std::convertible_to<int>;
  { structure.row_stride() } -> std::convertible_to<int>;
  { structure.potentials(block) } -> std::convertible_to<int64_t>;
  structure.list_potentials(s, W, m);  // scores of the open block: p is that of w
  // log Z, and m unless it is null; minus infinity where no output is possible
  { structure.distribute(s, block, theta, m) } -> std::convertible_to<double>;
  structure.subtract_truth(block, m);                                        // m -= phi(y_i)
  { structure.expected_loss(block, theta) } -> std::convertible_to<double>;  // E Delta, of m
  structure.add_expected(s, block, theta, own, c);  // W += c E Psi for an m; may return how |W|^2 has changed
  structure.draw(s, block, theta, u, y);  // an output from numbers u in [0, 1), after `distribute` of this m
};
// With one row of potentials, for parts whose features are as long and stand at right angles: scores alone tell how |W|^2
// will change, |W + c Psi d|^2 = |W|^2 + 2 c <scores, d> + c^2 part_square |d|^2 where d sums to zero.
template <class S>
concept OneRow = SumsAll<S> && requires(const S& structure, int64_t block) {
  { structure.part_square(block) } -> std::convertible_to<double>;
  structure.prefetch_view(block);  // asks for the memory of the features, a while before
  structure.prefetch(block);
};

}  // namespace mm
