"""GDMM on factor graphs: the dense QP on forests, the linear relaxation on other graphs, kept outputs."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import assert_truthful, built_in, fit, loss_units, quietly, refusal
from maxmargin import models, solvers
from maxmargin.models.marginals import Marginals
from reference.cases import chain_case, fresh
from reference.problems import GRAPHS, make_case
from reference.relaxed import relaxed_optimum


def bound(case):
    model = built_in(case)
    model.initialize(case.X, case.Y)
    return model, model.bind(case.X, case.Y)


def loopy(seed, n=5, labels=3, nodes=4, pairwise="full"):
    """Return examples with cycles whose linear relaxation is not tight."""
    g = fresh(seed, 41)
    X, Y = [], []
    for _ in range(n):
        edges = np.array([(a, b) for b in range(nodes) for a in range(b)])
        X.append((g.normal(size=(nodes, 2)), edges))
        Y.append(g.integers(labels, size=nodes).tolist())
    Y[0][:labels] = range(labels)
    return models.FactorGraph(pairwise=pairwise), X, Y


def multilabel(seed, n=12, labels=5):
    g = fresh(seed, 43)
    X = g.normal(size=(n, 4))
    Y = (X @ g.normal(size=(4, labels)) + g.normal(size=(n, labels)) > 0.5).astype(int)
    Y[0] = 1
    return models.MultiLabel(), X, Y


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rho", [1.0, None, 10.0])
def test_optimum_and_bounds_on_small_graphs(seed, name, rho):
    case = make_case(name, seed)
    _, examples = bound(case)
    svm = quietly(lambda: fit(case, solvers.Gdmm(rho=rho), relative=1e-4, max_passes=5000))
    if examples.relaxed:
        optimum = relaxed_optimum(examples.factors, case.budgets)
        assert svm.certificate_.dual <= optimum * (1 + 1e-6)
        return
    assert svm.certificate_.converged and svm.certificate_.exact and not svm.certificate_.relaxed
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=1e-4)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)
    assert svm.certificate_.dual <= case.optimum.value * (1 + 1e-9)
    assert "relaxation" not in str(svm.certificate_)


def test_forests_agree_with_bcfw_and_the_relaxed_qp(seed):
    case = make_case("graph-forest-symmetric", seed)
    _, examples = bound(case)
    reference = relaxed_optimum(examples.factors, case.budgets)
    assert reference == pytest.approx(case.optimum.value, rel=1e-6)  # the relaxation is tight
    bcfw = fit(case, solvers.BCFW(pairwise=True), relative=1e-6)
    gdmm = fit(case, "gdmm", relative=1e-6, max_passes=50_000)
    assert gdmm.certificate_.primal == pytest.approx(bcfw.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(gdmm.coef_, bcfw.coef_, atol=1e-2 * np.abs(bcfw.coef_).max())


@pytest.mark.parametrize("make", [loopy, multilabel])
def test_optimum_of_the_linear_relaxation(seed, make):
    model, X, Y = make(seed)
    svm = mm.StructuralSVM(model, C=0.5, solver="gdmm", tol=1e-5, max_passes=4000, random_state=0)
    quietly(lambda: svm.fit(X, Y))
    examples = svm.model_.bind(X, Y)
    reference = relaxed_optimum(examples.factors, np.full(len(Y), 0.5))
    assert svm.certificate_.relaxed and svm.certificate_.exact
    assert svm.certificate_.dual == pytest.approx(reference, rel=1e-4)
    assert svm.certificate_.dual <= reference * (1 + 1e-6)
    assert svm.certificate_.primal >= reference * (1 - 1e-6)
    assert "linear relaxation" in str(svm.certificate_)
    # The exact optimum is not above that of the relaxation, and P of these weights is not above the bound.
    exact = mm.StructuralSVM(model, C=0.5, solver="sda", tol=1e-6, random_state=0)
    quietly(lambda: exact.fit(X, Y))
    assert exact.certificate_.dual <= reference * (1 + 1e-6)
    assert mm.objective(svm, svm.coef_, X, Y) <= svm.certificate_.primal * (1 + 1e-9)


def test_relaxed_and_exact_optimum_differ_somewhere(seed):
    """If the two optima were always equal, the tests above could not tell the problems apart."""
    for number in range(20):
        model, X, Y = loopy(seed + number, n=3, labels=2, nodes=5)
        model.initialize(X, Y)
        relaxed = relaxed_optimum(model.bind(X, Y).factors, np.full(3, 2.0))
        svm = mm.StructuralSVM(model, C=2.0, solver="sda", tol=1e-7, random_state=0)
        quietly(lambda svm=svm, X=X, Y=Y: svm.fit(X, Y))
        if relaxed > svm.certificate_.primal * (1 + 1e-4):
            gdmm = mm.StructuralSVM(model, C=2.0, solver="gdmm", tol=1e-4, max_passes=3000)
            quietly(lambda svm=gdmm, X=X, Y=Y: svm.fit(X, Y))
            assert gdmm.certificate_.dual > svm.certificate_.primal
            assert gdmm.certificate_.relaxed
            return
    pytest.fail("no example with a gap was found")


def test_a_chain_as_a_graph(seed):
    case = chain_case(fresh(seed, 12), n=5, lengths=(3, 4, 1))
    edges = [np.array([(t, t + 1) for t in range(len(y) - 1)]).reshape(-1, 2) for y in case.Y]
    X = [(x, e) for x, e in zip(case.X, edges, strict=True)]
    tol = loss_units(case, 1e-4)
    svm = mm.StructuralSVM(models.FactorGraph(), solver="gdmm", tol=tol, max_passes=5000)
    svm.fit(X, case.Y)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)


def test_certify_and_warm_start(seed):
    case = make_case("graph-forest-symmetric", seed)
    tol = loss_units(case, 1e-5)
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver="gdmm", tol=tol, max_passes=5000)
    svm.set_params(warm_start=True, random_state=0).fit(case.X, case.Y, case.sample_weight)
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    first = svm.certificate_.passes
    svm.fit(case.X, case.Y, case.sample_weight)
    assert svm.certificate_.converged and svm.certificate_.passes <= max(3, first / 3)
    svm.set_params(solver="sda")
    with refusal("warm_start|labels"):
        svm.fit(case.X, case.Y, case.sample_weight)
    other = fit(case, "sda").set_params(warm_start=True, solver="gdmm")
    with refusal("warm_start", "kept planes", "marginals"):
        other.fit(case.X, case.Y, case.sample_weight)


def test_assert_truthful_on_forests(seed):
    case = make_case("graph-forest-symmetric", seed)
    svm = fit(case, "gdmm", relative=1e-3, max_passes=3000)
    del svm.model_.classes_  # the check must not decode labels, since the multipliers are marginals
    assert_truthful(case, svm)


def test_bad_marginals_are_refused(seed):
    case = make_case("graph-edge-features", seed)
    _, examples = bound(case)
    svm = quietly(lambda: fit(case, "gdmm", relative=1e-2, max_passes=200))
    good = svm.support_.outputs
    assert isinstance(good, Marginals) and len(good.links)
    ones = np.ones(examples.n)
    every = np.arange(examples.n)
    examples.combine(every, ones, good)

    def changed(name, change):
        values = {f: np.array(getattr(good, f)) for f in good.__dataclass_fields__}
        values[name] = change(values[name])
        return Marginals(**values)

    def lower(values):
        values[0] -= 0.5
        return values

    cases = {
        "node_values": [lambda v: v * 0.5, lambda v: v[:-1], lower],
        "nodes": [lambda v: v + 1000],
        "link_values": [lambda v: v * 0.5, lambda v: v[:-1]],
        "links": [lambda v: v + 1000],
        "node_blocks": [lambda v: v + 1000],
    }
    for name, changes in cases.items():
        for change in changes:
            with pytest.raises(ValueError, match="marginals"):
                examples.combine(every, ones, changed(name, change))


def test_a_link_that_is_not_listed_is_that_of_separate_moves(seed):
    model, X, Y = loopy(seed, n=1, labels=3, nodes=3)
    model.initialize(X, Y)
    examples = model.bind(X, Y)
    s, t = Y[0][0], Y[0][1]
    p = np.full((2, 3), 0.2)
    p[0, s] = p[1, t] = 0.6
    q = np.zeros((3, 3))
    q[:, t], q[s, :], q[s, t] = p[0], p[1], 0.2
    nodes = (np.zeros(2, np.int64), np.arange(2, dtype=np.int32))
    link = int(np.flatnonzero((np.sort(X[0][1], axis=1) == [0, 1]).all(axis=1))[0])
    ends = examples.factors.shapes[0].edges[link]
    q = q if ends[0] == 0 else q.T
    listed = (np.zeros(1, np.int64), np.array([link], np.int32), q.ravel())
    empty = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
    one, every = np.ones(1), np.zeros(1, np.int64)
    sums = [
        examples.combine(every, one, Marginals(*nodes, p.ravel(), *links))
        for links in (listed, empty)
    ]
    np.testing.assert_allclose(sums[0][1], sums[1][1], atol=1e-12)
    assert sums[0][0] == pytest.approx(sums[1][0])
    p[0] = np.where(np.arange(3) == s, 0.2, 0.4)  # the sum of the marginals would exceed the mass
    with pytest.raises(ValueError, match="not listed"):
        examples.combine(every, one, Marginals(*nodes, p.ravel(), *empty))


def test_only_active_nodes_are_kept(seed):
    """Nodes that stay at their labels take no memory; a link is kept only if both of its nodes left."""
    model, X, Y = loopy(seed, n=30, labels=2, nodes=8)
    svm = mm.StructuralSVM(model, C=1e-3, solver=solvers.Gdmm(grow=1), tol=1e-3, max_passes=3)
    quietly(lambda: svm.fit(X, Y))
    kept = svm.support_.outputs
    per_block = np.bincount(kept.node_blocks, minlength=30)
    assert per_block.max() <= 3  # at most one per pass
    links = np.bincount(kept.link_blocks, minlength=30)
    np.testing.assert_array_equal(links, per_block * (per_block - 1) // 2)


def test_soft_constraints_are_another_problem(seed):
    """Without steps of the multipliers only the penalty holds factors together: Soft-BCFW."""
    model, X, Y = loopy(seed)
    duals = {}
    for rho in (0.3, 30.0):
        solver = solvers.Gdmm(rho=rho, eta=0.0)
        svm = mm.StructuralSVM(model, C=0.5, solver=solver, tol=1e-6, max_passes=1500)
        quietly(lambda svm=svm: svm.fit(X, Y))
        assert not svm.certificate_.converged
        duals[rho] = svm.certificate_.dual
    reference = relaxed_optimum(svm.model_.bind(X, Y).factors, np.full(len(Y), 0.5))
    assert duals[0.3] < reference * (1 - 1e-4)
    assert duals[0.3] < duals[30.0] <= reference * (1 + 1e-6)


@pytest.mark.parametrize(
    ("options", "patterns"),
    [
        ({"rho": 0}, ("rho", "positive")),
        ({"rho": np.inf}, ("rho", "positive")),
        ({"eta": -1}, ("eta", r"\[0, 1\]")),
        ({"inner": 0}, ("inner", "whole")),
        ({"grow": 0}, ("grow", "from 1")),
        ({"grow": 1.5}, ("grow", "from 1")),
    ],
)
def test_bad_options_are_named(options, patterns):
    with refusal("Gdmm", *patterns):
        solvers.Gdmm(**options)


def test_other_models_and_formulations_are_refused(seed):
    case = make_case("multiclass-cost-dense", seed)
    with refusal("gdmm", "FactorGraph"):
        fit(case, "gdmm")
    case = make_case("graph-forest-symmetric", seed).replace(rescaling="slack")
    with refusal("gdmm", "does not support"):
        fit(case, "gdmm")
