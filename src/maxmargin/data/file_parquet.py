"""Read and write tables in Parquet files; pyarrow is imported only when it is needed."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_labels import whole_where_exact
from maxmargin.data.file_rows import content_of, label_place
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.mapped import MappedRows, MappedSequences, csr_of
from maxmargin.data.text import STANDARD_INPUT
from maxmargin.io.quoting import short

PARQUET_SUFFIX = ".parquet"
CELL = 8  # estimated bytes of a cell
NUMBER_TYPES = (bool, int, float)
# Rows held as dicts at a time. A larger value takes more memory, a smaller one makes more calls.
ROWS_AT_ONCE = 10_000
RowGroup = tuple[str, int]  # a file, and the number of a row group in it


@dataclass(frozen=True)
class Columns:
    """The columns that are not features: label ("": the last column), weight, and name of the sequence."""

    label: str = ""
    weight: str = ""
    sequence: str = ""


@dataclass
class TableBatch:
    """Rows of a file: features by their names, labels, and weights and sequence names if requested."""

    rows: list[dict[str, Any]]
    labels: np.ndarray
    weights: list[float]
    sequences: list[Any]


def arrow(name: str) -> Any:
    """Import a module of pyarrow."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FileError("Parquet files need pyarrow: pip install maxmargin[parquet]") from error


def files_of(path: Any) -> list[Path]:
    """The files of a path: the file itself, or the Parquet files of a folder in order of their names."""
    return sorted(Path(path).glob("*" + PARQUET_SUFFIX)) if Path(path).is_dir() else [Path(path)]


def read_parquet(
    path: Any, reading: Reading, size: float, labels_alone: bool = False
) -> Iterator[FromFile]:
    """Yield the rows of a file or of a folder of files; with ``labels_alone`` the rows are empty."""
    if str(path) == STANDARD_INPUT:  # it cannot seek, so read all of it
        yield from read_table(path, io.BytesIO(content_of(path)), reading, size, labels_alone)
        return
    for file in files_of(path):
        yield from read_table(str(file), file, reading, size, labels_alone)


def read_table(
    path: Any, content: Any, reading: Reading, size: float, labels_alone: bool
) -> Iterator[FromFile]:
    """Yield the rows of one file in batches."""
    with refused(path):
        file = arrow("pyarrow.parquet").ParquetFile(content)
        header, first = file.schema_arrow.names, 1
        at = label_place(path, header, reading)
        names = [name for j, name in enumerate(header) if j != at]
        rows = max(1, int(min(size / CELL / len(header), ROWS_AT_ONCE)))
        if labels_alone and at is not None:
            header, at = [header[at]], 0
        for batch in file.iter_batches(rows, columns=header):
            X, cells = described_rows(path, batch, at, first)
            first += len(X)
            lines = list(range(first - len(X), first))
            yield FromFile(X, cells, reading, names=names, lines=lines)


@contextmanager
def refused(path: str) -> Iterator[None]:
    """Turn the errors of pyarrow about a file into a FileError with the name of the file."""
    errors = arrow("pyarrow").ArrowException
    try:
        yield
    except FileError:  # it names the file already
        raise
    except (errors, OSError, ValueError, OverflowError) as error:
        raise FileError(f"{path}: {error}") from None


def described_rows(
    path: Any, table: Any, at: int | None, first: int = 1
) -> tuple[list[dict[str, Any]], list[Any] | None]:
    """Return the rows of a table as dicts of numbers and texts, and their labels.

    ``first`` is the number of the first row, for errors.
    """
    names = table.schema.names
    cells = [table.column(j).to_pylist() for j in range(table.num_columns)]
    columns = [checked_cells(path, name, own) for name, own in zip(names, cells, strict=True)]
    labels = None if at is None else columns.pop(at)
    missing = next((i for i, cell in enumerate(labels or (), first) if cell is None), None)
    if missing is not None:
        raise FileError(f"{path}, row {missing}: the label is missing")
    names = [name for j, name in enumerate(names) if j != at]
    rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
    pairs = (zip(names, row, strict=True) for row in rows)
    return [{k: v for k, v in own if v is not None} for own in pairs], labels


def checked_cells(path: str, name: str, cells: list[Any]) -> list[Any]:
    """Return the cells of a column as finite numbers and texts, with None for missing cells."""
    for cell in cells:
        if cell is not None and not isinstance(cell, (str, *NUMBER_TYPES)):
            raise FileError(
                f"{path}: column {short(name)} holds {type(cell).__name__}, but must hold numbers "
                "or texts"
            )
    numbers = [float(cell) if isinstance(cell, NUMBER_TYPES) else cell for cell in cells]
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in numbers]


def column_labels(cells: Any) -> np.ndarray:
    """Return labels as an array of texts or of numbers, as integers if all are whole."""
    if any(isinstance(cell, str) for cell in cells):
        return np.array(cells, dtype=str)
    return whole_where_exact(np.array(cells, dtype=float))


# Files in pieces: row groups


def groups_of(path: str) -> list[RowGroup]:
    """The row groups of a file that have rows."""
    with refused(path):
        facts = arrow("pyarrow.parquet").read_metadata(path)
    return [(path, g) for g in range(facts.num_row_groups) if facts.row_group(g).num_rows]


def batches(groups: Sequence[RowGroup], columns: Columns) -> Iterator[TableBatch]:
    """Yield the rows of some row groups, ROWS_AT_ONCE at a time."""
    for path, g in groups:
        with refused(path), arrow("pyarrow.parquet").ParquetFile(path) as file:
            names = file.schema_arrow.names
            at = label_place(path, names, Reading("parquet", "", columns.label))
            for name in (columns.weight, columns.sequence):
                if name and name not in names:
                    raise FileError(
                        f"{path}: no column {short(name)}; there are {', '.join(names)}"
                    )
            first = 1 + sum(file.metadata.row_group(h).num_rows for h in range(g))
            for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=[g]):
                rows, cells = described_rows(path, batch, at, first)
                others = [taken(path, rows, first, n) for n in (columns.weight, columns.sequence)]
                if not all(isinstance(v, float) for v in others[0]):
                    raise FileError(f"{path}: column {short(columns.weight)} must hold numbers")
                yield TableBatch(rows, column_labels(cells), *others)
                first += batch.num_rows


def taken(path: str, rows: list[dict[str, Any]], first: int, name: str) -> list[Any]:
    """Remove a column that is not a feature from the rows, and return its cells."""
    if not name:
        return []
    cells = [row.pop(name, None) for row in rows]
    if None in cells:
        raise FileError(f"{path}, row {first + cells.index(None)}: column {short(name)} is missing")
    return cells


def encoded(groups: Sequence[RowGroup], columns: Columns, encoder: Any) -> tuple[Any, Any, Any]:
    """Return X as features, Y, and weights or None; without an encoder a new one learns all names."""
    learn, sequences = encoder is None, bool(columns.sequence)
    parts, tables = [], []
    for table in batches(groups, columns):
        rows: Any = [table.rows] if sequences else table.rows
        if encoder is None:
            encoder = AttributeEncoder(sequences=sequences)
            found = encoder.encode(rows, learn=True)
        else:
            found = encoder.extend(rows) if learn else encoder.encode(rows)
        parts.append(found.parts[0])
        table.rows = []  # free the dicts: they are encoded now
        tables.append(table)
    width = encoder.n_features_
    wide = [csr_of(part.data, part.indices, part.indptr, (0, width)) for part in parts]
    Y, weights, ends = outputs_of(groups[0], columns, tables)
    if sequences:
        return MappedSequences(wide, width, ends, found.encoder), Y, weights
    return MappedRows(wide, width, found.encoder), Y, weights


def plain_rows(groups: Sequence[RowGroup], columns: Columns) -> tuple[Any, Any, Any]:
    """Return X as dicts or lists of dicts, Y, and weights or None."""
    tables = list(batches(groups, columns))
    rows = list(chain.from_iterable(table.rows for table in tables))
    Y, weights, ends = outputs_of(groups[0], columns, tables)
    return [rows[a:b] for a, b in pairwise(ends)] if columns.sequence else rows, Y, weights


def outputs_of(
    start: RowGroup, columns: Columns, tables: Sequence[TableBatch]
) -> tuple[Any, np.ndarray | None, np.ndarray]:
    """Return labels, weights, and the offsets of examples.

    A sequence is a run of rows with the same sequence name; its labels come as one array.
    """
    labels = np.concatenate([table.labels for table in tables])
    given = list(chain.from_iterable(table.weights for table in tables))
    weights = np.array(given) if columns.weight else None
    if not columns.sequence:
        return labels, weights, np.arange(len(labels) + 1)
    names = list(chain.from_iterable(table.sequences for table in tables))
    check_begins(start, columns.sequence, names[0])
    begins = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
    ends = np.array([*begins, len(names)], dtype=np.int64)
    if weights is not None:
        first = np.repeat(weights[begins], np.diff(ends))
        if (first != weights).any():
            name = names[int(np.argmax(first != weights))]
            raise FileError(f"{start[0]}: sequence {short(name)} has rows with different weights")
        weights = weights[begins]
    return np.split(labels, begins[1:]), weights, ends


def check_begins(start: RowGroup, column: str, name: Any) -> None:
    """Refuse a sequence that began in the previous row group."""
    path, g = start
    with refused(path), arrow("pyarrow.parquet").ParquetFile(path) as file:
        before = [h for h in range(g) if file.metadata.row_group(h).num_rows]
        if not before:
            return
        cells = file.read_row_group(before[-1], columns=[column]).column(0)[-1:].to_pylist()
    if checked_cells(path, column, cells) == [name]:
        raise FileError(
            f"{path}: sequence {short(name)} lies in row groups {before[-1]} and {g}, which "
            "belong to two parts; write row groups that end with a sequence, or give one file per "
            "part"
        )


def checksum_of(groups: Sequence[RowGroup]) -> str:
    """The checksum of the bytes of some row groups."""
    total = hashlib.sha256()
    for path, g in groups:
        with refused(path), open(path, "rb") as file:
            group = arrow("pyarrow.parquet").read_metadata(path).row_group(g)
            for j in range(group.num_columns):
                own = group.column(j)
                file.seek(own.dictionary_page_offset or own.data_page_offset)
                total.update(f"{own.path_in_schema} {own.total_compressed_size}".encode())
                total.update(file.read(own.total_compressed_size))
    return total.hexdigest()


class Sink(io.RawIOBase):
    """A binary file that collects written bytes and gives them out in parts."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.parts.append(bytes(content))
        return len(content)

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        found = b"".join(self.parts)
        self.parts.clear()
        return found


def parquet_parts(
    kinds: dict[str, set[type]], tables: Iterable[list[list[Any]]]
) -> Iterator[bytes]:
    """Yield the content of a file with these columns, in parts; refuse columns of numbers and texts."""
    for name, found in kinds.items():
        if str in found and len(found) > 1:
            raise FileError(
                f"column {short(name)} holds both numbers and texts, but a Parquet column must "
                "hold one kind"
            )
    pyarrow, sink = arrow("pyarrow"), Sink()
    schema = pyarrow.schema([(name, arrow_type(pyarrow, own)) for name, own in kinds.items()])
    with arrow("pyarrow.parquet").ParquetWriter(sink, schema) as writer:
        for columns in tables:
            arrays = [pyarrow.array(own, f.type) for own, f in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.table(arrays, schema=schema))
            yield sink.taken()
    yield sink.taken()


def arrow_type(pyarrow: Any, kinds: set[type]) -> Any:
    """The type of a column that holds values of these types."""
    if str in kinds:
        return pyarrow.string()
    if float in kinds or len(kinds) > 1:
        return pyarrow.float64()
    found = {bool: pyarrow.bool_(), int: pyarrow.int64()}
    return found[kinds.copy().pop()] if kinds else pyarrow.null()
