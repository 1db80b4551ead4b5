"""Small data sets for the tests of shards."""

import numpy as np
import scipy.sparse as sp


def rows(generator, kind="dense", dtype=np.float64, n=60, d=7):
    """Return a matrix and labels of three classes."""
    X = generator.normal(size=(n, d)).astype(dtype)
    y = np.array(["red", "green", "blue"])[generator.integers(3, size=n)]
    if kind == "csr":
        X[generator.random((n, d)) < 0.6] = 0
        return sp.csr_matrix(X), y
    return X, y


def chains(generator, kind="dense", dtype=np.float64, n=30):
    """Return sequences and their labels."""
    lengths = generator.integers(1, 6, size=n)
    X = [generator.normal(size=(t, 4)).astype(dtype) for t in lengths]
    Y = [generator.integers(3, size=t) for t in lengths]
    return ([sp.csr_matrix(x) for x in X] if kind == "csr" else X), Y
