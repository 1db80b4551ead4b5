"""The formulas of docs/objective.md hold: definition, gap, and the objectives of other programs."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import models
from reference.cases import binary_case, chain_case, fresh, multiclass_case
from reference.dense_qp import dual_objective, primal_objective
from reference.multivariate import labelling_block

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))


# Formulas of docs/objective.md, on small random problems with all outputs enumerated.


@pytest.fixture(params=["multiclass", "binary", "chain"])
def case(request, seed):
    if request.param == "binary":
        return binary_case(fresh(seed, 44), costs=True, weighted=True, C=0.7)
    if request.param == "multiclass":
        return multiclass_case(fresh(seed, 40), costs=True, weighted=True, C=0.7)
    return chain_case(fresh(seed, 41), lengths=(1, 3, 2), costs=True, weighted=True, C=0.7)


@dataclasses.dataclass
class Point:
    """A feasible dual point a, and its q."""

    multipliers: list
    q: np.ndarray

    @classmethod
    def draw(cls, case, generator):
        shares = [generator.dirichlet(np.ones(len(block.offsets))) for block in case.blocks]
        a = [c * share for c, share in zip(case.budgets, shares, strict=True)]
        q = -sum(x @ block.vectors for x, block in zip(a, case.blocks, strict=True))
        return cls(a, q)

    def shares_of_the_gap(self, case, w):
        """Return g_i of every block, and the masses."""
        g = []
        for a, block, mass in zip(self.multipliers, case.blocks, case.budgets, strict=True):
            s = block.offsets + block.vectors @ w
            g.append(s.max() - (a @ s / mass if mass > 0 else 0.0))
        return np.array(g)


def gap_of(case, point, w):
    """P(w) - D(a) by definition, in NumPy."""
    slacks = [(block.offsets + block.vectors @ w).max() for block in case.blocks]
    primal = 0.5 * w @ w + case.budgets @ np.array(slacks)
    losses = sum(a @ block.offsets for a, block in zip(point.multipliers, case.blocks, strict=True))
    return primal - (losses - 0.5 * point.q @ point.q)


def package_problem(case):
    """Return the same problem in the package."""
    kinds = {"multiclass": models.Multiclass, "binary": models.Binary, "chain": models.Chain}
    model = kinds[case.kind](loss=case.options["costs"])
    model.initialize(case.X, case.Y)
    return model, mm.Problem(model.bind(case.X, case.Y), case.C, case.sample_weight)


def test_primal_is_the_definition(case, generator):
    model, problem = package_problem(case)
    w = generator.normal(size=problem.dimension)
    slacks = np.array([(b.offsets + b.vectors @ w).max() for b in case.blocks])
    by_hand = 0.5 * w @ w + case.budgets @ slacks
    assert problem.slacks(w) == pytest.approx(slacks, rel=1e-12, abs=1e-12)
    assert (slacks >= 0).all()
    for value in (
        problem.objective(w),
        primal_objective(case.blocks, case.budgets, w),
        mm.objective(model, w, case.X, case.Y, case.C, case.sample_weight),
    ):
        assert value == pytest.approx(by_hand, rel=1e-12)


def test_slack_is_no_less_than_the_loss_of_the_prediction(case, generator):
    model, problem = package_problem(case)
    w = generator.normal(size=problem.dimension)
    predicted = problem.examples.predict(w, 1)
    losses = [model.loss(y, y_hat) for y, y_hat in zip(case.Y, predicted, strict=True)]
    assert (problem.slacks(w) >= np.array(losses) - 1e-12).all()


def test_every_dual_is_below_every_primal(case, generator):
    for _ in range(20):
        point = Point.draw(case, generator)
        w = generator.normal(size=len(point.q)) * generator.exponential()
        assert gap_of(case, point, w) >= 0


@pytest.mark.parametrize("k", [0.0, 0.3, 5.0])
def test_gap_identity_with_a_proximal_term(case, generator, k):
    point = Point.draw(case, generator)
    z = generator.normal(size=len(point.q))
    w = (point.q + k * z) / (1 + k)
    g = point.shares_of_the_gap(case, w)
    assert (g >= -1e-12).all()
    identity = case.budgets @ g + 0.5 * k**2 * (w - z) @ (w - z)
    assert gap_of(case, point, w) == pytest.approx(identity, rel=1e-10)


def test_gap_identity_for_any_w(case, generator):
    point = Point.draw(case, generator)
    w = generator.normal(size=len(point.q))
    identity = case.budgets @ point.shares_of_the_gap(case, w) + 0.5 * np.sum((w - point.q) ** 2)
    assert gap_of(case, point, w) == pytest.approx(identity, rel=1e-10)


def test_primal_and_dual_meet_at_w_equal_q(case):
    best = case.optimum
    assert best.primal == pytest.approx(best.dual, rel=1e-9)
    vectors = [block.vectors for block in case.blocks]
    q = -sum(a @ psi for a, psi in zip(best.multipliers, vectors, strict=True))
    np.testing.assert_allclose(best.w, q, atol=1e-5 * np.abs(q).max())


def test_certificate_is_in_units_of_the_loss(case):
    model, _ = package_problem(case)
    svm = mm.StructuralSVM(model, C=case.C, tol=1e-4).fit(case.X, case.Y, case.sample_weight)
    bounds = svm.certificate_
    assert bounds.gap == pytest.approx(
        (bounds.primal - bounds.dual) / case.budgets.sum(), abs=1e-12
    )
    assert bounds.dual <= case.optimum.primal and case.optimum.dual <= bounds.primal
    twice = np.array([(b.offsets + b.vectors @ svm.coef_).max() for b in case.blocks])
    assert bounds.primal == pytest.approx(
        0.5 * svm.coef_ @ svm.coef_ + case.budgets @ twice, rel=1e-8
    )


# The conversion table of docs/objective.md.


@pytest.fixture
def plain(seed):
    """Return a multiclass problem without weights, its number of blocks and a random w."""
    case = multiclass_case(fresh(seed, 42), n=9, C=1.0)
    return case, len(case.Y), fresh(seed, 43).normal(size=case.truth.size_joint_feature)


def slacks_of(case, w, features=1.0, losses=1.0):
    blocks = case.blocks
    return np.array([(losses * b.offsets + features * b.vectors @ w).max() for b in blocks])


def ours(case, w, C):
    model, _ = package_problem(case)
    return mm.objective(model, w, case.X, case.Y, C=C)


@pytest.mark.parametrize("lam", [1.0, 0.01])
def test_lambda_form(plain, lam):
    case, n, w = plain
    C = 1 / (lam * n)
    theirs = lam / 2 * w @ w + slacks_of(case, w).mean()
    assert theirs == pytest.approx(lam * ours(case, w, C), rel=1e-12)
    # Their epsilon is our tol: lambda (P - D) = (P - D) / (C n).
    point = Point.draw(case.replace(C=C), np.random.default_rng(0))
    gap = gap_of(case.replace(C=C), point, w)
    assert lam * gap == pytest.approx(gap / (C * n), rel=1e-12)


def test_svm_struct_form(plain):
    case, n, w = plain
    theirs = 0.5 * w @ w + 5.0 / n * slacks_of(case, w).sum()
    assert theirs == pytest.approx(ours(case, w, C=5.0 / n), rel=1e-12)


def test_dual_coordinate_form(plain):
    case, _, w = plain
    assert 0.5 * w @ w + slacks_of(case, w).sum() == pytest.approx(ours(case, w, C=1), rel=1e-12)
    folded = 0.5 * w @ w + slacks_of(case, w, features=3.0, losses=3.0).sum()
    assert folded == pytest.approx(ours(case, w, C=3.0), rel=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_liblinear_has_the_same_c(plain, intercept):
    case, _, _ = plain
    peer = LinearSVC(
        multi_class="crammer_singer", C=0.4, fit_intercept=intercept, tol=1e-9, max_iter=100_000
    ).fit(case.X, case.Y)
    svm = mm.MulticlassSVC(C=0.4, fit_intercept=intercept, tol=1e-9).fit(case.X, case.Y)
    if len(svm.classes_) > 2:
        np.testing.assert_allclose(svm.coef_, peer.coef_, atol=1e-4)
        np.testing.assert_allclose(svm.intercept_, peer.intercept_, atol=1e-4)
    parts = [peer.coef_, np.reshape(peer.intercept_, (-1, 1))] if intercept else [peer.coef_]
    primal = mm.objective(svm, np.hstack(parts), case.X, case.Y)
    assert primal == pytest.approx(svm.certificate_.primal, rel=1e-6)


def test_liblinear_hinge_has_the_same_c(generator):
    X, y, w = generator.normal(size=(9, 3)), np.arange(9) % 2, generator.normal(size=3)
    theirs = 0.5 * w @ w + 0.3 * np.maximum(0, 1 - (2 * y - 1) * (X @ w)).sum()
    svm = mm.StructuralSVM(models.Binary(), C=0.3).fit(X, y)
    assert mm.objective(svm, w, X, y) == pytest.approx(theirs, rel=1e-12)


def test_multivariate_form(generator):
    n, X, y = 7, generator.normal(size=(7, 3)), np.arange(7) % 2
    v, block = generator.normal(size=3), labelling_block("f1", X, y)
    # The reference has psi = 1/n sum over changed labels; their Psi = sum_i y_i x_i is 2 n times ours.
    theirs = 0.5 * v @ v + 0.3 * np.max(block.offsets + 2 * n * block.vectors @ v)
    model = models.Binary("f1")
    model.initialize(X, y)
    ours = mm.objective(model, 2 * n * v, X, y, C=4 * n**2 * 0.3)
    assert theirs == pytest.approx(ours / (4 * n**2), rel=1e-12)


def test_pair_step_is_exact_and_gains_what_the_page_says(case, generator):
    point = Point.draw(case, generator)
    i = int(np.argmax(case.budgets))
    block, a = case.blocks[i], point.multipliers[i]
    s = block.offsets + block.vectors @ point.q
    u = int(s.argmax())
    v = int(np.argmin(s))
    difference = block.vectors[u] - block.vectors[v]

    def dual_after(t):
        moved = [x.copy() for x in point.multipliers]
        moved[i][u] += t
        moved[i][v] -= t
        return dual_objective(case.blocks, moved)

    t = min(a[v], (s[u] - s[v]) / (difference @ difference))
    gain = t * (s[u] - s[v]) - t**2 / 2 * difference @ difference
    assert dual_after(t) - dual_after(0.0) == pytest.approx(gain, rel=1e-9, abs=1e-12)
    assert dual_after(t) >= max(dual_after(0.9 * t), dual_after(min(1.1 * t, a[v]))) - 1e-12
