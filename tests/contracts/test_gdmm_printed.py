"""Algorithms 2 and 3 in the paper's form: the steps of their twins, and the optimum."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, fit, quietly, refusal
from maxmargin import models, solvers
from maxmargin.problem import Problem, make_regularizer
from maxmargin.solvers.gdmm_graph import node_losses
from reference.cases import chain_case, fresh
from reference.problems import make_case
from reference.relaxed import relaxed_optimum
from reference.twins_gdmm_printed import BoundedTwin, FrankWolfeTwin

PRINTED = solvers.Gdmm(printed=True)


def problem_of(case, prior=None):
    model = built_in(case)
    model.initialize(case.X, case.Y)
    examples = model.bind(case.X, case.Y)
    regularizer = make_regularizer(prior, None, examples)
    return Problem(examples, case.C, case.sample_weight, regularizer=regularizer)


@pytest.mark.parametrize(
    "options",
    [
        {"lengths": (1, 3, 2), "costs": True, "start": True, "end": True},
        {"lengths": (3, 2), "costs": True, "mean": True, "weighted": True, "C": 3.0},
    ],
)
def test_algorithm_2_steps_as_its_twin(seed, options):
    case = chain_case(fresh(seed, 311), n=4, **options)
    # A mean prevents ties between labels, which rounding would decide.
    mean = 0.1 * fresh(seed, 316).normal(size=case.truth.size_joint_feature)
    problem = problem_of(case, (mean, 1.0))
    solver = solvers.Gdmm(printed=True, rho=0.7, eta=0.8, search="exhaustive")
    state = solver.start(problem, 1e-3, fresh(seed))
    twin = FrankWolfeTwin(case, state.rho, 0.8, mean)
    for _ in range(8):
        twin.step(problem.active)
        solver.step(problem, state)
        np.testing.assert_allclose(state.core.weights(), twin.weights(), atol=1e-6)
        assert state.bases.bases == len(twin.bases)


def test_algorithm_2_drops_bases(seed):
    """Check that drop steps occur; else the inner "until" would not be tested."""
    case = chain_case(fresh(seed, 312), n=4, lengths=(3, 2))
    problem = problem_of(case)
    state = PRINTED.start(problem, 1e-3, fresh(seed))
    sizes = []
    for _ in range(300):
        PRINTED.step(problem, state)
        sizes.append(state.bases.bases)
    assert max(sizes) > 1 and (np.diff(sizes) < 0).any()


def test_algorithm_2_goes_to_the_optimum(seed):
    case = chain_case(fresh(seed, 313), n=4, lengths=(3, 2))
    svm = quietly(lambda: fit(case, PRINTED, relative=1e-9, max_passes=3000))
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=2e-2)
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=2e-2)
    assert svm.certificate_.dual <= case.optimum.value * (1 + 1e-9)


@pytest.mark.parametrize("name", ["graph-forest-symmetric", "multilabel-all-csr"])
def test_algorithm_3_steps_as_its_twin(seed, name):
    case = make_case(name, seed)
    problem = problem_of(case)
    state = solvers.Gdmm(printed=True, rho=2.0, eta=0.5).start(problem, 1e-3, fresh(seed))
    mass = problem.mass
    losses = node_losses(problem.examples)
    penalty = np.divide(2.0 * losses, mass, out=np.zeros_like(mass), where=mass > 0)
    twin = BoundedTwin(problem.examples.factors, mass, penalty, 0.5, state.core.bound)
    for _ in range(6):
        twin.step(problem.active)
        state.core.visit(problem.active, 0.0)
        np.testing.assert_allclose(state.core.weights(), twin.w, atol=1e-8)
        assert state.core.active_nodes + state.core.active_links == sum(map(len, twin.active))


def test_q_max_bounds_the_curvature_of_every_factor(seed):
    """The bound is above the largest eigenvalue of each factor's Hessian."""
    for name in ("graph-forest-symmetric", "multilabel-all-csr"):
        problem = problem_of(make_case(name, seed))
        state = PRINTED.start(problem, 1e-3, fresh(seed))
        twin = BoundedTwin(
            problem.examples.factors, problem.mass, np.zeros(problem.n_blocks), 0.3, 1.0
        )
        most = max(np.linalg.eigvalsh(twin.features(f) @ twin.features(f).T).max() for f in twin.q)
        assert state.core.bound > most


def test_algorithm_3_goes_to_the_optimum_of_the_relaxation(seed):
    case = make_case("graph-forest-symmetric", seed)
    svm = quietly(lambda: fit(case, PRINTED, relative=1e-9, max_passes=4000))
    assert svm.certificate_.dual <= case.optimum.value * (1 + 1e-9)
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=2e-2)
    g = fresh(seed, 314)
    X = g.normal(size=(8, 3))
    Y = (X @ g.normal(size=(3, 4)) + g.normal(size=(8, 4)) > 0.3).astype(int)
    model = models.MultiLabel()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), 0.3)
    optimum = relaxed_optimum(problem.examples.factors, problem.mass)
    result = quietly(lambda: mm.train(problem, PRINTED, tol=1e-9, max_passes=4000, random_state=0))
    assert result.certificate.dual <= optimum * (1 + 1e-7)
    assert result.certificate.dual == pytest.approx(optimum, rel=3e-2)


def test_options_of_other_forms_are_refused(seed):
    case = chain_case(fresh(seed, 315), n=3)
    for options in ({"inner": 2}, {"direction": "pairwise", "grow": 3}):
        with refusal("cannot be set", "as printed"):
            fit(case, solvers.Gdmm(printed=True, **options))
    with refusal("one scale"):
        fit(case, PRINTED, nonnegative=[0])


# Priors and bounds in the metric of the core; another solver proves the optimum.
GIVEN = {
    "scales": lambda d: {"prior": (0.1, np.linspace(0.5, 2.0, d))},
    "bound": lambda d: {"nonnegative": np.arange(0, d, 2)},
    "matrix": lambda d: {"prior": (np.linspace(-0.3, 0.3, d), np.eye(d) + 0.3)},
}


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize(
    "name, solver",
    [
        ("chain", "gdmm"),
        ("graph-forest-symmetric", "gdmm"),
        ("graph-forest-symmetric", PRINTED),
    ],
    ids=["chain", "graph", "printed"],
)
def test_priors_and_bounds_have_the_optimum_of_other_solvers(seed, name, solver, kind):
    graph = name != "chain"
    case = make_case(name, seed) if graph else chain_case(fresh(seed, 317), n=4, lengths=(3, 2))
    given = GIVEN[kind](case.truth.size_joint_feature)
    if kind == "matrix" and not graph:
        with refusal("matrix"):
            fit(case, solver, **given)
        return
    best = fit(case, "proximal", relative=1e-7, **given).certificate_
    svm = quietly(lambda: fit(case, solver, relative=1e-9, max_passes=3000, **given))
    found = svm.certificate_
    assert found.dual <= best.primal * (1 + 1e-9) and found.primal >= best.dual * (1 - 1e-9)
    assert found.dual == pytest.approx(best.dual, rel=3e-2)
    if "nonnegative" in given:
        assert svm.coef_[given["nonnegative"]].min() >= 0


def test_algorithm_3_goes_on_from_the_last_fit(seed):
    case = make_case("graph-forest-symmetric", seed)
    svm = quietly(lambda: fit(case, PRINTED, relative=1e-9, max_passes=300, warm_start=True))
    before = svm.certificate_
    svm.set_params(max_passes=3)
    again = quietly(lambda: svm.fit(case.X, case.Y, sample_weight=case.sample_weight)).certificate_
    assert before.dual * (1 - 1e-6) <= again.dual <= case.optimum.value * (1 + 1e-9)
