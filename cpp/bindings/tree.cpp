#include "models/tree.hpp"

#include "bindings/powers.hpp"

namespace mm {

using Map = nb::ndarray<nb::ro, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// The data and the arrays that it points into.
struct TreeOwner : TreeData {
  std::vector<Map> arrays;
};

static void take_maps(TreeOwner& data, std::vector<Map>&& arrays) {
  data.width = arrays.empty() ? 0 : static_cast<int32_t>(arrays[0].shape(2));
  for (const Map& a : arrays) {
    const bool single = a.dtype() == nb::dtype<float>();
    check(single || a.dtype() == nb::dtype<double>(), "a map must be of float or double");
    check(static_cast<int32_t>(a.shape(2)) == data.width, "maps must have the same features");
    check(a.shape(0) > 0 && a.shape(1) > 0 && a.shape(0) * a.shape(1) < (1u << 30), "size of a map");
    data.maps.push_back(
        {a.data(), single, static_cast<int32_t>(a.shape(0)), static_cast<int32_t>(a.shape(1))});
  }
  data.arrays = std::move(arrays);
}

// Takes the edges, from the root downwards: one for each part but the root.
static void take_edges(TreeOwner& data, const Array2<int32_t>& ends, const Array2<double>& springs) {
  check(ends.shape(1) == 2 && springs.shape(1) == 4 && ends.shape(0) == springs.shape(0),
        "shape of the edges");
  check(static_cast<int64_t>(ends.shape(0)) + 1 == data.parts, "a tree has one edge fewer than parts");
  std::vector<char> reached(data.parts, 0);
  for (size_t e = 0; e < ends.shape(0); ++e) {
    const int32_t parent = ends(e, 0), child = ends(e, 1);
    check(parent >= 0 && parent < data.parts && child >= 0 && child < data.parts, "an edge to no part");
    if (e == 0) reached[parent] = 1;
    check(reached[parent] && !reached[child], "edges must lead away from the root");
    reached[child] = 1;
    check(springs(e, 2) > 0 && springs(e, 3) > 0, "a spread must be positive");
    data.edges.push_back({parent, child, {springs(e, 0), springs(e, 1)}, {springs(e, 2), springs(e, 3)}});
  }
}

// Takes the number of types of each part. An output encodes type and place of a part in one number.
static void take_types(TreeOwner& data, const Array1<int32_t>& types) {
  data.types = to_vector(types);
  check(static_cast<int32_t>(data.types.size()) == data.parts, "a number of types for each part");
  for (int32_t count : data.types) {
    check(count > 0, "a part has at least one type");
    for (const PlaceMap& map : data.maps)
      check(static_cast<int64_t>(count) * map.places() < (1 << 30), "types times places");
  }
  data.number();
}

static void bind_tree(nb::module_& m) {
  nb::class_<TreeOwner> kind(m, "TreeData");
  kind.def("__init__",
           [](TreeOwner* self, std::vector<Map> maps, Array1<int32_t> types, Array2<int32_t> edges,
              Array2<double> springs, Array1<int32_t> truth, Array1<uint8_t> known, bool strict) {
             TreeOwner data;
             data.parts = static_cast<int32_t>(types.size());
             check(data.parts > 0, "at least one part is needed");
             take_maps(data, std::move(maps));
             take_edges(data, edges, springs);
             take_types(data, types);
             data.truth = to_vector(truth);
             data.known.assign(known.data(), known.data() + known.size());
             data.strict = strict;
             check(data.known.empty() || data.known.size() == data.truth.size(), "which parts are known");
             if (!data.truth.empty()) {
               check(static_cast<int64_t>(data.truth.size()) == data.blocks() * data.parts,
                     "places of the true parts");
               const Tree tree(data);
               for (int64_t i = 0; i < data.blocks(); ++i)
                 check(tree.valid(i, data.truth.data() + i * data.parts), "a true part outside of its map");
             }
             new (self) TreeOwner(std::move(data));
           });
  bind_powers<Tree>(kind);
}

static const Bindings tree_bindings(&bind_tree);

}  // namespace mm
