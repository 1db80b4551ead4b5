"""Files of shards that change during reading, and data sets that are replaced."""

import os

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import models
from maxmargin.callbacks import Callback
from maxmargin.data import ShardError, manifest, shard_writer
from shard_cases import chains, rows


@pytest.fixture
def written(generator, tmp_path):
    """Write sparse sequences, which have every kind of file, and return the folder."""
    X, Y = chains(generator, "csr")
    mm.data.write_shards(tmp_path, X, Y, shard_bytes=600)
    return tmp_path


# Files that are cut after they were opened: without a check, reading them would kill the process.


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


# Replacing a data set.


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
    (tmp_path / manifest.MANIFEST_NAME).write_text("damaged")
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
    with refusal("is closed"):
        writer.close()
    assert list(tmp_path.iterdir()) == []
