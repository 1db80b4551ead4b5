"""hinge="sum" from chunks and shards in cyclic passes: parts come and go, and the optimum is the global
one."""

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from helpers import assert_truthful, built_in, loss_units, quietly, refusal
from maxmargin import models, solvers
from maxmargin.parts.state import PartState
from reference.cases import chain_case, fresh, multiclass_case
from reference.twins_summed import in_parts
from summed_cases import optimum_of

CASES = {
    "multiclass": lambda g: multiclass_case(g, n=30, n_classes=4, n_features=3, weighted=True),
    "chain": lambda g: chain_case(g, n=24, n_classes=2, n_features=2, weighted=True),
}
TIGHT = {"multiclass": 10_000, "chain": 6_000}
every = pytest.mark.parametrize("name", CASES)


def case_of(name, seed, salt=0):
    return CASES[name](fresh(seed, 700 + salt))


def chunks_of(case, size):
    v = np.ones(len(case.Y)) if case.sample_weight is None else np.asarray(case.sample_weight)
    return [
        (case.X[k : k + size], case.Y[k : k + size], v[k : k + size])
        for k in range(0, len(case.Y), size)
    ]


def machine(case, budget, relative=1e-7, **settings):
    options = {"tol": loss_units(case, relative, "sum"), "max_passes": 10**6, "random_state": 0}
    solver = solvers.Streaming(passes=None, cache_bytes=budget)
    options |= {"hinge": "sum", "rescaling": case.rescaling, "C": case.C, "solver": solver}
    return mm.StructuralSVM(built_in(case), **(options | settings))


def classes_known(svm, case):
    """Give the model all classes, since the first chunk may lack some."""
    labels = np.unique(np.concatenate([np.atleast_1d(y) for y in case.Y]))
    return svm.set_params(model=clone(svm.model).set_params(classes=labels))


@every
def test_the_twin_in_parts_has_the_optimum_of_the_dense_qp(name, seed):
    case = case_of(name, seed)
    order = fresh(seed, 701).permutation(len(case.Y))
    parts = [part.tolist() for part in np.array_split(order, 4)]
    duals, primals, w = in_parts(case, parts)
    best = optimum_of(case)
    assert (np.diff(duals) >= -1e-9 * best.value).all()  # each step ascends the whole dual
    assert duals[-1] <= best.primal * (1 + 1e-9) and min(primals) >= best.dual * (1 - 1e-9)
    assert primals[-1] == pytest.approx(best.value, rel=1e-6)
    np.testing.assert_allclose(w, best.w, atol=2e-3 * np.abs(best.w).max())


@every
@pytest.mark.parametrize("tight", [False, True], ids=["roomy", "tight"])
def test_cyclic_chunks_have_the_optimum_of_the_dense_qp(name, tight, seed, monkeypatch):
    case, frozen, close = case_of(name, seed, 1), [], PartState.close

    def watched(self):
        before = self.past.n_frozen
        close(self)
        frozen.append(self.past.n_frozen - before)

    monkeypatch.setattr(PartState, "close", watched)
    svm = classes_known(machine(case, TIGHT[name] if tight else 2**22), case)
    svm.fit(chunks_of(case, 5))
    assert tight == any(frozen)  # parts were frozen to the file and read back
    assert svm.certificate_.converged and svm.certificate_.exact and svm.solver_ == "streaming"
    assert svm.certificate_.primal == pytest.approx(optimum_of(case).value, rel=1e-6)
    assert_truthful(case, svm)
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)


@every
def test_shards_and_arrays(name, seed, tmp_path):
    case = case_of(name, seed, 2)
    mm.data.write_shards(tmp_path / "data", case.X, case.Y, shard_bytes=500)
    data = mm.data.open_shards(tmp_path / "data")
    best = optimum_of(case)
    for budget in (TIGHT[name], 2**22):
        for X, Y in ((data.X, data.Y), (case.X, case.Y)):
            svm = machine(case, budget).fit(X, Y, sample_weight=case.sample_weight)
            assert svm.certificate_.primal == pytest.approx(best.value, rel=1e-6)
            assert_truthful(case, svm)
    outputs = solvers.Streaming(passes=None, keeps="outputs")
    with refusal("keeps", "sdcd"):
        machine(case, 2**22, solver=outputs).fit(data.X, data.Y)


def matrix(d):
    A = fresh(0, 702).normal(size=(d, d)) / np.sqrt(d)
    return A @ A.T + np.eye(d)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize(
    "given",
    [
        lambda d: {"prior": (0.2, 0.7)},
        lambda d: {"prior": (np.linspace(-0.2, 0.2, d), np.linspace(0.5, 1.5, d))},
        lambda d: {"prior": (0.0, matrix(d))},
        lambda d: {"nonnegative": np.arange(d) % 2 == 0},
    ],
    ids=["one scale", "scales", "covariance", "nonnegative"],
)
def test_priors_and_bounds(given, rescaling, seed):
    case = case_of("multiclass", seed, 3)
    svm = classes_known(machine(case, TIGHT["multiclass"], rescaling=rescaling), case)
    d = len(clone(svm).set_params(solver="sdcd").fit(case.X, case.Y)._weights())
    svm.set_params(**given(d))
    whole = clone(svm).set_params(solver="sdcd")
    whole.fit(case.X, case.Y, sample_weight=case.sample_weight)
    svm.fit(chunks_of(case, 4))
    assert svm.certificate_.converged and whole.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-6)
    assert svm.certificate_.dual <= whole.certificate_.primal * (1 + 1e-9)


@every
def test_a_fit_that_was_cut_short_goes_on_from_its_checkpoint(name, seed, tmp_path):
    case, path = case_of(name, seed, 4), tmp_path / "fit"
    svm, chunks = classes_known(machine(case, TIGHT[name]), case), chunks_of(case, 4)
    first = quietly(lambda: clone(svm).set_params(max_passes=8).fit(chunks, checkpoint=path))
    assert not first.certificate_.converged
    svm.fit(chunks, checkpoint=path, resume=True)
    assert svm.history_["dual"][0] >= first.certificate_.dual * (1 - 1e-9)
    assert svm.certificate_.primal == pytest.approx(optimum_of(case).value, rel=1e-6)


@every
def test_a_warm_start_at_another_c_and_one_more_chunk(name, seed):
    case = case_of(name, seed, 5)
    svm, chunks = classes_known(machine(case, TIGHT[name]), case), chunks_of(case, 4)
    svm.set_params(C=3 * case.C, warm_start=True).fit(chunks)
    svm.set_params(C=case.C).fit(chunks)  # the smaller mass clips multipliers
    assert svm.certificate_.primal == pytest.approx(optimum_of(case).value, rel=1e-6)
    # Chunks of partial_fit start a new stream, as after any fit.
    svm.partial_fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.primal == pytest.approx(optimum_of(case).value, rel=1e-6)


def test_flat_estimators_take_chunks(seed):
    case = case_of("multiclass", seed, 6)
    X, y, v = np.asarray(case.X), np.asarray(case.Y), np.asarray(case.sample_weight)
    options = {"hinge": "sum", "C": 0.5, "tol": 1e-8, "max_passes": 10**6, "random_state": 0}
    whole = mm.MulticlassSVC(**options).fit(X, y, sample_weight=v)
    solver = solvers.Streaming(passes=None, cache_bytes=TIGHT["multiclass"])
    parts = [(X[:15], y[:15], v[:15]), (X[15:], y[15:], v[15:])]
    streamed = mm.MulticlassSVC(solver=solver, **options).fit(parts)
    assert streamed.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-3)


def test_many_classes_count_to_the_budget(seed):
    """An example in memory keeps all its outputs, so more classes mean fewer examples at a time."""
    generator, sizes = fresh(seed, 706), []
    X, y = generator.normal(size=(60, 3)), generator.integers(0, 40, 60)
    settings = {"C": 0.1, "tol": 0.1, "hinge": "sum", "random_state": 0}

    class Watch(solvers.Streaming):
        def explore(self, window):
            sizes.append(window.problem.n_blocks)
            return super().explore(window)

    mm.StructuralSVM(
        models.Multiclass(classes=range(40)),
        solver=Watch(passes=None, cache_bytes=40_000),
        **settings,
    ).fit([(X, y)])
    listed = 36 * 40
    assert max(sizes) * listed <= 40_000


def test_an_output_that_no_pass_can_list_ends_with_the_reduced_problem(seed):
    """The sum of a parse has no bound, so training reports that only the reduced problem is solved."""
    trees = [("S", ("A", "a"), ("B", "b")), ("S", ("A", "a"), ("S", ("A", "a"), ("B", "b")))] * 6
    X = [["a", "b"], ["a", "a", "b"]] * 6
    whole = mm.StructuralSVM(models.Grammar(rare=0), hinge="sum", C=0.1, random_state=0)
    quietly(lambda: whole.fit(X, trees))
    svm = clone(whole).set_params(solver=solvers.Streaming(passes=None, cache_bytes=60_000))
    quietly(lambda: svm.fit([(X[:6], trees[:6]), (X[6:], trees[6:])]))
    own, other = svm.certificate_, whole.certificate_
    assert own.status == other.status
    if own.reduced_gap is not None:
        assert own.reduced_gap <= own.tol
    assert own.dual == pytest.approx(other.dual, rel=0.05)
