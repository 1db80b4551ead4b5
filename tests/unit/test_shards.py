"""Shards return the written data, errors name the file, and a partial data set never looks complete."""

import copy
import errno
import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import refusal
from maxmargin import models
from maxmargin.data import ShardError, manifest, shard_writer
from maxmargin.data.mapped import MappedRows
from shard_cases import chains, rows


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
    # from memory, this would be read into index lists
    X = (generator.random((400, 50)) < 0.1).astype(np.float32)
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


# Bad input to the writer.


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
        assert not (tmp_path / name / manifest.MANIFEST_NAME).exists()


def test_a_data_set_is_not_replaced_unasked(generator, tmp_path):
    X, y = rows(generator)
    mm.data.write_shards(tmp_path, X, y, shard_bytes=300)
    with refusal("already holds a data set", "overwrite"):
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

    monkeypatch.setattr("os.replace", fail)
    with refusal("cannot write", "manifest.json"):
        mm.data.write_shards(tmp_path, *rows(generator))
    assert list(tmp_path.iterdir()) == []


# Damage to written files.


@pytest.fixture
def written(generator, tmp_path):
    """Write sparse sequences, which have every kind of file, and return the folder."""
    X, Y = chains(generator, "csr")
    mm.data.write_shards(tmp_path, X, Y, shard_bytes=600)
    return tmp_path


def edit(folder, change):
    """Change the manifest."""
    path = folder / manifest.MANIFEST_NAME
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
        lambda m: m["shards"][0].update(examples=m["shards"][0]["rows"] + 1),
        lambda m: next(iter(m["shards"][0]["files"].values())).update(sha256="of the file"),
        lambda m: m["labels"].update(classes=[0.5, 1e999, 2.5], dtype="<f8"),
    ],
)
def test_a_manifest_that_no_writer_wrote_is_refused(written, change):
    edit(written, change)
    with refusal(str(written / manifest.MANIFEST_NAME), kinds=(ShardError,)):
        mm.data.open_shards(written)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 9000, '{"kind": 1, "kind": 2}', "NaN"])
def test_manifest_text_that_no_parser_likes_is_refused(written, text):
    (written / manifest.MANIFEST_NAME).write_text(text)
    with refusal(str(written / manifest.MANIFEST_NAME), kinds=(ShardError,)):
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
    "format": manifest.SHARD_FORMAT,
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
    """Yield the path of every place inside a JSON value."""
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
        (folder / manifest.MANIFEST_NAME).write_bytes(data)
        with pytest.raises(ShardError):
            mm.data.open_shards(folder)
