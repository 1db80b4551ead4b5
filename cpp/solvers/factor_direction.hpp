// Directions in which the marginals q of a factor move inside its active set; see gdmm.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace mm {

enum class Direction : int { pairwise, away, frank_wolfe };

struct Choice {  // an active label of a factor, or an active pair of labels
  int at;        // its place in the active set
  double mass, score;
};
struct Change {
  int at;  // the place of the choice
  double by;
};

// Writes the direction d over the choices, without zeros. Returns the factor's gap, mass s(best) - <q, s>.
inline double choose(Direction rule, const std::vector<Choice>& choices, double mass,
                     std::vector<Change>& d) {
  int best = 0, worst = -1;
  double mean = 0;
  for (int n = 0; n < static_cast<int>(choices.size()); ++n) {
    mean += choices[n].mass * choices[n].score;
    if (choices[n].score > choices[best].score) best = n;
    if (choices[n].mass > 0 && (worst < 0 || choices[n].score < choices[worst].score)) worst = n;
  }
  const double gap = mass * choices[best].score - mean, away = mean - mass * choices[worst].score;
  d.clear();
  if (rule == Direction::pairwise) {
    if (best != worst) d = {{best, mass}, {worst, -mass}};
    return std::max(0.0, gap);
  }
  const bool back = rule == Direction::away && away > gap;
  const double sign = back ? 1 : -1;
  for (int n = 0; n < static_cast<int>(choices.size()); ++n) {
    const double by = sign * choices[n].mass - (n == (back ? worst : best) ? sign * mass : 0);
    if (by != 0) d.push_back({n, by});
  }
  return std::max(0.0, gap);
}

// Moves the marginals of one factor after the other, each inside its active set.
struct FactorMoves {
  std::vector<Choice> choices;
  std::vector<Change> direction;

  // Makes at most `inner` exact steps and returns their number. `gap` grows by the factor's gap before the first step.
  //   read(turn)        lists the current choices
  //   bend()            returns the curvature along the direction
  //   moved(at, more)   returns a pointer to the mass of a choice, and updates everything else that its move changes
  template <class Read, class Bend, class Moved>
  int improve(Direction rule, int inner, double mass, double& gap, Read&& read, Bend&& bend, Moved&& moved) {
    for (int turn = 0; turn < inner; ++turn) {
      choices.clear();
      read(turn);
      const double seen = choose(rule, choices, mass, direction);
      if (turn == 0) gap += seen;
      double slope = 0, longest = HUGE_VAL;  // the step at which the first mass is used up
      for (const Change& d : direction) {
        slope += d.by * choices[d.at].score;
        if (d.by < 0) longest = std::min(longest, choices[d.at].mass / -d.by);
      }
      if (slope <= 1e-14 * mass || !(longest > 0)) return turn;
      const double free = slope / bend(), step = std::min(longest, free);
      for (const Change& d : direction) {
        const Choice& c = choices[d.at];
        double* share = moved(c.at, step * d.by);
        const bool used = step == longest && d.by < 0 && c.mass / -d.by <= longest;
        *share = used ? 0 : c.mass + step * d.by;
      }
    }
    return inner;
  }
};

}  // namespace mm
