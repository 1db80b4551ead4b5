"""The argmax of pairwise problems: max-product, cuts, messages, integer programs, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin._core import core
from maxmargin.models.factors import METHODS
from maxmargin.models.milp import Linear, solve_milp
from reference.graphs import brute_force, random_links
from reference.strategies import SEED


@st.composite
def problems(draw, shapes=("tree", "forest", "cycle", "dense"), most=4, attracting=False):
    """Draw random scores on a small graph, sometimes rounded so that they tie."""
    generator = np.random.default_rng([SEED, draw(st.integers(0, 10**6))])
    n = draw(st.integers(1, 6))
    binary = attracting or most == 2
    counts = [2] * n if binary else [draw(st.integers(1, most)) for _ in range(n)]
    links = random_links(generator, n, draw(st.sampled_from(shapes)))
    unary = generator.normal(size=sum(counts)) * draw(st.sampled_from([0.0, 1.0, 3.0]))
    sizes = [counts[a] * counts[b] for a, b in links]
    tables = generator.normal(size=sum(sizes)) * draw(st.sampled_from([0.0, 1.0, 3.0]))
    if draw(st.booleans()):  # with ties
        unary, tables = np.round(unary), np.round(tables)
    if attracting:
        table = tables.reshape(-1, 4)
        lack = table[:, 1] + table[:, 2] - table[:, 0] - table[:, 3]
        table[:, 0] += np.maximum(lack, 0.0)
    return np.array(counts, dtype=np.int32), unary, links, tables


def ask(problem, method, iterations=100):
    labels, value, ceiling = core.pairwise_argmax(*problem, METHODS.index(method), iterations)
    counts, unary, links, tables = problem
    assert (labels >= 0).all() and (labels < counts).all()
    first, place = np.concatenate([[0], np.cumsum(counts)]), 0
    direct = sum(unary[first[v] + k] for v, k in enumerate(labels))
    for a, b in links:
        direct += tables[place + labels[a] * counts[b] + labels[b]]
        place += counts[a] * counts[b]
    assert value == pytest.approx(direct, abs=1e-9)
    assert ceiling >= value
    return labels, value, ceiling


@given(problems(shapes=("tree", "forest")))
@pytest.mark.parametrize("method", ["auto", "tree"])
def test_max_product_is_exact_on_forests(method, problem):
    _, value, ceiling = ask(problem, method)
    assert value == ceiling == pytest.approx(brute_force(*problem)[0], abs=1e-9)


@given(problems(attracting=True))
@pytest.mark.parametrize("method", ["auto", "cut"])
def test_a_cut_is_exact_where_links_attract(method, problem):
    _, value, ceiling = ask(problem, method)
    best = brute_force(*problem)[0]
    assert value == pytest.approx(best, abs=1e-9)
    assert ceiling == pytest.approx(best, abs=1e-9)


@given(problems(most=2))
def test_small_binary_problems_are_solved(problem):
    _, value, ceiling = ask(problem, "auto")
    assert value == ceiling == pytest.approx(brute_force(*problem)[0], abs=1e-9)


@given(problems(), st.sampled_from([1, 2, 100]))
def test_message_passing_has_a_ceiling(problem, iterations):
    best = brute_force(*problem)[0]
    _, value, ceiling = ask(problem, "lp", iterations)
    assert value <= best + 1e-9
    assert ceiling >= best - 1e-9


@given(problems(shapes=("tree", "forest")))
def test_message_passing_is_tight_on_forests(problem):
    best = brute_force(*problem)[0]
    _, value, ceiling = ask(problem, "lp", 200)
    assert ceiling == pytest.approx(best, abs=1e-6)
    assert value == pytest.approx(best, abs=1e-6)


@given(problems(attracting=True))
def test_message_passing_is_tight_where_links_attract(problem):
    best = brute_force(*problem)[0]
    assert ask(problem, "lp", 500)[2] == pytest.approx(best, abs=0.05 * (1 + abs(best)))


def value_of(problem, labels):
    """Return the score of one labelling."""
    counts, unary, links, tables = problem
    first = np.concatenate([[0], np.cumsum(counts)])
    starts = np.concatenate([[0], np.cumsum([counts[a] * counts[b] for a, b in links])]).astype(int)
    pairs = zip(starts, links, strict=False)
    linked = sum(tables[start + labels[a] * counts[b] + labels[b]] for start, (a, b) in pairs)
    return unary[first[:-1] + labels].sum() + linked


@given(problems())
def test_the_integer_program_is_exact(problem):
    best, labellings = brute_force(*problem)
    labels, bound = solve_milp(*problem)
    assert tuple(labels.tolist()) in labellings
    assert bound == pytest.approx(best, abs=1e-6)


def nearly_tied(generator, kind):
    """Return scores, of any size, whose best labellings differ by about the solver's tolerances."""
    n = int(generator.integers(2, 7))
    counts = generator.integers(2, 4, n).astype(np.int32)
    links = random_links(generator, n, ["tree", "cycle", "dense"][kind % 3])
    size = int(counts.sum()), int(sum(counts[a] * counts[b] for a, b in links))
    near = 10.0 ** generator.uniform(-12, -1)
    if kind % 2:
        parts = [generator.integers(-1, 2, k) + near * generator.normal(size=k) for k in size]
    else:
        parts = [generator.normal(size=k) * 10.0 ** generator.uniform(-8, 0, size=k) for k in size]
    unit = 10.0 ** generator.integers(-12, 13)
    return counts, unit * parts[0], links, unit * parts[1]


@pytest.mark.parametrize("kind", range(6))
def test_the_bound_of_the_integer_program_holds_to_rounding(generator, kind):
    for _ in range(20):
        problem = nearly_tied(generator, kind)
        best = brute_force(*problem)[0]
        labels, bound = solve_milp(*problem)
        size = sum(np.abs(part).max(initial=0.0) for part in (problem[1], problem[3]))
        assert best <= bound + 1e-15 * size
        assert bound <= best + 1e-9 * size
        assert value_of(problem, labels) >= best - 1e-9 * size


def test_the_integer_program_of_scores_without_end_is_refused():
    counts, links = np.array([2, 2], np.int32), np.array([[0, 1]], np.int32)
    with pytest.raises(ValueError, match="not finite"):
        solve_milp(counts, np.array([0.0, np.inf, 0.0, 0.0]), links, np.zeros(4))


@given(problems(most=3), st.integers(0, 3))
def test_the_integer_program_keeps_constraints(problem, k):
    counts = problem[0]
    # At most k nodes may have label 0; a node whose only label is 0 must have it.
    rule = Linear([(v, 0) for v in range(len(counts))], 0.0, float(k))
    first = np.concatenate([[0], np.cumsum(counts)])
    if (counts == 1).sum() > k:
        with pytest.raises(ValueError, match="no labelling satisfies"):
            solve_milp(*problem, [rule])
        return
    labels, bound = solve_milp(*problem, [rule])
    assert (labels == 0).sum() <= k
    # Enumerate the labellings that keep the rule.
    values = {}
    for y in np.ndindex(*counts):
        if sum(label == 0 for label in y) <= k:
            unary = problem[1][first[:-1] + np.array(y)].sum()
            place, pairs = 0, 0.0
            for a, b in problem[2]:
                pairs += problem[3][place + y[a] * counts[b] + y[b]]
                place += counts[a] * counts[b]
            values[y] = unary + pairs
    assert bound == pytest.approx(max(values.values()), abs=1e-6)
    assert values[tuple(labels.tolist())] == pytest.approx(max(values.values()), abs=1e-6)


def test_a_cut_is_refused_where_links_repel(generator):
    counts, links = np.array([2, 2], np.int32), np.array([[0, 1]], np.int32)
    with pytest.raises(ValueError, match="nodes 0 and 1 does not attract"):
        ask((counts, np.zeros(4), links, np.array([0.0, 1.0, 1.0, 0.0])), "cut")


def test_a_tree_is_refused_where_there_is_a_cycle(generator):
    links = np.array([[0, 1], [1, 2], [2, 0]], np.int32)
    with pytest.raises(ValueError, match="cycles"):
        ask((np.array([2, 2, 2], np.int32), np.zeros(6), links, np.zeros(12)), "tree")


def test_larger_graphs_agree_with_the_integer_program(generator):
    for _ in range(3):
        n = 30
        links = random_links(generator, n, "dense")[:90]
        problem = (
            np.full(n, 2, np.int32),
            generator.normal(size=2 * n),
            links,
            generator.normal(size=4 * len(links)),
        )
        _, value, ceiling = ask(problem, "auto", 500)
        _, bound = solve_milp(*problem)
        assert value <= bound + 1e-6 <= ceiling + 2e-6


@given(problems(shapes=("cycle",)))
def test_few_cycles_are_solved(problem):
    _, value, ceiling = ask(problem, "auto")
    best = brute_force(*problem)[0]
    assert value == pytest.approx(best, abs=1e-9)
    assert ceiling == pytest.approx(best, abs=1e-9)


def repelling(generator, n, strength):
    """Return a problem in which every label gains alone and pairs mostly repel."""
    links = np.array([(a, b) for b in range(n) for a in range(b)], dtype=np.int32)
    unary = np.stack([np.zeros(n), generator.uniform(0.2, 1.5, size=n)], axis=1)
    tables = np.zeros((len(links), 4))
    tables[:, 3] = generator.normal(-strength, strength, size=len(links))
    return np.full(n, 2, np.int32), unary.ravel(), links, tables.ravel()


@pytest.mark.parametrize("strength", [0.05, 0.2, 1.0])
def test_dense_binary_problems_have_a_low_ceiling(generator, strength):
    n = 16
    problem = repelling(generator, n, strength)
    _, unary, links, tables = problem
    W = np.zeros((n, n))
    W[links[:, 0], links[:, 1]] = tables[3::4]
    labellings = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    values = labellings @ unary[1::2] + np.einsum("ij,ij->i", labellings @ W, labellings)
    _, value, ceiling = ask(problem, "auto")
    best = values.max()
    assert value <= best + 1e-9 and best <= ceiling + 1e-9
    assert value >= best - 1e-2 * abs(best)
    assert ceiling <= best + 0.1 * abs(best)


def test_the_concave_ceiling_is_below_that_of_messages(generator):
    problem = repelling(generator, 40, 0.1)
    _, value, ceiling = ask(problem, "auto")
    _, other, loose = ask(problem, "lp")
    assert other <= ceiling + 1e-9 and value <= ceiling <= loose + 1e-9
    assert ceiling - value < 0.5 * (loose - value)


@pytest.mark.parametrize("number", range(3))
def test_sparse_binary_graphs_of_many_nodes_are_bracketed(seed, number):
    """Such graphs are neither attracting, dense nor small; messages bracket the integer program."""
    generator = np.random.default_rng([seed, 60 + number])
    n, side = 64, 8
    links = [(v, v + 1) for v in range(n) if (v + 1) % side] + [
        (v, v + side) for v in range(n - side)
    ]
    counts, links = np.full(n, 2, dtype=np.int32), np.array(links, dtype=np.int32)
    tables = generator.normal(size=4 * len(links))
    problem = counts, 0.1 * generator.normal(size=2 * n), links, tables
    _, value, ceiling = ask(problem, "auto")
    labels, bound = solve_milp(*problem)
    best = value_of(problem, labels)
    assert bound == pytest.approx(best, abs=1e-6)
    assert value <= best + 1e-9 and best <= ceiling + 1e-9
    assert value >= best - 0.1 * abs(best)
