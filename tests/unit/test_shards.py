"""Shards: what comes back is what was written, bad luck is told with the file, nothing half looks whole."""

import copy
import errno
import gzip
import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import refusal
from maxmargin import models
from maxmargin.callbacks import Callback
from maxmargin.data import ShardError, manifest, shard_writer
from maxmargin.data.mapped import MappedRows


def rows(generator, kind="dense", dtype=np.float64, n=60, d=7):
    """A matrix and labels of three classes."""
    X = generator.normal(size=(n, d)).astype(dtype)
    y = np.array(["red", "green", "blue"])[generator.integers(3, size=n)]
    if kind == "csr":
        X[generator.random((n, d)) < 0.6] = 0
        return sp.csr_matrix(X), y
    return X, y


def chains(generator, kind="dense", dtype=np.float64, n=30):
    """Sequences and their labels."""
    lengths = generator.integers(1, 6, size=n)
    X = [generator.normal(size=(t, 4)).astype(dtype) for t in lengths]
    Y = [generator.integers(3, size=t) for t in lengths]
    return ([sp.csr_matrix(x) for x in X] if kind == "csr" else X), Y


def dense(x):
    return x.toarray() if sp.issparse(x) else np.asarray(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_rows_come_back(generator, tmp_path, kind, dtype):
    X, y = rows(generator, kind, dtype)
    mm.data.write_shards(tmp_path, X, y, shard_bytes=700)
    data = mm.data.open_shards(tmp_path)
    assert len(data.manifest.shards) > 2 and len(data) == 60
    assert data.X.shape == X.shape and data.X.dtype == dtype and data.Y.dtype == y.dtype
    whole = data.X.tocsr().toarray() if kind == "csr" else np.asarray(data.X)
    np.testing.assert_array_equal(whole, dense(X))
    np.testing.assert_array_equal(data.Y, y)
    some = generator.integers(60, size=13)
    np.testing.assert_array_equal(dense(data.X[some]), dense(X[some]))
    mask = generator.random(60) < 0.3
    np.testing.assert_array_equal(dense(data.X[mask]), dense(X)[mask])
    part = data.X[5:41]
    whole = part.tocsr().toarray() if kind == "csr" else np.asarray(part)
    np.testing.assert_array_equal(whole, dense(X)[5:41])
    np.testing.assert_array_equal(dense(data.X[-3]).ravel(), dense(X)[-3])
    np.testing.assert_allclose(data.X @ np.ones((7, 2)), dense(X) @ np.ones((7, 2)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_sequences_come_back(generator, tmp_path, kind):
    X, Y = chains(generator, kind, np.float32)
    mm.data.write_shards(tmp_path, iter(zip(X, Y, strict=True)), kind="sequences", shard_bytes=300)
    data = mm.data.open_shards(tmp_path)
    assert len(data.X) == len(data.Y) == len(X) and len(data.manifest.shards) > 2
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        np.testing.assert_array_equal(dense(data.X[i]), dense(x))
        np.testing.assert_array_equal(data.Y[i], y)
    assert [len(y) for y in data.Y[2:5]] == [len(y) for y in Y[2:5]]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_fit_reads_mapped_files_as_it_reads_arrays(generator, tmp_path, kind, solver):
    X, y = rows(generator, kind, np.float32)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=500)
    data = mm.data.open_shards(tmp_path / "rows")
    options = {"solver": solver, "random_state": 0, "max_passes": 5000}
    mine = mm.StructuralSVM(models.Multiclass(bias=1.0), **options).fit(X, y)
    own = mm.StructuralSVM(models.Multiclass(bias=1.0), **options).fit(data.X, data.Y)
    np.testing.assert_allclose(own.coef_, mine.coef_, atol=1e-5)
    np.testing.assert_array_equal(own.predict(data.X), mine.predict(X))
    again = mm.certify(own, data.X, data.Y)
    assert again.primal == pytest.approx(own.certificate_.primal)
    X, Y = chains(generator, kind)
    mm.data.write_shards(tmp_path / "chains", X, Y, shard_bytes=500)
    data = mm.data.open_shards(tmp_path / "chains")
    mine = mm.StructuralSVM(models.Chain(), C=0.1, **options).fit(X, Y)
    own = mm.StructuralSVM(models.Chain(), C=0.1, **options).fit(data.X, data.Y)
    np.testing.assert_allclose(own.coef_, mine.coef_, atol=1e-8)
    assert own.score(data.X, data.Y) == mine.score(X, Y)


def test_mapped_rows_are_read_in_place(generator, tmp_path):
    X = (generator.random((400, 50)) < 0.1).astype(np.float32)  # in memory it would get index lists
    mm.data.write_shards(tmp_path, X, generator.integers(3, size=400), shard_bytes=20_000)
    data = mm.data.open_shards(tmp_path)
    model = models.Multiclass()
    model.initialize(data.X, data.Y)
    read = model.read(data.X)
    assert read.core.owned_bytes == 0 and read.core.kind == "dense32"
    base = read.keep[0]
    while not isinstance(base, np.memmap) and base.base is not None:
        base = base.base
    assert "mmap" in type(base).__name__


def test_classifiers_and_binary_take_shards(generator, tmp_path):
    X, y = rows(generator)
    mm.data.write_shards(tmp_path, X, y == "red", shard_bytes=500)
    data = mm.data.open_shards(tmp_path)
    for kind in (mm.BinarySVC, mm.MulticlassSVC):
        mine, own = kind(random_state=0).fit(X, y == "red"), kind(random_state=0)
        own.fit(data.X, data.Y)
        np.testing.assert_allclose(own.coef_, mine.coef_, atol=1e-6)
        assert own.score(data.X, data.Y) == mine.score(X, y == "red")
    with refusal("features", "7"):
        own.predict(MappedRows([X[:, :3]], 3))


@pytest.mark.parametrize(
    "labels",
    [["x", "ü"], [3, -7], [True, False], [2.5, -1.0], [None, "a"], [1, "1"]],
    ids=str,
)
def test_labels_keep_their_types(tmp_path, labels):
    mm.data.write_shards(tmp_path, np.eye(4), labels * 2)
    found = mm.data.open_shards(tmp_path).Y.tolist()
    assert found == labels * 2 and [type(y) for y in found] == [type(y) for y in labels * 2]


def test_no_labels_and_one_chunk_at_a_time(generator, tmp_path):
    with mm.data.ShardWriter(tmp_path, shard_bytes=100) as writer:
        for _ in range(3):
            writer.add(generator.normal(size=(2, 3)))
    data = mm.data.open_shards(tmp_path)
    assert data.Y is None and data.X.shape == (6, 3) and data.classes is None


# Bad input to the writer


def test_writer_refuses_what_it_cannot_hold(generator, tmp_path):
    X, y = rows(generator)
    with refusal("NaN"):
        mm.data.write_shards(tmp_path / "a", np.full((2, 2), np.nan), [0, 1])
    with refusal("60", "59"):
        mm.data.write_shards(tmp_path / "b", X, y[:-1])
    with refusal("features", "expected 4"):
        mm.data.write_shards(tmp_path / "c", [np.ones((1, 4)), np.ones((1, 3))], [[0], [1]])
    with refusal("empty sequence"):
        mm.data.write_shards(tmp_path / "d", [np.ones((1, 4)), np.ones((0, 4))], [[0], []])
    with refusal("float64", "float32"):
        parts = [np.ones((2, 2), np.float32), np.ones((2, 2))]
        mm.data.write_shards(tmp_path / "e", iter(parts), kind="rows")
    with refusal("label"):
        mm.data.write_shards(tmp_path / "f", np.eye(2), [(1, 2), (3, 4)])
    with refusal("kind"):
        mm.data.write_shards(tmp_path / "g", iter([X]))
    with refusal("shard_bytes"):
        mm.data.write_shards(tmp_path / "h", X, y, shard_bytes=0)
    with refusal("no examples"):
        mm.data.write_shards(tmp_path / "i", iter([]), kind="rows")
    for name in "abcdefghi":
        assert not (tmp_path / name / manifest.NAME).exists()


def test_a_data_set_is_not_replaced_unasked(generator, tmp_path):
    X, y = rows(generator)
    mm.data.write_shards(tmp_path, X, y, shard_bytes=300)
    with refusal("holds a data set", "overwrite"):
        mm.data.write_shards(tmp_path, X, y)
    mm.data.write_shards(tmp_path, X[:5], y[:5], overwrite=True)
    assert len(mm.data.open_shards(tmp_path)) == 5
    assert len(list(tmp_path.iterdir())) == 3  # data, codes, manifest: the old shards are gone


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_full_disk_leaves_no_data_set(generator, tmp_path, monkeypatch, after):
    X, y = rows(generator)
    written = []

    def fill(file, content):
        if len(written) == after:
            file.write(bytes(content)[:3])
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(file.write(content))

    monkeypatch.setattr(shard_writer, "write_all", fill)
    with refusal("cannot write", r"shard-0000\d\.", "No space left"):
        mm.data.write_shards(tmp_path, X, y, shard_bytes=1000)
    assert list(tmp_path.iterdir()) == []
    with refusal("manifest.json is missing"):
        mm.data.open_shards(tmp_path)


def test_a_manifest_that_cannot_be_written_leaves_no_data_set(generator, tmp_path, monkeypatch):
    def fail(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest.os, "replace", fail)
    with refusal("cannot write", "manifest.json"):
        mm.data.write_shards(tmp_path, *rows(generator))
    assert list(tmp_path.iterdir()) == []


# Damage to what was written


@pytest.fixture
def written(generator, tmp_path):
    """A folder of sparse sequences, with every kind of file."""
    X, Y = chains(generator, "csr")
    mm.data.write_shards(tmp_path, X, Y, shard_bytes=600)
    return tmp_path


def edit(folder, change):
    """Change the manifest."""
    path = folder / manifest.NAME
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("part", ["data", "indices", "indptr", "offsets", "codes"])
def test_damaged_files_are_named(written, part):
    path = written / f"shard-00001.{part}"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with refusal(path.name, str(len(content) - 1), str(len(content))):
        mm.data.open_shards(written, verify=False)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with refusal(path.name, "checksum"):
        mm.data.open_shards(written)
    path.unlink()
    with refusal(path.name, "missing"):
        mm.data.open_shards(written)


@pytest.mark.parametrize(("part", "says"), [("offsets", "offsets"), ("indptr", "pointers")])
def test_numbers_that_do_not_fit_are_refused_without_checksums(written, part, says):
    path = written / f"shard-00000.{part}"
    kind = np.dtype("<i8" if part == "offsets" else "<i4")
    numbers = np.frombuffer(path.read_bytes(), kind).copy()
    numbers[1] = 10**6
    path.write_bytes(numbers.tobytes())
    with refusal(path.name, says):
        mm.data.open_shards(written, verify=False)


def test_codes_and_columns_outside_are_refused_without_checksums(written):
    path = written / "shard-00000.indices"
    good = path.read_bytes()
    path.write_bytes(np.full(len(good) // 4, 99, "<i4").tobytes())
    data = mm.data.open_shards(written, verify=False)
    with refusal("column indices"):
        mm.StructuralSVM(models.Chain()).fit(data.X, data.Y)
    path = written / "shard-00000.codes"
    path.write_bytes(np.full(path.stat().st_size // 4, 3, "<i4").tobytes())
    with refusal(path.name, "code"):
        mm.data.open_shards(written, verify=False)


def test_changed_types_and_counts_are_refused(written):
    edit(written, lambda m: m.update(dtype="<f4"))
    with refusal("manifest.json", "shard-00000.data", "<f4"):
        mm.data.open_shards(written, verify=False)
    edit(written, lambda m: m.update(dtype="<i8"))
    with refusal("manifest.json", "dtype"):
        mm.data.open_shards(written)
    edit(written, lambda m: m.update(dtype="<f8", version=3))
    with refusal("version 3"):
        mm.data.open_shards(written)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["labels"].update(classes=[f"{k}" for k in range(5000)], dtype="<U999999"),
        lambda m: m["labels"].update(dtype="<f8"),
        lambda m: m["labels"].update(classes=["a"] * 3),
        lambda m: m["labels"].update(classes=[[0], [1], [2]]),
        lambda m: m.update(features=2**40),
        lambda m: m.update(version=2),
        lambda m: m.update(version=2, generation=-1),
        lambda m: m.update(attributes={"names": ["a", "a", "b", "c"]}),
        lambda m: m["shards"][0].update(rows=2**60),
    ],
)
def test_a_manifest_that_no_writer_wrote_is_refused(written, change):
    edit(written, change)
    with refusal(str(written / manifest.NAME), kinds=(ShardError,)):
        mm.data.open_shards(written)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 9000, '{"kind": 1, "kind": 2}', "NaN"])
def test_manifest_text_that_no_parser_likes_is_refused(written, text):
    (written / manifest.NAME).write_text(text)
    with refusal(str(written / manifest.NAME), kinds=(ShardError,)):
        mm.data.open_shards(written)


def test_offsets_that_wrap_around_are_refused(generator, tmp_path):
    mm.data.write_shards(tmp_path, *chains(generator))
    path = tmp_path / "shard-00000.offsets"
    count = path.stat().st_size // 8
    rows = np.frombuffer(path.read_bytes(), "<i8")[-1]
    steps = np.linspace(0, 2.0**64 + float(rows), count)[1:-1]
    inner = [int(step) % 2**64 for step in steps]
    numbers = np.array([0, *inner, rows], dtype=np.uint64).astype("<i8")
    path.write_bytes(numbers.tobytes())
    with refusal("offsets"):
        mm.data.open_shards(tmp_path, verify=False)


# Files that are cut after they were opened: without a look at them the system ends the process


@pytest.mark.parametrize("part", ["data", "indices", "indptr", "codes"])
def test_a_file_cut_after_opening_is_told(written, part):
    data = mm.data.open_shards(written)
    path = written / f"shard-00000.{part}"
    os.truncate(path, 4)
    with refusal(path.name, "cut", "4 bytes", kinds=(ShardError,)):
        data.Y[0] if part == "codes" else data.X[0]
    with refusal(path.name, "cut", kinds=(ShardError,)):
        mm.StructuralSVM(models.Chain()).fit(data.X, data.Y)


def test_a_file_cut_during_training_is_found_before_the_next_step(generator, tmp_path):
    X, y = rows(generator)
    mm.data.write_shards(tmp_path, X, y, shard_bytes=500)
    data = mm.data.open_shards(tmp_path)

    class Cut(Callback):
        def on_step(self, progress):
            os.truncate(tmp_path / "shard-00001.data", 8)

    with refusal("shard-00001.data", "cut", kinds=(ShardError,)):
        svm = mm.StructuralSVM(models.Multiclass(), tol=1e-9)
        svm.fit(data.X, data.Y, callbacks=[Cut()])


def test_columns_outside_are_refused_before_scipy_writes_there(generator, tmp_path):
    X, y = rows(generator, "csr")
    mm.data.write_shards(tmp_path, X, y)
    path = tmp_path / "shard-00000.indices"
    path.write_bytes(np.full(path.stat().st_size // 4, 10**6, "<i4").tobytes())
    data = mm.data.open_shards(tmp_path, verify=False)
    for read in (lambda: data.X[0], lambda: data.X.tocsr(), lambda: data.X @ np.ones((7, 1))):
        with refusal(path.name, "column indices", kinds=(ShardError,)):
            read()


# Replacing a data set


def bad_rows(X):
    yield X, ["new"] * len(X)
    raise ValueError("the source is bad")


@pytest.mark.parametrize("way", ["iterator", "svmlight", "columns", "trees", "missing", "disk"])
def test_what_cannot_be_replaced_stays(generator, tmp_path, monkeypatch, way):
    folder, text = tmp_path / "set", tmp_path / "text"
    X, y = rows(generator)
    mm.data.write_shards(folder, X, y, shard_bytes=300)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    text.write_text("1 1:2\nthe DT\n" if way != "trees" else "(S (NN a))\n(S (NN b)\n")
    again = {"shard_bytes": 8, "overwrite": True}
    with pytest.raises((ValueError, OSError)):
        if way == "iterator":
            mm.data.write_shards(folder, bad_rows(X), kind="rows", **again)
        elif way == "svmlight":
            mm.data.svmlight_to_shards(text, folder, **again)
        elif way == "columns":
            text.write_text("a b c\na b\n")
            mm.data.columns_to_shards(text, folder, **again)
        elif way == "trees":
            mm.data.trees_to_shards(text, folder, **again)
        elif way == "missing":
            mm.data.svmlight_to_shards(tmp_path / "nowhere", folder, **again)
        else:
            monkeypatch.setattr(shard_writer, "write_all", lambda *_: os.stat("/nowhere"))
            mm.data.write_shards(folder, X, y, **again)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert mm.data.open_shards(folder).Y.tolist() == y.tolist()


def test_a_data_set_can_be_replaced_by_a_part_of_itself(generator, tmp_path):
    X, y = rows(generator)
    mm.data.write_shards(tmp_path, X, y, shard_bytes=300)
    for n in (40, 20, 10):
        data = mm.data.open_shards(tmp_path)
        mm.data.write_shards(tmp_path, data.X[:n], data.Y[:n], shard_bytes=300, overwrite=True)
        found = mm.data.open_shards(tmp_path)
        np.testing.assert_array_equal(np.asarray(found.X), X[:n])
        assert len(list(tmp_path.iterdir())) == 1 + 2 * len(found.manifest.shards)
    (tmp_path / manifest.NAME).write_text("damaged")
    mm.data.write_shards(tmp_path, X, y, overwrite=True)
    assert len(mm.data.open_shards(tmp_path)) == 60 and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["svmlight", "columns", "trees"])
def test_a_missing_file_leaves_no_folder(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        getattr(mm.data, f"{name}_to_shards")(tmp_path / "nowhere", tmp_path / "a" / "b")
    with refusal("no examples"):
        mm.data.write_shards(tmp_path / "a" / "b", iter([]), kind="rows")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_has_ended_writes_no_more(tmp_path):
    writer = mm.data.ShardWriter(tmp_path)
    writer.add(np.eye(2), [0, 1])
    writer.abandon()
    with refusal("has ended"):
        writer.close()
    assert list(tmp_path.iterdir()) == []


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["<f4", "<f8", "O", "<U999999", "|O8", "rows", "sequences", "../x"]),
)
GOOD = {
    "format": manifest.FORMAT,
    "version": 1,
    "kind": "rows",
    "layout": "dense",
    "dtype": "<f4",
    "features": 2,
    "labels": {"classes": ["a", "b"], "dtype": "<U1"},
    "attributes": {"names": ["p", "q"]},
    "shards": [
        {
            "examples": 3,
            "rows": 3,
            "entries": 0,
            "files": {
                "data": {"bytes": 24, "sha256": "0" * 64},
                "codes": {"bytes": 12, "sha256": "0" * 64},
            },
        }
    ],
}


def places(value, path=()):
    """Every place inside a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else inside:
        yield from places(item, (*path, key))


@given(st.sampled_from(list(places(GOOD))), JUNK, st.booleans())
def test_any_manifest_is_read_or_refused(place, junk, remove):
    content = copy.deepcopy(GOOD)
    target = content
    for key in place[:-1]:
        target = target[key]
    if not place:
        content = junk
    elif remove:
        del target[place[-1]]
    else:
        target[place[-1]] = junk
    try:
        found = manifest.parse_manifest(content)
    except ShardError:
        return
    assert found.rows == 3 and found.features == 2


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("fuzz")
    whole = json.dumps(GOOD).encode()
    cut = len(content) * 7 % len(whole)
    for data in (content, whole[:cut] + content + whole[cut:], whole[:cut]):
        (folder / manifest.NAME).write_bytes(data)
        with pytest.raises(ShardError):
            mm.data.open_shards(folder)


# Text files


def test_svmlight_becomes_rows(generator, tmp_path, monkeypatch):
    from sklearn.datasets import dump_svmlight_file

    monkeypatch.setattr("maxmargin.data.formats.CHUNK_BYTES", 300)
    X, _ = rows(generator, "csr")
    y = generator.integers(4, size=60) - 1
    dump_svmlight_file(X, y, str(tmp_path / "t"), zero_based=False)
    mm.data.svmlight_to_shards(tmp_path / "t", tmp_path / "shards", dtype=np.float64)
    data = mm.data.open_shards(tmp_path / "shards")
    np.testing.assert_allclose(data.X.tocsr().toarray(), X.toarray())
    assert data.Y.tolist() == y.tolist() and data.Y.dtype.kind == "i"
    (tmp_path / "bad").write_text("1 1:2\n1 one:2\n")
    with refusal("bad, line 2", "one:2"):
        mm.data.svmlight_to_shards(tmp_path / "bad", tmp_path / "none")
    assert not (tmp_path / "none" / manifest.NAME).exists()


TEXT = "the DT O\ndog NN B\n\nthe DT O\ncat NN B\nran VB O\n"


def test_columns_become_sequences(tmp_path):
    (tmp_path / "train").write_text(TEXT)
    (tmp_path / "test").write_text("the DT O\ncow NN B\n")
    mm.data.columns_to_shards(tmp_path / "train", tmp_path / "a")
    data = mm.data.open_shards(tmp_path / "a")
    assert [y.tolist() for y in data.Y] == [["O", "B"], ["O", "B", "O"]]
    names = data.manifest.attributes["names"]
    first = {names[j] for j in data.X[1][1].indices}
    assert first == {"bias", "0[-1]=the", "1[-1]=DT", "0[0]=cat", "1[0]=NN", "0[1]=ran", "1[1]=VB"}
    mm.data.columns_to_shards(tmp_path / "test", tmp_path / "b", like=data)
    other = mm.data.open_shards(tmp_path / "b")
    assert other.manifest.features == data.manifest.features
    assert "0[0]=cow" not in names and len(other.X[0][1].indices) == 5
    svm = mm.StructuralSVM(models.Chain()).fit(data.X, data.Y)
    assert svm.predict(other.X)[0].tolist() == ["O", "B"]


def test_columns_can_be_hashed_and_are_checked(tmp_path):
    (tmp_path / "t").write_text(TEXT)
    mm.data.columns_to_shards(tmp_path / "t", tmp_path / "h", hash_bits=6)
    data = mm.data.open_shards(tmp_path / "h")
    assert data.manifest.features == 64 and data.manifest.attributes == {"hash_bits": 6}
    (tmp_path / "ragged").write_text("a b c\na b\n")
    with refusal("ragged, line 2", "3 columns, got 2"):
        mm.data.columns_to_shards(tmp_path / "ragged", tmp_path / "r")
    with refusal("hash_bits"):
        mm.data.columns_to_shards(tmp_path / "t", tmp_path / "r", hash_bits=99)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 2147483648:1", "2.31"),
        ("1 99999999999999999999:1", "2.31"),
        ("1 0:1", "begin at 1"),
        ("1 2:nan", "NaN"),
        ("1 2:1e300", "float32"),
        ("1 2:x", "x"),
        ("one 1:1", "one"),
    ],
)
def test_a_bad_svmlight_line_is_named(tmp_path, monkeypatch, line, says):
    monkeypatch.setattr("maxmargin.data.formats.CHUNK_BYTES", 60)
    lines = ["1 1:2 3:4"] * 40
    lines[28] = line
    (tmp_path / "t").write_text("\n".join(lines))
    with refusal("t, line 29: ", says):
        mm.data.svmlight_to_shards(tmp_path / "t", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_the_width_of_svmlight_rows_can_be_fixed(tmp_path):
    (tmp_path / "t").write_text("1 1:2 3:4\n2\n")
    for zero_based, width, found in ((False, None, 3), (True, None, 4), (False, 9, 9)):
        options = {"zero_based": zero_based, "n_features": width, "overwrite": True}
        mm.data.svmlight_to_shards(tmp_path / "t", tmp_path / "s", **options)
        X = mm.data.open_shards(tmp_path / "s").X.tocsr()
        assert X.shape == (2, found) and X[0].indices.tolist() == [zero_based, 2 + zero_based]
    with refusal("t, line 1", "n_features = 2"):
        mm.data.svmlight_to_shards(tmp_path / "t", tmp_path / "s", n_features=2, overwrite=True)


def test_large_whole_labels_stay_what_they_are(tmp_path):
    (tmp_path / "t").write_text("1e30 1:1\n2 1:1\n")
    mm.data.svmlight_to_shards(tmp_path / "t", tmp_path / "s")
    assert mm.data.open_shards(tmp_path / "s").Y.tolist() == [1e30, 2.0]


@pytest.mark.parametrize("name", ["svmlight", "columns", "trees"])
def test_packed_files_and_bytes_that_are_no_text_are_told(tmp_path, name):
    convert = getattr(mm.data, f"{name}_to_shards")
    (tmp_path / "packed").write_bytes(gzip.compress(b"1 1:1\n"))
    with refusal("packed", "gzip", "unpack"):
        convert(tmp_path / "packed", tmp_path / "s")
    (tmp_path / "latin").write_bytes(
        b"# a note\n1 1:1\n\xe9 1:1\n" if name == "svmlight" else b"\n(\xe9\n"
    )
    with refusal("latin, line (2|3)"):
        convert(tmp_path / "latin", tmp_path / "s")


def test_a_tag_outside_the_columns_and_labels_that_arrays_cut_are_refused(tmp_path):
    (tmp_path / "t").write_text(TEXT)
    with refusal("tag = 3", "3 columns"):
        mm.data.columns_to_shards(tmp_path / "t", tmp_path / "s", tag=3)
    with refusal("NUL"):
        mm.data.write_shards(tmp_path / "s", np.eye(2), ["a", "a\0"])
    with refusal("2.63"):
        mm.data.write_shards(tmp_path / "s", np.eye(2), [1, 2**80])
