"""FactorGraph: several types of nodes, constraints, and bad input, whose place the error names."""

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from graph_cases import as_key, prepared
from helpers import assert_truthful, built_in, quietly, refusal
from maxmargin import losses, models
from maxmargin.models.constraints import AtLeast, AtMost, Fixed, Forbidden
from reference.cases import graph_case

# Several types of nodes.


def typed_case(generator, n=4):
    """Return words with three tags and two features, and sentences with two classes and one feature."""
    X, Y = [], []
    for _ in range(n):
        words = int(generator.integers(1, 4))
        types = np.array(["word"] * words + ["whole"])
        order = generator.permutation(words + 1)
        types = types[order]
        nodes = {"word": generator.normal(size=(words, 2)), "whole": generator.normal(size=(1, 1))}
        here = np.flatnonzero(types == "word")
        top = int(np.flatnonzero(types == "whole")[0])
        edges = [(v, top) for v in here] + list(pairwise(here))
        X.append((nodes, np.array(edges), None, types))
        tags = generator.choice(["N", "V", "D"], size=words + 1)
        Y.append(
            [
                str(generator.choice(["yes", "no"])) if v == top else str(tags[v])
                for v in range(words + 1)
            ]
        )
    every = ["N", "V", "D"]
    for i, label in enumerate(every):
        Y[i][int(np.argmax(X[i][3] == "word"))] = label
    Y[0][int(np.argmax(X[0][3] == "whole"))] = "yes"
    Y[1][int(np.argmax(X[1][3] == "whole"))] = "no"
    return X, Y


def typed_score(parts, x, y):
    """Return <w, Psi>, computed from the named parts of the weights."""
    nodes, edges, _, types = x
    classes = {"whole": ["no", "yes"], "word": ["D", "N", "V"]}
    rank, total = {"word": 0, "whole": 0}, 0.0
    for v, t in enumerate(types):
        total += parts[f"unary[{t}]"][classes[t].index(y[v])] @ nodes[t][rank[t]]
        rank[t] += 1
    for a, b in edges:
        if types[a] == types[b]:
            total += parts["pairwise[word, word]"][
                classes["word"].index(y[a]), classes["word"].index(y[b])
            ]
        else:
            a, b = (a, b) if types[a] == "whole" else (b, a)
            total += parts["pairwise[whole, word]"][
                classes["whole"].index(y[a]), classes["word"].index(y[b])
            ]
    return total


def labellings(types):
    classes = {"whole": ["no", "yes"], "word": ["D", "N", "V"]}
    return product(*(classes[t] for t in types))


def test_several_types_of_nodes(generator):
    X, Y = typed_case(generator)
    model = models.FactorGraph()
    model.initialize(X, Y)
    assert {k: v.tolist() for k, v in model.classes_.items()} == {
        "whole": ["no", "yes"],
        "word": ["D", "N", "V"],
    }
    assert model.pairs_ == [(0, 1), (1, 1)]
    w = generator.normal(size=model.size_joint_feature)
    parts = model.unpack(w)
    for x, y in zip(X, Y, strict=True):
        assert model.joint_feature(x, y) @ w == pytest.approx(typed_score(parts, x, y), abs=1e-9)
        examples = model.bind([x], [y])
        _, ceiling = examples.slacks(w)
        scores = {u: typed_score(parts, x, u) + model.loss(y, u) for u in labellings(x[3])}
        xi = max(scores.values()) - typed_score(parts, x, y)
        assert ceiling[0] >= xi - 1e-9
        exact = clone(model).set_params(inference="milp")
        exact.initialize(X, Y)
        assert exact.bind([x], [y]).slacks(w)[0] == pytest.approx(xi, abs=1e-6)
    svm = mm.StructuralSVM(models.FactorGraph(), C=10.0, tol=1e-3).fit(X, Y)
    assert svm.certificate_.converged
    assert [len(y) for y in svm.predict(X)] == [len(y) for y in Y]
    assert 0 <= svm.score(X, Y) <= 1


def test_costs_of_several_types(generator):
    X, Y = typed_case(generator)
    costs = {"word": {"N": 1.0, "V": 2.0, "D": 3.0}, "whole": [4.0, 5.0]}
    model = models.FactorGraph(loss=losses.Hamming(costs=costs))
    model.initialize(X, Y)
    assert model.loss(["V", "no"], ["N", "yes"]) == 2.0 + 4.0
    with refusal("several types", "word"):
        models.FactorGraph(loss=losses.Hamming(costs=[1.0, 2.0])).initialize(X, Y)


def test_one_matrix_for_several_types(generator):
    edges = np.array([[0, 1], [1, 2]])
    nodes = generator.normal(size=(3, 2))
    types = ["a", "b", "a"]
    split = {"a": nodes[[0, 2]], "b": nodes[[1]]}
    Y = [[0, 1, 1], [1, 0, 0]]
    left = mm.StructuralSVM(models.FactorGraph(), tol=1e-9)
    right = mm.StructuralSVM(models.FactorGraph(), tol=1e-9)
    left.fit([(nodes, edges, None, types)] * 2, Y)
    right.fit([(split, edges, None, types)] * 2, Y)
    assert left.certificate_.primal == right.certificate_.primal


# Constraints.


def test_constraints_at_prediction(generator):
    case = graph_case(generator, sizes=(5, 4), shape="dense", n_classes=3)
    svm = mm.StructuralSVM(built_in(case), tol=1e-2).fit(case.X, case.Y)
    svm.coef_ = generator.normal(size=len(svm.coef_))
    rules = [AtMost(1, 0), AtLeast(1, 2, nodes=[0, 1]), Fixed({2: 1}), Forbidden(1, 2)]
    for x, row in zip(case.X, case.truth.examples(case.X), strict=True):
        legal = [u for u in case.truth.outputs(row) if keeps(u, x[1])]
        if not legal:
            with refusal(r"X\[0\]", "no labelling satisfies"):
                svm.predict([x], constraints=rules)
            continue
        (y,) = svm.predict([x], constraints=rules)
        best = max(case.truth.joint_feature(row, u) @ svm.coef_ for u in legal)
        assert as_key(y) in legal
        assert case.truth.joint_feature(row, as_key(y)) @ svm.coef_ == pytest.approx(best, abs=1e-6)
    own = svm.predict(case.X, constraints=[[Fixed({0: k % 3})] for k in range(len(case.X))])
    assert [y[0] for y in own] == [k % 3 for k in range(len(case.X))]
    free = svm.predict(case.X, constraints=[])
    for x, a, b in zip(case.truth.examples(case.X), free, svm.predict(case.X), strict=True):
        scores = [case.truth.joint_feature(x, as_key(y)) @ svm.coef_ for y in (a, b)]
        assert scores[0] >= scores[1] - 1e-6


def keeps(y, edges):
    return (
        sum(k == 0 for k in y) <= 1
        and 2 in y[:2]
        and y[2] == 1
        and not any(y[a] == 1 and y[b] == 2 for a, b in edges)
    )


def test_constraints_that_cannot_be_kept_or_are_none(generator):
    case = graph_case(generator, n=2, sizes=(3,))
    svm = mm.StructuralSVM(built_in(case), tol=1e-2).fit(case.X, case.Y)
    with refusal(r"X\[1\]", "no labelling satisfies"):
        svm.predict(case.X, constraints=[[], [Fixed({0: 1}), Fixed({0: 2})]])
    with refusal("no node 7"):
        svm.predict(case.X, constraints=[Fixed({7: 1})])
    with refusal("no label 'x'"):
        svm.predict(case.X, constraints=[Fixed({0: "x"})])
    with refusal("one list for each of 2 examples"):
        svm.predict(case.X, constraints=[[AtMost(1, 0)]] * 3)
    with refusal(r"constraints\[0\]", "not a constraint"):
        svm.predict(case.X, constraints=[[3], []])
    other = mm.StructuralSVM(models.Multiclass(), tol=1e-1).fit(np.eye(3), [0, 1, 2])
    with refusal("Multiclass does not take constraints"):
        other.predict(np.eye(3), constraints=[AtMost(1, 0)])


# Files and the estimator's conventions.


def test_files_bring_the_model_back(generator, tmp_path):
    case = graph_case(
        generator, kind="symmetric", n_edge_features=2, bias=1.0, costs=True, mean=True
    )
    svm = mm.StructuralSVM(built_in(case), tol=1e-3).fit(case.X, case.Y)
    typed = mm.StructuralSVM(models.FactorGraph(inference="lp"), tol=1e-2)
    X, Y = typed_case(generator)
    quietly(lambda: typed.fit(X, Y))
    for k, (fitted, data, outputs) in enumerate([(svm, case.X, case.Y), (typed, X, Y)]):
        fitted.save(tmp_path / f"{k}.safetensors")
        loaded = mm.load(tmp_path / f"{k}.safetensors")
        assert [as_key(y) for y in loaded.predict(data)] == [
            as_key(y) for y in fitted.predict(data)
        ]
        assert loaded.loss(data, outputs) == fitted.loss(data, outputs)
        left, right = (s.model_.unpack(s.coef_) for s in (loaded, fitted))
        assert left.keys() == right.keys()
        again = clone(loaded.model)
        quietly(lambda m=again, d=data, o=outputs: mm.StructuralSVM(m, tol=1e-2).fit(d, o))


def test_scikit_learn_manners(generator):
    case = graph_case(generator, n=8, sizes=(3, 2))
    model = models.FactorGraph("potts", inference="lp", iterations=7)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.get_params()["inference"] == "lp"
    svm = mm.StructuralSVM(twin).set_params(model__inference="tree", model__pairwise="full")
    assert svm.fit(case.X, case.Y).model_.inference_method == "tree"
    svm.set_params(warm_start=True, C=2.0).fit(case.X, case.Y)
    assert svm.certificate_.converged
    many = mm.StructuralSVM(clone(twin), n_jobs=2, tol=1e-6).fit(case.X, case.Y)
    assert many.certificate_.converged
    part = mm.StructuralSVM(models.FactorGraph())
    part.partial_fit(case.X[:4], case.Y[:4], classes=[0, 1, 2]).partial_fit(case.X[4:], case.Y[4:])
    assert part.certificate_.dual <= many.certificate_.primal


def test_any_hashable_labels(generator):
    case = graph_case(generator, n_classes=2)
    names = {0: ("a", 1), 1: None}
    Y = [[names[y] for y in labels] for labels in case.Y]
    svm = mm.StructuralSVM(models.FactorGraph(), tol=1e-6).fit(case.X, Y)
    plain = mm.StructuralSVM(models.FactorGraph(), tol=1e-6).fit(case.X, case.Y)
    assert svm.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-4)
    assert set(svm.predict(case.X)[0].tolist()) <= set(names.values())


def test_factors_are_plain_arrays(generator):
    case = graph_case(generator, n_edge_features=1, bias=1.0)
    model, rows = prepared(case)
    factors = model.factors(case.X, case.Y)
    assert factors.dimension == model.size_joint_feature
    offsets = factors.node_offsets
    for i, (row, y) in enumerate(zip(rows, case.Y, strict=True)):
        assert factors.truth[offsets[i] : offsets[i + 1]].tolist() == y
        output = (np.array(y) + 1) % 3
        expected = case.truth.joint_feature(row, output.tolist())
        np.testing.assert_allclose(factors.joint_feature(i, output), expected, atol=1e-12)
        assert factors.loss(i, output) == case.truth.loss(y, output.tolist())


BAD = {
    "no tuple": ([np.zeros((2, 1))], [[0, 1]], (r"X\[0\]", "tuple")),
    "no nodes": ([(np.zeros((0, 1)), [])], [[]], (r"X\[0\]", "no nodes")),
    "edge outside": (
        [(np.eye(2), [[0, 2]])],
        [[0, 1]],
        (r"X\[0\]\[1\]\[0\]", "outside the 2 nodes"),
    ),
    "loop": ([(np.eye(2), [[1, 1]])], [[0, 1]], (r"X\[0\]\[1\]\[0\]", "to itself")),
    "edges shape": ([(np.eye(2), [0, 1])], [[0, 1]], (r"X\[0\]\[1\]", r"\(E, 2\)")),
    "labels": ([(np.eye(2), [[0, 1]])], [[0]], (r"X\[0\] has 2 nodes", r"Y\[0\] has 1 labels")),
    "edge features": (
        [(np.eye(2), [[0, 1]], np.ones((3, 1)))],
        [[0, 1]],
        (r"X\[0\]\[2\] has 3 rows", "1 edges"),
    ),
    "mapping without types": ([({"a": np.eye(2)}, [[0, 1]])], [[0, 1]], ("fourth part",)),
    "rows of a type": (
        [({"a": np.eye(3)}, [[0, 1]], None, ["a", "a"])],
        [[0, 1]],
        (r"X\[0\]\[0\]\['a'\] has 3 rows", "2 nodes"),
    ),
    "nan": ([(np.array([[0.0], [np.nan]]), [[0, 1]])], [[0, 1]], (r"X\[0\]\[0\], row 1", "NaN")),
    "one label": ([(np.eye(2), [[0, 1]])], [[0, 0]], ("at least 2 classes",)),
    "ragged": (
        [(np.eye(2), [[0, 1]]), (np.eye(3), [[0, 1]])],
        [[0, 1], [0, 1, 0]],
        (r"X\[1\]\[0\] has 3 features", "expected 2"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    X, Y, patterns = BAD[name]
    with refusal(*patterns):
        mm.StructuralSVM(models.FactorGraph()).fit(X, Y)


def test_bad_parameters_are_named(generator):
    case = graph_case(generator, shape="cycle", sizes=(3, 4))
    for settings, patterns in [
        ({"inference": "loopy"}, ("inference must be one of", "'loopy'")),
        ({"iterations": 0}, ("iterations", "at least 1")),
        ({"pairwise": "ising"}, ("pairwise must be one of", "'ising'")),
        ({"inference": "tree"}, ("inference='tree'", r"X\[0\] has cycles")),
        ({"inference": "cut"}, ("inference='cut'", "more than two labels")),
        ({"bias": 0}, ("bias",)),
    ]:
        with refusal(*patterns):
            mm.StructuralSVM(models.FactorGraph(**settings)).fit(case.X, case.Y)
    svm = mm.StructuralSVM(models.FactorGraph(), tol=1e-2).fit(case.X, case.Y)
    with refusal("features of edges", "trained without"):
        svm.predict([(np.zeros((2, 2)), [[0, 1]], np.zeros((1, 1)))])
    with refusal("no types of nodes|not among the types"):
        svm.predict([(np.zeros((2, 2)), [[0, 1]], None, ["a", "b"])])
    with refusal(r"Y\[0\]\[1\] = 9"):
        mm.certify(svm, case.X, [[0, 9, *y[2:]] for y in case.Y])
    assert_truthful(case, svm)
