// Marginals from and to arrays.
#pragma once

#include <utility>

#include "bindings/common.hpp"
#include "models/marginals.hpp"

namespace mm {

inline Marginals read(const Array1<int64_t>& node_block, const Array1<int32_t>& node,
                      const Array1<double>& node_value, const Array1<int64_t>& link_block,
                      const Array1<int32_t>& link, const Array1<double>& link_value) {
  if (node_block.size() != node.size() || link_block.size() != link.size())
    throw nb::value_error("as many blocks as nodes and links are needed");
  return {to_vector(node_block), to_vector(link_block), to_vector(node),
          to_vector(link),       to_vector(node_value), to_vector(link_value)};
}
inline nb::tuple written(Marginals&& m) {
  return nb::make_tuple(to_numpy(std::move(m.node_block)), to_numpy(std::move(m.node)),
                        to_numpy(std::move(m.node_value)), to_numpy(std::move(m.link_block)),
                        to_numpy(std::move(m.link)), to_numpy(std::move(m.link_value)));
}

}  // namespace mm
