"""Random command lines whose inputs and outputs share a few names: no input may be overwritten.

    python -m fuzz.command_lines --cases 5000

The names are paths to data, a model, shards, folders and links, some of which are broken. The
fuzzer reads
the arguments from the parser, so it tries new options without a change here.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import maxmargin as mm
from fuzz.common import Find, main
from fuzz.limits import workshop
from fuzz.mutate import pick
from maxmargin import cli
from maxmargin.cli import roles

Generator = np.random.Generator
DATA = "A\tx\nB\ty\n\nB\ty\tz\n\n" * 3
ESCAPING = "e\x1b[31m.crfsuite"
LEFT_OVER = ".m.abcdefgh.part"
FILES = ["a.crfsuite", "b.crfsuite", "m", "c.csv", ESCAPING, LEFT_OVER]
NAMES = [*FILES, "shards", "folder", "soft", "hard", "loop", "nowhere", "new", "new.crfsuite", "-"]
USUAL = {"model": "m", "data": "a.crfsuite", "dev": "b.crfsuite", "test": "b.crfsuite"}
ROUNDABOUT = [*[""] * 9, "./", "folder/../", "way/", "shards/", "folder/", "missing/"]
WORDS = ["", "auto", "proximal", "0", "y", "x", "f1_macro", "\x1b]0;t\x07", "a"]
NEVER = ("scheduler", "help")  # never tried: a network address, and a long text
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST = 20_000  # most characters of standard error


@cache
def original() -> Path:
    """Return a folder with data, a model and shards."""
    folder = workshop("command_lines") / "original"
    folder.mkdir()
    for name in ("a.crfsuite", "b.crfsuite", ESCAPING):
        (folder / name).write_text(DATA)
    (folder / "c.csv").write_text("x,y\n1,a\n2,b\n1,a\n3,b\n1,a\n")
    mm.data.write_shards(folder / "shards", np.eye(4), [0, 1, 0, 1])
    (folder / "folder").mkdir()
    (folder / "way").symlink_to(".")
    line = ["train", str(folder / "a.crfsuite"), str(folder / "m"), "--quiet"]
    with redirect_stdout(io.StringIO()):
        if cli.main(line):
            raise Find("no model can be trained")
    (folder / LEFT_OVER).write_text(DATA)  # as if a writer of the model had been killed
    return folder


def prepared(rng: Generator) -> Path:
    """Return a copy of the folder, with links to anywhere and any permissions."""
    source, folder = original(), workshop("command_lines") / "case"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, symlinks=True)
    (folder / "soft").symlink_to(
        pick(rng, [*FILES, "shards", "new", "loop", "folder/new", "shards/new"])
    )
    os.link(folder / pick(rng, FILES), folder / "hard")
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("none")
    for name in FILES:
        (folder / name).chmod(pick(rng, [0o644] * 7 + [0o600, 0o666, 0o400]))
    return folder


@cache
def commands() -> dict[str, list[argparse.Action]]:
    """Return the arguments of each command, read from its parser."""
    found: Any = next(
        own for own in cli.parser()._actions if isinstance(own, argparse._SubParsersAction)
    )
    parsers = {name: own._actions for name, own in found.choices.items() if name != "demo"}
    return {name: [a for a in own if a.dest not in NEVER] for name, own in parsers.items()}


def any_name(rng: Generator) -> str:
    """Return a path to one of the names, sometimes by a detour."""
    name = pick(rng, NAMES)
    return name if name == "-" else pick(rng, ROUNDABOUT) + name


def any_value(rng: Generator, action: argparse.Action) -> str:
    """Return a value for an argument, according to its type."""
    if action.choices:
        return str(pick(rng, list(action.choices)))
    if action.type is int:
        return str(rng.integers(1, 4))
    if action.type in (float, cli.tolerance, cli.size):
        return pick(rng, ["1", "0.1", "1e-2", "10M"])
    if action.type is roles.word:
        return "proximal" if action.dest == "solvers" else pick(rng, WORDS)
    usual = action.dest in USUAL and rng.random() < 0.6
    return USUAL[action.dest] if usual else any_name(rng)


def any_line(rng: Generator) -> list[str]:
    """Return a command with some of its options."""
    command = pick(rng, sorted(commands()))
    words, options = [command], list[list[str]]()
    for action in commands()[command]:
        count = action.nargs if isinstance(action.nargs, int) else 1
        values = [any_value(rng, action) for _ in range(count)]
        if not action.option_strings:
            words += values if action.nargs != "?" or rng.random() < 0.5 else []
        elif rng.random() < chance(action):
            options.append([action.option_strings[0], *values])
    for option in rng.permutation(len(options)):
        words += options[option]
    return words


def chance(action: argparse.Action) -> float:
    """Return the probability of an option.

    Options with files are frequent, and the bench always has a solver.
    """
    paths = {*roles.ROLES} - {roles.word}
    known = {"solvers": 1.0, "templates": 0.1, "to": 0.5}
    return known.get(action.dest, 0.4 if action.type in paths else 0.04)


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return permissions and content of all files, and the targets of links."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path)] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path)] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


@contextmanager
def streams(folder: Path) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Enter the folder, and replace the standard streams."""
    out, err, given = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(3)
    )
    given.buffer.write(DATA.encode())
    given.buffer.seek(0)
    before = Path.cwd()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for context in (
            redirect_stdout(out),
            redirect_stderr(err),
            patch.object(sys, "stdin", given),
        ):
            stack.enter_context(context)
        os.chdir(folder)
        try:
            yield out, err
        finally:
            os.chdir(before)


def roles_of(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the inputs and the outputs of a command line; both are empty if it cannot be parsed."""
    try:
        given = list(roles.argument_values(cli.parsed(words)))
    except SystemExit:
        return [], []
    kinds = ((roles.InputPath, roles.InputData), (roles.OutputPath, roles.OutputData))
    inputs, outputs = (
        [str(v) for v in given if isinstance(v, own) and not (isinstance(v, data) and v == "-")]
        for own, data in kinds
    )
    return inputs, outputs


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is equal to `folder` or inside it, without help of the library."""
    if os.path.exists(path) and os.path.exists(folder) and os.path.samefile(path, folder):
        return True
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return inner == outer or inner.startswith(outer + os.sep)


def attempt(rng: Generator) -> str:
    """Try one command line."""
    return check_line(prepared(rng), any_line(rng))


def check_line(folder: Path, words: list[str]) -> str:
    """Run a command line in a folder; return the name of the outcome."""
    before = snapshot(folder)
    with streams(folder) as (_, err):
        inputs, outputs = roles_of(words)
        err.truncate(err.seek(0))
        clash = any(is_within(path, own) for path in outputs for own in inputs)
        clash |= any(is_within(own, path) for path in outputs for own in inputs)
        clash |= any(is_within(a, b) for i, a in enumerate(outputs) for b in outputs[:i])
        written = [os.path.realpath(path) for path in outputs]
        sources = [os.path.realpath(path) for path in inputs]
        try:
            status = cli.main(words)
        except SystemExit as error:
            status = int(error.code or 0)
        said = err.buffer.getvalue().decode()
    check_words(status, said, words)
    if clash and status == 0:
        raise Find(f"{words}: an output is an input or another output, and the status is 0")
    check_files(before, snapshot(folder), words, written, sources)
    return f"{words[0]}, status {status}{', refused for its names' if clash else ''}"


def check_words(status: int, said: str, words: list[str]) -> None:
    """Check the output: an error is one line, without a traceback and without control characters."""
    if STEERING.search(said) or "Traceback" in said or len(said) > LONGEST:
        raise Find(f"{words}: {said[:LONGEST]!r}")
    if status == 1 and not re.fullmatch(r"maxmargin: error: [^\n]+\n", said):
        raise Find(f"{words}: status 1, and it says {said!r}")
    if status not in (0, 1, 2):
        raise Find(f"{words}: status {status}")


def check_files(
    before: dict[str, Any],
    after: dict[str, Any],
    words: list[str],
    written: list[str],
    sources: list[str],
) -> None:
    """Check that only writable outputs have changed, that no input has, and that permissions are kept."""
    for name in {*before, *after}:
        then, now = before.get(name), after.get(name)
        if then == now:
            continue
        if any(name == own or name.startswith(own + os.sep) for own in sources):
            raise Find(f"{words}: the input {name} has changed")
        removed = now is None and name.endswith(LEFT_OVER)
        if not removed and not any(name == own or name.startswith(own + os.sep) for own in written):
            raise Find(f"{words}: {name} has changed, and is no output")
        if not removed and now is None:
            raise Find(f"{words}: {name} is gone")
        if (
            not removed
            and then is not None
            and (then[0] != now[0] or then[0] == "link" or not then[0] & 0o222)
        ):
            raise Find(f"{words}: {name} was {then[0]}, and is {now[0]}")


if __name__ == "__main__":
    main("command_lines", attempt)
