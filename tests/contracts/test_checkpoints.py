"""Checkpoints: a fit that was killed resumes and ends at the same optimum."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from contracts.test_latent import HiddenShift, hidden_halves, latent, mixtures
from helpers import (
    EXACT,
    RATED,
    SUMMED,
    as_python,
    assert_optimal,
    assert_truthful,
    built_in,
    loss_units,
    quietly,
)
from maxmargin import models, solvers
from maxmargin.callbacks import Callback
from reference.problems import make_case

AT_ONCE = 1e-9  # seconds, so that every step is saved


class Killed(Exception):
    """Stands for a kill of the process."""


class Kill(Callback):
    """Ends a fit after some steps; only its checkpoint remains."""

    def __init__(self, after):
        self.after, self.last = after, None

    def on_step(self, info):
        if info.step > self.after:
            raise Killed
        self.last = info


def killed_again_and_again(make, X, Y, path, rng, kills=3, **given):
    """Return a fit that was killed several times, then left alone; and the last saved steps."""
    saved = []
    for k in range(kills + 1):
        kill = Kill(int(rng.integers(1, 5)) if k < kills else np.inf)
        asked = {"checkpoint": path, "checkpoint_every": AT_ONCE, "resume": True}
        try:
            return quietly(lambda: make().fit(X, Y, callbacks=[kill], **asked, **given)), saved  # noqa: B023
        except Killed:
            saved.append(kill.last)
    raise AssertionError("the last is not killed")


def svm_of(case, solver, hinge="max", relative=1e-7, **settings):
    options = {"tol": loss_units(case, relative, hinge), "max_passes": 200_000, "random_state": 0}
    options |= {"rescaling": case.rescaling, "hinge": hinge, "max_seconds": 120.0} | settings
    return mm.StructuralSVM(built_in(case), C=case.C, solver=solver, **options)


def walked(case, solver, path, seed, hinge="max", **settings):
    """Fit a case with kills in between."""
    rng = np.random.default_rng([seed, len(case.Y)])
    return killed_again_and_again(
        lambda: svm_of(case, solver(), hinge, **settings),
        case.X,
        case.Y,
        path,
        rng,
        sample_weight=case.sample_weight,
    )


@pytest.mark.parametrize("name", ["chain-1to4-csr-ends", "multiclass-cost-csr-weights"])
@pytest.mark.parametrize("solver", EXACT)
def test_every_exact_solver_ends_at_the_optimum(solver, name, tmp_path, seed):
    case = make_case(name, seed)
    svm, saved = walked(case, EXACT[solver], tmp_path / "fit", seed)
    assert_optimal(case, svm)
    assert_truthful(case, svm)
    if saved:  # the solver may finish before it can be killed
        last, history = saved[-1], svm.history_
        # The resumed run loses nothing: the dual starts at its last value, and the counters continue.
        assert history["dual"][0] >= last.dual - 1e-9 * abs(last.dual)
        assert history["passes"][0] >= last.passes and history["seconds"][0] >= last.seconds
        assert svm.certificate_.oracle_calls >= history["oracle_calls"][0]


@pytest.mark.parametrize("solver", RATED)
def test_rated_solvers_are_as_far_as_without_a_kill(solver, tmp_path, seed):
    case = make_case("chain-1to4-csr-ends", seed)
    settings = {"relative": 1e-9, "max_passes": 150}
    whole = quietly(lambda: svm_of(case, RATED[solver](), **settings).fit(case.X, case.Y))
    svm, saved = walked(case, RATED[solver], tmp_path / "fit", seed, **settings)
    assert_truthful(case, svm)
    assert saved or solver == "streaming"
    assert svm.certificate_.passes <= 160
    assert svm.certificate_.gap <= 2 * whole.certificate_.gap + 1e-3


@pytest.mark.parametrize(
    "solver",
    ["sdcd", "sdcd-cyclic", "one-slack", "one-slack-proximal", "n-slack", "streaming-cyclic"],
)
def test_solvers_of_the_summed_error(solver, tmp_path, seed):
    case = make_case("chain-1to4-csr-ends", seed)
    svm, _ = walked(case, (SUMMED | EXACT)[solver], tmp_path / "fit", seed, hinge="sum")
    assert_optimal(case, svm)
    assert_truthful(case, svm)


@pytest.mark.parametrize(
    "name", ["chain-1to4-csr-ends", "graph-forest-symmetric", "multilabel-path-bias"]
)
def test_greedy_direction_method_of_multipliers(name, tmp_path, seed):
    case = make_case(name, seed)
    svm, saved = walked(case, lambda: "gdmm", tmp_path / "fit", seed, relative=1e-3)
    assert saved and svm.certificate_.converged
    assert_truthful(case, svm)


@pytest.mark.parametrize(
    "solver", ["proximal", "one-slack", "bcfw", "subgradient", "dual-coordinate"]
)
def test_models_in_python_keep_their_planes(solver, tmp_path, seed):
    case = make_case("multiclass-cost-dense", seed)
    model, X = as_python(case)
    exact = solver in EXACT
    tol = loss_units(case, 1e-6 if exact else 1e-3)

    def make():
        return mm.StructuralSVM(model, C=case.C, solver=solver, tol=tol, max_passes=300)

    svm, saved = killed_again_and_again(
        make, X, case.Y, tmp_path / "fit", np.random.default_rng(seed), 2
    )
    whole = quietly(lambda: make().fit(X, case.Y))
    assert saved
    relative = 1e-5 if exact else 0.1
    assert svm.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=relative)
    assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)


def rows(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) + np.eye(max(d, 3))[y, :d], y


PRIORS = {
    "scales": (np.linspace(-0.2, 0.2, 12), np.linspace(0.5, 1.5, 12)),
    "shifted": (0.3, 0.7),
    "free": (0.0, np.r_[np.ones(9), np.inf, 1.0, 1.0]),
}


@pytest.mark.parametrize("solver", ["proximal", "one-slack", "bcfw", "subgradient", "fasole"])
@pytest.mark.parametrize("prior", PRIORS)
def test_priors(prior, solver, tmp_path, seed):
    if prior == "free" and solver == "subgradient":
        pytest.skip("it does not take infinite scales")
    X, y = rows(seed=seed)
    exact = solver not in ("bcfw", "subgradient")

    def make():
        settings = {"tol": 1e-6, "max_passes": 3000} if exact else {"tol": 1e-4, "max_passes": 300}
        return mm.StructuralSVM(
            models.Multiclass(), C=0.3, prior=PRIORS[prior], solver=solver, **settings
        )

    whole = quietly(lambda: make().fit(X, y)).certificate_
    svm, _ = killed_again_and_again(make, X, y, tmp_path / "fit", np.random.default_rng(seed))
    found = svm.certificate_
    assert found.dual <= whole.primal * (1 + 1e-9) and whole.dual <= found.primal * (1 + 1e-9)
    if exact:
        assert found.converged
    else:
        assert found.gap <= 2 * whole.gap + 1e-4


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("prior", [None, (0.3, 0.7)])
@pytest.mark.parametrize("kind", ["subgradient", "bcfw-average", "bcfw-fixed-step"])
def test_methods_that_count_their_steps_go_on_as_if_nothing_had_been(kind, prior, averaging, seed):
    """A resumed state equals the state before the snapshot, to rounding: weights, multipliers, average."""
    from maxmargin.problem import Problem, make_regularizer

    if kind != "subgradient" and averaging:
        pytest.skip("the name says it")
    X, y = rows(seed=seed)
    model = models.Multiclass()
    model.initialize(X, y)
    examples = model.bind(X, y)
    problem = Problem(examples, C=0.3, regularizer=make_regularizer(prior, None, examples))
    solver = solvers.Subgradient(averaging) if kind == "subgradient" else RATED[kind]()
    state = solver.start(problem, 1e-3, np.random.default_rng(0))
    for _ in range(3):
        solver.step(problem, state)
    twin = solver.resume(problem, 1e-3, np.random.default_rng(0), solver.snapshot(problem, state))
    order = np.random.default_rng(1)
    state.rng, twin.rng = order, np.random.default_rng(1)
    for _ in range(3):
        for w, v in zip(
            solver.solution(problem, state), solver.solution(problem, twin), strict=True
        ):
            if isinstance(w, np.ndarray):
                np.testing.assert_allclose(w, v, atol=1e-9)
            else:
                assert problem.dual_objective(w) == pytest.approx(problem.dual_objective(v))
        solver.step(problem, state)
        solver.step(problem, twin)


# Estimators and sources of data.


@pytest.mark.parametrize("kind", ["multiclass", "binary", "regression", "groups", "f1"])
def test_flat_estimators(kind, tmp_path, seed):
    X, y = rows(120, seed=seed)
    made = {
        "multiclass": lambda: mm.MulticlassSVC(C=0.5, class_weight="balanced", tol=1e-5),
        "binary": lambda: mm.BinarySVC(C=0.5, tol=1e-5, penalized_intercept=False),
        "regression": lambda: mm.RegressionSVR(C=0.5, tol=1e-5),
        "groups": lambda: mm.GeneralizedSVM(C=0.5, tol=1e-5),
        "f1": lambda: mm.BinarySVC(loss="f1", C=50.0, tol=1e-4),
    }[kind]
    y = {"binary": y > 0, "f1": y > 0, "regression": y + X[:, 0], "groups": np.ones(len(y))}.get(
        kind, y
    )
    path = tmp_path / "fit"
    with pytest.warns(UserWarning, match="not converged"):
        made().set_params(max_passes=2).fit(X, y, checkpoint=path)
    first = path.read_bytes()
    svm = made().fit(X, y, checkpoint=path, resume=True)
    whole = made().fit(X, y)
    assert svm.certificate_.converged and path.read_bytes() != first
    assert svm.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-3)
    again = made().fit(X, y, checkpoint=path, resume=True)
    assert again.certificate_.converged and len(again.history_["gap"]) == 1  # no work was left


def test_streams_of_shards_and_of_chunks(tmp_path, seed):
    X, y = rows(400, seed=seed)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=4000)
    data = mm.data.open_shards(tmp_path / "rows")
    chunks = [(X[k : k + 100], y[k : k + 100]) for k in range(0, 400, 100)]
    whole = mm.StructuralSVM(models.Multiclass(), tol=1e-4).fit(X, y).certificate_
    streaming = solvers.Streaming(cache_bytes=100_000, passes=None)
    for name, given in (("shards", (data.X, data.Y)), ("chunks", (chunks, None))):
        svm, saved = killed_again_and_again(
            lambda: mm.StructuralSVM(models.Multiclass(), solver=streaming, tol=1e-3),
            *given,
            tmp_path / name,
            np.random.default_rng(seed),
        )
        assert saved and svm.certificate_.converged
        assert svm.certificate_.dual <= whole.primal and whole.dual <= svm.certificate_.primal
    once = mm.StructuralSVM(models.Multiclass(), solver=solvers.Streaming(passes=1, verify=False))
    with pytest.raises(ValueError, match="can be read twice"):
        once.fit(iter(chunks), checkpoint=tmp_path / "once")


def test_budgets_count_what_was_spent_before(tmp_path, seed):
    case = make_case("chain-1to4-csr-ends", seed)
    asked = {"checkpoint": tmp_path / "fit", "resume": True}
    first = quietly(lambda: svm_of(case, "bcfw", max_passes=5).fit(case.X, case.Y, **asked))
    later = quietly(lambda: svm_of(case, "bcfw", max_passes=20).fit(case.X, case.Y, **asked))
    assert 5 <= first.certificate_.passes < 10 and 20 <= later.certificate_.passes < 25
    assert len(later.history_["gap"]) < 18
    spent = quietly(lambda: svm_of(case, "bcfw", max_seconds=1e-6).fit(case.X, case.Y, **asked))
    assert spent.certificate_.status == "time limit"
    assert spent.certificate_.seconds >= later.history_["seconds"][-1]


def test_warm_start_gives_way_to_a_checkpoint(tmp_path, seed):
    X, y = rows(seed=seed)
    svm = mm.StructuralSVM(models.Multiclass(), tol=1e-5, warm_start=True)
    svm.fit(X, y, checkpoint=tmp_path / "fit")
    svm.fit(X, y, checkpoint=tmp_path / "fit", resume=True)
    assert svm.certificate_.converged and len(svm.history_["gap"]) == 1  # no work was left


# Rounds of hidden parts.


def hidden(kind, seed):
    """Return an estimator with hidden parts and its data."""
    if kind == "own":
        X, Y = hidden_halves(seed)[:2]
        return mm.LatentSVM(models.Latent(HiddenShift()), C=0.3, tol=1e-4, random_state=0), X, Y
    if kind == "unknown":
        case = make_case("chain-1to4-dense", seed)
        Y = [[None if t % 3 == 2 else int(v) for t, v in enumerate(y)] for y in case.Y]
        return mm.LatentSVM(models.Chain(), C=0.3, tol=1e-4, random_state=0), case.X, Y
    return latent(C=1.0, start="random"), *mixtures(seed)


@pytest.mark.parametrize("kind", ["parts", "unknown", "own"])
def test_rounds_of_hidden_parts_go_on(kind, tmp_path, seed):
    path = tmp_path / "fit"
    svm, X, Y = hidden(kind, seed)
    svm.set_params(max_rounds=1)
    quietly(lambda: svm.fit(X, Y, checkpoint=path))
    first, spent = svm.objective_path_, svm.certificate_.passes
    content = path.read_bytes()
    kill = Kill(0)  # kill it within the next round
    svm, *_ = hidden(kind, seed)
    with pytest.raises(Killed):
        svm.fit(X, Y, checkpoint=path, resume=True, callbacks=[kill])
    assert path.read_bytes() == content
    svm, *_ = hidden(kind, seed)
    svm.fit(X, Y, checkpoint=path, resume=True)
    found = svm.objective_path_
    assert found[: len(first)].tolist() == first.tolist()
    assert len(found) > len(first) and (np.diff(found) <= 1e-9 * np.abs(found[:-1])).all()
    assert found[-1] == pytest.approx(mm.objective(svm, svm.coef_, X, Y), rel=1e-9)
    assert svm.certificate_.passes > spent
    # One more round after the end lowers the objective by less than the tolerance of rounds.
    again = hidden(kind, seed)[0].fit(X, Y, checkpoint=path, resume=True)
    assert len(again.objective_path_) == len(found) + 1
    assert again.objective_path_[-1] <= found[-1]
    other = hidden(kind, seed)[0].set_params(C=7.0)
    with pytest.raises(ValueError, match=r"C was .*, now it is 7\.0"):
        other.fit(X, Y, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match=r"number of examples|checksum of X"):
        hidden(kind, seed)[0].fit(X[1:], Y[1:], checkpoint=path, resume=True)


def test_a_pickle_between_two_chunks_is_the_checkpoint_of_partial_fit(seed):
    X, y = rows(90, seed=seed)
    svm, whole = (mm.StructuralSVM(models.Multiclass(), random_state=0) for _ in range(2))
    for k in range(3):
        chunk = slice(30 * k, 30 * k + 30)
        svm = pickle.loads(pickle.dumps(svm)).partial_fit(X[chunk], y[chunk], classes=[0, 1, 2])
        whole.partial_fit(X[chunk], y[chunk], classes=[0, 1, 2])
    assert svm.coef_.tolist() == whole.coef_.tolist()
    assert svm.certificate_.dual == whole.certificate_.dual


def test_what_takes_no_checkpoint_refuses_it(seed):
    X, y = rows(30, seed=seed)
    for call in (
        lambda **asked: mm.MulticlassSVCCV().fit(X, y, **asked),
        lambda **asked: mm.StructuralSVMCV(models.Multiclass()).fit(X, y, **asked),
        lambda **asked: mm.MulticlassSVC().partial_fit(X, y, **asked),
        lambda **asked: mm.regularization_path(mm.MulticlassSVC(), X, y, [1.0], **asked),
    ):
        with pytest.raises(TypeError, match="checkpoint"):
            call(checkpoint="fit")


# Real kills.

VICTIM = """
import sys
import numpy as np
import maxmargin as mm
from maxmargin.data.synthetic import words_of_letters
X, Y = words_of_letters(40, random_state=3)
svm = mm.StructuralSVM(mm.models.Chain(), C=0.02, tol=1e-3, solver=sys.argv[2], random_state=0)
print("begun", flush=True)
svm.fit(X, Y, checkpoint=sys.argv[1], checkpoint_every=1e-3, resume=True)
print(repr(svm.certificate_.primal), repr(svm.certificate_.dual), svm.certificate_.converged, flush=True)
"""


def run_victim(path, solver, seconds):
    """Return the output of a process, which is killed after some seconds if it still runs."""
    command = [sys.executable, "-c", VICTIM, str(path), solver]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as victim:
        assert victim.stdout is not None and victim.stdout.readline() == "begun\n"
        try:
            victim.wait(seconds)
        except subprocess.TimeoutExpired:
            victim.kill()  # SIGKILL, for this process only
        return victim.stdout.read()


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
@pytest.mark.parametrize("solver", ["proximal", "one-slack"])
def test_killed_processes_go_on(solver, tmp_path, seed):
    rng, path = np.random.default_rng(seed), tmp_path / "fit"
    for _ in range(3):
        run_victim(path, solver, float(rng.exponential(0.2)))
    primal, dual, converged = run_victim(path, solver, None).split()
    assert converged == "True"
    alone = run_victim(tmp_path / "alone", solver, None).split()
    assert float(primal) == pytest.approx(float(alone[0]), rel=1e-2)
    assert float(dual) <= float(alone[0]) and float(alone[1]) <= float(primal)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
