"""Write a sharded data set from chunks of examples; the manifest is written last.

A shard is buffered in memory until it has ``shard_bytes``. Every file is on the disk before the manifest
names it. If anything fails, the written files are removed and no manifest appears; see ``shard_folder``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import among, whole
from maxmargin.data.labels import as_array
from maxmargin.data.manifest import (
    DTYPES,
    SHARD_KINDS,
    TREES,
    FileEntry,
    Manifest,
    Shard,
    columns_state,
)
from maxmargin.data.mapped import Mapped, MappedRows, ShardError, encoder_in, row_slice
from maxmargin.data.memory import as_csr, as_dense, float_type
from maxmargin.data.shard_folder import ShardFolder
from maxmargin.io.quoting import short

SHARD_BYTES = 64 * 2**20


class ShardWriter:
    """Context manager that writes examples to a folder; leaving it without an error writes the manifest.

    Parameters
    ----------
    folder : path; created if it does not exist
    kind : "rows" (an example is a row with a label), "sequences" (a matrix with a label for each row) or
        "trees" (a sentence with a tree)
    shard_bytes : int, approximate bytes of features per shard
    overwrite : bool, whether to replace an existing data set; it stays until the new one is complete
    dtype : float32, float64 or None, which takes the type of the first examples
    grow : bool, whether sparse rows may have more columns than earlier rows
    """

    sparse: bool = False
    features: int = 0
    examples: int = 0
    buffered: int

    def __new__(cls, folder: Any, kind: str = "rows", *rest: Any, **options: Any) -> ShardWriter:
        if kind == TREES and cls is ShardWriter:
            from maxmargin.data.tree_shards import TreeShardWriter

            return super().__new__(TreeShardWriter)
        return super().__new__(cls)

    def __init__(
        self,
        folder: Any,
        kind: str = "rows",
        shard_bytes: int = SHARD_BYTES,
        overwrite: bool = False,
        dtype: Any = None,
        grow: bool = False,
    ):
        among(*SHARD_KINDS, TREES).check("kind", kind)
        whole().check("shard_bytes", shard_bytes)
        self.folder: Path = Path(folder)
        self.kind: str = kind
        self.shard_bytes: int = min(shard_bytes, 2**32)
        self.dtype: Any = self._stored_type(dtype, grow)
        self.grow: bool = grow
        self.attributes: dict[str, Any] | None = None
        self.encoder: Any = None  # encoder of all examples so far
        self.labelled: bool | None = None
        self.codes: dict[Any, int] = {}
        self.shards: list[Shard] = []
        self._empty()
        self.place: ShardFolder = ShardFolder(self.folder, overwrite)

    def _stored_type(self, dtype: Any, grow: bool) -> np.dtype | None:
        """The dtype of the numbers in the files; None if the first examples decide."""
        found = None if dtype is None else np.dtype(dtype)
        if found is not None and found.newbyteorder("<").str not in DTYPES:
            raise ValueError(f"dtype must be float32 or float64, got {found}")
        return found

    def _empty(self) -> None:
        """Begin a new shard."""
        self.buffer: list[Any] = []
        self.labels: list[np.ndarray] = []
        self.lengths: list[int] = []
        self.buffered = 0

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Remove the written files; an existing data set stays."""
        self.place.abandon()

    # Taking examples

    def add(self, X: Any, Y: Any = None) -> None:
        """Add several rows of one matrix with their labels, or one sequence with its labels."""
        self._know(encoder_in(X))
        matrix = self._checked(X)
        if matrix.shape[0] == 0:
            if self.kind == "sequences":
                raise ValueError(f"X[{self.examples}] is an empty sequence")
            return
        labels = self._coded(Y, matrix.shape[0])
        if self.kind == "sequences":
            self._take(matrix, labels)
        else:
            for first, last in self._pieces(matrix):
                part = None if labels is None else labels[first:last]
                self._take(row_slice(matrix, first, last), part)

    def _know(self, encoder: Any) -> None:
        """Keep the encoder of the examples; refuse examples of different encoders."""
        if self.examples == 0:
            self.encoder = encoder
        known = self.encoder
        same = encoder is known or (encoder and known and encoder.same_columns(known))
        if not same:
            raise ValueError(
                f"X[{self.examples}] and X[0] were not encoded by the same encoder; encode all "
                "examples with one encoder"
            )

    def _pieces(self, matrix: Any) -> Iterator[tuple[int, int]]:
        """The runs of rows (first, last) that each fit into a shard."""
        size = max(1, stored_bytes(matrix) // matrix.shape[0])
        rows = max(1, self.shard_bytes // size)
        return ((a, min(a + rows, matrix.shape[0])) for a in range(0, matrix.shape[0], rows))

    def _take(self, matrix: Any, labels: np.ndarray | None) -> None:
        if self.buffer and self.buffered + stored_bytes(matrix) > self.shard_bytes:
            self._flush()
        self.buffer.append(matrix)
        self.buffered += stored_bytes(matrix)
        self.lengths.append(matrix.shape[0])
        if labels is not None:
            self.labels.append(labels)
        self.examples += 1 if self.kind == "sequences" else matrix.shape[0]

    def _checked(self, X: Any) -> Any:
        """Return the features in the form to write; the first ones decide layout, dtype and width."""
        where = f"X[{self.examples}]"
        first = self.features == 0
        if first:
            self.sparse = sp.issparse(X)
        kind = getattr(X, "dtype", np.dtype(np.float64))
        wanted = float_type(kind) if isinstance(kind, np.dtype) else np.float64
        if self.dtype is None:
            self.dtype = np.dtype(wanted)
        elif first is False and self.dtype == np.float32 and wanted is np.float64:
            raise ValueError(f"{where} is {kind}, but the shards hold float32; set dtype=float64")
        if self.sparse:
            tidy = not sp.issparse(X) or X.tocsr().has_canonical_format
            matrix: Any = as_csr(X, self.dtype.type, where, canonical=not tidy)
        else:
            matrix = as_dense(X, self.dtype.type, where)
        values = matrix.data if self.sparse else matrix
        if not np.isfinite(values).all():
            raise ValueError(f"{where} or a row after it contains NaN or infinity")
        width = matrix.shape[1]
        if not first and width != self.features and not (self.grow and self.sparse):
            raise ValueError(f"{where} has {width} features, expected {self.features}")
        if width == 0:
            raise ValueError(f"{where} has no features")
        self.features = max(self.features, width)
        return matrix

    def _coded(self, Y: Any, rows: int) -> np.ndarray | None:
        """Return the codes of labels, which are numbered in the order of their appearance."""
        self._check_given(Y)
        if Y is None:
            return None
        labels = Y.tolist() if isinstance(Y, np.ndarray) else list(Y)
        if len(labels) != rows:
            raise ValueError(f"X[{self.examples}] has {rows} rows, but Y has {len(labels)} labels")
        for label in labels:
            self._check_label(label)
        numbered = (self.codes.setdefault(label_key(label), len(self.codes)) for label in labels)
        return np.fromiter(numbered, np.int32, rows)

    def _check_given(self, Y: Any) -> None:
        """Refuse labels for only some of the examples."""
        if self.labelled is None:
            self.labelled = Y is not None
        if self.labelled != (Y is not None):
            raise ValueError(
                f"Y must be given for all examples or for none; example {self.examples} differs "
                "from the earlier ones"
            )

    def _check_label(self, label: Any) -> None:
        if isinstance(label, np.generic):
            label = label.item()
        allowed = label is None or isinstance(label, str | int | float | bool)
        if not allowed or label != label or label in (np.inf, -np.inf):
            raise ValueError(f"Y: labels must be texts, finite numbers or None, got {short(label)}")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise ValueError(f"Y: whole numbers must be from -2^63 to 2^63 - 1, got {short(label)}")
        if isinstance(label, str) and label[-1:] == "\0":
            raise ValueError(f"Y: a text must not end in a NUL character, got {short(label)}")

    # Writing

    def _flush(self) -> None:
        """Write the buffered examples as a shard."""
        k, dtype = len(self.shards), self.dtype
        assert dtype is not None
        parts: dict[str, np.ndarray] = {}
        entries = 0
        if self.sparse:
            entries = sum(matrix.nnz for matrix in self.buffer)
            if entries > np.iinfo(np.int32).max:
                raise ValueError(
                    f"a shard would have {entries} entries, which is too many; give a smaller "
                    "shard_bytes"
                )
            parts["data"] = np.concatenate([m.data for m in self.buffer])
            parts["indices"] = np.concatenate([m.indices for m in self.buffer]).astype("<i4")
            counts = np.concatenate([np.diff(m.indptr) for m in self.buffer])
            parts["indptr"] = np.concatenate([[0], np.cumsum(counts)]).astype("<i4")
        else:
            parts["data"] = np.concatenate(self.buffer)
        parts["data"] = parts["data"].astype(dtype.newbyteorder("<"), copy=False)
        rows = sum(self.lengths)
        if self.kind == "sequences":
            parts["offsets"] = np.concatenate([[0], np.cumsum(self.lengths)]).astype("<i8")
        if self.labelled:
            parts["codes"] = np.concatenate(self.labels).astype("<i4")
        files = {part: self._write(k, part, array) for part, array in parts.items()}
        examples = len(self.lengths) if self.kind == "sequences" else rows
        self.shards.append(Shard(examples, rows, entries, files))
        self._empty()

    def _write(self, shard: int, part: str, array: np.ndarray) -> FileEntry:
        """Write one file, which is on the disk on return; give its size and checksum."""
        path = self.place.new_file(shard, part)
        content = memoryview(np.ascontiguousarray(array)).cast("B") if array.size else b""
        try:
            with self.place.open_file(path) as file:
                write_all(file, content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.abandon()
            raise ShardError(
                f"cannot write {path}: {error}; the new files are removed, and an earlier data "
                "set in the folder is unchanged"
            ) from error
        return FileEntry(array.nbytes, hashlib.sha256(content).hexdigest())

    def close(self) -> None:
        """Write the buffered examples, then the manifest; this replaces an existing data set."""
        try:
            self.place.check()
            if self.buffer:
                self._flush()
            if not self.shards:
                raise ShardError(f"{self.folder}: no examples were given")
            self.place.install(self._manifest())
        except BaseException:
            self.abandon()
            raise

    def _manifest(self) -> Manifest:
        assert self.dtype is not None
        if self.encoder is not None and self.attributes is None:
            self.attributes = columns_state(self.encoder)
        return Manifest(
            kind=self.kind,
            layout=self._layout(),
            dtype=self.dtype.newbyteorder("<").str,
            features=self.features,
            labels=self._label_state(),
            attributes=self.attributes,
            shards=self.shards,
            generation=self.place.generation,
        )

    def _layout(self) -> str:
        return "csr" if self.sparse else "dense"

    def _label_state(self) -> dict[str, Any] | None:
        if not self.labelled:
            return None
        classes = [label for _, label in self.codes]
        array = as_array(classes)
        return {"classes": array.tolist(), "dtype": array.dtype.str}


def label_key(label: Any) -> tuple[type, Any]:
    """Return a key that tells labels of different types apart: 1 is not True."""
    label = label.item() if isinstance(label, np.generic) else label
    return type(label), label


def write_all(file: Any, content: Any) -> None:
    """Write to a file; tests replace this function to simulate a full disk."""
    file.write(content)


def stored_bytes(matrix: Any) -> int:
    """Bytes of the features in a file."""
    if sp.issparse(matrix):
        return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    return matrix.nbytes


def shard_kind(X: Any) -> str:
    """The kind of X: "rows" for a matrix, "sequences" for matrices in a list, "trees" for sentences."""
    if sp.issparse(X) or isinstance(X, MappedRows) or (isinstance(X, np.ndarray) and X.ndim == 2):
        return "rows"
    if isinstance(X, Sequence) and len(X) and hasattr(X[0], "shape"):
        return "sequences"
    if isinstance(X, Sequence) and len(X) and (isinstance(X[0], str) or all_words(X[0])):
        return TREES
    raise ValueError(
        "X must be a matrix, a list of matrices, a list of sentences, or an iterator of (x, y) "
        "with kind="
    )


def all_words(x: Any) -> bool:
    """Whether x is a sentence, a sequence of strings that is not empty."""
    return isinstance(x, Sequence) and len(x) > 0 and all(isinstance(word, str) for word in x)


def chunks_of(X: Any, Y: Any, kind: str) -> Iterable[tuple[Any, Any]]:
    """Return an iterator of chunks for ``ShardWriter.add`` from data in memory or mapped."""
    if kind in ("sequences", TREES):
        if Y is not None and len(X) != len(Y):
            raise ValueError(f"X has {len(X)} examples, but Y has {len(Y)}")
        return ((X[i], None if Y is None else Y[i]) for i in range(len(X)))
    if Y is not None and X.shape[0] != len(Y):
        raise ValueError(f"X has {X.shape[0]} examples, but Y has {len(Y)}")
    firsts = X.firsts.tolist() if isinstance(X, Mapped) else [0, X.shape[0]]
    return (
        (X.run(a, b) if isinstance(X, Mapped) else X, None if Y is None else Y[a:b])
        for a, b in pairwise(firsts)
        if a < b
    )


def write_shards(
    folder: Any,
    X: Any,
    Y: Any = None,
    shard_bytes: int = SHARD_BYTES,
    kind: str | None = None,
    overwrite: bool = False,
    dtype: Any = None,
) -> Path:
    """Write a data set to a folder of shards; ``open_shards`` opens it.

    Parameters
    ----------
    X : matrix (n, d), dense or CSR; a list of matrices (T_i, d); a list of sentences; or an iterator
        An iterator gives (x, y), or x alone: with kind="sequences" one sequence and its labels, with
        kind="trees" a sentence and its tree, with kind="rows" a matrix of some rows and their labels.
    Y : labels, or None
    """
    given = not (hasattr(X, "__len__") or hasattr(X, "shape"))
    if given and kind is None:
        raise ValueError('kind must be "rows", "sequences" or "trees" if X is an iterator')
    kind = kind or shard_kind(X)
    pairs = X if given else chunks_of(X, Y, kind)
    with ShardWriter(folder, kind, shard_bytes, overwrite, dtype) as writer:
        for item in pairs:
            writer.add(*(item if isinstance(item, tuple) else (item, None)))
    return Path(folder)
