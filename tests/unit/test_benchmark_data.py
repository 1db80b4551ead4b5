"""Data of the benchmarks: stand-ins, files, features of text."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import datasets, text_features


@pytest.mark.parametrize("name", ["ocr", "usps", "conll2000"])
def test_stand_ins_have_the_shape_of_the_data(name: str) -> None:
    data = datasets.load(name, small=True)
    assert data.width == {"ocr": 128, "usps": 256}.get(name, data.width)
    assert len(data.X_test) == len(data.Y_test) > 0
    assert data.size == (len(data.X_train) if name != "usps" else data.X_train.shape[0])
    assert data.scores(data.Y_test)["test_error"] == 0.0


def test_trees_of_the_stand_in_are_split_and_scored() -> None:
    data = datasets.load("treebank", small=True)
    assert data.size == len(data.X_train) > len(data.X_test) == len(data.Y_test) > 0
    assert {tree.label() for tree in data.Y_train} == {"TOP"}
    assert all(tree.leaves() == x for x, tree in zip(data.X_test, data.Y_test, strict=True))
    assert data.scores(data.Y_test) == {"test_error": 0.0, "bracket_f1": 1.0}
    assert max(map(len, datasets.treebank(max_words=5, small=True).X_train)) <= 5


def test_trees_are_read_from_the_data_folder(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "treebank"
    folder.mkdir()
    tree = "( (S (NP-SBJ (-NONE- *)) (VP (VB {}))))\n"
    with gzip.open(folder / "treebank.mrg.gz", "wt") as file:
        file.write(tree.format("go") + tree.format("run") + tree.format("stop"))
    (folder / "files.tsv").write_text(
        "file\ttrees_mrg\tsentences_dep\nwsj_0150\t2\t2\nwsj_0151\t1\t1\n"
    )
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    data = datasets.load("treebank")
    assert [str(y) for y in data.Y_train] == [
        "(TOP (S (VP (VB go))))",
        "(TOP (S (VP (VB run))))",
    ]
    assert data.X_test == [["stop"]] and data.width == 0


def test_unit_inputs_have_norm_one() -> None:
    data = datasets.ocr_letters(inputs="unit", small=True)
    norms = np.linalg.norm(np.vstack(data.X_train), axis=1)
    np.testing.assert_allclose(norms, 1.0)
    with pytest.raises(ValueError, match="inputs='half' is not one of"):
        datasets.usps(inputs="half", small=True)


def test_text_features_are_sorted_binary_rows() -> None:
    plain, rich = (datasets.conll2000(rich=rich, small=True) for rich in (False, True))
    assert rich.width > plain.width
    for matrix in plain.X_train:
        assert matrix.has_sorted_indices
        assert np.all(matrix.data == 1)
        assert np.all(np.diff(matrix.indptr) == 11)
    assert plain.X_test[0].shape[1] == plain.width


def test_attributes_unknown_to_training_are_dropped() -> None:
    vocabulary = text_features.Vocabulary()
    vocabulary.encode([[["b", "a"]]], np.float32, grow=True)
    (matrix,) = vocabulary.encode([[["a", "new"], ["new"]]], np.float32, grow=False)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 1], [0, 0]])


def test_window_of_a_single_token() -> None:
    (attributes,) = text_features.window_attributes((["Go"], ["VB"]))
    pad = text_features.PADDING
    assert attributes[:3] == [f"w-2={pad}", f"w-1={pad}", "w0=Go"]
    assert attributes[-1] == "bias"


def test_missing_data_names_file_and_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.setattr(datasets, "CHECKOUT_DATA", tmp_path / "data")
    with pytest.raises(FileNotFoundError, match=r"ocr_letters\.npz.*MAXMARGIN_DATA"):
        datasets.ocr_letters()
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"zip\.train\.gz is missing; MAXMARGIN_DATA"):
        datasets.usps()
    with pytest.raises(ValueError, match="'mnist' is not one of"):
        datasets.load("mnist")


def test_data_are_found_in_the_checkout(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.setattr(datasets, "CHECKOUT_DATA", tmp_path / "data")
    assert datasets.missing_files(["usps/zip.train.gz"]) == ["usps/zip.train.gz"]
    file = tmp_path / "data/usps/zip.train.gz"
    file.parent.mkdir(parents=True)
    file.touch()
    assert datasets.missing_files(["usps/zip.train.gz", "usps/zip.test.gz"]) == ["usps/zip.test.gz"]
    assert datasets.data_file("usps", "zip.train.gz") == file
