"""Chains with weights only for the pairs of a feature and a label seen in training.

The tests of every model and every solver include such cases; this file tests their special
behaviour.
"""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import maxmargin as mm
from helpers import fit, loss_units, quietly, refusal
from maxmargin import losses, models, solvers
from maxmargin._core import core
from maxmargin.models import chain as chain_module
from reference.cases import fresh, observed_case
from reference.problems import make_case
from reference.strategies import SEED


def sequences(generator, n=6, K=5, d=12, longest=5, share=0.3, dtype=np.float64):
    """Return sparse sequences; each feature occurs with only some of the labels."""
    X, Y = [], []
    for _ in range(n):
        T = int(generator.integers(1, longest + 1))
        values = generator.normal(size=(T, d)) * (generator.uniform(size=(T, d)) < share)
        X.append(sparse.csr_matrix(values.astype(dtype)))
        Y.append(generator.integers(K, size=T).tolist())
    return X, Y


def embedded(narrow, wide, w):
    """Return the weights of an "all" chain with the same scores as an "observed" chain with weights w."""
    marks = wide.size_joint_feature * [0.0]
    full, own = np.array(marks), narrow.nodes_
    K, d = own.labels, own.width
    features = np.repeat(np.arange(d), np.diff(own.pairs.first))
    full[own.pairs.label.astype(np.int64) * d + features] = w[: own.size]
    full[K * d :] = w[own.size :]
    return full


def places(narrow, wide):
    """Return the indices of the weights of `narrow` among those of `wide`."""
    numbers = np.arange(1, narrow.size_joint_feature + 1, dtype=float)
    full = embedded(narrow, wide, numbers)
    return np.argsort(full)[-len(numbers) :]


@given(data=st.data())
def test_observed_answers_as_all_does_where_other_weights_are_zero(data, monkeypatch):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    K, many = data.draw(st.sampled_from([2, 5, 70, 200])), data.draw(st.booleans())
    share, dtype = data.draw(st.sampled_from([0.1, 0.9])), data.draw(st.sampled_from([float, "f4"]))
    # with few or many labels per feature; a pair is looked up differently in each case
    n = 40 if K > 5 else 6
    X, Y = sequences(generator, n=n, K=K, share=share, dtype=dtype)
    rest = {"classes": range(K), "bias": data.draw(st.sampled_from([None, 2.0])), "start": True}
    if data.draw(st.booleans()):
        rest["loss"] = losses.Hamming(mean=True)
    monkeypatch.setattr(chain_module, "MANY_LABELS", 1 if many else 10**9)
    narrow, wide = (models.Chain(features=f, **rest) for f in ("observed", "all"))
    for model in (narrow, wide):
        model.initialize(X, Y)
    w = generator.normal(size=narrow.size_joint_feature)
    full, where = embedded(narrow, wide, w), places(narrow, wide)
    left, right = narrow.bind(X, Y), wide.bind(X, Y)
    xi, outputs = left.worst(w)
    np.testing.assert_allclose(xi, right.slacks(full)[0], rtol=1e-9, atol=1e-9)
    blocks, c = np.arange(len(X)), generator.uniform(size=len(X))
    offset, vector = left.combine(blocks, c, outputs)
    other_offset, other = right.combine(blocks, c, outputs)
    assert offset == pytest.approx(other_offset)
    np.testing.assert_allclose(vector, other[where], atol=1e-9)
    columns = np.arange(0, len(w), 3)
    np.testing.assert_allclose(
        left.select(blocks, outputs, columns), right.select(blocks, outputs, where[columns])
    )
    for a, b in zip(left.predict(left.ready(w)), right.predict(full), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("many", [1, 10**9])
def test_long_moves_have_their_norm_and_reach_the_optimum(generator, monkeypatch, many, single):
    """Sequences with more positions than a move lists pair by pair, with either search."""
    monkeypatch.setattr(chain_module, "MANY_LABELS", many)
    X, Y = sequences(generator, n=3, K=4, d=9, longest=80, dtype="f4" if single else float)
    svm = mm.StructuralSVM(models.Chain(features="observed"), C=0.1, tol=1e-2, random_state=0)
    svm.set_params(solver=solvers.SDA(precision="single" if single else "double"))
    quietly(lambda: svm.fit(X, Y))
    assert svm.certificate_.converged
    again = mm.certify(svm, X, Y)
    assert 0 <= again.gap <= 1.01e-2


def test_with_all_pairs_seen_it_is_the_same_problem(generator):
    X, Y = sequences(generator, n=60, K=3, d=4, share=0.9)
    ours = [
        mm.StructuralSVM(models.Chain(features=f, bias=1.0), C=0.5, tol=1e-6).fit(X, Y)
        for f in ("all", "observed")
    ]
    assert ours[0].coef_.shape == ours[1].coef_.shape
    bounds = [(svm.certificate_.dual, svm.certificate_.primal) for svm in ours]
    assert max(dual for dual, _ in bounds) <= min(primal for _, primal in bounds)
    full = embedded(ours[1].model_, ours[0].model_, ours[1].coef_)
    np.testing.assert_allclose(full, ours[0].coef_, atol=0.02)


def test_dense_inputs_are_observed_where_they_are_not_zero(generator):
    X, Y = sequences(generator)
    fits = [
        mm.StructuralSVM(models.Chain(features="observed"), tol=1e-6, random_state=0).fit(x, Y)
        for x in (X, [x.toarray() for x in X])
    ]
    np.testing.assert_array_equal(*(svm.model_.nodes_.pairs.label for svm in fits))
    assert fits[0].certificate_.primal == pytest.approx(fits[1].certificate_.primal, rel=1e-5)


def test_node_weights_threads_warm_starts_and_other_data(generator):
    X, Y = sequences(generator, n=20)
    node_weight = [generator.uniform(size=len(y)) for y in Y]
    svm = mm.StructuralSVM(
        models.Chain(features="observed"), tol=1e-4, warm_start=True, n_jobs=2, random_state=0
    ).fit(X, Y, node_weight=node_weight)
    first = svm.certificate_
    svm.set_params(C=2.0).fit(X, Y, node_weight=node_weight)
    assert first.converged and svm.certificate_.converged
    assert mm.certify(svm, X, Y, node_weight=node_weight).gap <= 2e-4
    others = sequences(generator, n=7, share=0.8)  # includes pairs without weights
    for x, y in zip(others[0], svm.predict(others[0]), strict=True):
        (_, best), *_ = svm.predict_k_best([x], 1)[0]
        assert svm.model_.joint_feature(x, y) @ svm.coef_ == pytest.approx(best)


@pytest.mark.parametrize("options", [{"edges": True}, {"order": 2}, {"transitions": "iob2"}])
def test_beside_other_powers_of_chains(generator, options):
    X, Y = sequences(generator, K=3)
    Y = [["O"] * len(y) if y[0] == 0 else ["B-a"] + ["I-a"] * (len(y) - 1) for y in Y]
    if "edges" in options:
        X = [(x, generator.normal(size=(x.shape[0] - 1, 2))) for x in X]
    svm = mm.StructuralSVM(models.Chain(features="observed", **options), tol=1e-4).fit(X, Y)
    assert svm.certificate_.converged
    assert svm.model_.nodes_.pairs is not None
    psi = svm.model_.joint_feature(X[0], Y[0])
    (_, score), *_ = svm.predict_k_best([X[0]], 1)[0]
    assert psi @ svm.coef_ <= score + 1e-9


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_predict_the_same(generator, copied):
    X, Y = sequences(generator)
    svm = mm.StructuralSVM(models.Chain(features="observed", bias=1.0)).fit(X, Y)
    again = copied(svm)
    np.testing.assert_array_equal(again.coef_, svm.coef_)
    for a, b in zip(again.predict(X), svm.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_model_files_keep_the_pairs(generator, tmp_path):
    X, Y = sequences(generator)
    svm = mm.StructuralSVM(models.Chain(features="observed", bias=1.0, end=True)).fit(X, Y)
    svm.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    assert loaded.model.features == "observed"
    np.testing.assert_array_equal(loaded.coef_, svm.coef_)
    fresh_X = sequences(generator, share=0.9)[0]
    for a, b in zip(loaded.predict(fresh_X), svm.predict(fresh_X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_shards_are_seen_as_a_whole(generator, tmp_path):
    X, Y = sequences(generator, n=30)
    mm.data.write_shards(tmp_path / "shards", X, Y, shard_bytes=2000)
    data = mm.data.open_shards(tmp_path / "shards")
    svm = mm.StructuralSVM(models.Chain(features="observed"), solver="streaming", tol=1e-3)
    svm.fit(data.X, data.Y)
    plain = mm.StructuralSVM(models.Chain(features="observed"), tol=1e-3).fit(X, Y)
    np.testing.assert_array_equal(*(s.model_.nodes_.pairs.label for s in (svm, plain)))
    assert svm.certificate_.converged
    assert svm.certificate_.dual <= plain.certificate_.primal
    assert plain.certificate_.dual <= svm.certificate_.primal


def test_what_cannot_be_observed_is_refused(generator):
    X, Y = sequences(generator)
    model = models.Chain(features="observed")
    svm = mm.StructuralSVM(model)
    with refusal(r"features='observed'\) cannot train on chunks"):
        svm.partial_fit(X, Y)
    with refusal("cannot train on chunks"):
        mm.StructuralSVM(model, solver="streaming").fit([(X, Y)])
    with refusal("features='all'"):
        mm.StructuralSVM(models.Kernel(model)).fit(X, Y)
    with refusal("features must be one of"):
        mm.StructuralSVM(models.Chain(features="seen")).fit(X, Y)


@pytest.mark.parametrize(
    ("first", "labels"),
    [
        ([], []),
        ([1, 1], [0]),
        ([0, 2, 1, 3], [0, 1, 2]),
        ([0, 2], [1, 1]),
        ([0, 1], [3]),
        ([0, 9], [1]),
    ],
)
def test_the_core_takes_pairs_alone(first, labels):
    with pytest.raises(ValueError, match=r"not pairs|must rise"):
        core.Pairs(np.array(first, np.int64), np.array(labels, np.uint16), 3)


def test_optimum_of_a_larger_case_by_the_dense_qp(seed):
    case = observed_case(fresh(seed, 5), n=6, n_features=9, lengths=(3, 2), n_classes=3, C=2.0)
    svm = fit(case, tol=loss_units(case, 1e-6))
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-5)
    seen = [make_case("chain-observed", s).truth.observed.mean() for s in range(5)]
    assert min(seen) < 1  # some pairs are new


@pytest.mark.parametrize("solver", ["proximal", "bcfw"])
def test_many_labels_have_the_optimum_of_few(generator, monkeypatch, solver):
    """Positions where kept outputs differ are scored label by label."""
    words = generator.integers(12, size=(20, 4))
    X = [[[f"w{i}"] for i in sentence] for sentence in words]
    Y = (words + (generator.random(words.shape) < 0.2)) % 8  # a word has two labels
    found = []
    for many in (1, 10**9):
        monkeypatch.setattr(chain_module, "MANY_LABELS", many)
        model = models.Chain(features="observed")
        svm = mm.StructuralSVM(model, tol=1e-2, solver=solver, random_state=0).fit(X, list(Y))
        assert svm.certificate_.converged and svm.score(X, list(Y)) > 0.7
        found.append(svm.certificate_)
    assert max(c.dual for c in found) <= min(c.primal for c in found) * (1 + 1e-9)
