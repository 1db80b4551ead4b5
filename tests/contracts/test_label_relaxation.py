"""Sets of labels in the linear relaxation: slacks, certificates, and when "auto" chooses GDMM."""

import numpy as np
import pytest
from scipy.optimize import linprog

import maxmargin as mm
from helpers import quietly
from label_cases import attractive, independent, problem_of
from maxmargin import models, solvers
from reference.cases import fresh


def local_polytope_value(counts, unary, links, tables):
    """Return the optimum of the linear relaxation of a pairwise binary problem, by a general solver."""
    n, links = len(counts), np.reshape(links, (-1, 2))
    rows = np.zeros((n + 4 * len(links), 2 * n + 4 * len(links)))
    right = np.zeros(len(rows))
    for v in range(n):
        rows[v, 2 * v : 2 * v + 2], right[v] = 1, 1
    for k, (a, b) in enumerate(links):
        own, first = n + 4 * k, 2 * n + 4 * k
        for y in range(2):
            rows[own + y, first + 2 * y : first + 2 * y + 2], rows[own + y, 2 * a + y] = 1, -1
            rows[own + 2 + y, [first + y, first + 2 + y]], rows[own + 2 + y, 2 * b + y] = 1, -1
    found = linprog(-np.concatenate([unary, tables]), A_eq=rows, b_eq=right, bounds=(0, 1))
    return -found.fun


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_relaxed_slacks_are_those_of_the_linear_relaxation(seed, scale):
    """Roof duality gives the slacks of the linear relaxation."""
    g = fresh(seed, 65)
    X, Y = independent(g, n=8)
    problem = problem_of(X, Y, 1.0)
    examples = problem.examples
    for _ in range(4):
        w = scale * g.normal(size=problem.dimension)
        found, ceilings = problem.relaxed_bounds(w)
        exact = problem.slacks(w)
        assert (found <= exact + 1e-9).all() and (exact <= ceilings + 1e-9).all()
        for i in range(len(Y)):
            truth = w @ examples.factors.joint_feature(i, Y[i])
            value = local_polytope_value(*examples.core.problem(w, i, True))
            assert ceilings[i] == pytest.approx(value - truth, rel=1e-7, abs=1e-7)


def test_the_relaxation_is_looser_somewhere(seed):
    """If no slack differed, the test above would compare labellings only."""
    g = fresh(seed, 68)
    most = 0.0
    for _ in range(15):
        X, Y = independent(g, n=8)
        problem = problem_of(X, Y, 1.0)
        w = 3.0 * g.normal(size=problem.dimension)
        most = max(most, float(np.max(problem.relaxed_bounds(w)[1] - problem.slacks(w))))
    assert most > 1e-3


def test_the_certificate_closes_on_the_relaxation(seed):
    X, Y = attractive(fresh(seed, 66))
    svm = mm.StructuralSVM(models.MultiLabel(bias=1.0), C=0.5, solver="gdmm", tol=1e-3)
    svm.set_params(max_passes=5000, random_state=0).fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.exact and svm.certificate_.relaxed


def test_auto_takes_gdmm_for_sets_of_many_labels():
    """Above 100 labels with many pairs "auto" trains with GDMM, unless GDMM cannot honour a parameter."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 3))
    for labels, pairs, solver, options in (
        (100, "all", "proximal", {}),
        (101, "all", "gdmm", {}),
        (101, "none", "proximal", {}),
        (101, [(k, k + 1) for k in range(100)], "proximal", {}),
        (101, "all", "proximal", {"nonnegative": [0]}),
    ):
        Y = (generator.uniform(size=(12, labels)) < 0.1).astype(int)
        Y[0] = 1
        svm = mm.StructuralSVM(models.MultiLabel(pairs), max_passes=2, **options)
        quietly(lambda svm=svm, Y=Y: svm.fit(X, Y))
        assert svm.solver_ == solver
        assert svm.certificate_.relaxed == (solver == "gdmm")


STALLED = {  # a blocked label needs the links to all labels that left before, in one visit
    "one at a time": ([[1.0]], [[0, 1]], 1.0, {"grow": 1}),
    "one round": ([[1.0]], [[0, 1]], 1.0, {"inner": 1}),
    "order": ([[-2.0], [1.0], [1.0]], [[0, 0], [0, 0], [1, 0]], 0.5, {}),
}


@pytest.mark.parametrize("name", STALLED)
def test_blocked_labels_go_on(name):
    X, Y, C, options = STALLED[name]
    svm = mm.StructuralSVM(models.MultiLabel(), C=C, solver=solvers.Gdmm(**options), random_state=0)
    assert svm.fit(np.array(X), np.array(Y)).certificate_.converged


@pytest.mark.parametrize("options", [{}, {"inner": 1}, {"grow": 1}, {"grow": 1, "inner": 8}])
def test_small_problems_are_solved_with_any_options(seed, options):
    g = fresh(seed, 67)
    for _ in range(12):
        n, labels = int(g.integers(1, 8)), int(g.integers(2, 9))
        X, Y = g.normal(size=(n, 2)), (g.uniform(size=(n, labels)) < 0.5).astype(int)
        svm = mm.StructuralSVM(models.MultiLabel(), solver=solvers.Gdmm(**options))
        svm.set_params(C=0.25, warm_start=True, max_passes=3000, random_state=0).fit(X, Y)
        assert svm.certificate_.converged
        assert svm.set_params(C=0.1).fit(X, Y).certificate_.converged
