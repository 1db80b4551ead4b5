"""Solvers and models do what they declare: needs, warm starts, options, reasons why training ended."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models, solvers
from maxmargin.formulation import SOFT
from maxmargin.models.protocol import Model
from maxmargin.models.registry import FACTORS, LABELS, MODELS, ROWS, STRUCTURAL
from maxmargin.problem import Certificate, Formulation, Status
from maxmargin.problem.plane import MARGINALS, PLANES
from maxmargin.solvers.gdmm import FORMS
from reference.problems import make_case

KINDS = {
    "Multiclass": "multiclass-cost-dense",
    "Binary": "binary-cost-weights",
    "Chain": "chain-1to4-dense",
    "Grammar": "grammar-spans",
    "Tree": "tree-three-parts",
    "FactorGraph": "graph-potts-mean",
    "MultiLabel": "",  # as a matrix
    "Ranking": "ranking-three-grades",
}
OPTIONS = {
    "rho": 2.0,
    "eta": 0.5,
    "inner": 2,
    "partitions": 2,
    "search": "exhaustive",
    "direction": "away",
    "grow": 2,
}
ON = {"chains": "Chain", "graphs": "FactorGraph", "sets of labels": "MultiLabel"}


def labels_case():
    g = np.random.default_rng(3)
    return models.MultiLabel(), g.normal(size=(6, 2)), (g.uniform(size=(6, 4)) < 0.5).astype(int)


def data_of(name, seed):
    """A model, and data for it."""
    if name == "MultiLabel":
        return labels_case()
    case = make_case(KINDS[name], seed)
    return built_in(case), case.X, case.Y


def problem_of(name, seed, hinge="max"):
    model, X, Y = data_of(name, seed)
    model.initialize(X, Y)
    return mm.Problem(model.bind(X, Y), C=0.1, formulation=Formulation(hinge))


# Models


def test_the_registry_has_every_model_that_can_be_saved():
    assert {
        name for name in models.__all__ if name not in ("Model", "JointKernel", "Transitions")
    } <= set(MODELS)
    assert set(STRUCTURAL) == {*KINDS, "Kernel"}


@pytest.mark.parametrize("name", MODELS)
def test_powers_of_a_model_are_those_of_its_code(name):
    kind = MODELS[name]
    assert (ROWS in kind.powers) == (kind.bind_rows is not Model.bind_rows)
    if LABELS in kind.powers:
        assert "classes" in inspect.signature(kind).parameters


@pytest.mark.parametrize("name", KINDS)
def test_examples_have_the_powers_of_their_model(name, seed):
    powers = problem_of(name, seed).examples.powers
    assert (FACTORS in powers) == (FACTORS in MODELS[name].powers)


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_kernel_is_taken_by_models_of_feature_rows_alone(name, seed):
    if name == "Kernel":
        model, X, Y = models.Kernel(models.Multiclass()), *data_of("Multiclass", seed)[1:]
    else:
        model, X, Y = data_of(name, seed)
    if ROWS in MODELS[name].powers:
        models.Kernel(model).initialize(X, Y)
    else:
        with refusal("Kernel: model must be one of", "Binary", "Chain", "Multiclass"):
            models.Kernel(model).initialize(X, Y)


def test_a_model_derived_from_one_of_these_is_not_one_of_these(generator, tmp_path):
    class Chain(models.Chain):
        pass

    X, Y = [generator.normal(size=(3, 2)) for _ in range(4)], [[0, 1, 0]] * 4
    with refusal("Kernel: model"):
        mm.StructuralSVM(models.Kernel(Chain())).fit(X, Y)
    with refusal("save", "Chain"):
        mm.StructuralSVM(Chain()).fit(X, Y).save(tmp_path / "model")


# Solvers


@pytest.mark.parametrize("solver", solvers.SOLVERS.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", KINDS)
def test_a_problem_without_what_a_solver_needs_is_refused(solver, name, seed):
    hinge = solver.formulations[0].hinge
    if hinge == "sum" and name in ("Tree", "FactorGraph", "MultiLabel", "Ranking"):
        pytest.skip("the model has no sum hinge")
    if hinge in SOFT and name in ("Tree", "MultiLabel", "Ranking"):
        with refusal("formulation='log'", "sum over all outputs"):
            problem_of(name, seed, hinge)
        return
    problem = problem_of(name, seed, hinge)
    if set(solver.needs) <= set(problem.examples.powers):
        result = mm.train(problem, solver(), tol=0.1, max_passes=3, random_state=0)
        assert result.solver == solver.name
    else:
        with refusal(solver.name, "needs", "Chain"):
            mm.train(problem, solver(), tol=0.1, max_passes=3, random_state=0)


@pytest.mark.parametrize("solver", solvers.SOLVERS.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("hinge", ["max", "sum", "log", "softmax-margin"])
def test_a_formulation_that_a_solver_does_not_declare_is_refused(solver, hinge, seed):
    problem = problem_of("Chain", seed, hinge)
    if problem.formulation in solver.formulations:
        found = mm.train(problem, solver(), tol=0.1, max_passes=3, random_state=0).certificate
        assert found.dual <= found.primal < np.inf
    else:
        with refusal(solver.name, f"does not support {problem.formulation}"):
            mm.train(problem, solver(), tol=0.1, max_passes=3, random_state=0)


@pytest.mark.parametrize("solver", solvers.SOLVERS.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", ["Chain", "FactorGraph"])
def test_warm_starts_are_taken_from_what_a_solver_continues_from(solver, name, seed):
    if solver.formulations[0].hinge == "sum":
        pytest.skip(
            "planes of the sum hinge have a box of their own: tests/contracts/test_summed.py"
        )
    if solver.formulations[0].hinge in SOFT:
        pytest.skip("distributions are not planes: tests/contracts/test_crf.py")
    problem = problem_of(name, seed)
    points = {PLANES: mm.train(problem, solvers.SDA(), tol=0.01, random_state=0).support}
    if name == "FactorGraph":
        points[MARGINALS] = mm.train(problem, solvers.Gdmm(), tol=0.1, random_state=0).support
    first = mm.train(problem, solver(), tol=0.01, max_passes=30, random_state=0)
    assert first.resumable == (first.support.kind in solver().continues(problem))
    for kind, point in points.items():
        assert point.kind == kind
        if kind in solver().continues(problem):
            dual = mm.train(problem, solver(), tol=0.01, max_passes=30, warm=point).certificate.dual
            assert dual >= problem.dual_objective(point) - 1e-9
        else:
            with refusal("warm_start", f"kept {kind}", solver.name):
                mm.train(problem, solver(), tol=0.01, warm=point)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.examples)
@pytest.mark.parametrize("option", OPTIONS)
def test_a_form_of_gdmm_refuses_the_options_of_others(form, option, seed):
    problem = problem_of(ON[form.examples], seed)
    solver = solvers.Gdmm(**{option: OPTIONS[option]})
    plain = vars(solvers.Gdmm().form(problem))
    if option in plain:
        changed = vars(solver.form(problem))
        assert changed.pop(option) == OPTIONS[option] != plain.pop(option)
        assert changed == plain
    else:
        with refusal("Gdmm", option, "cannot be set for", form.examples):
            mm.train(problem, solver)


@pytest.mark.parametrize(
    ("solver", "hinge", "status"),
    [
        (solvers.Streaming(passes=1, rounds=1), "max", Status.PASSES_MADE),
        (solvers.SDCD(keep=0, violators=0), "sum", Status.REDUCED),
    ],
    ids=["streaming", "sdcd"],
)
def test_a_solver_that_ends_says_why(solver, hinge, status, seed):
    result = mm.train(problem_of("Chain", seed, hinge), solver, tol=1e-9, random_state=0)
    assert result.status is status and result.certificate.status == status.value
    assert result.advice == status.advice(result.certificate)


@pytest.mark.parametrize("solver", [solvers.OneSlack(violators=0), solvers.NSlack(violators=0)])
def test_a_warm_start_that_is_settled_knows_its_reduced_gap(solver, seed):
    problem = problem_of("Chain", seed, "sum")
    first = mm.train(problem, solver, tol=1e-6, random_state=0)
    again = mm.train(problem, solver, tol=1e-6, warm=first.support, random_state=0)
    assert first.status is again.status is Status.REDUCED
    assert 0 <= again.certificate.reduced_gap <= 2e-6
    assert again.advice == Status.REDUCED.advice(again.certificate)


def test_advice_is_that_of_the_status_then_of_the_solver():
    proven = Certificate(1.0, 0.0, 1.0, reduced_gap=0.5)
    searched = Certificate(1.0, 0.0, 1.0, exact=False, reduced_gap=0.5)
    own = {status: status.advice(proven, "another solver") for status in Status}
    assert own[Status.PASS_LIMIT] == own[Status.STOPPED] == "another solver"
    assert "max_passes" in Status.PASS_LIMIT.advice(proven)
    assert "passes=None" in own[Status.PASSES_MADE] and "cache_bytes" in own[Status.CACHE_FULL]
    assert "overflowed" in own[Status.NUMERICAL] and "0.5" in own[Status.REDUCED]
    assert "max_passes" in Status.REDUCED.advice(Certificate(1.0, 0.0, 1.0))  # without its gap
    for status in Status:
        kept = status in (Status.REDUCED, Status.UNCHANGED, Status.NUMERICAL, Status.ROUNDING)
        assert (status.advice(searched) == own[status]) == kept


def test_slow_solvers_advise_another_one(seed):
    problem = problem_of("Chain", seed)
    for solver in (solvers.BCFW(), solvers.Subgradient()):
        result = mm.train(problem, solver, tol=1e-12, max_passes=2, random_state=0)
        assert "converges slowly" in result.advice and solver.name in result.advice
    assert "max_passes" in mm.train(problem, solvers.SDA(), tol=1e-12, max_passes=2).advice
    assert (
        "on chains, use solver='auto'"
        in mm.train(problem, solvers.Gdmm(), tol=1e-12, max_passes=2).advice
    )


def test_auto_takes_what_suits_and_every_choice_solves_what_it_is_taken_for(seed):
    chains = problem_of("Chain", seed)
    assert solvers.make_solver("auto", chains.formulation, chains) == solvers.Proximal()
    summed = problem_of("Chain", seed, "sum")
    assert solvers.make_solver("auto", summed.formulation, summed) == solvers.SDCD()
    model, X, Y = data_of("Chain", seed)
    model.initialize(X, Y)
    for hinge, choice in (("max", solvers.OneSlack()), ("sum", solvers.SDCD())):
        one = mm.Problem(model.bind(X[:1], Y[:1]), formulation=Formulation(hinge))
        assert solvers.make_solver("auto", one.formulation, one) == choice
    one = mm.Problem(model.bind(X[:1], Y[:1]))
    assert solvers.make_solver("auto", one.formulation, one, ("nonnegative",)) == solvers.Proximal()


# Files


@pytest.mark.parametrize("n_jobs", [40_000, 65_536, -70_000])
def test_every_number_of_jobs_that_is_taken_is_saved_and_loaded(generator, tmp_path, n_jobs):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 3
    svm = quietly(lambda: mm.MulticlassSVC(max_passes=2).fit(X, y)).set_params(n_jobs=n_jobs)
    svm._check_parameters()
    svm.save(tmp_path / "model")
    assert mm.load(tmp_path / "model").n_jobs == n_jobs
