"""Groups of constraints that share a slack; regression as groups of two (dual coordinate paper, 1 and A.6).

    xi_i(w) = max(0, max_j l_ij - <w, x_ij>)                      Groups: rows x, margins l
    xi_i(w) = max(0, |y_i - <w, x_i>| - epsilon)                  Regression

Regression uses the groups {(x_i, y_i - epsilon), (-x_i, -y_i - epsilon)}. The two constraints are never
active together, so that one slack serves as well as the two of the paper. ``coef_`` is w, of shape (d,), or
(d + 1,) if there is a bias, which comes last.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.arrays import Checks, Rule, array_of, check_start, floats, is_number
from maxmargin.data.mapped import MappedSequences, sequences_of
from maxmargin.data.memory import FeatureRows, feature_rows, rows_of_table, width_of_table
from maxmargin.io.fields import MOST_FEATURES, FieldError, bias_of, count, number
from maxmargin.io.quoting import short
from maxmargin.models.examples import CompiledExamples, ExplicitConstraints
from maxmargin.models.extent import Extent, largest_between, row_lengths, row_terms
from maxmargin.models.protocol import Model, weights_and_bias


class GroupExamples(CompiledExamples):
    """Constraints in the core; output 0 of a group means "no constraint", output j means the j-th."""

    enumerates = True

    def __init__(
        self,
        rows: FeatureRows,
        first: np.ndarray,
        row: np.ndarray,
        factor: np.ndarray,
        margins: np.ndarray,
    ):
        self.rows = rows
        self.first, self.row, self.factor, self.least = first, row, factor, margins
        self.sizes: np.ndarray = np.diff(first)
        self.take(core.GroupsData(rows.core.rows, first, row, factor, margins))
        self.explicit: ExplicitConstraints | None = ExplicitConstraints(self.core)

    def rebind(self) -> None:
        if self.formulation.rescaling != "margin":
            raise ValueError(
                f"rescaling={short(self.formulation.rescaling)}: constraints with margins do not "
                "support slack rescaling; use sample_weight, or multiply rows and margins"
            )
        super().rebind()

    def extent(self) -> Extent:
        lengths = row_lengths(self.rows)[self.row] * np.abs(self.factor)
        return Extent(
            largest_between(lengths, self.first),
            row_terms(self.rows),
            outputs=self.sizes,
            offsets=largest_between(np.abs(self.least), self.first),
        )

    def ready(self, w: np.ndarray) -> np.ndarray:
        return w  # the core multiplies rows with w itself

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return <w, x> of every row."""
        return self.rows.core.rows.scores(w, n_jobs)


def group_offsets(groups: Any, n_rows: int) -> np.ndarray:
    """Return the offsets of the groups, (n + 1,); without groups each row is a group."""
    if groups is None:
        return np.arange(n_rows + 1)
    offsets = array_of(groups, "groups")
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        raise ValueError(
            "groups must be offsets, whole numbers of shape (n + 1,) with n >= 1, "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    if offsets[0] != 0 or offsets[-1] != n_rows or (np.diff(offsets.astype(np.int64)) < 0).any():
        raise ValueError(
            f"groups must rise from 0 to the {n_rows} rows of X, "
            f"got {offsets[0]} to {offsets[-1]}"
            + (", with a fall in between" if offsets[0] == 0 and offsets[-1] == n_rows else "")
        )
    return np.ascontiguousarray(offsets, dtype=np.int64)


def numbers(values: Any, name: str, n: int) -> np.ndarray:
    """Return the values as finite float64 numbers of shape (n,)."""
    array = floats(values, name)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each row of X, got {array.shape}")
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name}[{i}] = {array[i]}: {name} must be finite")
    return np.ascontiguousarray(array)


def split_groups(X: Any, margins: np.ndarray, groups: Any) -> tuple[MappedSequences, list[Any]]:
    """Split the rows and their margins into groups, for the chunks of a stream."""
    offsets = group_offsets(groups, X.shape[0])
    return sequences_of([X], np.diff(offsets)), np.split(margins, offsets[1:-1])


class RowModel(Model):
    """Base of Groups and Regression: rows of features, and one weight for each feature."""

    bias: float | None = None
    flat = True

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the number of features."""
        n_features = width_of_table(X, "X", "2 dimensions (rows, features)")
        check_start(X, None, self)
        self._measure(n_features)

    def _measure(self, n_features: int) -> None:
        self.n_features_ = n_features
        self.size_joint_feature: int = n_features + (self.bias is not None)

    def read(self, X: Any) -> FeatureRows:
        """Copy the rows into the core."""
        return rows_of_table(X, self.n_features_, self.bias)

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> GroupExamples:
        """Bind the model to these rows and their margins or targets."""
        if node_weight is not None:
            raise ValueError(
                "node_weight must be None, because a group has one slack; use sample_weight"
            )
        rows = self.read(X)
        n = rows.core.n_rows
        return self._constraints(rows, np.zeros(n) if Y is None else numbers(Y, self.given, n))

    given = "Y"

    def _constraints(self, rows: FeatureRows, Y: np.ndarray) -> GroupExamples:
        raise NotImplementedError


class Groups(RowModel):
    """Constraints as rows of X: <w, x> should be at least the margin of the row.

    Parameters
    ----------
    groups : array of shape (n + 1,) or None
        The rows groups[i] : groups[i + 1] share a slack; None: each row has its own.
    """

    given = "margins"
    packs = "sequences"

    def __init__(self, groups: Any = None):
        self.groups = groups

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the number of features."""
        if isinstance(X, MappedSequences):
            self._measure(X.n_features)
        else:
            super().initialize(X, Y)

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> GroupExamples:
        """Bind the model to these constraints; X may also hold a matrix for each group."""
        if not isinstance(X, MappedSequences):
            return super().bind(X, Y, node_weight)
        rows = feature_rows(X, self.n_features_, names="X[{}]")
        n, margins = rows.core.n_rows, np.concatenate([*Y, np.empty(0)])
        return GroupExamples(rows, rows.offsets, np.arange(n), np.ones(n), margins)

    def _constraints(self, rows: FeatureRows, Y: np.ndarray) -> GroupExamples:
        n = rows.core.n_rows
        return GroupExamples(rows, group_offsets(self.groups, n), np.arange(n), np.ones(n), Y)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"n_features": self.n_features_}, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Groups:
        model = cls()
        model._measure(count(state, "n_features", 0, MOST_FEATURES))
        return model


class Regression(RowModel):
    """A real number for a row of features.

    Parameters
    ----------
    epsilon : float
        Errors up to this size cost nothing.
    bias : float or None
        Append a constant feature of this value to every row.
    """

    packs = "rows"
    task = "regression"
    checks: ClassVar[Checks] = Model.checks | {
        "epsilon": Rule("a number of at least 0", lambda x: is_number(x) and x >= 0)
    }

    def __init__(self, epsilon: float = 0.1, bias: float | None = None):
        self.epsilon = epsilon
        self.bias = bias

    def _constraints(self, rows: FeatureRows, Y: np.ndarray) -> GroupExamples:
        n = len(Y)
        margins = np.column_stack([Y, -Y]).ravel() - self.epsilon
        signs = np.tile([1.0, -1.0], n)
        return GroupExamples(rows, 2 * np.arange(n + 1), np.repeat(np.arange(n), 2), signs, margins)

    def loss(self, y: float, y_hat: float) -> float:
        """Return max(0, |y - y_hat| - epsilon)."""
        return max(0.0, abs(float(y) - float(y_hat)) - self.epsilon)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (d,) and, with a bias, ``bias`` ()."""
        return weights_and_bias(np.asarray(w), self.bias)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        plain = {"epsilon": float(self.epsilon), "bias": self.bias}
        return {**plain, "n_features": self.n_features_}, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Regression:
        if number(state, "epsilon") < 0:
            raise FieldError(f"epsilon must be at least 0, got {state['epsilon']}")
        model = cls(state["epsilon"], bias_of(state))
        model._measure(count(state, "n_features", 0, MOST_FEATURES))
        return model
