"""Streaming: it stays within the budget, its bounds hold, chunks end near the batch optimum."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from helpers import assert_no_chunks, quietly, refusal
from maxmargin import models, solvers
from maxmargin.parts.source import stacked_examples
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.python_chain import PythonMulticlass

KINDS = {"multiclass": models.Multiclass, "chain": models.Chain, "binary": models.Binary}


def data_of(kind, generator, n=600, classes=4):
    """Return random examples with labels that are partly noise."""
    classes = 2 if kind == "binary" else classes
    W, X = generator.normal(size=(classes, 8)), generator.normal(size=(n, 8))
    y = (X @ W.T + 2 * generator.normal(size=(n, classes))).argmax(axis=1)
    if kind != "chain":
        return X, y
    return [X[i : i + 3] for i in range(0, n, 3)], [y[i : i + 3] for i in range(0, n, 3)]


def svm_of(kind, solver, **settings):
    settings = {"C": 0.05, "random_state": 0} | settings
    return mm.StructuralSVM(KINDS[kind](), solver=solver, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_comes_near_and_says_how_near(kind, generator):
    X, Y = data_of(kind, generator)
    best = svm_of(kind, "auto", tol=1e-4).fit(X, Y).certificate_
    plain = solvers.Streaming(rounds=0)
    one = quietly(lambda: svm_of(kind, plain).fit(X, Y)).certificate_
    # The passes: one visit to each example, a trial of some at the start, and the exact pass.
    assert one.status == "passes made" and 2 <= one.passes <= 2 + 200 / len(Y)
    assert one.dual <= best.primal and one.primal >= best.dual and one.exact
    own = quietly(lambda: svm_of(kind, "streaming").fit(X, Y)).certificate_
    assert own.primal <= 1.01 * best.primal and own.dual > one.dual
    again = solvers.Streaming(passes=2, rounds=0)
    two = quietly(lambda: svm_of(kind, again).fit(X, Y)).certificate_
    assert two.dual > one.dual


@pytest.mark.parametrize("kind", KINDS)
def test_cyclic_passes_reach_the_tolerance(kind, generator):
    X, Y = data_of(kind, generator)
    svm = svm_of(kind, solvers.Streaming(passes=None), tol=1e-5).fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.status == "solved"
    assert mm.certify(svm, X, Y).gap <= 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_holds_at_every_chunk(kind, generator, monkeypatch):
    X, Y = data_of(kind, generator)
    held = []
    explore = solvers.Streaming.explore

    def watched(self, window):
        gap = explore(self, window)
        held.append(window.inner.dual.core.bytes_kept)
        return gap

    monkeypatch.setattr(solvers.Streaming, "explore", watched)
    budget = 8_000
    solver = solvers.Streaming(passes=None, cache_bytes=budget, chunk=20)
    svm = quietly(lambda: svm_of(kind, solver, tol=1e-5).fit(X, Y))
    assert max(held) <= budget and max(held) > budget / 2
    assert svm.certificate_.status == "cache full" and not svm.certificate_.converged
    best = svm_of(kind, "auto", tol=1e-4).fit(X, Y).certificate_
    assert svm.certificate_.dual <= best.primal and svm.certificate_.primal >= best.dual


def test_a_budget_for_python_models_counts_their_vectors(generator):
    X, y = data_of("multiclass", generator, n=60)
    held = {}
    for budget in (3_000, 10**7):
        solver = solvers.Streaming(passes=2, cache_bytes=budget, chunk=10)
        model = PythonMulticlass(1 - np.eye(4))
        svm = mm.StructuralSVM(model, C=0.05, solver=solver, random_state=0)
        quietly(lambda svm=svm: svm.fit(list(X), list(y)))
        held[budget] = sum(len(value) for _, (_, value) in svm.support_.outputs)
    assert 0 < held[3_000] * 12 <= 3_000 < held[10**7] * 12


def test_what_is_held_is_what_a_count_from_scratch_gives(generator):
    X, Y = data_of("chain", generator)
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    state = open_state(problem, 1e-3, generator, lean=True)
    assert state.core.bytes_kept == 0 and state.n_planes == 200  # unseen blocks take no memory
    for _ in range(4):
        state.visit(problem.active, byte_budget=10**9, keep=1)
    before = state.core.bytes_kept
    state.core.prune(before)  # recounts the bytes
    assert state.core.bytes_kept == before > 0
    support, dual = state.support(), state.dual()
    state.core.prune(0)
    after = state.support()
    assert state.core.bytes_kept < before and state.dual() == pytest.approx(dual, rel=1e-12)
    np.testing.assert_array_equal(after.blocks, support.blocks)
    assert np.sort(after.multipliers) == pytest.approx(np.sort(support.multipliers))


def test_the_oldest_go_first(generator):
    X, y = data_of("multiclass", generator, n=40)
    model = models.Multiclass()
    model.initialize(X, y)
    problem = Problem(model.bind(X, y), C=1.0)
    state = open_state(problem, 1e-3, generator, lean=True)
    halves = problem.active[:20], problem.active[20:]
    for half in halves:  # finds outputs, but gives them no multipliers
        state.visit(half, update=False, byte_budget=10**9)
    whole = state.n_planes
    state.core.prune(state.core.bytes_kept // 2)
    removed = whole - state.n_planes
    state.visit(halves[1], oracle=False)
    assert removed >= 15 and state.dual() > 0  # the younger half still has its planes


def test_without_an_exact_pass_nothing_is_called_proven(generator):
    X, Y = data_of("multiclass", generator)
    svm = quietly(lambda: svm_of("multiclass", solvers.Streaming(verify=False, rounds=0)).fit(X, Y))
    certificate = svm.certificate_
    assert not certificate.exact and not certificate.converged and certificate.passes < 1.5
    assert "not proven" in str(certificate)
    true = mm.certify(svm, X, Y)
    assert certificate.dual == pytest.approx(true.dual) and true.exact
    assert true.primal != certificate.primal  # it is an estimate from visits during which w moved


def test_threads_stay_within_the_budget_and_truthful(generator):
    X, Y = data_of("multiclass", generator)
    solver = solvers.Streaming(passes=2, cache_bytes=20_000)
    svm = quietly(lambda: svm_of("multiclass", solver, n_jobs=2).fit(X, Y))
    again = mm.certify(svm, X, Y)
    assert again.dual == pytest.approx(svm.certificate_.dual)


def test_options_are_checked():
    with refusal("Streaming", "cache_bytes", "at least 1"):
        solvers.Streaming(cache_bytes=0)
    for name in ("rounds", "revisits"):
        with refusal("Streaming", name, "0 or more"):
            solvers.Streaming(**{name: -1})
    for name in ("passes", "chunk"):
        for value in (0, 0.5, True):
            with refusal(name, "whole number"):
                solvers.Streaming(**{name: value})
    with refusal("share"):
        solvers.Streaming(share=2)
    with refusal("verify"):
        solvers.Streaming(passes=None, verify=False)


def test_a_warm_start_must_fit_the_budget(generator):
    X, Y = data_of("multiclass", generator)
    svm = svm_of("multiclass", "auto", warm_start=True).fit(X, Y)
    with refusal("cache_bytes = 1000", "multipliers of the warm start"):
        svm.set_params(solver=solvers.Streaming(cache_bytes=1000)).fit(X, Y)
    before = svm.certificate_.dual
    svm.set_params(solver="streaming").fit(X, Y)
    # Training resumes from the same multipliers; their w alone may need one or two more passes.
    assert svm.certificate_.converged
    assert svm.certificate_.dual >= before * (1 - 1e-9)


# partial_fit.


def parts(X, Y, size):
    for k in range(0, len(Y), size):
        yield X[k : k + size], Y[k : k + size]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_end_near_the_batch_optimum(kind, generator):
    X, Y = data_of(kind, generator)
    best = svm_of(kind, "auto", tol=1e-4).fit(X, Y).certificate_
    svm, duals, primals = svm_of(kind, "auto"), [], []
    for x, y in parts(X, Y, len(Y) // 6):
        svm.partial_fit(x, y, classes=range(2 if kind == "binary" else 4))
        duals.append(svm.certificate_.dual)
        primals.append(mm.objective(svm, svm.coef_, X, Y))
    assert primals[-1] <= 1.02 * best.primal and primals[-1] < primals[0]
    assert all(np.diff(duals) > 0) and duals[-1] <= best.primal
    assert svm.certificate_.exact and svm._memory.n_gone == 0  # the cache holds all examples
    proof = mm.certify(svm, X, Y)  # a proof, since it sees all examples
    assert proof.exact and proof.dual == pytest.approx(duals[-1], rel=1e-9)
    assert proof.primal == pytest.approx(primals[-1])
    svm.set_params(warm_start=True, tol=1e-4).fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.primal <= best.primal * 1.01


def test_one_chunk_is_a_fit(generator):
    X, y = data_of("multiclass", generator)
    svm = svm_of("multiclass", "auto").partial_fit(X, y)
    assert svm.certificate_.converged and svm.certificate_.exact
    twin = svm_of("multiclass", solvers.Streaming(passes=None)).fit(X, y)
    np.testing.assert_allclose(svm.coef_, twin.coef_)


@pytest.mark.parametrize("hinge", ["max", "sum"])
def test_frozen_examples_keep_their_part(hinge, generator):
    X, y = data_of("multiclass", generator)
    best = svm_of("multiclass", "auto", tol=1e-4, hinge=hinge).fit(X, y).certificate_
    solver = solvers.Streaming(passes=None, cache_bytes=150_000)
    svm, duals = svm_of("multiclass", solver, hinge=hinge), []
    for x, part in parts(X, y, 60):
        quietly(lambda x=x, part=part: svm.partial_fit(x, part, classes=range(4)))
        duals.append(svm.certificate_.dual)
    held = svm._memory
    assert held.n_frozen > 0 and held.n_gone > held.n_frozen
    assert "frozen" in svm.certificate_.status and not svm.certificate_.exact
    assert all(np.diff(duals) > 0) and duals[-1] <= best.primal
    assert mm.objective(svm, svm.coef_, X, y) <= 1.1 * best.primal
    # w is the sum of the frozen part and of the kept multipliers' part.
    problem = Problem(svm.model_.bind(*stacked_examples(held.parts)), svm.C)
    kept = held.support
    _, vector = problem.examples.combine(kept.blocks, kept.multipliers, kept.outputs)
    value = held.plane.offset + kept.multipliers @ (kept.outputs != y[held.index][kept.blocks])
    value -= 0.5 * np.sum((held.plane.vector - vector) ** 2)
    assert value == pytest.approx(duals[-1])
    assert len(held.index) == problem.n_blocks


@pytest.mark.parametrize("kind", ["csr", "shards", "python"])
def test_chunks_of_every_kind(kind, generator, tmp_path):
    X, y = data_of("multiclass", generator, n=120)
    model = PythonMulticlass(1 - np.eye(4)) if kind == "python" else models.Multiclass()
    svm = mm.StructuralSVM(model, C=0.05, random_state=0)
    twin = svm_of("multiclass", "auto")
    for k, (x, part) in enumerate(parts(X, y, 40)):
        twin.partial_fit(x, part)
        if kind == "csr":
            x = sp.csr_matrix(x)
        if kind == "shards":
            mm.data.write_shards(tmp_path / str(k), x, part, shard_bytes=900)
            x = mm.data.open_shards(tmp_path / str(k)).X
        svm.partial_fit(list(x) if kind == "python" else x, part)
    assert mm.objective(twin, svm.coef_, X, y) == pytest.approx(
        mm.objective(twin, twin.coef_, X, y), rel=0.01
    )


def test_classes_and_weights_of_chunks(generator):
    X, y = data_of("multiclass", generator)
    svm = svm_of("multiclass", "auto").partial_fit(X[y < 3][:100], y[y < 3][:100], classes=range(4))
    assert svm.classes_.tolist() == [0, 1, 2, 3]
    svm.partial_fit(X[:100], y[:100])
    narrow = svm_of("multiclass", "auto").partial_fit(X[y < 3][:100], y[y < 3][:100])
    with refusal("not among the classes"):
        narrow.partial_fit(X, y)
    with refusal("classes", "first call"):
        svm.partial_fit(X, y, classes=range(7))
    weighted = svm_of("multiclass", "auto", tol=1e-5)
    twice = svm_of("multiclass", "auto", tol=1e-5)
    for x, part in parts(X[:200], y[:200], 100):
        weighted.partial_fit(x, part, classes=range(4), sample_weight=np.full(100, 2.0))
        twice.partial_fit(np.repeat(x, 2, axis=0), np.repeat(part, 2), classes=range(4))
    # One of two copies may be dropped, so the next chunk has less to move.
    high, low = weighted.certificate_.dual, twice.certificate_.dual
    assert high == pytest.approx(low, rel=0.02) and high >= low * (1 - 1e-4)


def test_classifiers_learn_from_chunks(generator):
    for kind, name in ((mm.MulticlassSVC, "multiclass"), (mm.BinarySVC, "binary")):
        X, y = data_of(name, generator)
        svm = kind(C=0.05, random_state=0)
        for x, part in parts(X, y, 100):
            svm.partial_fit(x, part, classes=np.unique(y))
        assert svm.score(X, y) >= kind(C=0.05).fit(X, y).score(X, y) - 0.03
        svm.fit(X, y)
        assert svm._memory is None and svm.certificate_.converged


def test_partial_fit_refuses_what_it_cannot_do(generator):
    X, y = data_of("multiclass", generator)
    with refusal("partial_fit needs solver", "sda"):
        svm_of("multiclass", "sda").partial_fit(X, y)
    svm = svm_of("multiclass", "auto").partial_fit(X, y)
    with refusal("C was 0.05"):
        svm.set_params(C=1.0).partial_fit(X, y)
    with refusal("for the earlier chunks", "slack", "to start over"):
        svm.set_params(C=0.05, rescaling="slack").partial_fit(X, y)
    assert_no_chunks(mm.MulticlassSVC(class_weight="balanced"), "class_weight")
    with refusal("kernel"):
        mm.StructuralSVM(models.Kernel(models.Multiclass())).partial_fit(X, y)
    assert_no_chunks(mm.BinarySVC(loss="f1"), "one slack for all examples")
