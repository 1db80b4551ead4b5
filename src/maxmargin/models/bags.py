"""Bags: two classes of bags of candidates; the best candidate decides the class (latent detectors).

    f(x) = max_z <w, x_z>                   the second class if f(x) > 0; z is hidden
    positive:   xi_i(w) = max(0, 1 - f(x_i))        negative:   xi_i(w) = max(0, 1 + f(x_i))

The slack of a negative is convex: each of its candidates must score below -1, and the oracle finds the
candidate with the highest score, the hard negative. The slack of a positive is not convex. For a chosen
candidate z, max(0, 1 - <w, x_z>) is an upper bound, and equals the slack if z is the best. So a round of
``LatentSVM`` is a problem over groups of constraints (``models.groups``): one row for a positive, all rows
of its bag for a negative.

``coef_`` is w, of shape (d,), or (d + 1,) if there is a bias, which comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.arrays import Checks, among, check_lengths, check_start
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows, feature_rows
from maxmargin.io.fields import MOST_FEATURES, FieldError, bias_of, choice, count
from maxmargin.models.groups import GroupExamples
from maxmargin.models.latent import Latent
from maxmargin.models.protocol import as_weights, encode_all, weights_and_bias
from maxmargin.models.states import Completer

BAG_STARTS = ("means", "first", "random")


class BagExamples(GroupExamples):
    """Bags with the chosen candidate of each positive.

    A complete output is (label code, candidate); the candidate of a negative is -1.
    """

    def __init__(self, rows: FeatureRows, chosen: Sequence[tuple[int, int]]):
        starts, ends = rows.offsets[:-1], rows.offsets[1:]
        groups = [
            np.array([starts[i] + z]) if positive else np.arange(starts[i], ends[i])
            for i, (positive, z) in enumerate(chosen)
        ]
        signs = np.repeat(
            [1.0 if positive else -1.0 for positive, _ in chosen], [*map(len, groups)]
        )
        first = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
        super().__init__(rows, first, np.concatenate(groups), signs, np.ones(len(signs)))

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> Any:
        """Return the class and the best candidate of every bag."""
        return best_candidates(self.rows, w, n_jobs)


def best_candidates(rows: FeatureRows, w: np.ndarray, n_jobs: int = 1) -> list[tuple[int, int]]:
    """Return the class and the best candidate of every bag; a score of zero gives the first class."""
    scores = rows.core.rows.scores(as_weights(w), n_jobs)
    found = []
    for a, b in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        z = int(np.argmax(scores[a:b]))
        found.append((int(scores[a + z] > 0), z))
    return found


class Bags(Latent):
    """A bag of candidates with one of two labels: whether it contains a target; fit it with ``LatentSVM``.

    X is a list of arrays or CSR matrices (m_i, d), m_i >= 1, with a row for each candidate, such as a place
    in an image with its parts. The second of the two labels, in their order, is the positive one.

    Parameters
    ----------
    bias : float or None
        Append a constant feature of this value to every candidate.
    start : "means", "first" or "random"
        First candidates of the positives. "means" takes the best candidates in the direction from the mean
        of all negative candidates to the mean of all positive ones. "first" takes the first candidate of
        each bag, "random" a random one.
    """

    inner_: Any

    labels_: LabelSet
    classes_: np.ndarray
    n_features_: int
    flat: bool

    own: ClassVar[bool] = False  # type: ignore[assignment]
    checks: ClassVar[Checks] = Latent.checks | {"start": among(*BAG_STARTS)}

    def __init__(self, bias: float | None = None, start: str = "means"):
        self.bias = bias
        self.start = start

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        return X

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the two classes and the number of features."""
        check_start(X, Y, self)
        labels = LabelSet(Y)
        if len(labels) != 2:
            raise ValueError(f"Bags: Y must hold 2 classes, got {labels.classes.tolist()}")
        rows = feature_rows(X, None, self.bias, names="X[{}]")
        self._settle_bags(labels, rows.n_features)

    def _settle_bags(self, labels: LabelSet, n_features: int) -> None:
        self.labels_, self.classes_, self.n_features_ = labels, labels.classes, n_features
        self.size_joint_feature: int = n_features + (self.bias is not None)
        self.inner_, self.flat = self, True

    def read(self, X: Any) -> FeatureRows:
        """Copy the candidates of all bags into the core."""
        check_lengths(X, None)
        rows = feature_rows(X, self.n_features_, self.bias, names="X[{}]")
        rows.check_filled("is an empty bag; at least one candidate is needed")
        return rows

    def encode(self, Y: Any) -> np.ndarray:
        """Return 0 or 1 for each label; raise ValueError for any other label."""
        return encode_all(self.labels_, Y)

    def begin(self, X: Any, Y: Any, seed: int) -> list[tuple[int, int]]:
        """Return the first candidates of the positives."""
        if self.start == "means":
            return self.completions(X, Y, self._direction(X, Y))
        rows, codes = self.read(X), self.encode(Y)
        drawn = np.random.default_rng(seed).random(len(codes)) * (self.start == "random")
        places = (drawn * np.diff(rows.offsets)).astype(int)
        return [(int(c), int(z) if c else -1) for c, z in zip(codes, places, strict=True)]

    def _direction(self, X: Any, Y: Any) -> np.ndarray:
        """Return the vector from the mean of negative candidates to the mean of positive ones."""
        codes = self.encode(Y)
        sums, counts = np.zeros((2, self.n_features_)), np.zeros(2)
        for i, code in enumerate(codes.tolist()):
            sums[code] += np.asarray(X[i].sum(axis=0)).ravel()
            counts[code] += X[i].shape[0]
        direction = sums[1] / counts[1] - sums[0] / counts[0]
        return np.append(direction, 0.0) if self.bias is not None else direction

    def completer(self, X: Any, Y: Any, n_jobs: int = 1) -> Completer:
        """Return a function of w that finds the best candidate of every positive bag."""
        rows, codes = self.read(X), self.encode(Y).tolist()

        def complete(w: np.ndarray) -> list[tuple[int, int]]:
            found = best_candidates(rows, w, n_jobs)
            return [(c, z if c else -1) for c, (_, z) in zip(codes, found, strict=True)]

        return complete

    def over(self, X: Any, outputs: Any = None, executor: Any = None) -> BagExamples:
        """Return the constraints of complete outputs; without outputs for prediction only."""
        rows = self.read(X)
        return BagExamples(rows, [(0, -1)] * len(X) if outputs is None else outputs)

    def observed(self, outputs: Any) -> Any:
        """Return the labels of complete outputs."""
        return self.classes_[np.array([code for code, _ in outputs], dtype=np.int64)]

    def scores(self, X: Any, w: np.ndarray) -> np.ndarray:
        """Return f(x) of every bag, for ranking."""
        rows = self.read(X)
        scores = rows.core.rows.scores(as_weights(w), 1)
        return np.maximum.reduceat(scores, rows.offsets[:-1])

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the label of a bag."""
        return self.observed(self.over([x]).predict(w, 1))[0]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return 1 for the wrong label, else 0."""
        return float(y != y_hat)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (d,) and, with a bias, ``bias`` ()."""
        return weights_and_bias(np.asarray(w), self.bias)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = {"bias": self.bias, "start": self.start, "n_features": self.n_features_}
        return {**state, **self.labels_.state()}, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Bags:
        model = cls(bias_of(state), choice(state, "start", BAG_STARTS))
        labels = LabelSet.from_state(state)
        if len(labels) != 2:
            raise FieldError(f"a model of bags has 2 labels, got {len(labels)}")
        model._settle_bags(labels, count(state, "n_features", 0, MOST_FEATURES))
        return model
