"""Checks of rows and scores by scikit-learn, with errors that name the parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import check_scoring
from sklearn.utils.validation import validate_data

from maxmargin.data.arrays import check_columns, fault_of, unmasked
from maxmargin.metrics import get_scorer


@contextmanager
def naming(names: str) -> Iterator[None]:
    """Add the parameter names to scikit-learn errors that do not mention X or y."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if re.search(r"\b[Xy]\b", str(error)):
            raise
        kind = ValueError if isinstance(error, ValueError | OverflowError) else TypeError
        raise kind(f"{names}: {error}") from None


def score_of(score: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Compute a score with scikit-learn; its errors name the parameter."""
    y = unmasked(y, "y")
    with naming("y"), np.errstate(over="ignore", invalid="ignore"):
        return score(X, y, sample_weight)


def is_checked(svm: Any, X: Any, options: dict[str, Any]) -> bool:
    """Whether X and y already satisfy scikit-learn, whose checks take as long as a small fit."""
    values = stored_numbers(X)
    if values is None or values.dtype not in (np.float64, np.float32) or X.ndim != 2:
        return False
    known = options.get("reset", True) or getattr(svm, "n_features_in_", 0) == X.shape[1]
    if not known or hasattr(svm, "feature_names_in_") or "y_numeric" in options:
        return False
    if "y" in options:
        y = options["y"]
        labels = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu"
        if not labels or len(y) != X.shape[0]:
            return False
    elif values is not X:  # SciPy multiplies it unchecked; with y, the core checks it
        check_columns(X, "X")
    if not (min(X.shape) > 0 and values.flags.c_contiguous):
        return False
    if "y" in options and options.get("reset", True):  # the core checks all numbers
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def stored_numbers(X: Any) -> np.ndarray | None:
    """The numbers of an array or of a CSR matrix with 32-bit indices; None for other data."""
    if type(X) is np.ndarray:
        return X
    if type(X) not in (sp.csr_matrix, sp.csr_array):
        return None
    return X.data if X.indices.dtype == X.indptr.dtype == np.int32 else None


def check_rows(svm: Any, X: Any, **options: Any) -> Any:
    """Check X, and y if it is given, by scikit-learn; errors name the parameters."""
    if is_checked(svm, X, options):
        svm.n_features_in_ = X.shape[1]
        return (X, options["y"]) if "y" in options else X
    X = unmasked(X, "X")
    check_columns(X, "X")
    if "y" in options:
        options["y"] = unmasked(options["y"], "y")
    try:
        with naming("X or y" if "y" in options else "X"):
            return validate_data(
                svm, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **options
            )
    except ValueError:
        fault = fault_of(X)
        if not fault:
            raise
        raise ValueError(f"X: {fault}") from None


def scorer_of(estimator: Any, scoring: Any) -> Any:
    """Make a callable(estimator, X, Y) from the user's ``scoring``."""
    if isinstance(scoring, str) and not (is_classifier(estimator) or is_regressor(estimator)):
        return get_scorer(scoring)  # scores of outputs, or of their nodes
    return check_scoring(estimator, scoring)
