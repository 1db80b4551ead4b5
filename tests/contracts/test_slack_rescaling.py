"""Slack rescaling: every solver, every model, against the dense QP over all outputs."""

import itertools

import numpy as np
import pytest

import maxmargin as mm
from helpers import (
    EXACT,
    RATED,
    as_python,
    assert_optimal,
    assert_truthful,
    built_in,
    fit,
    loss_units,
    quietly,
    refusal,
)
from maxmargin import losses, models
from maxmargin.models.search import search_slack
from reference.problems import binary_case, chain_case, multiclass_case
from reference.python_chain import PythonChain, PythonMulticlass


def slack_case(kind, generator):
    if kind == "multiclass":
        case = multiclass_case(generator, n=8, n_classes=3, n_features=3)
    elif kind == "multiclass-costs":
        case = multiclass_case(generator, n=8, n_classes=4, n_features=3, costs=True, weighted=True)
    elif kind == "binary-costs":
        case = binary_case(generator, n=10, n_features=3, costs=True, weighted=True, bias=1.0)
    elif kind == "chain":
        case = chain_case(generator, n=5, lengths=(1, 4), n_classes=3)
    else:
        case = chain_case(
            generator, n=5, lengths=(1, 3), n_classes=3, mean=True, start=True, end=True
        )
    return case.replace(rescaling="slack")


KINDS = ("multiclass", "multiclass-costs", "binary-costs", "chain", "chain-mean-ends")
EXACT_HERE = [name for name in EXACT if name != "bcfw-pairwise-gap"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", EXACT_HERE)
def test_every_exact_solver_reaches_the_optimum(kind, solver, generator):
    case = slack_case(kind, generator)
    svm = fit(case, EXACT[solver](), relative=5e-7, max_passes=500_000, max_seconds=20.0)
    assert_optimal(case, svm)
    assert_truthful(case, svm)
    again = mm.certify(svm, case.X, case.Y, case.sample_weight)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", RATED)
def test_slow_solvers_stay_truthful(kind, solver, generator):
    case = slack_case(kind, generator)
    svm = quietly(lambda: fit(case, RATED[solver](), relative=1e-9, max_passes=40))
    assert_truthful(case, svm)


@pytest.mark.parametrize("kind", ["chain", "chain-mean-ends", "multiclass-costs", "binary-costs"])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_oracle_equals_brute_force(kind, scale, generator):
    case = slack_case(kind, generator)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    examples = model.bind(case.X, case.Y)
    for _ in range(10):
        w = scale * generator.normal(size=model.size_joint_feature)
        expected = [np.max(block.offsets + block.vectors @ w) for block in case.blocks]
        np.testing.assert_allclose(examples.slacks(w, 1, "slack"), expected, rtol=1e-9, atol=1e-12)


def test_a_chain_with_costs_is_refused_and_told_what_works(generator):
    case = slack_case("chain", generator)
    model = models.Chain(loss=losses.Hamming(costs=[1.0, 2.0, 3.0]))
    with refusal("slack", "Chain", "counts", "margin"):
        mm.StructuralSVM(model, rescaling="slack").fit(case.X, case.Y)


def brute_force(case, i, w):
    block = case.blocks[i]
    return block.outputs[int(np.argmax(block.offsets + block.vectors @ w))]


@pytest.mark.parametrize("solver", ["proximal", "sda", "one-slack", "n-slack"])
def test_own_slack_oracle_in_python_reaches_the_optimum(solver, generator):
    case = slack_case("multiclass-costs", generator)
    _, X = as_python(case)

    class Own(PythonMulticlass):
        def slack_rescaled_inference(self, x, y, w):
            scores = [
                self.loss(y, k) * (1 + w @ (self.joint_feature(x, k) - self.joint_feature(x, y)))
                for k in range(len(case.truth.classes))
            ]
            return int(np.argmax(scores))

    tol = loss_units(case, 5e-7)
    svm = mm.StructuralSVM(
        Own(case.truth.costs),
        C=case.C,
        rescaling="slack",
        solver=solver,
        tol=tol,
        max_passes=50_000,
    )
    svm.fit(X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.exact
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)


def test_a_searched_oracle_is_never_called_proven(generator):
    case = slack_case("chain", generator)
    model, X = as_python(case)
    tol = loss_units(case, 1e-4)
    svm = mm.StructuralSVM(model, C=case.C, rescaling="slack", solver="sda", tol=tol)
    quietly(lambda: svm.fit(X, case.Y))
    assert not svm.certificate_.exact
    assert not svm.certificate_.converged
    assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)


def test_search_finds_the_best_point_of_the_hull(generator):
    model = PythonChain(3)
    hits = 0
    for _ in range(40):
        x, y = generator.normal(size=(3, 2)), generator.integers(0, 3, 3)
        model.initialize([x, x], [y, np.array([0, 1, 2])])
        w = generator.normal(size=model.size_joint_feature)
        truth = model.joint_feature(x, y)

        def value(output, x=x, y=y, w=w, truth=truth):
            output = np.asarray(output)
            return model.loss(y, output) * (1 + w @ (model.joint_feature(x, output) - truth))

        best = max(value(output) for output in itertools.product(range(3), repeat=3))
        found = value(search_slack(model, x, y, w))
        assert found <= best + 1e-9
        margin = value(model.loss_augmented_inference(x, y, w))
        assert found >= max(0.0, margin) - 1e-9
        hits += abs(found - best) < 1e-9
    assert hits >= 30
