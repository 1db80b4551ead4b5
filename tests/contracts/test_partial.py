"""True outputs with unknown labels: completions and the objective against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models
from reference.cases import fresh
from reference.partial import agrees, hide, partial_loss, turning_chains
from reference.problems import make_case

NAMES = [
    "chain-1to4-dense",
    "chain-1to4-csr-ends",
    "chain-cost-four-labels",
    "edges-dense",
    "second-order",
    "graph-forest-symmetric",
    "multilabel-path-bias",
]


def objective(case, Y, w):
    """F by its definition, with all outputs enumerated."""
    total = 0.5 * w @ w
    for x, known in zip(case.truth.examples(case.X), Y, strict=True):
        outputs = case.truth.outputs(x)
        scores = np.array([w @ case.truth.joint_feature(x, y) for y in outputs])
        losses = np.array([partial_loss(case.truth, known, y) for y in outputs])
        right = [s for s, y in zip(scores, outputs, strict=True) if agrees(y, known)]
        total += case.C * (np.max(scores + losses) - np.max(right))
    return total


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 50))
def test_completions_are_the_best_that_agree(name, seed):
    case = make_case(name, seed % 3)
    Y = hide(case, seed)
    model = models.Partial(built_in(case))
    model.initialize(case.X, Y)
    w = fresh(seed, 701).normal(size=model.size_joint_feature) * 10.0 ** (seed % 5 - 2)
    found = model.completions(case.X, Y, w, n_jobs=1 + seed % 3)
    for x, known, z in zip(case.truth.examples(case.X), Y, found, strict=True):
        outputs = [y for y in case.truth.outputs(x) if agrees(y, known)]
        best = max(w @ case.truth.joint_feature(x, y) for y in outputs)
        assert agrees(list(z.labels), known)
        assert w @ case.truth.joint_feature(x, tuple(z.labels)) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_falls_and_is_that_of_the_definition(seed, name, tmp_path):
    case = make_case(name, seed)
    Y = hide(case, seed)
    svm = mm.LatentSVM(built_in(case), C=case.C, tol=1e-4, random_state=seed)
    quietly(lambda: svm.fit(case.X, Y))
    assert (np.diff(svm.objective_path_) <= 1e-9).all()
    assert svm.objective_path_[-1] == pytest.approx(objective(case, Y, svm.coef_), rel=1e-7)
    again = mm.certify(svm, case.X, Y)
    assert again.gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    svm.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    for a, b in zip(loaded.predict(case.X), svm.predict(case.X), strict=True):
        assert list(a) == list(b)
    assert loaded.score(case.X, Y) == svm.score(case.X, Y)
    assert svm.loss(case.X, Y) == pytest.approx(
        np.mean(
            [
                partial_loss(case.truth, k, list(p))
                for k, p in zip(Y, svm.predict(case.X), strict=True)
            ]
        )
    )


def test_nothing_unknown_is_the_convex_problem(seed):
    case = make_case("chain-1to4-dense", seed)
    svm = mm.LatentSVM(models.Chain(), C=case.C, tol=1e-6).fit(case.X, case.Y)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)
    assert len(svm.objective_path_) == 1


def test_an_example_of_which_nothing_is_known_adds_nothing(seed):
    case = make_case("multiclass-cost-dense", seed)
    extra = fresh(seed, 702).normal(size=(5, case.X.shape[1]))
    X, Y = np.vstack([case.X, extra]), [*case.Y, *[None] * 5]
    svm = mm.LatentSVM(built_in(case), C=case.C, tol=1e-6).fit(X, Y)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)
    assert mm.certify(svm, X, Y).gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    assert svm.score(extra, [None] * 5) == 1.0


def test_known_labels_teach_the_unknown_ones():
    """Completions help to learn transitions: the score is better than with the known parts alone."""
    X, hidden, X_test, Y_test = turning_chains()
    svm = mm.LatentSVM(models.Chain(), C=0.1, tol=0.05, round_tol=0.01).fit(X, hidden)
    known = mm.StructuralSVM(models.Chain(), C=0.1, tol=0.05).fit(*svm.model_.known_part(X, hidden))
    assert svm.score(X_test, Y_test) > known.score(X_test, Y_test) + 0.03


def test_attributes_typed_graphs_and_matrices():
    words = [["the", "dog", "barks"], ["dogs", "bark"]] * 3
    tags = [["D", None, "V"], ["N", None]] * 3
    X = [[{"w": word} for word in s] for s in words]
    svm = mm.LatentSVM(models.Chain(), C=10.0).fit(X, tags)
    assert set(np.concatenate(svm.predict(X))) <= {"D", "N", "V"}
    parts = svm.model_.unpack(svm.coef_)
    assert list(parts) == ["unary", "transitions"]
    assert sum(part.size for part in parts.values()) == len(svm.coef_)
    g = np.random.default_rng(1)
    nodes = [g.normal(size=(4, 2)) for _ in range(6)]
    kinds = ["a", "b", "a", "b"]
    graphs = [(x, [(0, 1), (1, 2), (2, 3)], None, kinds) for x in nodes]
    Y = [[int(x[0, 0] > 0), "p", None, "q"] for x in nodes] + []
    Y[0][2], Y[1][2], Y[2][2] = 0, 1, None
    fitted = quietly(lambda: mm.LatentSVM(models.FactorGraph()).fit(graphs, Y))
    assert all(label in (0, 1) for label in fitted.completions_[3].labels[[0, 2]])
    table = np.where(g.random((8, 3)) < 0.3, np.nan, g.integers(2, size=(8, 3)))
    sets = quietly(lambda: mm.LatentSVM(models.MultiLabel()).fit(g.normal(size=(8, 2)), table))
    assert sets.predict(g.normal(size=(2, 2))).shape == (2, 3)


def test_legal_tags_alone_complete_what_is_known():
    """I is illegal after O. A run of known labels may start with I; a completion must not have I after O."""
    g = np.random.default_rng(3)
    Y = [["O", "B-X", "I-X", "O"], ["B-X", "I-X", "I-X", "O"], ["O", "O", "B-X", "O"]] * 4
    tags = ["B-X", "I-X", "O"]
    X = [np.eye(3)[[tags.index(t) for t in y]] + g.normal(scale=0.5, size=(4, 3)) for y in Y]
    some = [[label if g.random() < 0.5 else None for label in y] for y in Y]
    some[0] = [None, None, "I-X", None]
    svm = mm.LatentSVM(models.Chain(transitions="iob2", classes=tags), tol=1e-3).fit(X, some)
    assert (np.diff(svm.objective_path_) <= 1e-9).all()
    for y in [z.labels for z in svm.completions_] + list(svm.predict(X)):
        for before, tag in zip(["O", *y[:-1]], y, strict=True):
            assert tag != "I-X" or before in ("B-X", "I-X")
    assert mm.certify(svm, X, some).gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    some[1] = ["O", "I-X", None, None]
    with refusal(r"X\[1\]: no labelling of .* is legal", r"Y\[1\]"):
        svm.fit(X, some)


def test_what_cannot_be_is_refused():
    X = [np.ones((2, 1))] * 2
    with refusal("no known label"):
        mm.LatentSVM(models.Chain()).fit(X, [[None, None]] * 2)
    with refusal(r"Y\[1\] must have 2 labels"):
        mm.LatentSVM(models.Chain()).fit(X, [[0, 1], [None]])
    with pytest.raises(
        TypeError,
        match=r"must be a models\.Latent, or for unknown labels one of Binary, Multiclass",
    ):
        mm.LatentSVM(models.Grammar()).fit(X, [[0, 1]] * 2)
    with pytest.raises(TypeError, match="Partial: model must be one of Binary, Multiclass"):
        mm.LatentSVM(models.Partial(models.Ranking())).fit(np.ones((2, 1)), [0, 1])
    with pytest.raises(TypeError, match=r"fit it with maxmargin\.LatentSVM"):
        mm.StructuralSVM(models.Partial(models.Chain())).fit(X, [[0, 1]] * 2)
