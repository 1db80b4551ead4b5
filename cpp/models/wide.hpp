// A structure whose outputs have two bytes per label, for callers that hold labels in four.
#pragma once

#include <cstdint>
#include <memory>

#include "models/any_structure.hpp"

namespace mm {

std::unique_ptr<AnyStructure<int32_t>> widened(std::unique_ptr<AnyStructure<uint16_t>> narrow);
inline std::unique_ptr<AnyStructure<int32_t>> widened(std::unique_ptr<AnyStructure<int32_t>> wide) {
  return wide;
}

}  // namespace mm
