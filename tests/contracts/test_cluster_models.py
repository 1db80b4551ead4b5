"""Every model through the steps of a cluster, with workers and driver in this process.

Real clusters are used to test processes that die. Here, enumeration and a dense quadratic program
give the optimum of every model.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.scale.in_process import InProcess, fit

import maxmargin as mm
from helpers import as_python, assert_optimal, built_in, loss_units, multipliers_of
from maxmargin import models
from maxmargin.callbacks import Callback
from reference import problems
from reference.dense_qp import dual_objective, primal_objective

CASES = {**problems.EVERY, **problems.RANKINGS, **problems.EDGES}
RELATIVE = 1e-6


def divided(case, n_parts):
    """Split the examples of a case into runs; use fewer parts if one would have no weight."""
    groups, v = np.array_split(np.arange(len(case.Y)), n_parts), case.sample_weight
    if v is not None and not all(np.asarray(v)[own].any() for own in groups):
        return divided(case, n_parts - 1)
    return [
        (take(case.X, own), take(case.Y, own), None if v is None else np.asarray(v)[own])
        for own in groups
    ]


def take(data, which):
    return data[which] if hasattr(data, "shape") else [data[i] for i in which]


def svm_of(case, model=None, **settings):
    options = {"tol": loss_units(case, 0.5 * RELATIVE), "max_passes": 1e5, "random_state": 0}
    options |= {"rescaling": case.rescaling} | settings
    return mm.StructuralSVM(built_in(case) if model is None else model, C=case.C, **options)


def assert_the_optimum(case, svm):
    """Assert the optimum over all outputs, and primal and dual by definition from w and the multipliers."""
    assert_optimal(case, svm, 2 * RELATIVE)
    found = svm.certificate_
    primal = primal_objective(case.blocks, case.budgets, np.asarray(svm.coef_))
    assert found.primal == pytest.approx(primal, rel=1e-8)
    assert found.dual <= found.primal
    multipliers = multipliers_of(case, svm.support_)
    for a, budget in zip(multipliers, case.budgets, strict=True):  # no part counts twice
        assert (a >= 0).all() and a.sum() == pytest.approx(budget, rel=1e-8, abs=1e-300)
    dual = dual_objective(case.blocks, multipliers)
    assert dual == pytest.approx(case.optimum.value, rel=2 * RELATIVE)
    proof = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert proof.dual == pytest.approx(dual, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_every_model_has_its_optimum(name, seed):
    case = problems.make_case(name, seed)
    svm = fit(svm_of(case), divided(case, 3))
    assert_the_optimum(case, svm)


SLACK = ("multiclass-cost-dense", "chain-1to4-dense", "binary-cost-weights", "tree-three-parts")


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("name", SLACK)
def test_slack_rescaling(name, seed):
    case = problems.make_case(name, seed).replace(rescaling="slack")
    svm = fit(svm_of(case), divided(case, 2))
    alone = svm_of(case).fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.status == alone.certificate_.status
    if alone.certificate_.converged:
        assert_the_optimum(case, svm)
    else:  # with a searched argmax the bounds hold, but need not reach the optimum
        assert not svm.certificate_.converged
        assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)
        assert svm.certificate_.primal >= case.optimum.dual * (1 - 1e-9)


@pytest.mark.parametrize(
    "name", ["multiclass-cost-dense", "chain-1to4-csr-ends", "binary-bias-csr32"]
)
def test_models_in_python(name, seed):
    case = problems.make_case(name, seed)
    model, X = as_python(case)
    svm = fit(svm_of(case, model), divided(case.replace(X=X), 3))
    assert_optimal(case, svm, 2 * RELATIVE)
    assert mm.certify(svm, X, case.Y).gap <= 2 * svm.tol


PRIORS = {
    "shifted": lambda d: (0.3, 0.7),
    "scales": lambda d: (np.linspace(-0.2, 0.2, d), np.linspace(0.5, 1.5, d)),
    "covariance": lambda d: (0.1, np.diag(np.linspace(0.5, 1.5, d)) + 0.1),
}


@pytest.mark.parametrize("name", ["chain-1to4-dense", "ranking-three-grades", "grammar-spans"])
@pytest.mark.parametrize("prior", PRIORS)
def test_priors(prior, name, seed):
    case = problems.make_case(name, seed)
    size = len(svm_of(case).set_params(tol=0.5).fit(case.X, case.Y).coef_)
    given = {"prior": PRIORS[prior](size)}
    alone = svm_of(case, **given).fit(case.X, case.Y, sample_weight=case.sample_weight)
    svm = fit(svm_of(case, **given), divided(case, 2))
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=5 * RELATIVE)
    assert svm.certificate_.dual <= alone.certificate_.primal * (1 + 1e-9)


def test_kernels_of_a_rank_have_plain_weights(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    model = models.Kernel(models.Multiclass(), kernel="rbf", rank=8, random_state=0)
    alone = mm.StructuralSVM(model, tol=1e-5).fit(X, y)
    svm = fit(mm.StructuralSVM(model, tol=1e-5), [(X[:20], y[:20]), (X[20:], y[20:])])
    assert svm.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-4)
    exact = mm.StructuralSVM(models.Kernel(models.Multiclass()))
    with pytest.raises(ValueError, match="exact kernel"):
        fit(exact, [(X[:20], y[:20]), (X[20:], y[20:])])


# Faults at fixed steps; on a real cluster they occur at random.


class At(Callback):
    """Calls functions after given rounds."""

    def __init__(self, deeds):
        self.deeds, self.duals = deeds, []

    def on_step(self, info):
        self.duals.append(info.dual)
        self.deeds.get(info.step, lambda: None)()


@pytest.mark.parametrize(
    "name", ["multiclass-cost-dense", "chain-1to4-dense", "ranking-three-grades"]
)
def test_lost_workers_and_absent_parts_cost_rounds_and_nothing_else(name, seed):
    """The multipliers of each example still sum to its mass, so no part counts twice."""
    case = problems.make_case(name, seed)
    parts = divided(case, 3)
    pool = InProcess(parts, absent=0.3, seed=seed)
    deeds = {
        3: lambda: pool.lose(0),
        4: lambda: pool.lose(2),
        6: lambda: (pool.lose(0), pool.lose(1)),
    }
    watch = At(deeds)
    svm = fit(svm_of(case), parts, pool=pool, callbacks=[watch])
    assert_the_optimum(case, svm)
    assert (np.diff(watch.duals) >= 0).all()
