"""Laws of runs: reproducible, restartable, parallel, saved and loaded, always with the same optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from helpers import EVERY, EXACT, as_python, built_in, fit, loss_units, quietly
from maxmargin import solvers
from maxmargin.models.python import bind_model
from maxmargin.solvers.dual_state import open_state
from reference.strategies import cases

few = settings(max_examples=8)


def flat(predictions):
    """Return all predicted labels in one list."""
    return [label for y in predictions for label in np.ravel(y).tolist()]


@pytest.mark.parametrize("solver", EVERY)
@few
@given(case=cases(), state=st.integers(0, 1000))
def test_same_seed_and_one_thread_are_bit_identical(solver, case, state):
    settings = {"relative": 1e-6, "max_passes": 10, "random_state": state, "n_jobs": 1}
    left, right = (quietly(lambda: fit(case, EVERY[solver](), **settings)) for _ in range(2))
    assert left.coef_.tobytes() == right.coef_.tobytes()
    assert left.certificate_.dual == right.certificate_.dual
    assert left.certificate_.oracle_calls == right.certificate_.oracle_calls
    np.testing.assert_array_equal(left.history_["dual"], right.history_["dual"])


@pytest.mark.parametrize("solver", ["proximal", "sda", "sdm", "bcfw-pairwise"])
@few
@given(case=cases())
def test_any_seed_reaches_the_same_optimum(solver, case):
    for state in (1, 2):
        svm = fit(case, EXACT[solver](), random_state=state)
        assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)


@pytest.mark.parametrize("solver", EXACT)
@few
@given(case=cases())
def test_two_threads_reach_the_same_optimum(solver, case):
    svm = fit(case, EXACT[solver](), n_jobs=2)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=1e-6)


@pytest.mark.parametrize("solver", EXACT)
@few
@given(case=cases())
def test_warm_start_continues_to_the_same_optimum(solver, case):
    tol = loss_units(case, 1e-7)
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver=EXACT[solver](), tol=tol)
    svm.set_params(max_passes=2, warm_start=True, random_state=0)
    quietly(lambda: svm.fit(case.X, case.Y, sample_weight=case.sample_weight))
    reached = svm.certificate_.dual
    svm.set_params(max_passes=50_000)
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    # the proximal solvers ascend the dual of another problem
    if solver not in ("auto", "proximal"):
        # the dual does not restart at zero
        assert svm.history_["dual"][0] >= reached - 1e-9 * case.optimum.value


@few
@given(case=cases())
def test_warm_start_at_the_optimum_is_almost_free(case):
    tol = loss_units(case, 1e-5)
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver="sda", tol=tol, warm_start=True)
    svm.set_params(max_passes=50_000, random_state=0)
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    first, cold = svm.certificate_.primal, svm.certificate_.passes
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.converged
    assert svm.certificate_.passes <= max(6, 0.3 * cold)
    assert svm.certificate_.primal == pytest.approx(first, rel=2e-5)


@few
@given(case=cases(), factor=st.sampled_from([0.1, 7.0]))
def test_warm_start_with_another_c_reaches_the_other_optimum(case, factor):
    svm = fit(case, "sda", warm_start=True)
    other = case.replace(C=factor * case.C)
    svm.set_params(C=other.C, tol=loss_units(other, 1e-7))
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(other.optimum.value, rel=1e-6)
    assert svm.certificate_.dual <= other.optimum.primal * (1 + 1e-9)


@few
@given(case=cases(), python=st.booleans(), factor=st.sampled_from([1.0, 5.0]))
def test_a_warm_start_with_a_larger_c_begins_at_the_same_weights(case, python, factor):
    model, X = as_python(case) if python else (built_in(case), case.X)
    model.initialize(X, case.Y)
    examples = bind_model(model, X, case.Y)
    small = mm.Problem(examples, case.C, case.sample_weight)
    result = mm.train(small, solvers.SDA(), tol=loss_units(case, 1e-3), random_state=0)
    large = mm.Problem(examples, factor * case.C, case.sample_weight)
    state = open_state(large, 1e-3, np.random.default_rng(0), warm=result.support)
    law = large.regularizer.law(-small.plane(result.support)[1])
    # updates between refreshes use single precision
    np.testing.assert_allclose(state.weights(), law, atol=1e-6)
    dual = large.dual_objective(state.support())
    assert dual == pytest.approx(small.dual_objective(result.support), rel=1e-9, abs=1e-12)
    one = quietly(lambda: mm.train(large, solvers.OneSlack(), warm=result.support, max_passes=1))
    assert one.certificate.dual >= dual - 1e-9 * abs(dual)


@few
@given(case=cases())
def test_loaded_models_predict_the_same_bits(tmp_path_factory, case):
    svm = quietly(lambda: fit(case, "proximal", max_passes=5))
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    svm.save(path)
    loaded = mm.load(path)
    assert loaded.coef_.tobytes() == svm.coef_.tobytes()
    assert list(loaded.classes_) == list(svm.classes_)
    assert flat(loaded.predict(case.X)) == flat(svm.predict(case.X))
    assert loaded.score(case.X, case.Y) == svm.score(case.X, case.Y)
    assert loaded.loss(case.X, case.Y) == svm.loss(case.X, case.Y)


@pytest.mark.parametrize("solver", EVERY)
@few
@given(case=cases(), passes=st.integers(1, 6))
def test_certify_agrees_with_the_certificate(solver, case, passes):
    svm = quietly(lambda: fit(case, EVERY[solver](), relative=1e-10, max_passes=passes))
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-8)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-8, abs=1e-12)
    assert again.gap == pytest.approx(svm.certificate_.gap, rel=1e-6, abs=1e-10)
    assert again.exact


@few
@given(case=cases(), parts=st.integers(1, 5), room=st.integers(10, 40), bound=st.booleans())
def test_a_stream_in_any_parts_ends_at_the_optimum_of_all(case, parts, room, bound):
    """The optimum depends neither on the chunks, the budget (in examples) nor the regulariser."""
    size, d = -(-len(case.Y) // parts), len(fit(case, "auto", relative=1e-2).coef_)
    weights = np.ones(len(case.Y)) if case.sample_weight is None else case.sample_weight
    labels = sorted({label for y in case.Y for label in np.ravel(y).tolist()})
    options = {"C": case.C, "tol": loss_units(case, 1e-7), "max_passes": 10**6, "random_state": 0}
    options |= {"nonnegative": np.arange(d) % 3 == 0} if bound else {"prior": (0.1, 0.8)}
    whole = mm.StructuralSVM(built_in(case).set_params(classes=labels), **options)
    whole.fit(case.X, case.Y, sample_weight=weights)
    each = max(np.asarray(x).nbytes if not hasattr(x, "nnz") else 16 * x.nnz for x in case.X)
    cache = solvers.Streaming(passes=None, cache_bytes=room * (int(each) + 2_000))
    chunks = [
        (case.X[k : k + size], case.Y[k : k + size], weights[k : k + size])
        for k in range(0, len(case.Y), size)
    ]
    stream = mm.StructuralSVM(built_in(case).set_params(classes=labels), solver=cache, **options)
    own, best = stream.fit(chunks).certificate_, whole.certificate_
    assert own.converged and max(own.dual, best.dual) <= min(own.primal, best.primal) * (1 + 1e-9)
    assert own.primal == pytest.approx(best.primal, rel=1e-6)
