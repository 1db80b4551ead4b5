// Kept outputs on their way into and out of the core, whatever their structure keeps a label in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <variant>
#include <vector>

namespace mm {

// Labels of outputs, one output after the other: one byte, two, or four for each label.
using Labels = std::variant<std::vector<uint8_t>, std::vector<uint16_t>, std::vector<int32_t>>;

// The same in memory of somebody else.
struct LabelView {
  const void* data = nullptr;
  size_t size = 0;
  size_t width = 4;  // bytes of a label

  template <class Label>
  const Label* as() const {
    if (width != sizeof(Label) && size > 0) throw std::invalid_argument("labels of another width");
    return static_cast<const Label*>(data);
  }
};

// Outputs with multipliers.
struct SupportArrays {
  std::vector<int64_t> blocks;
  std::vector<double> multipliers;
  Labels outputs;
};

}  // namespace mm
