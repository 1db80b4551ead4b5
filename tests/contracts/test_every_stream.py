"""Every model, with every option, learns the same from chunks as from all data, or raises an error."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from fits import FITS
from helpers import quietly, refusal
from maxmargin import solvers
from maxmargin.models.python import portable
from maxmargin.parts.source import Part, layout_of
from maxmargin.solvers import make_solver
from maxmargin.train import train
from reference.cases import fresh

DOCS = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


def matrix(d):
    A = fresh(0, 500).normal(size=(d, d)) / np.sqrt(d)
    return A @ A.T + np.eye(d)


# Settings of an estimator with d weights.
OPTIONS = {
    "plain": lambda d: {},
    "slack": lambda d: {"rescaling": "slack"},
    "sum": lambda d: {"hinge": "sum"},
    "one scale": lambda d: {"prior": (0.1, 0.7)},
    "scales": lambda d: {"prior": (np.linspace(-0.2, 0.2, d), np.linspace(0.5, 1.5, d))},
    "covariance": lambda d: {"prior": (0.0, matrix(d))},
    "nonnegative": lambda d: {"nonnegative": np.arange(d) % 2 == 0},
    "free": lambda d: {"prior": (0.0, np.where(np.arange(d) == d - 1, np.inf, 1.0))},
}
# Combinations that cannot learn from chunks: the error message, and the reason as in docs/data.md.
REFUSED = {
    "whole-sample": ("one slack for all examples", "One slack ties all examples together"),
    "kernel": ("sum over all examples", "w is a sum over all examples"),
    "joint-kernel": ("sum over all examples", "w is a sum over all examples"),
    "free": ("sum a psi = 0 over all examples", "multipliers of all examples together"),
}
# The first chunk needs this many examples to initialise these models.
FIRST = {"kernel-rank": 3, "grammar": 6}
SEARCHED = ("slack", "sum")  # the argmax may be a search, whose upper bounds depend on the path

HIDDEN = ("latent", "latent-chain", "bags", "partial")

every = pytest.mark.parametrize("name", FITS)
options = pytest.mark.parametrize("option", OPTIONS)


def settings_for(name, option, seed):
    """Return a fresh estimator with an option, and its data; None if it lacks the parameter."""
    fit = FITS[name](seed)
    d = len(clone(fit.svm).fit(fit.X, fit.Y)._weights())
    given = OPTIONS[option](d)
    if not set(given) <= set(fit.svm.get_params()):
        return None
    tol = 1e-7 * max(1.0, float(np.abs(fit.svm.C)))
    return clone(fit.svm).set_params(tol=tol, max_passes=1e6, **given), fit.X, fit.Y


def in_chunks(X, Y, first, size):
    ends = [first, *range(first + size, len(Y), size), len(Y)]
    return [(X[a:b], Y[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]


def tight(model, X, Y, option):
    """Return a budget that holds only a few of these examples at a time."""
    layout, every = layout_of(model, X), np.arange(len(Y))
    part = Part(layout, *layout.copy(X, portable(model, Y), every), every, np.ones(len(Y)))
    listed = 36 * len(getattr(model, "classes_", ())) if option == "sum" else 0
    return int(10 * (part.bytes_each.max() + listed))


def solves_in_memory(svm, X, Y):
    """Return the error message for the same parameters with arrays; empty if they are accepted."""
    try:
        quietly(lambda: clone(svm).set_params(tol=1.0).fit(X, Y))
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


def best(svm, X, Y):
    """Return certified bounds of the optimum of the fitted model on all data, from arrays."""
    problem = svm._problem_of(svm._examples_at(X, Y, None, None), svm._example_weights(Y, None))
    solver = make_solver("auto", svm._formulation(), problem, svm._asks_for())
    return train(problem, solver, tol=svm.tol, max_passes=1e6, random_state=0).certificate


def assert_same_optimum(own, other, option):
    assert own.dual <= own.primal * (1 + 1e-12)
    assert max(own.dual, other.dual) <= min(own.primal, other.primal) * (1 + 1e-9)
    if own.exact and own.converged:
        # tol allows this difference
        open_by = max(own.primal - own.dual, other.primal - other.dual)
        assert own.primal == pytest.approx(other.primal, rel=2e-6, abs=open_by + 1e-9)
        assert own.gap <= own.tol
    elif own.status == "cache full":  # the outputs of the solution exceed the cache
        assert own.gap > own.tol
    else:
        assert option in SEARCHED


def refused(name, option):
    """Return a pattern for the error message, and the reasons."""
    found = [REFUSED[key] for key in (name, option) if key in REFUSED]
    return ["|".join(said for said, _ in found), *(why for _, why in found)] if found else []


@every
@options
def test_cyclic_passes_over_chunks_reach_the_optimum(name, option, seed):
    made = settings_for(name, option, seed)
    if made is None:
        return
    svm, X, Y = made
    svm.set_params(solver=solvers.Streaming(passes=None))
    chunks = in_chunks(X, Y, FIRST.get(name, max(3, len(Y) // 3)), max(1, len(Y) // 5))
    if refused(name, option):
        with refusal(refused(name, option)[0] + "|hinge"):
            svm.fit(chunks)
        assert all(why in DOCS for why in refused(name, option)[1:])
        return
    if solves_in_memory(clone(svm).set_params(solver="auto"), X, Y):
        with pytest.raises((ValueError, TypeError)):
            svm.fit(chunks)
        return
    quietly(lambda: svm.fit(chunks))
    other = best(svm, X, Y)
    assert_same_optimum(svm.certificate_, other, option)
    assert mm.certify(svm, X, Y).dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    few = solvers.Streaming(passes=None, cache_bytes=tight(svm.model_, X, Y, option))
    quietly(lambda: svm.set_params(solver=few).fit(chunks))
    assert_same_optimum(svm.certificate_, other, option)


@every
@options
def test_chunks_one_by_one_bound_the_optimum(name, option, seed):
    made = settings_for(name, option, seed)
    if made is None:
        return
    svm, X, Y = made
    chunks = in_chunks(X, Y, FIRST.get(name, max(3, len(Y) // 3)), max(1, len(Y) // 4))

    def learn():
        for chunk in chunks:
            svm.partial_fit(*chunk)

    if refused(name, option):
        with refusal(refused(name, option)[0] + "|hinge"):
            learn()
        return
    if solves_in_memory(svm, X, Y):
        with pytest.raises((ValueError, TypeError)):
            learn()
        return
    quietly(learn)  # the cache holds all examples
    if name in HIDDEN:  # completions are fixed per chunk, so the optimum differs
        assert mm.certify(svm, X, Y).dual <= best(svm, X, Y).primal * (1 + 1e-9)
        return
    assert_same_optimum(svm.certificate_, best(svm, X, Y), option)
    few = solvers.Streaming(passes=None, cache_bytes=tight(svm.model_, X, Y, option))
    svm = clone(svm).set_params(solver=few)
    quietly(learn)
    other = best(svm, X, Y)
    assert svm.certificate_.dual <= other.primal * (1 + 1e-9)
    assert mm.objective(svm, svm._weights(), X, Y) >= other.dual * (1 - 1e-9)


@pytest.mark.parametrize("name", HIDDEN)
def test_rounds_over_chunks_begin_as_those_over_arrays(name, seed):
    svm, X, Y = settings_for(name, "plain", seed)
    begin = 0.3 * fresh(seed, 501).normal(size=len(clone(svm).fit(X, Y).coef_))
    paths, chunks = [], in_chunks(X, Y, max(3, len(Y) // 3), max(1, len(Y) // 5))
    for solver, data in (("auto", (X, Y)), (solvers.Streaming(passes=None), (chunks,))):
        own = clone(svm).set_params(solver=solver, warm_start=True)
        own.coef_ = begin
        paths.append(quietly(lambda own=own, data=data: own.fit(*data)).objective_path_)
    # The first round is one convex problem; later rounds may differ if completions tie.
    assert paths[0][0] == pytest.approx(paths[1][0], rel=1e-5)
    assert all((np.diff(path) <= 1e-6 * path[0]).all() for path in paths)


@pytest.mark.parametrize("name", HIDDEN)
def test_one_chunk_with_hidden_parts_is_a_fit(name, seed):
    svm, X, Y = settings_for(name, "plain", seed)
    whole = quietly(lambda: clone(svm).fit(X, Y))
    chunk = quietly(lambda: clone(svm).partial_fit(X, Y))
    values = [mm.objective(own, own.coef_, X, Y) for own in (whole, chunk)]
    assert values[1] == pytest.approx(values[0], rel=1e-4)
    assert predicted(whole, X) == predicted(chunk, X)


def predicted(svm, X):
    return [np.asarray(y).tolist() for y in svm.predict(X)]
