"""hinge="sum": every solver reaches the dense QP over all outputs, and reported values are proven."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import assert_truthful, built_in, quietly
from maxmargin import models, solvers
from maxmargin.formulation import Formulation
from reference.cases import binary_case, chain_case, fresh, multiclass_case
from reference.problems import make_case
from reference.twins import EnumeratedBlocks
from reference.twins_summed import sdcd
from summed_cases import MAIN, fit, mm_svm, optimum_of


@pytest.mark.parametrize("C", [1e-3, 20.0])
@pytest.mark.parametrize("solver", MAIN)
def test_small_and_large_c(seed, solver, C):
    case = make_case("chain-mean-weights", seed).replace(C=C)
    optimum = optimum_of(case)
    svm = fit(case, solver)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(optimum.value, rel=1e-6)
    assert_truthful(case, svm)


def test_auto_takes_sdcd(seed):
    case = multiclass_case(fresh(seed, 90))
    assert fit(case).solver_ == "sdcd"


def test_two_classes_have_one_hinge(seed):
    """With two outputs the sum equals the maximum."""
    case = binary_case(fresh(seed, 91), costs=True, C=0.7)
    svm = fit(case)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)


def test_weston_and_watkins(seed):
    """MulticlassSVC(hinge="sum") matches their formula; the intercept is a constant feature."""
    case = multiclass_case(fresh(seed, 92), n=15, n_classes=4, bias=1.0, C=0.6)
    y = np.array(case.Y)
    svm = mm.MulticlassSVC(C=0.6, hinge="sum", tol=1e-9, random_state=0).fit(case.X, y)
    scores = case.X @ svm.coef_.T + svm.intercept_
    margins = 1 + scores - scores[np.arange(len(y)), y][:, None]
    margins[np.arange(len(y)), y] = 0
    square = (svm.coef_**2).sum() + (svm.intercept_**2).sum()
    by_hand = 0.5 * square + 0.6 * np.maximum(margins, 0).sum()
    assert svm.certificate_.primal == pytest.approx(by_hand, rel=1e-9)
    assert by_hand == pytest.approx(optimum_of(case).value, rel=1e-6)
    other = mm.MulticlassSVC(C=0.6, tol=1e-9, random_state=0).fit(case.X, y)
    assert other.certificate_.primal < 0.99 * by_hand  # the maximum is a different problem


# The algorithm of the paper.


@pytest.mark.parametrize(
    "make",
    [
        lambda g: chain_case(g, n=8, lengths=(1, 3, 2), costs=True, start=True, end=True),
        lambda g: chain_case(g, n=8, lengths=(3, 2), costs=True, mean=True, weighted=True, C=3.0),
    ],
    ids=["chain", "chain-mean-weights"],
)
def test_dual_after_each_pass_is_the_twins(seed, make):
    case = make(fresh(seed, 93))
    blocks = EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)
    expected, _ = sdcd(blocks, passes=9, searches=3, sweeps=4)
    solver = solvers.SDCD(searches=3, sweeps=4, inner=0, order="cyclic", keep=0, violators=0)
    svm = quietly(lambda: fit(case, solver, relative=1e-12, max_passes=9))
    found = svm.history_["dual"][: len(expected)]
    # Steps use norms in single precision, so they are optimal to about 1e-7; the certificate is in double.
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-6)
    assert len(found) >= 8


@pytest.mark.parametrize("C", [0.01, 0.3, 3.0])
def test_the_printed_mode_ends_where_the_twin_ends(seed, C):
    case = chain_case(fresh(seed, 97), n=8, lengths=(1, 3, 2), costs=True, C=C)
    blocks = EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)
    change = 1e-4 * C**2
    expected, alpha = sdcd(blocks, passes=1000, change=change)
    svm = quietly(lambda: fit(case, solvers.SDCD.printed(change), tol=1e-12, max_passes=3000))
    assert svm.certificate_.status == "multipliers unchanged"
    found = svm.history_["dual"]
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert svm.history_["planes"][-1] == sum(map(len, alpha))
    assert svm.certificate_.reduced_gap is not None


def test_the_printed_threshold_ends_after_one_pass_where_c_is_a_hundredth(seed):
    # In the first pass a block gets one output, whose multiplier moves by at most C. C^2 = 1e-4
    # does not exceed the threshold.
    case = chain_case(fresh(seed, 98), n=8, lengths=(1, 3, 2), C=0.01)
    svm = quietly(lambda: fit(case, solvers.SDCD.printed(), tol=1e-12))
    assert svm.certificate_.status == "multipliers unchanged"
    assert len(svm.history_["dual"]) == 1


@pytest.mark.parametrize(
    "name", ["multiclass-cost-csr-weights", "chain-1to4-dense", "chain-mean-weights"]
)
def test_the_dual_never_falls(seed, name):
    svm = fit(make_case(name, seed), "sdcd")
    dual = svm.history_["dual"]
    assert (np.diff(dual) >= -1e-12 * dual[-1]).all()


# Laws.


@pytest.mark.parametrize("solver", MAIN)
def test_weights_are_copies(seed, solver):
    case = chain_case(fresh(seed, 94), n=5, lengths=(2, 1, 3), n_classes=3, C=0.5)
    weights = np.array([2, 1, 0, 3, 1])
    again = np.repeat(np.arange(5), weights)
    copies = case.replace(X=[case.X[i] for i in again], Y=[case.Y[i] for i in again])
    svm = fit(case.replace(sample_weight=weights.astype(float)), solver)
    optimum = optimum_of(copies)
    assert svm.certificate_.primal == pytest.approx(optimum.value, rel=1e-6)
    assert fit(copies, solver).certificate_.dual == pytest.approx(optimum.value, rel=1e-6)
    assert 2 not in svm.support_.blocks


@pytest.mark.parametrize("solver", MAIN)
def test_renamed_labels_are_the_same_problem(seed, solver):
    case = multiclass_case(fresh(seed, 95), n=12, n_classes=4)
    names = np.array(["d", "a", "c", "b"])
    svm = mm.StructuralSVM(
        models.Multiclass(), hinge="sum", solver=solver, tol=1e-9, random_state=0
    )
    first = svm.fit(case.X, case.Y)
    second = clone(svm).fit(case.X, names[case.Y])
    assert second.certificate_.primal == pytest.approx(first.certificate_.primal, rel=1e-7)
    order = [second.classes_.tolist().index(name) for name in names]
    table = second.coef_.reshape(4, -1)[order]
    np.testing.assert_allclose(table, first.coef_.reshape(4, -1), atol=1e-3)


def test_the_sum_is_never_below_the_maximum(seed):
    case = chain_case(fresh(seed, 96), n=6, lengths=(3, 2), n_classes=3, C=0.3)
    assert optimum_of(case).value >= case.optimum.value * (1 - 1e-9)
    assert fit(case).certificate_.primal >= case.optimum.value * (1 - 1e-6)


# Sums over all labellings of a chain.


def brute_force(case, w):
    return np.array(
        [np.maximum(block.offsets + block.vectors @ w, 0.0).sum() for block in case.blocks]
    )


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
def test_sums_of_chains_are_listed_or_bracketed(seed, rescaling, scale):
    generator = fresh(seed, 97)
    case = chain_case(
        generator, n=6, lengths=(5, 1, 4), n_classes=3, costs=True, start=True, end=True
    ).replace(rescaling=rescaling)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    exact = model.bind(case.X, case.Y).under(Formulation("sum", rescaling)).answers
    for _ in range(3):
        w = scale * generator.normal(size=model.size_joint_feature)
        truth = brute_force(case, w)
        floors, ceilings = exact.sums(w, 2, 10_000, 10**6)
        np.testing.assert_allclose(floors, truth, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(floors, ceilings)
        widths = []
        for work in (0, 10**4, 10**6):
            floors, ceilings = exact.sums(w, 1, 0, work)
            assert (floors <= truth * (1 + 1e-12) + 1e-12).all()
            assert (ceilings >= truth * (1 - 1e-12)).all()
            widths.append((ceilings - floors).sum())
        assert widths[2] <= 0.05 * truth.sum() + 1e-12
        assert widths[2] <= widths[0] + 1e-9 * truth.sum()


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_sums_of_graphs_are_listed_or_have_a_ceiling(seed, rescaling):
    """On forests the bound of an unlisted sum is far above its value."""
    generator = fresh(seed, 98)
    case = make_case("graph-forest-symmetric", seed).replace(rescaling=rescaling)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    exact = model.bind(case.X, case.Y).under(Formulation("sum", rescaling)).answers
    for scale in (0.0, 0.3, 3.0):
        w = scale * generator.normal(size=model.size_joint_feature)
        truth = brute_force(case, w)
        for floors, ceilings in (exact.sums(w, 1, 10**6, 0), exact.sums(w, 1, 0, 0)):
            assert (floors <= truth * (1 + 1e-12) + 1e-12).all()
            assert (ceilings >= truth * (1 - 1e-12) - 1e-12).all()
        listed = exact.sums(w, 1, 10**6, 0)
        np.testing.assert_allclose(listed[0], truth, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(*listed)


def test_more_labellings_than_a_double_counts(seed):
    """At w = 0 all 8^1000 labellings violate: the upper bound is infinite, and no value is NaN."""
    generator = fresh(seed, 98)
    X = [generator.normal(size=(400, 2)), generator.normal(size=(3, 2))]
    Y = [generator.integers(8, size=400), generator.integers(8, size=3)]
    model = models.Chain(classes=range(8))
    model.initialize(X, Y)
    examples = model.bind(X, Y).under(Formulation("sum"))
    floors, ceilings = examples.slacks(np.zeros(examples.dimension))
    assert np.isinf(ceilings[0])
    assert 0 < floors[0] < np.inf
    # The sum over y of the number of mistakes is T K^T (1 - 1/K).
    assert floors[1] == ceilings[1] == pytest.approx(3 * 8**3 * 7 / 8)
    assert mm.objective(mm_svm(model, X, Y), np.zeros(examples.dimension), X, Y) == np.inf


# Certificates when not all outputs can be tried.


@pytest.mark.parametrize("solver", MAIN)
def test_the_reduced_problem_ends_training_and_says_so(seed, solver):
    kinds = {"sdcd": solvers.SDCD, "one-slack": solvers.OneSlack, "n-slack": solvers.NSlack}
    case = chain_case(fresh(seed, 99), n=6, lengths=(3, 2), n_classes=4, C=0.05)
    optimum = optimum_of(case)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        svm = fit(case, kinds[solver](violators=0), relative=1e-6)
    certificate = svm.certificate_
    assert certificate.status == "reduced problem solved"
    assert not certificate.converged
    assert any("reduced" in str(w.message) for w in caught)
    assert 0 <= certificate.reduced_gap <= certificate.tol
    assert certificate.dual < 0.999 * optimum.dual  # some violators were missed
    assert certificate.gap > certificate.tol
    assert_truthful(case, svm)
    assert fit(case, kinds[solver]()).certificate_.converged


@pytest.mark.parametrize("solver", MAIN)
def test_trees_have_a_lower_bound_only(seed, solver):
    case = make_case("grammar-spans-weights", seed)
    optimum = optimum_of(case)
    svm = quietly(lambda: fit(case, solver, relative=1e-5))
    certificate = svm.certificate_
    assert certificate.primal == certificate.gap == np.inf
    assert not certificate.exact
    assert not certificate.converged
    assert certificate.status == "reduced problem solved"
    assert certificate.reduced_gap <= certificate.tol
    assert 0 < certificate.dual <= optimum.primal * (1 + 1e-9)
