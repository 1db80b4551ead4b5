"""Every model with enumerable outputs is compared with brute force.

The contracts of a fit, also with kernels, hidden parts and a user's models, are in
test_every_fit.py.
"""

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import FLAT, as_python, built_in
from maxmargin import losses, models
from maxmargin.data.trees import ParseTree
from maxmargin.problem import Formulation
from reference import enumerate as truths
from reference.cases import chain_case, multiclass_case
from reference.problems import CASES, EVERY, make_case

# Exceptions from a contract, with the reason.
NO_K_BEST = {
    "graph": "the second best labelling of a graph is a search of its own",
    "multilabel": "as a graph",
    "tree": "the distance transform keeps the best place alone",
}
ONE_LAYOUT = {"grammar": "words have no features", "tree": "grids are dense"}
FIXED_LABELS = {
    "grammar": "labels are strings, which rules and words are told apart by",
    "tree": "an output is a place on a grid",
    "multilabel": "names of labels are columns: test_multilabel.py",
    "chain-illegal": "its transitions name labels",
    "edges-illegal": "as above",
    "second-order-illegal": "as above",
}


def without(table):
    """Return all cases except the kinds listed in a table."""
    return [name for name in EVERY if not name.startswith(tuple(table))]


def prepared(case):
    """Return the initialised model, its examples in the protocol's form, and those of the reference."""
    model = built_in(case)
    model.initialize(case.X, case.Y)
    return model, [case.X[i] for i in range(len(case.Y))], case.truth.examples(case.X)


def as_key(output):
    """Return an output as a hashable value of plain Python."""
    return output if isinstance(output, ParseTree) else frozen(np.asarray(output).tolist())


def frozen(value):
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def score_tolerance(case):
    """Return the tolerance on scores; the core may sum float32 inputs in float32."""
    rows = case.X[0] if isinstance(case.X, list) else case.X
    rows = rows[0] if case.kind == "graph" else rows
    return 1e-5 if getattr(rows, "dtype", None) == np.float32 else 1e-10


@pytest.mark.parametrize("name", EVERY)
def test_joint_feature_has_the_documented_order(seed, name):
    case = make_case(name, seed)
    model, examples, rows = prepared(case)
    if hasattr(case.truth, "classes"):
        assert list(model.classes_) == case.truth.classes
    assert model.size_joint_feature == case.truth.size_joint_feature
    for x, row, y in zip(examples, rows, case.Y, strict=True):
        for output in [y, *case.truth.outputs(row)[::5][:100]]:
            vector = np.asarray(model.joint_feature(x, output), dtype=float)
            np.testing.assert_allclose(vector, case.truth.joint_feature(row, output), atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_inference_is_the_brute_force_argmax(seed, generator, name):
    case = make_case(name, seed)
    model, examples, rows = prepared(case)
    for scale in (0.1, 1.0, 10.0):
        w = scale * generator.normal(size=model.size_joint_feature)
        together = model.bind(case.X).predict(w, 2)
        for i, (x, row) in enumerate(zip(examples, rows, strict=True)):
            best = truths.scores(case.truth, row, w).max()
            for found in (as_key(model.inference(x, w)), as_key(together[i])):
                assert found in case.truth.outputs(row)
                value = case.truth.joint_feature(row, found) @ w
                assert value == pytest.approx(best, abs=score_tolerance(case) * scale)


@pytest.mark.parametrize("name", EVERY)
def test_loss_augmented_inference_is_the_brute_force_argmax(seed, generator, name):
    case = make_case(name, seed)
    model, examples, rows = prepared(case)
    for scale in (0.0, 0.3, 3.0):
        w = scale * generator.normal(size=model.size_joint_feature)
        for x, row, y in zip(examples, rows, case.Y, strict=True):
            found = as_key(model.loss_augmented_inference(x, y, w))
            best = truths.augmented_scores(case.truth, row, as_key(y), w).max()
            value = case.truth.joint_feature(row, found) @ w + case.truth.loss(y, found)
            assert value == pytest.approx(best, abs=score_tolerance(case))


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("name", EVERY)
def test_slacks_are_bracketed_and_their_planes_attain_them(seed, generator, name, rescaling):
    """The bounds of slacks are equal if the argmax is exact; the worst outputs are always valid outputs."""
    case = make_case(name, seed).replace(rescaling=rescaling)
    model = prepared(case)[0]
    examples = model.bind(case.X, case.Y).under(Formulation("max", rescaling))
    blocks, near = np.arange(len(case.Y)), {"rel": 1e-6, "abs": 10 * score_tolerance(case)}
    for scale in (0.0, 0.3, 3.0):
        w = scale * generator.normal(size=model.size_joint_feature)
        best = np.array([np.max(block.offsets + block.vectors @ w) for block in case.blocks])
        found, ceilings = examples.slacks(w, 2)
        margin = near["abs"] + near["rel"] * np.abs(best)
        assert (found <= best + margin).all() and (best <= ceilings + margin).all()
        if examples.exact:
            np.testing.assert_allclose(found, best, rtol=near["rel"], atol=near["abs"])
        worst, outputs = examples.worst(w)
        np.testing.assert_allclose(worst, found, rtol=near["rel"], atol=near["abs"])
        offset, vector = examples.combine(blocks, np.ones(len(blocks)), outputs)
        assert offset + vector @ w == pytest.approx(worst.sum(), **near)


@pytest.mark.parametrize("name", EVERY)
def test_loss_is_the_definition(seed, name):
    case = make_case(name, seed)
    model, _, rows = prepared(case)
    for row, y in zip(rows, case.Y, strict=True):
        assert model.loss(y, y) == 0.0
        for output in case.truth.outputs(row)[::3][:200]:
            assert model.loss(y, output) == pytest.approx(case.truth.loss(y, output), rel=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_a_label_that_a_few_bytes_would_take_for_another_is_unknown(seed, name):
    case = make_case(name, seed)
    model, *_ = prepared(case)
    examples = model.bind(case.X, case.Y)
    blocks, codes = np.arange(examples.n), examples.true_codes()
    assert examples.knows(codes, blocks)
    for wrong in (1 << 16, -(1 << 16), 1 << 8):
        other = codes.copy()
        other[seed % len(codes)] += wrong
        assert not examples.knows(other, blocks)


@pytest.mark.parametrize("name", without(NO_K_BEST))
@pytest.mark.parametrize("k", [1, 3, 1000])
def test_k_best_is_brute_force(seed, generator, name, k):
    case = make_case(name, seed)
    model, examples, rows = prepared(case)
    w = generator.normal(size=model.size_joint_feature)
    for x, row in zip(examples, rows, strict=True):
        found = model.inference_k_best(x, w, k)
        outputs = [as_key(output) for output, _ in found]
        values = [value for _, value in found]
        expected = [value for _, value in truths.k_best(case.truth, row, w, k)]
        np.testing.assert_allclose(values, expected, atol=score_tolerance(case))
        assert len(set(outputs)) == len(outputs) == len(expected)
        for output, value in found:
            direct = case.truth.joint_feature(row, as_key(output)) @ w
            assert value == pytest.approx(direct, abs=score_tolerance(case))


@pytest.mark.parametrize("kind", NO_K_BEST)
def test_models_without_k_best_say_so(seed, kind):
    case = make_case(next(name for name in EVERY if name.startswith(kind)), seed)
    svm = mm.StructuralSVM(built_in(case), tol=0.1).fit(case.X, case.Y)
    with pytest.raises(ValueError, match="inference_k_best"):
        svm.predict_k_best(case.X, 2)


@pytest.mark.parametrize("name", EVERY)
def test_unpack_names_every_weight_once(seed, name):
    case = make_case(name, seed)
    model, _, _ = prepared(case)
    parts = model.unpack(np.arange(model.size_joint_feature, dtype=float))
    together = np.concatenate(
        [part.data if sparse.issparse(part) else np.ravel(part) for part in parts.values()]
    )
    assert sorted(together.tolist()) == list(range(model.size_joint_feature))
    if case.kind == "chain":
        K, seen = len(case.truth.classes), case.truth.observed
        assert parts["transitions"].shape == (K, K)
        width = case.truth.n_features + (case.truth.bias is not None)
        assert parts["unary"].shape == (K, case.truth.n_features)
        start = K * width if seen is None else int(seen.sum())
        assert parts["transitions"][0, 1] == start + 1  # [previous, next]
        assert ("start" in parts, "end" in parts) == (case.truth.start, case.truth.end)


@pytest.mark.parametrize("name", without(ONE_LAYOUT))
def test_csr_and_dense_are_the_same_model(seed, generator, name):
    case = make_case(name, seed)
    model, examples, _ = prepared(case)
    other, other_examples, _ = prepared(case.replace(X=in_other_layout(case.X)))
    w = generator.normal(size=model.size_joint_feature)
    for x, row, y in zip(examples, other_examples, case.Y, strict=True):
        assert as_key(model.inference(x, w)) == as_key(other.inference(row, w))
        left, right = model.joint_feature(x, y), other.joint_feature(row, y)
        np.testing.assert_allclose(left, right, atol=1e-6)


def in_other_layout(X):
    """Convert dense features to CSR and CSR to dense; edge indices stay."""
    if isinstance(X, list | tuple):
        return type(X)(map(in_other_layout, X))
    if sparse.issparse(X):
        return X.toarray()
    return X if X.dtype.kind in "iu" else sparse.csr_matrix(X)


@pytest.mark.parametrize("name", without(FIXED_LABELS))
def test_labels_may_be_anything_hashable(seed, generator, name):
    # The sorted order of the names differs from the order of their integers.
    case = make_case(name, seed)
    K = len(case.truth.classes)
    names = ["delta", "alpha", "charlie", "bravo"][:K]
    Y = [names[y] if case.kind in FLAT else [names[t] for t in y] for y in case.Y]
    model = built_in(case) if case.options["costs"] is None else None
    if model is None:
        order = [names.index(name) for name in sorted(names)]
        options = dict(case.options, costs=case.options["costs"][np.ix_(order, order)])
        model = built_in(case.replace(options=options))
    model.initialize(case.X, Y)
    assert list(model.classes_) == sorted(names)
    plain, examples, _ = prepared(case)
    w = generator.normal(size=model.size_joint_feature)
    for x, y, number in zip(examples, Y, case.Y, strict=True):
        assert model.loss(y, y) == 0.0
        worst = model.loss_augmented_inference(x, y, w)
        back = as_key(worst)
        back = names.index(back) if case.kind in FLAT else [names.index(t) for t in back]
        assert model.loss(y, worst) == pytest.approx(plain.loss(number, back), rel=1e-12)
        # The features are permuted; the signs of a binary model follow the order of the names.
        left = np.sort(np.abs(model.joint_feature(x, worst)))
        right = np.sort(np.abs(plain.joint_feature(x, back)))
        np.testing.assert_allclose(left, right, atol=1e-12)


def test_given_classes_keep_labels_that_do_not_occur(generator):
    case = multiclass_case(generator, n_classes=2)
    model = models.Multiclass(classes=[0, 1, 2])
    model.initialize(case.X, case.Y)
    assert list(model.classes_) == [0, 1, 2]
    assert model.size_joint_feature == 3 * case.X.shape[1]
    vector = np.asarray(model.joint_feature(case.X[0], 2))
    np.testing.assert_allclose(vector, np.concatenate([np.zeros(8), case.X[0]]))


@pytest.mark.parametrize("form", ["vector", "matrix", "dict"])
@pytest.mark.parametrize("mean", [False, True])
def test_per_label_costs(generator, form, mean):
    # A vector or a dict gives the cost of a mistake by the true label.
    case = chain_case(generator, n_classes=3)
    per_label = np.array([1.0, 2.0, 5.0])
    table = per_label[:, None] * (1.0 - np.eye(3))
    costs = {"vector": per_label, "matrix": table, "dict": {0: 1.0, 1: 2.0, 2: 5.0}}[form]
    model = models.Chain(loss=losses.Hamming(costs=costs, mean=mean))
    model.initialize(case.X, case.Y)
    truth = truths.ChainTruth([0, 1, 2], 3, table, mean)
    for row, y in zip(case.X, case.Y, strict=True):
        for output in truth.outputs(row):
            assert model.loss(y, output) == pytest.approx(truth.loss(y, output), rel=1e-12)


def test_strings_and_dicts_are_features_by_name():
    words = [["the", "cat"], ["cat"], ["sat", "the", "sat"]]
    Y = [["D", "N"], ["N"], ["V", "D", "V"]]
    vocabulary = sorted({word for sentence in words for word in sentence})
    one_hot = [np.eye(3)[[vocabulary.index(word) for word in sentence]] for sentence in words]
    forms = {
        "strings": words,
        "lists": [[[word] for word in sentence] for sentence in words],
        "dicts": [[{word: 1.0} for word in sentence] for sentence in words],
    }
    expected = fitted_primal(one_hot, Y)
    for name, X in forms.items():
        assert fitted_primal(X, Y) == pytest.approx(expected, rel=1e-7), name


def fitted_primal(X, Y):
    svm = mm.StructuralSVM(models.Chain(), tol=1e-9, max_passes=5000, random_state=0)
    return svm.fit(X, Y).certificate_.primal


def test_attributes_unseen_in_training_are_ignored_at_prediction():
    X = [[{"a": 1.0}, {"b": 2.0}], [{"b": 1.0}]]
    svm = mm.StructuralSVM(models.Chain(), tol=1e-6).fit(X, [["x", "y"], ["y"]])
    known = svm.predict([[{"a": 1.0}]])
    assert [list(y) for y in svm.predict([[{"a": 1.0, "never": 7.0}]])] == [list(known[0])]


@pytest.mark.parametrize("name", EVERY)
def test_prediction_is_inference_with_coef(seed, name):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=1e-4, random_state=0, n_jobs=2)
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    predicted = svm.predict(case.X)
    rows = case.truth.examples(case.X)
    for row, output in zip(rows, predicted, strict=True):
        best = truths.scores(case.truth, row, svm.coef_).max()
        value = case.truth.joint_feature(row, as_key(output)) @ svm.coef_
        assert value == pytest.approx(best, abs=score_tolerance(case))
    pairs = list(zip(case.Y, predicted, strict=True))
    mean_loss = np.mean([case.truth.loss(y, as_key(output)) for y, output in pairs])
    assert svm.loss(case.X, case.Y) == pytest.approx(mean_loss, rel=1e-12)
    if case.kind not in ("grammar", "tree"):  # these score brackets and distances instead
        right = [np.equal(np.ravel(y), np.ravel(output)) for y, output in pairs]
        assert svm.score(case.X, case.Y) == pytest.approx(np.concatenate(right).mean(), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("chain")])
def test_predicted_k_best_starts_with_the_prediction(seed, name):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=1e-4, random_state=0)
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    rows = case.truth.examples(case.X)
    for row, answers in zip(rows, svm.predict_k_best(case.X, 3), strict=True):
        expected = truths.k_best(case.truth, row, svm.coef_, 3)
        values = [value for _, value in answers]
        np.testing.assert_allclose(values, [v for _, v in expected], atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_check_model_has_nothing_to_say_about_the_built_in_models(seed, name):
    case = make_case(name, seed)
    mm.check_model(built_in(case), case.X, case.Y)


@pytest.mark.parametrize("name", ["multiclass-cost-dense", "chain-1to4-dense"])
def test_check_model_accepts_a_right_python_model(seed, name):
    case = make_case(name, seed)
    model, X = as_python(case)
    mm.check_model(model, X, case.Y)


def test_csr_rows_with_unsorted_indices_and_explicit_zeros(generator):
    case = multiclass_case(generator, layout="csr")
    messy = case.X.copy()
    for row in range(messy.shape[0]):
        part = slice(messy.indptr[row], messy.indptr[row + 1])
        messy.indices[part] = messy.indices[part][::-1].copy()
        messy.data[part] = messy.data[part][::-1].copy()
    messy.data[0] = 0.0
    messy.has_sorted_indices = False
    reference = sparse.csr_matrix(messy.toarray())
    clean = mm.StructuralSVM(models.Multiclass(), tol=1e-9, random_state=0, max_passes=9999)
    other = mm.StructuralSVM(models.Multiclass(), tol=1e-9, random_state=0, max_passes=9999)
    left = clean.fit(reference, case.Y).certificate_.primal
    assert other.fit(messy, case.Y).certificate_.primal == pytest.approx(left, rel=1e-8)
