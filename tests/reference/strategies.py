"""Hypothesis draws the shape of a problem; its numbers come from the seed of the run and a drawn salt."""

import os

import numpy as np
from hypothesis import strategies as st

from .cases import Case, binary_case, chain_case, fresh, multiclass_case

SEED = int(os.environ.get("MAXMARGIN_TEST_SEED", "0"))


@st.composite
def multiclass_cases(draw: st.DrawFn, weighted: bool | None = None) -> Case:
    """Multiclass problems of up to a dozen examples."""
    generator = fresh(SEED, draw(st.integers(0, 10**6)))
    return multiclass_case(
        generator,
        n=draw(st.integers(4, 12)),
        n_features=draw(st.integers(1, 5)),
        n_classes=draw(st.integers(2, 4)),
        layout=draw(st.sampled_from(["dense", "csr"])),
        dtype=draw(st.sampled_from([np.float64, np.float32])),
        costs=draw(st.booleans()),
        bias=draw(st.sampled_from([None, 1.0])),
        weighted=draw(st.booleans()) if weighted is None else weighted,
        C=draw(st.sampled_from([0.01, 0.3, 1.0, 10.0])),
    )


@st.composite
def binary_cases(draw: st.DrawFn, weighted: bool | None = None) -> Case:
    """Problems with two classes; the widths test whole SIMD vectors of features and a remainder."""
    generator = fresh(SEED, draw(st.integers(0, 10**6)))
    return binary_case(
        generator,
        n=draw(st.integers(4, 12)),
        n_features=draw(st.sampled_from([1, 3, 9, 40])),
        layout=draw(st.sampled_from(["dense", "csr"])),
        dtype=draw(st.sampled_from([np.float64, np.float32])),
        costs=draw(st.booleans()),
        bias=draw(st.sampled_from([None, 1.0])),
        weighted=draw(st.booleans()) if weighted is None else weighted,
        C=draw(st.sampled_from([0.01, 0.3, 1.0, 10.0])),
    )


@st.composite
def chain_cases(draw: st.DrawFn, weighted: bool | None = None) -> Case:
    """Chains of length 1 to 4 with 2 to 4 labels."""
    generator = fresh(SEED, draw(st.integers(0, 10**6)))
    n_classes = draw(st.integers(2, 4))
    lengths = draw(st.lists(st.integers(1, 4 if n_classes < 4 else 3), min_size=1, max_size=4))
    return chain_case(
        generator,
        n=draw(st.integers(4, 6)),
        n_features=draw(st.integers(1, 4)),
        n_classes=n_classes,
        lengths=tuple(lengths),
        layout=draw(st.sampled_from(["dense", "csr"])),
        costs=draw(st.booleans()),
        mean=draw(st.booleans()),
        bias=draw(st.sampled_from([None, 1.0])),
        start=draw(st.booleans()),
        end=draw(st.booleans()),
        weighted=draw(st.booleans()) if weighted is None else weighted,
        C=draw(st.sampled_from([0.05, 1.0, 5.0])),
    )


def cases(weighted: bool | None = None) -> st.SearchStrategy[Case]:
    """Problems of any kind."""
    kinds = (multiclass_cases, binary_cases, chain_cases)
    return st.one_of(*(kind(weighted=weighted) for kind in kinds))
