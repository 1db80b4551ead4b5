"""Scores, margins, marginals, calibration and sets, against enumeration and their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from helpers import FLAT, built_in, prepared, transitions_of
from maxmargin import models
from maxmargin.confidence import conformal_quantile
from maxmargin.models.beliefs import Beliefs
from reference.cases import chain_case, fresh
from reference.enumerate import ChainTruth
from reference.problems import EDGES, EVERY, make_case
from reference.strategies import SEED

# Cases whose margins or marginals are refused, with the error message.
NO_MARGINS = {
    "grammar": "only Multiclass, Binary, Chain",
    "multilabel-all": r"the graph of X\[0\] has cycles",
    "multilabel-cycle": r"the graph of X\[0\] has cycles",
}
NO_MARGINALS = {**NO_MARGINS, "tree": "only Multiclass, Binary, Chain"}


def scored(case, w):
    """Yield the outputs of each example, as tuples of nodes, and their scores by definition."""
    for row in case.truth.examples(case.X):
        outputs = case.truth.outputs(row)
        scores = np.array([case.truth.joint_feature(row, y) @ w for y in outputs])
        yield [(y,) if case.kind in FLAT else y for y in outputs], scores


def refused(name, table, call):
    """Return whether a table lists the case; then the call must raise the table's message."""
    for prefix, says in table.items():
        if name.startswith(prefix):
            with pytest.raises(ValueError, match=says):
                call()
            return True
    return False


@pytest.mark.parametrize("name", EVERY)
def test_decision_function_is_the_score_of_the_prediction(seed, generator, name):
    case = make_case(name, seed)
    examples = prepared(case).bind(case.X)
    w = generator.normal(size=examples.dimension)
    found = examples.decide(w, 2)
    for value, (_, scores) in zip(found, scored(case, w), strict=True):
        assert value <= scores.max() + 1e-4
        if examples.argmax_exact:
            assert value == pytest.approx(scores.max(), abs=1e-4)


@pytest.mark.parametrize("name", [*EVERY, *EDGES])
def test_margins_are_those_of_all_outputs(seed, generator, name):
    case = make_case(name, seed)
    examples = prepared(case).bind(case.X)
    w = generator.normal(size=examples.dimension)
    if refused(name, NO_MARGINS, lambda: examples.margins(w)):
        return
    for margins, (outputs, scores) in zip(examples.margins(w, 2), scored(case, w), strict=True):
        best = outputs[int(scores.argmax())]
        for v, margin in enumerate(np.atleast_1d(margins)):
            other = [s for s, y in zip(scores, outputs, strict=True) if y[v] != best[v]]
            expected = scores.max() - max(other) if other else np.inf
            assert margin == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.05, 0.7, 30.0])
@pytest.mark.parametrize("name", [*EVERY, *EDGES])
def test_marginals_are_those_of_all_outputs(seed, generator, name, temperature):
    case = make_case(name, seed)
    examples = prepared(case).bind(case.X)
    w = generator.normal(size=examples.dimension)
    if refused(name, NO_MARGINALS, lambda: examples.beliefs(w, temperature)):
        return
    beliefs = examples.beliefs(w, temperature, 2)
    labels = [0, 1] if case.kind == "multilabel" else case.truth.classes
    marginals = beliefs.split(np.exp(beliefs.log_marginals()))
    for found, (outputs, scores) in zip(marginals, scored(case, w), strict=True):
        weights = np.exp((scores - scores.max()) / temperature)
        for v, own in enumerate(found):
            expected = [
                sum(p for p, y in zip(weights, outputs, strict=True) if y[v] == k) for k in labels
            ]
            np.testing.assert_allclose(own, np.array(expected) / weights.sum(), atol=2e-4)
    if name.startswith(("graph-forest", "multilabel")):
        return  # these have one partition sum per tree
    sums = beliefs.partitions()
    for a, b, (_, scores) in zip(
        beliefs.nodes[:-1], beliefs.nodes[1:], scored(case, w), strict=True
    ):
        whole = scores.max() + temperature * np.log(
            np.exp((scores - scores.max()) / temperature).sum()
        )
        np.testing.assert_allclose(sums[a:b], whole, atol=1e-4)


@given(data=st.data())
def test_beliefs_of_legal_chains_of_any_scale(data):
    """No score is too large: nothing overflows, and illegal labellings have probability zero."""
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    K, scale = data.draw(st.integers(2, 4)), data.draw(st.sampled_from([1e-6, 1.0, 1e3, 1e150]))
    pairs = [(a, b) for a in range(K) for b in range(K) if (a, b) != (0, 0)]
    illegal = [pair for pair in pairs if generator.uniform() < 0.4]
    truth = ChainTruth(range(K), 2, illegal=illegal)
    X = [generator.normal(size=(T, 2)) for T in (1, 2, 4)]
    model = models.Chain(classes=range(K), transitions=transitions_of(illegal) if illegal else None)
    model.initialize(X, [[0] * len(x) for x in X])
    w = scale * generator.normal(size=model.size_joint_feature)
    beliefs = model.bind(X).beliefs(w, 0.5 * scale)
    for x, found in zip(X, beliefs.split(np.exp(beliefs.log_marginals())), strict=True):
        outputs = truth.outputs(x)
        scores = np.array([truth.joint_feature(x, y) @ w for y in outputs]) / (0.5 * scale)
        weights = np.exp(scores - scores.max())
        expected = np.zeros((len(x), K))
        for y, p in zip(outputs, weights / weights.sum(), strict=True):
            expected[np.arange(len(x)), y] += p
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)


def test_fixed_labels_are_certain(generator):
    case = chain_case(generator, lengths=(4, 3))
    model = prepared(case)
    w = generator.normal(size=model.size_joint_feature)
    examples = model.bind(case.X).around([{1: 2}] * len(case.X))
    beliefs = examples.beliefs(w, 1.0)
    for found in beliefs.split(np.exp(beliefs.log_marginals())):
        np.testing.assert_allclose(found[1], [0, 0, 1], atol=1e-12)


@pytest.fixture
def tagger(generator):
    """Return a tagger of noisy sequences, and a function that draws more of them."""

    def draw(n):
        X, Y = [], []
        for _ in range(n):
            y = np.cumsum(generator.integers(2, size=int(generator.integers(1, 7)))) % 3
            X.append(np.eye(3)[y] + generator.normal(size=(len(y), 3)))
            Y.append([f"{k}" for k in y])
        return X, Y

    svm = mm.StructuralSVM(models.Chain(start=True), C=0.1).fit(*draw(80))
    return svm, draw


def brier(svm, X, Y, temperature):
    rows = zip(svm.predict_marginals(X, temperature=temperature), Y, strict=True)
    nodes = (node for p, y in rows for node in zip(p, y, strict=True))
    return np.mean([((q - (svm.classes_ == k)) ** 2).sum() for q, k in nodes])


def test_calibrate_brings_probabilities_near_the_labels(tagger):
    svm, draw = tagger
    X, Y = draw(150)
    assert not hasattr(svm, "predict_proba")
    assert svm.calibrate(X, Y) is svm
    best = brier(svm, X, Y, svm.temperature_)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert best <= brier(svm, X, Y, factor * svm.temperature_) + 1e-9
    for p, q in zip(svm.predict_proba(X), svm.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(p, q)


def test_a_fit_forgets_confidence_and_a_clone_has_none(tagger):
    svm, draw = tagger
    svm.calibrate(*draw(50)).conformal(*draw(50), alpha=0.2)
    assert not hasattr(clone(svm), "temperature_")
    svm.calibrate(*draw(50))
    assert not hasattr(svm, "conformal_")  # its threshold belonged to other probabilities
    svm.fit(*draw(20))
    assert not hasattr(svm, "temperature_")


def test_files_keep_temperature_and_sets(tagger, tmp_path):
    svm, draw = tagger
    X, _ = draw(40)
    svm.calibrate(*draw(50))
    for k in (None, 20):
        svm.conformal(*draw(60), alpha=0.3, k=k)
        svm.save(tmp_path / "model")
        loaded = mm.load(tmp_path / "model")
        assert loaded.temperature_ == svm.temperature_ and loaded.conformal_ == svm.conformal_
        plain = [[list(map(str, node)) for node in example] for example in svm.predict_set(X)]
        again = [[list(map(str, node)) for node in example] for example in loaded.predict_set(X)]
        assert plain == again


def test_whole_outputs_are_the_likely_ones_of_the_k_best(tagger):
    svm, draw = tagger
    svm.calibrate(*draw(60)).conformal(*draw(99), alpha=0.4, k=30)
    X, _ = draw(10)
    for x, kept in zip(X, svm.predict_set(X), strict=True):
        model, w, c = svm.model_, svm.coef_, svm.temperature_
        outputs = model.inference_k_best(x, w, 10**6)
        scores = np.array([s for _, s in outputs]) / c
        p = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        expected = [
            list(y)
            for (y, _), q in zip(outputs, p, strict=True)
            if 1 - q <= svm.conformal_.threshold
        ]
        assert [list(y) for y in kept] == expected[:30]


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("k", [None, 64])
def test_coverage_is_that_which_was_asked_for(seed, alpha, k):
    """Mean coverage over 1,000 random splits is 1 - alpha, up to sampling error and the rank's rounding."""
    generator = fresh(seed, 9)
    n, total = 60, 260
    nodes = generator.integers(1, 5, size=total) if k is None else np.ones(total, dtype=int)
    ends = np.concatenate([[0], np.cumsum(nodes)])
    level = np.repeat(generator.normal(size=total), nodes)  # nodes of an example are correlated
    scores = level + generator.normal(size=len(level))
    covered = []
    for _ in range(1000):
        order = generator.permutation(total)
        first, second = order[:n], order[n:]
        own = np.concatenate([scores[ends[i] : ends[i + 1]] for i in first])
        q = conformal_quantile(own, nodes[first], alpha)
        covered.append(np.mean([(scores[ends[i] : ends[i + 1]] <= q).mean() for i in second]))
    error = 4 * np.std(covered) / np.sqrt(len(covered))
    assert 1 - alpha - error <= np.mean(covered) <= 1 - alpha + 1 / (n + 1) + error


def test_sets_of_a_fitted_tagger_cover(tagger):
    """The full path on synthetic data: many calibration sets, one large test set."""
    svm, draw = tagger
    svm.calibrate(*draw(100))
    X, Y = draw(400)
    covered = []
    for _ in range(60):
        svm.conformal(*draw(50), alpha=0.2)
        hits = [
            np.mean([k in kept for k, kept in zip(y, sets, strict=True)])
            for y, sets in zip(Y, svm.predict_set(X), strict=True)
        ]
        covered.append(np.mean(hits))
    error = 4 * np.std(covered) / np.sqrt(len(covered)) + 0.02  # plus 0.02 for the test set
    assert 0.8 - error <= np.mean(covered) <= 0.8 + 1 / 51 + error


def test_too_few_examples_leave_every_label():
    assert conformal_quantile(np.arange(5.0), np.ones(5, dtype=int), 0.1) == np.inf
    assert conformal_quantile(np.arange(9.0), np.ones(9, dtype=int), 0.1) == 8.0
    assert conformal_quantile(np.arange(99.0), np.ones(99, dtype=int), 0.1) == 89.0


@pytest.mark.parametrize("kind", [mm.MulticlassSVC, mm.BinarySVC])
def test_flat_front_ends(kind, generator, tmp_path):
    K = 2 if kind is mm.BinarySVC else 3
    y = generator.integers(K, size=400)
    X = np.eye(3)[y] + generator.normal(size=(400, 3))
    svm = kind(C=1.0).fit(X[:100], y[:100])
    assert not hasattr(svm, "predict_proba")
    svm.calibrate(X[100:250], y[100:250])
    p = svm.predict_proba(X)
    assert p.shape == (400, K)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(svm.classes_[p.argmax(axis=1)], svm.predict(X))
    scores = svm.decision_function(X)
    if K == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-scores / svm.temperature_)))
        np.testing.assert_allclose(svm.predict_margins(X), np.abs(scores))
    else:
        top = np.sort(scores, axis=1)
        np.testing.assert_allclose(svm.predict_margins(X), top[:, -1] - top[:, -2])
    svm.conformal(X[250:], y[250:], alpha=0.25)
    svm.save(tmp_path / "model")
    sets = mm.load(tmp_path / "model").predict_set(X[250:])
    assert np.mean([k in kept for k, kept in zip(y[250:], sets, strict=True)]) >= 0.75
    with pytest.raises(ValueError, match="k must be None"):
        svm.conformal(X, y, k=3)


def test_probabilities_of_sets_of_labels(generator):
    Y = generator.integers(2, size=(60, 3))
    X = np.hstack([Y + generator.normal(size=(60, 3)), np.ones((60, 1))])
    for pairs in ("none", [(0, 1)]):
        svm = (
            mm.StructuralSVM(models.MultiLabel(pairs)).fit(X[:30], Y[:30]).calibrate(X[30:], Y[30:])
        )
        p = svm.predict_proba(X)
        assert p.shape == (60, 3) and (p >= 0).all() and (p <= 1).all()
        if pairs == "none":
            np.testing.assert_array_equal(p > 0.5, svm.predict(X) == 1)
        kept = svm.conformal(X[30:], Y[30:], 0.2).predict_set(X)
        assert len(kept) == 60 and all(len(own) == 3 for own in kept)


def test_nodes_of_several_types(generator):
    graph = {"a": generator.normal(size=(2, 1)), "b": generator.normal(size=(1, 2))}
    X = [(graph, [(0, 2)], None, ["a", "a", "b"])] * 3
    Y = [["x", "y", 0], ["y", "x", 2], ["x", "x", 1]]
    svm = mm.StructuralSVM(models.FactorGraph()).fit(X, Y)
    for found in svm.predict_marginals(X):
        assert [len(p) for p in found] == [2, 2, 3]
        np.testing.assert_allclose([p.sum() for p in found], 1.0)
    assert svm.predict_margins(X)[0].shape == (3,)


@pytest.mark.parametrize("rank", [None, 5])
def test_kernels(tagger, rank, generator):
    _, draw = tagger
    X, Y = draw(12)
    svm = mm.StructuralSVM(models.Kernel(models.Chain(), rank=rank)).fit(X, Y)
    for x, p, m in zip(X, svm.predict_marginals(X), svm.predict_margins(X), strict=True):
        assert p.shape == (len(x), len(svm.classes_)) and m.shape == (len(x),)
    best = [own[0][1] for own in svm.predict_k_best(X, 1)]
    np.testing.assert_allclose(svm.decision_function(X), best, atol=1e-8)
    before = svm.predict_marginals(X)
    svm.calibrate(X, Y)
    likely = [
        np.mean(
            [
                p[t, list(svm.classes_).index(y[t])]
                for p, y in zip(some, Y, strict=True)
                for t in range(len(y))
            ]
        )
        for some in (before, svm.predict_marginals(X))
    ]
    # probabilities of the labels used for calibration
    assert svm.temperature_ > 0 and likely[1] > likely[0]


def test_empty_sequences(tagger):
    svm, draw = tagger
    X = [draw(1)[0][0], np.empty((0, 3))]
    assert svm.decision_function(X)[1] == 0
    assert svm.predict_margins(X)[1].shape == (0,)
    assert svm.predict_marginals(X)[1].shape == (0, 3)


REFUSALS = {
    "temperature": (
        lambda svm, X, Y: svm.predict_marginals(X, temperature=0),
        "temperature must be",
    ),
    "alpha": (lambda svm, X, Y: svm.conformal(X, Y, alpha=1.0), "alpha must be a number"),
    "k": (lambda svm, X, Y: svm.conformal(X, Y, k=0), "k must be"),
    "few": (lambda svm, X, Y: svm.conformal(X, Y, alpha=0.01, k=1), "too few of the"),
    "label": (lambda svm, X, Y: svm.calibrate(X, [["q"] * len(y) for y in Y]), "is not among"),
    "set": (lambda svm, X, Y: svm.predict_set(X), r"call conformal\(X, Y, alpha\)"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals(tagger, what):
    svm, draw = tagger
    call, says = REFUSALS[what]
    with pytest.raises(ValueError, match=says):
        call(svm, *draw(30))


def test_impossible_lengths_are_named():
    rules = models.Transitions(forbidden=[("a", "a"), ("b", "b")], starts=["b"], ends=["a"])
    svm = mm.StructuralSVM(models.Chain(transitions=rules)).fit([np.ones((2, 1))], [list("ab")])
    for call in (svm.predict_margins, svm.predict_marginals):
        with pytest.raises(ValueError, match=r"X\[1\].*no labelling of 3 positions"):
            call([np.ones((2, 1)), np.ones((3, 1))])


def test_models_with_hidden_parts_refuse(generator):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    svm = mm.LatentSVM(models.Latent(models.Multiclass(), parts=2)).fit(X, y)
    with pytest.raises(ValueError, match="hidden parts have no"):
        svm.predict_margins(X)


def test_rows_of_different_lengths_split():
    beliefs = Beliefs(
        np.log([0.5, 0.5, 1.0, 2.0, 1.0]),
        [np.array(["x", "y"]), np.array([0, 1, 2])],
        np.array([0, 1]),
        np.array([0, 2]),
        1.0,
    )
    (found,) = beliefs.split(np.exp(beliefs.log_marginals()))
    np.testing.assert_allclose(found[0], [0.5, 0.5])
    np.testing.assert_allclose(found[1], [0.25, 0.5, 0.25])
    chosen = beliefs.chosen(np.array([True, False, False, True, True]))
    assert [node.tolist() for node in chosen[0]] == [["x"], [1, 2]]


@pytest.mark.parametrize("name", ["chain-1to4-csr-ends", "chain-illegal", "tree-path"])
def test_threads_change_nothing(seed, name):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), tol=0.1).fit(case.X, case.Y)
    one = svm.predict_margins(case.X)
    for a, b in zip(one, svm.set_params(n_jobs=3).predict_margins(case.X), strict=True):
        np.testing.assert_array_equal(a, b)
