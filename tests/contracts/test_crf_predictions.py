"""Predictions of a fitted CRF against enumeration: probabilities, samples, least risk."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models
from reference import soft
from reference.cases import (
    binary_case,
    chain_case,
    edge_chain_case,
    fresh,
    grammar_case,
    graph_case,
    multiclass_case,
    multilabel_case,
)
from reference.soft_cases import CASES, ILLEGAL, fitted


def enumerated(crf, x):
    """Return all labellings of a sequence and their probabilities."""
    length = len(x[0]) if isinstance(x, tuple) else len(x)
    outputs = list(product(crf.classes_.tolist(), repeat=length))
    scores = np.array([crf.coef_ @ crf.model_.joint_feature(x, list(y)) for y in outputs])
    return outputs, np.exp(scores - np.logaddexp.reduce(scores))


def test_probabilities_of_outputs_and_nodes(generator):
    case = chain_case(generator, n=6, lengths=(2, 3), start=True)
    crf = fitted(case)
    likely = crf.log_likelihood(case.X, case.Y)
    marginals = crf.predict_marginals(case.X)
    for x, y, found, own in zip(case.X, case.Y, likely, marginals, strict=True):
        outputs, p = enumerated(crf, x)
        assert found == pytest.approx(np.log(p[outputs.index(tuple(y))]), rel=1e-9)
        truth = np.zeros_like(own)
        for output, mass in zip(outputs, p, strict=True):
            truth[np.arange(len(output)), list(output)] += mass
        assert own == pytest.approx(truth, abs=1e-9)
    assert crf.predict_proba(case.X)[0] == pytest.approx(marginals[0])


@pytest.mark.parametrize("kind", ["chain", "edges", "second-order"])
def test_samples_have_the_frequencies_of_the_distribution(generator, kind):
    case = chain_case(generator, n=5, lengths=(3,), start=True)
    if kind != "chain":
        case = edge_chain_case(generator, n=5, lengths=(3,), order=1 + (kind != "edges"))
    crf = fitted(case, solver="lbfgs", tol=1e-3)
    draws = crf.sample(case.X[:1], 4000, random_state=0)[0]
    outputs, p = enumerated(crf, case.X[0])
    codes = {output: k for k, output in enumerate(outputs)}
    counts = np.bincount([codes[tuple(y.tolist())] for y in draws], minlength=len(p))
    assert np.abs(counts / 4000 - p).max() < 4 * np.sqrt(0.25 / 4000)
    again = crf.set_params(n_jobs=2).sample(case.X[:1], 4000, random_state=0)[0]
    assert all((a == b).all() for a, b in zip(draws, again, strict=True))


def test_samples_of_labels_and_of_illegal_transitions(generator):
    case = multiclass_case(generator)
    crf = mm.CRF(models.Multiclass()).fit(case.X, case.Y)
    draws = np.array(crf.sample(case.X[:1], 4000, random_state=1)[0])
    counts = np.array([(draws == label).mean() for label in crf.classes_])
    assert counts == pytest.approx(crf.predict_proba(case.X[:1])[0], abs=0.04)
    legal = chain_case(generator, illegal=ILLEGAL, lengths=(2, 3))
    tagger = fitted(legal)
    for y in tagger.sample(legal.X[:1], 200, random_state=2)[0]:
        assert legal.truth.legal(y.tolist())


DRAWN = ["tree", "tree-one-table", "sets", "grammar", "grammar-zero-one", "chain-rules", "binary"]


def named(y):
    """Return a string key for an output."""
    return str(np.asarray(y).tolist()) if isinstance(y, np.ndarray | tuple | np.generic) else str(y)


def chi_square_tail(counts, p):
    """Return the p-value of counts under p; rare outputs are pooled."""
    expected = counts.sum() * p
    often = expected >= 5
    seen = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    if wanted[-1] < 5:  # too few even when pooled
        seen, wanted = seen[:-1], wanted[:-1]
    return chi2.sf(np.sum((seen - wanted) ** 2 / wanted), max(len(seen) - 1, 1))


@pytest.mark.parametrize("name", DRAWN)
def test_draws_have_the_distribution_of_the_enumeration(name):
    # a fixed seed, because a correct sampler can fail the test for some seeds
    case = CASES[name](fresh(3))
    crf = fitted(case, solver="lbfgs", tol=1e-3)
    draws = crf.sample(case.X, 2000, random_state=5)
    again = crf.set_params(n_jobs=2).sample(case.X, 2000, random_state=5)
    tails = []
    for block, own, same in zip(case.blocks, draws, again, strict=True):
        (p,) = soft.distributions([block], crf.coef_)
        codes = {named(y): k for k, y in enumerate(block.outputs)}
        drawn = [named(y) for y in own]
        assert drawn == [named(y) for y in same]
        tails.append(chi_square_tail(np.bincount([codes[y] for y in drawn], minlength=len(p)), p))
    assert min(tails) > 0.01 / len(tails)


def test_draws_of_a_graph_with_a_cycle_are_refused(generator):
    tree, cycle = graph_case(generator), graph_case(generator, shape="cycle")
    crf = fitted(tree, tol=1e-3)
    with refusal("drawn", "cycles"):
        crf.sample(cycle.X, 1)


RISKS = {
    "chain": (
        lambda g: chain_case(g, n=6, lengths=(2, 3)),
        lambda loss: models.Chain(loss=loss),
        3,
    ),
    "tree": (graph_case, lambda loss: models.FactorGraph(loss=loss), 3),
    "sets": (multilabel_case, lambda loss: models.MultiLabel(pairs=[(0, 1), (1, 2)], loss=loss), 2),
}


@pytest.mark.parametrize("by_truth", [False, True])
@pytest.mark.parametrize("name", RISKS)
def test_minimum_risk_labels_have_the_least_expected_cost(generator, name, by_truth):
    make, model, labels = RISKS[name]
    case, costs = make(generator), generator.random((labels, labels))
    np.fill_diagonal(costs, 0.0)
    if by_truth:
        costs = np.where(np.eye(labels), 0.0, costs[:, :1] + costs[:, -1:])
    loss = mm.losses.Hamming(costs=costs.max(axis=1) if by_truth else costs)
    crf = quietly(lambda: mm.CRF(model(loss)).fit(case.X, case.Y))
    found = crf.predict_minimum_risk(case.X)
    assert len(found) == len(case.X) and type(found) is type(crf.predict(case.X))
    for p, own in zip(crf.predict_marginals(case.X), found, strict=True):
        assert np.asarray(own).tolist() == (p @ costs).argmin(axis=1).tolist()


def test_minimum_risk_of_classes_is_the_prediction_and_trees_have_none(generator):
    for make, model in ((multiclass_case, models.Multiclass()), (binary_case, models.Binary())):
        flat = make(generator)
        one = mm.CRF(model).fit(flat.X, flat.Y)
        assert (one.predict_minimum_risk(flat.X) == one.predict(flat.X)).all()
    case = grammar_case(generator)
    crf = quietly(lambda: mm.CRF(built_in(case)).fit(case.X, case.Y))
    with refusal("predict_minimum_risk", "Grammar", "nodes"):
        crf.predict_minimum_risk(case.X)
