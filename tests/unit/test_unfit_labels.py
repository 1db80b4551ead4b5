"""Values that cannot be labels are refused by fit, with the place of the first one."""

import numpy as np
import pandas as pd
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import models

ROWS = np.arange(8.0).reshape(4, 2)
SEQUENCES = [ROWS[:2], ROWS[2:]]
NUL = ("NUL", "remove it")
FLAT = (mm.MulticlassSVC, mm.BinarySVC, mm.MulticlassLogistic)


@pytest.mark.parametrize("kind", FLAT)
@pytest.mark.parametrize("form", [list, tuple, pd.Series, lambda y: np.array(y, dtype=object)])
def test_a_text_that_ends_with_nul(kind, form):
    with refusal(r"[yY]\[2\]: 'a\\x00'", *NUL):
        kind().fit(ROWS, form(["b", "b", "a\0", "b"]))


@pytest.mark.parametrize("kind", [mm.StructuralSVM, mm.CRF])
@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object)])
def test_a_text_that_ends_with_nul_in_a_sequence(kind, form):
    with refusal(r"Y\[1\]\[1\]: 'a\\x00'", *NUL):
        kind(models.Chain()).fit(SEQUENCES, [form(["a", "b"]), form(["b", "a\0"])])
    with refusal("classes", r"'a\\x00'", *NUL):
        kind(models.Chain(classes=["a\0", "b"])).fit(SEQUENCES, [["a", "b"], ["b", "a"]])


@pytest.mark.parametrize("missing", [np.nan, float("nan"), pd.NA, pd.NaT])
def test_what_says_that_a_value_is_missing(missing):
    with refusal(r"Y\[1\]\[1\]", "cannot be a label"):
        mm.StructuralSVM(models.Chain()).fit(SEQUENCES, [["a", "b"], ["b", missing]])
    with refusal(r"Y\[3\]", "cannot be a label"):
        mm.StructuralSVM(models.Multiclass()).fit(ROWS, ["a", "b", "b", missing])


def test_nan_in_arrays_of_numbers():
    with refusal(r"Y\[1\]\[1\]: nan", "cannot be a label"):
        Y = [np.array([1.0, 2.0]), np.array([1.0, np.nan])]
        mm.StructuralSVM(models.Chain()).fit(SEQUENCES, Y)
    with refusal(r"Y\[3\]: nan", "cannot be a label"):
        mm.StructuralSVM(models.Multiclass()).fit(ROWS, np.array([1, 2, 2, np.nan]))


def test_labels_of_nodes_and_of_sets():
    with refusal(r"Y\[0\]\[2\]: 'a\\x00'", *NUL):
        edges = np.array([[0, 1]])
        mm.StructuralSVM(models.FactorGraph()).fit([(ROWS, edges)], [["a", "b", "a\0", "b"]])
    with refusal(r"Y\[2\]\[0\]: 'a\\x00'", *NUL):
        mm.StructuralSVM(models.MultiLabel()).fit(ROWS, [["a"], ["b"], ["a\0"], ["b"]])
