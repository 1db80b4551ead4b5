"""Hidden states of labels: completions, both argmaxima and the objective against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models
from reference.cases import fresh
from reference.problems import make_case
from reference.states import split_truth

NAMES = [
    "multiclass-cost-dense",
    "chain-1to4-csr-ends",
    "chain-csr32-mean-cost",
    "chain-illegal",
    "chain-observed-ends",
    "edges-dense",
    "second-order",
    "graph-edge-features",
    "graph-forest-symmetric",
    "graph-potts-mean",
]


def latent_case(name, seed):
    """Return a case, its model with hidden states, the reference over states, and each state's label."""
    case = make_case(name, seed)
    counts = [1 + (seed + k) % 2 for k in range(len(case.truth.classes))]
    counts[0] = 2
    parts = dict(zip(case.truth.classes, counts, strict=True))
    truth, owner = split_truth(case.truth, counts)
    model = models.Latent(built_in(case), parts, start=("random", "k-means")[seed % 2])
    return case, model, truth, owner


def nodes(y):
    """Return the labels of an output as a list, also for a single label."""
    return list(y) if np.ndim(y) else [y]


def right(case, owner, z, y):
    """Return whether the states z have the labels y."""
    return [case.truth.classes[owner[s]] for s in nodes(z)] == nodes(y)


def some_states(case, owner, y):
    """Return arbitrary states with the given labels."""
    first = [int(np.flatnonzero(owner == case.truth.classes.index(label))[0]) for label in nodes(y)]
    return first if np.ndim(y) else first[0]


def objective(case, truth, owner, w):
    """F by its definition, with all states enumerated."""
    total = 0.5 * w @ w
    v = np.ones(len(case.Y)) if case.sample_weight is None else case.sample_weight
    for x, y, weight in zip(truth.examples(case.X), case.Y, v, strict=True):
        outputs, true = truth.outputs(x), some_states(case, owner, y)
        scores = np.array([w @ truth.joint_feature(x, z) for z in outputs])
        losses = np.array([truth.loss(true, z) for z in outputs])
        best = max(s for s, z in zip(scores, outputs, strict=True) if right(case, owner, z, y))
        total += case.C * weight * (np.max(scores + losses) - best)
    return total


@given(name=st.sampled_from(NAMES), seed=st.integers(0, 10**6))
def test_completions_and_both_argmaxima_are_those_of_enumeration(name, seed):
    case, model, truth, owner = latent_case(name, seed)
    model.initialize(case.X, case.Y)
    assert model.size_joint_feature == truth.size_joint_feature
    w = fresh(seed, 710).normal(size=model.size_joint_feature) * 10.0 ** (seed % 5 - 2)
    found = model.completions(case.X, case.Y, w)
    examples = model.over(case.X, found)
    predicted, augmented = model.over(case.X).predict(w), examples.augmented(w)
    for i, (x, y) in enumerate(zip(truth.examples(case.X), case.Y, strict=True)):
        outputs = truth.outputs(x)
        scores = np.array([w @ truth.joint_feature(x, z) for z in outputs])
        assert right(case, owner, found[i], y)
        best = max(s for s, z in zip(scores, outputs, strict=True) if right(case, owner, z, y))
        near = {"rel": 1e-6, "abs": 1e-9}  # some features are in single precision
        own = [z if np.ndim(z) == 0 else tuple(z) for z in (found[i], predicted[i], augmented[i])]
        values = [w @ truth.joint_feature(x, z) for z in own]
        assert values[0] == pytest.approx(best, **near)
        assert values[1] == pytest.approx(scores.max(), **near)
        losses = np.array([truth.loss(own[0], z) for z in outputs])
        found_loss = truth.loss(own[0], own[2])
        assert values[2] + found_loss == pytest.approx((scores + losses).max(), **near)
        labels = model.observed([predicted[i]])[0]
        assert model.loss(y, labels) == pytest.approx(truth.loss(own[0], own[1]))


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_falls_and_is_that_of_the_definition(seed, name, tmp_path):
    case, model, truth, owner = latent_case(name, seed)
    svm = mm.LatentSVM(model, C=case.C, tol=1e-4, round_tol=1e-7, random_state=seed)
    quietly(lambda: svm.fit(case.X, case.Y, sample_weight=case.sample_weight))
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert path[-1] == pytest.approx(objective(case, truth, owner, svm.coef_), rel=1e-6)
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    svm.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    for a, b in zip(loaded.predict(case.X), svm.predict(case.X), strict=True):
        assert nodes(a) == nodes(b)
    assert loaded.score(case.X, case.Y) == svm.score(case.X, case.Y)
    assert loaded.loss(case.X, case.Y) == svm.loss(case.X, case.Y)
    states = svm.model_.unpack(svm.coef_)["classes"]
    assert states.tolist() == [case.truth.classes[k] for k in owner]


@pytest.mark.parametrize("name", ["chain-illegal", "chain-observed-ends", "graph-forest-symmetric"])
def test_one_state_a_label_is_the_plain_model(seed, name):
    case = make_case(name, seed)
    svm = mm.LatentSVM(models.Latent(built_in(case), parts=1), C=case.C, tol=1e-5)
    quietly(lambda: svm.fit(case.X, case.Y, sample_weight=case.sample_weight))
    assert len(svm.objective_path_) == 1
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-3)


def second_symbols(seed, n=40):
    """Runs of two symbols have the label "a" or "b" by their order, so a state must remember the first."""
    g = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        kinds = g.integers(2, size=6)
        codes = np.concatenate([[0, 1, 2] if kind else [2, 1, 0] for kind in kinds])
        X.append(np.eye(3)[codes] + 0.2 * g.normal(size=(len(codes), 3)))
        Y.append([("a", "b")[kind] for kind in kinds for _ in range(3)])
    return X, Y


def test_states_remember_what_labels_cannot(seed):
    (X, Y), (X_test, Y_test) = second_symbols(seed), second_symbols(seed + 1)
    plain = mm.StructuralSVM(models.Chain(), C=0.3, random_state=0).fit(X, Y)
    model = models.Latent(models.Chain(), parts=3)
    svm = mm.LatentSVM(model, C=0.3, random_state=0).fit(X, Y)
    assert plain.score(X_test, Y_test) < 0.85
    assert svm.score(X_test, Y_test) > 0.97
    complete = svm.predict_complete(X_test)
    assert [list(y) for y in svm.model_.observed(complete)] == [
        list(y) for y in svm.predict(X_test)
    ]
    assert clone(svm).model.parts == 3


def test_attributes_and_graphs_of_several_types(tmp_path):
    words = [["the", "dog", "barks"], ["dogs", "bark"]] * 3
    tags = [["D", "N", "V"], ["N", "V"]] * 3
    X = [[{"w": word} for word in s] for s in words]
    svm = mm.LatentSVM(models.Latent(models.Chain(), {"N": 2}), C=10.0, random_state=0).fit(X, tags)
    assert [list(y) for y in svm.predict(X)] == tags
    svm.save(tmp_path / "tagger")
    assert [list(y) for y in mm.load(tmp_path / "tagger").predict(X)] == tags
    rows = [{"w": word} for s in words for word in s]
    flat = [tag for s in tags for tag in s]
    single = mm.LatentSVM(models.Latent(models.Multiclass(), 2), C=10.0).fit(rows, flat)
    assert list(single.predict(rows)) == flat
    g = np.random.default_rng(1)
    kinds = ["u", "v", "u", "v"]
    graphs = [(g.normal(size=(4, 2)), [(0, 1), (1, 2), (2, 3)], None, kinds) for _ in range(8)]
    Y = [[int(x[0][0, 0] > 0), "pq"[int(x[0][1, 1] > 0)], 0, "p"] for x in graphs]
    Y[0][2], Y[0][3] = 1, "q"
    model = models.Latent(models.FactorGraph(), {0: 2, "p": 3})
    fitted = quietly(lambda: mm.LatentSVM(model, C=1.0, random_state=0).fit(graphs, Y))
    assert (np.diff(fitted.objective_path_) <= 1e-9).all()
    for y in fitted.predict(graphs):
        assert all(label in (0, 1) for label in y[[0, 2]])
        assert all(label in ("p", "q") for label in y[[1, 3]])
    fitted.save(tmp_path / "graph")
    loaded = mm.load(tmp_path / "graph")
    for a, b in zip(loaded.predict(graphs), fitted.predict(graphs), strict=True):
        assert list(a) == list(b)


@pytest.mark.parametrize("kind", ["full", "diagonal", "potts"])
def test_factors_over_several_nodes_are_over_states(seed, kind):
    g = fresh(seed, 711)
    X = [(g.normal(size=(3, 2)), np.empty((0, 2), int), None, None, [(0, 1, 2)]) for _ in range(5)]
    Y = [[int(v) for v in g.integers(2, size=3)] for _ in X]
    Y[0] = [0, 1, 0]
    model = models.Latent(models.FactorGraph(cliques=kind), {1: 2}, start="random")
    svm = mm.LatentSVM(model, C=0.5, tol=1e-4, round_tol=1e-7, random_state=0)
    quietly(lambda: svm.fit(X, Y))
    assert (np.diff(svm.objective_path_) <= 1e-9).all()
    inner, w = svm.model_.inner_, fresh(seed, 712).normal(size=svm.coef_.shape)
    found, best = svm.model_.completions(X, Y, w), svm.model_.over(X).predict(w)
    label = np.array([0, 1, 1])
    for x, y, z, top in zip(X, Y, found, best, strict=True):
        every = list(product(range(3), repeat=3))
        scores = [w @ inner.joint_feature(x, list(s)) for s in every]
        right = [v for v, s in zip(scores, every, strict=True) if label[list(s)].tolist() == y]
        assert label[z].tolist() == y
        assert w @ inner.joint_feature(x, list(z)) == pytest.approx(max(right))
        assert w @ inner.joint_feature(x, list(top)) == pytest.approx(max(scores))


def test_graphs_with_cycles_have_completions_that_agree(seed):
    g = np.random.default_rng(seed)
    ring = [(0, 1), (1, 2), (2, 0)]
    X = [(g.normal(size=(3, 2)), ring) for _ in range(6)]
    Y = [[int(row[0] > 0) for row in x[0]] for x in X]
    Y[0] = [0, 1, 0]
    model = models.Latent(models.FactorGraph(), parts=2)
    svm = quietly(lambda: mm.LatentSVM(model, C=0.5, random_state=0, max_rounds=4).fit(X, Y))
    for z, y in zip(svm.completions_, Y, strict=True):
        assert list(svm.model_.observed([z])[0]) == y


def test_what_cannot_be_is_refused():
    X, Y = [np.ones((2, 1))] * 2, [[0, 1], [1, 0]]
    with refusal("parts works for Multiclass, Chain, FactorGraph", "Grammar"):
        mm.LatentSVM(models.Latent(models.Grammar(), parts=2)).fit(X, Y)
    with refusal("parts names 'x'"):
        mm.LatentSVM(models.Latent(models.Chain(), parts={"x": 2})).fit(X, Y)
    with refusal("order=2", "labels"):
        mm.LatentSVM(models.Latent(models.Chain(order=2), parts=2000)).fit(X, Y)
    with refusal(r"Y\[1\]"):
        mm.LatentSVM(models.Latent(models.Chain(), parts=2)).fit(X, [[0, 1], [1]])
