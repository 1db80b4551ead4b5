// Offsets cut n items into consecutive ranges: range i is offsets[i] .. offsets[i + 1].
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace mm {

enum class EmptyRanges { allowed, refused };

// Throws std::invalid_argument unless the offsets begin with 0, rise in order, and end with n. Then every index that is
// computed from them is in range. `what` names the ranges and the items in the message, such as "sequences of rows".
template <class Offsets>
void check_offsets(const Offsets& offsets, int64_t n, EmptyRanges empty, const char* what) {
  const auto refuse = [&](const std::string& found) {
    throw std::invalid_argument("offsets of " + std::string(what) + " must rise from 0 to " +
                                std::to_string(n) + ", " + found);
  };
  if (offsets.size() == 0) refuse("got none");
  const auto* at = offsets.data();
  const int64_t ranges = static_cast<int64_t>(offsets.size()) - 1, least = empty == EmptyRanges::refused;
  if (at[0] != 0) refuse("got " + std::to_string(at[0]) + " first");
  for (int64_t i = 0; i < ranges; ++i)
    if (at[i + 1] < at[i] || at[i + 1] - at[i] < least || at[i + 1] > n)
      refuse("got " + std::to_string(at[i + 1]) + " after " + std::to_string(at[i]));
  if (at[ranges] != n) refuse("got " + std::to_string(at[ranges]) + " last");
}

}  // namespace mm
