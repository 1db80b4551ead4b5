"""Cutting planes for each example: batches, dropped outputs, precision, and the bound on rounds."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import (
    as_python,
    assert_optimal,
    built_in,
    fit,
    quietly,
)
from maxmargin import solvers
from maxmargin.models.python import bind_model
from maxmargin.problem import Formulation, Problem
from plane_cases import counts, open_problem
from reference.cases import chain_case, multiclass_case


@pytest.mark.parametrize("first", [0, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"inner": "line-search"}])
def test_weights_of_zero_and_a_searching_argmax(options, first, seed):
    """A dual point with as many planes as blocks may have no plane of some block; then it is not a cut."""
    for own in range(first, 20 if first else 4):
        case = multiclass_case(
            np.random.default_rng([seed, own]), n=4, n_classes=4, n_features=2, costs=True
        )
        weights = np.array([1.0, 1.0, 0.0, 0.0])
        case = case.replace(rescaling="slack", sample_weight=weights, C=0.5)
        svm = warm_started(case, solvers.OneSlack(**options))
        assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)


def warm_started(case, solver):
    """Return a fit that starts from the multipliers of another solver and C."""
    model, X = as_python(case)
    svm = mm.StructuralSVM(
        model, C=1.0, rescaling="slack", solver="n-slack", tol=1e-4, max_passes=60
    )
    quietly(lambda: svm.fit(X, case.Y, sample_weight=case.sample_weight))
    svm.set_params(warm_start=True, solver=solver, C=case.C, max_passes=40)
    return quietly(lambda: svm.fit(X, case.Y, sample_weight=case.sample_weight))


class CountingNSlack(solvers.NSlack):
    """Counts the programs and the outputs that were added."""

    def solve(self, problem, state):
        super().solve(problem, state)
        counts(self).append(state.n_planes)

    def ask(self, problem, state, blocks):
        joined, violation = super().ask(problem, state, blocks)
        counts(self, "joined").append(joined)
        return joined, violation


@pytest.mark.parametrize("hinge", ["max", "sum"])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_a_program_waits_for_a_batch_of_outputs(batch, hinge, generator):
    case = chain_case(generator, n=12, lengths=(1, 4), n_classes=3)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    problem = Problem(model.bind(case.X, case.Y), case.C, None, Formulation(hinge, "margin"))
    solver = CountingNSlack(batch=batch)
    state = solver.start(problem, 1e-3, generator)
    for _ in range(4):
        counts(solver, "joined").clear(), counts(solver).clear()
        solver.step(problem, state)
        assert len(counts(solver)) == -(-sum(counts(solver, "joined")) // batch)


def test_outputs_without_a_multiplier_leave(generator):
    case = chain_case(generator, n=10, lengths=(2, 4), n_classes=4)
    kept = {}
    for keep in (0, 3):
        solver = CountingNSlack(batch=5, keep=keep)
        svm = fit(case, solver, relative=1e-6)
        assert_optimal(case, svm)
        kept[keep] = max(counts(solver))
        if keep == 0:
            assert (np.diff(counts(solver)) >= 0).all()
    assert kept[3] < kept[0]


def test_a_growing_precision_sweeps_less(generator):
    case = chain_case(generator, n=10, lengths=(2, 4), n_classes=4).replace(C=1.0)
    problem = open_problem(case)
    sweeps, visit = {}, solvers.dual_state.DualState.visit
    for growing in (False, True):
        counted = []

        def watched(self, order, *given, counted=counted, **named):
            counted.append(named.get("oracle", True))
            return visit(self, order, *given, **named)

        solver = solvers.NSlack(batch=3, growing=growing)
        state = solver.start(problem, 1e-3, np.random.default_rng(0))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solvers.dual_state.DualState, "visit", watched)
            while solver.step(problem, state).estimate > 1e-3:
                pass
        sweeps[growing] = counted.count(False)
    assert sweeps[True] < 0.8 * sweeps[False]


class OneOfMany:
    """The example after Theorem 6: Psi(x, y) puts x in position y, and every mistake costs one."""

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def initialize(self, X, Y):
        self.size_joint_feature = self.n_classes

    def joint_feature(self, x, y):
        return x * (np.arange(self.n_classes) == y)

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def inference(self, x, w):
        return int(np.argmax(x * w))

    def loss_augmented_inference(self, x, y, w):
        return int(np.argmax(x * w + (np.arange(self.n_classes) != y)))


@pytest.mark.parametrize("C", [0.1, 0.25, 0.5, 2.0])
def test_the_bound_on_rounds_is_tight(C):
    # After k cuts w = (c, -c/k, ..., -c/k, 0, ...) with c = min(C, k / (k + 1)). All other
    # constraints are violated by c/k, which is the gap, so epsilon takes about c / epsilon rounds.
    model, most = OneOfMany(40), 30
    model.initialize([1.0], [0])
    problem = Problem(bind_model(model, [1.0], [0]), C=C)
    solver = solvers.OneSlack(cache=0, accuracy=1e-6)
    state = solver.start(problem, 1e-9, np.random.default_rng(0))
    for k in range(1, most + 1):
        solver.step(problem, state)
        w, support = state.w, state.support()
        c = min(C, k / (k + 1))
        expected = np.r_[np.full(k, -c / k), np.zeros(model.n_classes - k - 1), c]
        np.testing.assert_allclose(np.sort(w), expected, atol=1e-3 * c / k)
        found = problem.certify(w, support)
        assert (found.primal - found.dual) / C == pytest.approx(c / k, rel=1e-2)
