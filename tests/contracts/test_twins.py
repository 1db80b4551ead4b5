"""The compiled solvers equal the readable twins, pass by pass.

Cyclic order and a random cost matrix (no ties) make the steps unique: after each pass over the
examples the dual of the package equals the dual of the pseudo-code.
"""

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, fit, quietly
from maxmargin import solvers
from maxmargin.solvers.dual_state import open_state
from reference import twins, twins_batch, twins_cuts
from reference.cases import binary_case, chain_case, fresh, multiclass_case

MAKERS = {
    "multiclass": lambda g: multiclass_case(g, n=12, n_classes=4, costs=True, C=0.4),
    "multiclass-csr-weights": lambda g: multiclass_case(
        g, n=12, n_classes=3, layout="csr", costs=True, weighted=True
    ),
    "binary": lambda g: binary_case(g, n=12, costs=True, weighted=True, C=0.4),
    "chain": lambda g: chain_case(g, n=8, lengths=(1, 3, 2), costs=True, start=True, end=True),
    "chain-mean-weights": lambda g: chain_case(
        g, n=8, lengths=(3, 2), costs=True, mean=True, weighted=True, C=3.0
    ),
}
PAIRS = {
    "sda": (twins.sda, lambda: solvers.SDA(order="cyclic")),
    "sdm": (twins.sdm, lambda: solvers.SDM(order="cyclic")),
    "bcfw": (twins.bcfw, lambda: solvers.BCFW(order="cyclic")),
}
PASSES = 6


def enumerated(case):
    return twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("solver", PAIRS)
def test_dual_after_each_pass_is_the_twins(seed, solver, name):
    case = MAKERS[name](fresh(seed, 7))
    twin, make = PAIRS[solver]
    expected = twin(enumerated(case), tol=0.0, max_passes=PASSES).dual
    svm = quietly(lambda: fit(case, make(), relative=1e-14, max_passes=50))
    found = np.asarray(svm.history_["dual"][: PASSES + 1])
    # the history may begin with the starting point
    found = found[1:] if found[0] == 0.0 else found[:PASSES]
    # Steps use norms in single precision, so they are optimal to about 1e-7; the certificate is in
    # double. A pair step can reach the optimum itself; then the twin stops.
    expected = np.pad(np.asarray(expected), (0, len(found[:PASSES]) - len(expected)), mode="edge")
    np.testing.assert_allclose(found[:PASSES], expected, rtol=1e-6)


@pytest.mark.parametrize("reduced", ["growing", "printed"])
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_fasole_asks_the_oracle_as_often_as_the_twin(seed, name, accelerated, reduced):
    case = MAKERS[name](fresh(seed, 8))
    tol = 1e-3
    twin = twins_batch.fasole(enumerated(case), tol=tol)
    assert twin.converged
    keep = 0 if reduced == "printed" else solvers.Fasole.keep
    solver = solvers.Fasole(accelerated=accelerated, reduced=reduced, keep=keep)
    svm = fit(case, solver, tol=tol)
    slack = 2 * len(case.Y)  # a certificate pass, and flags that end a pass earlier or later
    assert abs(svm.certificate_.oracle_calls - twin.oracle_calls[-1]) <= slack


@pytest.mark.parametrize("name", MAKERS)
def test_proximal_needs_no_more_passes_than_the_plain_recipe(seed, name):
    # The shortcuts of the package (skipped visits, early certificates) may only save oracle calls.
    case = MAKERS[name](fresh(seed, 9))
    twin = twins_batch.proximal(enumerated(case), tol=1e-3, seed=seed)
    assert twin.converged
    svm = fit(case, "proximal", tol=1e-3)
    assert svm.certificate_.oracle_calls <= 2 * twin.oracle_calls[-1] + 5 * len(case.Y)


@pytest.mark.parametrize("name", [name for name in MAKERS if not name.startswith("chain")])
def test_epochs_of_dual_coordinate_ascent_are_the_twins(seed, name):
    case = MAKERS[name](fresh(seed, 10))
    seeds = [int(s) for s in fresh(seed, 11).integers(2**62, size=PASSES)]
    expected = twins_batch.dual_coordinate(enumerated(case), seeds).dual
    model = built_in(case)
    model.initialize(case.X, case.Y)
    problem = mm.Problem(model.bind(case.X, case.Y), case.C, case.sample_weight)
    state = solvers.DualCoordinate().start(problem, 1e-12, fresh(seed))
    found = []
    for epoch in seeds:
        state.core.epoch(epoch, False, 0.0)
        found.append(state.core.dual())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("rule", ["wss2", "mvp"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_updates_are_within_the_bound_of_theorem_1(seed, name, rule, share):
    # Algorithm 2 ends after at most 8 L D^2 / (eps^2 lambda) updates, with L the largest loss and D
    # the largest |psi(x, y)|. With R = max |psi_i(u) - psi_i(v)| <= 2 D,
    #  2 L R^2 / (eps^2 lambda) is not larger.
    case = MAKERS[name](fresh(seed, 14))
    blocks = enumerated(case).blocks
    largest = max(block.offsets.max() for block in blocks)
    square = max(
        ((block.vectors[:, None] - block.vectors[None]) ** 2).sum(axis=2).max() for block in blocks
    )
    tol = share * largest
    model = built_in(case)
    model.initialize(case.X, case.Y)
    problem = mm.Problem(model.bind(case.X, case.Y), case.C)
    state = open_state(problem, tol, fresh(seed))
    bound = 2 * largest * square / tol**2 * problem.total  # 1 / lambda is the total mass C n
    updates, last = 0, 1
    while last > 0 and updates <= bound:
        last = state.visit(problem.active, rule=rule, tolerance=tol).updates
        updates += last
    assert 0 < updates <= bound
    bounds = problem.certify(*state.solution())
    assert bounds.primal - bounds.dual <= tol * problem.total * (1 + 1e-9)


EXACT_PROGRAM = 1e-5  # the accuracy of a program, relative to tol or to the last gap


@pytest.mark.parametrize("name", MAKERS)
def test_n_slack_as_printed_is_the_twin(seed, name):
    case, eps = MAKERS[name](fresh(seed, 15)), 1e-2
    expected = twins_cuts.n_slack(enumerated(case), eps)
    exactly = {"accuracy": EXACT_PROGRAM, "max_sweeps": 1_000_000}
    solver = solvers.NSlack(batch=1, growing=False, keep=0, **exactly)
    problem = opened(case)
    state = solver.start(problem, eps, fresh(seed))
    found = [solver.step(problem, state).dual for _ in expected]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(expected) > 1


@pytest.mark.parametrize("name", MAKERS)
def test_one_slack_as_printed_is_the_twin(seed, name):
    case, eps = MAKERS[name](fresh(seed, 16)), 1e-2
    expected = twins_cuts.one_slack(enumerated(case), eps)
    solver = solvers.OneSlack(cache=0, accuracy=EXACT_PROGRAM, keep=10_000)
    problem = opened(case)
    state = solver.start(problem, 1e-12, fresh(seed))
    for dual in expected:
        assert state.dual() == pytest.approx(dual, rel=1e-5, abs=1e-9)
        solver.step(problem, state)
    assert len(expected) > 1


def test_cuts_of_violators_as_printed_are_the_twins(seed):
    case, eps = MAKERS["chain"](fresh(seed, 17)), 1e-2
    expected = twins_cuts.summed(enumerated(case), eps)
    solver = solvers.OneSlack(cache=0, accuracy=EXACT_PROGRAM, keep=10_000, violators=0)
    problem = opened(case, "sum")
    state = solver.start(problem, 1e-12, fresh(seed))
    for dual in expected:
        assert state.dual() == pytest.approx(dual, rel=1e-5, abs=1e-9)
        solver.step(problem, state)
    assert len(expected) > 1


def opened(case, hinge="max"):
    """Return the problem of a case."""
    model = built_in(case)
    model.initialize(case.X, case.Y)
    formulation = mm.problem.Formulation(hinge, case.rescaling)
    return mm.Problem(model.bind(case.X, case.Y), case.C, case.sample_weight, formulation)
