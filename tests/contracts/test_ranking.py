"""Ranking against brute force over all orders, and with every feature of built-in models."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import maxmargin as mm
from helpers import prepared, quietly, refusal
from maxmargin import models
from maxmargin.formulation import Formulation
from maxmargin.models.ranking import heights
from reference.problems import RANKINGS, make_case


@pytest.fixture(params=RANKINGS)
def case(request, seed):
    return make_case(request.param, seed)


def best_of(block, w):
    return np.max(block.offsets + block.vectors @ w)


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 10.0])
def test_slacks_are_brute_force_and_the_sum_of_pair_hinges(case, generator, scale):
    examples = prepared(case).bind(case.X, case.Y)
    w = scale * generator.normal(size=examples.dimension)
    slacks = examples.slacks(w, 2)[0]
    np.testing.assert_allclose(slacks, [best_of(b, w) for b in case.blocks], atol=1e-10)
    for (rows, grades), slack in zip(case.truth.examples(case.X), slacks, strict=True):
        gaps = grades[:, None] - grades[None, :]
        scores = rows @ w
        hinges = np.maximum(0.0, gaps - (scores[:, None] - scores[None, :]))[gaps > 0]
        assert slack == pytest.approx(hinges.sum() / case.truth.total(grades), abs=1e-10)


def test_predictions_are_in_the_order_of_the_scores(case, generator):
    model = prepared(case)
    w = generator.normal(size=model.size_joint_feature)
    for x, found in zip(case.X, model.bind(case.X).predict(w, 2), strict=True):
        scores = np.asarray(x @ w).ravel()
        assert sorted(found) == list(range(len(found)))
        np.testing.assert_array_equal(np.argsort(found), np.argsort(scores))
        np.testing.assert_array_equal(model.inference(x, w), found)
    for x, scores in zip(case.X, model.scores(case.X, w), strict=True):
        np.testing.assert_allclose(scores, np.asarray(x @ w).ravel(), rtol=1e-6)


def test_planes_are_the_definition(case):
    model = prepared(case)
    examples = model.bind(case.X, case.Y)
    for i, block in enumerate(case.blocks):
        for order, loss, vector in zip(block.outputs, block.offsets, block.vectors, strict=True):
            codes = np.array(order, dtype=np.int32)
            assert examples.knows(codes, np.array([i]))
            offset, found = examples.combine(np.array([i]), np.ones(1), codes)
            assert offset == pytest.approx(loss, abs=1e-12)
            np.testing.assert_allclose(
                found, vector, atol=1e-6 if case.X[i].dtype == np.float32 else 1e-12
            )
            assert model.loss(case.Y[i], heights(codes)) == pytest.approx(loss, abs=1e-12)
    twice = np.zeros(len(case.Y[0]), np.int32)
    assert len(twice) == 1 or not examples.knows(twice, np.array([0]))


def test_slack_rescaling_is_searched_and_bounded(case, generator):
    case = case.replace(rescaling="slack")
    examples = prepared(case).bind(case.X, case.Y).under(Formulation(rescaling="slack"))
    for scale in (0.1, 1.0, 5.0):
        w = scale * generator.normal(size=examples.dimension)
        best = np.array([best_of(block, w) for block in case.blocks])
        found, ceilings = examples.slacks(w)
        assert (found <= best + 1e-9 * (1 + best)).all()
        assert (best <= ceilings + 1e-9 * (1 + best)).all()


def test_two_grades_are_the_area_under_the_curve(generator):
    X = [generator.normal(size=(9, 2)) for _ in range(3)]
    Y = [generator.permutation([0, 0, 0, 0, 1, 1, 1, 0, 1]) for _ in range(3)]
    svm = mm.StructuralSVM(models.Ranking(), tol=1e-6).fit(X, Y)
    for x, y, found in zip(X, Y, svm.predict(X), strict=True):
        area = roc_auc_score(y, x @ svm.coef_)
        assert 1 - svm.model_.loss(y, found) == pytest.approx(area)
    areas = [roc_auc_score(y, x @ svm.coef_) for x, y in zip(X, Y, strict=True)]
    # each query has the same number of pairs
    assert svm.score(X, Y) == pytest.approx(np.mean(areas))


def test_a_constant_feature_and_a_shift_of_grades_change_nothing(generator):
    X = [generator.normal(size=(4, 3)) for _ in range(5)]
    Y = [generator.integers(4, size=4).astype(float) for _ in range(5)]
    svm = mm.StructuralSVM(models.Ranking(), tol=1e-9, max_passes=10_000).fit(X, Y)
    moved = [np.column_stack([x, np.full(4, 7.0)]) for x in X]
    other = clone(svm).fit(moved, [y + 5 for y in Y])
    # |w - w*|^2 <= 2 (P - D), which tol bounds by 1e-8 for each.
    np.testing.assert_allclose(other.coef_, [*svm.coef_, 0.0], atol=3e-4)


def test_weights_are_one_part(generator):
    w = generator.normal(size=3)
    parts = models.Ranking().unpack(w)
    assert list(parts) == ["weights"]
    np.testing.assert_array_equal(parts["weights"], w)


def test_layouts_files_and_warm_starts_agree(generator, tmp_path):
    X = [generator.normal(size=(m, 4)) for m in (3, 1, 6, 2)]
    Y = [generator.integers(3, size=len(x)) for x in X]
    svm = mm.StructuralSVM(models.Ranking(), C=2.0, tol=1e-8, warm_start=True).fit(X, Y)
    rows = [sparse.csr_matrix(x) for x in X]
    np.testing.assert_allclose(clone(svm).fit(rows, Y).coef_, svm.coef_, atol=1e-3)
    before, passes = svm.coef_.copy(), svm.certificate_.passes
    assert svm.fit(X, Y).certificate_.passes < passes
    np.testing.assert_allclose(svm.coef_, before, atol=1e-3)
    svm.save(tmp_path / "ranking.mm")
    loaded = mm.load(tmp_path / "ranking.mm")
    for a, b in zip(loaded.predict(X), svm.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert mm.certify(svm, X, Y).gap <= 1e-7


def test_queries_in_chunks(generator):
    X = [generator.normal(size=(3, 2)) for _ in range(12)]
    Y = [x @ [1.0, -2.0] for x in X]
    svm = mm.StructuralSVM(models.Ranking(), C=10.0, tol=1e-3)
    for k in range(0, 12, 4):
        quietly(lambda k=k: svm.partial_fit(X[k : k + 4], Y[k : k + 4]))
    assert svm.score(X, Y) > 0.95


def test_what_is_refused(generator):
    X, Y = [generator.normal(size=(3, 2))] * 2, [[0, 1, 2]] * 2
    model = models.Ranking()
    with refusal(r"Y\[1\]", "3 grades", r"\(2,\)"):
        mm.StructuralSVM(model).fit(X, [[0, 1, 2], [0, 1]])
    with refusal(r"Y\[0\]", "not finite"):
        mm.StructuralSVM(model).fit(X, [[0, np.inf, 2], [0, 1, 2]])
    with refusal(r"X\[1\]", "no candidates"):
        mm.StructuralSVM(model).fit([X[0], np.empty((0, 2))], [[0, 1, 2], []])
    with refusal("node_weight", "sample_weight"):
        mm.StructuralSVM(model).fit(X, Y, node_weight=[[1, 1, 1]] * 2)
    with refusal("joint_feature", "grades"):
        model.joint_feature(X[0], Y[0])
    with refusal("hinge='sum'", "Ranking"):
        mm.StructuralSVM(model, hinge="sum").fit(X, Y)
    with refusal("shape"):
        model.loss([0, 1], [0, 1, 2])
