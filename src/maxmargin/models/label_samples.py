"""F1 of a whole sample with sets of labels: ``models.multivariate`` on all pairs (row, label), as one block.

    Psi(X, Y') = 1/(2nL) sum_il y'_il x_i in the block of l,      y'_il = +1 if label l is on, else -1

There are no weights for pairs of labels. So the score s_il = <w_l, x_i> of each pair (i, l) decides it alone.

    micro:  F1 of all nL pairs together is F1 of a sample of two classes, whose worst labelling is known
    macro:  Delta = 1/L sum_l Delta_l, and <w, psi> is also a mean over labels, so each label has its own
            worst column:   xi(w) = 1/L sum_l max_{a, b} [ Delta_l(a, b) + m_l(a, b) ]

Under slack rescaling the product Delta (1 + <w, psi>) couples the columns of macro-F1, so macro-F1 is
rejected there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows
from maxmargin.io.quoting import short
from maxmargin.losses import F1, LabelF1, MacroF1
from maxmargin.models.multivariate import MultivariateExamples, SortedScores, worst_labelling
from maxmargin.models.protocol import as_weights


class LabelSample(MultivariateExamples):
    """A whole sample with a row of 0 and 1 for each example, as one block."""

    def __init__(
        self, rows: FeatureRows, labels: LabelSet, codes: np.ndarray | None, loss: LabelF1
    ):
        self.n_labels: int = len(labels)
        self.task_loss = loss
        self.macro: bool = isinstance(loss, MacroF1)
        pairs = None if codes is None else np.ascontiguousarray(codes.ravel())
        super().__init__(rows, LabelSet([0, 1]), pairs, F1(loss.beta))
        self.n_rows: int = self.n_rows * self.n_labels
        self.dimension: int = self.dimension * self.n_labels
        if codes is not None and self.macro and not codes.any(axis=0).all():
            label = labels.classes.tolist()[int(np.argmin(codes.any(axis=0)))]
            raise ValueError(
                f"Y has no example of the label {short(label)}: {short(loss)} needs one for each "
                "label; drop the label, or use losses.MicroF1()"
            )

    def rebind(self) -> None:
        if self.macro and self.formulation.rescaling == "slack":
            raise ValueError(
                f"{short(self.task_loss)} has no exact oracle under slack rescaling; use "
                "rescaling='margin', or losses.MicroF1()"
            )
        super().rebind()

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"{self.task_loss!r} {super().fingerprint}"

    def scores(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return <w_l, x_i> of every pair."""
        each = as_weights(w).reshape(self.n_labels, -1)
        read = self.rows.core.rows.scores
        return np.column_stack([read(own, n_jobs) for own in each]).ravel()

    def mix(self, c: np.ndarray) -> np.ndarray:
        """Return X' c_l, label by label."""
        columns = np.ascontiguousarray(c.reshape(-1, self.n_labels).T)
        return np.concatenate([self.rows.core.rows.combine(column) for column in columns])

    def answer(self, w: np.ndarray, n_jobs: int, rescaling: str) -> tuple[float, np.ndarray]:
        if not self.macro:
            return super().answer(w, n_jobs, rescaling)
        assert self.codes is not None and isinstance(self.loss, F1)
        scores = self.scores(w, n_jobs).reshape(-1, self.n_labels)
        codes = self.codes.reshape(scores.shape)
        deltas, c = np.zeros(self.n_labels), np.zeros(scores.shape)
        for k in range(self.n_labels):
            ranking = SortedScores.of(scores[:, k], codes[:, k])
            deltas[k], c[:, k] = worst_labelling(self.loss, ranking, rescaling)
        return float(deltas.mean()), c.ravel() / self.n_labels

    def loss_of(self, codes: np.ndarray) -> float:
        if not self.macro:
            return super().loss_of(codes)
        assert self.codes is not None and isinstance(self.loss, F1)
        true, other = (pairs.reshape(-1, self.n_labels) for pairs in (self.codes, codes))
        hits, alarms = (true & other).sum(axis=0), (~true & other & 1).sum(axis=0)
        counts: Any = true.sum(axis=0)
        return float(np.mean(self.loss.delta(hits, alarms, counts, len(true))))
