"""Thousands of classes: the zero-one loss needs no matrix over all pairs, in memory or in a file."""

import os
import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import losses, models
from maxmargin.io.model_file import read, write

MANY = """
import resource, warnings
import numpy as np, maxmargin as mm
from maxmargin import models
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
warnings.simplefilter("ignore")
K = 20_000
X, y = np.random.default_rng(0).normal(size=(K, 4)), np.arange(K)
svm = mm.StructuralSVM(models.Multiclass(), solver="sda", max_passes=1, max_seconds=3.0).fit(X, y)
assert svm.model_.cost_.shape == (K,)
svm.save("{path}")
assert len(mm.load("{path}").predict(X[:3])) == 3
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of memory as Linux has them"
)
def test_twenty_thousand_classes_in_two_gigabytes(tmp_path):
    """A cost matrix alone would take 3.2 GB, and its file just as much."""
    path = tmp_path / "many.safetensors"
    code = MANY.format(limit=2 * 2**30, path=path)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads reserve memory
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert path.stat().st_size < 10 * 2**20


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("hinge", ["max", "sum"])
def test_costs_per_true_label_are_those_of_the_matrix(rescaling, hinge, generator):
    X, y = generator.normal(size=(40, 3)), np.arange(40) % 4
    per_label = generator.uniform(0.5, 2.0, size=4)
    matrix = np.where(np.eye(4) > 0, 0.0, per_label[:, None])
    options = {"C": 0.5, "rescaling": rescaling, "hinge": hinge, "tol": 1e-7, "random_state": 0}
    short = mm.StructuralSVM(models.Multiclass(per_label), **options).fit(X, y)
    full = mm.StructuralSVM(models.Multiclass(matrix), **options).fit(X, y)
    np.testing.assert_array_equal(short.coef_, full.coef_)
    assert short.loss(X, y) == full.loss(X, y)


def test_files_with_a_matrix_of_the_zero_one_loss_still_load(generator, tmp_path):
    """Older files store a (K, K) cost matrix for the zero-one loss."""
    X, y = generator.normal(size=(30, 3)), np.arange(30) % 3
    svm = mm.StructuralSVM(models.Multiclass(), random_state=0).fit(X, y)
    svm.save(tmp_path / "new")
    header, arrays = read(tmp_path / "new")
    name = next(name for name in arrays if name.endswith("cost"))
    write(tmp_path / "old", header, {**arrays, name: 1.0 - np.eye(3)})
    old = mm.load(tmp_path / "old")
    np.testing.assert_array_equal(old.predict(X), svm.predict(X))
    assert old.loss(X, y) == svm.loss(X, y)
    assert old.fit(X, y).certificate_.primal == svm.certificate_.primal


def test_a_matrix_made_of_anything():
    classes = np.array(["a", "b", "c"])
    unit = 1.0 - np.eye(3)
    np.testing.assert_array_equal(losses.cost_matrix(None, classes), unit)
    np.testing.assert_array_equal(
        losses.cost_matrix({"a": 1, "b": 2, "c": 3}, classes), [[0, 1, 1], [2, 0, 2], [3, 3, 0]]
    )
    np.testing.assert_array_equal(losses.cost_matrix(5 * unit, classes), 5 * unit)
