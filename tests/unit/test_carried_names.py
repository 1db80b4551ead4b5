"""Encoded attributes carry their encoder wherever they go, and a model then predicts from attributes."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import data, models
from maxmargin.data import AttributeEncoder, open_shards, write_shards
from maxmargin.data.mapped import MappedRows, MappedSequences, encoder_in

SENTENCES = [
    [{"word": "the"}, {"word": "dog"}, {"word": "barks"}],
    [{"word": "they"}, {"word": "bark"}],
] * 3
TAGS = [["DET", "NOUN", "VERB"], ["PRON", "VERB"]] * 3
NODES = [{"word": "the"}, {"word": "dog", "size": 2.0}] * 4
KINDS = ["DET", "NOUN"] * 4


def encoded(X=SENTENCES, **options):
    return AttributeEncoder(**options).fit_transform(X)


def written(folder, *given, **options):
    return open_shards(write_shards(folder, *given, **options))


SEQUENCES = {
    "as it is": lambda X, folder: X,
    "list": lambda X, folder: list(X),
    "list of a slice": lambda X, folder: list(X[:6]),
    "chosen one by one": lambda X, folder: [X[i] for i in range(6)],
    "tuple": lambda X, folder: tuple(X),
    "shards": lambda X, folder: written(folder, X, TAGS).X,
    "shards of a list": lambda X, folder: written(folder, list(X), TAGS).X,
    "shards of an iterator": lambda X, folder: (
        written(folder, zip(X, TAGS, strict=True), kind="sequences").X
    ),
    "list of shards": lambda X, folder: list(written(folder, X, TAGS).X),
}
HASHES = {"names": {}, "hash bits": {"n_features": 64}, "hash of any size": {"n_features": 100}}


@pytest.mark.parametrize("names", HASHES)
@pytest.mark.parametrize("way", SEQUENCES)
def test_a_chain_knows_the_names_of_encoded_sequences(way, names, tmp_path):
    X = SEQUENCES[way](encoded(**HASHES[names]), tmp_path / "shards")
    svm = mm.StructuralSVM(models.Chain(), random_state=0).fit(X, TAGS)
    assert [list(y) for y in svm.predict(SENTENCES)] == TAGS
    assert [list(y) for y in svm.predict(X)] == TAGS


def test_a_chain_knows_the_names_of_encoded_edges():
    nodes, edges = encoded(), encoded([[{"pair": "p"}] * (len(y) - 1) for y in TAGS])
    svm = mm.StructuralSVM(models.Chain(edges=True), random_state=0)
    svm.fit(list(zip(nodes, edges, strict=True)), TAGS)
    attributes = [(x, [{"pair": "p"}] * (len(x) - 1)) for x in SENTENCES]
    assert [list(y) for y in svm.predict(attributes)] == TAGS


ROWS = {
    "matrix": lambda X, folder: X,
    "shards of a matrix": lambda X, folder: written(folder, X, KINDS).X,
    "copy of shards": lambda X, folder: written(folder, X, KINDS).X.tocsr(),
    "shards of shards": lambda X, folder: (
        written(folder / "second", written(folder / "first", X, KINDS).X, KINDS).X
    ),
}


@pytest.mark.parametrize("way", ROWS)
def test_classes_know_the_names_of_encoded_rows(way, tmp_path):
    X = encoded(NODES)
    svm = mm.MulticlassSVC(random_state=0).fit(ROWS[way](X, tmp_path), KINDS)
    for given in (NODES, X, sp.csr_matrix(X, copy=True), X.toarray()):
        assert list(svm.predict(given)) == KINDS


def test_every_piece_has_the_encoder():
    X = encoded()
    assert isinstance(X, MappedSequences) and encoder_in(X) is X.encoder
    assert encoder_in(X[0]) is encoder_in(X[2:4]) is encoder_in(X[[1, 3]]) is X.encoder
    assert encoder_in(list(X)) is X.encoder
    rows = MappedRows([encoded(NODES)], 3, encoder_in(encoded(NODES)))
    assert encoder_in(rows[0]) is encoder_in(rows[2:]) is encoder_in(rows[[1, 2]]) is rows.encoder
    assert encoder_in(rows.tocsr()) is rows.encoder


@pytest.mark.parametrize(
    "numbers", [[], [np.ones((2, 3))], [sp.csr_matrix((2, 3))], np.ones((2, 3))]
)
def test_numbers_have_no_encoder(numbers):
    assert encoder_in(numbers) is None
    assert encoder_in([*encoded(), *numbers]) is None or len(numbers) == 0


def test_a_column_named_encoder_is_no_encoder():
    pandas = pytest.importorskip("pandas")
    assert encoder_in(pandas.DataFrame({"encoder": [1.0, 2.0]})) is None


def test_examples_of_different_encoders_are_refused(tmp_path):
    other = encoded([[{"word": "a"}, {"word": "b"}, {"c": "d"}, {"e": "f"}, {"g": "h"}]])
    mixed = [*encoded(), *other]
    with pytest.raises(ValueError, match=r"X\[6\] was encoded by a different encoder than X\[0\]"):
        mm.StructuralSVM(models.Chain()).fit(mixed, [*TAGS, ["DET"] * 5])
    for wrong in (mixed, [*encoded(), sp.csr_matrix((2, 5))], [sp.csr_matrix((2, 5)), *encoded()]):
        with pytest.raises(
            ValueError, match=r"X\[[16]\] and X\[0\] were not encoded by the same encoder"
        ):
            write_shards(tmp_path / "shards", wrong)
    svm = mm.StructuralSVM(models.Chain()).fit(encoded(), TAGS)
    with pytest.raises(ValueError, match="a different encoder than the model"):
        svm.predict(list(other))


def test_columns_are_read_like_those_of_a_folder(tmp_path):
    text = tmp_path / "text"
    text.write_text("the D\ndog N\n\nthey P\nbark V\n")
    first = data.columns_to_shards(text, tmp_path / "first")
    found = [
        open_shards(data.columns_to_shards(text, tmp_path / name, like=like)).X.encoder
        for name, like in (("a", first), ("b", str(first)), ("c", open_shards(first)))
    ]
    known = open_shards(first).X.encoder
    assert all(encoder.same_columns(known) for encoder in found)
