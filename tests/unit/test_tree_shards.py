"""Treebanks in shards read back unchanged, and a grammar can be fitted on them as on lists."""

import json

import numpy as np
import pytest

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models
from maxmargin.data import ShardError
from maxmargin.data.synthetic import random_treebank
from maxmargin.data.trees import ParseTree, TreeError, read_trees, write_trees


@pytest.fixture
def bank():
    return random_treebank(40, random_state=0)


@pytest.fixture
def written(bank, tmp_path):
    mm.data.write_shards(tmp_path, *bank, shard_bytes=900)
    return tmp_path


def test_sentences_and_trees_come_back(bank, written):
    X, Y = bank
    data = mm.data.open_shards(written)
    assert len(data.manifest.shards) > 2 and len(data) == len(data.X) == len(data.Y) == 40
    assert list(data.X) == [list(x) for x in X] and list(data.Y) == list(Y)
    assert data.X[-1] == list(X[-1]) and data.Y[np.int64(3)] == Y[3]
    assert data.X[2:5] == [list(x) for x in X[2:5]] and data.Y[[7, 1]] == [Y[7], Y[1]]
    assert data.classes is None and "40 examples" in repr(data) and data.n_bytes > 0
    with pytest.raises(IndexError):
        data.X[40]


def test_every_form_of_a_sentence_and_a_tree(tmp_path):
    text = "(S (NP (NN café)) (VP (VB sleeps)))"
    tree = ParseTree.fromstring(text)
    forms = [
        ("café sleeps", text),
        (["café", "sleeps"], tree),
        (None, text),
        (np.array(["café", "sleeps"]), tree),
    ]
    with mm.data.ShardWriter(tmp_path, kind="trees") as writer:
        for sentence, drawn in forms:
            writer.add(sentence, drawn)
    data = mm.data.open_shards(tmp_path)
    assert list(data.X) == [["café", "sleeps"]] * 4 and set(data.Y) == {tree}
    mm.data.write_shards(tmp_path / "bare", iter(["a b", "c"]), kind="trees")
    bare = mm.data.open_shards(tmp_path / "bare")
    assert list(bare.X) == [["a", "b"], ["c"]] and bare.Y is None


@pytest.mark.parametrize("solver", ["auto", "streaming", "one-slack", "dual-coordinate"])
def test_a_grammar_is_fitted_on_shards_as_on_lists(bank, written, solver):
    X, Y = bank
    data = mm.data.open_shards(written)
    settings = {"C": 0.1, "tol": 1e-2, "random_state": 0, "solver": solver}
    left = quietly(lambda: mm.StructuralSVM(models.Grammar(rare=0), **settings).fit(X, Y))
    right = quietly(
        lambda: mm.StructuralSVM(models.Grammar(rare=0), **settings).fit(data.X, data.Y)
    )
    np.testing.assert_array_equal(left.coef_, right.coef_)
    assert list(left.predict(X)) == list(right.predict(data.X))
    assert right.score(data.X, data.Y) == left.score(X, Y)
    again = mm.certify(right, data.X, data.Y)
    assert again.gap == pytest.approx(right.certificate_.gap, abs=1e-9)
    chunked = quietly(
        lambda: mm.StructuralSVM(models.Grammar(rare=0), C=0.1, tol=1e-2).partial_fit(
            data.X, data.Y
        )
    )
    assert chunked.certificate_.dual <= left.certificate_.primal + 1e-9


def test_files_in_penn_brackets_become_shards(tmp_path):
    first, second = tmp_path / "a.mrg", tmp_path / "b.mrg"
    first.write_text(
        "# a comment\n( (S (NP-SBJ (DT the)\n   (NN dog))\n (VP (VBZ barks) (NP (-NONE- *T*)))))\n"
        "(S (NP (PRP it)) (VP (VBZ runs)))  (S (NN no))\n"
    )
    second.write_text("\n(NP (-NONE- *))\n(S (NP (NP (NN rain))))\n")
    mm.data.trees_to_shards([first, second], tmp_path / "clean")
    data = mm.data.open_shards(tmp_path / "clean")
    assert [str(tree) for tree in data.Y] == [
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "(S (NP (PRP it)) (VP (VBZ runs)))",
        "(S (NN no))",
        "(S (NP (NN rain)))",
    ]
    assert data.X[0] == ["the", "dog", "barks"]
    mm.data.trees_to_shards(second, tmp_path / "raw", cleaned=False)
    assert list(mm.data.open_shards(tmp_path / "raw").Y) == read_trees(second.read_text())
    second.write_text("(S (NN a))\n\n(S (NN b)\n")
    with pytest.raises(TreeError, match=r"b\.mrg, line [3-9].*closing"):
        mm.data.trees_to_shards(second, tmp_path / "broken")
    with refusal("manifest.json", "missing"):
        mm.data.open_shards(tmp_path / "broken")


def test_what_brackets_cannot_hold_is_refused(tmp_path):
    def add(sentence, tree):
        with mm.data.ShardWriter(tmp_path, kind="trees", overwrite=True) as writer:
            writer.add("fine", "(S (NN fine))")
            writer.add(sentence, tree)

    for sentence, tree, *patterns in (
        ("a b", "(S (NN a))", "leaves", "sentence"),
        ("a", "(S (NN a)", "example 1", "closing"),
        (["("], ParseTree("S", [ParseTree("NN", ["("])]), "bracket"),
        (["a b"], ParseTree("S", [ParseTree("NN", ["a b"])]), "brackets"),
        ([], "(S (NN a))", "empty"),
        (["a\nb"], "(S (NN a))", "line feed"),
        (None, None, "Y must be given"),
    ):
        with refusal(*patterns):
            add(sentence, tree)
        assert not list(tmp_path.iterdir()), "nothing half stays"
    with refusal("dtype"):
        mm.data.ShardWriter(tmp_path, kind="trees", dtype=np.float32)
    with refusal("kind", "iterator"):
        mm.data.write_shards(tmp_path, iter([]))


@pytest.mark.parametrize("part", ["data", "offsets", "trees", "starts"])
def test_damaged_files_are_named(written, part):
    path = written / f"shard-00001.{part}"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with refusal(path.name, "bytes"):
        mm.data.open_shards(written)
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with refusal(path.name, "checksum"):
        mm.data.open_shards(written)
    path.unlink()
    with refusal(path.name, "missing"):
        mm.data.open_shards(written)


@pytest.mark.parametrize("part", ["offsets", "starts"])
def test_offsets_that_do_not_fit_are_refused_without_checksums(written, part):
    path = written / f"shard-00000.{part}"
    offsets = np.fromfile(path, dtype="<i8")
    for place, value in ((0, 1), (1, offsets[-1] + 5), (1, -3), (-1, 1)):
        changed = offsets.copy()
        changed[place] = value
        changed.tofile(path)
        with refusal(path.name, "offsets"):
            mm.data.open_shards(written, verify=False)


def test_text_that_is_no_tree_is_told_with_its_file(written):
    path = written / "shard-00000.trees"
    content = bytearray(path.read_bytes())
    content[0] = ord("x")
    path.write_bytes(bytes(content))
    data = mm.data.open_shards(written, verify=False)
    with pytest.raises(ShardError, match=r"shard-00000\.trees: example 0"):
        data.Y[0]
    path = written / "shard-00000.data"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with pytest.raises(ShardError, match=r"shard-00000\.data: example 0"):
        mm.data.open_shards(written, verify=False).X[0]


@pytest.mark.parametrize(
    "changes, patterns",
    [
        ({"layout": "dense"}, ["layout", "text"]),
        ({"dtype": "<f8"}, ["dtype", r"\|u1"]),
        ({"kind": "sequences"}, ["layout|dtype|files"]),
    ],
)
def test_changed_types_are_refused(written, changes, patterns):
    path = written / "manifest.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    with refusal(*patterns):
        mm.data.open_shards(written)


def test_shards_without_trees_beside_shards_with_them_are_refused(written):
    path = written / "manifest.json"
    content = json.loads(path.read_text())
    shard = content["shards"][0]
    shard["entries"] = 0
    del shard["files"]["trees"], shard["files"]["starts"]
    path.write_text(json.dumps(content))
    with refusal("some shards have trees"):
        mm.data.open_shards(written)


def test_what_was_written_can_be_written_again(bank, written, tmp_path):
    data = mm.data.open_shards(written)
    mm.data.write_shards(tmp_path / "again", data.X, data.Y)
    assert write_trees(mm.data.open_shards(tmp_path / "again").Y) == write_trees(bank[1])
