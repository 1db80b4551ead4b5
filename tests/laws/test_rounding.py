"""The bounds of a certificate hold in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains
from maxmargin.models.python import bind_model
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import DISTRIBUTIONS
from maxmargin.solvers import make_solver
from maxmargin.train import train
from reference.exact_sums import exact_chains, without_transitions
from reference.python_chain import PythonMulticlass

SCALES = 30  # powers of ten, up and down
HINGES = ("max", "sum", "log", "softmax-margin")
PROBLEMS = 12  # for each model and formulation


def random_numbers(rng, shape):
    """Numbers of any size: alike, or each of its own."""
    sizes = 10.0 ** rng.uniform(-SCALES, SCALES, size=shape if rng.random() < 0.3 else ())
    return rng.normal(size=shape) * sizes


def random_problem(rng, kind, hinge, rescaling):
    """(Problem, Exact) of a few examples with features of any size."""
    n, d, K = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    lengths = rng.integers(1, 4, size=n) if kind == "chain" else np.ones(n, int)
    dtype = np.float32 if rng.random() < 0.2 else np.float64
    rows = random_numbers(rng, (lengths.sum(), d))
    X = np.split(rows.astype(dtype), np.cumsum(lengths)[:-1])
    Y = [rng.integers(K, size=length) for length in lengths]
    Y[0][0], Y[1][0] = 0, K - 1
    C, weights = 10.0 ** rng.uniform(-3, 3), rng.integers(1, 5, size=n).astype(float)
    mass = [Fraction(C) * Fraction(v) for v in weights]
    exact = exact_chains(X, Y, K, mass)
    exact.rescaling = rescaling
    if kind == "chain":
        model, flat = models.Chain(classes=range(K)), (X, Y)
    else:
        flat = np.concatenate(X), np.concatenate(Y)
        exact = without_transitions(exact, K)
        model = models.Multiclass(classes=range(K))
    if kind == "own":
        model, flat = PythonMulticlass(), (list(flat[0]), flat[1].tolist())
    model.initialize(*flat)
    examples = bind_model(model, *flat)
    return Problem(examples, C, weights, Formulation(hinge, rescaling)), exact


def random_weights(rng, problem, exact):
    """Weights whose scores are about as large as losses, or much larger; some of them cancel."""
    psi = [max(map(abs, p), default=Fraction(0)) for own in exact.planes for _, p in own]
    largest = max(float(max(psi)), 1e-300)
    w = rng.normal(size=problem.dimension) / largest * 10.0 ** rng.uniform(-1, 18)
    return np.round(w, 3) if rng.random() < 0.2 else w


def random_point(rng, problem, exact, hinge, w):
    """A feasible dual point, and its multipliers by output, or None for distributions."""
    if hinge in ("log", "softmax-margin"):
        return Support(np.arange(problem.n_blocks), problem.mass, w, kind=DISTRIBUTIONS), None
    multipliers = []
    for i, outputs in enumerate(exact.codes):
        truth = next(k for k, (loss, _) in enumerate(exact.planes[i]) if loss == 0)
        order = rng.permutation(len(outputs))[:2]
        if hinge == "max":
            multipliers += [(i, outputs[k], float(problem.mass[i]) / 2) for k in order]
        else:
            multipliers += [
                (i, outputs[k], float(problem.mass[i]) / 2) for k in order if k != truth
            ]
    labels = np.array([c for _, output, _ in multipliers for c in output], dtype=np.int32)
    blocks = np.array([i for i, _, _ in multipliers], dtype=np.int64)
    outputs = labels
    if problem.checked:
        outputs = [
            problem.examples.plane(int(i), int(k)) for i, k in zip(blocks, labels, strict=True)
        ]
    return Support(blocks, np.array([a for *_, a in multipliers]), outputs), multipliers


def check_bounds(rng, kind, hinge, rescaling):
    """Whether exact values are between the computed ones moved by the rounding; returns what was moved."""
    problem, exact = random_problem(rng, kind, hinge, rescaling)
    w = random_weights(rng, problem, exact)
    support, multipliers = random_point(rng, problem, exact, hinge, w)
    with np.errstate(all="ignore"):
        bounds = problem.certify(w, support)
    if not np.isfinite(bounds.primal + bounds.above):
        return
    value = exact.primal(w, hinge)
    assert value <= Fraction(bounds.primal) + Fraction(bounds.above)
    if hinge == "max" and rescaling == "margin":
        assert value >= Fraction(bounds.primal) - Fraction(bounds.above)
    least = Fraction(bounds.dual) - Fraction(bounds.below)
    assert least <= value
    assert least <= exact.primal(np.zeros(problem.dimension), hinge)
    if multipliers is not None:
        assert least <= max(exact.dual(multipliers), Fraction(0))


@pytest.mark.parametrize("hinge", HINGES)
@pytest.mark.parametrize("kind", ["multiclass", "chain"])
def test_exact_values_are_within_the_bounds(generator, kind, hinge):
    for _ in range(PROBLEMS):
        check_bounds(generator, kind, hinge, "margin")


def test_exact_values_are_within_the_bounds_of_own_models(generator):
    for _ in range(PROBLEMS):
        check_bounds(generator, "own", "max", "margin")


@pytest.mark.parametrize("kind", ["multiclass", "chain"])
def test_exact_values_are_within_the_bounds_of_slack_rescaling(generator, kind):
    for _ in range(PROBLEMS):
        check_bounds(generator, kind, "max", "slack")


SOLVERS = {"max": ("sda", "proximal", "bcfw", "one-slack"), "log": ("exponentiated", "lbfgs")}
FITTED = 6  # problems for each model and formulation


@pytest.mark.parametrize("hinge", SOLVERS)
@pytest.mark.parametrize("kind", ["multiclass", "chain"])
def test_certificates_of_fits_hold_in_exact_arithmetic(generator, kind, hinge):
    for _ in range(FITTED):
        problem, exact = random_problem(generator, kind, hinge, "margin")
        solver = str(generator.choice(SOLVERS[hinge]))
        with np.errstate(all="ignore"):
            result = train(
                problem, make_solver(solver, problem.formulation, problem), max_passes=20
            )
        c, value = result.certificate, exact.primal(result.w, hinge)
        assert np.isfinite(result.w).all()
        assert c.dual <= value <= c.primal
        assert c.status != "rounding" or not c.converged


def test_rounding_that_hides_the_gap_is_said():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    svm = mm.StructuralSVM(models.Binary(), tol=1e-15, solver="fasole", random_state=0)
    with pytest.warns(ConvergenceWarning, match="rounding.*scale the features"):
        svm.fit(X, y)
    c = svm.certificate_
    assert c.status == "rounding" and not c.converged
    assert c.gap > c.tol >= c.gap - c.rounding_gap and c.passes < 50
    again = mm.certify(svm, X, y)
    assert (again.rounding, again.gap) == pytest.approx((c.rounding, c.gap), rel=1e-6)


def test_rounding_is_far_below_the_tolerance_of_ordinary_data():
    X, Y = random_chains(40, random_state=0)
    for svm in (mm.StructuralSVM(models.Chain(), tol=1e-6), mm.CRF(models.Chain(), tol=1e-6)):
        c = svm.fit(X, Y).certificate_
        assert c.converged and c.rounding_gap < 1e-4 * c.tol
