"""Odd values of any parameter are refused by name; a masked entry is never read."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models

MASK = np.arange(8) == 3


@pytest.fixture
def flat(generator):
    return generator.normal(size=(8, 3)), np.array([0, 1, 2, 0, 1, 2, 0, 1])


@pytest.fixture
def chains(generator):
    X = [generator.normal(size=(2 + i % 2, 3)) for i in range(6)]
    return X, [list("abc" if i % 3 else "cab")[: len(x)] for i, x in enumerate(X)]


def flat_machines():
    return [
        mm.MulticlassSVC(),
        mm.StructuralSVM(models.Multiclass()),
        mm.StructuralSVM(models.Kernel(models.Multiclass())),
        mm.LatentSVM(models.Latent(models.Multiclass(), parts=2)),
    ]


# --- masks, and values that are missing ----------------------------------------------------------


@pytest.mark.parametrize("machine", flat_machines(), ids=lambda svm: type(svm).__name__)
def test_masked_entries_are_refused_and_an_empty_mask_passes(flat, machine):
    X, y = flat
    table = np.ma.array(X, mask=np.zeros(X.shape, bool))
    assert quietly(lambda: machine.fit(table, np.ma.array(y))).certificate_.exact
    weights = np.ma.array(np.ones(8), mask=MASK)
    table[3, 1] = np.ma.masked
    for name, given in (
        ("X", (table, y)),
        ("y", (X, np.ma.array(y, mask=MASK))),
        ("sample_weight", (X, y, weights)),
    ):
        with refusal(name, "masked"):
            machine.fit(*given)
    for call in (
        lambda: machine.predict(table),
        lambda: machine.score(X, np.ma.array(y, mask=MASK)),
    ):
        with refusal("X|y", "masked"):
            call()


def test_masked_parts_of_structured_data_are_refused(generator, chains):
    X, Y = chains
    hidden = np.ma.array(X[2], mask=X[2] > 0.1)
    with refusal(r"X\[2\]", "masked"):
        mm.StructuralSVM(models.Chain()).fit([*X[:2], hidden, *X[3:]], Y)
    codes = [np.arange(len(y)) for y in Y]
    codes[2] = np.ma.array(codes[2], mask=codes[2] == 1)
    with refusal("Y", "masked"):
        mm.StructuralSVM(models.Chain()).fit(X, codes)
    nodes = [np.ma.array(np.ones(len(y)), mask=np.arange(len(y)) == 0) for y in Y]
    with refusal(r"node_weight\[0\]", "masked"):
        mm.StructuralSVM(models.Chain()).fit(X, Y, node_weight=nodes)
    graphs = [(generator.normal(size=(2, 2)), [(0, 1)]) for _ in range(3)]
    labels = [[0, 1], [1, 0], np.ma.array([0, 1], mask=[False, True])]
    with refusal(r"Y\[2\]", "masked"):
        mm.StructuralSVM(models.FactorGraph()).fit(graphs, labels)
    table = generator.integers(0, 2, (6, 3))
    with refusal("Y", "masked"):
        mm.StructuralSVM(models.MultiLabel()).fit(
            generator.normal(size=(6, 2)), np.ma.array(table, mask=table == 1)
        )


def test_masked_costs_priors_and_margins_are_refused(flat):
    X, y = flat
    costs = np.ma.array(1.0 - np.eye(3), mask=np.eye(3) > 0)
    with refusal("loss", "masked"):
        mm.MulticlassSVC(loss=costs).fit(X, y)
    mean = np.ma.array(np.zeros(9), mask=np.arange(9) == 0)
    with refusal("prior", "masked"):
        mm.StructuralSVM(models.Multiclass(), prior=(mean, 1.0)).fit(X, y)
    with refusal("margins", "masked"):
        mm.GeneralizedSVM().fit(X, np.ma.array(np.ones(8), mask=MASK))


@pytest.mark.parametrize("hole", [None, pd.NA])
def test_missing_values_are_told(flat, chains, hole):
    X, y = flat
    table = X.astype(object)
    table[3, 1] = hole
    with refusal("X", "missing|NaN"):
        mm.StructuralSVM(models.Multiclass()).fit(table, y)
    frame = pd.DataFrame(X).astype("Float64")
    frame.iloc[3, 1] = hole
    for svm in (mm.MulticlassSVC(), mm.StructuralSVM(models.Multiclass())):
        with refusal("X", "NaN|missing"):
            svm.fit(frame, y)
    X, Y = chains
    spoiled = X[1].astype(object)
    spoiled[0, 0] = hole
    with refusal(r"X\[1\]", "missing|NaN"):
        mm.StructuralSVM(models.Chain()).fit([X[0], spoiled, *X[2:]], Y)


# --- numbers that no float or no machine can hold ------------------------------------------------


@pytest.mark.parametrize(
    "name, value",
    [
        ("C", 10**400),
        ("tol", 10**400),
        ("max_seconds", 10**400),
        ("n_jobs", 10**20),
        ("verbose", None),
        ("verbose", "loud"),
        ("verbose", float("inf")),
        ("random_state", -1),
        ("random_state", "seed"),
        ("warm_start", "yes"),
        ("rescaling", np.array([])),
        ("solver", np.array([])),
        ("model", 3),
        ("model", None),
    ],
)
def test_odd_parameters_are_named(flat, name, value):
    X, y = flat
    settings = {"model": models.Multiclass(), name: value}
    with refusal(rf"\b{name}\b"):
        mm.StructuralSVM(**settings).fit(X, y)


@pytest.mark.parametrize("solver", ["gdmm", "subgradient", "proximal", "one-slack", "bcfw"])
@pytest.mark.parametrize("C", [1e-300, 1e155, 1e200, 1e300])
def test_no_c_ends_in_a_bare_assertion(generator, solver, C):
    X, Y = generator.normal(size=(6, 3)), generator.integers(0, 2, (6, 3))
    svm = mm.StructuralSVM(models.MultiLabel(), C=C, solver=solver, max_passes=5, random_state=0)
    try:
        quietly(lambda: svm.fit(X, Y))
    except ValueError as error:
        assert "C" in str(error) or "feasible" in str(error)
    else:
        assert not svm.certificate_.converged or np.isfinite(svm.coef_).all()


def test_a_gap_of_nothing_known_is_infinite():
    from maxmargin.problem.certificate import gap_between

    assert gap_between(np.nan, 0.0, 1.0) == np.inf == gap_between(np.inf, np.inf, 1.0)


def test_a_column_index_that_wraps_at_32_bits_is_refused(flat):
    X, y = flat
    broken = sparse.csr_matrix(X)
    broken.indices = broken.indices.astype(np.int64)
    broken.indices[4] += 2**32
    good = sparse.csr_matrix(X)
    for svm in flat_machines():
        with refusal("X", "column index"):
            svm.fit(broken, y)
        quietly(lambda svm=svm: svm.fit(good, y))
        with refusal("X", "column index"):
            svm.predict(broken)
    broken.indices[4] -= 2**33
    with refusal("X", "column index"):
        mm.MulticlassSVC().fit(broken, y)


@pytest.mark.parametrize("k", [5, 10**9, 10**20])
def test_k_best_is_capped_by_what_exists(chains, k):
    X, Y = chains
    svm = mm.StructuralSVM(models.Chain(), tol=0.1).fit(X, Y)
    short = [x[:1] for x in X]
    assert [len(found) for found in svm.predict_k_best(short, k)] == [3] * 6
    assert [len(found) for found in svm.predict_k_best(X[:1], k)] == [min(k, 9)]
    with refusal(r"\bk\b", "positions"):
        svm.predict_k_best([np.zeros((100, 3))], 10**9)


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [np.array(1.0), 3, "abc", {}, None, [[1.0], [1.0, 2.0]]])
def test_x_that_is_not_a_table_is_refused(X):
    for model in (models.Multiclass(), models.MultiLabel()):
        with refusal(r"\bX\b"):
            mm.StructuralSVM(model).fit(X, [0, 1])


@pytest.mark.parametrize("model", [models.Multiclass(), models.Binary("f1")])
def test_scores_without_outputs_say_so(flat, model):
    X, y = flat
    svm = quietly(lambda: mm.StructuralSVM(model).fit(X, y % 2))
    for call in (svm.score, svm.loss):
        with refusal("Y must be given"):
            call(X, None)


def test_flat_outputs_of_a_chain_are_refused(chains):
    X, _ = chains
    with refusal(r"Y\[0\]", "sequence"):
        mm.StructuralSVM(models.Chain()).fit(X, np.arange(6))
    svm = mm.StructuralSVM(models.Chain(), tol=0.1).fit(*chains)
    with refusal(r"Y\[0\]"):
        svm.score(X, np.arange(6))


@pytest.mark.parametrize("machine", [mm.MulticlassSVC(), mm.StructuralSVM(models.Multiclass())])
def test_a_chunk_whose_labels_are_a_frame_of_one_column(flat, machine):
    X, y = flat
    frame = pd.DataFrame({"label": y})
    if isinstance(machine, mm.MulticlassSVC):  # scikit-learn warns and uses the column
        with pytest.warns(UserWarning, match="column"):
            machine.partial_fit(pd.DataFrame(X), frame)
        return
    with refusal("Y", "1 dimension"):
        machine.partial_fit(pd.DataFrame(X), frame)


def test_masked_weights_and_frames_in_the_chunks_of_a_stream(flat):
    X, y = flat
    svm = mm.StructuralSVM(models.Multiclass(), solver="streaming")
    with refusal("sample_weight", "masked"):
        svm.fit([(X, y, np.ma.array(np.ones(8), mask=MASK))])
    with refusal("Y", "1 dimension"):
        svm.fit([(X, pd.DataFrame({"label": y}))])
    quietly(lambda: svm.fit([(pd.DataFrame(X), pd.Series(y, index=range(5, 13)))]))


def test_masked_weights_of_the_objective_are_refused(flat):
    X, y = flat
    svm = mm.MulticlassSVC().fit(X, y)
    with refusal(r"\bw\b", "masked"):
        mm.objective(svm, np.ma.array(svm._weights(), mask=np.arange(12) == 1), X, y)


# --- one sentence, no sentence -------------------------------------------------------------------

SENTENCES = [[{"w": "a"}, {"w": "b"}], [{"w": "c"}]]
TAGS = [["x", "y"], ["y"]]


def test_a_sentence_without_its_list_is_refused():
    svm = mm.StructuralSVM(models.Chain()).fit(SENTENCES, TAGS)
    for call in (lambda: svm.predict(SENTENCES[0]), lambda: svm.fit(SENTENCES[0], TAGS[0])):
        with refusal(r"X\[0\] is a dict", r"give \[X\]"):
            call()
    with refusal(r"X\[1\] is a set"):
        svm.predict([SENTENCES[0], {"a", "b"}])


@pytest.mark.parametrize("described", [True, False])
def test_the_prediction_of_no_positions_is_no_labels(described, generator):
    X = SENTENCES if described else [generator.normal(size=(m, 3)) for m in (2, 1)]
    none = [] if described else np.empty((0, 3))
    svm = mm.StructuralSVM(models.Chain()).fit(X, TAGS)
    assert [y.tolist() for y in svm.predict([none])] == [[]]
    found = svm.predict([none, X[0], none, X[1], none])
    assert [len(y) for y in found] == [0, 2, 0, 1, 0]
    for a, b in zip(found[1::2], svm.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    ((best, score),) = svm.predict_k_best([none], 3)[0]
    assert best.tolist() == [] and score == 0
    with refusal(r"X\[1\] is an empty sequence"):
        svm.fit([X[0], none], [TAGS[0], []])


@pytest.mark.parametrize("given", ["chain", "Chain", models.Chain, "nothing"])
def test_a_name_or_a_class_is_not_a_model(given):
    with refusal("instance", r"Chain\(\)"):
        mm.StructuralSVM(given).fit(SENTENCES, TAGS)


class Runs:
    """A user's model; x is the number of zeros in the output."""

    outputs = staticmethod(lambda x: [(0,) * k for k in range(1, 4)])

    def initialize(self, X, Y):
        self.size_joint_feature = 1

    def joint_feature(self, x, y):
        return np.array([float(len(y) == x)])

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def inference(self, x, w):
        return max(self.outputs(x), key=lambda y: self.joint_feature(x, y) @ w)

    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda z: self.loss(y, z) + self.joint_feature(x, z) @ w)


def test_outputs_of_different_lengths_have_a_score():
    svm = mm.StructuralSVM(Runs()).fit([1, 2, 3], [(0,), (0, 0), (0, 0, 0)])
    assert svm.score([1, 2, 3], [(0,), (0, 0), (0, 0, 0)]) == 1.0
    assert svm.score([1, 3], [(0, 0), (0, 0)]) == pytest.approx((1 + 2) / (2 + 3))


def test_a_pickle_has_the_weights_once(generator):
    X, y = generator.normal(size=(60, 400)), np.arange(60) % 20
    for svm in (
        mm.MulticlassSVC(max_passes=1),
        mm.MulticlassSVC(fit_intercept=False, max_passes=1),
    ):
        quietly(lambda svm=svm: svm.fit(X, y))
        assert len(pickle.dumps(svm.coef_)) < len(pickle.dumps(svm)) < 1.5 * svm.coef_.nbytes
        again = pickle.loads(pickle.dumps(svm))
        np.testing.assert_array_equal(again._weights(), svm._weights())
        assert mm.objective(again, again.w_, X, y) == pytest.approx(svm.certificate_.primal)


# --- cases that scikit-learn's checks leave unchanged ------------------------------------------


def test_rows_that_skip_the_checks_of_scikit_learn_fit_as_those_that_do_not(flat):
    X, y = flat
    plain = quietly(lambda: mm.MulticlassSVC(random_state=0).fit(X, y))
    listed = quietly(lambda: mm.MulticlassSVC(random_state=0).fit(X.tolist(), y.tolist()))
    assert (plain.coef_ == listed.coef_).all()
    assert plain.n_features_in_ == listed.n_features_in_ == 3
    named = quietly(lambda: mm.MulticlassSVC().fit(pd.DataFrame(X, columns=list("abc")), y))
    assert not hasattr(quietly(lambda: named.fit(X, y)), "feature_names_in_")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda X, y: (np.where(np.arange(3) == 1, np.nan, X), y), "NaN"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X, None), "y"),
    ],
)
def test_rows_at_fault_are_refused_in_the_words_of_scikit_learn(flat, spoil, said):
    with pytest.raises(ValueError, match=said):
        mm.MulticlassSVC().fit(*spoil(*flat))
    svm = quietly(lambda: mm.MulticlassSVC().fit(*flat))
    with pytest.raises(ValueError, match="features"):
        svm.predict(flat[0][:, :2])
