// The state that rounds of dual coordinate ascent hand on to later rounds (dual_coordinate.hpp).
#pragma once

#include <algorithm>
#include <limits>

namespace mm {

// Chooses k for each round, like solvers/proximal.py. k falls if the centre is too far from w, by two steps if it is
// much too far, and also if the gap has stopped falling. If k fell at a smaller lag, hard problems would take many
// times as long. The two steps let easy problems end sooner.
struct Balance {
  double k = 0;  // of the next round
  double best = std::numeric_limits<double>::infinity();
  int stalled = 0;

  void after(double ascent, double lag, double decay) {
    if (k == 0) return;
    ++stalled;
    const double allowed = ascent + lag > grown * best ? strict : lagging;
    if (ascent + lag < 0.9 * best) best = ascent + lag, stalled = 0;
    if (lag > allowed * ascent)
      k /= lag > far_behind * ascent ? decay * decay : decay;
    else if (stalled >= 10)
      k /= 2, stalled = 0;
  }

 private:
  // k falls if the lag is more than `lagging` times the ascent, by two steps if it is more than `far_behind` times.
  // Once the gap is `grown` times its least value, `strict` replaces `lagging`, since steps may overshoot in a circle.
  static constexpr double lagging = 1.5, far_behind = 6, strict = 0.5, grown = 2;
};

// The number of rounds between two climbs. After a climb that has not halved the gap it becomes twice as many plus one,
// 15 at most; after any other climb it is 0.
struct Pace {
  double before = 0;  // the gap at the last climb; 0 once it has been compared
  int pause = 0, wait = 0;

  bool due(double gap) {
    if (before > 0) wait = pause = gap > before / 2 ? std::min(2 * pause + 1, 15) : 0;
    before = 0;
    return wait-- <= 0;
  }
  void made(double gap) { before = gap; }
};

}  // namespace mm
