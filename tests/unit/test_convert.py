"""Data written in a format reads back unchanged; a format refuses data that it cannot hold."""

import gzip
import io
import subprocess
import sys
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.cli import main
from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_rows import value_of
from maxmargin.data.from_file import FORMATS, FileError, FromFile, Reading
from maxmargin.data.read_file import read_file
from maxmargin.data.templates import describe_columns
from maxmargin.data.trees import ParseTree
from maxmargin.data.write_file import WRITERS, write_file, write_shard_folder

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 0.1, 1e-300])
WHOLE = st.integers(-(2**40), 2**40)
# Texts without characters that a line-based file cannot hold; words have no spaces either.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0"), min_size=1)
WORD = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=6)
LABEL = TEXT.filter(str.strip)


@st.composite
def matrices(draw, rows=None):
    shape = (rows or draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    cells = st.just(0.0) | NUMBERS
    flat = draw(st.lists(cells, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(flat).reshape(shape)


@st.composite
def numbered_rows(draw, labels=WHOLE):
    X = draw(matrices())
    Y = draw(st.lists(labels, min_size=len(X), max_size=len(X)))
    return sp.csr_matrix(X), Y


@st.composite
def numbered_sequences(draw):
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    X = draw(matrices(sum(lengths)))
    Y = draw(st.lists(WHOLE, min_size=len(X), max_size=len(X)))
    ends = np.cumsum(lengths)[:-1]
    return [sp.csr_matrix(x) for x in np.split(X, ends)], [list(y) for y in np.split(Y, ends)]


@st.composite
def columns(draw):
    width, sequences = draw(st.integers(2, 4)), st.lists(st.integers(1, 3), min_size=1, max_size=3)
    return [[draw(st.lists(WORD, min_size=width, max_size=width)) for _ in range(n)]
            for n in draw(sequences)]  # fmt: skip


LEAF = st.text(
    st.characters(exclude_categories=["Cs", "Z", "C"], exclude_characters="()"), min_size=1
)
TREES = st.recursive(
    st.builds(ParseTree, st.sampled_from("DNV"), st.lists(LEAF, min_size=1, max_size=1)),
    lambda own: st.builds(
        ParseTree, st.sampled_from(["S", "NP"]), st.lists(own, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def again(read, path, **given):
    """Write the data and read them back."""
    form = read.reading.format
    write_file(read, str(path), form)
    reading = Reading(form, read.reading.task, **given)
    return read_file(str(path), reading)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("convert")


def same_rows(a, b):
    return a.shape == b.shape and (a != b).nnz == 0


@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz"])
@given(data=numbered_rows())
def test_svmlight(packed, data, folder):
    found = again(FromFile(*data, Reading("svmlight", "multiclass")), folder / f"t{packed}")
    assert same_rows(found.X, data[0]) and found.Y.tolist() == data[1]


@given(data=numbered_rows(labels=NUMBERS))
def test_svmlight_of_real_numbers(data, folder):
    found = again(FromFile(*data, Reading("svmlight", "regression")), folder / "t")
    assert same_rows(found.X, data[0]) and found.Y.tolist() == data[1]


@given(data=numbered_rows(labels=st.sets(st.integers(0, 99), max_size=3).map(sorted).map(tuple)))
def test_svmlight_of_sets(data, folder):
    found = again(FromFile(*data, Reading("svmlight", "multilabel")), folder / "t")
    assert same_rows(found.X, data[0]) and data[1] == found.Y


@given(data=numbered_rows(labels=TEXT))
def test_texts_as_labels_are_numbered_in_comments(data, folder):
    found = again(FromFile(*data, Reading("svmlight", "multiclass")), folder / "t")
    comments = [
        line for line in (folder / "t").read_bytes().decode().split("\n") if line[:2] == "# "
    ]
    named = dict(line[2:].split(" is ", 1) for line in comments if line[2].isdigit())
    assert [named[str(y)] for y in found.Y] == data[1] and same_rows(found.X, data[0])


@given(data=numbered_sequences())
def test_svmhmm(data, folder):
    found = again(FromFile(*data, Reading("svmhmm", "tagging")), folder / "t")
    assert all(map(same_rows, found.X, data[0])) and data[1] == found.Y


TOKEN = st.dictionaries(TEXT, NUMBERS, max_size=3)


@given(data=st.lists(st.lists(st.tuples(LABEL, TOKEN), min_size=1, max_size=3), min_size=1))
def test_crfsuite(data, folder):
    X, Y = [[x for _, x in s] for s in data], [[y for y, _ in s] for s in data]
    found = again(FromFile(X, Y, Reading("crfsuite", "tagging")), folder / "t")
    assert found.X == X and found.Y == Y


def test_a_mark_at_the_beginning_is_kept(folder):
    X, Y = [[{"a": 1.0}]], [["\ufeffN"]]
    found = again(FromFile(X, Y, Reading("crfsuite", "tagging")), folder / "t")
    assert found.Y == Y


@given(data=columns())
def test_columns(data, folder):
    lines = [[" ".join(row) for row in rows] for rows in data]
    Y = [[row[-1] for row in rows] for rows in data]
    X = [describe_columns([row[:-1] for row in rows]) for rows in data]
    found = again(FromFile(X, Y, Reading("conll", "tagging"), lines), folder / "t")
    assert (found.X, found.Y, found.tokens) == (X, Y, lines)


@given(data=columns(), at=st.integers(0, 1))
def test_columns_with_the_label_elsewhere(data, at, folder):
    lines = [[" ".join(row) for row in rows] for rows in data]
    Y = [[row[at] for row in rows] for rows in data]
    found = again(FromFile([], Y, Reading("conll", "tagging", str(at)), lines), folder / "t")
    rest = [[row[:at] + row[at + 1 :] for row in rows] for rows in data]
    assert found.Y == Y and [describe_columns(rows) for rows in rest] == found.X


CELL = st.text(st.characters(exclude_categories=["Cs", "C"]), min_size=1)


@given(data=st.lists(st.lists(st.lists(CELL, min_size=9, max_size=9), min_size=1), min_size=1))
def test_conllu(data, folder):
    tokens = [["\t".join([str(t), *row]) for t, row in enumerate(s, 1)] for s in data]
    Y = [[row[2] for row in s] for s in data]
    found = again(FromFile([], Y, Reading("conllu", "tagging"), tokens), folder / "t")
    assert found.tokens == tokens and found.Y == Y


@given(data=columns())
def test_columns_become_universal_dependencies(data, folder):
    lines = [[" ".join(row) for row in rows] for rows in data]
    Y = [[row[-1] for row in rows] for rows in data]
    write_file(FromFile([], Y, Reading("conll", "tagging"), lines), str(folder / "t"), "conllu")
    found = read_file(str(folder / "t"), Reading("conllu", "tagging"))
    assert found.Y == Y
    words = [[line.split("\t")[1] for line in own] for own in found.tokens]
    assert words == [[row[0] for row in rows] for rows in data]


@given(trees=st.lists(TREES, min_size=1, max_size=4))
def test_brackets(trees, folder):
    leaves = [tree.leaves() for tree in trees]
    found = again(FromFile(leaves, trees, Reading("brackets", "parsing")), folder / "t")
    assert trees == found.Y and leaves == found.X
    write_file(found, str(folder / "words"), "conll")
    words = read_file(str(folder / "words"), Reading("conll", "tagging"))
    assert [[line.split(" ")[0] for line in s] for s in words.tokens] == leaves


CELLS = NUMBERS | TEXT.filter(lambda text: isinstance(value_of(text), str))


@pytest.mark.parametrize("form", ["csv", "tsv"])
@given(data=st.lists(st.tuples(st.dictionaries(TEXT, CELLS, min_size=1), LABEL), min_size=1))
def test_tables(form, data, folder):
    X, Y = [x for x, _ in data], [f"label {y}" for _, y in data]
    found = again(FromFile(X, Y, Reading(form, "multiclass")), folder / "t")
    assert found.X == X and found.Y.tolist() == Y


# A column of a Parquet file holds numbers or texts.
TYPED = st.fixed_dictionaries({}, optional={"n": NUMBERS, "t": TEXT, "": NUMBERS})


@given(data=st.lists(st.tuples(TYPED, TEXT), min_size=1))
def test_parquet(data, folder):
    pytest.importorskip("pyarrow")
    X, Y = [x for x, _ in data], [y.rstrip("\0") for _, y in data]
    found = again(FromFile(X, Y, Reading("parquet", "multiclass")), folder / "t.parquet")
    assert found.X == X and found.Y.tolist() == Y


def test_parquet_of_others(folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"on": [True, False, None], "y": [1, 2, 1], "size": [1.5, None, float("nan")]}
    parquet.write_table(arrow.table(columns), folder / "o.parquet")
    found = read_file(str(folder / "o.parquet"), label="y")
    assert found.X == [{"on": 1.0, "size": 1.5}, {"on": 0.0}, {}] and found.Y.tolist() == [1, 2, 1]
    for cells, words in (({"y": [1, None]}, "row 2: the label is missing"),
                         ({"x": [[1], [2]], "y": [1, 2]}, "column 'x' holds list")):  # fmt: skip
        parquet.write_table(arrow.table(cells), folder / "bad.parquet")
        with pytest.raises(FileError, match=rf"bad\.parquet.*{words}"):
            read_file(str(folder / "bad.parquet"))
    (folder / "no.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FileError, match=r"no\.parquet"):
        read_file(str(folder / "no.parquet"))
    mixed = FromFile([{"a": 1.0}, {"a": "x"}], [1, 2], Reading("csv", "multiclass"))
    with pytest.raises(FileError, match="column 'a' holds both numbers and texts"):
        write_file(mixed, str(folder / "mixed"), "parquet")


def test_without_pyarrow_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (folder / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileError, match=r"pip install maxmargin\[parquet\]"):
        read_file(str(folder / "t.parquet"))


@pytest.mark.parametrize("form", ["csv", "npz", "parquet"])
@given(data=numbered_rows(labels=NUMBERS))
def test_numbers_in_tables_and_arrays(form, data, folder):
    pytest.importorskip("pyarrow" if form == "parquet" else "numpy")
    X, Y = data[0].toarray(), np.array(data[1])
    found = again(FromFile(X, Y, Reading(form, "regression")), folder / f"t.{form}")
    assert np.array_equal(found.X, X) and np.array_equal(found.Y, Y)


@given(rows=numbered_rows(), sequences=numbered_sequences(), trees=st.lists(TREES, min_size=1))
def test_shards(rows, sequences, trees, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write_file(FromFile(*rows, Reading("svmlight", "multiclass")), str(folder / "rows"), "shards")
    found = read_file(str(folder / "rows"))
    assert same_rows(found.X.tocsr(), rows[0]) and found.Y.tolist() == rows[1]
    write_file(FromFile(*sequences, Reading("svmhmm", "tagging")), str(folder / "s"), "shards")
    found = read_file(str(folder / "s"))
    assert all(same_rows(sp.csr_matrix(found.X[i]), x) for i, x in enumerate(sequences[0]))
    assert [y.tolist() for y in found.Y] == sequences[1] and found.reading.task == "tagging"
    leaves = [tree.leaves() for tree in trees]
    write_file(FromFile(leaves, trees, Reading("brackets", "parsing")), str(folder / "t"), "shards")
    found = read_file(str(folder / "t"))
    assert list(found.Y) == trees and found.reading.task == "parsing"


def test_every_format_has_a_writer():
    assert {*WRITERS, "shards"} == set(FORMATS)


# The command.


COLUMNS = "the DT B-NP\ndog NN I-NP\nbarks VB O\n\na DT B-NP\ncat NN I-NP\nsits VB O\n\n" * 2


def run(*words):
    return main([str(word) for word in words])


def test_a_model_of_attributes_is_that_of_columns(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert run("convert", tmp_path / "t.conll", tmp_path / "t.crfsuite.gz") == 0
    assert run("convert", tmp_path / "t.conll", tmp_path / "shards", "--to", "shards") == 0
    assert gzip.decompress((tmp_path / "t.crfsuite.gz").read_bytes()).startswith(b"B-NP\t")
    read = [read_file(str(tmp_path / name)) for name in ("t.conll", "t.crfsuite.gz")]
    encoded = [AttributeEncoder(sequences=True).fit_transform(own.X) for own in read]
    names = [own.encoder.get_feature_names_out().tolist() for own in encoded]
    assert set(names[0]) == set(names[1])
    optima = []
    for name in ("t.conll", "t.crfsuite.gz", "shards"):
        assert run("train", tmp_path / name, tmp_path / "m", "--quiet", "--tol", 1e-6) == 0
        svm = mm.load(tmp_path / "m")
        optima.append(svm.certificate_.primal)
        assert set(svm.feature_names_) <= set(names[0])
    assert np.allclose(optima, optima[0], rtol=1e-4)
    # A conversion through numbers keeps the values of the features.
    assert run("convert", tmp_path / "t.conll", tmp_path / "t.svmhmm") == 0
    numbered = read_file(str(tmp_path / "t.svmhmm"))
    assert [x.nnz for x in numbered.X] == [sp.csr_matrix(x).nnz for x in encoded[0]]


def test_pipes(tmp_path):
    command = [sys.executable, "-m", "maxmargin", "convert", "-", "-", "--format", "conll"]
    found = subprocess.run([*command, "--to", "conllu"], input=COLUMNS.encode(), capture_output=True,
                           check=True)  # fmt: skip
    assert found.stdout.startswith(b"1\tthe\t_\tB-NP\t")
    rows = subprocess.run([*command[:-1], "svmlight", "--to", "npz"], input=b"1 1:2\n-1 2:1\n",
                          capture_output=True, check=True).stdout  # fmt: skip
    assert np.load(io.BytesIO(rows))["X"].tolist() == [[2, 0], [0, 1]]
    (tmp_path / "t.npz").write_bytes(rows)
    assert read_file(str(tmp_path / "t.npz")).Y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("name", "text", "to", "words"),
    [
        ("t.conll", COLUMNS, "csv", "holds rows, but the examples are sequences"),
        ("t.conll", COLUMNS, "brackets", "holds trees"),
        ("t.crfsuite", "N\tw=a\n", "conll", "crfsuite has only their features"),
        ("t.svmlight", "1,2 1:1\n", "csv", "have sets of labels"),
        ("t.svmlight", "1,2 1:1\n", "shards", "have sets of labels"),
        ("t.svmlight", "1 1:1\n", "crfsuite", "holds sequences"),
        ("t.conllu", "1\ta b\t_\tN" + "\t_" * 6 + "\n", "conll", "'a b' cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(name, text, to, words, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    assert run("convert", tmp_path / name, tmp_path / "out", "--to", to) == 1
    said = capsys.readouterr().err
    assert name in said and words in said and not (tmp_path / "out").exists()


def test_a_format_that_is_not_known_is_asked_for(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert run("convert", tmp_path / "t.conll", tmp_path / "out") == 1
    assert "give --to" in capsys.readouterr().err
    with pytest.raises(FileError, match="format must be one of"):
        write_file(read_file(str(tmp_path / "t.conll")), str(tmp_path / "out"), "xml")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00v\x00", b"text"])
def test_damaged_arrays_are_named(content, tmp_path):
    (tmp_path / "t.npz").write_bytes(content)
    with pytest.raises(FileError, match=r"t\.npz"):
        read_file(str(tmp_path / "t.npz"))


@pytest.mark.parametrize("format", ["svmhmm", "crfsuite"])
def test_an_empty_sequence_is_refused_by_formats_of_lines(format, tmp_path):
    empty = FromFile([np.zeros((0, 2)), np.ones((1, 2))], [[], ["a"]], Reading("npz", "tagging"))
    with pytest.raises(FileError, match="example 0 is an empty sequence"):
        write_file(empty, str(tmp_path / "out"), format)


def test_shards_are_written_with_one_batch_in_memory(tmp_path):
    """A batch of texts is larger than its arrays, so it is freed before the next batch is read."""
    alive = []

    def batches():
        last = None
        for k in range(4):
            alive.append(last is not None and last() is not None)
            x = [[{f"word={k}": 1.0}, {"bias": 1.0}]]
            read = FromFile(x, [["a", "b"]], Reading("conll", "tagging"))
            last = weakref.ref(read)
            yield read
            del read

    write_shard_folder(batches(), str(tmp_path / "shards"))
    assert len(mm.data.open_shards(tmp_path / "shards")) == 4 and not any(alive)
