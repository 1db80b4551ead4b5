"""Factors over several nodes in FactorGraph, against enumeration, a dense QP and the relaxation's own QP."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models, solvers
from maxmargin.formulation import Formulation
from maxmargin.models.cliques import CLIQUE_KINDS, Cliques
from maxmargin.models.constraints import Fixed
from reference.cases import fresh
from reference.cliques import blocks_of, every_output, joint_feature, relaxed_optimum
from reference.dense_qp import solve
from reference.strategies import SEED


def drawn(g, n=4, K=3, loops=False, order=3, nodes=5):
    """Return examples whose factors and edges form a tree, or with `loops` may have cycles."""
    X, Y = [], []
    for _ in range(n):
        if loops:
            cliques = [g.choice(nodes, size=order, replace=False) for _ in range(3)]
            edges = [(0, 1), (1, 2)]
        else:
            first = g.permutation(nodes)
            cliques, edges = [first[:order]], [(first[order - 1], v) for v in first[order:]]
        x = (g.normal(size=(nodes, 2)), np.array(edges, dtype=int), None, None, np.array(cliques))
        X.append(x)
        Y.append(g.integers(K, size=nodes).tolist())
    for k in range(K):
        Y[0][k] = k
    return X, Y


def model_of(X, Y, kind, **options):
    model = models.FactorGraph(cliques=kind, **options)
    model.initialize(X, Y)
    return model


@given(
    st.integers(0, 10**6),
    st.sampled_from(CLIQUE_KINDS),
    st.integers(2, 4),
    st.integers(2, 4),
    st.booleans(),
)
def test_scores_and_argmax_by_enumeration(number, kind, K, order, loops):
    g = fresh(SEED, number)
    X, Y = drawn(g, n=3, K=min(K, 4), loops=loops, order=order, nodes=4 if K == 4 else 5)
    K = len({label for y in Y for label in y})
    model = model_of(X, Y, kind)
    w = 2 * g.normal(size=model.size_joint_feature)
    examples = model.bind(X, Y)
    found, ceilings = examples.slacks(w)
    predicted = examples.predict(w)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        outputs = every_output(len(y), K)
        scores = np.array([w @ joint_feature(x, u, K, kind) for u in outputs])
        np.testing.assert_allclose(model.joint_feature(x, y), joint_feature(x, tuple(y), K, kind))
        losses = np.array([np.sum(np.array(u) != y) for u in outputs])
        own = scores[outputs.index(tuple(y))]
        best = (scores + losses).max() - own
        assert found[i] <= best + 1e-9 <= ceilings[i] + 2e-9
        value = scores[outputs.index(tuple(predicted[i].tolist()))]
        assert value <= scores.max() + 1e-9
        if not loops:
            assert model.forests_ and examples.argmax_exact
            assert found[i] == pytest.approx(best, abs=1e-9)
            assert value == pytest.approx(scores.max(), abs=1e-9)


@pytest.mark.parametrize("kind", CLIQUE_KINDS)
def test_integer_programs_and_constraints(seed, kind):
    g = fresh(seed, 321)
    X, Y = drawn(g, loops=True)
    model = model_of(X, Y, kind, inference="milp")
    w = 2 * g.normal(size=model.size_joint_feature)
    examples = model.bind(X, Y)
    fixed = examples.constrained(w, [Fixed({0: 1})])
    for i, (x, y) in enumerate(zip(X, examples.predict(w), strict=True)):
        outputs = every_output(len(y), 3)
        scores = np.array([w @ joint_feature(x, u, 3, kind) for u in outputs])
        assert scores[outputs.index(tuple(y.tolist()))] == pytest.approx(scores.max(), abs=1e-5)
        kept = [s for s, u in zip(scores, outputs, strict=True) if u[0] == 1]
        own = scores[outputs.index(tuple(fixed[i].tolist()))]
        assert own == pytest.approx(max(kept), abs=1e-5) and fixed[i][0] == 1


@pytest.mark.parametrize("kind", CLIQUE_KINDS)
@pytest.mark.parametrize("solver", ["proximal", "sda", "one-slack", "gdmm"])
def test_the_optimum_is_that_of_the_dense_program(seed, kind, solver):
    X, Y = drawn(fresh(seed, 322))
    optimum = solve(blocks_of(X, Y, 3, kind), 0.3)
    svm = mm.StructuralSVM(models.FactorGraph(cliques=kind), C=0.3, solver=solver)
    svm.set_params(tol=1e-4, max_passes=20_000, random_state=0).fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.exact
    assert svm.certificate_.primal == pytest.approx(optimum.value, abs=1.3e-4 * 1.2)
    assert svm.certificate_.dual <= optimum.value * (1 + 1e-8)


@pytest.mark.parametrize("kind", CLIQUE_KINDS)
def test_gdmm_meets_the_relaxation_of_the_factors(seed, kind):
    """GDMM uses fewer states per factor than the factor has labellings; the relaxation is the same."""
    X, Y = drawn(fresh(seed, 323), n=3, loops=True)
    optimum = relaxed_optimum(X, Y, 3, kind, 0.5)
    over = solve(blocks_of(X, Y, 3, kind), 0.5).value
    assert optimum >= over * (1 - 1e-7)
    model = model_of(X, Y, kind)
    problem = mm.Problem(model.bind(X, Y), 0.5)
    result = quietly(
        lambda: mm.train(problem, solvers.Gdmm(), tol=1e-4, max_passes=8000, random_state=0)
    )
    assert result.certificate.relaxed
    assert result.certificate.dual <= optimum * (1 + 1e-6)
    assert result.certificate.dual == pytest.approx(optimum, rel=3e-3)
    assert result.certificate.primal >= optimum * (1 - 1e-6)


@pytest.mark.parametrize("kind", CLIQUE_KINDS)
def test_sums_over_all_labellings(seed, kind):
    g = fresh(seed, 324)
    X, Y = drawn(g, loops=True)
    model = model_of(X, Y, kind)
    w = g.normal(size=model.size_joint_feature)
    floors, ceilings = model.bind(X, Y).under(Formulation("sum", "margin")).slacks(w)
    for i, block in enumerate(blocks_of(X, Y, 3, kind)):
        total = np.maximum(0, block.offsets + block.vectors @ w).sum()
        assert floors[i] == pytest.approx(total) and ceilings[i] == pytest.approx(total)


@given(st.integers(2, 5), st.integers(2, 4), st.sampled_from(CLIQUE_KINDS))
def test_every_labelling_is_in_one_state(K, m, kind):
    cliques = Cliques("c", (0,) * m, (K,) * m, kind)
    labels = np.array(every_output(m, K))
    states = cliques.states(labels)
    fits = np.ones((len(labels), cliques.n_states), bool)
    for j in range(m):
        fits &= cliques.allowed(j)[:, labels[:, j]].T
    assert (fits.sum(axis=1) == 1).all() and fits[np.arange(len(labels)), states].all()
    weights = cliques.columns[states]
    same = (labels == labels[:, :1]).all(axis=1)
    assert kind == "full" or ((weights >= 0) == same).all()
    assert kind == "full" or cliques.n_states == m * K


def test_names_types_files_and_parts_of_the_weights(seed, tmp_path):
    g = fresh(seed, 325)
    types = ["word", "word", "word", "topic"]
    X, Y = [], []
    for _ in range(6):
        cliques = {"words": [[0, 1, 2]], "both": [[0, 3], [2, 3]]}
        nodes = {"word": g.normal(size=(3, 2)), "topic": g.normal(size=(1, 1))}
        X.append((nodes, [[0, 1]], g.normal(size=(1, 2)), types, cliques))
        Y.append([*g.choice(["N", "V"], size=3), g.choice(["a", "b", "c"])])
    Y[0], Y[1], Y[2] = ["N", "V", "N", "a"], ["V", "N", "N", "b"], ["N", "N", "V", "c"]
    model = models.FactorGraph(cliques={"words": "potts", "both": "full"}, bias=1.0)
    svm = mm.StructuralSVM(model, C=0.5, tol=0.05, random_state=0).fit(X, Y)
    parts = svm.model_.unpack(svm.coef_)
    assert parts["cliques[words]"].shape == (1,) and parts["cliques[both]"].shape == (2, 3)
    assert sum(part.size for part in parts.values()) == len(svm.coef_)
    svm.save(tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    assert [a.tolist() for a in again.predict(X)] == [a.tolist() for a in svm.predict(X)]
    np.testing.assert_array_equal(
        again.model_.joint_feature(X[0], Y[0]), svm.model_.joint_feature(X[0], Y[0])
    )
    with refusal(r"X\[0\]\[4\]", "'words'", "3 members"):
        svm.predict([(*X[0][:4], {"words": [[0, 1]]})])
    with refusal("'others'", "the training data had none"):
        svm.predict([(*X[0][:4], {"others": [[0, 1]]})])


def test_margins_and_marginals_are_those_of_nodes(seed):
    X, Y = drawn(fresh(seed, 326))
    svm = mm.StructuralSVM(models.FactorGraph(cliques="potts"), C=0.3, tol=0.05).fit(X, Y)
    margins, marginals = svm.predict_margins(X), svm.predict_marginals(X)
    for i, x in enumerate(X):
        scores = {
            u: svm.coef_ @ joint_feature(x, u, 3, "potts") for u in every_output(len(Y[i]), 3)
        }
        assert len(margins[i]) == len(Y[i]) == len(marginals[i])
        for v in range(len(Y[i])):
            best = [max(s for u, s in scores.items() if u[v] == k) for k in range(3)]
            top = sorted(best)
            assert margins[i][v] == pytest.approx(top[2] - top[1], abs=1e-8)


WRONG = {
    "shape": ([0, 1, 2], "shape"),
    "one": ([[0]], "m >= 2"),
    "twice": ([[0, 0]], "different nodes"),
    "outside": ([[0, 9]], "among the 3 nodes"),
    "fractions": ([[0.5, 1.0]], "whole numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_factors_name_the_example(name):
    cliques, says = WRONG[name]
    X = [(np.eye(3), [[0, 1]], None, None, cliques)]
    with refusal(r"X\[0\]\[4\]", says):
        mm.StructuralSVM(models.FactorGraph()).fit(X, [[0, 1, 0]])


def test_wrong_parameters(seed):
    X, Y = drawn(fresh(seed, 327))
    with refusal("cliques must be one of"):
        mm.StructuralSVM(models.FactorGraph(cliques="pots")).fit(X, Y)
    many = [(np.ones((30, 1)), [], None, None, [list(range(30))])]
    with refusal("'full'", "states", "potts"):
        mm.StructuralSVM(models.FactorGraph(cliques="full")).fit(many, [[0, 1] * 15])
    with refusal("printed=True", "cliques"):
        mm.StructuralSVM(models.FactorGraph(), solver=solvers.Gdmm(printed=True)).fit(X, Y)


def test_a_factor_over_thirty_nodes(seed):
    """The factor has 2^30 labellings, but 60 states suffice."""
    g = fresh(seed, 328)
    X = [(g.normal(size=(30, 2)), [], None, None, [list(range(30))]) for _ in range(8)]
    Y = [(g.integers(2, size=30) if i % 2 else np.full(30, i // 2 % 2)).tolist() for i in range(8)]
    svm = mm.StructuralSVM(models.FactorGraph(cliques="diagonal"), C=0.1, tol=0.01)
    assert svm.fit(X, Y).certificate_.converged


def test_unknown_labels_and_hidden_states(seed):
    """The start leaves out factors with an unknown member; hidden states are the labels of the factors."""
    g = fresh(seed, 329)
    X, Y = drawn(g, n=10, K=2)
    some = [list(y) for y in Y]
    some[3][1] = some[5][0] = None
    known = mm.LatentSVM(models.FactorGraph(cliques="potts"), C=0.3, tol=0.05, random_state=0)
    assert known.fit(X, some).certificate_.converged
    assert all(len(y) == 5 for y in known.predict(X))
    hidden = models.Latent(models.FactorGraph(cliques="full"), parts=2)
    svm = mm.LatentSVM(hidden, C=0.3, tol=0.1, random_state=0).fit(X, Y)
    assert svm.certificate_.converged
    assert all(set(y.tolist()) <= {0, 1} and len(y) == 5 for y in svm.predict(X))
