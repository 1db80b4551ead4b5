"""Damaged data files for the command line: they are read, or refused with an error that names the
file.

    python -m fuzz.files --seconds 60

Files of every format get strange lines, cuts and bytes; templates of text columns are damaged, too.
A file
that is read gives as many inputs as outputs, the same in small batches as at once. If it is written
and read
again, its outputs are the same. A refused file raises ``ValueError``, which names the file and, if
the
problem is in a line, the line number. MAXMARGIN_FUZZ_FORMATS="npz csv" restricts the run to these
formats.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.common import Find, main
from fuzz.limits import bounded, workshop
from fuzz.mutate import damaged_bytes, damaged_text, pick
from maxmargin.data.from_file import FromFile, Reading, joined_batches
from maxmargin.data.read_file import Source, guess_format, read_file
from maxmargin.data.write_file import write_file

Generator = np.random.Generator
WORDS = [
    "1",
    "-1",
    "1e400",
    "nan",
    "inf",
    "qid:1",
    "qid:",
    "0:1",
    "1:",
    ":1",
    "1:1",
    "99999999999:1",
    ",",
    '"',
    "(",
    ")",
    "#",
    "\\",
    "\\:",
    "=",
    "x",
    "é",
    "\ufeff",
    "1,2",
    "_",
    "-",
]
WORDS += ["\t", "\n", "\n\n", " ", "\r"]
ORIGINALS = {
    "svmlight": "1 1:1 3:0.5 # note\n2 2:1\n3 3:2e-3\n1,2 1:1\n",
    "svmhmm": "1 qid:1 1:1\n2 qid:1 2:1\n1 qid:2 1:1\n",
    "crfsuite": "N\tw=dog\tlen:3\nV\tw=barks\ta\\:b:2\n\nN\tw=cat\n",
    "conll": "the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n",
    "conllu": "# text\n1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdogs\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n\n",
    "brackets": "(S (NP (D the) (N dog)) (V barks))\n((S (V go)))\n",
    "csv": 'size,colour,kind\n1,red,a\n2,"dark, blue",b\n',
    "tsv": "x\ty\n1\t1.5\n2\t2.5\n",
}


SHARDED = {"rows": "svmlight", "sequences": "crfsuite", "trees": "brackets"}
TEMPLATE = "U00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\n# note\nB\nB01:%x[1,0]\n"
MARKS = ["U", "B", "%", "%x[", "]", "%x[0,0]", "%x[-99,0]", "%x[0,999]", "%x[1]", "\n", "#", "é"]
MARKS += ["u:", "*:", '%t[0,0,"', '%M[0,0,"^.?a*$"]', "%X[@1,0]", "%x[*1,0]", "\\u"]


def arrays() -> bytes:
    """The bytes of an npz file."""
    content = io.BytesIO()
    np.savez(content, X=np.eye(3), y=np.arange(3))
    return content.getvalue()


def table() -> bytes:
    """The bytes of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    content = io.BytesIO()
    columns = {"size": [1.5, None, 2.0], "colour": ["red", "é", None], "kind": [1, 2, 1]}
    parquet.write_table(pyarrow.table(columns), content)
    return content.getvalue()


def folder_of_shards(rng: Generator) -> Path:
    """Write a folder of shards of one kind, and damage one of its files."""
    kind = pick(rng, sorted(SHARDED))
    kept, path = workshop("files") / f"{kind}.kept", workshop("files") / "shards"
    if not kept.exists():
        text = kept.with_suffix(f".{SHARDED[kind]}")
        text.write_text(ORIGINALS[SHARDED[kind]].replace("1,2", "1"))
        write_file(read_file(str(text)), str(kept), "shards")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(kept, path)
    victim = pick(rng, sorted(path.iterdir()))
    victim.write_bytes(damaged_bytes(rng, victim.read_bytes()))
    return path


def attempt(rng: Generator) -> str:
    """Try one damaged file of one format."""
    name = pick(rng, FORMATS)
    if name == "shards":
        with bounded():
            return f"{name}, {check(str(folder_of_shards(rng)), Reading(name, ''))}"
    if name in ("npz", "parquet"):
        data = damaged_bytes(rng, arrays() if name == "npz" else table())
    else:
        text = several(rng, ORIGINALS[name] * int(rng.integers(1, 4)), WORDS)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            data = damaged_bytes(rng, data)
    path = workshop("files") / f"t.{name}"
    path.write_bytes(data)
    task = pick(rng, ["", "", "", "multiclass", "multilabel", "regression"])
    label = pick(rng, ["", "", "", "", "0", "7", "kind", "xpos"])
    templates = "words" if rng.random() < 0.7 else several(rng, TEMPLATE, MARKS)
    with bounded():
        return f"{name}, {check(str(path), Reading(name, task, label, templates))}"


def formats() -> list[str]:
    """The formats of ``MAXMARGIN_FUZZ_FORMATS``, or all; Parquet only if pyarrow is installed."""
    named = os.environ.get("MAXMARGIN_FUZZ_FORMATS", "").split()
    there = [] if find_spec("pyarrow") is None else ["parquet"]
    return named or [*sorted(ORIGINALS), "npz", "shards", *there]


FORMATS = formats()


def several(rng: Generator, text: str, words: list[str]) -> str:
    """Damage a text up to four times."""
    for _ in range(int(rng.integers(0, 5))):
        text = damaged_text(rng, text, words)
    return text


def check(path: str, reading: Reading) -> str:
    """Read a file; return the outcome."""
    kept = Reading(**reading.state())
    try:
        if guess_format(path) != reading.format:
            raise Find(f"the format of {path} is guessed wrongly")
        found: Any = read_file(path, reading)
    except ValueError as error:
        if path not in str(error) and not re.search(r"\b(label|task)\b", str(error)):
            raise Find(f"the error does not name the file: {error}") from error
        return "refused"
    if len(found) != len(found.Y):
        raise Find(f"{len(found)} inputs, but {len(found.Y)} outputs")
    parts = joined_batches([shown(part) for part in Source(path, kept, 20)])
    if parts.Y != shown(found).Y or kept != reading:
        raise Find(f"outputs {found.Y} were read at once, and {parts.Y} in batches")
    return check_written(path, found)


def shown(read: FromFile) -> FromFile:
    """Return the data with outputs as texts."""
    return FromFile([], [str(y) for y in read.Y], read.reading)


def check_written(path: str, found: FromFile) -> str:
    """Write the data and read them again: the outputs must be the same."""
    name, reading = found.reading.format, Reading(**found.reading.state())
    if name == "shards":
        shutil.rmtree(f"{path}.again", ignore_errors=True)
    try:
        write_file(found, f"{path}.again", name)
    except ValueError:  # the task does not fit the format
        return "read, not written"
    if name == "conll":
        reading.label = ""  # the label is written as the last column
    again = read_file(f"{path}.again", reading)
    if [str(y) for y in again.Y] != [str(y) for y in found.Y]:
        raise Find(f"outputs {found.Y} were written, and {again.Y} read")
    return "read and written"


if __name__ == "__main__":
    main("files", attempt)
