"""Slack rescaling with a searched argmax, and for a user's models.

The tests of every solver cover models with an exact argmax."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import (
    EXACT,
    as_python,
    built_in,
    loss_units,
    quietly,
)
from maxmargin.formulation import Formulation
from maxmargin.models.python import bind_model
from maxmargin.models.search import search_slack
from reference.cases import chain_case, multiclass_case
from reference.python_chain import PythonChain, PythonMulticlass

SLACK = Formulation(rescaling="slack")


def searched_case(generator):
    """Return a chain whose loss has costs, so that the argmax of slack rescaling is a search."""
    return chain_case(generator, n=5, lengths=(1, 4), n_classes=3, costs=True).replace(
        rescaling="slack"
    )


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("python", [False, True])
def test_search_is_between_brute_force_and_its_ceiling(scale, python, generator):
    case = searched_case(generator)
    model, X = as_python(case) if python else (built_in(case), case.X)
    model.initialize(X, case.Y)
    examples = bind_model(model, X, case.Y).under(SLACK)
    assert not examples.exact
    assert examples.bounded
    hits = trials = 0
    for _ in range(20):
        w = scale * generator.normal(size=model.size_joint_feature)
        best = np.array([np.max(block.offsets + block.vectors @ w) for block in case.blocks])
        found, ceilings = examples.slacks(w)
        assert (found <= best + 1e-9 * (1 + best)).all()
        assert (best <= ceilings + 1e-9 * (1 + best)).all()
        hits += int(np.isclose(found, best, rtol=1e-9, atol=1e-12).sum())
        trials += len(best)
    assert hits >= 0.75 * trials


def test_compiled_search_equals_the_one_in_python(generator):
    case = searched_case(generator)
    compiled = built_in(case)
    compiled.initialize(case.X, case.Y)
    python, X = as_python(case)
    python.initialize(X, case.Y)
    pair = [
        bind_model(compiled, case.X, case.Y).under(SLACK),
        bind_model(python, X, case.Y).under(SLACK),
    ]
    for scale in (0.1, 1.0, 5.0):
        w = scale * generator.normal(size=compiled.size_joint_feature)
        ours, theirs = (examples.slacks(w) for examples in pair)
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack", "n-slack", "bcfw-pairwise"])
@pytest.mark.parametrize("python", [False, True])
def test_a_searched_certificate_bounds_the_optimum(solver, python, generator):
    case = searched_case(generator)
    model, X = as_python(case) if python else (built_in(case), case.X)
    tol = loss_units(case, 1e-3)
    svm = mm.StructuralSVM(model, C=case.C, rescaling="slack", solver=EXACT[solver](), tol=tol)
    quietly(lambda: svm.fit(X, case.Y))
    c = svm.certificate_
    assert c.exact
    assert c.dual <= case.optimum.primal * (1 + 1e-9)
    assert c.primal >= case.optimum.dual * (1 - 1e-9)
    assert c.converged == (c.gap <= tol)
    assert c.status in ("solved", "inexact oracle")
    again = mm.certify(svm, X, case.Y)
    assert again.primal == pytest.approx(c.primal, rel=1e-9)


def brute_force(case, i, w):
    block = case.blocks[i]
    return block.outputs[int(np.argmax(block.offsets + block.vectors @ w))]


@pytest.mark.parametrize("solver", ["proximal", "sda", "one-slack", "n-slack"])
def test_own_slack_oracle_in_python_reaches_the_optimum(solver, generator):
    case = multiclass_case(generator, n=8, n_classes=4, n_features=3, costs=True, weighted=True)
    case = case.replace(rescaling="slack")
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


def test_without_a_proof_an_inexact_oracle_is_never_called_proven(generator):
    case = searched_case(generator)
    model, X = as_python(case)
    model.exact = False
    svm = mm.StructuralSVM(model, C=case.C, rescaling="slack", tol=loss_units(case, 1e-4))
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
        output, ceiling = search_slack(model, x, y, w)
        found = value(output)
        assert ceiling >= best - 1e-9
        assert found <= best + 1e-9
        margin = value(model.loss_augmented_inference(x, y, w))
        assert found >= max(0.0, margin) - 1e-9
        hits += abs(found - best) < 1e-9
    assert hits >= 30


def test_a_model_with_sparse_features_is_searched_too(generator):
    case = searched_case(generator)
    plain, X = as_python(case)

    class Sparse(PythonChain):
        def joint_feature(self, x, y):
            return sparse.csr_matrix(super().joint_feature(x, y))

    model = Sparse(len(case.truth.classes), case.truth.costs)
    fits = []
    for own in (plain, model):
        svm = mm.StructuralSVM(
            own, C=case.C, rescaling="slack", solver="sda", tol=1e-3, random_state=0
        )
        fits.append(quietly(lambda svm=svm: svm.fit(X, case.Y, sample_weight=case.sample_weight)))
    assert fits[0].certificate_.primal == pytest.approx(fits[1].certificate_.primal, rel=1e-2)


def test_the_objective_of_a_searched_problem_is_a_bound(generator):
    case = searched_case(generator)
    model = built_in(case)
    svm = mm.StructuralSVM(model, C=case.C, rescaling="slack", tol=1e-2)
    quietly(lambda: svm.fit(case.X, case.Y))
    for scale in (0.1, 1.0, 5.0):
        w = scale * generator.normal(size=len(svm.coef_))
        best = [np.max(block.offsets + block.vectors @ w) for block in case.blocks]
        by_hand = 0.5 * w @ w + case.C * np.sum(best)
        assert mm.objective(svm, w, case.X, case.Y) >= by_hand * (1 - 1e-12)
    assert mm.objective(svm, svm.coef_, case.X, case.Y) == pytest.approx(svm.certificate_.primal)
