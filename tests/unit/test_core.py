"""The compiled core: instruction sets agree, no copies, outputs stored as labels, the GIL is released."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from helpers import quietly
from maxmargin import _core, models
from maxmargin.data.synthetic import random_chains, words_of_letters
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state

TRAIN = """
import json, numpy as np, maxmargin as mm
from maxmargin import models, _core
from maxmargin.data.synthetic import random_chains, random_multiclass
X, Y = random_chains(30, 5, 7, random_state=3)
chain = mm.StructuralSVM(models.Chain(start=True, end=True), C=0.3, tol=1e-9, random_state=0).fit(X, Y)
X, y = random_multiclass(60, 11, 9, random_state=3)
flat = mm.MulticlassSVC(C=0.3, tol=1e-9, random_state=0).fit(X, y)
print(json.dumps([_core.core.name, chain.certificate_.primal, flat.certificate_.primal,
                  chain.coef_.tolist(), flat.coef_.ravel().tolist()]))
"""


def trained(level):
    environment = {**os.environ, "MAXMARGIN_SIMD": level}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(len(_core.available()) < 2, reason="this machine runs one instruction set only")
def test_instruction_sets_agree():
    first, second = (trained(level) for level in _core.available())
    assert first[0] != second[0]
    np.testing.assert_allclose(first[1:3], second[1:3], rtol=1e-9)
    for a, b in zip(first[3:], second[3:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_unknown_instruction_set_is_refused():
    with pytest.raises(ValueError, match="MAXMARGIN_SIMD"):
        _core.load_core("v99")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_input_that_fits_is_not_copied(generator, dtype):
    X = [generator.normal(size=(4, 6)).astype(dtype) for _ in range(5)]
    model = models.Chain()
    Y = [[0, 1, 0, 1]] * 5
    model.initialize(X, Y)
    rows = model.bind(X, Y).rows
    assert all(kept is given for kept, given in zip(rows.keep, X, strict=True))
    assert rows.core.owned_bytes == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_input_that_fits_is_not_copied(generator, dtype):
    X = sp.random(20, 30, density=0.2, format="csr", dtype=dtype, random_state=0)
    model = models.Multiclass()
    y = np.arange(20) % 3
    model.initialize(X, y)
    rows = model.bind(X, y).rows
    assert np.shares_memory(rows.keep[0].data, X.data)
    assert np.shares_memory(rows.keep[0].indices, X.indices)
    assert rows.core.owned_bytes == 0


@pytest.mark.parametrize(("columns", "kind", "width"), [(256, "bytes", 1), (257, "binary", 4)])
@pytest.mark.parametrize("bias", [None, 1.0])
def test_ones_among_zeros_are_walked_by_index_list(generator, columns, kind, width, bias):
    X = [(generator.random((5, columns)) < 0.2).astype(float) for _ in range(20)]
    X[0][0, -1] = 1.0
    X[1][2] = 0.0
    Y = [generator.integers(4, size=5).tolist() for _ in X]
    model = models.Chain(bias=bias)
    model.initialize(X, Y)
    dense, sparse = model.bind(X, Y), model.bind([sp.csr_matrix(x) for x in X], Y)
    assert (dense.rows.core.kind, sparse.rows.core.kind) == (kind, "binary")
    assert dense.rows.core.owned_bytes == width * sum(int(x.sum()) for x in X)
    w = generator.normal(size=dense.dimension)
    assert (dense.slacks(w)[0] == sparse.slacks(w)[0]).all()
    fits = [
        mm.StructuralSVM(models.Chain(bias=bias), random_state=0).fit(data, Y)
        for data in (X, [sp.csr_matrix(x) for x in X])
    ]
    assert (fits[0].coef_ == fits[1].coef_).all()


def test_true_labels_outside_of_the_model_are_refused():
    X, Y = words_of_letters(3, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    rows = model.bind(X, Y).rows
    offsets, ends = np.array([0, rows.core.n_rows]), np.full(rows.core.n_rows, 2, np.int32)
    with pytest.raises(ValueError, match="no such label"):
        _core.core.ChainData(
            rows.core.rows,
            2,
            False,
            False,
            offsets,
            ends,
            np.empty(0),
            np.ones(2),
            False,
            np.empty(0, np.int64),
            None,
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_with_many_zeros_are_walked_by_index_list(generator, dtype):
    X = np.where(generator.random((40, 30)) < 0.2, generator.normal(size=(40, 30)), 0).astype(dtype)
    y = np.arange(40) % 3
    model = models.Multiclass(bias=1.0)
    model.initialize(X, y)
    dense, sparse = model.bind(X, y), model.bind(sp.csr_matrix(X), y)
    assert dense.rows.core.kind == sparse.rows.core.kind
    assert dense.rows.core.owned_bytes == (4 + dtype().nbytes) * np.count_nonzero(X)
    w = generator.normal(size=dense.dimension)
    assert (dense.slacks(w)[0] == sparse.slacks(w)[0]).all()


def test_kept_outputs_cost_their_labels():
    X, Y = random_chains(50, 5, 400, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    state = open_state(problem, 1e-3, np.random.default_rng(0))
    for _ in range(5):
        state.visit(problem.active)
    blocks = np.array([len(y) for y in Y])
    longest = int(blocks.max())
    # An output takes a byte per label, sixteen bytes for the multiplier and its age, and distances
    # to at most five other outputs; two outputs share a distance. A vector would take 8 * 2000
    # bytes.
    allocator = 3 * 32 * len(Y)
    assert state.core.bytes_kept <= state.n_planes * (16 + longest + 8 * 5 / 2) + allocator


def test_a_lean_state_keeps_outputs_alone():
    X, Y = random_chains(50, 5, 8, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=30.0)
    lean, plain = (
        open_state(problem, 1e-3, np.random.default_rng(0), lean=lean) for lean in (True, False)
    )
    for _ in range(8):
        for state in (lean, plain):
            state.visit(problem.active)
    assert lean.dual() == pytest.approx(plain.dual(), rel=1e-6)
    assert lean.n_planes == plain.n_planes > 2 * len(Y)
    # Without distances, an output takes sixteen bytes plus its labels; a block has two allocations.
    longest, allocator = max(len(y) for y in Y), 2 * 24 * len(Y)
    most = lean.n_planes * (16 + longest) + allocator
    assert lean.core.bytes_kept <= most < plain.core.bytes_kept


@pytest.mark.parametrize("seed", range(3))
def test_gains_add_up_while_outputs_come_and_go(seed):
    # Steps use the stored distances between outputs, so a wrong one would show in the gain.
    X, Y = random_chains(40, 5, 8, random_state=seed)
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=30.0)
    state = open_state(problem, 1e-3, np.random.default_rng(seed))
    most = 0
    for _ in range(15):
        for oracle in (True, False, False):
            before, planes = state.dual(), state.n_planes
            visit = state.visit(problem.active, oracle=oracle, keep=1)
            most = max(most, planes)
            assert state.dual() - before == pytest.approx(visit.gain, rel=1e-5, abs=1e-7)
    assert state.n_planes < most  # some outputs were dropped


def test_other_threads_run_while_the_core_trains():
    X, Y = words_of_letters(600, random_state=0)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.perf_counter()
    try:
        svm = mm.StructuralSVM(models.Chain(), tol=1e-9, max_seconds=0.5, solver="sda")
        quietly(lambda: svm.fit(X, Y))
    finally:  # stop the thread in any case, else it runs on
        stop.set()
        thread.join()
    ended = time.perf_counter()
    inside = [t for t in ticks if began < t < ended]
    assert len(inside) >= 10


DENSE = np.ones((2, 3))
WRONG_ARRAYS = {
    "type": (DENSE.astype(np.float32), TypeError),
    "whole numbers": (DENSE.astype(np.int64), TypeError),
    "byte order": (DENSE.astype(">f8"), TypeError),
    "dimensions": (DENSE.ravel(), TypeError),
    "columns": (DENSE[:, :2].copy(), ValueError),
    "columns apart": (np.ones((2, 6))[:, ::2], ValueError),
    "not aligned": (
        np.frombuffer(b"x" + DENSE.tobytes(), np.uint8)[1:].view(float).reshape(2, 3),
        TypeError,
    ),
    "no array": ([[1.0, 2.0, 3.0]], TypeError),
}


@pytest.mark.parametrize("name", WRONG_ARRAYS)
def test_the_core_reads_no_array_of_another_kind_than_the_first(name):
    """The binding checks this; otherwise the core would read beyond the end of an array."""
    array, error = WRONG_ARRAYS[name]
    read = _core.core.dense64([DENSE, DENSE], 3, 0.0, False, 1)
    assert read.n_rows == 4
    with pytest.raises(error):
        _core.core.dense64([DENSE, array], 3, 0.0, False, 1)


def unaligned(array):
    """Return the same numbers at an odd address."""
    return (
        np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_that_are_not_aligned_are_copied(seed, sparse):
    """Arrays from messages between machines are unaligned."""
    X, Y = random_chains(20, 3, 5, sparse=sparse, random_state=seed)
    wanted = mm.StructuralSVM(models.Chain(), random_state=0).fit(X, Y)
    for x in X:
        if sparse:
            x.data, x.indices, x.indptr = map(unaligned, (x.data, x.indices, x.indptr))
    given = X if sparse else [unaligned(x) for x in X]
    assert not (given[0].data if sparse else given[0]).flags.aligned
    found = mm.StructuralSVM(models.Chain(), random_state=0).fit(given, Y)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


def test_the_core_reads_no_sparse_matrix_whose_arrays_do_not_fit():
    parts = {
        "data": np.ones(2),
        "indices": np.array([0, 1], np.int32),
        "indptr": np.array([0, 1, 2], np.int32),
    }

    def read(**others):
        return _core.core.sparse64(*([array] for array in (parts | others).values()), 2, 0.0, 1)

    assert read().n_rows == 2 and read(indptr=np.array([], np.int32)).n_rows == 0
    assert read(indptr=np.array([0], np.int32)).n_rows == 0
    for others in (
        {"data": np.ones(3)},
        {"indptr": np.array([0, 3], np.int32)},
        {"indptr": np.array([0, 2, 1], np.int32)},
        {"indptr": np.array([-1, 1], np.int32)},
    ):
        with pytest.raises(ValueError, match="do not fit"):
            read(**others)
    for others in ({"indices": np.array([0, 1])}, {"data": np.ones(2, np.float32)}):
        with pytest.raises(TypeError):
            read(**others)
    with pytest.raises(ValueError, match="three arrays"):
        _core.core.sparse64([parts["data"]], [], [], 2, 0.0, 1)


LARGE = 700, 300  # large enough for several threads


def large_table(kind, seed):
    """Return a table that several threads read in parts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=LARGE)
    if kind != "dense":
        X *= rng.random(LARGE) < 0.1
    if kind in ("ones", "few ones"):
        X = (X != 0).astype(float)
    return np.ascontiguousarray(X[:, :200]) if kind == "few ones" else X


@pytest.mark.parametrize("type_", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "zeros", "ones", "few ones"])
def test_several_threads_read_the_same_rows(kind, type_, seed):
    X = large_table(kind, seed).astype(type_)
    w = np.random.default_rng(seed).normal(size=X.shape[1])
    read = _core.core.dense32 if type_ is np.float32 else _core.core.dense64
    parts = [X[:1], X[1:450], X[450:]]
    one, *others = (read(parts, X.shape[1], 0.0, False, threads) for threads in (1, 2, 3))
    kinds = {"dense": "dense", "zeros": "sparse", "ones": "binary", "few ones": "bytes"}
    assert one.kind.startswith(kinds[kind])
    for found in others:
        assert found.kind == one.kind and found.owned_bytes == one.owned_bytes
        np.testing.assert_array_equal(found.norms(), one.norms())
        np.testing.assert_array_equal(found.rows.scores(w, 1), one.rows.scores(w, 1))
    np.testing.assert_allclose(one.rows.scores(w, 1), X.astype(float) @ w, atol=1e-6)


def test_several_threads_read_the_same_sparse_rows(seed):
    X = sp.csr_matrix(np.repeat(large_table("zeros", seed), 4, axis=0))
    w = np.random.default_rng(seed).normal(size=X.shape[1])
    arrays = [X.data], [X.indices.astype(np.int32)], [X.indptr.astype(np.int32)]
    one, two = (_core.core.sparse64(*arrays, X.shape[1], 1.0, threads) for threads in (1, 2))
    np.testing.assert_array_equal(two.norms(), one.norms())
    assert two.sorted and two.in_range and two.kind == one.kind == "sparse64"
    w = np.append(w, 0.5)
    np.testing.assert_array_equal(two.rows.scores(w, 1), one.rows.scores(w, 1))
    last = X.indptr[-2]
    arrays[1][0][last:] = arrays[1][0][last:][::-1]
    assert not _core.core.sparse64(*arrays, X.shape[1], 1.0, 2).sorted
    arrays[1][0][last] = X.shape[1]
    assert not _core.core.sparse64(*arrays, X.shape[1], 1.0, 2).in_range


@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse"])
def test_the_first_row_that_is_not_finite_is_named_by_any_number_of_threads(kind, seed):
    X = large_table(kind, seed)
    X[[350, 699], [7, 8]] = np.nan, np.inf
    y = np.arange(len(X)) % 2
    X = sp.csr_matrix(np.repeat(X, 4, axis=0)) if kind == "sparse" else X
    row, y = (1400, np.repeat(y, 4)) if kind == "sparse" else (350, y)
    for n_jobs in (1, 2, 3):
        svm = mm.StructuralSVM(models.Multiclass(), n_jobs=n_jobs)
        with pytest.raises(ValueError, match=f"row {row}, contains NaN"):
            svm.fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_several_threads_read_what_is_predicted(seed, sparse):
    sizes = {"min_length": 12, "max_length": 20, "sparse": sparse}
    X, Y = random_chains(300, 4, 60, random_state=seed, **sizes)
    assert sum(x.nnz if sparse else x.size for x in X) > 2 * 65_536
    svm = mm.StructuralSVM(models.Chain(), max_passes=3)
    quietly(lambda: svm.fit(X, Y))
    alone = svm.predict(X)
    for a, b in zip(alone, svm.set_params(n_jobs=3).predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_sparse_examples_are_tables():
    if sp.csr_array(np.ones(2)).ndim != 1:
        pytest.skip("this SciPy has no sparse array of one dimension")
    X, Y = random_chains(3, 2, 4, sparse=True, random_state=0)
    X[1] = sp.csr_array(X[1].toarray()[0])
    with pytest.raises(ValueError, match=r"X\[1\] must have two dimensions"):
        mm.StructuralSVM(models.Chain()).fit(X, Y)


def test_rows_that_are_not_sorted_are_sorted_once():
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1], dtype=np.int32), np.array([0, 2, 3])),
        shape=(2, 3),
    )
    dense = X.toarray()
    model = models.Multiclass()
    model.initialize(X, [0, 1])
    w = np.arange(6.0)
    assert mm.objective(model, w, X, [0, 1]) == mm.objective(model, w, dense, [0, 1])


@pytest.mark.parametrize("rule", ["wss2", "mvp", "frank-wolfe"])
@pytest.mark.parametrize("length", [5, 90])
@pytest.mark.parametrize("features", ["all", "observed"])
def test_gain_of_a_pass_is_the_rise_of_the_dual(generator, rule, length, features):
    # Long and short moves measure their length by different code; a wrong length would show in the gain.
    X = [sp.random(length, 6, 0.5, "csr", random_state=seed) for seed in range(4)]
    Y = [generator.integers(0, 4, length) for _ in X]
    model = models.Chain(bias=0.5, start=True, end=True, features=features)
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=0.05)
    state = open_state(problem, 1e-9, np.random.default_rng(0))
    before = state.dual()
    for _ in range(6):
        visit = state.visit(problem.active, rule=rule)
        after = state.dual()
        assert after - before == pytest.approx(visit.gain, rel=1e-5, abs=1e-9)
        before = after


def test_a_w_of_many_pages_is_the_sum_of_its_planes(generator):
    """Sums in the core's layout free their memory while they move to the order of coef_."""
    features, X, Y = 60_000, [], []
    for _ in range(12):
        X.append(sp.random_array((6, features), density=1e-3, format="csr", rng=generator))
        Y.append(generator.integers(4, size=6))
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    state = open_state(problem, 1e-3, generator)
    state.visit(problem.active)
    support = state.support()
    expected, at = np.zeros(problem.dimension), 0
    for i, a in zip(support.blocks, support.multipliers, strict=True):
        y = model.classes_[support.outputs[at : at + 6]]
        expected += a * (model.joint_feature(X[i], Y[i]) - model.joint_feature(X[i], y))
        at += 6
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(state.weights(), expected, atol=1e-12)
    np.testing.assert_allclose(problem.plane(support)[1], -expected, atol=1e-12)
