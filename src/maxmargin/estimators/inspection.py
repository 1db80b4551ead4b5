"""Inspection of a fitted estimator: the features of a label, the terms of a score, the mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import FLAG, examples_of, takes_outputs, whole
from maxmargin.data.table import Table, Tables
from maxmargin.models.protocol import Model

SHOWN = 3  # mistakes of one example that a table lists by name


class Inspection:
    """Views of the weights of ``Chain``, ``Multiclass``, ``Binary`` and ``MultiLabel``, and only of these."""

    model_: Any

    def _inside(self: Any) -> Any:
        check_is_fitted(self, "coef_")
        if not isinstance(self.model_, Model):
            raise ValueError(
                f"model {type(self.model_).__name__} is written in Python, so the meaning of its "
                "weights is unknown; look at coef_ yourself"
            )
        return self.model_.inside(self._weights())

    @property
    def feature_names_(self: Any) -> np.ndarray:
        """Names of the features, in the order of their weights: columns, attributes, or x0, x1, ..."""
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        try:
            return self._inside().feature_names
        except ValueError as error:  # makes hasattr return False
            raise AttributeError(str(error)) from None

    def feature_weights(self: Any, label: Any) -> np.ndarray:
        """Return the weight of every feature for a label, in the order of ``feature_names_``."""
        return self._inside().weights(label)

    def top_features(self: Any, label: Any, k: int = 10, against: bool = False) -> Table:
        """Return the k features with the largest weights for a label, or against it.

        A feature with a positive value and a positive weight raises the score of the label. For two labels
        (``Binary``) the weights compare the label with the other one.
        """
        whole().check("k", k)
        FLAG.check("against", against)
        weights = self.feature_weights(label)
        weights = -weights if against else weights
        best = np.argsort(-weights, kind="stable")[:k]
        best = best[weights[best] > 0]
        found = -weights[best] if against else weights[best]
        side = "against" if against else "for"
        return Table({"weight": found}, self.feature_names_[best], "feature", f"{side} {label}")

    def explain(self: Any, x: Any, y: Any = None) -> Tables:
        """Split the score of an output of x into its terms, with a table for each node.

        The contributions of all tables add up to the score of ``predict_k_best``. For ``Binary`` they add up
        to the margin over the other label. A transition belongs to the later of its positions.

        Parameters
        ----------
        x : one example
        y : the output to explain; None: the prediction
        """
        inside = self._inside()
        y = inside.best(x) if y is None else y
        names = self.feature_names_
        return Tables([node.table(names) for node in inside.nodes(x, y)])

    @takes_outputs
    def errors(self: Any, X: Any, y: Any, k: int | None = 10) -> Table:
        """Return the k worst mistakes among the examples, or all of them for k=None.

        The margin is the score of the prediction minus the score of the truth; the worst mistakes have the
        largest margins. The margin is infinite if the truth has a label that the model does not know. Rows
        are numbers of examples.
        """
        whole(none=True).check("k", k)
        inside, outputs = self._inside(), self.predict(X)
        X, Y = examples_of(X, y)
        X = X.tocsr() if sp.issparse(X) else X
        found = []
        for i, (true, y_hat) in enumerate(zip(Y, outputs, strict=True)):
            wrong = list(inside.mistakes(true, y_hat))
            if wrong:
                x = X[[i]] if sp.issparse(X) else X[i]
                found.append((inside.margin(x, true, y_hat), i, len(wrong), wrong))
        found.sort(key=lambda error: (-error[0], error[1]))
        margins, rows, counts, wrong = ([error[j] for error in found[:k]] for j in range(4))
        texts = [", ".join(w[:SHOWN]) + ", ..." * (len(w) > SHOWN) for w in wrong]
        columns = {
            "margin": np.array(margins, dtype=np.float64),
            "mistakes": np.array(counts, dtype=np.int64),
            "which": np.array(texts, dtype=object),
        }
        return Table(columns, rows, "example", f"{len(found)} of {len(Y)} examples are wrong")
