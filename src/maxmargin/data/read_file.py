"""Read examples from a file in one of the usual formats, and determine their task.

    svmlight    label index:value ...            several labels such as 1,4 mean sets of labels
    svmhmm      TAG qid:E index:value ...        all positions of a sequence have the same E
    crfsuite    label TAB attribute[:value] ...  an empty line after each sequence
    conll       columns, the last is the label   an empty line after each sequence
    conllu      ten columns of Universal Dependencies
    brackets    (S (NP ...) (VP ...))            trees of the Penn treebank
    csv, tsv    a header, then rows              texts become indicators
    npz         arrays X and y
    parquet     the same as csv; needs pyarrow
    shards      a folder that this library wrote

Every error names the file, and the line if the format has lines. "-" is standard input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data import manifest
from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_labels import USUAL, Summary
from maxmargin.data.file_parquet import files_of, read_parquet
from maxmargin.data.file_rows import (
    read_csv,
    read_npz,
    read_shards,
    read_svmhmm,
    read_svmlight,
)
from maxmargin.data.file_sequences import (
    read_brackets,
    read_column_batches,
    read_conllu,
    read_crfsuite,
)
from maxmargin.data.from_file import NUMBERED, TASKS, FileError, FromFile, Reading, joined_batches
from maxmargin.data.mapped import MappedSequences, csr_of, sequences_of
from maxmargin.data.memory import offsets_of
from maxmargin.data.text import STANDARD_INPUT, KeptInput, first_line
from maxmargin.io.quoting import short

Reader = Callable[[Any, Reading, float], Iterator[FromFile]]
# Characters of text read at a time. Larger batches take more memory (attributes of words take a few hundred
# times their text); smaller ones make more calls.
BATCH_CHARACTERS = 2**17
WHOLE = 2**23  # characters read at a time if all examples are kept anyway
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


def guess_format(path: Any) -> str:
    """Guess the format of a file by its name, else by its first line."""
    if str(path) != STANDARD_INPUT:
        named = guess_name(path)
        if Path(path).is_dir():  # Parquet files without a manifest of shards are tables
            shards = (Path(path) / manifest.MANIFEST_NAME).exists() or not files_of(path)
            named = "shards" if shards else "parquet"
        if named:
            return named
    found = guess_line(first_line(path))
    if not found:
        raise FileError(f"{path}: its format cannot be guessed; give --format")
    return found


def guess_name(path: str) -> str:
    """The format that a file name implies; empty if it implies none."""
    suffixes = [s for s in Path(path).suffixes if s not in (".gz", ".bz2", ".xz")]
    return SUFFIXES.get(suffixes[-1], "") if suffixes else ""


def guess_line(line: str) -> str:
    """Guess the format by the first line of a file; empty if no format fits."""
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


def reading_of(path: Any, **given: Any) -> Reading:
    """Return the settings for reading a file; guess the format if it is not given.

    A task that is not given is determined when the file is read.
    """
    found = given.pop("format", None) or guess_format(path)
    if found not in READERS:
        raise FileError(f"format must be one of {sorted(READERS)}, got {short(found)}")
    return Reading(found, given.pop("task", None) or "", **given)


def check_task(path: Any, reading: Reading) -> None:
    """Refuse a task that the format cannot hold."""
    known = USUAL.get(reading.format)
    rows = ("multiclass", "binary", "regression") + ("multilabel",) * (reading.format == "svmlight")
    fitting = (known,) if known else TASKS if reading.format == "shards" else rows
    if reading.task and reading.task not in fitting:
        raise FileError(
            f"{path}: the format {reading.format} holds data for {' or '.join(fitting)}, not for "
            f"{reading.task}"
        )


class Source:
    """The examples of a file in batches of about ``size`` characters of text; it can be iterated repeatedly.

    Text is read batch by batch. The type of the labels is known only after all labels are seen
    (``data.file_labels``), so tables and numbered features are read twice. This is not needed if a model
    gives the type (``as_trained``).
    """

    def __init__(self, path: Any, reading: Reading, size: float = BATCH_CHARACTERS):
        check_task(path, reading)
        self.path: Any = path
        self.reading = reading
        self.size = size
        self._summary: Summary | None = None

    def keep(self) -> None:
        """Copy standard input to a file, so that it can be read more than once."""
        if self.path == STANDARD_INPUT:
            self.path = KeptInput()

    def as_trained(self, classes: Any) -> Source:
        """Take the type of the labels from the classes of a model; return this source."""
        self._summary = Summary.of_model(self.path, self.reading, classes)
        return self

    def pieces(self, read: Reader | None = None) -> Iterator[FromFile]:
        """Yield batches with unconverted labels; refuse a file without examples."""
        empty = True
        for found in (read or READERS[self.reading.format])(self.path, self.reading, self.size):
            empty = False
            yield found
        if empty:
            raise FileError(f"{self.path}: there are no examples")

    def _summed_up(self, pieces: Iterable[FromFile]) -> Summary:
        """Summarise the labels and columns of all batches."""
        summary = Summary(self.path, self.reading)
        for read in pieces:
            summary.add(read)
        summary.settle()
        return summary

    def __iter__(self) -> Iterator[FromFile]:
        """Return an iterator over batches, converted to the label type and width of the whole file."""
        if self._summary is None:
            look = self.reading.format in NUMBERED or self.reading.format not in USUAL
            if look:
                self.keep()
            self._summary = self._summed_up(self.pieces() if look else ())
        return map(self._summary.final, self.pieces())

    def outline(self, read: Reader) -> FromFile:
        """Determine the task and the number of examples with a given reader, without the examples."""
        return FromFile(range(self._summed_up(self.pieces(read)).examples), None, self.reading)

    def read(self) -> FromFile:
        """Read all examples."""
        found = list(self.pieces())
        summary = self._summary or self._summed_up(found)
        return joined_batches([summary.final(read) for read in found])


def read_file(path: Any, reading: Reading | None = None, **given: Any) -> FromFile:
    """Read the examples of a file with the settings of training, or with given and guessed settings."""
    return Source(path, reading or reading_of(path, **given), WHOLE).read()


READERS: dict[str, Reader] = {
    "svmlight": read_svmlight,
    "svmhmm": read_svmhmm,
    "crfsuite": read_crfsuite,
    "conll": read_column_batches,
    "conllu": read_conllu,
    "brackets": read_brackets,
    "csv": read_csv,
    "tsv": read_csv,
    "npz": read_npz,
    "parquet": read_parquet,
    "shards": read_shards,
}


DESCRIBED = ("conll", "conllu", "crfsuite")


def read_encoded(source: Source) -> FromFile:
    """Read all examples of a file; encode attributes as rows of features, and drop the tokens.

    Each batch is encoded at once, since attributes as Python objects take tens of times the memory of the
    rows. Columns are numbered in the order of their first appearance in the file.
    """
    if source.reading.format not in DESCRIBED:
        source.size = WHOLE
        return source.read()
    parts, lengths, Y = list[sp.csr_matrix](), list[int](), list[list[str]]()
    encoder = AttributeEncoder(sequences=True).fit([])
    batches = iter(source)
    for read in batches:
        if isinstance(read.X[0], tuple):  # with features of edges, which only a chain encodes
            return joined_batches([read, *batches])
        parts.append(encoder.extend(read.X).parts[0])
        lengths += map(len, read.X)
        Y += ([sys.intern(label) for label in y] for y in read.Y)
    return FromFile(encoded_sequences(parts, lengths, encoder), Y, source.reading)


def encoded_sequences(
    parts: list[sp.csr_matrix], lengths: list[int], encoder: Any
) -> MappedSequences:
    """Join rows in one matrix, with all columns of the encoder, and return them as sequences."""
    indptr = offsets_of(np.concatenate([np.diff(part.indptr) for part in parts]))
    if indptr[-1] < 2**31:
        indptr = indptr.astype(np.int32)
    data, indices = (np.concatenate([getattr(p, n) for p in parts]) for n in ("data", "indices"))
    rows = csr_of(data, indices, indptr, (0, encoder.n_features_))
    return sequences_of([rows], lengths, encoder)
