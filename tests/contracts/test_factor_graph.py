"""FactorGraph by brute force over all labellings: trees, loops, several types of nodes, constraints."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from graph_cases import as_key, prepared
from helpers import built_in, fit, loss_units, quietly, refusal
from maxmargin import losses, models
from reference import enumerate as truths
from reference.cases import chain_case, graph_case
from reference.dense_qp import primal_objective

KINDS = ("full", "symmetric", "diagonal", "potts")
METHODS = ("auto", "lp", "milp")


def doubled(case):
    """Return the same graphs with every edge given twice, once in each direction."""
    return case.replace(X=[(x[0], np.concatenate([x[1], x[1][:, ::-1]])) for x in case.X])


# The model.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_edge_features", [None, 2])
def test_features_loss_and_order_of_weights(generator, kind, n_edge_features):
    case = graph_case(
        generator, shape="dense", kind=kind, n_edge_features=n_edge_features, costs=True
    )
    model, rows = prepared(case)
    assert model.size_joint_feature == case.truth.size_joint_feature
    for x, row, y in zip(case.X, rows, case.Y, strict=True):
        for output in [y, *case.truth.outputs(row)[::7]]:
            expected = case.truth.joint_feature(row, output)
            np.testing.assert_allclose(model.joint_feature(x, output), expected, atol=1e-12)
            assert model.loss(y, output) == pytest.approx(case.truth.loss(y, output), rel=1e-12)
    parts = model.unpack(np.arange(model.size_joint_feature, dtype=float))
    together = np.concatenate([part.ravel() for part in parts.values()])
    assert sorted(together.tolist()) == list(range(model.size_joint_feature))
    shape = (3, 3) if kind == "full" else (len(case.truth.keys),)
    assert parts["pairwise"].shape == shape + (() if n_edge_features is None else (2,))


@pytest.mark.parametrize("shape", ["tree", "forest", "cycle", "dense"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_argmax_is_that_of_brute_force(generator, shape, kind):
    case = graph_case(generator, shape=shape, kind=kind, bias=0.5, n_edge_features=1)
    for method in METHODS if shape in ("cycle", "dense") else ("auto", "tree"):
        model, rows = prepared(case, inference=method)
        for scale in (0.0, 1.0):
            w = scale * generator.normal(size=model.size_joint_feature)
            for x, row, y in zip(case.X, rows, case.Y, strict=True):
                best = truths.augmented_scores(case.truth, row, y, w).max()
                found = as_key(model.loss_augmented_inference(x, y, w))
                value = case.truth.joint_feature(row, found) @ w + case.truth.loss(y, found)
                examples = model.bind([x], [y])
                slack, ceiling = examples.slacks(w)
                xi = best - case.truth.joint_feature(row, y) @ w
                assert value <= best + 1e-9
                assert ceiling[0] >= xi - 1e-6
                assert slack[0] == pytest.approx(
                    value - case.truth.joint_feature(row, y) @ w, abs=1e-9
                )
                if method in ("tree", "milp") or shape in ("tree", "forest"):
                    assert value == pytest.approx(best, abs=1e-6)
                    assert ceiling[0] == pytest.approx(xi, abs=1e-6)


def test_edges_between_the_same_nodes_add_up(generator):
    case = doubled(graph_case(generator, shape="tree", sizes=(4, 2)))
    model, rows = prepared(case)
    assert model.bind(case.X, case.Y).exact  # a double edge is not a cycle
    w = generator.normal(size=model.size_joint_feature)
    for x, row in zip(case.X, rows, strict=True):
        found = as_key(model.inference(x, w))
        best = truths.scores(case.truth, row, w).max()
        assert case.truth.joint_feature(row, found) @ w == pytest.approx(best, abs=1e-9)


def test_a_chain_is_a_factor_graph(seed, generator):
    case = chain_case(generator, n=6, lengths=(1, 2, 3, 4), bias=1.0, mean=True, costs=True)
    chain = fit(case, relative=1e-9)
    X = [(x, np.array([(t, t + 1) for t in range(len(x) - 1)])) for x in case.X]
    loss = losses.Hamming(costs=case.options["costs"], mean=True)
    svm = mm.StructuralSVM(models.FactorGraph(loss=loss, bias=1.0), C=case.C)
    svm.set_params(tol=loss_units(case, 1e-9), max_passes=10_000).fit(X, case.Y)
    assert svm.certificate_.primal == pytest.approx(chain.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(svm.coef_, chain.coef_, atol=1e-4)
    w = generator.normal(size=len(chain.coef_))
    left = svm.model_.bind(X).predict(w, 1)
    right = chain.model_.bind(case.X).predict(w, 1)
    assert [as_key(y) for y in left] == [as_key(y) for y in right]


def test_node_weights(generator):
    case = graph_case(generator, n=4, sizes=(3, 2), n_classes=2)
    weights = [generator.uniform(0, 2, size=len(y)) for y in case.Y]
    model, _rows = prepared(case)
    examples = model.bind(case.X, case.Y, weights)
    w = generator.normal(size=model.size_joint_feature)
    blocks = truths.enumerate_blocks(case.truth, case.X, case.Y, weights)
    expected = [max(b.offsets + b.vectors @ w) for b in blocks]
    np.testing.assert_allclose(examples.slacks(w)[0], expected, atol=1e-9)
    svm = mm.StructuralSVM(built_in(case)).fit(case.X, case.Y, node_weight=weights)
    assert svm.certificate_.converged


# Graphs with cycles.


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", ["auto", "sda", "bcfw", "one-slack", "n-slack", "streaming"])
@pytest.mark.parametrize("inference", ["auto", "lp"])
def test_the_certificate_holds_on_loops(generator, solver, inference, rescaling):
    case = graph_case(generator, n=4, sizes=(4, 3), shape="dense", n_features=3, C=3.0)
    case = case.replace(rescaling=rescaling)
    model = built_in(case).set_params(inference=inference, iterations=3)
    svm = mm.StructuralSVM(model, C=case.C, solver=solver, rescaling=rescaling, tol=1e-4)
    quietly(lambda: svm.set_params(max_passes=60).fit(case.X, case.Y))
    certificate = svm.certificate_
    primal = primal_objective(case.blocks, case.budgets, svm.coef_)
    assert certificate.exact  # exact, whether or not it converged
    assert certificate.primal >= primal - 1e-9
    assert certificate.dual <= case.optimum.primal * (1 + 1e-9)
    assert certificate.converged == (certificate.gap <= certificate.tol)
    again = mm.certify(svm, case.X, case.Y)
    assert again.primal == pytest.approx(certificate.primal, rel=1e-9)
    assert mm.objective(svm, svm.coef_, case.X, case.Y) == pytest.approx(again.primal, rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "one-slack"])
def test_integer_programs_train_to_the_optimum_on_loops(generator, solver):
    case = graph_case(generator, n=3, sizes=(3,), shape="cycle", n_classes=2)
    model = built_in(case).set_params(inference="milp")
    svm = mm.StructuralSVM(model, C=case.C, solver=solver, tol=1e-4).fit(case.X, case.Y)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-3)


def test_attracting_weights_train_by_cuts(generator):
    case = graph_case(generator, sizes=(6, 5), shape="dense", kind="potts", n_classes=2)
    model = built_in(case).set_params(inference="cut")
    index = 2 * case.truth.n_features
    svm = mm.StructuralSVM(model, nonnegative=[index], tol=1e-5).fit(case.X, case.Y)
    assert svm.certificate_.converged and svm.coef_[index] >= 0
    with refusal("example 0", "does not attract", "inference='auto'"):
        svm.model_.bind(case.X, case.Y).slacks(-np.ones(len(svm.coef_)), 1)


def test_an_inexact_argmax_is_told(generator):
    # Frustrated links of three labels: the relaxation is not tight at this w, so its bound is not reached.
    edges = np.array([(a, b) for b in range(5) for a in range(b)])
    X = [(np.zeros((5, 1)), edges)]
    model = models.FactorGraph("potts", inference="lp", classes=[0, 1, 2])
    model.initialize(X, [[0, 1, 2, 0, 1]])
    w = np.array([0.0, 0.0, 0.0, -1.0])
    examples = model.bind(X, [[0, 1, 2, 0, 1]])
    slack, ceiling = examples.slacks(w)
    assert not examples.exact and examples.bounded
    assert ceiling[0] > slack[0] + 0.1
    svm = mm.StructuralSVM(model, C=100.0, tol=1e-6, nonnegative=None)
    with pytest.warns(ConvergenceWarning, match="not converged"):
        svm.set_params(prior=(np.array([0, 0, 0, -50.0]), 0.01), max_passes=30).fit(
            X, [[0, 1, 2, 0, 1]]
        )
    assert svm.certificate_.exact and svm.certificate_.gap > 1e-6
