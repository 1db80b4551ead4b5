// Dual coordinate ascent of classes in single precision, on a copy of rows in double precision.
#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "bindings/powers.hpp"
#include "narrow.hpp"
#include "shuffle.hpp"
#include "solvers/dual_coordinate.hpp"

namespace mm {

// Data with a copy of its rows in single precision, in a random order.
template <class Data>
struct NarrowData {
  std::vector<int64_t> order;
  std::unique_ptr<Features> rows;
  Data data;
  explicit NarrowData(const Data& wide) : order(wide.blocks()), data(wide) {
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, 0);
    rows = narrowed(*wide.features, order);
    data.features = rows.get();
    data.truth = picked(wide.truth, order);
  }
};

template <Structure S>
std::unique_ptr<Coordinate> make_narrow(const typename S::Data& data, std::vector<double> mass) {
  const Kind kind = data.features->kind;
  if (kind != Kind::dense64 && kind != Kind::sparse64) return make<CoordinateOf, S>(data, std::move(mass));
  auto copy = std::make_shared<const NarrowData<typename S::Data>>(data);
  return make<CoordinateOf, S>(copy->data, picked(mass, copy->order), copy, copy->order);
}

}  // namespace mm
