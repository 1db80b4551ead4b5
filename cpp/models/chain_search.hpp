// Searches over the labellings of one sequence, besides Viterbi's: the k best, and the best by number of mistakes.
#pragma once

#include <cstdint>
#include <vector>

namespace mm {

// All that scores a labelling: local scores of T positions, transitions, and what the ends add, or null. The table of the
// transitions into position t is `t * step` from A: one table for all where step is 0.
struct SequenceScores {
  int T, K;
  int64_t stride;  // of the rows of `local` and `A`
  const double *local, *A, *start, *end;
  int64_t step;

  double at(int t, int label) const { return local[t * stride + label]; }
  double transition(int t, int from, int to) const { return A[t * step + from * stride + to]; }
  double start_of(int label) const { return start ? start[label] : 0; }
  double end_of(int label) const { return end ? end[label] : 0; }
};

// The k best labellings, best first, or as many as exist: their labels one after the other, and their scores.
void best_labellings(const SequenceScores& s, int k, std::vector<int32_t>& y, std::vector<double>& scores);

// argmax_y Delta(y) (score(y) + shift) for a loss of `each` mistake, at most T of them: Viterbi with the number
// n of mistakes in the state, F[t, n, k], then the best n. Needs T times the work of Viterbi. False, and y as it was, if nothing is above zero.
bool best_by_mistakes(const SequenceScores& s, double each, double shift, const std::vector<int32_t>& truth,
                      std::vector<double>& table, std::vector<int32_t>& y);

}  // namespace mm
