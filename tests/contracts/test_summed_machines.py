"""hinge="sum": a user's models, kernels, warm starts, files, and refused input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import assert_truthful, built_in, quietly, refusal
from maxmargin import models, solvers
from reference.box_qp import solve_summed, summed_primal
from reference.cases import chain_case, fresh, multiclass_case
from reference.problems import make_case
from summed_cases import MAIN, fit, mm_svm, optimum_of


class Tags:
    """Two positions with two labels each; with `listed`, the model lists all outputs."""

    def __init__(self, twice=False):
        self.twice = twice  # two outputs with equal features

    def initialize(self, X, Y):
        self.size_joint_feature = 2 * len(X[0])

    def all_outputs(self):
        pairs = [(a, b) for a in (0, 1) for b in (0, 1)]
        return pairs + [(1, 1, "again")] * self.twice

    def joint_feature(self, x, y):
        return np.concatenate([(y[0] - 0.5) * x, (y[1] - 0.5) * x])

    def loss(self, y, y_hat):
        return float((y[0] != y_hat[0]) + (y[1] != y_hat[1]))

    def inference(self, x, w):
        return max(self.all_outputs(), key=lambda y: self.joint_feature(x, y) @ w)

    def loss_augmented_inference(self, x, y, w):
        return max(self.all_outputs(), key=lambda z: self.loss(y, z) + self.joint_feature(x, z) @ w)


class ListedTags(Tags):
    def outputs(self, x):
        return self.all_outputs()


def tag_problem(seed):
    generator = fresh(seed, 100)
    X = generator.normal(size=(9, 3))
    signal = X + 0.7 * generator.normal(size=(9, 3))
    return X, [(int(s[0] > 0), int(s[1] > 0)) for s in signal]


def tag_optimum(model, X, Y, C, rescaling="margin"):
    """Return the optimum of the dense QP over the outputs that the model lists."""
    from reference.enumerate import Block

    model.initialize(X, Y)
    blocks = []
    for x, y in zip(X, Y, strict=True):
        outputs = model.all_outputs()
        offsets = np.array([model.loss(y, z) for z in outputs])
        vectors = np.array([model.joint_feature(x, z) - model.joint_feature(x, y) for z in outputs])
        factor = offsets[:, None] if rescaling == "slack" else 1.0
        blocks.append(Block(outputs, offsets, factor * vectors))
    return solve_summed(blocks, C)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", MAIN)
def test_own_models_that_list_their_outputs(seed, solver, rescaling, twice):
    X, Y = tag_problem(seed)
    optimum = tag_optimum(ListedTags(twice), X, Y, 0.8, rescaling)
    settings = {"C": 0.8, "hinge": "sum", "rescaling": rescaling, "solver": solver, "tol": 1e-8}
    svm = mm.StructuralSVM(ListedTags(twice), **settings, random_state=0, max_passes=10**5).fit(
        X, Y
    )
    certificate = svm.certificate_
    assert certificate.converged
    assert certificate.exact
    assert certificate.primal == pytest.approx(optimum.value, rel=1e-6)
    assert certificate.dual == pytest.approx(optimum.value, rel=1e-6)
    assert (svm.support_.multipliers <= 0.8).all()
    again = mm.certify(svm, X, Y)
    assert again.gap == pytest.approx(certificate.gap, abs=1e-12)


@pytest.mark.parametrize("solver", MAIN)
def test_own_models_that_do_not(seed, solver):
    X, Y = tag_problem(seed)
    optimum = tag_optimum(Tags(), X, Y, 0.8)
    svm = mm.StructuralSVM(Tags(), C=0.8, hinge="sum", solver=solver, tol=1e-6, random_state=0)
    certificate = quietly(lambda: svm.fit(X, Y)).certificate_
    assert certificate.primal == certificate.gap == np.inf
    assert not certificate.exact
    assert certificate.reduced_gap <= 1e-6
    assert certificate.dual <= optimum.primal * (1 + 1e-9)
    assert mm.objective(svm, svm.coef_, X, Y) == np.inf


def test_outputs_must_hold_the_truth(seed):
    class Forgetful(ListedTags):
        def outputs(self, x):
            return [(0, 0)]

    X, Y = tag_problem(seed)
    with refusal("outputs", "true output", kinds=(mm.OracleError,)):
        mm.StructuralSVM(Forgetful(), hinge="sum").fit(X, Y)


# Kernels, threads.


@pytest.mark.parametrize("base", ["multiclass-cost-dense", "chain-1to4-dense"])
@pytest.mark.parametrize("solver", MAIN)
def test_a_linear_kernel_is_the_linear_problem(seed, solver, base):
    case = make_case(base, seed)
    optimum = optimum_of(case)
    model = models.Kernel(built_in(case), kernel="linear")
    tol = 1e-6 * optimum.value / case.budgets.sum()
    svm = mm.StructuralSVM(
        model, C=case.C, hinge="sum", solver=solver, tol=tol, max_passes=10**5, random_state=0
    ).fit(case.X, case.Y)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(optimum.value, rel=1e-5)


@pytest.mark.parametrize("solver", MAIN)
def test_threads_reach_the_same_optimum(seed, solver):
    case = chain_case(fresh(seed, 103), n=12, lengths=(3, 2), n_classes=3, C=0.5)
    svm = fit(case, solver, n_jobs=3, relative=1e-6)
    assert svm.certificate_.converged
    assert_truthful(case, svm)
    again = fit(case, solver, n_jobs=3, relative=1e-6)
    assert svm.coef_.tobytes() == again.coef_.tobytes()


# Conventions of an estimator.


@pytest.mark.parametrize("kind", ["multiclass", "chain"])
@pytest.mark.parametrize("solver", MAIN)
def test_warm_start(seed, solver, kind):
    make = multiclass_case if kind == "multiclass" else chain_case
    case = make(fresh(seed, 104), n=8, C=0.4)
    svm = fit(case, solver, warm_start=True)
    cold, dual = svm.certificate_.passes, svm.certificate_.dual
    svm.fit(case.X, case.Y)
    assert svm.history_["dual"][0] >= dual * (1 - 1e-12)
    assert svm.certificate_.converged
    assert svm.certificate_.passes <= cold
    for C in (1.0, 0.2):  # the smaller C clips multipliers
        svm.set_params(C=C).fit(case.X, case.Y)
        changed = case.replace(C=C)
        assert_truthful(changed, svm)
        assert svm.certificate_.converged


def test_certify_objective_save_and_load(seed, tmp_path):
    case = chain_case(fresh(seed, 105), n=8, lengths=(3, 2), n_classes=3, C=0.5)
    svm = fit(case)
    again = mm.certify(svm, case.X, case.Y)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-12)
    assert again.converged
    w = fresh(seed, 106).normal(size=svm.coef_.shape)
    by_hand = summed_primal(case.blocks, case.budgets, w)
    assert mm.objective(svm, w, case.X, case.Y) == pytest.approx(by_hand, rel=1e-10)
    svm.save(tmp_path / "summed.mm")
    loaded = mm.load(tmp_path / "summed.mm")
    assert loaded.hinge == "sum"
    assert loaded.certificate_ == svm.certificate_
    assert mm.objective(loaded, w, case.X, case.Y) == pytest.approx(by_hand, rel=1e-10)


def test_a_file_holds_what_is_not_proven(seed, tmp_path):
    X, Y = [np.ones((500, 1))], [np.arange(500) % 9]
    svm = mm_svm(models.Chain(), X, Y)
    svm.save(tmp_path / "open.mm")
    assert mm.load(tmp_path / "open.mm").certificate_.gap == np.inf


def test_grid_search(seed):
    case = multiclass_case(fresh(seed, 107), n=30, n_classes=3)
    grid = {"C": [0.01, 1.0], "hinge": ["max", "sum"]}
    for estimator in (mm.MulticlassSVC(), mm.StructuralSVM(models.Multiclass())):
        found = GridSearchCV(clone(estimator), grid, cv=3).fit(case.X, case.Y)
        assert set(found.cv_results_["param_hinge"]) == {"max", "sum"}
        assert found.best_estimator_.certificate_.converged


def test_multipliers_outside_the_box_are_refused(seed):
    case = multiclass_case(fresh(seed, 108))
    svm = fit(case)
    problem = svm._problem_of(svm.model_.bind(case.X, case.Y), None)
    support = svm.support_
    outside = type(support)(support.blocks, 2 * support.multipliers + 1, support.outputs)
    assert problem.dual_objective(outside) == -np.inf
    with refusal("feasible"):
        problem.check_feasible(outside)
    doubled = [
        np.concatenate([part, part])
        for part in (support.blocks, support.multipliers, support.outputs)
    ]
    with refusal("twice"):
        problem.dual_objective(type(support)(*doubled))


def test_who_cannot_says_who_can(seed):
    case = multiclass_case(fresh(seed, 109))
    for name, kind in solvers.SOLVERS.items():
        if name in (*MAIN, "streaming"):
            continue
        with refusal(name, "sum", "sdcd", "one-slack", "n-slack", "streaming"):
            fit(case, kind())
    with refusal("sdcd", "max", "proximal"):
        mm.StructuralSVM(models.Multiclass(), solver="sdcd").fit(case.X, case.Y)
    with refusal("partial_fit", "solver", "proximal"):
        svm = mm.StructuralSVM(models.Multiclass(), hinge="sum", solver="proximal")
        svm.partial_fit(case.X, case.Y)
    with refusal("LatentSVM", "hinge", "sum"):
        latent = models.Latent(models.Multiclass(), parts=2)
        mm.LatentSVM(latent, hinge="sum").fit(case.X, case.Y)
    with refusal("OneSlack", "nonnegative", "n-slack", "sdcd"):
        fit(case, "one-slack", nonnegative=[0])


@pytest.mark.parametrize(
    "options",
    [
        {"searches": -1},
        {"sweeps": 0},
        {"inner": 1.0},
        {"order": "sorted"},
        {"keep": -1},
        {"violators": -1},
    ],
)
def test_bad_options_are_refused(options):
    with refusal("SDCD", next(iter(options))):
        solvers.SDCD(**options)
