"""Examples from a file in one of the usual formats, with the task that they are of.

    svmlight    label index:value ...            several labels 1,4 make it a task of label sets
    svmhmm      TAG qid:E index:value ...        positions of a sequence have one E
    crfsuite    label TAB attribute[:value] ...  an empty line after each sequence
    conll       columns, the label the last      an empty line after each sequence
    conllu      ten columns of Universal Dependencies
    brackets    (S (NP ...) (VP ...))            trees of the Penn treebank
    csv, tsv    a header, then rows              texts become indicators
    npz         arrays X and y
    parquet     as csv; needs pyarrow
    shards      a folder that this library wrote

Every error names the file, and the line where there are lines. "-" is standard input.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.file_parquet import read_parquet
from maxmargin.data.file_rows import (
    is_regression,
    read_csv,
    read_npz,
    read_shards,
    read_svmhmm,
    read_svmlight,
)
from maxmargin.data.file_sequences import read_brackets, read_columns, read_conllu, read_crfsuite
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.text import numbered_lines

SUFFIXES = {
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
    ".svmhmm": "svmhmm",
    ".crfsuite": "crfsuite",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".conllu": "conllu",
    ".mrg": "brackets",
    ".brackets": "brackets",
    ".trees": "brackets",
    ".csv": "csv",
    ".tsv": "tsv",
    ".npz": "npz",
    ".parquet": "parquet",
}


def guess_format(path: str) -> str:
    """The format of a file, by its name, else by its first line."""
    if path != "-" and Path(path).is_dir():
        return "shards"
    named = guess_name(path)
    if named:
        return named
    if path == "-":
        raise FileError("standard input: give --format, its format cannot be guessed")
    first = next((line for _, line in numbered_lines(path) if line.strip() and line[0] != "#"), "")
    found = guess_line(first.rstrip("\n"))
    if not found:
        raise FileError(f"{path}: its format cannot be guessed, give --format")
    return found


def guess_name(path: str) -> str:
    """The format that the name of a file tells; empty if it tells none."""
    suffixes = [s for s in Path(path).suffixes if s not in (".gz", ".bz2", ".xz")]
    return SUFFIXES.get(suffixes[-1], "") if suffixes else ""


def guess_line(line: str) -> str:
    """The format of a first line; empty if it is none of them."""
    words = line.split()
    pairs = [word.partition(":") for word in words[1:]]
    if line.lstrip().startswith("("):
        return "brackets"
    if len(words) > 1 and words[1].startswith("qid:"):
        return "svmhmm"
    if pairs and all(a.isdigit() and colon for a, colon, _ in pairs):
        return "svmlight"
    if line.count("\t") == 9:
        return "conllu"
    if "\t" in line and "=" in line:
        return "crfsuite"
    return "conll" if len(words) > 1 else ""


def read_file(path: str, reading: Reading | None = None, **given: Any) -> FromFile:
    """Examples of a file; ``reading`` as in training, or what is given of it and the rest guessed."""
    if reading is None:
        found = given.pop("format", None) or guess_format(path)
        if found not in READERS:
            raise FileError(f"format must be one of {sorted(READERS)}, got {found!r}")
        reading = Reading(found, given.pop("task", None) or "", **given)
    read = READERS[reading.format](path, reading)
    if len(read.Y) == 0:
        raise FileError(f"{path}: there are no examples")
    if not reading.task:
        reading.task = guess_task(read)
    return read


def guess_task(read: FromFile) -> str:
    """The task of examples without sequences, by their labels."""
    known = USUAL.get(read.reading.format)
    if known:
        return known
    if len(read.Y) and isinstance(read.Y[0], tuple):
        return "multilabel"
    labels = np.asarray(read.Y)
    if is_regression(labels):
        return "regression"
    return "binary" if len(np.unique(labels)) == 2 else "multiclass"


READERS: dict[str, Callable[[str, Reading], FromFile]] = {
    "svmlight": read_svmlight,
    "svmhmm": read_svmhmm,
    "crfsuite": read_crfsuite,
    "conll": read_columns,
    "conllu": read_conllu,
    "brackets": read_brackets,
    "csv": read_csv,
    "tsv": read_csv,
    "npz": read_npz,
    "parquet": read_parquet,
    "shards": read_shards,
}
USUAL = {
    "svmhmm": "tagging",
    "crfsuite": "tagging",
    "conll": "tagging",
    "conllu": "tagging",
    "brackets": "parsing",
}
