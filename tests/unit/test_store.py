"""Examples in memory, planes in files and labels as codes are read back unchanged."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data.labels import CodedLabels, CodedSequences, LabelSet
from maxmargin.data.mapped import MappedRows, MappedSequences
from maxmargin.data.scratch import LEAST_ENTRIES, PlaneFile, ScratchArray, ranges
from maxmargin.models import Chain, Multiclass
from maxmargin.parts.source import (
    Chunks,
    Layout,
    Part,
    Stored,
    keep_only,
    layout_of,
    stacked_examples,
)
from maxmargin.problem import Support


def dense(x):
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def test_ranges():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.empty(0), np.empty(0)).tolist() == []


def test_a_scratch_array_grows(generator):
    array, parts = ScratchArray(np.int32), []
    for _ in range(5):
        parts.append(generator.integers(100, size=LEAST_ENTRIES // 2).astype(np.int32))
        assert array.append(parts[-1]) == sum(map(len, parts[:-1]))
        np.testing.assert_array_equal(array.array(), np.concatenate(parts))
    array.resize(10 * LEAST_ENTRIES)
    assert not array.array()[5 * LEAST_ENTRIES :].any()


def planes_of(counts, generator, python):
    """Return a support of some examples, its outputs one by one, and the number of labels of each."""
    sizes = generator.integers(0, 9, size=counts.sum())
    labels = np.split(generator.integers(256, size=sizes.sum()).astype(np.uint8), np.cumsum(sizes))
    each = labels[: len(sizes)]
    if python:
        each = [(float(len(y)), (y.astype(np.int32), generator.normal(size=len(y)))) for y in each]
    outputs = each if python else np.concatenate([*each, np.empty(0, np.uint8)])
    blocks = np.repeat(np.arange(len(counts)), counts)
    return Support(blocks, generator.random(len(sizes)), outputs), each, sizes


def plain(output):
    """Return an output in a form that can be compared."""
    if isinstance(output, tuple):
        return output[0], output[1][0].tolist(), output[1][1].tolist()
    return output.tolist()


@pytest.mark.parametrize("python", [False, True])
def test_planes_come_back_and_waste_goes(python, generator):
    file, kept = PlaneFile(), {}
    for _ in range(30):
        examples = generator.choice(2000, size=600, replace=False)
        counts = generator.integers(0, 4, size=600)
        support, outputs, sizes = planes_of(counts, generator, python)
        file.take(examples, file.write(support, 600, sizes))
        at = np.concatenate([[0], np.cumsum(counts)])
        for k, i in enumerate(examples):
            own = slice(at[k], at[k + 1])
            kept[i] = list(zip(support.multipliers[own], map(plain, outputs[own]), strict=True))
    file.take(np.array([3, 5]))
    kept[3] = kept[5] = []
    assert file.wasteful
    for held in (file, file.compacted()):
        some = generator.permutation(2100)[:40]
        blocks, multipliers, outputs = held.read(some)
        wanted = [plane for i in some for plane in kept.get(i, [])]
        assert multipliers.tolist() == [a for a, _ in wanted]
        assert blocks.tolist() == [k for k, i in enumerate(some) for _ in kept.get(i, [])]
        texts = [output for _, output in wanted]
        if python:
            assert list(map(plain, outputs)) == texts
        else:
            assert outputs.tolist() == list(itertools.chain(*texts))
        other, _, sizes = planes_of(np.array([2]), generator, python)
        blocks, multipliers, _ = held.read_all(2100, np.array([5]), other, sizes)
        wanted = kept | {5: [(a, None) for a in other.multipliers]}
        wanted = [(i, a) for i in range(2100) for a, _ in wanted.get(i, [])]
        assert list(zip(blocks.tolist(), multipliers.tolist(), strict=True)) == wanted
        assert held.read(np.array([5]))[0].size == 0  # other examples leave nothing there
    assert not file.compacted().wasteful


def part_of(layout, X, Y, which):
    return Part(layout, *layout.copy(X, Y, which), which, np.ones(len(which)))


@pytest.mark.parametrize("kind", ["dense", "mostly zero", "csr", "ones"])
def test_rows_are_kept_closely(kind, generator):
    X = generator.normal(size=(50, 9)).astype(np.float32)
    if kind != "dense":
        X[generator.random((50, 9)) < 0.8] = 0
    if kind == "ones":
        X = (X != 0).astype(np.float32)
    given = sp.csr_matrix(X) if kind in ("csr", "ones") else X
    y = np.array(["a", "b", "c"])[generator.integers(3, size=50)]
    layout = layout_of(Multiclass(), given)
    parts = [part_of(layout, given, y, which) for which in (np.arange(20), np.array([30, 25, 49]))]
    kept = np.concatenate([np.arange(20), [30, 25, 49]])
    which = np.flatnonzero(generator.random(23) < 0.6)
    for rows in (kept, kept[which]):
        X_kept, y_kept = stacked_examples(parts)
        np.testing.assert_array_equal(np.vstack([dense(p) for p in X_kept.parts]), X[rows])
        np.testing.assert_array_equal(y_kept, y[rows])
        np.testing.assert_array_equal(np.concatenate([part.index for part in parts]), rows)
        assert sum(len(part.bytes_each) for part in parts) == len(rows)
        keep_only(parts, which)
        which = np.arange(len(which))
    assert layout.sparse == (kind != "dense")
    if kind == "ones":
        assert all(part.X.parts[0].data.base is not None for part in parts)
        other = part_of(Layout("rows"), sp.csr_matrix(2 * X), y, kept[: len(parts[0])])
        assert parts[0].bytes_each.sum() < other.bytes_each.sum()


@pytest.mark.parametrize("kind", ["chunks", "mapped"])
def test_sequences_are_kept(kind, generator):
    lengths = generator.integers(1, 6, size=30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows, codes = generator.normal(size=(offsets[-1], 4)), generator.integers(3, size=offsets[-1])
    X = [rows[a:b] for a, b in itertools.pairwise(offsets)]
    Y = [codes[a:b] for a, b in itertools.pairwise(offsets)]
    if kind == "mapped":
        parts = [rows[: offsets[10]], rows[offsets[10] :]]
        own = [codes[: offsets[10]].astype(np.int32), codes[offsets[10] :].astype(np.int32)]
        given = MappedSequences(parts, 4, offsets), CodedSequences(np.arange(3), own, offsets)
        source = Stored(Chain(), *given)
    else:
        source = Chunks(Chain(classes=range(3)), [(X[:17], Y[:17]), (X[17:], Y[17:])])
    known = np.array([4, 5, 29])
    found = list(source.parts(known, 1500.0))
    assert len(found) > 3 and source.layout.kind == "sequences"
    index = np.concatenate([part.index for part in found])
    np.testing.assert_array_equal(index, np.setdiff1d(np.arange(30), known))
    which = np.flatnonzero(generator.random(len(index)) < 0.5)
    keep_only(found, which)
    X_kept, Y_kept = stacked_examples(found)
    assert len(X_kept) == len(Y_kept) == len(which)
    for k, i in enumerate(index[which]):
        np.testing.assert_array_equal(X_kept[k], X[i])
        np.testing.assert_array_equal(Y_kept[k], Y[i])


def test_a_source_leaves_out_examples_without_weight(generator):
    X, weights = generator.normal(size=(40, 3)), np.arange(40) % 3.0
    source = Stored(Multiclass(), MappedRows([X], 3), np.arange(40) % 2, weights)
    chunks = list(source.parts(np.array([1, 2]), 10.0))
    index = np.concatenate([chunk.index for chunk in chunks])
    assert (weights[index] > 0).all() and {1, 2}.isdisjoint(index) and len(index) == 26 - 2
    # at least one per chunk, whatever its size
    assert all(len(chunk.index) == 1 for chunk in chunks)


def test_coded_labels_are_the_array(generator):
    classes = np.array(["no", "yes", "perhaps"])
    codes = [generator.integers(2, size=n).astype(np.int32) for n in (7, 0, 12)]
    own, array = CodedLabels(classes, codes), classes[np.concatenate(codes)]
    np.testing.assert_array_equal(own, array)
    np.testing.assert_array_equal(own == "no", array == "no")
    assert (
        own.tolist() == array.tolist() == list(own) and own[8] == array[8] and own[-1] == array[-1]
    )
    np.testing.assert_array_equal(own[3:9], array[3:9])
    assert (
        own.shape == array.shape
        and own.dtype == array.dtype
        and own.used().tolist() == ["no", "yes"]
    )
    labels = LabelSet(own)
    np.testing.assert_array_equal(labels.encode(own), labels.encode(array))
