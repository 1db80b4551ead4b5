"""Inputs and outputs of the command line: no output replaces an input under any name."""

import argparse
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import cli
from maxmargin.checkpoint import make_checkpoint
from maxmargin.cli import main, roles
from maxmargin.cluster.driver import ClusterCheckpoint
from maxmargin.cluster.source import paths_in
from maxmargin.data.read_file import Source, read_file, reading_of
from maxmargin.data.templates import TEMPLATES
from maxmargin.data.write_file import write_file
from maxmargin.io.paths import clash, location_of

CRFSUITE = "A\tx\nB\ty\n\n" * 5
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs links of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    """Create data and a model in the current folder, and other names for both."""
    monkeypatch.chdir(tmp_path)
    for name in ("t", "u"):
        (tmp_path / name).write_text(CRFSUITE)
    assert run("train t m --format crfsuite --quiet") == 0
    capsys.readouterr()
    os.symlink("t", "link")
    os.symlink("none", "dangling")
    (tmp_path / "empty").touch()
    os.link("t", "hard")
    os.mkdir("sub")
    os.symlink("sub", "way")
    mm.data.write_shards(tmp_path / "shards", np.eye(4), [0, 1, 0, 1])
    os.symlink("shards", "other")
    return tmp_path


def run(line):
    return main(line.split())


def contents(folder):
    """Return the bytes of all files and the targets of links."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


TRAIN = "train t n --format crfsuite"
OVERWRITES = [
    "train t t",
    "train t ./t",
    "train t sub/../t",
    "train t way/../t",
    "train t link",
    "train link t",
    "train t hard",
    "train hard link",
    "train t n --checkpoint t",
    "train t n --checkpoint link",
    "train t n --checkpoint n",
    "train t n --checkpoint ./n",
    "train t sub/n --checkpoint way/n",
    "train t none --checkpoint dangling",
    "train t n --templates u --checkpoint u",
    "train t u --templates u",
    "train shards shards",
    "train shards shards/manifest.json",
    "train shards shards/new",
    "train other shards/new",
    "train shards n --checkpoint other/shard-00000.data",
    "train . n",
    "report m --output m",
    "report m t --output t",
    "report m t --output hard",
    "report m --output m t",
    "report m --output t t",
    "path t --report t",
    "path t --dev u --report u",
    "path u --dev hard --report link",
    "convert t t --format crfsuite --to crfsuite",
    "convert t hard --format crfsuite --to crfsuite",
    "convert t . --to shards",
    "convert shards shards",
    "convert shards other --to shards",
    "convert shards shards/inside --to shards",
    "convert shards shards/manifest.json --to csv",
    "train .n.abcdefgh.part n",
]


@pytest.mark.parametrize("line", OVERWRITES)
def test_an_output_that_is_an_input_is_refused(line, folder, capsys):
    (folder / ".n.abcdefgh.part").write_text(CRFSUITE)
    before = contents(folder)
    assert run(line) == 1
    said = capsys.readouterr()
    assert said.err.startswith("maxmargin: error: ") and said.err.count("\n") == 1
    assert contents(folder) == before and not said.out


def test_data_after_which_the_model_was_forgotten_stay(folder, capsys):
    before = contents(folder)
    assert run("train t u --format crfsuite") == 1
    assert "name another file" in capsys.readouterr().err
    assert contents(folder) == before


STAY = [
    "train t empty --format crfsuite",
    "train t m --format crfsuite",
    "train t link2 --format crfsuite",
    "train t words --format crfsuite --templates words",
    "train t n --format crfsuite --checkpoint c --resume",
    "train shards n",
    "path u --format crfsuite --dev t --report p --Cs 2",
    "path t --format crfsuite --dev t --Cs 2",
    "report m t --output p",
    "report m t --output dangling",
    "check t --format crfsuite --test t",
    "convert t /dev/null --format crfsuite --to crfsuite",
    "convert shards new/folder --to shards",
    "convert t sub --format crfsuite --to shards",
]


@pytest.mark.parametrize("line", STAY)
def test_what_is_in_order_stays_possible(line, folder, capsys):
    (folder / "model").write_bytes((folder / "m").read_bytes())
    os.symlink("model", "link2")
    before = contents(folder)
    assert run(line) == 0, capsys.readouterr().err
    after = contents(folder)
    written = {"m", "model", "words", "n", "c", "p", "none", "empty"}
    assert {name for name in before if before[name] != after[name]} <= {
        str(folder / name) for name in written
    }
    if "--resume" in line:  # this line may read and write the same file
        assert run(line) == 0
    assert (folder / "link2").is_symlink() and (folder / "dangling").is_symlink()


@POSIX
@pytest.mark.parametrize("redirected", ["predict m t >> t", "train - t --format crfsuite < t"])
def test_a_redirection_counts_as_a_name(redirected, folder):
    before = contents(folder)
    line = f"{sys.executable} -m maxmargin {redirected}"
    found = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert found.returncode == 1 and "the same file" in found.stderr
    assert "Traceback" not in found.stderr and contents(folder) == before


def arguments():
    """Yield all arguments of all commands that take a value."""
    commands = next(
        a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction)
    ).choices
    for name, parser in commands.items():
        for action in parser._actions:
            if action.nargs != 0:
                yield name, action


NAMES_OF_FILES = {"TRAIN", "MODEL", "INPUT", "TEST", "FILE", "PAGE", "IN", "OUT"}


def test_every_argument_says_whether_it_is_a_path():
    """An argument without a type could be a path that the overwrite check does not know."""
    for command, action in arguments():
        known = (*roles.ROLES, int, float, cli.tolerance, cli.size)
        where = f"{command} {action.dest}: give it a type of cli.roles"
        assert action.type in known or (action.type is None and action.choices), where
        paths = {*roles.ROLES} - {roles.word}
        named = isinstance(action.metavar, str) and NAMES_OF_FILES & {*action.metavar.split("|")}
        assert not named or action.type in paths, where


def test_the_names_of_templates_are_no_paths():
    assert set(roles.NAMED_TEMPLATES) == set(TEMPLATES)


def test_locations_that_are_not_there_yet(tmp_path):
    os.symlink(tmp_path, tmp_path / "way")
    one = location_of(tmp_path / "a" / "b")
    assert one.key == location_of(tmp_path / "way" / "a" / "b").key
    assert one.key != location_of(tmp_path / "a" / "c").key
    assert clash([location_of(tmp_path / "a")], [one]) and not clash(
        [location_of("/dev/null")] * 2, []
    )
    assert location_of(os.devnull).key is None
    deep = location_of("/".join(["a"] * 1500))  # deeper than Python's recursion limit
    assert clash([deep], [location_of("/".join(["a"] * 1500))])


# The same rules in the library.


def test_a_data_file_is_not_replaced_by_its_conversion(folder):
    source = Source("t", reading_of("t", format="crfsuite"))
    with refusal("path", "the same file", "link", kinds=(ValueError,)):
        write_file(source, "link", "crfsuite")
    write_file(Source("t", reading_of("t", format="crfsuite")), "copy", "crfsuite")
    assert (folder / "t").read_text() == CRFSUITE == (folder / "copy").read_text()


def test_texts_are_not_written_into_shards_beside_them(tmp_path):
    text = tmp_path / "shard-00000.data"
    convert = {
        "1 1:1\n2 2:1\n": mm.data.svmlight_to_shards,
        "a N\nb V\n": mm.data.columns_to_shards,
        "(S (N a))\n": mm.data.trees_to_shards,
    }
    for content, to_shards in convert.items():
        text.write_text(content)
        with refusal("folder", "lies in", kinds=(ValueError,)):
            to_shards(text, tmp_path)
        assert text.read_text() == content and len(list(tmp_path.iterdir())) == 1
        to_shards(text, tmp_path / "set", overwrite=True)
        text.unlink()
        for path in [*(tmp_path / "set").iterdir()]:
            path.unlink()
        (tmp_path / "set").rmdir()


def test_a_data_set_may_be_written_over_itself(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    mm.data.write_shards(tmp_path, X, y)
    data = mm.data.open_shards(tmp_path)
    mm.data.write_shards(tmp_path, data.X, data.Y, shard_bytes=40, overwrite=True)
    again = mm.data.open_shards(tmp_path)
    assert len(again.manifest.shards) > 1 and again.Y.tolist() == y.tolist()
    assert np.array_equal(np.concatenate(list(again.X.parts)), X)


def test_mapped_shards_are_not_replaced_while_they_are_in_use(tmp_path):
    mm.data.write_shards(tmp_path, np.eye(4), [0, 1, 0, 1])
    data = mm.data.open_shards(tmp_path)
    victim = next(tmp_path.glob("*.data"))
    before, svm = victim.read_bytes(), mm.MulticlassSVC().fit(data.X, data.Y)
    with refusal("mapped", str(victim), kinds=(OSError,)):
        svm.save(victim)
    with refusal("mapped", str(victim), kinds=(OSError,)):
        svm.report(victim)
    with refusal("mapped", kinds=(OSError,)):
        svm.save(tmp_path / "manifest.json")
    with refusal("checkpoint", "mapped", kinds=(ValueError,)):
        svm.fit(data.X, data.Y, checkpoint=victim)
    assert victim.read_bytes() == before
    del data, svm
    gc.collect()  # the caught exceptions referred to the arrays
    mm.MulticlassSVC().fit(np.eye(2), [0, 1]).save(victim)  # the file is no longer mapped


def test_a_checkpoint_is_none_of_the_data(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(4))
    X, before = np.load(tmp_path / "X.npy", mmap_mode="r"), (tmp_path / "X.npy").read_bytes()
    os.symlink("X.npy", tmp_path / "link")
    y = np.arange(4) % 2
    for svm in (mm.MulticlassSVC(), mm.StructuralSVM(mm.models.Multiclass())):
        with refusal("checkpoint", "the same file", kinds=(ValueError,)):
            svm.fit(X, y, checkpoint=tmp_path / "link", resume=True)
    with refusal("checkpoint", "overwritten", kinds=(ValueError,)):
        mm.StructuralSVM(mm.models.Chain()).fit(
            [X[:2], X[2:]], [y[:2], y[2:]], checkpoint=tmp_path / "X.npy"
        )
    assert (tmp_path / "X.npy").read_bytes() == before


def test_a_checkpoint_replaces_no_other_file(tmp_path):
    """The library does not know the files behind a stream, so a checkpoint only replaces a checkpoint."""
    (tmp_path / "rows").write_text("1 1:1\n2 2:1\n" * 20)
    read = read_file(str(tmp_path / "rows"), format="svmlight")
    svm = mm.StructuralSVM(mm.models.Multiclass(), solver="streaming")
    with refusal("checkpoint", "is not a checkpoint", kinds=(ValueError,)):
        svm.fit([(read.X, read.Y)], checkpoint=tmp_path / "rows")
    (tmp_path / "empty").touch()
    for _ in range(2):
        svm.fit([(read.X, read.Y)], checkpoint=tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_size > 0


def test_a_checkpoint_of_a_cluster_is_no_part_of_its_source(tmp_path):
    mm.data.write_shards(tmp_path / "set", np.eye(4), [0, 1, 0, 1])
    for source in (str(tmp_path / "set"), [tmp_path / "set", tmp_path / "other"]):
        for path in (tmp_path / "set" / "manifest.json", tmp_path / "set" / "new"):
            with refusal("checkpoint", "lies in", kinds=(ValueError,)):
                make_checkpoint(path, 300.0, False, ClusterCheckpoint, paths_in(source))
    assert not paths_in([(np.eye(2), [0, 1])]) and not paths_in(3)
