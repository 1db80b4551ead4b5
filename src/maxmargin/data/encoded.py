"""All examples of a file in memory, attributes of tokens encoded as they come.

As Python has them they take tens of times as much memory as the rows of features that they become. Columns
are numbered in the order of their first appearance, as if all had been read before.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.from_file import FromFile, joined_batches
from maxmargin.data.mapped import MappedSequences, csr_of
from maxmargin.data.read_file import WHOLE, Source

DESCRIBED = ("conll", "conllu", "crfsuite")


def read_encoded(source: Source) -> FromFile:
    """All examples of a file; those that attributes describe as rows of features, without their tokens."""
    if source.reading.format not in DESCRIBED:
        source.size = WHOLE
        return source.read()
    parts, lengths, Y = list[sp.csr_matrix](), list[int](), list[list[str]]()
    encoder = AttributeEncoder(sequences=True).fit([])
    batches = iter(source)
    for read in batches:
        if isinstance(read.X[0], tuple):  # features of edges, too: only a chain encodes them
            return joined_batches([read, *batches])
        parts.append(encoder.extend(read.X).parts[0])
        lengths += map(len, read.X)
        Y += ([sys.intern(label) for label in y] for y in read.Y)
    return FromFile(encoded_sequences(parts, lengths, encoder), Y, source.reading)


def encoded_sequences(
    parts: list[sp.csr_matrix], lengths: list[int], encoder: Any
) -> MappedSequences:
    """Sequences of one matrix, with as many columns as the encoder has by now."""
    starts, done = [np.zeros(1, np.int64)], 0
    for part in parts:
        starts.append(part.indptr[1:].astype(np.int64) + done)
        done += int(part.indptr[-1])
    indptr = np.concatenate(starts)
    if done < 2**31:
        indptr = indptr.astype(np.int32)
    data, indices = (np.concatenate([getattr(p, n) for p in parts]) for n in ("data", "indices"))
    rows = csr_of(data, indices, indptr, (0, encoder.n_features_))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return MappedSequences([rows], encoder.n_features_, offsets, encoder)
