"""Small files: sparse and single-precision weights, and pruning with its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models
from maxmargin.io import model_file
from maxmargin.io.fields import FieldError
from maxmargin.io.model_file import SPARSEST, fold, unfold
from reference import enumerate as truths
from reference.cases import fresh
from reference.problems import CASES, OBSERVED, make_case
from reference.strategies import SEED


@given(
    size=st.integers(0, 5000),
    share=st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0]),
    dtype=st.sampled_from(["float64", "float32"]),
    seed=st.integers(0, 10**6),
)
def test_weights_come_back_from_either_form(size, share, dtype, seed):
    generator = fresh(SEED, seed)
    w = generator.normal(size=size) * (generator.uniform(size=size) < share)
    header, arrays = fold(w, dtype)
    again = unfold(header, {"cost": np.ones(2), **arrays})
    assert set(again) == {"w", "cost"} and again["w"].dtype == np.float64
    np.testing.assert_array_equal(again["w"], w.astype(dtype))
    assert sum(a.nbytes for a in arrays.values()) <= max(w.astype(dtype).nbytes, 1)


def folded(n=4000):
    w = np.zeros(n)
    w[7] = 1.5
    return fold(w, "float64")


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: a.update({"w.index": a["w.index"][::-1].copy()}),
        lambda h, a: a.update({"w.index": np.zeros_like(a["w.index"])}),
        lambda h, a: a.update({"w.index": a["w.index"] - 1}),
        lambda h, a: a.update({"w.index": a["w.index"].astype(np.float64)}),
        lambda h, a: a.update({"w.index": a["w.index"][:-1]}),
        lambda h, a: a.update({"w.value": a["w.value"] * np.nan}),
        lambda h, a: a.update({"w.value": a["w.value"].astype(np.int64)}),
        lambda h, a: a.pop("w.index"),
        lambda h, a: a.pop("w.value"),
        lambda h, a: h.update(weights=8),
        lambda h, a: h.update(weights=SPARSEST * len(a["w.index"]) + 1),
        lambda h, a: h.update(weights=-1),
        lambda h, a: h.update(weights="many"),
        lambda h, a: h.update(weights=2**60),
    ],
)
def test_what_no_writer_wrote_is_refused(change):
    header, arrays = folded()
    unfold(header, arrays)
    change(header, arrays)
    with pytest.raises(FieldError):
        unfold(header, arrays)


def test_a_small_file_unfolds_to_a_bounded_size():
    header, arrays = folded(100_000)
    assert len(arrays["w.index"]) * SPARSEST >= header["weights"]


def wide_chain(generator):
    """Return a fitted chain in which most weights stay zero."""
    X = [sparse.random(4, 600, 0.01, "csr", random_state=i) for i in range(6)]
    Y = [generator.integers(5, size=4).tolist() for _ in X]
    return mm.StructuralSVM(models.Chain(classes=range(5)), C=1.0).fit(X, Y), X, Y


def test_sparse_files_predict_the_same_bits(generator, tmp_path):
    svm, X, _ = wide_chain(generator)
    svm.save(tmp_path / "model")
    header, arrays = model_file.read(tmp_path / "model")
    assert "w" not in arrays and header["weights"] == len(svm.coef_)
    loaded = mm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.coef_, svm.coef_)
    for a, b in zip(loaded.predict(X), svm.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_single_precision_files(generator, tmp_path):
    svm, X, _ = wide_chain(generator)
    svm.save(tmp_path / "model", dtype="float32")
    loaded = mm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.coef_, svm.coef_.astype(np.float32))
    svm.save(tmp_path / "double")
    assert (tmp_path / "model").stat().st_size < (tmp_path / "double").stat().st_size
    with refusal("dtype must be one of"):
        svm.save(tmp_path / "model", dtype="float16")
    svm.coef_ = svm.coef_ * 1e300
    with refusal("too large"):
        svm.save(tmp_path / "model", dtype="float32")
    assert len(loaded.predict(X)) == len(X)


def test_files_of_the_version_before(generator, tmp_path):
    """Older files store all weights in double precision and do not mention them in the header."""
    svm, X, _ = wide_chain(generator)
    svm.save(tmp_path / "new")
    header, arrays = model_file.read(tmp_path / "new")
    arrays = {k: v for k, v in arrays.items() if not k.startswith("w.")} | {"w": svm.coef_}
    model_file.write(tmp_path / "old", {k: v for k, v in header.items() if k != "weights"}, arrays)
    loaded = mm.load(tmp_path / "old")
    np.testing.assert_array_equal(loaded.coef_, svm.coef_)
    for a, b in zip(loaded.predict(X), svm.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


NAMES = [n for n in (*CASES, *OBSERVED) if n.startswith(("multiclass", "chain"))]


@given(name=st.sampled_from(NAMES), quantile=st.floats(0, 1), other=st.integers(0, 10**6))
def test_pruning_changes_scores_as_it_says(name, quantile, other):
    """The bounds cover the largest change over all outputs, by enumeration, and the norms."""
    case, generator = make_case(name, SEED), fresh(SEED, other)
    svm = mm.StructuralSVM(built_in(case), tol=10.0, max_passes=1)
    quietly(lambda: svm.fit(case.X, case.Y))
    svm.coef_ = generator.normal(size=len(svm.coef_))
    tolerance = float(np.quantile(np.abs(svm.coef_), quantile)) + 1e-12
    pruned = svm.prune(tolerance)
    d, pruning = svm.coef_ - pruned.coef_, pruned.pruning_
    assert (np.abs(pruned.coef_[pruned.coef_ != 0]) > tolerance).all()
    assert pruning.dropped == np.count_nonzero(d) and pruning.largest <= tolerance
    changes = pruned.score_change(case.X)
    for row, change in zip(case.truth.examples(case.X), changes, strict=True):
        every = np.abs(truths.scores(case.truth, row, d))
        assert change == pytest.approx(every.max(), abs=1e-5)
        for y, value in zip(case.truth.outputs(row), every, strict=True):
            psi = case.truth.joint_feature(row, y)
            assert value <= pruning.largest * np.abs(psi).sum() + 1e-9
            assert value <= pruning.norm * np.linalg.norm(psi) + 1e-9


def test_a_pruned_model_is_a_copy_that_is_saved_and_certified(generator, tmp_path):
    svm, X, Y = wide_chain(generator)
    before, predictions = svm.coef_.copy(), svm.predict(X)
    pruned = svm.prune(float(np.abs(svm.coef_).max()) / 2)
    np.testing.assert_array_equal(svm.coef_, before)
    assert "pruned" in str(pruned.certificate_) and not pruned.certificate_.converged
    certificate = mm.certify(pruned, X, Y)
    assert certificate.primal >= svm.certificate_.dual
    pruned.save(tmp_path / "model")
    np.testing.assert_array_equal(mm.load(tmp_path / "model").coef_, pruned.coef_)
    for a, b in zip(svm.predict(X), predictions, strict=True):
        np.testing.assert_array_equal(a, b)
    with refusal("tolerance must be"):
        svm.prune(-1.0)
    with refusal("not fitted", kinds=(Exception,)):
        svm.score_change(X)
