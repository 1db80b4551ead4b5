// A structure for callers that hold labels in four bytes, while the structure may use two.
#pragma once

#include <cstdint>
#include <memory>

#include "models/any_structure.hpp"

namespace mm {

struct WideStructure {
  std::shared_ptr<const Unlabelled> structure;
  std::shared_ptr<const Labelled<int32_t>> outputs;  // converts outputs for `structure`
};
WideStructure widened(std::unique_ptr<AnyStructure<uint16_t>> narrow);
WideStructure widened(std::unique_ptr<AnyStructure<int32_t>> wide);

}  // namespace mm
