"""The search over sets of labels: upper bounds that hold, and the certificates that use them."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import models

SETS: dict[int, np.ndarray] = {}  # all sets, by number of labels


def repelling(L: int, n: int, common_repel: float, seed: int) -> tuple[Any, np.ndarray]:
    """Return weights near zero, as at small C; common labels repel each other most."""
    rng = np.random.default_rng(seed)
    X, Y = np.eye(n), (rng.random((n, L)) < 0.1).astype(int)
    model = models.MultiLabel("all")
    model.initialize(X, Y)
    common = rng.random(L) ** 2
    a, b = model.pair_codes_.T
    pairs = -common_repel * common[a] * common[b] * rng.uniform(0.7, 1.3, len(a)) - 0.03
    W = 0.1 * rng.normal(size=(L, n)) + (0.5 * (common - 0.5))[:, None]
    return model.bind(X, Y), np.concatenate([W.ravel(), pairs])


def slack_by_trial(examples: Any, w: np.ndarray, i: int, L: int, n: int) -> float:
    """Return the slack by trying all sets."""
    sets = SETS.setdefault(L, np.array(list(product((0, 1), repeat=L))))
    upper = np.zeros((L, L))
    upper[np.triu_indices(L, 1)] = w[L * n :]
    truth = examples.factors.truth.reshape(n, L)[i]
    gains = w[: L * n].reshape(L, n)[:, i]
    scores = sets @ gains + ((sets @ upper) * sets).sum(1) + (sets != truth).sum(1)
    return float(scores.max() - truth @ gains - truth @ upper @ truth)


@pytest.mark.parametrize("leeway", [0.0, 0.2])
@pytest.mark.parametrize("L", [16, 18])
@pytest.mark.parametrize("strength", [0.1, 0.5])
def test_ceilings_of_long_searches_hold(strength: float, L: int, leeway: float) -> None:
    """The labels are too many for a complete search, but few enough to try all sets here."""
    n = 3
    examples, w = repelling(L, n, strength, seed=1)
    found, ceilings = examples.slacks(w, 1, leeway)[:2]
    for i in range(n):
        best = slack_by_trial(examples, w, i, L, n)
        assert found[i] <= best + 1e-9
        assert ceilings[i] >= best - 1e-9


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_sets_of_labels_that_repel_are_the_best(strength: float, seed: int) -> None:
    """The search is complete for 12 labels, so prices of pairs must not prune a better set."""
    n, L = 4, 12
    examples, w = repelling(L, n, strength, seed)
    found, ceilings = examples.slacks(w)[:2]
    best = [slack_by_trial(examples, w, i, L, n) for i in range(n)]
    np.testing.assert_allclose(found, best, atol=1e-9)
    np.testing.assert_allclose(ceilings, best, atol=1e-9)


def test_a_leeway_is_left_open_on_average() -> None:
    """With a leeway a search may stop early: the mean open part is positive and at most the leeway."""
    examples, w = repelling(30, 40, 0.1, seed=2)
    found, ceilings = examples.slacks(w)
    np.testing.assert_allclose(found, ceilings, atol=1e-9)
    for leeway in (0.01, 0.05):
        floors, tops = examples.slacks(w, 1, leeway)
        assert (floors <= found + 1e-9).all() and (tops >= found - 1e-9).all()
        assert leeway / 10 < (tops - floors).mean() <= leeway


def test_training_proves_what_it_needs() -> None:
    """An exact pass of training leaves a part of tol open; for the same w `certify` proves more."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 5))
    Y = (X @ rng.normal(size=(5, 40)) > 2.0).astype(int)
    svm = mm.StructuralSVM(models.MultiLabel("all", bias=1.0), C=0.01, random_state=0).fit(X, Y)
    own, proven = svm.certificate_, mm.certify(svm, X, Y)
    assert own.converged and own.exact
    assert own.dual <= proven.primal <= own.primal * (1 + 1e-12)
    assert own.primal - proven.primal <= own.tol * 0.01 * len(X)


def test_a_small_open_part_does_not_end_training() -> None:
    """If upper bounds exceed slacks a little, training continues until the certified gap is small."""
    rng = np.random.default_rng(5)
    X = np.hstack([rng.normal(size=(60, 5)), np.ones((60, 1))])
    Y = (X @ rng.normal(size=(6, 50)) > 2.5).astype(int)
    svm = mm.StructuralSVM(models.MultiLabel("all"), C=0.03, random_state=0).fit(X, Y)
    assert svm.certificate_.status == "solved"
    assert svm.certificate_.converged
