"""MultiLabel by brute force over all sets of labels."""

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import built_in, fit, quietly, refusal
from maxmargin import losses, models
from maxmargin.models.constraints import AtMost, Fixed, Forbidden
from reference.cases import multilabel_case
from reference.dense_qp import primal_objective

PAIRS = {
    "all": "all",
    "none": "none",
    "path": [(0, 1), (2, 1), (2, 3)],
    "cycle": [(0, 1), (1, 2), (0, 2)],
}


def as_key(output):
    return tuple(np.asarray(output).tolist())


@pytest.mark.parametrize("inference", ["lp", "milp"])
def test_the_certificate_holds_without_exact_inference(generator, inference):
    case = multilabel_case(generator, n=3, n_labels=4, C=5.0)
    model = built_in(case).set_params(inference=inference, iterations=2)
    svm = mm.StructuralSVM(model, C=case.C, tol=1e-3, max_passes=20)
    quietly(lambda: svm.fit(case.X, case.Y))
    assert svm.certificate_.exact
    assert svm.certificate_.primal >= primal_objective(case.blocks, case.budgets, svm.coef_) - 1e-6
    assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)


def test_no_pairs_is_one_binary_machine_a_label(generator):
    case = multilabel_case(generator, n=20, pairs="none", C=0.3)
    svm = fit(case, relative=1e-8)
    # Flipping a label moves the score by <w, x> in both models.
    total = 0.0
    for label in range(4):
        y = case.Y[:, label]
        one = mm.StructuralSVM(models.Binary(), C=case.C, tol=1e-9, max_passes=5000).fit(case.X, y)
        total += one.certificate_.primal
    assert svm.certificate_.primal == pytest.approx(total, rel=1e-5)


def test_forms_of_the_labels_are_one_problem(generator):
    case = multilabel_case(generator, n_labels=3)
    names = np.array(["red", "green", "blue"])
    sets = [set(names[y == 1].tolist()) for y in case.Y]
    fits = {
        "dense": (case.Y, {"classes": names}),
        "bool": (case.Y.astype(bool), {"classes": names}),
        "csr": (sparse.csr_matrix(case.Y), {}),
        "sets": (sets, {"classes": names}),
        "lists": ([sorted(s) for s in sets], {"classes": names}),
    }
    primals, outputs = {}, {}
    for name, (Y, options) in fits.items():
        svm = mm.StructuralSVM(models.MultiLabel(**options), tol=1e-8).fit(case.X, Y)
        primals[name] = svm.certificate_.primal
        outputs[name] = svm.predict(case.X)
        assert svm.score(case.X, Y) == pytest.approx(np.mean(outputs["dense"] == case.Y), abs=1e-12)
        assert svm.loss(case.X, Y) == pytest.approx(
            (outputs["dense"] != case.Y).sum(axis=1).mean(), abs=1e-12
        )
    assert max(primals.values()) == pytest.approx(min(primals.values()), rel=1e-7)
    assert outputs["dense"].shape == case.Y.shape
    order = {name: k for k, name in enumerate(["red", "green", "blue"])}
    for found, row in zip(outputs["sets"], outputs["dense"], strict=True):
        assert sorted(order[name] for name in found) == np.flatnonzero(row).tolist()


def test_costs_means_and_weights(generator):
    case = multilabel_case(generator, n_labels=3)
    model = models.MultiLabel(loss=losses.Hamming(costs=[1.0, 4.0], mean=True))
    model.initialize(case.X, case.Y)
    assert model.loss([1, 0, 0], [0, 1, 0]) == pytest.approx((4.0 + 1.0) / 3)
    weights = generator.uniform(0.0, 2.0, size=case.Y.shape)
    examples = model.bind(case.X, case.Y, weights)
    w = np.zeros(model.size_joint_feature)
    worst = np.where(case.Y == 1, 4.0, 1.0) * weights
    np.testing.assert_allclose(examples.slacks(w)[0], worst.sum(axis=1) / 3)
    with refusal("node_weight", r"\(6, 3\)"):
        model.bind(case.X, case.Y, weights[:, :2])


def all_sets(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("drift", [-1.5, 0.0, 1.5])
def test_a_search_over_sets_finds_the_best(generator, share, drift):
    """Labels repel, attract, or both; with costs and weights, and with pairs that have no weight."""
    n, L = 6, 11
    X, Y = generator.normal(size=(n, 3)), generator.integers(0, 2, size=(n, L))
    every = np.argwhere(np.triu(np.ones((L, L), dtype=bool), 1))
    pairs = every[generator.permutation(len(every))[: int(share * len(every))]]
    model = models.MultiLabel([tuple(p) for p in pairs.tolist()], losses.Hamming([1.0, 2.0]), 1.0)
    model.initialize(X, Y)
    weights = generator.uniform(0.0, 2.0, size=Y.shape)
    examples = model.bind(X, Y, weights)
    w = generator.normal(size=model.size_joint_feature)
    w[-len(pairs) :] += drift
    parts, sets = model.unpack(w), all_sets(L)
    A = np.zeros((L, L))
    A[model.pair_codes_[:, 0], model.pair_codes_[:, 1]] = parts["pairs"]
    scores = X @ parts["weights"].T + parts["bias"]
    values = sets @ scores.T + np.einsum("sa,ab,sb->s", sets, A, sets)[:, None]
    assert (examples.predict(w) == sets[values.argmax(axis=0)]).all()
    costs = np.where(Y == 1, 2.0, 1.0) * weights
    loss = np.array([(sets != y) @ cost for y, cost in zip(Y, costs, strict=True)]).T
    own = values[Y @ (1 << np.arange(L)), np.arange(n)]
    found, proven = examples.slacks(w)
    np.testing.assert_allclose(found, (values + loss).max(axis=0) - own, atol=1e-9)
    np.testing.assert_allclose(proven, found, atol=1e-9)


def test_many_labels_have_a_proven_ceiling(generator):
    """An integer program checks the set found among 24 labels and its upper bound."""
    n, L = 3, 24
    X, Y = generator.normal(size=(n, 3)), generator.integers(0, 2, size=(n, L))
    model = models.MultiLabel(bias=1.0)
    model.initialize(X, Y)
    w = generator.normal(size=model.size_joint_feature)
    found, proven = model.bind(X, Y).slacks(w)
    judge = models.MultiLabel(bias=1.0, inference="milp")
    judge.initialize(X, Y)
    best = judge.bind(X, Y).slacks(w)[0]
    assert (found <= best + 1e-6).all() and (proven >= best - 1e-6).all()
    np.testing.assert_allclose(proven, best, atol=1e-6)


def evenly_repelling(generator, n, L):
    """Return examples without labels; all labels have similar values and repel each other similarly."""
    X, Y = generator.uniform(size=(n, 1)), np.zeros((n, L), dtype=int)
    model = models.MultiLabel(bias=1.0)
    model.initialize(X, Y)
    w = np.zeros(model.size_joint_feature)
    parts = model.unpack(w)
    pairs = -0.05 - 0.01 * generator.uniform(size=len(model.pairs_))
    weights = np.column_stack(
        [0.2 + 0.01 * generator.uniform(size=L), -0.9 + 0.01 * generator.uniform(size=L)]
    )
    assert parts["weights"].shape == (L, 1) and parts["bias"].shape == (L,)
    return X, model.bind(X, Y), weights, np.concatenate([weights.ravel(), pairs])


def test_sets_that_nearly_tie(generator):
    """There are too many near ties to try each, yet the best set is found and the upper bound is close."""
    L = 16
    X, examples, weights, w = evenly_repelling(generator, 3, L)
    A, sets = np.zeros((L, L)), all_sets(L)
    A[np.triu_indices(L, 1)] = w[2 * L :]
    gains = 1.0 + X @ weights[:, :1].T + weights[:, 1]
    values = sets @ gains.T + ((sets @ A) * sets).sum(axis=1)[:, None]
    found, proven = examples.slacks(w)
    assert (values.max(axis=0) <= proven + 1e-9).all()
    np.testing.assert_allclose(found, values.max(axis=0), rtol=1e-3)
    for size in (16, 60):
        _, examples, _, w = evenly_repelling(generator, 20, size)
        found, proven = examples.slacks(w)
        assert (found <= proven).all() and (proven <= 1.2 * found).all()


def test_constraints_speak_of_labels(generator):
    case = multilabel_case(generator, n_labels=3)
    svm = mm.StructuralSVM(models.MultiLabel(classes=["a", "b", "c"]), tol=1e-2).fit(case.X, case.Y)
    svm.coef_ = np.abs(svm.coef_) + 1.0
    X = np.abs(case.X)
    assert svm.predict(X).all()
    assert (svm.predict(X, constraints=[AtMost(1, 1)]).sum(axis=1) == 1).all()
    assert (svm.predict(X, constraints=[Fixed({"b": 0})]) == [1, 0, 1]).all()
    found = svm.predict(X, constraints=[Forbidden(1, 1, [("a", "c")])])
    assert (found[:, 0] + found[:, 2] == 1).all()
    assert (svm.predict(X, constraints=[Forbidden(1, 1)]).sum(axis=1) == 1).all()
    with refusal("'z' is not among the labels"):
        svm.predict(X, constraints=[Fixed({"z": 1})])


@pytest.mark.parametrize("sets", [False, True])
def test_files_bring_the_model_back(generator, tmp_path, sets):
    case = multilabel_case(generator)
    Y = [tuple(np.array(list("abcd"))[y == 1].tolist()) for y in case.Y] if sets else case.Y
    pairs = [("a", "b"), ("b", "d")] if sets else [(0, 1), (1, 3)]
    model = models.MultiLabel(pairs, bias=1.0, classes=list("abcd") if sets else None)
    svm = mm.StructuralSVM(model, tol=1e-3).fit(case.X, Y)
    svm.save(tmp_path / "model.safetensors")
    loaded = mm.load(tmp_path / "model.safetensors")
    assert [as_key(y) for y in loaded.predict(case.X)] == [as_key(y) for y in svm.predict(case.X)]
    assert loaded.model_.pairs_ == svm.model_.pairs_
    assert loaded.loss(case.X, Y) == svm.loss(case.X, Y)


BAD = {
    "numbers": (np.eye(2), np.array([[0, 2], [1, 0]]), (r"Y\[0, 1\]", "0 or 1")),
    "length": (np.eye(2), np.array([[0, 1]]), ("X has 2 examples", "Y has 1")),
    "flat": (np.eye(2), ["a", "b"], (r"Y\[0\]", "set")),
    "empty": (np.eye(2), [[], []], ("no labels",)),
    "X": (np.zeros(3), np.eye(3, dtype=int), ("2 dimensions",)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    X, Y, patterns = BAD[name]
    with refusal(*patterns):
        mm.StructuralSVM(models.MultiLabel()).fit(X, Y)


def test_bad_parameters_are_named(generator):
    case = multilabel_case(generator)
    for settings, patterns in [
        ({"pairs": "some"}, ("pairs", "'some'")),
        ({"pairs": [(0, 9)]}, (r"pairs\[0\]", "different labels")),
        ({"pairs": [(1, 1)]}, (r"pairs\[0\]", "different labels")),
        ({"pairs": [3]}, (r"pairs\[0\]", "two labels")),
        ({"inference": "exact"}, ("inference must be one of",)),
        ({"classes": [0, 1]}, ("4 columns", "2 labels")),
        ({"classes": [0, 0, 1, 2]}, ("once",)),
    ]:
        with refusal(*patterns):
            mm.StructuralSVM(models.MultiLabel(**settings)).fit(case.X, case.Y)
    svm = mm.StructuralSVM(models.MultiLabel(), tol=1e-2).fit(case.X, case.Y)
    assert svm.score(case.X, case.Y) > 0.5
