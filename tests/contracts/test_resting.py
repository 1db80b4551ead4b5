"""A state that frees the memory of a large w while others read its weights resumes with the same bits."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import models
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.cases import fresh
from reference.strategies import SEED

STATUS = Path("/proc/self/status")


def wide_problem(d, labels, n, density):
    """Chains with so many features that w, its centre and the previous w take more than 16 MiB."""
    generator = fresh(SEED, 17)
    X = [sp.random(5, d, density=density, format="csr", random_state=generator) for _ in range(n)]
    Y = [generator.integers(labels, size=5) for _ in X]
    model = models.Chain(start=True)
    model.initialize(X, Y)
    return Problem(model.bind(X, Y), C=1.0)


def opened(problem, single):
    """Return a state after a pass, with a centre that differs from w."""
    state = open_state(problem, 1e-3, np.random.default_rng(0), single=single)
    state.core.recenter(0.0, 1.0)
    state.visit(problem.active)
    state.core.recenter(0.4, 0.5)
    state.visit(problem.active, oracle=False)
    return state


def resident():
    """Return the resident bytes of this process."""
    lines = STATUS.read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


USES = {
    "visit": lambda state, blocks: state.visit(blocks).violations,
    "visit by threads": lambda state, blocks: state.visit(blocks, threads=2).violations,
    "cached visit": lambda state, blocks: state.visit(blocks, oracle=False).violations,
    "recenter": lambda state, blocks: state.core.recenter(0.4, 0.25),
    "dual": lambda state, blocks: state.dual(),
    "lag": lambda state, blocks: state.core.lag(),
    "squared distance": lambda state, blocks: state.core.squared_distance(),
    "probe": lambda state, blocks: state.probe(blocks),
    "refresh": lambda state, blocks: state.refresh(),
    "restore": lambda state, blocks: state.restore(state.support()),
    "subgradient": lambda state, blocks: state.subgradient(blocks),
    "running weights": lambda state, blocks: state.core.weights(False),
    "origin": lambda state, blocks: state.core.set_origin(np.ones(state.problem.dimension)),
    "frozen": lambda state, blocks: state.core.freeze(np.ones(state.problem.dimension)),
}


@pytest.mark.parametrize(
    "shape", [(200_000, 11, 20, 1e-3), (200_000, 3, 3, 0.9)], ids=["zeros", "full"]
)
@pytest.mark.parametrize("single", [True, False], ids=["single", "double"])
def test_whatever_uses_a_state_finds_the_w_that_it_had(single, shape):
    problem = wide_problem(*shape)
    rested, other = opened(problem, single), opened(problem, single)
    for name, use in USES.items():
        rested.weights()
        found, wanted = use(rested, problem.active), use(other, problem.active)
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        np.testing.assert_array_equal(
            rested.core.weights(False), other.core.weights(False), err_msg=name
        )
    assert other.core.weights(False).any()


def test_the_law_is_the_same_bits_at_rest():
    problem = wide_problem(200_000, 11, 20, 1e-3)
    state = opened(problem, single=False)
    state.refresh()  # recompute w from the multipliers
    awake = state.core.weights(False)
    for _ in range(2):
        assert (state.weights() == awake).all() and awake.any()
    support = state.support()
    assert state.core.n_planes >= len(support) > 0


@pytest.mark.parametrize(
    "shape", [(200_000, 11, 20, 1e-3), (30, 3, 20, 0.5)], ids=["large", "small"]
)
def test_single_weights_beside_a_centre_are_those_of_the_updates(shape):
    """Only the core knows the centre, so its weights differ from the law by single-precision rounding."""
    state = opened(wide_problem(*shape), single=True)
    w = state.weights()
    np.testing.assert_array_equal(w, state.core.weights(False))
    state.refresh()  # recompute w from the multipliers
    law = state.core.weights(False)
    np.testing.assert_allclose(w, law, rtol=0, atol=1e-5 * np.abs(law).max())
    assert law.any()
    state.core.recenter(0.0, 0.0)  # without a centre: the law in double precision
    plane = state.problem.plane(state.support())[1]
    np.testing.assert_allclose(state.weights(), -plane, rtol=0, atol=1e-12 * np.abs(plane).max())


@pytest.mark.skipif(not STATUS.exists(), reason="the memory of a process is read as Linux has it")
def test_weights_take_less_memory_than_the_state_gives_back():
    problem = wide_problem(500_000, 11, 20, 1e-3)
    state = opened(problem, single=True)
    before = resident()
    w = state.weights()
    assert resident() < before - w.nbytes / 2
