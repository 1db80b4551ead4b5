"""``certify``, ``objective`` and scores accept every input that ``fit`` accepts, for every estimator."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models

ROWS = {
    "array": lambda X: X,
    "single": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abc")),
    "pyarrow": lambda X: pa.table(dict(zip("abc", X.T, strict=True))),
}
NUMBERS = {
    "array": lambda y: y,
    "list": lambda y: y.tolist(),
    "pandas": pd.Series,
    "pyarrow": pa.array,
}
LABELS = NUMBERS | {
    "strings": lambda y: np.array(["no", "yes", "well"])[y],
    "objects": lambda y: np.array(["no", "yes", "well"], dtype=object)[y],
}
MARGINS = NUMBERS | {"none": lambda y: 1.0, "zero-dimensional": lambda y: np.array(0.5)}
SEQUENCES = {
    "arrays": lambda parts: parts,
    "tuple": tuple,
    "lists": lambda parts: [part.tolist() for part in parts],
    "objects": lambda parts: np.array([*parts, None], dtype=object)[:-1],
    "frames": lambda parts: [
        pd.DataFrame(part) if part.ndim > 1 else pd.Series(part) for part in parts
    ],
}


def check_door(svm, X, Y, scored=True, **weights):
    """All that reads X and Y takes what fit has taken, and sees the same problem."""
    quietly(lambda: svm.fit(X, Y, **weights))
    again = mm.certify(svm, X, Y)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    value = mm.objective(svm, svm._weights(), X, Y)
    assert value == pytest.approx(again.primal, rel=1e-9)
    if scored:
        assert np.isfinite(svm.score(X, Y))
    if hasattr(svm, "loss") and callable(svm.loss):
        assert np.isfinite(svm.loss(X, Y))


def rows(generator, classes):
    y = np.arange(18) % classes
    return generator.normal(size=(18, 3)) + np.eye(3)[y], y


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("labels", LABELS)
def test_classifiers(generator, form, labels):
    for kind in (mm.MulticlassSVC, mm.BinarySVC, mm.MulticlassLogistic):
        X, y = rows(generator, 2 if kind is mm.BinarySVC else 3)
        check_door(kind(C=0.5), ROWS[form](X), LABELS[labels](y))


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("numbers", MARGINS)
def test_numbers_to_be_met(generator, form, numbers):
    X, y = generator.normal(size=(18, 3)), generator.normal(size=18)
    check_door(mm.GeneralizedSVM(), ROWS[form](X), MARGINS[numbers](y), scored=False)
    if numbers in NUMBERS:
        check_door(mm.RegressionSVR(), ROWS[form](X), MARGINS[numbers](y))


def test_one_margin_for_groups_of_constraints():
    X = np.array([[1.0, 0], [0.5, 1], [-1, 2]])
    check_door(mm.GeneralizedSVM(C=2.0), X, 1.0, scored=False, groups=[0, 2, 3])


@pytest.mark.parametrize("form", SEQUENCES)
@pytest.mark.parametrize("labels", SEQUENCES)
def test_sequences(generator, form, labels):
    X = [generator.normal(size=(n, 3)) for n in (2, 3, 1, 4)]
    Y = [np.arange(len(x)) % 2 for x in X]
    for kind in (mm.StructuralSVM, mm.CRF):
        check_door(kind(models.Chain()), SEQUENCES[form](X), SEQUENCES[labels](Y))


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("labels", LABELS)
def test_flat_models(generator, form, labels):
    X, y = rows(generator, 3)
    check_door(mm.StructuralSVM(models.Multiclass()), ROWS[form](X), LABELS[labels](y))


def test_attributes(generator):
    words = [{"word": str(n % 5), "size": float(n % 3)} for n in range(18)]
    check_door(mm.MulticlassSVC(), words, np.arange(18) % 3)
    check_door(mm.CRF(models.Chain()), [words[:4], words[4:9]], [["a"] * 4, ["b", "a"] * 2 + ["b"]])


@pytest.mark.parametrize(
    "Y",
    [
        [[0, 1], [1], [0]],
        np.array([[1, 1], [0, 1], [1, 0]]),
        sp.csr_matrix([[1, 1], [0, 1], [1, 0]]),
    ],
)
def test_sets_of_labels(generator, Y):
    check_door(mm.StructuralSVM(models.MultiLabel("all")), generator.normal(size=(3, 2)), Y)


def test_unknown_labels(generator):
    X = [generator.normal(size=(n, 3)) for n in (2, 3, 2)]
    Y = [["a", None], ["b", "a", None], ["b", "b"]]
    for svm in (mm.LatentSVM(models.Partial(models.Chain())), mm.CRF(models.Chain())):
        check_door(svm, X, Y)


def test_chunks_are_for_fit_alone(generator):
    X, y = rows(generator, 3)
    svm = quietly(lambda: mm.MulticlassSVC(solver="streaming").fit(X, y))
    for call in (mm.certify, lambda svm, X, Y: mm.objective(svm, svm.w_, X, Y)):
        with refusal("Y must be given", "all examples at once"):
            call(svm, [(X, y)], None)
