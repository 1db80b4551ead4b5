"""The fast path through the checks of flat problems gives the same answers and the same errors."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin._core import core
from maxmargin.data.labels import LabelSet, distinct_labels


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
def test_whole_labels_are_counted_at_both_ends_of_their_type(kind):
    rng, info = np.random.default_rng(0), np.iinfo(kind)
    ends = [(0, 5), (info.min, info.min + 100), (info.max - 100, info.max), (info.min, info.max)]
    for low, high in ends:
        y = rng.integers(low, high, 50, dtype=kind, endpoint=True)
        found = distinct_labels(y)
        assert found.dtype == y.dtype
        np.testing.assert_array_equal(found, np.unique(y))
        labels = LabelSet(y)
        np.testing.assert_array_equal(labels.decode(labels.encode(y)), y)


def test_a_whole_label_that_is_not_in_the_set_has_no_code():
    labels = LabelSet(np.array([1, 3, 7]))
    np.testing.assert_array_equal(labels.encode(np.array([3, 2, 8, 0, 7])), [1, -1, -1, -1, 2])
    np.testing.assert_array_equal(labels.encode(np.array([7, 2])), [2, -1])


def rows() -> tuple[sp.csr_matrix, np.ndarray]:
    X = sp.random(40, 30, 0.3, "csr", random_state=0)
    return X, (np.asarray(X[:, :3].sum(axis=1)).ravel() > 0.3).astype(int)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_numbers_of_a_csr_matrix_that_are_not_finite_or_too_large_are_refused(value):
    X, y = rows()
    X.data[17] = value
    with pytest.raises(ValueError, match="X"):
        mm.BinarySVC().fit(X, y)


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("column", [-1, 30])
def test_a_column_of_a_csr_matrix_outside_its_shape_is_refused(place, column):
    X, y = rows()
    fitted = mm.BinarySVC().fit(X, y)
    X.indices[X.indptr[4] if place == 0 else X.indptr[5] - 1] = column
    with pytest.raises(ValueError, match="column index outside"):
        mm.BinarySVC().fit(X, y)
    with pytest.raises(ValueError, match="column index outside"):
        fitted.predict(X)


@pytest.mark.parametrize("columns", [65_536, 65_537])
def test_rows_with_short_and_with_long_indices_have_the_same_solution(columns):
    X, y = rows()
    far = sp.csr_matrix((X.data, X.indices + columns - 30, X.indptr), (40, columns))
    near = mm.BinarySVC(C=10.0, tol=1e-3, random_state=0).fit(far[:, -30:], y)
    svm = mm.BinarySVC(C=10.0, tol=1e-3, random_state=0).fit(far, y)
    assert svm.certificate_.converged
    assert svm.certificate_.primal <= near.certificate_.dual + 2e-3 * 10.0 * len(y)


def test_unsorted_and_repeated_columns_are_read_as_scipy_reads_them():
    X, y = rows()
    turned = X.copy()
    for r in range(40):
        a, b = X.indptr[r], X.indptr[r + 1]
        turned.indices[a:b], turned.data[a:b] = X.indices[a:b][::-1], X.data[a:b][::-1]
    turned.has_sorted_indices = False
    expected = mm.BinarySVC(random_state=0).fit(X, y)
    np.testing.assert_array_equal(mm.BinarySVC(random_state=0).fit(turned, y).coef_, expected.coef_)


def test_the_core_reads_labels_in_lists_as_dicts_do():
    sequences = [["B", "O"], [], ["O", "A", "B"]]
    assert list(core.distinct_labels(sequences)) == ["B", "O", "A"]
    learnt = LabelSet.learn(sequences, nested=True)
    assert learnt.classes.tolist() == ["A", "B", "O"]
    asked = [["O", "?"], ["A"]]
    assert learnt.encode_sequences(asked).tolist() == [2, -1, 0]
    assert learnt.encode_sequences([tuple(y) for y in asked]).tolist() == [2, -1, 0]
    assert core.label_codes([[True, 0.0, 2]], {1: 5, 0: 7}).tolist() == [5, 7, -1]
    for read in (LabelSet.learn, lambda Y, nested: learnt.encode_sequences(Y)):
        with pytest.raises(ValueError, match="Y: labels must be hashable"):
            read([["A"], [["A"], "B"]], nested=True)


def test_a_fit_names_the_row_of_a_number_that_is_not_finite():
    X = np.ones((6, 3))
    X[4, 1] = np.nan
    for rows in (X, sp.csr_matrix(X), X.astype(np.float32)):
        with pytest.raises(ValueError, match="X, row 4, contains NaN"):
            mm.BinarySVC().fit(rows, np.array([0, 1, 0, 1, 0, 1]))
