"""The command line: every format and task from file to scores, and its error messages."""

import gzip
import json
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin import models
from maxmargin.cli import main
from maxmargin.data.from_file import FORMATS, FileError, Reading
from maxmargin.data.read_file import READERS, guess_format, read_file

COLUMNS = "the DT B-NP\ndog NN I-NP\nbarks VB O\n\na DT B-NP\ncat NN I-NP\nsits VB O\n" * 4
UNIVERSAL = """# text
1\tdogs\tdog\tNOUN\tNN\t_\t0\troot\t_\t_
2\tbark\tbark\tVERB\tVB\t_\t1\tx\t_\t_

"""
FILES = {
    "t.svmlight": "1 1:1 3:0.5\n2 2:1\n3 3:2\n" * 6,
    "t.libsvm": "-1 1:1\n1 2:1\n" * 6,
    "t.sets.svmlight": "1,2 1:1 2:1\n1 1:1\n2 2:1\n" * 6,
    "t.conll": COLUMNS,
    "t.conllu": UNIVERSAL * 4,
    "t.crfsuite": "N\tw=dog\tlen:3\nV\tw=barks\ta\\:b:2\n\n" * 4,
    "t.brackets": "(S (NP (D the) (N dog)) (V barks))\n(S (NP (N dogs)) (V bark))\n" * 3,
    "t.csv": "size,colour,kind\n1,red,a\n2,blue,b\n1.5,red,a\n2.5,blue,b\n" * 1,
    "t.tsv": "x\ty\n1\t1.5\n2\t2.5\n3\t3.5\n4\t4.5\n",
    "hmm": "1 qid:1 1:1\n2 qid:1 2:1\n1 qid:2 1:1\n2 qid:2 2:1\n" * 2,
}
TASKS = {
    "t.svmlight": "multiclass",
    "t.libsvm": "binary",
    "t.sets.svmlight": "multilabel",
    "t.brackets": "parsing",
    "t.csv": "binary",
    "t.tsv": "regression",
}


def run(*words):
    """Return the exit status of a command."""
    return main([str(word) for word in words])


def read_json(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", FILES)
def test_a_file_becomes_a_model_that_predicts_and_is_scored(name, tmp_path, capsys):
    (tmp_path / name).write_text(FILES[name])
    model = tmp_path / "model"
    assert run("train", tmp_path / name, model, "--json") == 0
    facts = read_json(capsys)
    assert facts["task"] == TASKS.get(name, "tagging") and np.isfinite(facts["gap"])
    assert run("predict", model, tmp_path / name) == 0
    predicted = capsys.readouterr().out
    assert len(predicted.splitlines()) >= facts["examples"]
    assert run("evaluate", model, tmp_path / name, "--json") == 0
    scores = read_json(capsys)
    assert scores["examples"] == facts["examples"] and len(scores) > 1
    assert run("evaluate", model, tmp_path / name) == 0
    for command in (["inspect", model], ["check", tmp_path / name, "--test", tmp_path / name]):
        assert run(*command) == 0
        assert run(*command, "--json") == 0
    capsys.readouterr()
    if facts["task"] != "regression":
        assert run("certify", model, tmp_path / name, "--json") == 0
        assert read_json(capsys)["same"]


@pytest.mark.parametrize("name", ["t.svmlight", "t.conll", "hmm", "t.csv", "t.sets.svmlight"])
def test_a_path_over_c(name, tmp_path, capsys):
    (tmp_path / name).write_text(FILES[name] * (3 if name != "t.csv" else 1))
    path = ["path", tmp_path / name, "--Cs", 3]
    for more in [["--dev", tmp_path / name]] + [[]] * (name != "t.csv"):
        assert run(*path, "--json", *more) == 0
        found = read_json(capsys)
        assert len(found["path"]) == 3 and found["best"] in [row["C"] for row in found["path"]]
    page = tmp_path / "page.html"
    assert run(*path, "--dev", tmp_path / name, "--report", page) == 0
    assert "Choice of C" in page.read_text() and "Scores" in page.read_text()
    assert "<- best" in capsys.readouterr().out


@pytest.mark.parametrize("tol", [1e-3, "auto"])
def test_the_model_is_that_of_python_to_the_bit(tmp_path, tol):
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert run("train", tmp_path / "t.conll", tmp_path / "m", "--C", 0.5, "--tol", tol) == 0
    svm = mm.load(tmp_path / "m")
    read = read_file(str(tmp_path / "t.conll"))
    chain = models.Chain(start=True, end=True)
    own = mm.StructuralSVM(chain, C=0.5, tol=tol, random_state=0).fit(read.X, read.Y)
    assert svm.coef_.tobytes() == own.coef_.tobytes()
    own.save(tmp_path / "own")
    assert not hasattr(mm.load(tmp_path / "own"), "reading_")


def test_a_checkpoint_goes_on_and_knows_its_file(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    command = ["train", tmp_path / "t.conll", tmp_path / "m", "--json", "--tol", 1e-5]
    kept = ["--checkpoint", tmp_path / "fit", "--resume"]
    with pytest.warns(UserWarning, match="not converged"):
        assert run(*command, *kept, "--max-seconds", 1e-6) == 0
    assert not read_json(capsys)["converged"]
    assert run(*command, *kept, "--checkpoint-every", 0.5) == 0
    assert read_json(capsys)["converged"]
    assert run(*command, *kept, "--C", 7) == 1
    assert "C was 0.1, now it is 7.0" in capsys.readouterr().err
    assert run(*command, "--resume") == 1
    assert "needs the parameter checkpoint" in capsys.readouterr().err


def test_packed_files_and_standard_input(tmp_path, capsys, monkeypatch):
    (tmp_path / "t.conll").write_text(COLUMNS)
    (tmp_path / "t.conll.gz").write_bytes(gzip.compress(COLUMNS.encode()))
    assert run("train", tmp_path / "t.conll.gz", tmp_path / "m") == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m", tmp_path / "t.conll") == 0
    plain = capsys.readouterr().out
    command = [sys.executable, "-m", "maxmargin", "predict", str(tmp_path / "m"), "-"]
    found = subprocess.run(command, input=COLUMNS, capture_output=True, text=True, check=True)
    assert found.stdout == plain
    assert run("predict", tmp_path / "m", tmp_path / "t.conll", "--append") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["the", "DT"] and len(lines[0].split()) == 4


WRONG = {
    "t.conll": ("a b c\nd e\n", "line 2: 2 columns, expected 3"),
    "t.conllu": ("1\ta\tb\n", "line 1: 3 columns, expected 10"),
    "t.svmlight": ("1 1:1\n1 x:1\n", "line 2"),
    "zero.svmlight": ("1 0:1\n", "line 1: feature 0"),
    "sets.svmlight": (
        "1 1:1\n1,2 1:1\n",
        "line 2: the line has several labels, but the task is multiclass",
    ),
    "t.crfsuite": ("N\ta:b\n", "line 1: 'b' is not a number"),
    "t.csv": ("a,b\n1\n", "line 2: 1 columns, expected 2"),
    "t.brackets": ("(S (NP\n", "line 2"),
    "t.tsv": ("x\ty\n1\t1.5\none\t2\n", "line 3: column 'x' must be a number"),
    "missing.csv": ("a,b\n1,x\n2,\n", "line 3: the label is missing"),
    "large.svmlight": ("1 1:1\n2 1:1e200\n", "line 2: a value above 1e+150"),
    "one.svmlight": ("1 1:1\n1 2:1\n", "at least 2 classes are needed"),
    "empty.conll": ("\n\n", "there are no examples"),
    "unknown": ("word\n", "cannot be guessed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_file_and_the_line(name, tmp_path, capsys):
    text, words = WRONG[name]
    (tmp_path / name).write_text(text)
    more = ["--task", "multiclass"] if name == "sets.svmlight" else []
    assert run("train", tmp_path / name, tmp_path / "m", *more) == 1
    said = capsys.readouterr().err
    assert words in said and name in said and "Traceback" not in said
    assert not (tmp_path / "m").exists()


def test_exit_codes(tmp_path, capsys):
    assert run("predict", tmp_path / "none", tmp_path / "none") == 1
    assert run() == 2
    with pytest.raises(SystemExit) as wrong:
        run("train", "--what")
    assert wrong.value.code == 2
    assert run("--version") == 0
    assert run("demo") == 0
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert (
        run("train", tmp_path / "t.conll", tmp_path / "m", "--transitions", "iob2", "--order", 2)
        == 0
    )
    (tmp_path / "t.svmlight").write_text(FILES["t.svmlight"])
    assert run("train", tmp_path / "t.svmlight", tmp_path / "m", "--order", 2) == 1
    assert "need the task tagging" in capsys.readouterr().err
    svm = mm.StructuralSVM(models.Multiclass()).fit(np.eye(2), [0, 1])
    svm.save(tmp_path / "python")
    assert run("predict", tmp_path / "python", tmp_path / "t.svmlight") == 1
    assert "has no file settings" in capsys.readouterr().err


def test_every_format_has_a_reader():
    assert set(READERS) == set(FORMATS)


def test_help_imports_nothing_of_the_library():
    code = "import sys, maxmargin.cli as c; c.parser().format_help(); print('numpy' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("name", [name for name in FILES if "." in name])
def test_formats_are_guessed_by_their_first_line(name, tmp_path):
    (tmp_path / "data").write_text(FILES[name])
    (tmp_path / name).write_text(FILES[name])
    expected = guess_format(str(tmp_path / name))
    if expected in ("csv", "tsv"):
        return
    assert guess_format(str(tmp_path / "data")) == expected


@pytest.mark.parametrize("name", sorted(set(READERS) - {"shards", "npz", "parquet"}))
@settings(max_examples=150)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name, data, tmp_path_factory):
    text = next((t for file, t in FILES.items() if file.endswith(name)), FILES["hmm"]).encode()
    parts = st.sampled_from(
        [b"\n", b"\t", b" ", b":", b"1", b"(", b")", b"qid:", b"\\", b"#", b"\xff"]
    )
    cut = data.draw(st.integers(0, len(text)))
    middle = b"".join(data.draw(st.lists(parts | st.binary(max_size=4), max_size=8)))
    path = tmp_path_factory.getbasetemp() / f"fuzzed.{name}"
    path.write_bytes(text[:cut] + middle + text[cut:])
    try:
        found = read_file(str(path), Reading(name, ""))
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert len(found.X) if isinstance(found.X, list) else found.X.shape[0] == len(found.Y)


def test_arrays_and_shards(tmp_path, capsys):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(20, 3)), np.arange(20) % 2
    np.savez(tmp_path / "t.npz", X=X, y=y)
    mm.data.write_shards(tmp_path / "shards", X, y)
    for data in ("t.npz", "shards"):
        assert run("train", tmp_path / data, tmp_path / "m", "--json") == 0
        assert read_json(capsys)["examples"] == 20
        assert run("evaluate", tmp_path / "m", tmp_path / data, "--json") == 0
        assert read_json(capsys)["accuracy"] > 0.5
    np.savez(tmp_path / "bad.npz", Z=X)
    with pytest.raises(FileError, match=r"bad\.npz: expected arrays X and y"):
        read_file(str(tmp_path / "bad.npz"))
    # NumPy raises many kinds of errors; a bracket in a header's padding fails in Python's tokenizer.
    np.save(tmp_path / "X.npy", X)
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("X.npy", (tmp_path / "X.npy").read_bytes().replace(b"), }   ", b"), }  ("))
        archive.write(tmp_path / "X.npy", "y.npy")
    with pytest.raises(FileError, match=r"bad\.npz: .*EOF"):
        read_file(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize("name", ["t.svmlight", "t.libsvm", "t.tsv", "t.csv", "t.conll"])
def test_solvers_side_by_side(name, tmp_path, capsys):
    (tmp_path / name).write_text(FILES[name])
    command = ["bench", tmp_path / name, "--C", 0.5]
    assert run(*command, "--json") == 0
    found = read_json(capsys)
    rows = {row["solver"]: row for row in found["rows"]}
    assert ("LIBLINEAR" in rows) == (name != "t.conll") == ("gdmm" not in rows)
    best = min(row["objective"] for row in rows.values())
    for row in rows.values():
        # No objective is below a proven bound, and the excess over the best is within the gap.
        assert row["objective"] >= best and row["above"] >= 0
        assert row["above"] <= row["gap"] + 1e-9 or np.isnan(row["gap"])
    assert rows["proximal"]["gap"] <= 1e-3
    if name != "t.conll":
        assert rows["LIBLINEAR"]["objective"] == pytest.approx(best, rel=0.05)
    assert run(*command, "--solvers", "proximal", "sda") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["proximal", "sda"]
    if name != "t.conll":
        assert run(*command, "--solvers", "gdmm") == 1
        assert "gdmm" in capsys.readouterr().err


def test_check_says_what_will_be_slow(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert run("check", tmp_path / "t.conll", "--json") == 0
    facts = read_json(capsys)
    assert facts["steps of a pass"].startswith("216 ") and "slow" not in facts
    many = "".join(f"w{i} T{i % 1700}\n" for i in range(1700))
    (tmp_path / "many.conll").write_text(many)
    assert run("check", tmp_path / "many.conll", "--json") == 0
    assert "one pass takes long" in read_json(capsys)["slow"]
    (tmp_path / "t.brackets").write_text(FILES["t.brackets"])
    assert run("check", tmp_path / "t.brackets") == 0
    assert "105 (words^3" in capsys.readouterr().out


def test_a_page_of_a_test_file_wherever_the_options_stand(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    model, data, page = tmp_path / "m", tmp_path / "t.conll", tmp_path / "page.html"
    assert run("train", data, model, "--quiet") == 0
    for words in ([model, data, "--output", page], [model, "--output", page, data],
                  ["--output", page, model, data], [model, "--output", page, "--top", 3, data]):  # fmt: skip
        page.unlink(missing_ok=True)
        assert run("report", *words) == 0
        assert "Scores" in page.read_text()
    for words in ([model, data, "--output", page, data], [model, "--what", page, data]):
        with pytest.raises(SystemExit) as wrong:
            run("report", *words)
        assert wrong.value.code == 2 and "unrecognized arguments" in capsys.readouterr().err


def test_what_cannot_be_written_is_said_before_the_work(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    missing = tmp_path / "none" / "m"
    for words in (
        ["train", tmp_path / "not_read", missing],
        ["train", tmp_path / "not_read", tmp_path],
    ):
        assert run(*words) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"maxmargin: error: {words[2]}: ") and "[Errno" not in said
    assert run("convert", tmp_path / "t.conll", missing, "--to", "crfsuite") == 1
    assert f"{missing}: No such file or directory" in capsys.readouterr().err
    assert run("train", tmp_path / "not_read", tmp_path / "m") == 1
    assert "not_read: No such file or directory" in capsys.readouterr().err


def test_columns_of_numbers_are_known_by_their_names(tmp_path, capsys):
    rows = [(i, i % 3, 2 * i + 0.5) for i in range(20)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    (tmp_path / "p.csv").write_text("b,y,a\n" + "".join(f"{b},{y},{a}\n" for a, b, y in rows))
    (tmp_path / "less.csv").write_text("b,y\n1,1.5\n")
    assert run("train", tmp_path / "t.csv", tmp_path / "m", "--quiet") == 0
    capsys.readouterr()
    found = []
    for name in ("t.csv", "p.csv"):
        assert run("evaluate", tmp_path / "m", tmp_path / name, "--json") == 0
        found.append(read_json(capsys))
    assert found[0] == found[1]
    assert run("predict", tmp_path / "m", tmp_path / "less.csv") == 1
    assert "line 2: column 'a' must be a number" in capsys.readouterr().err
    (tmp_path / "wide.svmlight").write_text("1 2147483646:1\n2 2:1\n")
    assert run("train", tmp_path / "wide.svmlight", tmp_path / "m") == 1
    assert "GiB of memory of this machine" in capsys.readouterr().err


def test_a_pipe_that_is_closed_and_ctrl_c(tmp_path):
    (tmp_path / "t.conll").write_text(COLUMNS)
    assert run("train", tmp_path / "t.conll", tmp_path / "m", "--quiet") == 0
    (tmp_path / "long.conll").write_text((COLUMNS + "\n") * 900)
    python = f"{sys.executable} -m maxmargin"
    for command in (f"predict {tmp_path / 'm'} {tmp_path / 'long.conll'}",
                    f"convert {tmp_path / 'long.conll'} - --to crfsuite"):  # fmt: skip
        line = f"{python} {command} | head -n 1; exit ${{PIPESTATUS[0]}}"
        found = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert found.returncode == 0 and found.stderr == "" and len(found.stdout.splitlines()) == 1
    command = [
        sys.executable,
        "-m",
        "maxmargin",
        "train",
        "-",
        tmp_path / "new",
        "--format",
        "conll",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # the command reads, since the pipe accepted everything
        process.stdin.write(COLUMNS.encode() * 500)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 130 and said == "maxmargin: interrupted\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.conll", "m", "t.conll"]
