"""Every solver on the same problems; the dense QP over all outputs gives the expected optimum."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import (
    EVERY,
    EXACT,
    RATED,
    SOFT,
    SUMMED,
    as_python,
    assert_optimal,
    assert_truthful,
    fit,
    loss_units,
    quietly,
    refusal,
)
from maxmargin import solvers
from maxmargin.formulation import HINGES, RESCALINGS, Formulation
from reference.dense_qp import primal_objective
from reference.problems import (
    CASES,
    EDGES,
    GRAPHS,
    OBSERVED,
    PARTS,
    RANKINGS,
    SETS,
    TREES,
    make_case,
)
from reference.python_chain import BatchPythonChain, PythonChain
from reference.relaxed import relaxed_optimum

WALKED = {**EXACT, **RATED, **SUMMED, "gdmm": lambda: "gdmm"}
MODELS = [*CASES, *TREES, *GRAPHS, *PARTS, *SETS, *RANKINGS, *EDGES, *OBSERVED]
FORMULATIONS = [Formulation(hinge, rescaling) for hinge in HINGES for rescaling in RESCALINGS]

# Cases without an exact argmax, and the reason: (hinge, rescaling) -> cases.
SEARCHED = {
    ("max", "slack"): {
        "grammar-spans": "sums of many values: Delta (1 + <w, psi>) is searched and bounded",
        "chain-singletons": "costs of pairs of labels: as for spans",
        "chain-cost": "as for spans",
        "chain-csr32-mean-cost": "as for spans",
        "chain-observed-costs": "as for spans",
        "graph": "as for spans",
        "multilabel": "as for spans",
        "tree": "distances: as for spans",
        "ranking": "sums over pairs: as for spans",
        "chain-illegal-csr-ends-cost": "costs of pairs of labels: as for spans",
        "edges-dense": "costs of pairs of labels: as for spans",
        "second-order": "not counted by mistakes: as for spans",
    },
    ("sum", "margin"): {"grammar": "violated trees are too many to list: a lower bound alone"},
    ("sum", "slack"): {"grammar": "as for margin rescaling"},
}
# Refused combinations, with the error message.
REFUSED = {
    "sum": (
        ("tree", "ranking", "edges", "second"),
        "hinge='sum' is not supported for models",
    ),
    "gdmm": (
        ("multiclass", "binary", "grammar", "tree", "ranking", "edges", "second", "chain-illegal"),
        "needs a model with nodes and edges",
    ),
}


def kind_of(solver):
    """Return the class of a solver; None for "auto"."""
    made = WALKED[solver]()
    return solvers.SOLVERS.get(made) if isinstance(made, str) else type(made)


def walk():
    """Yield every solver in every formulation that it declares, over every model."""
    for solver in WALKED:
        declared = FORMULATIONS if solver == "auto" else kind_of(solver).formulations
        for form, name in product(declared, MODELS):
            values = (solver, form.hinge, form.rescaling, name)
            yield pytest.param(*values, id="-".join(values))


def test_the_walk_leaves_no_solver_out():
    hinges = {kind for name, kind in solvers.SOLVERS.items() if name not in SOFT}
    assert {kind_of(solver) for solver in WALKED} - {None} == hinges


@pytest.mark.parametrize(("solver", "hinge", "rescaling", "name"), list(walk()))
def test_every_solver_solves_what_it_declares(seed, solver, hinge, rescaling, name):
    case = make_case(name, seed).replace(rescaling=rescaling)
    for reason in {hinge, solver} & set(REFUSED):
        kinds, words = REFUSED[reason]
        if name.startswith(kinds):
            with refusal(words):
                fit(case, WALKED[solver](), hinge=hinge, tol=1e-3)
            return
    searched = name.startswith(tuple(SEARCHED.get((hinge, rescaling), ())))
    relative = 1e-13 if solver in RATED else 1e-4 if solver == "gdmm" else 1e-7
    limit = 20 if solver in RATED else 200 if searched else 200_000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        svm = fit(case, WALKED[solver](), relative, hinge=hinge, max_passes=limit)
    certificate = svm.certificate_
    assert any("gap" in str(w.message) for w in caught) == (not certificate.converged)
    if solver == "gdmm":  # the multipliers of GDMM are marginals
        assert_relaxed(case, svm)
    else:
        assert_truthful(case, svm, searched)
    if not searched and solver not in (*RATED, "gdmm"):
        assert_optimal(case, svm)
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.primal == pytest.approx(certificate.primal, rel=1e-9)
    assert again.dual == pytest.approx(certificate.dual, rel=1e-9, abs=1e-12)


def assert_relaxed(case, svm):
    """Assert the optimum, or the optimum of the linear relaxation, which is larger if it is not tight."""
    relaxed = case.optimum.value
    if case.kind != "chain":
        relaxed = relaxed_optimum(svm.model_.bind(case.X, case.Y).factors, case.budgets)
    assert svm.certificate_.dual <= relaxed * (1 + 1e-6)
    assert svm.certificate_.primal >= relaxed * (1 - 1e-6)
    if svm.certificate_.converged:
        assert svm.certificate_.dual == pytest.approx(relaxed, rel=1e-4)
    assert svm.certificate_.relaxed or relaxed == pytest.approx(case.optimum.value, rel=1e-6)


@pytest.mark.parametrize("name", ["multiclass-cost-dense", "chain-1to4-dense"])
@pytest.mark.parametrize("solver", EXACT)
def test_pair_steps_reach_nine_digits(seed, solver, name):
    case = make_case(name, seed)
    svm = fit(case, EXACT[solver](), relative=1e-9)
    assert_optimal(case, svm, relative=1e-8)


@pytest.mark.parametrize("C", [1e-3, 20.0])
@pytest.mark.parametrize("solver", EXACT)
def test_pair_steps_reach_the_optimum_for_small_and_large_c(seed, solver, C):
    case = make_case("chain-mean-weights", seed).replace(C=C)
    svm = fit(case, EXACT[solver](), relative=1e-7)
    assert_optimal(case, svm)
    assert_truthful(case, svm)


# Streaming makes only one pass; its own tests ask for more.
@pytest.mark.parametrize("name", ["multiclass-cost-dense", "chain-mean-weights"])
@pytest.mark.parametrize("solver", [name for name in RATED if name != "streaming"])
def test_rated_solvers_get_somewhere(seed, solver, name):
    case = make_case(name, seed)
    short = quietly(lambda: fit(case, RATED[solver](), relative=1e-13, max_passes=2))
    long = quietly(lambda: fit(case, RATED[solver](), relative=1e-13, max_passes=4000))
    excess = long.certificate_.primal - case.optimum.value
    assert excess <= 0.2 * case.optimum.value
    assert excess <= short.certificate_.primal - case.optimum.value
    assert long.certificate_.gap < short.certificate_.gap


@pytest.mark.parametrize("solver", ["bcfw", "bcfw-gap", "bcfw-average"])
def test_frank_wolfe_converges_at_a_loose_tolerance_and_is_right(seed, solver):
    case = make_case("chain-1to4-dense", seed)
    svm = fit(case, RATED[solver](), relative=0.05, max_passes=5000)
    assert svm.certificate_.converged
    assert_truthful(case, svm)
    assert svm.certificate_.primal <= 1.05 * case.optimum.value


@pytest.mark.parametrize("name", ["multiclass-cost-csr-weights", "chain-1to4-csr-ends"])
@pytest.mark.parametrize("solver", EVERY)
def test_history_is_made_of_equal_columns_that_only_grow(seed, solver, name):
    case = make_case(name, seed)
    svm = quietly(lambda: fit(case, EVERY[solver](), max_passes=30))
    history, certificate = svm.history_, svm.certificate_
    keys = ("seconds", "passes", "oracle_calls", "primal", "dual", "gap", "estimate", "planes")
    columns = {key: np.asarray(history[key], dtype=float) for key in keys}
    assert len({len(column) for column in columns.values()}) == 1
    assert len(columns["gap"]) >= 1
    for key in ("seconds", "passes", "oracle_calls"):
        assert (np.diff(columns[key]) >= 0).all(), key
    for key in ("primal", "gap"):  # these report the best certified value so far
        finite = columns[key][np.isfinite(columns[key])]
        assert (np.diff(finite) <= 1e-12).all(), key
    assert columns["oracle_calls"][-1] <= certificate.oracle_calls
    assert certificate.passes == pytest.approx(certificate.oracle_calls / len(case.Y), rel=0.5)
    certified = np.isfinite(columns["primal"])
    assert (columns["dual"] <= case.optimum.primal * (1 + 1e-9)).all()
    assert (columns["primal"][certified] >= case.optimum.dual * (1 - 1e-9)).all()


@pytest.mark.parametrize("name", ["multiclass-cost-dense", "chain-1to4-csr-ends"])
@pytest.mark.parametrize("solver", EXACT)
def test_python_model_reaches_the_same_optimum(seed, solver, name):
    case = make_case(name, seed)
    model, X = as_python(case)
    tol = loss_units(case, 1e-7)
    svm = mm.StructuralSVM(model, C=case.C, solver=EXACT[solver](), tol=tol, random_state=0)
    svm.set_params(max_passes=50_000, max_seconds=120.0)
    svm.fit(X, case.Y, sample_weight=case.sample_weight)
    assert_optimal(case, svm)
    assert_truthful(case, svm)


@pytest.mark.parametrize("solver", RATED)
def test_python_model_brackets_the_optimum_with_rated_solvers(seed, solver):
    case = make_case("chain-mean-weights", seed)
    model, X = as_python(case)
    svm = mm.StructuralSVM(model, C=case.C, solver=RATED[solver](), tol=1e-12, max_passes=15)
    quietly(lambda: svm.fit(X, case.Y, sample_weight=case.sample_weight))
    assert svm.certificate_.converged == (svm.certificate_.gap <= 1e-12)
    assert_truthful(case, svm)


def test_python_model_is_not_asked_more_often_than_the_counter_says(seed):
    case = make_case("chain-1to4-dense", seed)

    class Counting(PythonChain):
        calls = 0

        def loss_augmented_inference(self, x, y, w):
            self.calls += 1
            return super().loss_augmented_inference(x, y, w)

    model = Counting(3)
    svm = mm.StructuralSVM(model, solver="sda", tol=1e-6, max_passes=5000).fit(case.X, case.Y)
    used = svm.model_.calls if hasattr(svm.model_, "calls") else model.calls
    assert 0 < used <= svm.certificate_.oracle_calls + len(case.Y)


def test_batch_oracle_of_a_python_model_is_used(seed):
    case = make_case("chain-1to4-dense", seed)
    model = BatchPythonChain(3)
    svm = mm.StructuralSVM(model, tol=loss_units(case, 1e-7), max_passes=5000)
    svm.fit(case.X, case.Y)
    assert_optimal(case, svm)
    assert max(model.batches, svm.model_.batches) > 0


@pytest.mark.parametrize("solver", ["proximal", "fasole", "sda"])
def test_python_oracles_run_in_the_given_executor(seed, solver):
    case = make_case("chain-1to4-dense", seed)

    class Threaded(PythonChain):
        threads: ClassVar[set] = set()

        def loss_augmented_inference(self, x, y, w):
            self.threads.add(threading.get_ident())
            return super().loss_augmented_inference(x, y, w)

    with ThreadPoolExecutor(2) as executor:
        for n_jobs in (2, executor):
            Threaded.threads.clear()
            svm = mm.StructuralSVM(Threaded(3), solver=solver, tol=loss_units(case, 1e-7))
            svm.set_params(n_jobs=n_jobs, max_passes=50_000, max_seconds=120.0)
            svm.fit(case.X, case.Y)
            assert_optimal(case, svm)
            assert Threaded.threads - {threading.get_ident()}


@pytest.mark.parametrize("solver", EXACT)
def test_float32_input_meets_the_optimum_of_its_own_values(seed, solver):
    case = make_case("multiclass-bias-float32", seed)
    svm = fit(case, EXACT[solver](), relative=1e-8)
    wide = fit(case.replace(X=np.asarray(case.X, dtype=np.float64)), EXACT[solver](), relative=1e-8)
    assert svm.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=1e-7)
    assert svm.coef_.dtype == np.float64


@pytest.mark.parametrize("solver", EXACT)
def test_no_warning_when_converged(seed, solver):
    case = make_case("multiclass-cost-dense", seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(case, EXACT[solver](), relative=1e-4)


@pytest.mark.parametrize("solver", EVERY)
def test_budget_of_passes_is_kept(seed, solver):
    case = make_case("multiclass-cost-dense", seed)
    svm = quietly(lambda: fit(case, EVERY[solver](), relative=1e-13, max_passes=3))
    assert svm.certificate_.oracle_calls <= 6 * len(case.Y)  # three passes plus the certificates
    assert_truthful(case, svm)


@pytest.mark.parametrize("solver", ["proximal", "fasole", "sda"])
def test_objective_and_certify_recompute_the_definition(seed, generator, solver):
    case = make_case("chain-cost-four-labels", seed)
    svm = fit(case, solver, relative=1e-4)
    w = generator.normal(size=case.truth.size_joint_feature)
    expected = primal_objective(case.blocks, case.budgets, w)
    assert mm.objective(svm, w, case.X, case.Y) == pytest.approx(expected, rel=1e-10)
    again = mm.certify(svm, case.X, case.Y)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert again.exact
