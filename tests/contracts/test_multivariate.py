"""Losses of the whole sample against brute force over all labellings, or all orders of pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import f1_score, fbeta_score, roc_auc_score

import maxmargin as mm
from helpers import refusal
from maxmargin import losses, models
from maxmargin.formulation import Formulation
from reference.dense_qp import solve
from reference.multivariate import labelling_block, order_block, rescaled

# Name -> the loss for a sample, and its brute force.
LOSSES = {
    "error-rate": (
        lambda k: losses.ErrorRate(),
        lambda X, y, k: labelling_block("error-rate", X, y),
    ),
    "f1": (lambda k: losses.F1(), lambda X, y, k: labelling_block("f1", X, y)),
    "f2": (lambda k: losses.F1(beta=2.0), lambda X, y, k: labelling_block("f1", X, y, beta=2.0)),
    "f-half": (
        lambda k: losses.F1(beta=0.5),
        lambda X, y, k: labelling_block("f1", X, y, beta=0.5),
    ),
    "precision": (
        lambda k: losses.PrecisionAt(k),
        lambda X, y, k: labelling_block("precision", X, y, k=k),
    ),
    "recall": (lambda k: losses.RecallAt(k), lambda X, y, k: labelling_block("recall", X, y, k=k)),
    "roc-area": (lambda k: losses.ROCArea(), lambda X, y, k: order_block(X, y)),
}
RESCALINGS = ("margin", "slack")


@st.composite
def samples(draw, most=9):
    """Draw labels of both kinds, few or many positives, scores with ties, and k."""
    n = draw(st.integers(2, most))
    positives = draw(st.integers(1, n - 1))
    y = np.array([1] * positives + [0] * (n - positives))
    y = y[np.array(draw(st.permutations(range(n))))]
    exact = st.integers(-4, 4).map(lambda v: v * draw(st.sampled_from([0.25, 1.0, 3.0])))
    score = st.one_of(exact, st.floats(-20, 20, allow_subnormal=False))
    scores = np.array(draw(st.lists(score, min_size=n, max_size=n)), dtype=float)
    return y, scores, draw(st.integers(1, n))


def bound(X, y, loss):
    model = models.Binary(loss=loss, classes=[0, 1])
    model.initialize(X, y)
    return model.bind(X, y)


def assert_worst(examples, block, w, rescaling):
    """Assert that the oracle's plane has the largest value, and is a plane of the loss."""
    expected = float(np.max(block.offsets + block.vectors @ w))
    slack, [(offset, (index, value))] = examples.under(Formulation("max", rescaling)).worst(w)
    assert slack[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    vector = np.zeros(len(w))
    vector[index] = value
    distance = np.abs(block.vectors - vector).max(axis=1) + np.abs(block.offsets - offset)
    assert distance.min() < 1e-9


@pytest.mark.parametrize("rescaling", RESCALINGS)
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "roc-area"])
@given(sample=samples())
def test_the_worst_labelling_is_that_of_brute_force(name, rescaling, sample):
    y, scores, k = sample
    make, brute = LOSSES[name]
    X = np.column_stack([scores, np.arange(len(y))])  # the second feature distinguishes rows
    w = np.array([1.0, 0.0])
    assert_worst(bound(X, y, make(k)), rescaled(brute(X, y, k), rescaling), w, rescaling)


@pytest.mark.parametrize("rescaling", RESCALINGS)
@given(sample=samples(most=7))
def test_the_worst_order_is_that_of_brute_force(rescaling, sample):
    y, scores, _ = sample
    X = np.column_stack([scores, np.arange(len(y))])
    w = np.array([1.0, 0.0])
    block = rescaled(order_block(X, y), rescaling)
    assert_worst(bound(X, y, losses.ROCArea()), block, w, rescaling)


def tiny(generator, n=7):
    X = generator.normal(size=(n, 3))
    y = (np.arange(n) % 3 == 0).astype(int)
    return X + 0.5 * y[:, None], y


@pytest.mark.parametrize(
    "solver",
    ["auto", "proximal"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("one-slack", "n-slack", "fasole")],
)
@pytest.mark.parametrize("rescaling", RESCALINGS)
@pytest.mark.parametrize("name", LOSSES)
def test_the_solution_is_that_of_the_dense_program(name, rescaling, solver, generator):
    X, y = tiny(generator, 6 if name == "roc-area" else 7)
    make, brute = LOSSES[name]
    C = 20.0
    best = solve([rescaled(brute(X, y, 3), rescaling)], C).value
    svm = mm.StructuralSVM(
        models.Binary(loss=make(3)),
        C=C,
        rescaling=rescaling,
        solver=solver,
        tol=2e-7 * best / C,
        max_passes=100_000,
    ).fit(X, y)
    assert svm.certificate_.converged and svm.certificate_.exact
    assert svm.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(best, rel=1e-6)
    if solver == "auto":
        assert svm.solver_ == "one-slack"
    again = mm.certify(svm, X, y)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("bias", [None, 2.0])
def test_the_error_rate_with_c_is_the_zero_one_loss_with_c_over_n(generator, bias):
    X, y = tiny(generator, 40)
    settings = {"tol": 1e-8, "max_passes": 50_000}
    whole = mm.StructuralSVM(models.Binary("error-rate", bias), C=30.0, **settings).fit(X, y)
    flat = mm.StructuralSVM(models.Binary(bias=bias), C=30.0 / 40, **settings).fit(X, y)
    assert whole.certificate_.primal == pytest.approx(flat.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(whole.coef_, flat.coef_, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LOSSES)
def test_csr_and_dense_and_threads_are_the_same(generator, name, dtype):
    X, y = tiny(generator, 30)
    X[generator.uniform(size=X.shape) < 0.4] = 0.0
    X, w = X.astype(dtype), generator.normal(size=4)
    loss = LOSSES[name][0](5)
    for rescaling in RESCALINGS:
        found = []
        for form in (X, sparse.csr_matrix(X), X.astype(np.float64)):
            model = models.Binary(loss, bias=1.0)
            model.initialize(form, y)
            wanted = Formulation("max", rescaling)
            found += [model.bind(form, y).under(wanted).worst(w, n)[0][0] for n in (1, 3)]
        np.testing.assert_allclose(found, found[0], rtol=1e-12)


def test_a_large_sample_with_few_positives_needs_no_table_of_pairs(generator):
    n = 200_000
    y = np.zeros(n, dtype=int)
    y[generator.choice(n, 300, replace=False)] = 1
    X = generator.normal(size=(n, 2)) + y[:, None]
    for loss in ("f1", "roc-area", losses.PrecisionAt(0.01)):
        examples = bound(X, y, loss)
        for rescaling in RESCALINGS:
            slack, [(offset, _)] = examples.under(Formulation("max", rescaling)).worst(
                np.array([2.0, 1.0])
            )
            assert slack[0] >= 0 and 0 <= offset <= 1


@pytest.mark.parametrize("scale", [0.1, 3.0, 1000.0])
def test_half_of_the_sample_positive(generator, scale):
    # Too large for brute force: try all tables for F1, and all numbers of swapped pairs for the area.
    n = 60
    y = generator.permutation(np.arange(n) % 2)
    scores = scale * (generator.normal(size=n) + y)
    X = scores[:, None]
    up, down = np.sort(scores[y == 1]), np.sort(scores[y == 0])[::-1]
    for rescaling in RESCALINGS:
        best = 0.0
        for a in range(31):
            for b in range(31):
                loss = 1 - 2 * a / (a + b + 30)
                m = (down[:b].sum() - up[: 30 - a].sum()) / n
                best = max(best, loss + m if rescaling == "margin" else loss * (1 + m))
        slack = bound(X, y, "f1").under(Formulation("max", rescaling)).slacks(np.ones(1))[0]
        assert slack[0] == pytest.approx(best, rel=1e-9)
        d = np.sort((down[:, None] - up[None, :]).ravel())[::-1]
        q, m = np.arange(901) / 900, np.concatenate([[0.0], np.cumsum(d)]) / 900
        best = np.max(q + m if rescaling == "margin" else q * (1 + m))
        slack = bound(X, y, "roc-area").under(Formulation("max", rescaling)).slacks(np.ones(1))[0]
        assert slack[0] == pytest.approx(best, rel=1e-9)


# Estimators with such a loss.


def first(svm, X, k):
    """Return the k rows of highest score; rows with equal scores keep their order."""
    return np.argsort(-(X * svm.coef_).sum(axis=1), kind="stable")[:k]


def test_loss_is_that_of_the_metrics(generator):
    X, y = tiny(generator, 60)
    X[::5] = X[1::5]  # creates ties
    for loss, metric in (
        ("f1", lambda svm: 1 - f1_score(y, svm.predict(X))),
        (losses.F1(beta=3.0), lambda svm: 1 - fbeta_score(y, svm.predict(X), beta=3.0)),
        ("error-rate", lambda svm: np.mean(svm.predict(X) != y)),
        ("roc-area", lambda svm: 1 - roc_auc_score(y, (X * svm.coef_).sum(axis=1))),
        (
            losses.PrecisionAt(10),
            lambda svm: 1 - y[first(svm, X, 10)].mean(),
        ),
        (
            losses.RecallAt(0.5),
            lambda svm: 1 - y[first(svm, X, 30)].sum() / 20,
        ),
    ):
        svm = mm.StructuralSVM(models.Binary(loss), C=50.0, tol=1e-2).fit(X, y)
        assert svm.loss(X, y) == pytest.approx(metric(svm), abs=1e-12)
        assert svm.score(X, y) == pytest.approx(np.mean(svm.predict(X) == y))


def test_slack_is_no_less_than_the_loss_of_the_prediction(generator):
    X, y = tiny(generator, 30)
    for loss in ("f1", "roc-area", "error-rate"):
        examples = bound(X, y, loss)
        for rescaling in RESCALINGS:
            w = 3 * generator.normal(size=3)
            assert (
                examples.under(Formulation("max", rescaling)).slacks(w)[0]
                >= examples.loss_at(w) - 1e-12
            )


def test_the_protocol_on_a_whole_sample(generator):
    X, y = tiny(generator)
    names = np.array(["no", "yes"])[y]
    for name in [name for name in LOSSES if name != "roc-area"]:
        make, brute = LOSSES[name]
        model = models.Binary(make(3))
        model.initialize(X, names)
        block, w = brute(X, y, 3), generator.normal(size=3)
        worst = model.loss_augmented_inference(X, names, w)
        psi = model.joint_feature(X, worst) - model.joint_feature(X, names)
        value = model.loss(names, worst) + w @ psi
        assert value == pytest.approx(np.max(block.offsets + block.vectors @ w), abs=1e-12)
        best = model.inference(X, w)
        allowed = block if "pre" not in name and name != "recall" else None
        if allowed is not None:
            psi = model.joint_feature(X, best) - model.joint_feature(X, names)
            assert w @ psi == pytest.approx(np.max(block.vectors @ w), abs=1e-12)
        else:
            assert (best == "yes").sum() == 3
        assert model.loss(names, names) == 0.0


def test_warm_start_with_another_c_and_refusal_of_other_data(generator):
    X, y = tiny(generator, 30)
    svm = mm.StructuralSVM(models.Binary("f1"), C=10.0, tol=1e-6, warm_start=True).fit(X, y)
    cold = mm.StructuralSVM(models.Binary("f1"), C=20.0, tol=1e-6).fit(X, y)
    svm.set_params(C=20.0).fit(X, y)
    assert svm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-4)
    for changed in ({"model": models.Binary("roc-area")}, {"rescaling": "slack"}):
        other = mm.StructuralSVM(models.Binary("f1"), C=10.0, warm_start=True).fit(X, y)
        with refusal("warm_start", "same examples"):
            other.set_params(**changed).fit(X, y)
    with refusal("warm_start", "same examples"):
        svm.fit(X + 1, y)


@pytest.mark.parametrize("loss", ["f1", "roc-area", losses.PrecisionAt(2)])
def test_what_such_a_loss_refuses(generator, loss):
    X, y = tiny(generator, 12)
    svm = mm.StructuralSVM(models.Binary(loss))
    with refusal("sample_weight", "whole sample"):
        svm.fit(X, y, sample_weight=np.ones(12))
    with refusal("class_weight", "whole sample"):
        mm.BinarySVC(loss=loss, class_weight="balanced").fit(X, y)
    with refusal("class", "both"):
        mm.StructuralSVM(models.Binary(loss, classes=[0, 1])).fit(X, np.ones(12, dtype=int))
    with refusal("NaN"):
        svm.fit(np.where(X > 1, np.nan, X), y)
    with refusal("whole sample"):
        mm.check_model(models.Binary(loss), X, y)
    svm.fit(X, y)
    with refusal("k_best|whole sample"):
        svm.predict_k_best(X, 2)


@pytest.mark.parametrize("kind", [losses.PrecisionAt, losses.RecallAt])
def test_k_is_a_count_or_a_share(generator, kind):
    assert kind(3).predicted(10) == 3
    assert kind(0.25).predicted(10) == 2
    assert kind(0.001).predicted(10) == 1
    assert kind(1.0).predicted(10) == 10
    for wrong in (0, -1, 1.5, 0.0, True, "3", None, float("nan")):
        with refusal("k must be", "share"):
            kind(wrong)
    X, y = tiny(generator, 12)
    with refusal("k is 13", "12 examples"):
        mm.StructuralSVM(models.Binary(kind(13))).fit(X, y)


def test_unknown_losses_are_refused(generator):
    X, y = tiny(generator, 12)
    with refusal("loss must be one of", "f1", "got 'f2'"):
        mm.StructuralSVM(models.Binary("f2")).fit(X, y)
    with refusal("needs two classes and models.Binary"):
        mm.StructuralSVM(models.Multiclass(losses.F1())).fit(X, y)
    for beta in (0, -1.0, "1", True, float("inf")):
        with refusal("beta must be"):
            losses.F1(beta=beta)
    with refusal("order of all pairs"):
        bound(X, y, "roc-area").joint_feature(y)
    examples = bound(X, y, losses.PrecisionAt(3))
    with refusal("3 labels must be positive, got 12"):
        examples.loss_of(np.ones(12, np.int32))
    with refusal("12 labels, got 3"):
        examples.loss_of(np.ones(3, np.int32))
