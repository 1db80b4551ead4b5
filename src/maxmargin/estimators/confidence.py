"""The confidence of a fitted estimator: scores, margins, calibrated marginals, and prediction sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from maxmargin.confidence import (
    Conformal,
    conformal_quantile,
    fit_temperature,
    reliability_table,
)
from maxmargin.data.arrays import FINITE, examples_of, is_number, takes_outputs, whole
from maxmargin.data.table import Table
from maxmargin.estimators.base import BaseSVM
from maxmargin.models.beliefs import Beliefs

MOST_OUTPUTS = 10_000  # largest k of ``conformal``, the number of outputs listed per example


def is_calibrated(svm: Any) -> bool:
    """Return True if there is a temperature; the AttributeError without one hides ``predict_proba``."""
    if not hasattr(svm, "temperature_"):
        raise AttributeError(
            "predict_proba needs a temperature; call calibrate(X, Y) on held-out data first"
        )
    return True


class ConfidentSVM(BaseSVM):
    """Confidence computed from the beliefs at a model's nodes."""

    temperature_: float  # set by ``calibrate``
    conformal_: Conformal

    def _node_beliefs(self, X: Any, Y: Any = None) -> tuple[Callable[[float], Beliefs], Any]:
        """The beliefs as a function of the temperature, and the codes of the true labels if Y is given."""
        raise NotImplementedError

    _flat: bool = True  # whether an output is one label

    def _by_examples(self, rows: list[Any]) -> Any:
        """Return a list with one entry per example, or one array if each example has one node."""
        return np.concatenate(rows) if self._flat else rows

    def _temperature(self, given: Any) -> float:
        if given is not None:
            FINITE.check("temperature", given)
            return float(given)
        return getattr(self, "temperature_", 1.0)

    def predict_marginals(self, X: Any, temperature: float | None = None) -> Any:
        """Return label probabilities of each node, with p(y | x) proportional to exp(score / temperature).

        The result is a list with an array (nodes, labels) for each example, labels in the order of
        ``classes_``. It is an array (n, K) if an output is one label. For a chain with ``transitions`` only
        legal outputs count.

        Parameters
        ----------
        temperature : float or None
            None takes the temperature of ``calibrate``, or 1 if there is none.
        """
        beliefs = self._node_beliefs(X)[0](self._temperature(temperature))
        return self._by_examples(beliefs.split(np.exp(beliefs.log_marginals())))

    @available_if(is_calibrated)
    def predict_proba(self, X: Any) -> Any:
        """``predict_marginals`` at the temperature of ``calibrate``; for ``MultiLabel`` p(on), (n, L)."""
        return self._probabilities(self.predict_marginals(X))

    def _probabilities(self, marginals: Any) -> Any:
        return marginals

    @takes_outputs
    def calibrate(self, X: Any, y: Any) -> Any:
        """Set ``temperature_`` so that probabilities fit the labels of held-out examples best.

        The fit minimises the squared error. Training examples would make the estimator overconfident, and so
        would examples that resemble them more than new data will: hold out whole documents, not sentences of
        them. Returns the estimator itself.
        """
        at, codes = self._node_beliefs(X, y)
        if len(codes) == 0:
            raise ValueError("calibrate: the examples have no nodes")
        values = at(1.0)
        tops = np.maximum.reduceat(values.values, values.first)
        below = np.repeat(tops, values.labels) - values.values
        self._forget_confidence()
        scale = float(below[np.isfinite(below)].mean())
        self.temperature_ = fit_temperature(lambda c: at(c).squared_error(codes), scale)
        return self

    @takes_outputs
    def reliability(self, X: Any, y: Any, bins: int = 10) -> Table:
        """Compare the probability of a node's best label with the share of correct labels.

        Uses the current temperature. Rows are bins of the probability. For a calibrated estimator the two
        agree on unseen examples. Their distance, averaged over nodes, is the expected calibration error.
        """
        whole().check("bins", bins)
        at, codes = self._node_beliefs(X, y)
        beliefs = at(self._temperature(None))
        return reliability_table(*beliefs.best_of_each(codes), bins)

    @takes_outputs
    def conformal(self, X: Any, y: Any, alpha: float = 0.1, k: int | None = None) -> Any:
        """Make ``predict_set`` contain the truth with probability 1 - alpha or more; return the estimator.

        Parameters
        ----------
        X, y : examples that were used neither for training nor for ``calibrate``
        alpha : float in (0, 1)
        k : int or None
            None: sets of labels for a node drawn from a new example. Otherwise sets of whole outputs, among
            the k best.
        """
        if not is_number(alpha) or not 0 < alpha < 1:
            raise ValueError(f"alpha must be a number between 0 and 1, got {alpha!r}")
        whole(none=True).check("k", k)
        if k is not None and k > MOST_OUTPUTS:
            raise ValueError(f"k must be at most {MOST_OUTPUTS}, got {k}")
        if k is None:
            at, codes = self._node_beliefs(X, y)
            beliefs = at(self._temperature(None))
            scores = 1 - np.exp(beliefs.log_marginals()[beliefs.first + codes])
            threshold = conformal_quantile(scores, np.diff(beliefs.nodes), alpha)
        else:
            scores = 1 - self._true_outputs(X, y, k)
            threshold = conformal_quantile(scores, np.ones(len(scores), dtype=int), alpha)
            if threshold > 1:
                raise ValueError(
                    f"conformal: too few of the {len(scores)} true outputs are among the {k} best for "
                    f"alpha={alpha}; raise k or alpha, or give more examples"
                )
        self.conformal_ = Conformal(float(alpha), threshold, k)
        return self

    def predict_set(self, X: Any) -> list[Any]:
        """Return for each example the labels that ``conformal`` keeps at each node, or a list of outputs.

        If an output is one label, each example has one list of labels. A set may be empty if no label is as
        likely as the true ones usually are.
        """
        if not hasattr(self, "conformal_"):
            raise ValueError(
                "predict_set needs conformal sets; call conformal(X, Y, alpha) on held-out data "
                "first"
            )
        rule = self.conformal_
        if rule.k is not None:
            listed = self._likely_outputs(X, rule.k)
            return [[y for y, p in outputs if 1 - p <= rule.threshold] for outputs in listed]
        beliefs = self._node_beliefs(X)[0](self._temperature(None))
        kept = 1 - np.exp(beliefs.log_marginals()) <= rule.threshold
        sets = beliefs.chosen(kept)
        return [nodes[0] for nodes in sets] if self._flat else sets

    def _likely_outputs(self, X: Any, k: int) -> list[list[tuple[Any, float]]]:
        """The k best outputs of each example with their probabilities."""
        raise ValueError("conformal: k must be None, because an output of this model is one label")

    def _true_outputs(self, X: Any, Y: Any, k: int) -> np.ndarray:
        """The probability of each true output, or -infinity if it is not among the k best."""
        X, Y = examples_of(X, Y)
        return np.array(
            [
                next((p for output, p in outputs if np.array_equal(output, y)), -np.inf)
                for outputs, y in zip(self._likely_outputs(X, k), Y, strict=True)
            ]
        )
