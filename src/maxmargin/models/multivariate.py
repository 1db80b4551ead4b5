"""Losses of a whole sample with two classes, which is one block (Joachims, 2005 and 2006).

The sample has P positives and N negatives with scores s_i = <w, x_i>, and n = P + N. An output is a
labelling of all rows:

    Psi(X, Y') = 1/(2n) sum_i y'_i x_i,     psi(Y') = 1/n (sum over false alarms x_j - sum over misses x_i)

With this scale, the error rate with C equals the zero-one loss of single examples with C / n. The loss
depends only on the numbers of hits a and false alarms b. For given (a, b) the worst labelling misses the
P - a positives with the lowest scores and makes the b negatives with the highest scores positive:

    m(a, b) = 1/n (sum of the b highest negatives - sum of the P - a lowest positives)
    margin:  max_(a, b) Delta(a, b) + m(a, b)        slack:  max_(a, b) Delta(a, b) (1 + m(a, b))

m and Delta are concave in b. Hence the margin objective is concave in b for each a. The slack objective is a
product of concave factors, so it is log-concave in the region of positive values. One binary search over b
for all a at once finds the best b; with the sorting it takes O(n log n). A fixed number k of predicted
positives means b = k - a.

ROC area: an output orders each pair of a positive i and a negative j, and swaps q of the pairs:

    psi = 1/(PN) sum over swapped pairs (x_j - x_i),   Delta = q / (PN),   d_ij = s_j - s_i

    margin:  every pair with 1 + d_ij > 0 is swapped
    slack:   the q pairs with the largest d are swapped; M(q) is the sum of their d over PN.
             q (1 + M(q)) / PN is log-concave in q. Let q(t) and M(t) be those of the pairs with d > t.
             The derivative 1 + M(t) + q(t) t / PN grows with t, so bisection finds its root. Among
             the pairs with d equal to the root, a parabola gives the best number.

For each positive the c_i highest negatives are swapped. So pairs are counted, never listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows
from maxmargin.io.quoting import short
from maxmargin.losses import ROCArea, SampleLoss, TableLoss, sample_loss_state
from maxmargin.models.extent import Extent, row_lengths, row_terms
from maxmargin.models.planes import PlaneExamples, Vector
from maxmargin.models.protocol import as_weights

# Limit on bisections; about 70 halvings exhaust an interval of floats, so more change nothing.
BISECTIONS = 100


@dataclass(frozen=True)
class SortedScores:
    """Scores of the positives and of the negatives, highest first, and the rows that they belong to."""

    positive: np.ndarray
    negative: np.ndarray
    positive_rows: np.ndarray
    negative_rows: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, codes: np.ndarray) -> SortedScores:
        """Sort scores by class; rows with equal scores keep their order."""
        up, down = np.flatnonzero(codes == 1), np.flatnonzero(codes == 0)
        up = up[np.argsort(-scores[up], kind="stable")]
        down = down[np.argsort(-scores[down], kind="stable")]
        return cls(scores[up], scores[down], up, down)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.positive) + len(self.negative)


def prefix_sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])


# Losses of hits and false alarms


@dataclass
class CountTables:
    """Margins of the worst labelling for every pair of hits and false alarms."""

    loss: TableLoss
    ranking: SortedScores

    def __post_init__(self) -> None:
        positive, negative = self.ranking.positive, self.ranking.negative
        # Sums of the P - a lowest positives for each a, and of the b highest negatives for each b.
        self.missed: np.ndarray = prefix_sums(positive[::-1])[::-1]
        self.raised: np.ndarray = prefix_sums(negative)

    def delta(self, hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
        """Return Delta(a, b)."""
        return self.loss.delta(hits, alarms, len(self.ranking.positive), self.ranking.n)

    def margin(self, hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
        """Return m(a, b)."""
        return (self.raised[alarms] - self.missed[hits]) / self.ranking.n

    def value(self, hits: np.ndarray, alarms: np.ndarray, rescaling: str) -> np.ndarray:
        """Return the objective of the oracle."""
        delta, margin = self.delta(hits, alarms), self.margin(hits, alarms)
        return delta + margin if rescaling == "margin" else delta * (1 + margin)

    def more_pays(self, hits: np.ndarray, alarms: np.ndarray, rescaling: str) -> np.ndarray:
        """Whether one more false alarm increases the objective of the oracle."""
        step = self.ranking.negative[alarms] / self.ranking.n
        now, then = self.delta(hits, alarms), self.delta(hits, alarms + 1)
        if rescaling == "margin":
            return then - now + step > 0
        scale = 1 + self.margin(hits, alarms)
        # If the scale is not positive, a step pays only if it increases the scale.
        return np.where(scale > 0, then * (scale + step) > now * scale, step > 0)

    def best_alarms(self, hits: np.ndarray, rescaling: str) -> np.ndarray:
        """Return the best b for every a."""
        low = np.zeros(len(hits), dtype=np.int64)
        high = np.full(len(hits), len(self.ranking.negative))
        while (unsure := np.flatnonzero(low < high)).size:
            middle = (low[unsure] + high[unsure]) // 2
            up = self.more_pays(hits[unsure], middle, rescaling)
            low[unsure] = np.where(up, middle + 1, low[unsure])
            high[unsure] = np.where(up, high[unsure], middle)
        return low

    def worst(self, rescaling: str) -> tuple[int, int] | None:
        """Return hits and false alarms of the worst labelling; None if the truth itself is worst."""
        positives, negatives = len(self.ranking.positive), len(self.ranking.negative)
        k = self.loss.predicted(self.ranking.n)
        if k is None:
            hits = np.arange(positives + 1)
            alarms = self.best_alarms(hits, rescaling)
        else:
            hits = np.arange(max(0, k - negatives), min(k, positives) + 1)
            alarms = k - hits
        value = self.value(hits, alarms, rescaling)
        top = int(np.argmax(value))
        return (int(hits[top]), int(alarms[top])) if value[top] > 0 else None


def worst_labelling(
    loss: TableLoss, ranking: SortedScores, rescaling: str
) -> tuple[float, np.ndarray]:
    """Return Delta of the worst labelling, and c with psi = X' c."""
    c = np.zeros(ranking.n)
    tables = CountTables(loss, ranking)
    found = tables.worst(rescaling)
    if found is None:
        return 0.0, c
    hits, alarms = found
    c[ranking.positive_rows[hits:]] = -1 / ranking.n
    c[ranking.negative_rows[:alarms]] = 1 / ranking.n
    return float(tables.delta(np.array(hits), np.array(alarms))), c


# ROC area


class RankedPairs:
    """Counts and sums of the pairs with d_ij = s_j - s_i above a threshold."""

    def __init__(self, ranking: SortedScores):
        self.ranking = ranking
        self.ascending: np.ndarray = ranking.negative[::-1]
        self.sums: np.ndarray = prefix_sums(ranking.negative)
        self.total: float = float(len(ranking.positive)) * len(ranking.negative)

    def above(self, threshold: float) -> np.ndarray:
        """Return c_i, the number of negatives with d > threshold for each positive."""
        bar = self.ranking.positive + threshold
        return len(self.ascending) - np.searchsorted(self.ascending, bar, side="right")

    def margin(self, counts: np.ndarray) -> float:
        """Return M, the sum of d over the swapped pairs, divided by PN."""
        return float(np.sum(self.sums[counts] - counts * self.ranking.positive)) / self.total

    def slope(self, counts: np.ndarray, threshold: float) -> float:
        """Return the derivative of q (1 + M) with respect to q if the next pair has d = threshold."""
        return 1 + self.margin(counts) + float(counts.sum()) * threshold / self.total

    def worst(self, rescaling: str) -> np.ndarray:
        """Return the number of swapped negatives of every positive."""
        return self.above(-1.0) if rescaling == "margin" else self.worst_slack()

    def worst_slack(self) -> np.ndarray:
        """Find the root of the slope by bisection; the slope is positive at the threshold 0."""
        low = float(self.ascending[0] - self.ranking.positive[0])
        low, high = min(2 * low, 0.0) - 1.0, 0.0  # below every d, so that all pairs are above it
        few, many = self.above(high), self.above(low)
        if self.slope(many, float(self.ascending[0] - self.ranking.positive[0])) > 0:
            return many
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if middle in (low, high) or np.array_equal(few, many):
                break
            counts = self.above(middle)
            if self.slope(counts, middle) > 0:
                high, few = middle, counts
            else:
                low, many = middle, counts
        return self.fill(few, many)

    def fill(self, few: np.ndarray, many: np.ndarray) -> np.ndarray:
        """Return the best counts between two, given that all pairs in between are equal up to rounding."""
        extra = many - few
        tied = float(extra.sum())
        if tied == 0:
            return few
        q, margin = float(few.sum()), self.margin(few)
        d = (self.margin(many) - margin) / tied  # d of one pair, over PN

        def value(u: float) -> float:
            return (q + u) * (1 + margin + u * d)

        top = -(1 + margin + q * d) / (2 * d) if d < 0 else tied
        choices = [min(max(float(u), 0.0), tied) for u in (np.floor(top), np.ceil(top))]
        taken = max(choices, key=value)
        before = np.concatenate([[0], np.cumsum(extra)[:-1]])
        return few + np.clip(int(taken) - before, 0, extra)


def worst_order(ranking: SortedScores, rescaling: str) -> tuple[float, np.ndarray]:
    """Return Delta of the worst order of all pairs, and c with psi = X' c."""
    pairs = RankedPairs(ranking)
    counts = pairs.worst(rescaling)
    # The negative of rank r is above all positives that have more than r swapped negatives.
    over = np.bincount(counts, minlength=len(ranking.negative) + 1)[::-1].cumsum()[::-1][1:]
    c = np.zeros(ranking.n)
    c[ranking.positive_rows] = -counts / pairs.total
    c[ranking.negative_rows] = over / pairs.total
    return float(counts.sum()) / pairs.total, c


@dataclass(eq=False, repr=False)
class MultivariateExamples(PlaneExamples):
    """A whole sample as one block."""

    rows: FeatureRows
    labels: LabelSet
    codes: np.ndarray | None
    loss: SampleLoss
    n = 1

    def __post_init__(self) -> None:
        labels, codes, loss = self.labels, self.codes, self.loss
        self.n_rows: int = self.rows.core.n_rows
        self.dimension: int = self.rows.core.width
        self.unweighted: str = (
            f"{loss!r} is a loss of the whole sample, so its examples cannot have weights"
        )
        if isinstance(loss, TableLoss):
            loss.predicted(self.n_rows)  # raises ValueError if k is too large
        if codes is not None and len(set(codes.tolist())) < 2:
            only = labels.decode(codes[:1]).tolist()[0]
            raise ValueError(
                f"Y holds the class {short(only)} only: {short(loss)} needs examples of both "
                "classes"
            )

    def rebind(self) -> None:
        self.exact: bool = not self.summed
        self.bounded: bool = self.exact

    def extent(self) -> Extent:
        # psi = X' c; an entry of c is at most 1/n, or the entries of each class sum to at most 1.
        labels = self.dimension // self.rows.core.width
        longest = 2 * labels * row_lengths(self.rows).max(initial=0.0)
        return Extent(np.array([longest]), row_terms(self.rows) + self.n_rows)

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A checksum of the data, the loss and the rescaling.

        Cached planes hold vectors, so they have no meaning for other examples, losses or rescalings.
        """
        total = hashlib.sha256(
            f"{self.formulation.rescaling} {sample_loss_state(self.loss)}".encode()
        )
        if self.codes is not None:
            total.update(self.codes.tobytes() + self._psi(self.codes).tobytes())
        return total.hexdigest()

    def scores(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return <w, x_i> of every row."""
        return self.rows.core.rows.scores(as_weights(w), n_jobs)

    def joint_feature(self, codes: np.ndarray) -> np.ndarray:
        """Return Psi(X, Y') of any labelling."""
        self.only_labellings()
        return self._psi(codes)

    def mix(self, c: np.ndarray) -> np.ndarray:
        """Return X' c."""
        return self.rows.core.rows.combine(c)

    def _psi(self, codes: np.ndarray) -> np.ndarray:
        return self.mix((codes - 0.5) / self.n_rows)

    def only_labellings(self) -> None:
        """Raise ValueError if the outputs are not labellings."""
        if isinstance(self.loss, ROCArea):
            raise ValueError(
                "ROCArea has no joint_feature or argmax, because its output is an order of all "
                "pairs of a positive and a negative example, not a labelling"
            )

    def answer(self, w: np.ndarray, n_jobs: int, rescaling: str) -> tuple[float, np.ndarray]:
        """Return Delta of the worst output, and c with psi = X' c."""
        assert self.codes is not None
        ranking = SortedScores.of(self.scores(w, n_jobs), self.codes)
        if isinstance(self.loss, TableLoss):
            return worst_labelling(self.loss, ranking, rescaling)
        return worst_order(ranking, rescaling)

    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self.worst(w, n_jobs)[0]
        return found, np.full_like(found, np.inf) if self.summed else found

    def planes(self, w: np.ndarray, n_jobs: int) -> list[tuple[float, Vector]]:
        rescaling = self.formulation.rescaling
        loss, c = self.answer(w, n_jobs, rescaling)
        vector = self.mix(c if rescaling == "margin" else loss * c)
        index = np.flatnonzero(vector).astype(np.int32)
        return [(loss, (index, vector[index]))]

    def oracle(self, blocks: Sequence[int], w: np.ndarray) -> list[tuple[float, Vector]]:
        return self.planes(w, 1) * len(blocks)

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        return self.labels.decode((self.scores(w, n_jobs) > 0).astype(np.int32))

    def worst_labelling(self, w: np.ndarray) -> np.ndarray:
        """Return the worst labelling, as labels."""
        self.only_labellings()
        assert self.codes is not None
        c = self.answer(w, 1, "margin")[1]
        return self.labels.decode(np.where(c == 0, self.codes, (c > 0).astype(np.int32)))

    def best_codes(self, w: np.ndarray) -> np.ndarray:
        """Return the codes of the best labelling: the k highest scores, or without k all positive scores."""
        scores = self.scores(w)
        k = self.loss.predicted(self.n_rows) if isinstance(self.loss, TableLoss) else None
        if k is None:
            return (scores > 0).astype(np.int32)
        codes = np.zeros(self.n_rows, np.int32)
        codes[np.argsort(-scores, kind="stable")[:k]] = 1
        return codes

    def labelling(self, w: np.ndarray) -> np.ndarray:
        """Return the best labelling, as labels."""
        return self.labels.decode(self.best_codes(w))

    def loss_of(self, codes: np.ndarray) -> float:
        """Return Delta of a labelling."""
        self.only_labellings()
        assert isinstance(self.loss, TableLoss) and self.codes is not None
        if len(codes) != self.n_rows:
            raise ValueError(f"a labelling has {self.n_rows} labels, got {len(codes)}")
        if np.array_equal(codes, self.codes):
            return 0.0
        k = self.loss.predicted(self.n_rows)
        if k is not None and codes.sum() != k:
            raise ValueError(
                f"{short(self.loss)}: {k} labels must be positive, got {int(codes.sum())}"
            )
        hits, alarms = (np.array(np.sum(codes[self.codes == own] == 1)) for own in (1, 0))
        return float(self.loss.delta(hits, alarms, int(self.codes.sum()), self.n_rows))

    def loss_at(self, w: np.ndarray) -> float:
        """Return Delta of the prediction: by sign, by the k highest scores, or by the order of scores."""
        if isinstance(self.loss, TableLoss):
            return self.loss_of(self.best_codes(w))
        assert self.codes is not None
        pairs = RankedPairs(SortedScores.of(self.scores(w), self.codes))
        below = np.searchsorted(pairs.ascending, pairs.ranking.positive, side="left")
        wrong = pairs.above(0.0) + len(pairs.ascending) - below  # equal scores count half
        return float(wrong.sum()) / 2 / pairs.total
