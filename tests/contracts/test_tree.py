"""Tree against brute force over all placements, and with every feature of built-in models."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from helpers import built_in, prepared, quietly, refusal
from maxmargin import models
from maxmargin.models.tree import spanning_tree
from reference import enumerate as truths
from reference.problems import PARTS, make_case


@pytest.fixture(params=PARTS)
def case(request, seed):
    return make_case(request.param, seed)


def as_places(y):
    return tuple(tuple(place) for place in np.asarray(y).tolist())


# The oracle.


# Springs that push, and springs without force, are as exact as springs that pull.
@pytest.mark.parametrize("spring", [-2.0, -1e-9, 0.0, 1e-9, 2.0, None])
def test_inference_is_brute_force(case, generator, spring):
    model, truth = prepared(case), case.truth
    w = generator.normal(size=model.size_joint_feature)
    if spring is not None:
        w[-4 * len(truth.edges) :].reshape(-1, 4)[:, [1, 3]] = spring
    examples = model.bind(case.X, case.Y)
    slacks = examples.slacks(w, 2)[0]
    predicted = examples.predict(w, 2)
    for i, (x, y) in enumerate(zip(truth.examples(case.X), case.Y, strict=True)):
        best = truths.scores(truth, x, w).max()
        assert truth.joint_feature(x, as_places(predicted[i])) @ w == pytest.approx(best, rel=1e-9)
        values = truths.augmented_scores(truth, x, y, w)
        own = truth.joint_feature(x, y) @ w
        assert slacks[i] == pytest.approx(values.max() - own, rel=1e-9, abs=1e-9)
        found = as_places(model.loss_augmented_inference(x, y, w))
        value = truth.joint_feature(x, found) @ w + truth.loss(y, found)
        assert value == pytest.approx(values.max(), rel=1e-9)


@settings(max_examples=60)
@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=12),
    st.integers(-6, 6),
    st.integers(-6, 6),
    st.floats(-5, 5),
)
def test_a_row_of_two_parts_is_the_distance_transform(scores, quadratic, linear, anchor):
    """The child's row of scores under one spring, against all pairs; with ties and steep springs."""
    n = len(scores)
    X = [np.array(scores, dtype=float).reshape(1, n, 1)]
    model = models.Tree(edges=[(0, 1)])
    model.initialize(X, [[(0, 0), (0, 0)]])
    model.anchors_[0, 1] = anchor
    w = np.array([0.0, 1.0, 0.0, 0.0, linear / 4, quadratic / 4])
    (found,) = model.bind(X).predict(w, 1)
    best = max(
        model.joint_feature(X[0], [(0, a), (0, b)]) @ w for a, b in product(range(n), repeat=2)
    )
    assert model.joint_feature(X[0], found) @ w == pytest.approx(best, rel=1e-10, abs=1e-10)


def test_combine_is_the_definition(case):
    model = prepared(case)
    examples = model.bind(case.X, case.Y)
    for i, (x, y) in enumerate(zip(case.truth.examples(case.X), case.Y, strict=True)):
        for output in case.truth.outputs(x)[::29]:
            codes = np.array([r * x.shape[1] + c for r, c in output], dtype=np.int32)
            assert examples.knows(codes, np.array([i]))
            offset, vector = examples.combine(np.array([i]), np.ones(1), codes)
            assert offset == pytest.approx(case.truth.loss(y, output), rel=1e-12, abs=1e-14)
            assert model.loss(y, output) == pytest.approx(offset, rel=1e-12, abs=1e-14)
            psi = case.truth.joint_feature(x, output) - case.truth.joint_feature(x, y)
            np.testing.assert_allclose(vector, psi, rtol=1e-10, atol=1e-12)
    assert not examples.knows(np.full(model.n_parts_, 99, np.int32), np.array([0]))
    assert not examples.knows(np.zeros(model.n_parts_ + 1, np.int32), np.array([0]))


# Solvers, and operations on a fit.


def test_a_damaged_file_is_refused(seed):
    model = prepared(make_case("tree-path", seed))
    state, arrays = model.state()
    models.Tree.from_state(state, arrays)
    cases = {
        "edges": np.array([[0, 1], [2, 3], [1, 2]], dtype=np.int32),
        "spreads": np.zeros((3, 2)),
        "anchors": np.full((3, 2), np.nan),
    }
    for name, array in cases.items():
        with pytest.raises(ValueError):
            models.Tree.from_state(state, {**arrays, name: array})
    with pytest.raises(ValueError):
        models.Tree.from_state({**state, "n_features": 0}, arrays)


def test_one_part_needs_no_tree(generator):
    X = generator.normal(size=(6, 3, 4, 2))
    Y = [[np.unravel_index(np.argmax(x[:, :, 0]), (3, 4))] for x in X]
    svm = mm.StructuralSVM(models.Tree(), C=1000.0, tol=1e-4).fit(X, Y)
    assert svm.certificate_.converged
    assert svm.model_.edges_.shape == (0, 2)
    assert svm.score(X, Y) == 1.0


def test_the_tree_is_the_one_of_least_variance(generator):
    # Parts 0, 3 and 1 move together; part 2 hangs on part 1.
    base = generator.normal(size=(200, 2)) * 20
    near = base + generator.normal(size=(200, 2))
    places = np.stack([base, near, near + 2 * generator.normal(size=(200, 2)), base + 0.1], axis=1)
    edges = {tuple(sorted(edge)) for edge in spanning_tree(places).tolist()}
    assert edges in ({(0, 3), (0, 1), (1, 2)}, {(0, 3), (1, 3), (1, 2)})


# Bad input.


@pytest.mark.parametrize(
    ("change", "patterns"),
    [
        ({"X": lambda X: [X[0][:, :, 0], *X[1:]]}, (r"X\[0\]", "rows, columns, features")),
        ({"X": lambda X: [*X[:-1], X[-1][:, :, :1]]}, (r"X\[4\]", "1 features, expected 2")),
        ({"X": lambda X: [*X[:-1], X[-1] * np.nan]}, (r"X\[4\]", "NaN")),
        ({"Y": lambda Y: [*Y[:-1], Y[-1][:2]]}, (r"Y\[4\]", "2 parts, expected 3")),
        ({"Y": lambda Y: [*Y[:-1], np.array(Y[-1]) + 0.5]}, (r"Y\[4\]", "round")),
        ({"Y": lambda Y: [*Y[:-1], [(9, 0), (0, 0), (0, 0)]]}, (r"Y\[4\]\[0\]", "outside")),
        ({"Y": lambda Y: Y[:-1]}, ("5 examples", "4")),
        ({"edges": [(0, 1)]}, ("edges", "2 edges for 3 parts")),
        ({"edges": [(0, 1), (1, 0)]}, ("edges", "no path leads to")),
        ({"edges": [(0, 1), (1, 7)]}, ("edges", "0 to 2")),
        ({"edges": ["ab"]}, ("edges", "pairs")),
    ],
)
def test_bad_input_is_named(seed, change, patterns):
    case = make_case("tree-three-parts", seed)
    X = change.get("X", lambda X: X)(case.X)
    Y = change.get("Y", lambda Y: Y)(case.Y)
    model = models.Tree(edges=change.get("edges"))
    with refusal(*patterns):
        mm.StructuralSVM(model).fit(X, Y)
    if "edges" not in change:
        svm = mm.StructuralSVM(models.Tree(), max_passes=2)
        quietly(lambda: svm.fit(case.X, case.Y))
        with refusal(*patterns):
            mm.certify(svm, X, Y)


def test_node_weight_is_refused(seed):
    case = make_case("tree-three-parts", seed)
    with refusal("node_weight"):
        mm.StructuralSVM(models.Tree()).fit(case.X, case.Y, node_weight=[[1, 1, 1]] * 5)


def test_the_running_dual_under_a_prior_with_several_scales(case, generator):
    """The padding of the weights has no scale, so it must not be divided by one."""
    scale = generator.uniform(0.3, 2.0, size=case.truth.size_joint_feature)
    svm = mm.StructuralSVM(built_in(case), C=0.5, prior=(0.0, scale), solver="fasole", tol=1e-3)
    svm.fit(case.X, case.Y)
    assert np.isfinite(svm.history_["dual"]).all()
    assert svm.certificate_.converged


def test_no_edges_are_one_part(generator):
    X = generator.normal(size=(6, 3, 4, 2))
    Y = [generator.integers((3, 4), size=(1, 2)) for _ in X]
    named, learnt = (
        mm.StructuralSVM(models.Tree(edges), tol=1e-6, random_state=0).fit(X, Y)
        for edges in ([], None)
    )
    np.testing.assert_array_equal(named.coef_, learnt.coef_)
