// A structure whose outputs are kept in two bytes a label, for those who hold labels in four.
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
