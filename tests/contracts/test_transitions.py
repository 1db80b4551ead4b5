"""Illegal transitions and fixed labels: every argmax of a chain is the best legal output."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from helpers import assert_optimal, assert_truthful, fit, transitions_of
from maxmargin import models, solvers
from maxmargin.models import chain as chain_module
from maxmargin.problem import Formulation
from reference.cases import chain_case, fresh
from reference.enumerate import ChainTruth
from reference.strategies import SEED

# thresholds on the number of labels for the search over stored transitions
ALWAYS, NEVER = 1, 10**9


def random_rules(generator, K, share):
    """Draw illegal pairs; label 0 is always legal, so every length has a legal labelling."""
    pairs = [(a, b) for a in range(K) for b in range(K) if (a, b) != (0, 0)]
    pairs += [(None, b) for b in range(1, K)] + [(a, None) for a in range(1, K)]
    return [pair for pair in pairs if generator.uniform() < share]


def legal_labels(generator, truth, T):
    """Draw labellings until one is legal; after 50 tries, return all zeros."""
    for _ in range(50):
        y = tuple(generator.integers(len(truth.classes), size=T).tolist())
        if truth.legal(y):
            return y
    return (0,) * T


def problem(draw, generator, K, lengths, d=2):
    """Draw a constrained chain with data, the reference, and weights with ties and zeros."""
    illegal = random_rules(generator, K, draw(st.sampled_from([0.05, 0.5, 0.95])))
    options = {"start": draw(st.booleans()), "end": draw(st.booleans())}
    truth = ChainTruth(range(K), d, illegal=illegal, **options)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    X = [generator.normal(size=(T, d)).astype(dtype) for T in lengths]
    Y = [legal_labels(generator, truth, len(x)) for x in X]
    model = models.Chain(classes=range(K), transitions=transitions_of(illegal), **options)
    model.initialize(X, Y)
    w = generator.normal(size=model.size_joint_feature) * draw(st.sampled_from([0.0, 0.5, 3.0]))
    transitions = model.unpack(w)["transitions"]
    transitions[generator.uniform(size=transitions.shape) < draw(st.sampled_from([0, 0.9]))] = 0.0
    return truth, model, X, Y, np.round(w) if draw(st.booleans()) else w


def bound(model, X, Y, threshold, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(chain_module, "MANY_LABELS", threshold)
        return model.bind(X, Y)


@given(data=st.data())
@pytest.mark.parametrize("threshold", [ALWAYS, NEVER])
def test_every_argmax_is_that_of_the_legal_outputs(data, monkeypatch, threshold):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    K = data.draw(st.integers(2, 5))
    truth, model, X, Y, w = problem(data.draw, generator, K, (1, 2, 4))
    examples = bound(model, X, Y, threshold, monkeypatch)
    wanted = {form: [] for form in product(("max", "sum"), ("margin", "slack"))}
    for x, y, found in zip(X, Y, examples.predict(w, 2), strict=True):
        outputs, own = truth.outputs(x), w @ truth.joint_feature(x, y)
        margins = np.array([w @ truth.joint_feature(x, u) - own for u in outputs])
        losses = np.array([truth.loss(y, u) for u in outputs])
        assert truth.legal(found)
        assert w @ truth.joint_feature(x, found) - own == pytest.approx(margins.max(), abs=1e-5)
        for rescaling, values in (("margin", losses + margins), ("slack", losses * (1 + margins))):
            wanted["max", rescaling].append(values.max())
            wanted["sum", rescaling].append(np.maximum(0, values).sum())
    for form, expected in wanted.items():
        found, ceilings = examples.under(Formulation(*form)).slacks(w)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(form))
        np.testing.assert_allclose(ceilings, expected, rtol=1e-5, atol=1e-5)


@given(data=st.data())
def test_many_labels_follow_the_same_rules(data, monkeypatch):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    for K, longest in ((40, 9), (300, 6), (20, 300)):
        lengths = generator.integers(1, longest, size=4)
        truth, model, X, Y, w = problem(data.draw, generator, K, lengths)
        full, large = (bound(model, X, Y, limit, monkeypatch) for limit in (NEVER, ALWAYS))
        assert large.core.many and not full.core.many
        np.testing.assert_allclose(large.slacks(w)[0], full.slacks(w)[0], rtol=1e-5, atol=1e-5)
        for x, y, z in zip(X, large.predict(w, 2), full.predict(w), strict=True):
            assert truth.legal(y.tolist()) and truth.legal(z.tolist())
            assert w @ model.joint_feature(x, y) == pytest.approx(
                w @ model.joint_feature(x, z), abs=1e-5
            )


@pytest.mark.parametrize("solver", ["proximal", "sda", "one-slack", "streaming"])
def test_many_labels_reach_the_optimum_of_the_legal_outputs(monkeypatch, seed, solver):
    monkeypatch.setattr(chain_module, "MANY_LABELS", ALWAYS)
    case = chain_case(fresh(seed, 5), n=8, illegal=((0, 1), (2, 2), (None, 2), (1, None)), C=2.0)
    svm = fit(case, solvers.Streaming(passes=None) if solver == "streaming" else solver)
    assert_optimal(case, svm)
    assert_truthful(case, svm)


@given(data=st.data())
def test_fixed_labels_leave_the_best_of_the_others(data):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    case = chain_case(
        generator,
        lengths=(1, 3, 4),
        layout=data.draw(st.sampled_from(["dense", "csr"])),
        dtype=data.draw(st.sampled_from([np.float64, np.float32])),
        start=data.draw(st.booleans()),
        illegal=data.draw(st.sampled_from([(), ((0, 1), (2, 2), (None, 1))])),
    )
    svm = fit(case, tol=1e-2)
    svm.coef_ = generator.normal(size=svm.coef_.shape)
    fixed, known = [], []
    for x, y in zip(case.X, case.Y, strict=True):
        held = {t: y[t] for t in range(x.shape[0]) if generator.uniform() < 0.5}
        known.append(held)
        forms = [held, [held.get(t) for t in range(x.shape[0])]]
        fixed.append(None if not held else forms[int(generator.integers(2))])
    for x, held, y in zip(case.X, known, svm.predict(case.X, fixed=fixed), strict=True):
        rows = case.truth.examples([x])[0]
        able = [u for u in case.truth.outputs(rows) if all(u[t] == k for t, k in held.items())]
        assert tuple(y) in able
        best = max(svm.coef_ @ case.truth.joint_feature(rows, u) for u in able)
        value = svm.coef_ @ case.truth.joint_feature(rows, tuple(y))
        assert value == pytest.approx(best, abs=1e-5)


SPANS = {  # patterns of legal sequences, over the letters of one type
    "iob2": r"(O|BI*)*",
    "iobes": r"(O|S|BI*E)*",
    "bilou": r"(O|U|BI*L)*",
}


@pytest.mark.parametrize("scheme", SPANS)
def test_schemes_are_their_regular_expressions(scheme):
    letters = sorted(set(SPANS[scheme]) & set("OBIESLU"))
    Y = [[letter if letter == "O" else f"{letter}-X" for letter in letters]]
    model = models.Chain(classes=Y[0], transitions=scheme)
    model.initialize([np.zeros((len(letters), 1))], Y)
    for T in range(1, 6):
        for word in product(letters, repeat=T):
            y = [letter if letter == "O" else f"{letter}-X" for letter in word]
            codes = model.labels_.encode(y)
            legal = model.rules_.first_illegal(codes, np.array([0, T])) is None
            assert legal == bool(re.fullmatch(SPANS[scheme], "".join(word))), word


def test_types_of_spans_do_not_mix():
    labels = ["O", "B-A", "I-A", "B-B-C", "I-B-C"]
    model = models.Chain(classes=labels, transitions="iob2")
    model.initialize([np.zeros((2, 1))], [["O", "O"]])
    assert model.rules_.given() == "iob2"
    for a, b in product(labels, repeat=2):
        found = model.rules_.first_illegal(model.labels_.encode(["O", a, b]), np.array([0, 1, 3]))
        broken = b.startswith("I") and a[2:] != b[2:]
        assert (found is not None) == (broken or a.startswith("I")), (a, b)


@pytest.fixture
def tagger(generator):
    """Return a tagger of spans and its data."""
    X = [generator.normal(size=(T, 4)) for T in (3, 2, 4, 3, 1) * 4]
    Y = [["B-A", "I-A", "O", "B-B"][: len(x)] for x in X]
    Y[0] = ["B-B", "I-B", "O"]
    return mm.StructuralSVM(models.Chain(transitions="iob2")).fit(X, Y), X, Y


WRONG = {
    "pair": (["O", "I-A", "O"], r"Y\[3\]\[1\]: 'I-A' after 'O' is illegal"),
    "start": (["I-A", "I-A", "O"], r"Y\[3\]\[0\]: 'I-A' at the start is illegal"),
    "other type": (["B-A", "I-B", "O"], r"Y\[3\]\[1\]: 'I-B' after 'B-A' is illegal"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("solver", ["auto", "streaming"])
def test_illegal_true_outputs_are_named(tagger, wrong, solver):
    svm, X, Y = tagger
    y, says = WRONG[wrong]
    Y = [*Y[:3], y, *Y[4:]]
    with pytest.raises(ValueError, match=says):
        clone(svm).set_params(solver=solver).fit(X, Y)
    with pytest.raises(ValueError, match=says):
        mm.certify(svm, X, Y)


def test_an_illegal_end_is_named():
    model = models.Chain(transitions={"ends": ["a"]})
    with pytest.raises(ValueError, match=r"Y\[1\]\[1\]: 'a' at the end"):
        mm.StructuralSVM(model).fit([np.ones((2, 1))] * 2, [["a", "b"], ["b", "a"]])


IMPOSSIBLE = {
    "pair": ([{0: "O", 1: "I-A"}], r"X\[0\].*\{0: 'O', 1: 'I-A'\}.*fixed\[0\].* is 1"),
    "start": ([{0: "I-A"}], r"X\[0\].* is 0"),
    "shape": ([["O"]], r"fixed\[0\] must have 3 labels"),
    "text": (["O-O"], r"fixed\[0\] must have 3 labels"),
    "position": ([{3: "O"}], r"fixed\[0\]: 3 is not a position of 0 to 2"),
    "label": ([{1: "Q"}], r"fixed\[0\]\[1\] = 'Q' is not among the classes"),
    "count": ([], "fixed has 0 examples, but X has 1"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_impossible_fixed_labels_are_named(tagger, what):
    fixed, says = IMPOSSIBLE[what]
    with pytest.raises(ValueError, match=says):
        tagger[0].predict(tagger[1][:1], fixed=fixed)


@pytest.mark.parametrize("threshold", [ALWAYS, NEVER])
def test_lengths_without_a_legal_labelling_are_named(monkeypatch, threshold):
    monkeypatch.setattr(chain_module, "MANY_LABELS", threshold)
    rules = models.Transitions(forbidden=[("a", "a"), ("b", "b")], starts=["b"], ends=["a"])
    X = [np.ones((2, 1)), np.ones((4, 1))]
    svm = mm.StructuralSVM(models.Chain(transitions=rules)).fit(X, [list("ab"), list("abab")])
    assert ["".join(y) for y in svm.predict([np.ones((6, 1))])] == ["ababab"]
    for call in (svm.predict, lambda X: svm.predict_k_best(X, 2)):
        with pytest.raises(ValueError, match=r"X\[0\].*no labelling of 3 positions"):
            call([np.ones((3, 1))])


BAD = {
    "name": ("iob1", "transitions must be one of"),
    "type": (7, "transitions must be None, one of"),
    "field": ({"pairs": []}, "'pairs' is not one of"),
    "triple": ({"forbidden": [("O", "O", "O")]}, "pairs"),
    "text": ({"starts": "O"}, "starts must be a list"),
    "unknown": ({"ends": ["Z"]}, "'Z' is not among the classes"),
    "scheme": ("bilou", "the tag 'X' does not belong to the scheme 'bilou'"),
}


@pytest.mark.parametrize("what", BAD)
def test_wrong_transitions_are_refused(what):
    given, says = BAD[what]
    with pytest.raises(ValueError, match=re.escape(says)):
        mm.StructuralSVM(models.Chain(transitions=given)).fit([np.ones((2, 1))], [["O", "X"]])


@pytest.mark.parametrize(
    "given",
    [
        "iob2",
        models.Transitions([("O", "I-A")], starts=["I-A"], ends=["B-B"]),
        {"forbidden": [("O", "I-A")], "starts": ["I-A"], "ends": ["B-B"]},
    ],
)
def test_files_keep_the_rules(tagger, tmp_path, given, generator):
    _, X, Y = tagger
    Y = [y if y[-1] != "B-B" else [*y[:-1], "O"] for y in Y]
    Y[0] = ["B-B", "I-B", "O"]
    svm = mm.StructuralSVM(models.Chain(transitions=given)).fit(X, Y)
    svm.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    more = [generator.normal(size=(T, 4)) for T in (1, 5, 9) * 10]
    assert list(map(list, loaded.predict(more))) == list(map(list, svm.predict(more)))
    np.testing.assert_array_equal(loaded.model_.rules_.keys, svm.model_.rules_.keys)
    again = clone(loaded).fit(X, Y)  # the file restores the parameter
    np.testing.assert_array_equal(again.model_.rules_.keys, svm.model_.rules_.keys)


def test_a_warm_start_from_illegal_outputs_is_refused(tagger):
    _, X, Y = tagger
    svm = mm.StructuralSVM(models.Chain(), C=0.01, warm_start=True).fit(X, Y)
    svm.set_params(model=models.Chain(transitions="iob2"))
    with pytest.raises(ValueError, match="warm_start"):
        svm.fit(X, Y)


@pytest.mark.parametrize("rank", [None, 6])
def test_kernels_keep_the_rules(tagger, rank):
    _, X, Y = tagger
    model = models.Kernel(models.Chain(transitions="iob2"), rank=rank)
    svm = mm.StructuralSVM(model, tol=1e-3).fit(X, Y)
    assert svm.certificate_.converged
    rules = svm.model_.base_.rules_
    outputs = svm.predict(X)
    offsets = np.concatenate([[0], np.cumsum([len(y) for y in outputs])])
    assert rules.first_illegal(rules.labels.encode(np.concatenate(outputs)), offsets) is None
    fixed = svm.predict(X[:1], fixed=[{1: "I-B"}])[0]
    assert fixed[1] == "I-B" and fixed[0] in ("B-B", "I-B")


def test_other_models_take_no_fixed_labels(generator):
    X, y = generator.normal(size=(9, 2)), [0, 1, 2] * 3
    svm = mm.StructuralSVM(models.Multiclass()).fit(X, y)
    with pytest.raises(ValueError, match="fixed: this model does not take fixed labels"):
        svm.predict(X, fixed=[None] * 9)
