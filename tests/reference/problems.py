"""Random small problems by name, each with its enumerated reference."""

from __future__ import annotations

from functools import cache

import numpy as np

from .cases import (
    Case,
    binary_case,
    chain_case,
    edge_chain_case,
    fresh,
    grammar_case,
    graph_case,
    multiclass_case,
    multilabel_case,
    observed_case,
    parts_case,
    ranking_case,
)

# Small problems of each model, small enough to enumerate: name -> maker.
CASES = {
    "multiclass-cost-dense": lambda g: multiclass_case(g, costs=True),
    "multiclass-cost-csr-weights": lambda g: multiclass_case(
        g, n=12, n_classes=4, layout="csr", costs=True, weighted=True, C=0.3
    ),
    "multiclass-bias-float32": lambda g: multiclass_case(g, dtype=np.float32, bias=1.0, C=2.0),
    "multiclass-two-classes-csr32": lambda g: multiclass_case(
        g, n_classes=2, layout="csr", dtype=np.float32
    ),
    "chain-singletons": lambda g: chain_case(g, n=6, lengths=(1,), n_classes=3, costs=True),
    "chain-1to4-dense": lambda g: chain_case(g, n=6, lengths=(1, 2, 3, 4), n_classes=3),
    "chain-1to4-csr-ends": lambda g: chain_case(
        g, lengths=(4, 1, 3, 2), n_classes=2, layout="csr", start=True, end=True, bias=1.0
    ),
    "chain-mean-weights": lambda g: chain_case(
        g, n=6, lengths=(3, 2, 4), n_classes=3, mean=True, weighted=True, C=4.0
    ),
    "chain-cost-four-labels": lambda g: chain_case(
        g, n=4, lengths=(4, 2), n_classes=4, n_features=2, costs=True, C=0.2, start=True
    ),
    "chain-csr32-mean-cost": lambda g: chain_case(
        g, lengths=(2, 3), layout="csr", dtype=np.float32, mean=True, costs=True, end=True
    ),
    "chain-illegal": lambda g: chain_case(
        g, n=6, lengths=(4, 3, 2, 1), illegal=((0, 1), (1, 1), (2, 0), (None, 1), (2, None))
    ),
    "chain-illegal-csr-ends-cost": lambda g: chain_case(
        g,
        lengths=(3, 4),
        layout="csr",
        dtype=np.float32,
        costs=True,
        start=True,
        end=True,
        illegal=((0, 2), (1, 2), (None, 2)),
        C=2.0,
    ),
    "binary-cost-weights": lambda g: binary_case(g, n=12, costs=True, weighted=True, C=0.5),
    "binary-bias-csr32": lambda g: binary_case(
        g, n=12, n_features=9, bias=1.0, layout="csr", dtype=np.float32, C=2.0
    ),
}


# Chains with edge features, of second order, or both.
EDGES = {
    "edges-dense": lambda g: edge_chain_case(g, lengths=(1, 2, 3, 4), costs=True, start=True),
    "edges-csr32": lambda g: edge_chain_case(
        g, lengths=(3, 2, 1), layout="csr", dtype=np.float32, end=True, bias=1.0, C=0.4
    ),
    "second-order": lambda g: edge_chain_case(
        g, 0, 2, n=6, lengths=(1, 4, 3, 2), n_classes=2, start=True, end=True, weighted=True
    ),
    "second-order-edges": lambda g: edge_chain_case(g, 1, 2, lengths=(4, 3), mean=True, C=2.0),
    "edges-illegal": lambda g: edge_chain_case(
        g, lengths=(3, 4, 1), illegal=((0, 1), (1, 1), (None, 1), (2, None))
    ),
    "second-order-illegal": lambda g: edge_chain_case(
        g, 1, 2, lengths=(4, 1, 2, 3), start=True, illegal=((0, 2), (2, 1), (None, 2), (1, None))
    ),
}

# Parses of short sentences.
TREES = {
    "grammar-spans": lambda g: grammar_case(g, n=6, lengths=(2, 3, 1, 4), horizontal=1),
    "grammar-zero-one": lambda g: grammar_case(g, loss="zero-one", lengths=(3, 2), C=0.5),
    "grammar-spans-weights": lambda g: grammar_case(
        g, lengths=(3, 2), weighted=True, horizontal=0, C=0.1
    ),
}


# Parts of an object on small grids.
PARTS = {
    "tree-three-parts": parts_case,
    "tree-float32-weights": lambda g: parts_case(g, n=6, dtype=np.float32, weighted=True, C=0.5),
    "tree-path": lambda g: parts_case(g, grids=((2, 2),), edges=((0, 1), (1, 2), (2, 3)), C=2.0),
}

# Forests, on which the graph argmax is exact.
GRAPHS = {
    "graph-edge-features": lambda g: graph_case(g, n_edge_features=2, bias=1.0, n_classes=2),
    "graph-forest-symmetric": lambda g: graph_case(
        g, shape="forest", kind="symmetric", layout="csr", costs=True, weighted=True, C=0.3
    ),
    "graph-potts-mean": lambda g: graph_case(
        g, n=4, n_features=5, kind="potts", mean=True, dtype=np.float32, n_edge_features=1, C=4.0
    ),
}

# Orders: joint features need the grades, so these cases have their own tests of the model.
RANKINGS = {
    "ranking-three-grades": ranking_case,
    "ranking-two-grades-csr": lambda g: ranking_case(g, n=6, grades=2, layout="csr", C=3.0),
    "ranking-float32-weights": lambda g: ranking_case(
        g, grades=9, dtype=np.float32, weighted=True, C=0.5
    ),
}


# Sets of few labels, so that all sets can be tried.
SETS = {
    "multilabel-all-csr": lambda g: multilabel_case(g, layout="csr", C=0.5),
    "multilabel-path-bias": lambda g: multilabel_case(g, pairs=[(0, 1), (2, 1), (2, 3)], bias=1.0),
    "multilabel-cycle": lambda g: multilabel_case(g, pairs=[(0, 1), (1, 2), (0, 2)]),
    "multilabel-none": lambda g: multilabel_case(g, pairs="none"),
}

# Grammars of every shape, with too many trees to run all solvers on them.
SHAPES = {
    "grammar-long": lambda g: grammar_case(g, lengths=(4, 2, 3), most=400),
    "grammar-long-zero-one": lambda g: grammar_case(
        g, lengths=(4, 1, 3), loss="zero-one", most=400
    ),
    "grammar-horizontal-zero": lambda g: grammar_case(g, lengths=(3, 2), horizontal=0, most=400),
    "grammar-horizontal-one-zero-one": lambda g: grammar_case(
        g, lengths=(4, 3), loss="zero-one", horizontal=1, most=400
    ),
    "grammar-horizontal-two": lambda g: grammar_case(
        g, n=3, lengths=(5, 2), horizontal=2, most=400
    ),
}

# Chains with weights for a part of the pairs only.
OBSERVED = {
    "chain-observed": lambda g: observed_case(g, n=4, n_features=6, lengths=(3, 2), n_classes=3),
    "chain-observed-ends": lambda g: observed_case(
        g, n=4, n_features=7, lengths=(2, 1), bias=1.0, start=True, end=True, weighted=True
    ),
    "chain-observed-costs": lambda g: observed_case(
        g, n=3, n_features=5, lengths=(3, 1), mean=True, costs=True, dtype=np.float32, C=0.5
    ),
}

EVERY = {**CASES, **TREES, **GRAPHS, **PARTS, **SETS, **SHAPES, **OBSERVED}


@cache  # no test changes a case, so its enumeration and optimum are cached with it
def make_case(name: str, seed: int) -> Case:
    """The case of this name for this seed."""
    # The position in this dict seeds a case: append new cases at the end.
    makers = {
        **CASES,
        **TREES,
        **GRAPHS,
        **PARTS,
        **SETS,
        **SHAPES,
        **RANKINGS,
        **EDGES,
        **OBSERVED,
    }
    return makers[name](fresh(seed, salt=list(makers).index(name)))
