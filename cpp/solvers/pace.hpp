// What rounds of dual coordinate ascent remember of those before (dual_coordinate.hpp).
#pragma once

#include <algorithm>
#include <limits>

namespace mm {

// k from round to round, as in solvers/proximal.py: lower where the centre is too far from w, by two steps where it is much
// too far, or where nothing falls. Hard problems (one digit of USPS against the others, C = 100) take up to twelve times as
// long where k falls at half the lag; easy ones are over sooner where it falls by two steps.
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
  // Times the ascent: where the lag is more, k falls; where the gap has grown to this many times its least, sooner, since
  // steps may overshoot in a circle.
  static constexpr double lagging = 1.5, far_behind = 6, strict = 0.5, grown = 2;
};

// Rounds between two climbs: twice as many, and one more, after a climb that has not halved the gap.
struct Pace {
  double before = 0;  // the gap at the last climb; 0 once it was looked at
  int pause = 0, wait = 0;

  bool due(double gap) {
    if (before > 0) wait = pause = gap > before / 2 ? std::min(2 * pause + 1, 15) : 0;
    before = 0;
    return wait-- <= 0;
  }
  void made(double gap) { before = gap; }
};

}  // namespace mm
