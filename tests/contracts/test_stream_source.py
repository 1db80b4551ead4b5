"""Streams from disk and from iterables: one pass ends near the optimum, cyclic passes reach it."""

import itertools
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from helpers import assert_truthful, built_in, loss_units, multipliers_of, quietly, refusal
from maxmargin import models, solvers
from maxmargin.callbacks import Callback
from maxmargin.parts import problem as parts_problem
from maxmargin.parts.source import EXAMPLE_BYTES, STORED_ROW_BYTES
from maxmargin.parts.state import KEPT, TWICE, PartState, StoredState
from reference import twins, twins_stream
from reference.cases import chain_case, fresh, multiclass_case
from reference.dense_qp import dual_objective, primal_objective

CASES = {
    "multiclass": lambda g: multiclass_case(g, n=24, n_classes=4, costs=True, weighted=True, C=0.4),
    "multiclass-csr": lambda g: multiclass_case(g, n=24, n_classes=3, layout="csr", C=1.0),
    "chain": lambda g: chain_case(g, n=16, lengths=(1, 3, 2), costs=True, start=True, end=True),
}
# A budget that holds only a few of these examples at a time.
TIGHT = {"multiclass": 6_000, "multiclass-csr": 6_000, "chain": 12_000}


def tagger(generator, n=240, length=5, d=12, K=4):
    """Return sequences whose labels depend on their rows and on the previous label, with noise."""
    W, A = generator.normal(size=(d, K)), 1.5 * np.eye(K)[generator.permutation(K)]
    X, Y = [], []
    for _ in range(n):
        x = generator.normal(size=(length, d))
        y = [0]
        for t in range(length):
            y.append(int(np.argmax(x[t] @ W + A[y[-1]] + 1.5 * generator.normal(size=K))))
        X.append(x)
        Y.append(np.array(y[1:]))
    return X, Y


def shards_of(folder, X, Y):
    mm.data.write_shards(folder, X, Y, shard_bytes=2_000)
    return mm.data.open_shards(folder)


def fit_stream(case, data, **options):
    """Fit the case from its shards; the model takes costs in the order of its labels."""
    svm = mm.StructuralSVM(
        built_in(case),
        C=case.C,
        tol=options.pop("tol", loss_units(case, 1e-6)),
        solver=solvers.Streaming(**options),
        random_state=0,
        max_passes=10**6,
    )
    return quietly(lambda: svm.fit(data.X, data.Y, sample_weight=case.sample_weight))


@pytest.mark.parametrize("keeps", ["outputs", "examples"])
@pytest.mark.parametrize("tight", [False, True], ids=["roomy", "tight"])
@pytest.mark.parametrize("name", CASES)
def test_cyclic_passes_over_shards_reach_the_optimum(name, tight, keeps, seed, tmp_path):
    case = CASES[name](fresh(seed, 31))
    data = shards_of(tmp_path, case.X, case.Y)
    budget = {"cache_bytes": TIGHT[name] * (3 if keeps == "outputs" else 1)} if tight else {}
    svm = fit_stream(case, data, passes=None, tol=loss_units(case, 1e-4), keeps=keeps, **budget)
    assert svm.certificate_.converged and svm.certificate_.exact
    assert_truthful(case, svm)
    again = mm.certify(svm, data.X, data.Y, sample_weight=case.sample_weight)
    assert again.gap <= svm.tol and again.dual == pytest.approx(svm.certificate_.dual)


@pytest.mark.parametrize("name", CASES)
def test_outputs_that_no_longer_fit_go_to_a_file(name, seed, tmp_path, monkeypatch):
    case = CASES[name](fresh(seed, 38))
    data = shards_of(tmp_path, case.X, case.Y)
    left, leave = [], StoredState._leave

    def watched(self, support):
        before = self.window.inner.dual.dual()
        leave(self, support)
        left.append((before, self.past.dual))

    monkeypatch.setattr(StoredState, "_leave", watched)
    rows = sum(len(np.atleast_1d(y)) for y in case.Y)
    bound = STORED_ROW_BYTES * rows + EXAMPLE_BYTES * len(case.Y)
    monkeypatch.setattr(parts_problem, "MOST_BOUND", 0.97)  # leaves hardly any space for outputs
    svm = fit_stream(
        case, data, passes=None, cache_bytes=int(bound / 0.97) + 1, tol=loss_units(case, 1e-4)
    )
    for before, after in left:  # no dual is lost
        assert after == pytest.approx(before, rel=1e-5, abs=1e-9)
    assert svm.certificate_.converged and len(left) <= 1  # else training ends with a full cache
    assert_truthful(case, svm)


def counted_windows(monkeypatch):
    """Return a list that gets an entry at each call of PartState.admit."""
    found, admit = [], PartState.admit
    monkeypatch.setattr(
        PartState, "admit", lambda *args, **more: found.append(1) or admit(*args, **more)
    )
    return found


def test_a_warning_names_a_cache_that_holds_the_outputs(seed, tmp_path, monkeypatch):
    X, Y = tagger(fresh(seed, 40))
    data = shards_of(tmp_path, X, Y)
    windows, svm = counted_windows(monkeypatch), mm.StructuralSVM(models.Chain(), C=0.01)

    def fit(cache_bytes, **options):
        windows.clear()
        solver = solvers.Streaming(passes=None, cache_bytes=cache_bytes, **options)
        return svm.set_params(solver=solver).fit(data.X, data.Y)

    with pytest.warns(UserWarning, match="cache_bytes = 40000 is too small.*at least") as caught:
        fit(40_000)
    assert windows
    better = int(re.search(r"at least (\d+)", str(caught[0].message))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(2 * better)
        assert not windows
        fit(40_000, keeps="examples")
    assert windows


@pytest.mark.parametrize("cache_bytes", [1, 10_000])
def test_outputs_take_the_place_of_vectors_that_parts_would_need(
    cache_bytes, seed, tmp_path, monkeypatch
):
    """With many weights a smaller cache in parts would take more memory and many times as long."""
    rng = fresh(seed, 41)
    X, Y = tagger(rng, n=60)
    wide = [sp.csr_matrix(np.hstack([x, np.zeros((len(x), 5_000))])) for x in X]
    windows, data = counted_windows(monkeypatch), shards_of(tmp_path, wide, Y)
    solver = solvers.Streaming(passes=None, cache_bytes=cache_bytes)
    svm = mm.StructuralSVM(models.Chain(), C=0.01, solver=solver).fit(data.X, data.Y)
    assert svm.certificate_.converged and not windows
    alone = mm.StructuralSVM(models.Chain(), C=0.01).fit(wide, Y).certificate_
    assert svm.certificate_.dual <= alone.primal and alone.dual <= svm.certificate_.primal


def test_outputs_alone_are_kept_where_that_was_asked_for(seed, tmp_path):
    case = CASES["chain"](fresh(seed, 39))
    data = shards_of(tmp_path, case.X, case.Y)
    with refusal("keeps", "at least", "cache_bytes"):
        fit_stream(case, data, keeps="outputs", cache_bytes=2_000)
    svm = mm.StructuralSVM(models.Chain(), solver=solvers.Streaming(keeps="outputs"))
    with refusal("keeps", "shards"):
        svm.fit([(case.X, case.Y)])


@pytest.mark.parametrize("name", CASES)
def test_one_pass_with_frozen_examples_bounds_the_optimum(name, seed, tmp_path, monkeypatch):
    case = CASES[name](fresh(seed, 32))
    data = shards_of(tmp_path, case.X, case.Y)
    states = []
    close = PartState.close

    def watched(self):
        close(self)
        states.append(self)

    monkeypatch.setattr(PartState, "close", watched)
    svm = fit_stream(case, data, cache_bytes=TIGHT[name], chunk=3)
    state = states[-1]
    assert state.past.n_frozen > 0 and len(state.past.index) < len(case.Y)
    # Frozen multipliers count in D(a) and w by definition.
    multipliers = multipliers_of(case, svm.support_)
    value = dual_objective(case.blocks, multipliers)
    assert svm.certificate_.dual == pytest.approx(value) == pytest.approx(state.past.dual)
    assert svm.certificate_.primal == pytest.approx(
        primal_objective(case.blocks, case.budgets, svm.coef_)
    )
    optimum = case.optimum.value
    assert value <= optimum * (1 + 1e-9) and svm.certificate_.primal >= optimum * (1 - 1e-9)
    twin = twins_stream.streaming(
        twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight),
        tol=svm.tol,
        capacity=4,
    )
    low, high, _ = twins_stream.bounds(twin)
    assert low <= optimum * (1 + 1e-9) and high >= optimum * (1 - 1e-9)
    assert (np.diff(twin.dual) >= -1e-9).all()
    # The bounds of both are consistent: each dual is below the other's primal.
    assert low <= svm.certificate_.primal * (1 + 1e-9) and value <= high * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_every_window_is_within_the_budget(name, seed, tmp_path, monkeypatch):
    case = CASES[name](fresh(seed, 37))
    data = shards_of(tmp_path, case.X, case.Y)
    used, kept = [], []
    close = PartState.close

    def bytes_of(parts):
        return sum(part.bytes_each.sum() for part in parts)

    def watched(self):
        if self.window is not None:
            used.append(bytes_of(self.parts) + TWICE * self.window.inner.dual.core.bytes_kept)
        close(self)
        planes = self.past.support.multipliers.nbytes
        kept.append(bytes_of(self.past.parts) + planes)
        assert sum(map(len, self.past.parts)) == len(self.past.index)

    monkeypatch.setattr(PartState, "close", watched)
    fit_stream(case, data, cache_bytes=TIGHT[name], passes=3)
    assert max(used) <= TIGHT[name] and max(kept) <= KEPT * TIGHT[name]
    assert max(used) > TIGHT[name] / 2 and len(used) > 5  # used more than once


@pytest.mark.parametrize("name", CASES)
def test_without_optimisation_a_pass_is_the_twins(name, seed, tmp_path):
    case = CASES[name](fresh(seed, 33))
    data = shards_of(tmp_path, case.X, case.Y)
    blocks = twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)
    twin = twins_stream.streaming(blocks, tol=np.inf)  # an infinite tol asks for no more steps
    for budget in (2**20, TIGHT[name]):  # freezing changes neither w nor D(a)
        svm = fit_stream(case, data, rounds=0, precision="double", cache_bytes=budget, tol=1e-9)
        assert svm.certificate_.dual == pytest.approx(twin.dual[-1], rel=1e-6)
        np.testing.assert_allclose(svm.coef_, twin.state.w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_twin_reaches_the_optimum(name, seed):
    case = CASES[name](fresh(seed, 34))
    blocks = twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)
    tol = loss_units(case, 1e-3)
    low, high, _ = twins_stream.bounds(twins_stream.streaming(blocks, tol))
    assert high - low <= 1.01 * tol * blocks.budgets.sum()  # all examples are in the cache
    low, high, _ = twins_stream.bounds(twins_stream.streaming(blocks, tol, capacity=6, passes=30))
    assert high - low <= 0.1 * case.optimum.value


@pytest.mark.parametrize("salt", range(3))
def test_one_pass_over_a_tagger_ends_near_the_batch_optimum(salt, seed, tmp_path):
    X, Y = tagger(fresh(seed, 35 + salt))
    data = shards_of(tmp_path, X, Y)
    settings = {"C": 0.05, "tol": 0.003, "random_state": 0}
    best = mm.StructuralSVM(models.Chain(), **settings).fit(X, Y).certificate_
    above = []
    for budget in (2**24, 60_000):  # all of the sequences, and about a sixth of them
        solver = solvers.Streaming(cache_bytes=budget)
        svm = mm.StructuralSVM(models.Chain(), solver=solver, **settings)
        own = quietly(lambda svm=svm: svm.fit(data.X, data.Y)).certificate_
        assert own.dual <= best.primal and own.primal >= best.dual and own.exact
        above.append(own.primal / best.dual - 1)
    assert above[0] <= 0.01 and above[1] <= 0.25
    assert data.n_bytes > 60_000


def test_chunks_of_an_iterable_are_the_shards(seed, tmp_path):
    X, Y = tagger(fresh(seed, 41), n=60)
    data = shards_of(tmp_path, X, Y)
    settings = {"C": 0.1, "tol": 1e-4, "random_state": 0}
    cyclic = solvers.Streaming(passes=None)
    own = mm.StructuralSVM(models.Chain(classes=range(4)), solver=cyclic, **settings)
    own.fit([(X[k : k + 7], Y[k : k + 7]) for k in range(0, 60, 7)])
    other = mm.StructuralSVM(models.Chain(), solver=cyclic, **settings).fit(data.X, data.Y)
    for svm in (own, other):
        assert svm.certificate_.converged and mm.certify(svm, X, Y).gap <= 1e-4
    assert own.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-3)
    once = mm.StructuralSVM(
        models.Chain(classes=range(4)), solver=solvers.Streaming(verify=False), **settings
    )
    quietly(lambda: once.fit((X[k : k + 7], Y[k : k + 7]) for k in range(0, 60, 7)))
    c, proof = once.certificate_, mm.certify(once, X, Y)
    assert not c.exact and not c.converged and c.dual == pytest.approx(proof.dual, rel=1e-9)
    assert proof.gap <= 0.01


def test_weights_of_chunks_are_copies(seed):
    X, Y = tagger(fresh(seed, 42), n=40)
    v = fresh(seed, 43).integers(0, 3, size=40)
    settings = {"C": 0.1, "tol": 1e-4, "random_state": 0, "solver": solvers.Streaming(passes=None)}
    chunks = [(X[:25], Y[:25], v[:25]), (X[25:], Y[25:], v[25:])]
    weighted = mm.StructuralSVM(models.Chain(classes=range(4)), **settings).fit(chunks)
    copies = list(itertools.chain.from_iterable([i] * k for i, k in enumerate(v)))
    repeated = mm.StructuralSVM(models.Chain(classes=range(4)), **settings)
    repeated.fit([([X[i] for i in copies], [Y[i] for i in copies])])
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-3)


def test_what_a_stream_cannot_be_is_refused(seed):
    X, Y = tagger(fresh(seed, 44), n=12)
    svm = mm.StructuralSVM(models.Chain(), solver="streaming")
    with refusal("iterator", "verify=False"):
        svm.fit(iter([(X, Y)]))
    with refusal("solver", "streaming", "auto"):
        mm.StructuralSVM(models.Chain()).fit([(X, Y)])
    with refusal("Y must be given"):
        mm.StructuralSVM(models.Multiclass()).fit(np.eye(3))
    with refusal("chunk 0", "tuple"):
        svm.fit(X)
    with refusal("chunk 1", "got 3 and 2"):
        svm.fit([(X, Y), (X[:3], Y[:2])])
    with refusal("empty"):
        svm.fit([])
    with refusal("sample_weight"):
        svm.fit([(X, Y)], sample_weight=np.ones(12))
    with refusal("chunk 0", "sample_weight"):
        svm.fit([(X, Y, -np.ones(12))])
    with refusal("not among the classes"):
        svm.fit([(X, Y), (X[:1], [[9] * 5])])
    with refusal("cache_bytes = 3000", "example 0"):
        svm.set_params(solver=solvers.Streaming(cache_bytes=3_000)).fit([(X, Y)])
    with refusal("kernel"):
        kernel = mm.StructuralSVM(models.Kernel(models.Multiclass()), solver="streaming")
        kernel.fit([(np.eye(4), [0, 1, 0, 1])])

    class Shrinking:
        sizes = iter([12, 11, 11])

        def __iter__(self):
            n = next(self.sizes)
            return iter([(X[:n], Y[:n])])

    with refusal("12 examples", "11"):
        svm.set_params(solver="streaming").fit(Shrinking())


class Interrupt(Callback):
    """Raises Ctrl-C in the middle of a pass, in the window with this number."""

    def __init__(self, monkeypatch, number, where):
        method, count = getattr(*where), itertools.count()

        def interrupted(*args, **options):
            found = method(*args, **options)
            if next(count) == number:
                raise KeyboardInterrupt
            return found

        monkeypatch.setattr(*where, interrupted)


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize(
    "where",
    [(solvers.Streaming, "explore"), (PartState, "admit"), (PartState, "_adopt_records")],
)
def test_an_interrupt_keeps_the_truth(where, number, seed, tmp_path, monkeypatch):
    case = CASES["chain"](fresh(seed, 45))
    data = shards_of(tmp_path, case.X, case.Y)
    Interrupt(monkeypatch, number, where)
    keeps = "auto" if where[0] is solvers.Streaming else "examples"
    svm = fit_stream(case, data, cache_bytes=TIGHT["chain"], chunk=3, passes=None, keeps=keeps)
    assert svm.certificate_.status == "interrupted" and svm.certificate_.exact
    assert_truthful(case, svm)


@pytest.mark.parametrize("solver", ["auto", "one-slack", "streaming"])
def test_a_warm_start_goes_on(solver, seed, tmp_path):
    case = CASES["chain"](fresh(seed, 46))
    data = shards_of(tmp_path, case.X, case.Y)
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=0.1, solver=solver, random_state=0)
    quietly(lambda: svm.fit(data.X, data.Y, sample_weight=case.sample_weight))
    before = svm.certificate_.dual
    svm.set_params(warm_start=True, tol=loss_units(case, 1e-4), max_passes=10**6)
    svm.set_params(solver=solvers.Streaming(passes=None, cache_bytes=TIGHT["chain"]))
    svm.fit(data.X, data.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.converged and svm.certificate_.dual >= before * (1 - 1e-9)
    done = svm.certificate_.passes
    svm.fit(data.X, data.Y, sample_weight=case.sample_weight)
    # Training resumes from the same multipliers; their w alone may need one or two more passes.
    assert svm.certificate_.converged and svm.certificate_.passes < done
    fewer = shards_of(tmp_path / "fewer", case.X[:9], case.Y[:9])
    weights = None if case.sample_weight is None else case.sample_weight[:9]
    with refusal("warm_start", "16 examples", "9"):
        svm.fit(fewer.X, fewer.Y, sample_weight=weights)
    svm.set_params(C=2 * case.C, solver="auto").fit(data.X, data.Y, case.sample_weight)
    assert svm.certificate_.converged  # another solver can continue from it
