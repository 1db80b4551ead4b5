"""Examples in memory, planes in files, labels as codes: what was put in comes out again."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data.labels import CodedLabels, CodedSequences, LabelSet
from maxmargin.data.mapped import MappedRows, MappedSequences
from maxmargin.data.scratch import LEAST, Blobs, PlaneFile, ScratchArray, ranges
from maxmargin.data.source import Stored
from maxmargin.data.store import Store, bytes_of, kind_of
from maxmargin.solvers.window import blobs_of, outputs_of


def dense(x):
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def test_ranges():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.empty(0), np.empty(0)).tolist() == []


def test_a_scratch_array_grows(generator):
    array, parts = ScratchArray(np.int32), []
    for _ in range(5):
        parts.append(generator.integers(100, size=LEAST // 2).astype(np.int32))
        assert array.append(parts[-1]) == sum(map(len, parts[:-1]))
        np.testing.assert_array_equal(array.array(), np.concatenate(parts))
    array.resize(10 * LEAST)
    assert not array.array()[5 * LEAST :].any()


def test_planes_come_back_and_waste_goes(generator):
    file, kept = PlaneFile(), {}
    for _ in range(30):
        examples = generator.choice(2000, size=600, replace=False)
        counts = generator.integers(0, 4, size=600)
        lengths = generator.integers(0, 9, size=counts.sum())
        data = generator.integers(256, size=lengths.sum()).astype(np.uint8)
        multipliers = generator.random(counts.sum())
        file.take(examples, file.write(counts, multipliers, Blobs(data, lengths)))
        pieces = np.split(data, np.cumsum(lengths)[:-1]) if len(lengths) else []
        at = np.concatenate([[0], np.cumsum(counts)])
        for k, i in enumerate(examples):
            own = slice(at[k], at[k + 1])
            kept[i] = list(zip(multipliers[own], [p.tobytes() for p in pieces[own]], strict=True))
    file.clear(np.array([3, 5]))
    kept[3] = kept[5] = []
    assert file.wasteful
    for held in (file, file.compacted()):
        some = generator.permutation(2100)
        counts, multipliers, blobs = held.read(some)
        texts = np.split(blobs.data, np.cumsum(blobs.lengths)[:-1])
        at = np.concatenate([[0], np.cumsum(counts)])
        for k, i in enumerate(some):
            found = zip(multipliers, texts, strict=True)
            own = [(m, t.tobytes()) for m, t in list(found)[at[k] : at[k + 1]]] if k < 40 else None
            assert own is None or own == kept.get(i, [])
        assert counts.sum() == sum(map(len, kept.values()))
    assert not file.compacted().wasteful


@pytest.mark.parametrize("kind", ["dense", "mostly zero", "csr", "ones"])
def test_rows_are_kept_closely(kind, generator):
    X = generator.normal(size=(50, 9)).astype(np.float32)
    if kind != "dense":
        X[generator.random((50, 9)) < 0.8] = 0
    if kind == "ones":
        X = (X != 0).astype(np.float32)
    given = sp.csr_matrix(X) if kind in ("csr", "ones") else X
    y = np.array(["a", "b", "c"])[generator.integers(3, size=50)]
    store = Store(kind_of(given, True))
    for which in (np.arange(20), np.array([30, 25, 49])):
        store.parts.append(store.copy_of(given, y, which))
    kept = np.concatenate([np.arange(20), [30, 25, 49]])
    mask = generator.random(23) < 0.6
    for rows in (kept, kept[mask]):
        X_kept, y_kept = store.joined()
        np.testing.assert_array_equal(np.vstack([dense(p) for p in X_kept.parts]), X[rows])
        np.testing.assert_array_equal(y_kept, y[rows])
        assert len(store.bytes_each()) == len(rows)
        store.keep(mask)
        mask = np.ones(len(store), bool)
    assert store.sparse == (kind != "dense")
    if kind == "ones":
        assert all(part.X.data.base is not None for part in store.parts)
        assert (
            bytes_of(store.parts[0]).sum()
            < bytes_of(
                Store("rows").copy_of(sp.csr_matrix(2 * X), y, kept[: len(store.parts[0])])
            ).sum()
        )


@pytest.mark.parametrize("kind", ["list", "mapped"])
def test_sequences_are_kept(kind, generator):
    lengths = generator.integers(1, 6, size=30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows, codes = generator.normal(size=(offsets[-1], 4)), generator.integers(3, size=offsets[-1])
    X = [rows[a:b] for a, b in itertools.pairwise(offsets)]
    Y = [codes[a:b] for a, b in itertools.pairwise(offsets)]
    given = X, Y
    if kind == "mapped":
        parts = [rows[: offsets[10]], rows[offsets[10] :]]
        own = [codes[: offsets[10]].astype(np.int32), codes[offsets[10] :].astype(np.int32)]
        given = MappedSequences(parts, 4, offsets), CodedSequences(np.arange(3), own, offsets)
    source = Stored(*given, None, False)
    store = source.store()
    known = np.array([4, 5, 29])
    found = list(source.chunks(store, known, 1500.0))
    assert len(found) > 3 and store.kind == "sequences"
    index = np.concatenate([chunk.index for chunk in found])
    np.testing.assert_array_equal(index, np.setdiff1d(np.arange(30), known))
    store.parts = [chunk.part for chunk in found]
    mask = generator.random(len(index)) < 0.5
    store.keep(mask)
    X_kept, Y_kept = store.joined()
    assert len(X_kept) == len(Y_kept) == mask.sum()
    for k, i in enumerate(index[mask]):
        np.testing.assert_array_equal(X_kept[k], X[i])
        np.testing.assert_array_equal(Y_kept[k], Y[i])


def test_a_source_leaves_out_examples_without_weight(generator):
    X, weights = generator.normal(size=(40, 3)), np.arange(40) % 3.0
    source = Stored(MappedRows([X], 3), np.arange(40) % 2, weights, True)
    chunks = list(source.chunks(source.store(), np.array([1, 2]), 10.0))
    index = np.concatenate([chunk.index for chunk in chunks])
    assert (weights[index] > 0).all() and {1, 2}.isdisjoint(index) and len(index) == 26 - 2
    assert all(len(chunk.index) == 1 for chunk in chunks)  # at least one, whatever it takes


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


def test_outputs_of_python_models_are_bytes_and_back(generator):
    planes = []
    for n in (0, 3, 1):
        index = np.sort(generator.choice(50, size=n, replace=False)).astype(np.int32)
        planes.append((float(n), (index, generator.normal(size=n))))
    found = outputs_of(blobs_of(planes, np.ones(3, np.int64)), None)
    for (offset, (index, value)), (o, (i, v)) in zip(planes, found, strict=True):
        assert offset == o
        np.testing.assert_array_equal(index, i)
        np.testing.assert_array_equal(value, v)
