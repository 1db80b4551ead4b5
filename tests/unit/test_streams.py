"""Files read in batches give the same data, output, predictions and scores as whole files."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin import models
from maxmargin.cli import main
from maxmargin.cli import train as cli_train
from maxmargin.data import text
from maxmargin.data.from_file import FileError, Reading, joined_batches
from maxmargin.data.read_file import Source, read_file, reading_of
from maxmargin.data.write_file import WRITERS, write_file
from maxmargin.solvers import Streaming

WORD = st.sampled_from(["the", "dog", "Cat", "12", "é", "B-NP", "O", "I-NP"])
NUMBER = st.sampled_from(["1", "2", "-1", "3.5", "0", "1e2"])
PAIRS = st.dictionaries(st.integers(1, 9), NUMBER, max_size=3).map(
    lambda own: "".join(f" {j}:{own[j]}" for j in sorted(own))
)
BLOCKS = {
    "svmlight": st.builds(str.__add__, NUMBER | st.just("1,2"), PAIRS).map("{}\n".format),
    "svmhmm": st.tuples(st.integers(1, 9), st.lists(st.tuples(NUMBER, PAIRS), min_size=1)).map(
        lambda g: "".join(f"{label} qid:{g[0]}{pairs}\n" for label, pairs in g[1])
    ),
    "crfsuite": st.lists(st.lists(WORD, min_size=1, max_size=3).map("\t".join), min_size=1).map(
        lambda lines: "".join(f"{line}\n" for line in lines) + "\n"
    ),
    "conll": st.lists(st.lists(WORD, min_size=3, max_size=3).map(" ".join), min_size=1).map(
        lambda lines: "".join(f"{line}\n" for line in lines) + "\n"
    ),
    "conllu": st.lists(WORD, min_size=1, max_size=4).map(
        lambda words: "".join(f"{t}\t{w}\t_\tN" + "\t_" * 6 + "\n" for t, w in enumerate(words, 1)) + "\n"
    ),
    "brackets": st.sampled_from(
        ["(S (N a)\n (V (V b)))\n", "((S (N c)))", "# note (\n", "(S (N #) (V %)) ; (\n", "\n"]
    ),
    "csv": st.lists(NUMBER | WORD, min_size=3, max_size=3).map(lambda row: ",".join(row) + "\n"),
    "tsv": st.lists(NUMBER | WORD, min_size=2, max_size=2).map(lambda row: "\t".join(row) + "\n"),
}  # fmt: skip
HEADERS = {"csv": "a,b,c\n", "tsv": "a\tb\n"}


def outcome(read):
    """Return inputs and outputs in a form that can be compared, or the error message."""
    try:
        found = read()
    except ValueError as error:
        return str(error)
    X = found.X.toarray().tolist() if sp.issparse(found.X) else [
        x.toarray().tolist() if sp.issparse(x) else x for x in found.X]  # fmt: skip
    X = [x.tolist() if isinstance(x, np.ndarray) else x for x in X]
    Y = [str(y) for y in found.Y]
    return X, Y, found.tokens, found.reading


def batched(path, form, size):
    """Join all batches of a file."""
    return joined_batches(list(Source(path, reading_of(path, format=form), size)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("streams")


@pytest.mark.parametrize("form", sorted(BLOCKS))
@settings(max_examples=25)  # each example writes a dozen files
@given(data=st.data(), size=st.integers(1, 60))
def test_batches_are_the_file(form, data, size, folder):
    blocks = data.draw(st.lists(BLOCKS[form], max_size=6))
    path = str(folder / f"t.{form}")
    (folder / f"t.{form}").write_text(HEADERS.get(form, "") + "".join(blocks))
    whole = outcome(lambda: read_file(path, format=form))
    assert outcome(lambda: batched(path, form, size)) == whole
    if isinstance(whole, str):
        return
    for to in [*WRITERS]:
        if to == "parquet":
            continue
        parts = Source(path, reading_of(path, format=form), size)
        found = written(read_file(path, format=form), folder / "whole", to)
        assert written(parts, folder / "parts", to) == found


def written(examples, path, to):
    """Return the content of the written file, or the error message."""
    try:
        write_file(examples, str(path), to)
    except FileError as error:
        return str(error)
    return path.read_bytes() if to != "npz" else [a.tolist() for a in np.load(path).values()]


def test_parquet_in_batches(folder):
    pytest.importorskip("pyarrow")
    rows = "".join(f"{i},{'xyz'[i % 3]},{i % 2}\n" for i in range(50))
    (folder / "p.csv").write_text("size,colour,kind\n" + rows)
    path = str(folder / "p.csv")
    write_file(Source(path, reading_of(path), 40), str(folder / "p.parquet"), "parquet")
    found = read_file(str(folder / "p.parquet"))
    again = read_file(path)
    assert found.X == again.X and found.Y.tolist() == again.Y.tolist()
    parts = Source(str(folder / "p.parquet"), reading_of(str(folder / "p.parquet")), 200)
    assert [len(part) for part in parts] == [8] * 6 + [2]


def run(*words):
    return main([str(word) for word in words])


def corpus(n, generator, labelled=True):
    """Return sentences in three columns."""
    lines = []
    for _ in range(n):
        for _ in range(int(generator.integers(1, 9))):
            k = int(generator.integers(0, 40))
            label = ("O", "B-NP", "I-NP")[k % 3]
            lines.append(f"w{k} T{k % 5} {label}\n" if labelled else f"w{k} T{k % 5}\n")
        lines.append("\n")
    return "".join(lines)


def rows(n, generator):
    """Return svmlight rows of four classes."""
    return "".join(
        f"{k % 4} {k % 4 + 1}:1 {10 + int(generator.integers(0, 50))}:0.5\n"
        for k in generator.integers(0, 99, n).tolist()
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with files of two tasks and a model for each."""
    folder, generator = tmp_path_factory.mktemp("trained"), np.random.default_rng(0)
    (folder / "t.conll").write_text(corpus(200, generator))
    (folder / "t.svmlight").write_text(rows(300, generator))
    for name in ("t.conll", "t.svmlight"):
        assert run("train", folder / name, folder / f"{name}.model", "--quiet") == 0
    return folder


@pytest.mark.parametrize("name", ["t.conll", "t.svmlight"])
@pytest.mark.parametrize("command", ["predict", "evaluate", "certify", "check"])
def test_commands_say_the_same_in_small_batches(name, command, trained, capsys, monkeypatch):
    words = [command, trained / name] if command == "check" else [
        command, trained / f"{name}.model", trained / name]  # fmt: skip
    monkeypatch.setattr("maxmargin.data.read_file.Source.__init__.__defaults__", (1e12,))
    assert run(*words) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr("maxmargin.data.read_file.Source.__init__.__defaults__", (100,))
    assert run(*words) == 0
    parts = capsys.readouterr().out
    if command == "certify":  # floats are summed in another order
        assert [line.split()[-1][:12] for line in parts.splitlines()] == [
            line.split()[-1][:12] for line in whole.splitlines()
        ]
    else:
        assert parts == whole


def test_outputs_come_while_inputs_are_written(trained):
    """The first predictions come through a pipe before the input has ended."""
    command = [sys.executable, "-m", "maxmargin", "predict", trained / "t.conll.model", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(corpus(3_500, np.random.default_rng(1)).encode())
        process.stdin.flush()
        assert process.stdout.readline().strip() in (b"O", b"B-NP", b"I-NP")
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("form", "to"), [("svmlight", "csv"), ("csv", "svmlight"), ("conll", "svmhmm")]
)
def test_standard_input_that_is_read_twice(form, to, tmp_path):
    source = {"svmlight": b"1 1:2\n1.5 2:1\n", "csv": b"a,b\nx,1\ny,2\n", "conll": b"a B\n\nb O\n"}[
        form
    ]
    (tmp_path / f"t.{form}").write_bytes(source)
    command = [sys.executable, "-m", "maxmargin", "convert", "--to", to]
    found = subprocess.run(
        [*command, "--format", form, "-", "-"], input=source, capture_output=True, check=True
    )
    named = subprocess.run([*command, tmp_path / f"t.{form}", "-"], capture_output=True, check=True)
    assert found.stdout == named.stdout and found.stdout


def test_standard_input_is_guessed_and_unpacked(tmp_path, monkeypatch):
    content = b"the DT B-NP\ndog NN I-NP\n\n"
    for put in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": io.BytesIO(put)}))
        read = read_file("-", format="conll")
        assert read.Y == [["B-NP", "I-NP"]]
    monkeypatch.setattr(
        sys, "stdin", type("In", (), {"buffer": io.BufferedReader(io.BytesIO(content))})
    )
    assert reading_of("-").format == "conll"
    monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": io.BytesIO(content)}))
    kept = text.KeptInput()
    assert read_file(kept).Y == read_file(kept).Y and str(kept) == "-"


# Training with data on disk.


@pytest.mark.parametrize("name", ["t.conll", "t.svmlight", "t.csv"])
def test_training_with_little_memory(name, trained, tmp_path, capsys):
    """The optimum is the same, and the model equals that of Python on shards bit for bit."""
    if name == "t.csv":
        assert run("convert", trained / "t.svmlight", trained / name) == 0
    command = ["train", trained / name, tmp_path / "m", "--quiet", "--tol", "1e-2", "--json"]
    assert run(*command) == 0
    whole = json.loads(capsys.readouterr().out)
    assert run(*command, "--memory", "300K") == 0
    parts = json.loads(capsys.readouterr().out)
    assert parts["solver"] == "streaming" and parts["converged"]
    assert parts["examples"] == whole["examples"]
    assert parts["dual"] <= whole["primal"] * (1 + 1e-12) and whole["dual"] <= parts["primal"]
    svm = mm.load(tmp_path / "m")
    assert run("predict", tmp_path / "m", trained / name) == 0
    assert capsys.readouterr().out
    if name != "t.conll":
        return
    assert run("convert", trained / name, tmp_path / "shards", "--to", "shards") == 0
    data = mm.data.open_shards(tmp_path / "shards")
    solver = Streaming(passes=None, cache_bytes=300 * 2**10)
    own = mm.StructuralSVM(
        models.Chain(start=True, end=True), C=0.1, tol=1e-2, solver=solver, random_state=0
    ).fit(data.X, data.Y)
    assert svm.coef_.tobytes() == own.coef_.tobytes()


def test_shards_of_little_memory_are_small(tmp_path, monkeypatch):
    """A shard is copied while it is written, so it takes at most a quarter of the memory, here 1 MiB."""
    rows = np.random.default_rng(0).standard_normal((4000, 100))
    np.savez(tmp_path / "t.npz", X=rows, y=(rows[:, 0] > 0).astype(int))
    sizes = []

    def open_and_look(*given, **options):
        data = mm.data.open_shards(*given, **options)
        sizes.extend(
            sum(file.bytes for file in shard.files.values()) for shard in data.manifest.shards
        )
        return data

    monkeypatch.setattr(cli_train, "open_shards", open_and_look)
    assert run("train", tmp_path / "t.npz", tmp_path / "m", "--quiet", "--memory", "4M") == 0
    assert len(sizes) > 2 and max(sizes) <= 1.1 * 2**20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory", "1M", "--solver", "proximal"], "--solver streaming"),
        (["--memory", "1M", "--task", "multilabel"], "have sets of labels"),
    ],
)
def test_what_memory_does_not_go_with(words, said, trained, tmp_path, capsys):
    assert run("train", trained / "t.svmlight", tmp_path / "m", *words) == 1
    assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("train", trained / "t.svmlight", tmp_path / "m", "--memory", "0")


# Missing labels.


def test_predictions_need_no_labels(trained, tmp_path, capsys):
    generator = np.random.default_rng(3)
    (tmp_path / "bare.conll").write_text(corpus(20, generator, labelled=False))
    (tmp_path / "full.conll").write_text(corpus(20, np.random.default_rng(3)))
    found = []
    for name in ("bare", "full"):
        assert run("predict", trained / "t.conll.model", tmp_path / f"{name}.conll") == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert run("evaluate", trained / "t.conll.model", tmp_path / "bare.conll") == 1
    assert "the line has 2 columns, but the training file had 3" in capsys.readouterr().err
    (tmp_path / "bare.svmlight").write_text("1:1\n2:1 11:0.5\n")
    (tmp_path / "full.svmlight").write_text("0 1:1\n0 2:1 11:0.5\n")
    for name in ("bare", "full"):
        assert run("predict", trained / "t.svmlight.model", tmp_path / f"{name}.svmlight") == 0
    bare, full = np.split(np.array(capsys.readouterr().out.split()), 2)
    assert bare.tolist() == full.tolist() == ["0", "1"]
    assert run("train", tmp_path / "bare.svmlight", tmp_path / "m") == 1
    assert "line 1: there is no label" in capsys.readouterr().err


def test_predictions_for_tables_trees_and_arrays_without_labels(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("size,kind,colour\n1,a,red\n2,b,blue\n3,a,red\n4,b,blue\n")
    (tmp_path / "new.csv").write_text("colour,size\nred,1\nblue,2\n")
    assert run("train", tmp_path / "t.csv", tmp_path / "m", "--label", "kind", "--quiet") == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m", tmp_path / "new.csv") == 0
    assert capsys.readouterr().out == "a\nb\n"
    assert run("evaluate", tmp_path / "m", tmp_path / "new.csv") == 1
    assert "no column 'kind'" in capsys.readouterr().err
    (tmp_path / "t.mrg").write_text("(S (NP (D the) (N dog)) (V barks))\n" * 3)
    (tmp_path / "new.txt").write_text("the dog barks\n\nthe dog barks\n")
    assert run("train", tmp_path / "t.mrg", tmp_path / "m", "--quiet") == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m", tmp_path / "new.txt") == 0
    assert capsys.readouterr().out == "(S (NP (D the) (N dog)) (V barks))\n" * 2
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    np.savez(tmp_path / "t.npz", X=X, y=y)
    np.savez(tmp_path / "new.npz", X=X)
    assert run("train", tmp_path / "t.npz", tmp_path / "m", "--quiet") == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m", tmp_path / "new.npz") == 0
    assert len(capsys.readouterr().out.split()) == 20


def test_labels_are_what_they_were_in_training(tmp_path, capsys):
    """Labels that were texts in training stay texts, even if all of them look like numbers in a file."""
    (tmp_path / "t.csv").write_text("size,kind\n1,1\n2,b\n1,1\n2,b\n")
    (tmp_path / "new.csv").write_text("size,kind\n1,1\n")
    assert run("train", tmp_path / "t.csv", tmp_path / "m", "--quiet", "--C", 10) == 0
    capsys.readouterr()
    assert run("evaluate", tmp_path / "m", tmp_path / "new.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


@pytest.mark.parametrize("line", ["2 qid,:1 2:1", "2 2:1", "2 2:1 qid:1"])
def test_a_position_names_its_sequence(tmp_path, line):
    path = tmp_path / "t.svmhmm"
    path.write_text(f"1 qid:1 1:1\n{line}\n1 qid:2 1:1\n")
    for size in (1, 1e6):
        with pytest.raises(FileError, match="line 2: "):
            list(Source(str(path), Reading("svmhmm", ""), size))
