"""Errors that no other test reaches, found by measuring coverage; each message names the fault."""

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import refusal
from maxmargin import losses, models
from maxmargin.data.labels import LabelSet
from maxmargin.data.shard_writer import ShardWriter
from maxmargin.io import model_file
from reference.python_chain import BatchPythonChain, PythonChain

X, Y = np.arange(18.0).reshape(6, 3) % 5, [0, 1, 2] * 2
CHAINS = [X[:2], X[2:4], X[4:]]
TAGS = [[0, 1], [1, 0], [1, 1]]
EDGES = np.array([[0, 1]])
GRAPHS = [(x, EDGES) for x in CHAINS]
TYPED = [({"a": x[:1], "b": x[1:]}, EDGES, None, ["a", "b"]) for x in CHAINS]
WORDS = [[{"a": 1.0}, {"b": 1.0}], [{"a": 1.0}], [{"b": 2.0}]]
COSTS = [[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]]


def fit(model, X, Y, **settings):
    return mm.StructuralSVM(model, tol=0.5, **settings).fit(X, Y)


def latent():
    model = models.Latent(models.Multiclass(), parts=2)
    return mm.LatentSVM(model, tol=0.5, random_state=0).fit(X, Y)


def graph(**settings):
    return models.FactorGraph(**settings)


REFUSED = {
    # Data of fit.
    "classes of one text": (
        lambda: LabelSet("abc", "classes"),
        "classes must be a sequence of labels",
    ),
    "classes that are lists": (lambda: LabelSet([[0], [1]]), "labels must be hashable"),
    "labels that are lists": (lambda: LabelSet([0, 1]).encode([[0]], "Y[3]"), r"Y\[3\].*hashable"),
    "a number for Y": (lambda: fit(models.Chain(), CHAINS, 3), "Y must be a sequence"),
    "sparse after dense": (
        lambda: fit(models.Chain(), [*CHAINS[:2], sparse.csr_matrix(CHAINS[2])], TAGS),
        r"X\[2\] is sparse, but the first example is dense",
    ),
    "dense after sparse": (
        lambda: fit(models.Chain(), [sparse.csr_matrix(CHAINS[0]), *CHAINS[1:]], TAGS),
        r"X\[1\] is dense, but the first example is sparse",
    ),
    "sparse complex": (
        lambda: fit(models.Multiclass(), sparse.csr_matrix(X.astype(complex)), Y),
        "sparse matrix of dtype complex",
    ),
    "sparse of another width": (
        lambda: fit(models.Chain(), [sparse.csr_matrix(x) for x in (X[:2], X[:2, :2])], TAGS[:2]),
        r"X\[1\] has 2 features, expected 3",
    ),
    "chain of vectors": (
        lambda: fit(models.Chain(), [X[0], X[1]], TAGS[:2]),
        r"X\[0\] must have two dim",
    ),
    "arrays after attributes": (
        lambda: fit(models.Chain(), WORDS, [[0, 1], [0], [1]]).predict(CHAINS),
        "holds arrays, but the model was trained on attributes",
    ),
    "a class for a model": (
        lambda: fit(models.Chain, CHAINS, TAGS),
        r"model: give an instance, Chain\(\)",
    ),
    "classes for an own model": (
        lambda: mm.StructuralSVM(PythonChain(2)).partial_fit(CHAINS, TAGS, classes=[0, 1]),
        "classes: model PythonChain has no parameter classes",
    ),
    "node_weight of chunks": (
        lambda: mm.StructuralSVM(models.Chain(), solver="streaming").fit(
            [(CHAINS, TAGS)], node_weight=[[1, 1]] * 3
        ),
        "node_weight must be None if X is an iterable of chunks",
    ),
    "node_weight of an own model": (
        lambda: mm.StructuralSVM(PythonChain(2)).fit(CHAINS, TAGS, node_weight=[[1, 1]] * 3),
        "node_weight",
    ),
    # Losses of outputs that the model does not know.
    "cost of an unknown class": (
        lambda: fit(models.Multiclass(COSTS), X, Y).model_.loss(7, 0),
        "7 has no cost, because it is not among the classes",
    ),
    "cost of an unknown binary class": (
        lambda: fit(models.Binary([1.0, 2.0]), X[:4], [0, 1, 0, 1]).model_.loss(7, 0),
        "7 has no cost, because it is not among the classes",
    ),
    "cost of an unknown tag": (
        lambda: fit(models.Chain(losses.Hamming(costs=[1.0, 2.0])), CHAINS, TAGS).model_.loss(
            [7], [0]
        ),
        "7 has no cost, because it is not among the classes",
    ),
    "lengths of chains": (
        lambda: fit(models.Chain(), CHAINS, TAGS).model_.loss([0, 1], [0]),
        "equal lengths, got 2 and 1 labels",
    ),
    "lengths of graphs": (
        lambda: fit(graph(), GRAPHS, TAGS).model_.loss([0, 1], [0]),
        "equal lengths, got 2 and 1 labels",
    ),
    "numbers of parts": (
        lambda: models.Tree().loss([(0, 0)], [(0, 0), (1, 1)]),
        r"shape \(1, 2\) and \(2, 2\) cannot be compared",
    ),
    # Models.
    "grids of text": (
        lambda: fit(models.Tree(), [np.full((2, 2, 1), "a")], [[(0, 0)]]),
        r"X\[0\] must hold numbers",
    ),
    "places without columns": (
        lambda: fit(models.Tree(), [np.ones((2, 2, 1))], [[0]]),
        r"Y\[0\] must be \(parts, 2\)",
    ),
    "classes of types": (
        lambda: fit(graph(classes=[0, 1]), TYPED, TAGS),
        "classes must map each type",
    ),
    "a type without classes": (
        lambda: fit(graph(classes={"a": [0, 1]}), TYPED, TAGS),
        "no labels are given for nodes of type 'b'",
    ),
    "a kind of other labels": (
        lambda: fit(graph(pairwise="potts"), TYPED, [[0, 2], [1, 3], [0, 3]]),
        "needs nodes with equal labels",
    ),
    "types of some": (
        lambda: fit(graph(), [*TYPED[:2], (X[4:], EDGES)], TAGS),
        r"X\[2\] has no types of nodes, but other examples have",
    ),
    "a graph without types": (
        lambda: fit(graph(), TYPED, TAGS).predict(GRAPHS),
        "no types of nodes, but the model was trained with types",
    ),
    "a type without rows": (
        lambda: fit(graph(), [({"a": X[:1]}, EDGES, None, ["a", "b"])], [[0, 1]]),
        r"X\[0\]\[0\] has no features for nodes of type 'b'",
    ),
    "types of other nodes": (
        lambda: fit(graph(), [(X[:1], EDGES, None, ["a", "a"])], [[0, 1]]),
        r"X\[0\]\[0\] has 1 rows, but X\[0\]\[3\] names 2 nodes",
    ),
    "edge features of vectors": (
        lambda: fit(graph(), [(X[:2], EDGES, np.ones(1))], [[0, 1]]),
        r"X\[0\]\[2\] must have two dimensions",
    ),
    "one label for a graph": (
        lambda: fit(graph(), GRAPHS, ["ab", "a", "b"]),
        r"Y\[0\] must hold a label",
    ),
    "pairs of a set": (
        lambda: fit(models.MultiLabel(pairs=3), X, np.eye(6, 3, dtype=int)),
        'pairs must be "all", "none" or pairs',
    ),
    "an unknown label of a set": (
        lambda: mm.certify(
            fit(models.MultiLabel(), X[:3], [{"a"}, {"b"}, {"a", "b"}]), X[:1], [{"z"}]
        ),
        r"Y\[0\] has 'z', which is not among the classes",
    ),
    "sets of lists": (
        lambda: fit(models.MultiLabel(), X[:2], [[[0]], [[1]]]),
        r"Y\[0\]: labels must be hashable",
    ),
    "weights of labels": (
        lambda: mm.StructuralSVM(models.MultiLabel()).fit(
            X, np.eye(6, 3, dtype=int), node_weight=-np.ones((6, 3))
        ),
        "node_weight must be finite and not negative",
    ),
    "too many parts": (
        lambda: mm.LatentSVM(models.Latent(models.Multiclass(), parts=10**7)).fit(X, Y),
        "parts must be at most",
    ),
    "node_weight of hidden parts": (
        lambda: mm.certify(latent(), X, Y, node_weight=[1]),
        "node_weight",
    ),
    "completions of other data": (
        lambda: mm.certify(latent(), X[:3], Y[:3]),
        "the fit had 6 examples, but Y has 3",
    ),
    "constraints of hidden parts": (
        lambda: latent().predict(X, constraints=[]),
        "constraints must be None for a model with hidden parts",
    ),
    # Certificates.
    "node_weight of a certificate": (
        lambda: mm.certify(
            fit(models.Chain(), CHAINS, TAGS), CHAINS, TAGS, node_weight=[[1, 1]] * 3
        ),
        "give node_weight if it was given to fit",
    ),
    "a model that has seen nothing": (
        lambda: mm.objective(PythonChain(2), np.zeros(3), CHAINS, TAGS, C=1.0),
        r"call initialize\(X, Y\) on the model first|size",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    call, words = REFUSED[name]
    with refusal(words):
        call()


SHARDS = {
    "kind": (lambda folder: ShardWriter(folder, kind="graphs"), "kind must be one of"),
    "dtype": (
        lambda folder: ShardWriter(folder, dtype=np.float16),
        "dtype must be float32 or float64",
    ),
    "no features": (
        lambda folder: mm.data.write_shards(folder, np.ones((2, 0)), [0, 1]),
        "has no features",
    ),
    "lengths": (
        lambda folder: mm.data.write_shards(folder, CHAINS, TAGS[:2]),
        "3 examples, but Y has 2",
    ),
    "no data": (
        lambda folder: mm.data.write_shards(folder, [3, 4], None),
        "X must be a matrix, a list",
    ),
    "tags": (
        lambda folder: mm.data.write_shards(folder, CHAINS, [[0], [1, 0], [1, 1]]),
        r"X\[0\] has 2 rows, but Y has 1 labels",
    ),
    "labels of some": (
        lambda folder: mm.data.write_shards(
            folder, iter([(CHAINS[0], TAGS[0]), (CHAINS[1], None)]), kind="sequences"
        ),
        "Y must be given for all examples or for none",
    ),
}


@pytest.mark.parametrize("name", SHARDS)
def test_shards_that_cannot_be_written_are_refused(name, tmp_path):
    call, words = SHARDS[name]
    with refusal(words):
        call(tmp_path / "shards")


def test_mapped_rows_are_read_like_lists(tmp_path):
    mm.data.write_shards(tmp_path / "rows", sparse.csr_matrix(X), Y)
    rows = mm.data.open_shards(tmp_path / "rows").X
    np.testing.assert_array_equal(np.vstack([row.toarray() for row in rows]), X)
    assert rows[2:2].shape == (0, 3)
    with refusal("these rows are sparse"):
        np.asarray(rows)
    mm.data.write_shards(tmp_path / "chains", CHAINS, TAGS)
    chains = mm.data.open_shards(tmp_path / "chains").X
    for x, given in zip(chains[1:], CHAINS[1:], strict=True):
        np.testing.assert_array_equal(x, given)


# Changes of the state or of the arrays that save never makes, with a valid checksum.
FILES = {
    "sets of types": ("typed", lambda state, arrays: state["labels"].pop()),
    "labels of a type": ("typed", lambda state, arrays: state["labels"][0].update(classes=[0])),
    "pairwise entries": ("typed", lambda state, arrays: state.update(pairwise=["full"])),
    "pairwise types": ("typed", lambda state, arrays: state.update(pairwise=[[0, 9, "full"]])),
    "pairwise twice": ("typed", lambda state, arrays: state.update(pairwise=[[0, 1, "full"]] * 2)),
    "pairs outside": ("set", lambda state, arrays: arrays.update(pairs=arrays["pairs"] + 1)),
    "pairs twice": ("set", lambda state, arrays: arrays.update(pairs=arrays["pairs"][[0, 0, 1]])),
    "labels of bags": ("bags", lambda state, arrays: state.update(classes=[0, 1, 2])),
    "attributes": ("words", lambda state, arrays: state["attributes"]["names"].pop()),
    "attributes twice": ("words", lambda state, arrays: state["attributes"].update(n_features=2)),
    "kernel options": ("kernel", lambda state, arrays: state.update(options=["rbf"])),
    "regression": ("regression", lambda state, arrays: state.update(epsilon=-1.0)),
}
FITTED = {
    "typed": lambda: fit(graph(), TYPED, TAGS),
    "set": lambda: fit(models.MultiLabel(), X, np.eye(6, 3, dtype=int)),
    "bags": lambda: mm.LatentSVM(models.Bags(), tol=0.5).fit(CHAINS, [0, 1, 0]),
    "words": lambda: fit(models.Chain(), WORDS, [[0, 1], [0], [1]]),
    "kernel": lambda: fit(models.Kernel(models.Multiclass(), "rbf"), X, Y),
    "regression": lambda: mm.RegressionSVR(tol=0.5).fit(X, Y),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_contradicts_itself_is_refused(name, tmp_path):
    kind, change = FILES[name]
    path = tmp_path / "model"
    FITTED[kind]().save(path)
    header, arrays = model_file.read(path)
    change(header["model"], arrays)
    model_file.write(path, header, arrays)
    with refusal(str(path), kinds=(mm.ModelFileError,)):
        mm.load(path)


def test_check_model_tries_the_batch_oracle_and_k_best():
    """The batch must agree with single calls, features must not change, and k best must be in order."""

    class Lazy(BatchPythonChain):
        def batch_loss_augmented_inference(self, X, Y, w):
            return list(Y)

    class Restless(PythonChain):
        calls = 0

        def joint_feature(self, x, y):
            self.calls += 1
            return super().joint_feature(x, y) + 1e-3 * self.calls

    class Unsorted(PythonChain):
        def inference_k_best(self, x, w, k):
            best = self.inference(x, w)
            score = float(w @ self.joint_feature(x, best))
            return [(best, score - 1), (best, score)]

    mm.check_model(BatchPythonChain(2), CHAINS, TAGS)
    for model, words in (
        (Lazy(2), "batch_loss_augmented_inference of example"),
        (Restless(2), "differs between two calls"),
        (Unsorted(2), "inference_k_best of example"),
    ):
        with refusal(words, kinds=(mm.OracleError,)):
            mm.check_model(model, CHAINS, TAGS)
