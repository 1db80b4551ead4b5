"""Text files converted to shards keep their data; errors name the file and the line."""

import bz2
import gzip
import lzma
from functools import partial

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import models
from maxmargin.data import manifest
from shard_cases import rows


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
    assert not (tmp_path / "none" / manifest.MANIFEST_NAME).exists()


TEXT = "the DT O\ndog NN B\n\nthe DT O\ncat NN B\nran VB O\n"


def test_columns_become_sequences(tmp_path):
    (tmp_path / "train").write_text(TEXT)
    (tmp_path / "test").write_text("the DT O\ncow NN B\n")
    few = partial(mm.data.describe_columns, templates="window")
    mm.data.columns_to_shards(tmp_path / "train", tmp_path / "a", describe=few)
    data = mm.data.open_shards(tmp_path / "a")
    assert [y.tolist() for y in data.Y] == [["O", "B"], ["O", "B", "O"]]
    names = data.manifest.attributes["names"]
    first = {names[j] for j in data.X[1][1].indices}
    assert first == {"bias", "0[-1]=the", "1[-1]=DT", "0[0]=cat", "1[0]=NN", "0[1]=ran", "1[1]=VB"}
    mm.data.columns_to_shards(tmp_path / "test", tmp_path / "b", like=data, describe=few)
    other = mm.data.open_shards(tmp_path / "b")
    assert other.manifest.features == data.manifest.features
    assert "0[0]=cow" not in names and len(other.X[0][1].indices) == 5
    svm = mm.StructuralSVM(models.Chain()).fit(data.X, data.Y)
    assert svm.predict(other.X)[0].tolist() == ["O", "B"]
    X, Y = mm.data.read_columns(tmp_path / "test", describe=few)
    assert svm.predict(X)[0].tolist() == Y[0] == ["O", "B"]


def test_a_tagger_from_columns_tags_new_text(tmp_path):
    (tmp_path / "train.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "new").write_text("The DT\nDogs4 NN\n")
    for options in ({}, {"hash_bits": 10}):
        mm.data.columns_to_shards(tmp_path / "train.gz", tmp_path / "s", overwrite=True, **options)
        data = mm.data.open_shards(tmp_path / "s")
        svm = mm.StructuralSVM(models.Chain()).fit(data.X, data.Y)
        svm.save(tmp_path / "tagger")
        X, Y = mm.data.read_columns(tmp_path / "new", tag=None)
        assert Y is None and mm.load(tmp_path / "tagger").predict(X)[0].tolist() == ["O", "B"]
        X, Y = mm.data.read_columns(tmp_path / "train.gz")
        assert [y.tolist() for y in svm.predict(X)] == [y.tolist() for y in svm.predict(data.X)]
        for own, mapped in zip(data.X.encoder.transform(X), data.X, strict=True):
            assert (own.toarray() == mapped.toarray()).all()
    assert svm.model_.encoder_.n_features == 1024 and [list(y) for y in data.Y] == Y


def test_the_default_templates():
    first, last = mm.data.describe_columns([["The", "DT"], ["U.S.", "NN"]])
    assert first["0[0]"] == "The" and first["0[-1]"] == "<pad>" and first["0[2]"] == "<pad>"
    assert first["0[0,1]"] == "The|U.S." and last["1[-1,0,1]"] == "DT|NN|<pad>"
    assert last["shape"] == "A.A." and first["shape"] == "Aaa" and first["kinds"] == "Aa"
    assert first["prefix"] == ("t", "th", "the") and last["suffix"] == (".", "s.", ".s.", "u.s.")
    assert "0[-2,-1,0]" not in first and first["lower"] == "the" and first["bias"] == 1.0
    (only,) = mm.data.describe_columns([["x1"]])
    assert only["0[0]"] == "x1" and only["shape"] == "a0" and "1[0]" not in only


def test_columns_can_be_hashed_and_are_checked(tmp_path):
    (tmp_path / "t").write_text(TEXT)
    mm.data.columns_to_shards(tmp_path / "t", tmp_path / "h", hash_bits=6)
    data = mm.data.open_shards(tmp_path / "h")
    assert data.manifest.features == 64 and data.manifest.attributes == {"hash_bits": 6}
    (tmp_path / "ragged").write_text("a b c\na b\n")
    with refusal("ragged, line 2", "2 columns, expected 3"):
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


TEXTS = {"svmlight": "1 1:1\n2 2:1\n", "columns": TEXT, "trees": "(S (A a) (B b))\n" * 3}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_read_as_they_are(tmp_path, name, pack):
    convert = getattr(mm.data, f"{name}_to_shards")
    (tmp_path / "plain").write_text(TEXTS[name])
    (tmp_path / "packed").write_bytes(pack(TEXTS[name].encode()))
    left, right = (
        mm.data.open_shards(convert(tmp_path / file, tmp_path / f"{file}-shards"))
        for file in ("plain", "packed")
    )
    assert list(map(str, left.Y)) == list(map(str, right.Y))
    packed = pack(TEXTS[name].encode() * 50)
    (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
    with refusal("cut", "cannot be unpacked"):
        convert(tmp_path / "cut", tmp_path / "s")


@pytest.mark.parametrize("name", TEXTS)
def test_zip_files_and_bytes_that_are_not_text_are_told(tmp_path, name):
    convert = getattr(mm.data, f"{name}_to_shards")
    (tmp_path / "packed").write_bytes(b"PK\x03\x04more")
    with refusal("packed", "zip", "unpack"):
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
