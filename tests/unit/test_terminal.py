"""Untrusted text: no terminal obeys it, and messages truncate it."""

import ast
import io
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.cli import main
from maxmargin.cli.screen import LiveLine, Screen
from maxmargin.data import ShardError
from maxmargin.data.from_file import FileError
from maxmargin.data.read_file import read_file
from maxmargin.data.text import MOST_SMALL
from maxmargin.data.trees import TreeError
from maxmargin.io.fields import FieldError
from maxmargin.io.quoting import MOST_QUOTED, MOST_SAID, on_one_line, printable, short, shortened

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs pseudo terminals and POSIX shells")
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e\x7f\r"
EVIL = f"A{STEERING}"
RAW = [c.encode() for c in "\x1b\x07\x9b\u202e\x7f"]
PACKAGE = Path(mm.__file__).parent


def test_what_steers_a_terminal_is_escaped_and_nothing_else():
    for code in [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x2028, 0x202E, 0x2066, 0xD800, 0xDFFF]:
        kept = chr(code) in "\t\n"
        assert printable(f"a{chr(code)}b") == (
            f"a{chr(code)}b" if kept else f"a{ascii(chr(code))[1:-1]}b"
        )
    for text in ("plain", "é ß 語 العربية", "👩‍👩‍👧", "a\\b", "\u00a0"):
        assert printable(text) == on_one_line(text) == text
    assert on_one_line("a\n\tb") == "a\\n\\tb"
    assert printable(printable(STEERING)) == printable(STEERING)


def test_quotes_are_short_and_say_how_long_the_text_is():
    assert short("a\x1b") == r"'a\x1b'" and short(None) == "None" and short([1, 2]) == "[1, 2]"
    for value in (
        "x" * 10**6,
        b"x" * 10**6,
        ["x"] * 10**6,
        {"x": "y" * 10**6},
        np.arange(10**4),
        10**999,
    ):
        assert len(short(value)) <= MOST_QUOTED + 30
    assert short("x" * 1000).endswith("... (1000 characters)") and "(500 items)" in short([1] * 500)
    assert shortened("x") == "x" and len(shortened("x" * 10**6)) < MOST_SAID + 50
    assert shortened("begin" + "x" * 10**6 + "end").startswith("begin")


@pytest.mark.parametrize("kind", [FileError, ShardError, TreeError, FieldError, mm.ModelFileError])
def test_errors_about_files_are_printable_and_bounded(kind):
    error = kind(f"{STEERING}: {'x' * 10**6}")
    assert printable(str(error)) == str(error) and len(str(error)) < MOST_SAID + 100
    assert str(pickle.loads(pickle.dumps(error))) == str(error) and isinstance(error, ValueError)


ROOMS = ("cli", "data", "io", "metrics", "models", "checkpoint.py", "persistence.py")


def test_messages_of_rooms_that_see_files_quote_with_the_helper():
    """``{value!r}`` in an error has no length limit, ``short`` has one."""
    for room in ROOMS:
        path = PACKAGE / room
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            raised = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Raise)]
            for part in (part for node in raised for part in ast.walk(node)):
                quoted = isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                assert not quoted, f"{file.name}, line {part.lineno}: use io.quoting.short"


# Terminals.

COMMANDS = """
import sys
from maxmargin.cli import main
for line in sys.argv[1:]:
    print("status", main(line.split("|")), flush=True)
"""


def on_a_terminal(folder, *lines):
    """Return the bytes that commands write to a pseudo terminal."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, *lines],
        cwd=folder,
        stdout=slave,
        stderr=slave,
        stdin=slave,
    )
    os.close(slave)
    said = b""
    while True:
        try:
            block = os.read(master, 2**16)
        except OSError:  # on Linux this marks the end
            break
        if not block:
            break
        said += block
    os.close(master)
    process.wait()
    return said


@POSIX
def test_nothing_in_a_file_steers_a_terminal(tmp_path):
    lines = f"{EVIL}\tx{STEERING}\nB\ty\n\n".replace("\r", "")
    (tmp_path / "t").write_text(lines * 4)
    (tmp_path / "t.csv").write_text(f"x,{STEERING[:-1]}\n1,{EVIL[:-1]}\n2,b\n3,b\n4,{EVIL[:-1]}\n")
    commands = [
        "train|t|m|--format|crfsuite",
        "inspect|m",
        "evaluate|m|t",
        "check|t|--format|crfsuite|--test|t",
        "predict|m|t",
        "predict|m|t|--append",
        "convert|t|-|--format|crfsuite|--to|crfsuite",
        "train|t.csv|m2",
        "inspect|m2",
        "predict|m2|t.csv",
        "evaluate|m2|t.csv|--json",
        "bench|t.csv|--solvers|proximal",
        "path|t.csv|--dev|t.csv|--Cs|2",
        f"inspect|none{STEERING}",
        f"train|t|m|--solver|{STEERING}",
        f"check|t.csv|--label|{STEERING}",
        f"train|{STEERING}|{STEERING}",
    ]
    said = on_a_terminal(tmp_path, *commands)
    for raw in RAW:
        assert raw not in said
    assert said.count(b"status 0") == 13 and said.count(b"status 1") == 4, said.decode()
    assert said.count(b"\\x1b]0;title\\x07") > 20 and b"Traceback" not in said
    # The progress line still rewrites itself, but untrusted text cannot.
    assert b"\rpass" in said.replace(b"\r\n", b"\n") and b"\\x7f\r" not in said.replace(
        b"\r\n", b"\n"
    )


def test_data_stay_what_they_are_in_a_pipe(tmp_path, capfdbinary):
    (tmp_path / "t").write_text("A\x1b[31m\tx\nB\ty\x9b\n\n" * 4)
    model = str(tmp_path / "m")
    assert main(["train", str(tmp_path / "t"), model, "--format", "crfsuite"]) == 0
    capfdbinary.readouterr()
    assert main(["predict", model, str(tmp_path / "t")]) == 0
    assert capfdbinary.readouterr().out.startswith(b"A\x1b[31m\nB\n\n")
    assert (
        main(["convert", str(tmp_path / "t"), "-", "--format", "crfsuite", "--to", "crfsuite"]) == 0
    )
    assert capfdbinary.readouterr().out == (tmp_path / "t").read_bytes()
    for words in (["inspect", model], ["evaluate", model, str(tmp_path / "t")]):
        assert main(words) == 0  # reports are for people, who may read a pipe
        assert b"\x1b" not in capfdbinary.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_screen_escapes_text_lines_and_bytes():
    out = Terminal()
    screen = Screen(out)
    screen.writelines(["a\x1b", "b\n"])
    shown = screen.buffer
    for byte in "é\x9b".encode() + b"\xff":  # byte by byte
        shown.write(bytes([byte]))
    shown.flush()
    assert out.getvalue() == "a\\x1bb\né\\x9b\\xff"
    live = Terminal()
    LiveLine(live).write("\rpass\r1")
    assert live.getvalue() == "\rpass\\r1"
    closed = Screen(None)
    assert closed.write("a") == 1 and not closed.isatty() and closed.flush() is None


# Long input.


LONG = {
    "svmlight": b"A" * 10**6,
    "svmhmm": b"1 qid:1 " + b"A" * 10**6,
    "crfsuite": b"N\ta:" + b"A" * 10**6,
    "conll": b"a b\n" + b"a " * 10**6,
    "csv": b"a,b\n1," + b"A" * 10**6,
    "tsv": b"a\ta\n".replace(b"a", b"A" * 10**6),
    "brackets": b"(S " + b"A" * 10**6,
    "conllu": b"1\t" + b"A" * 10**6,
    "npz": b"A" * 10**6,
}


@pytest.mark.parametrize("name", LONG)
def test_messages_do_not_grow_with_their_cause(name, tmp_path, capsys):
    (tmp_path / "t").write_bytes(LONG[name])
    with pytest.raises(ValueError) as caught:
        read_file(str(tmp_path / "t"), format=name, label="z" * 10**6 if name == "csv" else "")
    assert len(str(caught.value)) < MOST_SAID + 100 and str(tmp_path / "t") in str(caught.value)
    assert main(["train", str(tmp_path / "t"), str(tmp_path / "m"), "--format", name]) == 1
    said = capsys.readouterr().err
    assert len(said) < MOST_SAID + 200 and said.count("\n") == 1


def test_a_wrong_command_line_is_told_shortly(capsys):
    for words in (["train", "a", "b", "x" * 10**5], ["train", "a", "b", "--tol", "x\x1b" * 10**5]):
        with pytest.raises(SystemExit) as wrong:
            main(words)
        said = capsys.readouterr().err
        assert wrong.value.code == 2 and len(said) < MOST_SAID + 3000 and "\x1b" not in said


def test_arrays_of_objects_are_refused_without_dangerous_advice(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[{}], [1]], dtype=object), y=np.arange(2))
    (tmp_path / "u.npz").write_bytes(pickle.dumps({"X": 1}))
    for name in ("t.npz", "u.npz"):
        with pytest.raises(FileError, match="Python objects, which are not read") as caught:
            read_file(str(tmp_path / name))
        assert "pickle" not in str(caught.value)


@POSIX
def test_small_files_that_never_end(tmp_path, capsys):
    (tmp_path / "t.conll").write_text("a B\n\n" * 4)
    (tmp_path / "large").write_text("U00:%x[0,0]\n" * (MOST_SMALL // 12 + 1))
    train = ["train", str(tmp_path / "t.conll"), str(tmp_path / "m"), "--templates"]
    tracemalloc.start()
    for path in ("/dev/zero", str(tmp_path / "large")):
        assert main([*train, path]) == 1
        assert f"more than {MOST_SMALL} bytes" in capsys.readouterr().err
    assert tracemalloc.get_traced_memory()[1] < 100 * MOST_SMALL
    tracemalloc.stop()
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "manifest.json").symlink_to("/dev/zero")
    with pytest.raises(ShardError, match="is not a regular file"):
        mm.data.open_shards(tmp_path / "shards")


# Closed streams.

CLOSED = {
    "predict {m} {t} >&-": (1, "maxmargin: error: standard output is closed\n"),
    "predict {m} - <&-": (1, "maxmargin: error: standard input is closed; name a file\n"),
    "predict {m} none 2>&-": (1, ""),
}


@POSIX
def test_closed_streams_are_told_in_one_line(tmp_path):
    (tmp_path / "t").write_text("A\tx\nB\ty\n\n" * 4)
    names = {"m": tmp_path / "m", "t": tmp_path / "t"}
    assert main(["train", str(names["t"]), str(names["m"]), "--format", "crfsuite", "--quiet"]) == 0
    for line, (status, said) in CLOSED.items():
        command = f"{sys.executable} -m maxmargin {line.format(**names)}"
        found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (status, said)
