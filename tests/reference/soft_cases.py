"""Small problems of the log loss that can be enumerated, at least one for each model that supports it."""

import numpy as np

import maxmargin as mm
from helpers import built_in
from reference.cases import (
    binary_case,
    chain_case,
    edge_chain_case,
    grammar_case,
    graph_case,
    multiclass_case,
    multilabel_case,
    observed_case,
)

ILLEGAL = ((0, 1), (2, 0), (None, 2), (1, None))
CASES = {
    "multiclass": lambda g: multiclass_case(g, costs=True, bias=1.0, weighted=True),
    "multiclass-csr": lambda g: multiclass_case(g, n_classes=9, n=20, layout="csr"),
    "binary": lambda g: binary_case(g, weighted=True, bias=2.0, costs=True),
    "chain": lambda g: chain_case(g, lengths=(1, 2, 4), weighted=True),
    "chain-ends": lambda g: chain_case(g, start=True, end=True, bias=1.0, costs=True, C=5.0),
    "chain-csr": lambda g: chain_case(g, layout="csr", mean=True, dtype=np.float32),
    "chain-rules": lambda g: chain_case(g, illegal=ILLEGAL, start=True, lengths=(2, 3)),
    "chain-observed": lambda g: observed_case(g, bias=1.0),
}
ASCENT = sorted(CASES)  # models whose distributions are stored as potentials
CASES |= {
    "edges": lambda g: edge_chain_case(g, lengths=(1, 2, 3), weighted=True),
    "edges-rules": lambda g: edge_chain_case(g, illegal=ILLEGAL, start=True, lengths=(2, 3)),
    "second-order": lambda g: edge_chain_case(g, n_edges=0, order=2, lengths=(1, 2, 4), end=True),
    "second-order-edges": lambda g: edge_chain_case(g, order=2, illegal=ILLEGAL, lengths=(2, 3)),
    "tree": lambda g: graph_case(g, n_edge_features=2, weighted=True, costs=True),
    "tree-one-table": lambda g: graph_case(g, sizes=(4, 1, 5), layout="csr", bias=1.0),
    "sets": lambda g: multilabel_case(g, pairs=[(0, 1), (2, 1)], n_labels=4),
    "grammar": lambda g: grammar_case(g, weighted=True),
    "grammar-zero-one": lambda g: grammar_case(g, loss="zero-one"),
}


def fitted(case, **settings):
    """Fit a CRF on a case, to a small gap."""
    options = {"tol": 1e-9, "max_passes": 20_000, "random_state": 0} | settings
    crf = mm.CRF(built_in(case), C=case.C, **options)
    return crf.fit(case.X, case.Y, sample_weight=case.sample_weight)
