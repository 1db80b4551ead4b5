"""Rarely used combinations reach the same optimum, or raise a clear error."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from test_joint_kernels import Labels, fitted

import maxmargin as mm
from helpers import refusal
from maxmargin import models, solvers
from maxmargin.data.synthetic import random_chains
from maxmargin.estimators import advice
from reference.cases import multiclass_case


@pytest.mark.parametrize("kind", [solvers.DualCoordinate, solvers.Proximal])
def test_groups_are_solved_in_single_precision_where_it_is_asked_for(kind, generator):
    X = generator.normal(size=(60, 5))
    margins, groups = generator.uniform(0.5, 1.5, size=60), np.arange(0, 61, 3)

    def fit(precision):
        solver = kind(precision=precision)
        svm = mm.GeneralizedSVM(C=0.5, solver=solver, tol=1e-4, random_state=0)
        # skip the polishing, since single precision is not exact
        svm._polish = lambda given: None
        return svm.fit(X, margins, groups=groups)

    single, double = fit("single"), fit("double")
    assert single.certificate_.converged and (single.coef_ != double.coef_).any()
    np.testing.assert_allclose(single.coef_, double.coef_, atol=0.02)


def test_features_of_a_kernel_model_have_the_names_of_their_attributes():
    X = [{"a": 1.0, "b": 2.0}, {"b": 1.0}, {"a": 3.0}, {"c": 1.0}]
    svm = mm.StructuralSVM(models.Kernel(models.Multiclass(), rank=2)).fit(X, [0, 1, 0, 1])
    assert svm.model_.feature_names_.tolist() == ["a", "b", "c"]


def test_line_searches_over_sets_of_violators_gather_their_cuts(generator):
    """With more cuts than are kept apart, their mixture serves as one dual point."""
    case = multiclass_case(generator, n=12, n_classes=4)
    settings = {"C": 1.0, "hinge": "sum", "tol": 1e-3, "max_passes": 5000}
    solver = solvers.OneSlack(inner="line-search", cache=0)
    own = mm.StructuralSVM(models.Multiclass(), solver=solver, **settings).fit(case.X, case.Y)
    other = mm.StructuralSVM(models.Multiclass(), solver="sdcd", **settings).fit(case.X, case.Y)
    assert own.certificate_.passes > 20 and own.certificate_.converged
    assert abs(own.certificate_.primal - other.certificate_.primal) <= 2e-3 * 12


def test_outputs_of_a_joint_kernel_are_all_summed(generator):
    X, Y = generator.normal(size=(9, 2)), list(range(3)) * 3
    kernel = models.Kernel(models.Multiclass(), kernel="rbf", gamma=0.4)
    found = [
        fitted(model, X, Y, hinge="sum", solver="sdcd").certificate_.primal
        for model in (models.JointKernel(Labels()), kernel)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_a_lone_label_of_many_sequences_is_looked_for_in_a_few(monkeypatch, generator):
    X, Y = random_chains(60, 2, 3, random_state=0)
    asked = []
    bind = advice.bind_model
    monkeypatch.setattr(advice, "FEW", 50)
    monkeypatch.setattr(advice, "GLANCE", 20)
    monkeypatch.setattr(advice, "bind_model", lambda m, X, Y: asked.append(len(X)) or bind(m, X, Y))
    # The search runs only if warnings are shown and one label could reach the objective.
    mm.StructuralSVM(models.Chain(), C=0.01).fit(X, Y)
    assert asked == [20]


def test_an_edge_between_types_that_no_edge_joined_in_training_is_refused():
    nodes, edges, types = np.ones((4, 2)), np.array([[0, 1]]), ["a", "a", "b", "b"]
    svm = mm.StructuralSVM(models.FactorGraph()).fit([(nodes, edges, None, types)], [[0, 1, 0, 1]])
    with refusal(r"X\[0\]\[1\]\[0\]", "types 'a' and 'b'"):
        svm.predict([(nodes, np.array([[1, 2]]), None, types)])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cut_that_does_not_exist_names_its_example(n_jobs):
    nodes, edges = np.eye(2), np.array([[0, 1]])
    model = models.FactorGraph(pairwise="potts", inference="cut")
    svm = mm.StructuralSVM(model, C=1.0, nonnegative=[4], n_jobs=n_jobs)
    svm.fit([(nodes, edges)] * 2, [[0, 0], [1, 1]])
    svm.coef_ = np.array([0.0, 0.0, 0.0, 0.0, -1.0])  # two labels that repel each other
    with refusal("example [02]: ", "does not attract"):
        svm.predict([(nodes, edges)] * 4)


@pytest.mark.parametrize("C", [0.1, 0.3])
def test_lbfgs_goes_on_from_distributions_that_potentials_give(C):
    X, Y = random_chains(40, 3, 4, random_state=0)
    svm = mm.CRF(models.Chain(), C=0.1, solver="exponentiated", tol=1e-4, warm_start=True).fit(X, Y)
    cold = mm.CRF(models.Chain(), C=C, solver="lbfgs", tol=1e-6).fit(X, Y)
    warm = svm.set_params(solver="lbfgs", C=C, tol=1e-6).fit(X, Y)
    assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-5)
    assert C != 0.1 or warm.certificate_.passes < cold.certificate_.passes


def test_examples_of_a_chunk_come_to_memory_piece_by_piece(generator):
    """When examples are read together, at most ``chunk`` of them are new to memory at a time."""
    X, y = generator.normal(size=(400, 50)), generator.integers(3, size=400)
    solver = solvers.Streaming(cache_bytes=200_000, chunk=10, passes=None)
    svm = mm.StructuralSVM(models.Multiclass(), C=0.01, solver=solver, tol=1e-2).fit([(X, y)])
    whole = mm.StructuralSVM(models.Multiclass(), C=0.01, tol=1e-4).fit(X, y)
    assert svm.certificate_.primal <= whole.certificate_.primal + 1.1e-2 * 4


def test_a_stream_goes_on_from_multipliers_in_any_order(generator, tmp_path):
    """The multipliers of cutting planes are ordered by cut, not by example."""
    X = generator.normal(size=(80, 4))
    y = X[:, :3].argmax(axis=1)
    data = mm.data.open_shards(mm.data.write_shards(tmp_path, X, y))
    settings = {"C": 1.0, "tol": 1e-3, "warm_start": True}
    svm = mm.StructuralSVM(models.Multiclass(), solver="one-slack", **settings).fit(X, y)
    blocks, before = svm.support_.blocks, svm.certificate_
    svm.support_ = svm.support_.__class__(
        blocks[::-1], svm.support_.multipliers[::-1], svm.support_.outputs[::-1]
    )
    assert (np.diff(svm.support_.blocks) < 0).any()
    svm.set_params(solver=solvers.Streaming(passes=None, keeps="examples")).fit(data.X, data.Y)
    assert svm.certificate_.converged
    assert abs(svm.certificate_.primal - before.primal) <= 2e-3 * 80


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch):
    pool = pytest.importorskip("maxmargin.cluster.pool")
    distributed = pytest.importorskip("distributed")

    def late(*args, **options):
        raise TimeoutError

    monkeypatch.setattr(distributed, "wait", late)
    monkeypatch.setattr(pool, "LONELY", -1.0)
    client = SimpleNamespace(as_current=nullcontext, nthreads=lambda: {})
    own = SimpleNamespace(client=client, alone=None)
    pool.Pool._look(own, [], 0.0)  # the first call only records the time
    with pytest.raises(pool.PartError, match="no workers"):
        pool.Pool._look(own, [], 0.0)
    client.nthreads = lambda: {"worker": 1}
    pool.Pool._look(own, [], 0.0)
    assert own.alone is None


def test_weights_of_classes_of_all_parts():
    training = pytest.importorskip("maxmargin.cluster.training")
    parts = [
        SimpleNamespace(labels=np.array(["a", "b"]), counts=np.array([1, 2])),
        SimpleNamespace(labels=np.array(["b", "c"]), counts=np.array([2, 1])),
    ]
    assert training.weights_of_classes({"b": 3.0}, parts) == {"a": 1.0, "b": 3.0, "c": 1.0}
    assert training.weights_of_classes("balanced", parts) == {"a": 2.0, "b": 0.5, "c": 2.0}
    with refusal("class_weight: "):
        training.weights_of_classes("by size", parts)
