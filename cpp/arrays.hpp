// Cached outputs as the core takes and returns them, for any label type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

namespace mm {

// Labels of outputs, one output after the other: one byte, two, or four for each label.
using Labels = std::variant<std::vector<uint8_t>, std::vector<uint16_t>, std::vector<int32_t>>;

// The same labels in memory that the caller owns.
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

// The same while planes are added.
template <class Label>
struct SupportList {
  std::vector<int64_t> blocks;
  std::vector<double> multipliers;
  std::vector<Label> outputs;

  void reserve(size_t planes, size_t labels) {
    blocks.reserve(planes), multipliers.reserve(planes), outputs.reserve(labels);
  }
  void resize(size_t planes) {  // for outputs of one label each
    blocks.resize(planes), multipliers.resize(planes), outputs.resize(planes);
  }
  void add(int64_t block, double multiplier, const Label* y, int size) {
    blocks.push_back(block);
    multipliers.push_back(multiplier);
    outputs.insert(outputs.end(), y, y + size);
  }
  operator SupportArrays() && { return {std::move(blocks), std::move(multipliers), std::move(outputs)}; }
};

}  // namespace mm
