"""Cutting planes: the inner program, the iteration bound, few cuts, warm starts."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

import maxmargin as mm
from helpers import (
    as_python,
    assert_optimal,
    assert_truthful,
    built_in,
    fit,
    loss_units,
    quietly,
)
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.data.synthetic import random_multiclass
from maxmargin.models.python import bind_model
from maxmargin.problem import Formulation, Problem
from maxmargin.solvers.cut_state import Cuts, CutState, inner, thin
from plane_cases import open_problem
from reference.cases import chain_case, multiclass_case


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), rank=st.integers(1, 6))
def test_simplex_program_agrees_with_a_general_solver(seed, n, rank):
    generator = np.random.default_rng(seed)
    G, b = generator.normal(size=(n, rank)), generator.normal(size=n)
    H = np.ascontiguousarray(G @ G.T)
    beta = np.full(n, 1.0 / n)
    gap = core.simplex_qp(H, b, beta, 1e-12, 1_000_000)
    assert gap <= 1e-12
    assert (beta >= 0).all()
    assert beta.sum() == pytest.approx(1.0)
    found = b @ beta - 0.5 * beta @ H @ beta
    other = minimize(
        lambda x: 0.5 * x @ H @ x - b @ x,
        np.full(n, 1.0 / n),
        jac=lambda x: H @ x - b,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found >= -other.fun - 1e-7 * (1 + abs(found))


def test_grown_hessian_equals_one_built_fresh(generator):
    case = chain_case(generator, n=5, lengths=(2, 3), n_classes=3)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    problem = Problem(model.bind(case.X, case.Y), case.C)
    solver = solvers.OneSlack(keep=2)
    state = solver.start(problem, 1e-9, generator)
    for _ in range(12):
        solver.step(problem, state)
        G = np.array([state.mixed(row) for row in np.eye(len(state.beta))])
        np.testing.assert_allclose(state.cuts.hessian, G @ G.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(state.w, -G.T @ state.beta, atol=1e-12)
    assert len(state.beta) < state.rounds  # some cuts were dropped


VARIANTS = {
    "plain": solvers.OneSlack(cache=0),
    "cache": solvers.OneSlack(cache=10),
    "cache-of-one": solvers.OneSlack(cache=1),
    "line-search": solvers.OneSlack(cache=0, inner="line-search"),
    "line-search-cache": solvers.OneSlack(inner="line-search"),
    "proximal": solvers.OneSlack(cache=0, proximal=True),
    "proximal-cache": solvers.OneSlack(cache=5, proximal=True),
}


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("name", ["plain", "cache", "line-search", "line-search-cache"])
@pytest.mark.parametrize("kind", ["multiclass", "chain"])
def test_cuts_stay_below_the_bound_of_theorem_5(kind, name, rescaling, C, generator):
    # The bound in the paper's scale, 1/2 |w|^2 + C' / n sum xi: at most log2(Delta / (4 R^2 C')) +
    # 16 R^2 C' / eps cuts. R is the norm of the longest plane (for slack rescaling Delta R). The
    # proof only needs a line search. It also holds for cuts of the cache, which are violated by
    # more than eps.
    if kind == "multiclass":
        case = multiclass_case(generator, n=12, n_classes=3, n_features=3)
    else:
        case = chain_case(generator, n=6, lengths=(1, 4), n_classes=3)
    case = case.replace(C=C, rescaling=rescaling)
    eps = 0.05
    problem = open_problem(case)
    solver = VARIANTS[name]
    state = solver.start(problem, eps, generator)
    longest = max(np.square(block.vectors).sum(axis=1).max() for block in case.blocks)
    loss = max(block.offsets.max() for block in case.blocks)
    scaled = C * len(case.Y)
    bound = np.ceil(np.log2(max(2.0, loss / (4 * longest * scaled)))) + np.ceil(
        16 * longest * scaled / eps
    )
    while solver.step(problem, state).estimate > eps:
        assert state.rounds <= bound
    assert state.rounds <= bound


@pytest.mark.parametrize("name", [name for name in VARIANTS if "line" not in name])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_every_variant_reaches_the_optimum(name, rescaling, generator):
    case = chain_case(generator, n=6, lengths=(1, 4), n_classes=3).replace(rescaling=rescaling)
    svm = fit(case, VARIANTS[name], relative=5e-7, max_passes=100_000)
    assert_optimal(case, svm)
    assert_truthful(case, svm)


@pytest.mark.parametrize("name", ["line-search", "line-search-cache"])
def test_line_search_goes_as_far_as_its_rate(name, generator):
    case = chain_case(generator, n=6, lengths=(1, 4), n_classes=3)
    svm = fit(case, VARIANTS[name], relative=1e-2, max_passes=100_000)
    assert svm.certificate_.converged
    assert_truthful(case, svm)
    assert svm.history_["planes"].max() <= 21  # older cuts are merged into one


@pytest.mark.parametrize("python", [False, True])
def test_the_cache_saves_oracle_calls(python, generator):
    case = chain_case(generator, n=15, lengths=(3, 6), n_classes=4)
    model, X = as_python(case) if python else (built_in(case), case.X)
    tol = 1e-3  # the dense QP is slow for this many outputs
    calls = []
    for name in ("plain", "cache"):
        svm = mm.StructuralSVM(model, C=case.C, solver=VARIANTS[name], tol=tol).fit(X, case.Y)
        assert svm.certificate_.converged
        calls.append(svm.certificate_.oracle_calls)
    assert calls[1] < 0.8 * calls[0]


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("python", [False, True])
def test_cached_answers_are_the_best_of_what_is_kept(python, rescaling, generator):
    case = chain_case(generator, n=6, lengths=(2, 4), n_classes=3).replace(rescaling=rescaling)
    model, X = as_python(case) if python else (built_in(case), case.X)
    model.initialize(X, case.Y)
    examples = bind_model(model, X, case.Y).under(Formulation("max", rescaling))
    cache = examples.cache(3)
    ring: list[list] = [[] for _ in case.Y]

    def planes(outputs):
        """Return offset and vector of each output, by the sums of the examples."""
        return [
            examples.combine(np.array([i]), np.ones(1), part)
            for i, part in enumerate(parts_of(examples, outputs, case))
        ]

    for _ in range(30):
        w = generator.normal(size=model.size_joint_feature)
        outputs = examples.worst(w)[1]
        cache.add(outputs)
        for kept, plane in zip(ring, planes(outputs), strict=True):
            refresh(kept, plane, 3)
        w = generator.normal(size=model.size_joint_feature)
        found, best = cache.best(w, 1)
        for i, (kept, plane) in enumerate(zip(ring, planes(best), strict=True)):
            top = max([0.0, *(offset + vector @ w for offset, vector in kept)])
            assert found[i] == pytest.approx(top, rel=1e-9, abs=1e-12)
            assert plane[0] + plane[1] @ w == pytest.approx(top, rel=1e-9, abs=1e-12)
            refresh(kept, plane, 3)


def parts_of(examples, outputs, case):
    """Return the outputs of each example."""
    if not isinstance(outputs, np.ndarray):
        return [[plane] for plane in outputs]
    return np.split(outputs, np.cumsum([len(y) for y in case.Y])[:-1])


def refresh(kept, plane, capacity):
    """Move a plane to the front of an LRU list, unless it is the zero plane of the true output."""
    if not np.any(plane[1]):
        return
    same = [np.array_equal(plane[1], vector) for _, vector in kept]
    if True in same:
        del kept[same.index(True)]
    kept.insert(0, plane)
    del kept[capacity:]


def mixture_of(vector, dense):
    """Return twice the vector, as the state sums it."""
    cuts = replace(Cuts.none(), vectors=(vector,))
    return CutState(1e-3, dense, np.arange(1), cuts=cuts).mixed(np.array([2.0]))


def test_thin_vectors_are_the_same_vectors(generator):
    dense = generator.normal(size=50)
    other = generator.normal(size=50)
    assert thin(dense) is dense
    dense[generator.permutation(50)[:40]] = 0.0
    short = thin(dense)
    assert short.nnz == 10
    assert inner(short, other) == pytest.approx(dense @ other, rel=1e-12)
    np.testing.assert_array_equal(mixture_of(short, dense), 2 * dense)


def test_gathered_cuts_are_the_same_dual_point(generator):
    case = chain_case(generator, n=6, lengths=(2, 4), n_classes=3)
    problem = open_problem(case)
    solver = solvers.OneSlack(cache=0)
    state = solver.start(problem, 1e-9, generator)
    while len(state.beta) <= 21:
        solver.step(problem, state)
    dual, w = state.dual(), state.mixed(state.beta)
    state.gather(problem)
    assert len(state.beta) == 1
    assert state.dual() == pytest.approx(dual, rel=1e-12)
    np.testing.assert_allclose(state.mixed(state.beta), w, atol=1e-12)
    assert problem.dual_objective(state.support()) == pytest.approx(dual, rel=1e-9)


class CountingPool(ThreadPoolExecutor):
    """An executor that counts its tasks."""

    submitted = 0

    def submit(self, *work, **named):
        self.submitted += 1
        return super().submit(*work, **named)


@pytest.mark.parametrize("make", [solvers.OneSlack, solvers.NSlack])
def test_any_executor_runs_the_oracle(make, generator):
    case = chain_case(generator, n=8, lengths=(1, 3), n_classes=3)
    model, X = as_python(case)
    with CountingPool(2) as pool:
        svm = mm.StructuralSVM(model, C=case.C, solver=make(), n_jobs=pool, tol=1e-3)
        svm.fit(X, case.Y)
        assert pool.submitted >= 2 * svm.certificate_.passes - 2
    assert svm.certificate_.converged
    assert svm.certificate_.primal >= case.optimum.dual


@pytest.mark.parametrize("solver", ["one-slack", "n-slack"])
def test_warm_start_continues(solver, generator):
    case = multiclass_case(generator, n=10, n_classes=3, n_features=4)
    svm = fit(case, solver, relative=1e-6)
    cold = svm.certificate_.passes
    svm.set_params(warm_start=True, tol=loss_units(case, 1e-7))
    svm.fit(case.X, case.Y)
    assert_optimal(case, svm)
    assert svm.certificate_.passes <= cold + 20


def test_cuts_do_not_grow_with_the_number_of_examples():
    counts = []
    for n in (200, 2000):
        X, y = random_multiclass(n, 4, 6, random_state=0)
        svm = mm.StructuralSVM(models.Multiclass(), C=1.0 / n, solver="one-slack", tol=1e-3).fit(
            X, y
        )
        counts.append(svm.history_["planes"][-1])
    assert counts[1] <= 2 * counts[0] + 5


@pytest.mark.parametrize("make", [solvers.OneSlack, solvers.NSlack])
def test_more_threads_find_the_same_optimum(make, generator):
    case = chain_case(generator, n=6, lengths=(1, 4), n_classes=3)
    assert_optimal(case, fit(case, make(), relative=5e-7, n_jobs=2))


def test_pass_limit_is_truthful(generator):
    case = multiclass_case(generator, n=10, n_classes=3, n_features=4)
    svm = quietly(lambda: fit(case, "one-slack", relative=1e-9, max_passes=4))
    assert not svm.certificate_.converged
    assert svm.certificate_.dual <= case.optimum.primal
    assert svm.certificate_.primal >= case.optimum.dual


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_a_cut_by_several_threads_is_the_same(rescaling, generator):
    X, y = random_multiclass(200, 3, 4, random_state=0)
    model = models.Multiclass(bias=1.0)
    model.initialize(X, y)
    examples = model.bind(X, y)
    w = generator.normal(size=model.size_joint_feature)
    formulation = Formulation("max", rescaling)
    cuts = [Problem(examples, 0.1, None, formulation, n_jobs=n).cut(w) for n in (1, 3)]
    assert cuts[0].offset == pytest.approx(cuts[1].offset, rel=1e-12)
    np.testing.assert_allclose(cuts[0].vector, cuts[1].vector, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"inner": "line-search"}, {"proximal": True}])
def test_an_interrupt_at_any_line_keeps_the_solution(options, generator):
    """A trace raises in the n-th line of the state's code, for many n that a few steps reach."""
    case = chain_case(generator, n=5, lengths=(1, 3), n_classes=3)
    problem = open_problem(case)
    solver = solvers.OneSlack(keep=1, cache=2, **options)
    state = solver.start(problem, 1e-6, generator)
    for _ in range(12):
        solver.step(problem, state)
    for line in range(0, 400, 7):
        torn, counter = copy.copy(state), [line]

        def interrupt(frame, event, argument, counter=counter):
            if frame.f_code.co_filename.endswith(("cut_state.py", "cutting_plane.py")):
                counter[0] -= event == "line"
                if counter[0] < 0 and event == "line":
                    raise KeyboardInterrupt
            return interrupt

        before = sys.gettrace()
        try:
            sys.settrace(interrupt)
            solver.step(problem, torn)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        _, support = solver.solution(problem, torn)
        assert problem.dual_objective(support) <= case.optimum.primal * (1 + 1e-9)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("K", [3, 20, 256])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_kept_outputs_have_the_scores_of_the_definition(generator, K, most, layout):
    # The core computes local scores only at labels of kept outputs, which may be adjacent or far apart.
    X = [layout(generator.normal(size=(5, 6)).round(1)) for _ in range(4)]
    Y = [generator.integers(K, size=5) for _ in X]
    model = models.Chain(classes=range(K), bias=1.0)
    model.initialize(X, Y)
    w = generator.normal(size=model.size_joint_feature)
    cache = model.bind(X, Y).under(Formulation("max", "margin")).cache(most)
    kept = [[y] for y in Y]
    for _ in range(most):
        found = [np.where(generator.random(5) < 0.5, y, generator.integers(K, size=5)) for y in Y]
        cache.add(np.concatenate(found).astype(np.int32))
        for own, u in zip(kept, found, strict=True):
            own.append(u)
    slacks, _ = cache.best(w, 1)
    for x, y, own, slack in zip(X, Y, kept, slacks, strict=True):
        truth = w @ model.joint_feature(x, y)
        values = [model.loss(y, u) + w @ model.joint_feature(x, u) - truth for u in own]
        assert slack == pytest.approx(max(values), rel=1e-12, abs=1e-12)
