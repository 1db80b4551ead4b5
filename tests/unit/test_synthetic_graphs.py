"""Generated snakes and label sets: shapes, walks, reproducibility."""

import itertools

import numpy as np
import pytest

from maxmargin.data.synthetic_graphs import grid_edges, random_label_sets, random_snakes


def test_edges_of_a_grid():
    edges, directions = grid_edges(2, 3)
    assert edges.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    assert directions.argmax(axis=1).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_a_snake_is_a_walk():
    X, Y = random_snakes(5, 4, 5, 6, random_state=0)
    for (nodes, edges, directions), y in zip(X, Y, strict=True):
        assert nodes.shape == (20, 30) and len(edges) == len(directions) == 31
        assert sorted(y[y > 0].tolist()) == [1, 2, 3, 4, 5, 6]
        near = {tuple(sorted(edge)) for edge in edges.tolist()}
        places = [int(np.flatnonzero(y == place)[0]) for place in range(1, 7)]
        assert all(tuple(sorted(pair)) in near for pair in itertools.pairwise(places))
        # Without noise, the first six features are the cell's colour, which separates snake and ground.
        assert ((nodes[:, 0] == 0) == (y > 0)).all()


def test_seeds_and_noise():
    first, again = random_snakes(2, random_state=3), random_snakes(2, random_state=3)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first[0], again[0], strict=True))
    noisy, _ = random_snakes(2, noise=0.5, random_state=3)
    assert not np.array_equal(noisy[0][0], first[0][0][0])


def test_label_sets_come_in_pairs():
    X, Y = random_label_sets(300, n_labels=5, n_features=3, random_state=0)
    assert X.shape == (300, 3) and Y.shape == (300, 5) and set(np.unique(Y)) == {0, 1}
    assert np.mean(Y[:, 0] == Y[:, 1]) > 0.85


def test_a_snake_that_has_no_room_is_refused():
    with pytest.raises(ValueError, match="half of the cells, 10, got 11"):
        random_snakes(1, 4, 5, 11)
