// Searches over the labellings of one sequence, besides Viterbi's: the k best labellings, and the best for
// each number of mistakes.
#pragma once

#include <cstdint>
#include <vector>

namespace mm {

// All scores of the labellings of a sequence: local scores of T positions, transitions, start and end (or
// null). The table of the transitions into position t is at A + t * step; with step 0 all positions share one
// table.
struct SequenceScores {
  int T, K;
  int64_t stride;  // length of a row of `local` and `A`
  const double *local, *A, *start, *end;
  int64_t step;

  double at(int t, int label) const { return local[t * stride + label]; }
  double transition(int t, int from, int to) const { return A[t * step + from * stride + to]; }
  double start_of(int label) const { return start ? start[label] : 0; }
  double end_of(int label) const { return end ? end[label] : 0; }
};

// Finds the k best labellings, best first, or all if there are fewer. Writes their labels one after the
// other, and their scores.
void best_labellings(const SequenceScores& s, int k, std::vector<int32_t>& y, std::vector<double>& scores);

// argmax_y Delta(y) (score(y) + shift) for a loss of `each` per mistake. It runs Viterbi with the number of
// mistakes n <= T in the state, F[t, n, k], then takes the best n. This takes T times the work of Viterbi.
// Returns false, and leaves y unchanged, if no value is above zero.
bool best_by_mistakes(const SequenceScores& s, double each, double shift, const std::vector<int32_t>& truth,
                      std::vector<double>& table, std::vector<int32_t>& y);

}  // namespace mm
