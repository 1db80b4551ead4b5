"""Micro- and macro-F1 of sets of labels against brute force over all labellings of the sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, fbeta_score

import maxmargin as mm
from maxmargin import losses, models
from maxmargin.formulation import Formulation
from reference.dense_qp import solve
from reference.multivariate import label_block, rescaled

KINDS = {"micro": losses.MicroF1, "macro": losses.MacroF1}
CASES = [("micro", "margin"), ("micro", "slack"), ("macro", "margin")]


@st.composite
def samples(draw):
    """Draw rows with ties, labels that all occur, and weights."""
    n, L = draw(st.sampled_from([(2, 2), (3, 2), (2, 3), (4, 2), (3, 3), (5, 1)]))
    number = st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, allow_subnormal=False))
    X = np.array(draw(st.lists(number, min_size=2 * n, max_size=2 * n))).reshape(n, 2)
    Y = np.array(draw(st.lists(st.integers(0, 1), min_size=n * L, max_size=n * L))).reshape(n, L)
    Y[draw(st.integers(0, n - 1))] = 1
    if Y.all():
        Y[0, 0] = 0
        Y[1, 0] = 1
    w = np.array(draw(st.lists(number, min_size=2 * L, max_size=2 * L)))
    return X, Y, w, draw(st.sampled_from([0.5, 1.0, 2.0]))


def model_of(X, Y, loss, **options):
    model = models.MultiLabel(pairs="none", loss=loss, **options)
    model.initialize(X, Y)
    return model


@pytest.mark.parametrize(("name", "rescaling"), CASES)
@given(sample=samples())
def test_the_worst_labelling_is_that_of_brute_force(name, rescaling, sample):
    X, Y, w, beta = sample
    block = rescaled(label_block(name, X, Y, beta), rescaling)
    examples = model_of(X, Y, KINDS[name](beta)).bind(X, Y).under(Formulation("max", rescaling))
    slack, [(offset, (index, value))] = examples.worst(w)
    assert slack[0] == pytest.approx(np.max(block.offsets + block.vectors @ w), rel=1e-9, abs=1e-9)
    vector = np.zeros(len(w))
    vector[index] = value
    distance = np.abs(block.vectors - vector).max(axis=1) + np.abs(block.offsets - offset)
    assert distance.min() < 1e-9


def tiny(generator):
    X = generator.normal(size=(4, 2))
    return X, np.array([[1, 0], [0, 1], [1, 0], [0, 0]])


@pytest.mark.parametrize("solver", ["auto", "proximal"])
@pytest.mark.parametrize(("name", "rescaling"), CASES)
def test_the_solution_is_that_of_the_dense_program(name, rescaling, solver, generator):
    X, Y = tiny(generator)
    C = 20.0
    best = solve([rescaled(label_block(name, X, Y), rescaling)], C).value
    svm = mm.StructuralSVM(
        models.MultiLabel("none", f"{name}-f1"),
        C=C,
        rescaling=rescaling,
        solver=solver,
        tol=2e-7 * best / C,
        max_passes=100_000,
    ).fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.exact
    assert svm.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(best, rel=1e-6)
    again = mm.certify(svm, X, Y)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_the_protocol_is_of_the_whole_sample(name, generator):
    X, Y = tiny(generator)
    model, block = model_of(X, Y, f"{name}-f1"), label_block(name, X, Y)
    w = generator.normal(size=model.size_joint_feature)
    features = [model.joint_feature(X, np.reshape(other, Y.shape)) for other in block.outputs]
    np.testing.assert_allclose(np.array(features) - features[0], block.vectors, atol=1e-12)
    losses_of = [model.loss(Y, np.reshape(other, Y.shape)) for other in block.outputs]
    np.testing.assert_allclose(losses_of, block.offsets, atol=1e-12)
    best, worst = model.inference(X, w), model.loss_augmented_inference(X, Y, w)
    scores = np.array(features) @ w
    assert model.joint_feature(X, best) @ w == pytest.approx(scores.max())
    found = model.joint_feature(X, worst) @ w + model.loss(Y, worst)
    assert found == pytest.approx((scores + block.offsets).max())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_the_loss_is_that_of_scikit_learn_and_goes_into_a_file(name, beta, generator, tmp_path):
    X = generator.normal(size=(60, 4))
    Y = (X[:, :3] + generator.normal(size=(60, 3)) > 1).astype(int)
    model = models.MultiLabel("none", KINDS[name](beta), bias=1.0)
    svm = mm.StructuralSVM(model, C=100.0, tol=0.05).fit(X, Y)
    expected = 1 - fbeta_score(Y, svm.predict(X), beta=beta, average=name)
    assert svm.loss(X, Y) == pytest.approx(expected)
    svm.save(tmp_path / "model")
    again = mm.load(tmp_path / "model")
    assert again.model_.task_loss == KINDS[name](beta) and again.loss(X, Y) == svm.loss(X, Y)
    np.testing.assert_array_equal(again.predict(X), svm.predict(X))


def test_it_is_better_at_what_it_is_for(generator):
    X = generator.normal(size=(300, 4))
    Y = (X[:, :3] + generator.normal(size=(300, 3)) > [0.5, 1.5, 2.0]).astype(int)
    found = {}
    for loss, C in (("hamming", 0.1), ("macro-f1", 1e4)):
        svm = mm.StructuralSVM(models.MultiLabel("none", loss, bias=1.0), C=C, tol=0.02).fit(X, Y)
        found[loss] = f1_score(Y, svm.predict(X), average="macro")
    assert found["macro-f1"] > found["hamming"]


def test_sets_of_labels(generator):
    X, Y = tiny(generator)
    sets = [tuple(np.array(["a", "b"])[row == 1].tolist()) for row in Y]
    svm = mm.StructuralSVM(models.MultiLabel("none", "micro-f1"), C=10.0, tol=0.1).fit(X, sets)
    assert all(isinstance(y, tuple) for y in svm.predict(X))
    assert svm.loss(X, sets) == pytest.approx(svm.model_.loss(sets, svm.predict(X)))
    assert isinstance(svm.model_.loss_augmented_inference(X, sets, svm.coef_)[0], tuple)


def test_losses_of_samples_that_attributes_describe():
    X, y = [{"a": 1.0}, {"b": 1.0}, {"a": 1.0, "b": 1.0}], [1, 0, 1]
    flat, sets = models.Binary("f1"), models.MultiLabel("none", "micro-f1")
    flat.initialize(X, y)
    sets.initialize(X, np.array([y, y]).T)
    assert flat.loss(y, [1, 1, 1]) == pytest.approx(1 - 4 / 5)
    assert sets.loss(np.array([y, y]).T, np.ones((3, 2))) == pytest.approx(1 - 4 / 5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda X, Y: model_of(X, Y, "macro-f2"), "loss must be 'hamming'"),
        (lambda X, Y: model_of(X, Y, losses.Entity()), "loss must be 'hamming'"),
        (
            lambda X, Y: model_of(X, Y, losses.F1()),
            "loss of the whole sample, which needs models.Binary",
        ),
        (lambda X, Y: models.MultiLabel("all", "micro-f1").initialize(X, Y), 'pairs="none"'),
        (lambda X, Y: model_of(X, Y, "micro-f1").bind(X, Y, np.ones((4, 2))), "node_weight"),
        (lambda X, Y: model_of(X, Y, "macro-f1").bind(X, Y * [1, 0]), "no example of the label 1"),
        (lambda X, Y: model_of(X, Y, "micro-f1").bind(X, 0 * Y), "needs examples of both"),
        (lambda X, Y: model_of(X, Y, "micro-f1").bind(X[:2], Y), "X has 2 examples, but Y has 4"),
        (
            lambda X, Y: mm.StructuralSVM(
                models.MultiLabel("none", "macro-f1"), rescaling="slack"
            ).fit(X, Y),
            "no exact oracle under slack rescaling",
        ),
        (
            lambda X, Y: mm.StructuralSVM(models.MultiLabel("none", "micro-f1")).fit(
                X, Y, sample_weight=np.ones(4)
            ),
            "sample_weight",
        ),
        (lambda X, Y: losses.MicroF1(beta=0), "MicroF1: beta must be a positive number"),
        (
            lambda X, Y: mm.MulticlassSVC(loss="macro-f1").fit(X, Y[:, 0]),
            "no known exact oracle",
        ),
        (
            lambda X, Y: mm.BinarySVC(loss=losses.MacroF1()).fit(X, Y[:, 0]),
            "needs models.MultiLabel",
        ),
        (
            lambda X, Y: mm.LatentSVM(models.Partial(models.MultiLabel("none", "micro-f1"))).fit(
                X, Y
            ),
            "a loss of the whole sample",
        ),
    ],
)
def test_what_has_no_exact_oracle_is_refused(wrong, words, generator):
    with pytest.raises(ValueError, match=words):
        wrong(*tiny(generator))
