"""Encode nodes with named attributes as rows of sparse features.

    "name"                              the attribute of this name, with the value 1
    ["name", ...], {"name", ...}        several attributes with the value 1
    {"name": 0.5, "name": True}         attributes with these values
    {"name": "value"}                   "name=value", with the value 1
    {"name": ["value", ...]}            several of these; also a tuple or a set
    {"name": {"inner": ...}}            the same as {"name:inner": ...}
    {"name": None}                      no attribute

The loop over the nodes is compiled: ``cpp/bindings/attributes.cpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from copy import copy
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from maxmargin._core import core
from maxmargin._sklearn import BaseEstimator, TransformerMixin
from maxmargin.data.arrays import FLAG, any_table, count_of, is_frame, package_of, records, whole
from maxmargin.data.mapped import Mapped, MappedRows, MappedSequences, csr_of, encoder_in
from maxmargin.io.fields import MOST_FEATURES, FieldError, count, entries_of, texts
from maxmargin.io.quoting import short
from maxmargin.runtime.executor import count_jobs

Place = Callable[[int, int], str]  # names a bad node in an error, from its example and its number
TOKEN_PLACE: Place = "X[{}], token {}".format


def are_attributes(X: Any, sequences: bool = True) -> bool:
    """Whether X holds nodes with attributes, or sequences of such nodes, rather than numbers."""
    if isinstance(X, Mapped | np.ndarray) and X.dtype != object:
        return False
    if sp.issparse(X) or not hasattr(X, "__iter__"):
        return False
    if not sequences:
        return not package_of(X) and describes(X) is True
    for x in X:
        if isinstance(x, np.ndarray) or sp.issparse(x):
            return False
        if is_frame(x):
            return True
        if not hasattr(x, "__iter__"):
            return False
        found = describes(x)
        if found is not None:
            return found
    return False


def describes(nodes: Any) -> bool | None:
    """Whether the first node that is not empty has attributes; None if all are empty."""
    for node in nodes:
        if not isinstance(node, list | tuple):
            return isinstance(node, str | Mapping | Set)
        if len(node):  # an empty node tells nothing: try the next
            return isinstance(node[0], str)
    return None


class AttributeEncoder(TransformerMixin, BaseEstimator):
    """Encode attributes of nodes as columns of a sparse matrix; names that ``fit`` has not seen are dropped.

    Columns are numbered in the order of their first appearance. Values of a node's attributes that share a
    column are added up.

    Parameters
    ----------
    min_count : int
        Drop attributes that are not zero in fewer nodes than this. A node that has an attribute twice counts
        twice.
    n_features : int or None
        Number of columns to which a hash maps the names. The hash is the same in every process, ``fit``
        learns no names, and several names may share a column. None: a column for each name.
    sequences : bool or None
        Whether X holds sequences (sentences) of nodes, or the nodes themselves. None: decide by the first
        item of X; a list or tuple is a sequence.
    n_jobs : int or None
        Threads, as in the estimators: one goes through X while the others look up its names. Columns and
        rows do not depend on the number.

    Attributes
    ----------
    n_features_ : int, the number of columns
    sequences_ : bool
    """

    sequences_: bool
    n_features_: int

    def __init__(
        self,
        min_count: int = 1,
        n_features: int | None = None,
        sequences: bool | None = None,
        n_jobs: Any = None,
    ):
        self.min_count = min_count
        self.n_features = n_features
        self.sequences = sequences
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> AttributeEncoder:
        """Learn the names in X, a list of sequences of nodes or of nodes; each may be a data frame."""
        self.encode(X, learn=True)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:  # type: ignore[override]
        """Fit and transform X in one pass over it."""
        return self._shaped(self.encode(X, learn=True))

    def transform(self, X: Any) -> Any:
        """Return nodes as a CSR matrix, and sequences as ``MappedSequences``.

        ``MappedSequences`` is a list of CSR matrices; models take it directly, and a list of numbers indexes
        it. A model keeps its ``encoder``, so that it predicts from attributes after training. After
        ``set_output(transform="pandas")`` nodes are a frame of sparse columns; polars gets dense ones.
        """
        return self._shaped(self.encode(X))

    def _shaped(self, encoded: Any) -> Any:
        """Return encoded data in the container that ``set_output`` or scikit-learn's settings ask for."""
        asked = _get_output_config("transform", self)["dense"]
        if asked == "default":
            return plain_matrix(encoded)
        if self.sequences_:
            raise ValueError(
                f"set_output(transform={short(asked)}): sequences cannot become a table; encode "
                "nodes, or set 'default'"
            )
        rows = plain_matrix(encoded)
        if asked != "pandas":
            return rows.toarray()
        from pandas import DataFrame

        return DataFrame.sparse.from_spmatrix(rows, columns=self.get_feature_names_out())

    def encode(
        self, X: Any, learn: bool = False, place: Place = TOKEN_PLACE, n_jobs: int | None = None
    ) -> Any:
        """Encode X as ``transform`` does, but nodes outside sequences become ``MappedRows`` with the encoder.

        ``n_jobs`` overrides the number of threads of the encoder.
        """
        count_of(X, "X")
        check_described(X)
        if learn:
            self._check(X)
        else:
            check_is_fitted(self, "n_features_")
        known = core.Attributes() if learn else self._known
        rows, offsets = self._read(X, known, learn, place, n_jobs)
        if learn and self.n_features is None and self.min_count > 1:
            rows, known = thinned(rows, known, self.min_count)
        return self._with_names(rows, offsets, known)

    def extend(self, X: Any) -> Any:
        """Encode X, and give the next columns to names that are not known yet."""
        check_is_fitted(self, "n_features_")
        return self._with_names(*self._read(X, self._known, grow=True), self._known)

    def _with_names(self, rows: sp.csr_matrix, offsets: np.ndarray, known: Any) -> Any:
        """Return rows or sequences with a copy of this encoder, so that a new ``fit`` cannot change it."""
        self._known, self.n_features_ = known, int(rows.shape[1])
        encoder = copy(self)
        if self.sequences_:
            return MappedSequences([rows], self.n_features_, offsets, encoder)
        return MappedRows([rows], self.n_features_, encoder)

    def __copy__(self) -> AttributeEncoder:
        """Return a copy that shares the table of names."""
        twin = AttributeEncoder.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def _check(self, X: Any) -> None:
        """Validate the parameters, and decide whether X holds sequences."""
        whole().check("min_count", self.min_count)
        whole(none=True).check("n_features", self.n_features)
        if self.n_features is not None and self.n_features > MOST_FEATURES:
            raise ValueError(f"n_features must be below 2^31, got {self.n_features}")
        if self.n_features is not None and self.min_count > 1:
            raise ValueError("min_count must be 1 if n_features is given; hashing counts nothing")
        if self.sequences is not None:
            FLAG.check("sequences", self.sequences)
            self.sequences_ = bool(self.sequences)
        else:
            first = None if package_of(X) else next(iter(X), None)
            self.sequences_ = is_frame(first) or isinstance(first, list | tuple)

    def _read(
        self,
        X: Any,
        known: Any,
        grow: bool,
        place: Place = TOKEN_PLACE,
        n_jobs: int | None = None,
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows of all nodes, and the number of the first row of each example."""
        if is_frame(X):
            X = records(X)
        elif self.sequences_ and any_table(X):
            X = [records(x) if is_frame(x) else x for x in X]
        hashed = self.n_features or 0
        n_jobs = count_jobs(self.n_jobs) if n_jobs is None else n_jobs
        data, indices, starts, offsets, i, t, item = known.read(
            X, self.sequences_, grow and not hashed, hashed, n_jobs
        )
        if i >= 0:
            where = place(i, t) if self.sequences_ else f"X[{i}]"
            raise ValueError(
                f"{where}: expected a string, strings, or a dict from attribute names to numbers "
                f"or strings, got {short(item)}"
            )
        return csr_of(data, indices, starts, (0, hashed or len(known))), offsets

    def same_columns(self, other: AttributeEncoder) -> bool:
        """Whether another encoder gives every attribute the same column."""
        same = self._known is other._known or self._known.same(other._known)
        return self.n_features == other.n_features and same

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns: "hash0", "hash1", ... if names are hashed."""
        check_is_fitted(self, "n_features_")
        hashed = self.n_features is not None
        names = [f"hash{j}" for j in range(self.n_features_)] if hashed else self._known.names()
        found = np.empty(len(names), dtype=object)
        found[:] = names
        return found

    # Files, copies and pickles

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_known" in state:
            state["_known"] = self._known.names()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state.pop("_known", None)
        super().__setstate__({"n_jobs": None} | state)  # earlier versions had no n_jobs
        if names is not None:
            self._known = table_of_names(names)

    def state(self) -> dict[str, Any]:
        """Return the fitted encoder as plain values, for a file."""
        names = self._known.names()
        if not all(isinstance(name, str) for name in names):
            raise ValueError("save: attribute names must be strings to be written to a file")
        learnt = {"names": names} if self.n_features is None else {"n_features": self.n_features}
        return {"min_count": int(self.min_count), **learnt}

    @classmethod
    def from_state(cls, state: Any, sequences: bool) -> AttributeEncoder:
        """Return the encoder that ``state`` describes; it may also be a list of names."""
        fields = entries_of({"names": state} if isinstance(state, list) else state, "attributes")
        least = count(fields, "min_count", 1) if "min_count" in fields else 1
        hashed = count(fields, "n_features", 1, MOST_FEATURES) if "n_features" in fields else None
        if len(set(fields) - {"min_count"}) != 1 or (hashed is None) != ("names" in fields):
            raise FieldError("attributes must hold names or n_features")
        encoder = cls(least, hashed, sequences)
        encoder.sequences_ = sequences
        encoder._known = table_of_names(texts(fields, "names") if hashed is None else [])
        encoder.n_features_ = hashed or len(encoder._known)
        return encoder


def table_of_names(names: Sequence[Any]) -> Any:
    """Return a table of the core that holds exactly these names."""
    known = core.Attributes()
    known.read([list(names)], False, True, 0, 1)
    return known


def thinned(rows: sp.csr_matrix, known: Any, least: int) -> tuple[sp.csr_matrix, Any]:
    """Drop names that occur in fewer than ``least`` nodes; return the rows and the table without them."""
    kept = known.counts() >= least
    left = table_of_names([n for n, keep in zip(known.names(), kept, strict=True) if keep])
    here = kept[rows.indices]
    starts = np.concatenate([[0], np.cumsum(here)])[rows.indptr].astype(np.int32)
    columns = (np.cumsum(kept) - 1).astype(np.int32)[rows.indices[here]]
    return csr_of(rows.data[here], columns, starts, (0, len(left))), left


def check_described(X: Any) -> None:
    """Refuse data that hold numbers or are encoded already."""
    if isinstance(X, Mapped):
        raise ValueError("X is already encoded; give the attributes themselves")
    first = X if hasattr(X, "dtype") else next(iter(X), None)
    if sp.issparse(first) or (isinstance(first, np.ndarray) and first.dtype.kind in "biufc"):
        raise ValueError("X holds numbers; give attributes: strings, lists of them, or dicts")


def plain_matrix(encoded: Any) -> Any:
    """Return rows as a SciPy matrix that carries its encoder; return sequences unchanged."""
    return encoded.run(0, len(encoded)) if isinstance(encoded, MappedRows) else encoded


# For models whose inputs may be described by attributes


def learnt_attributes(X: Any, sequences: bool, place: Place = TOKEN_PLACE, n_jobs: int = 1) -> Any:
    """Encode X with a new encoder if it holds attributes; return any other X unchanged."""
    if isinstance(X, Mapped) or not are_attributes(X, sequences):
        return X
    return AttributeEncoder(sequences=sequences).encode(X, learn=True, place=place, n_jobs=n_jobs)


def known_attributes(
    X: Any, encoder: Any, sequences: bool, place: Place = TOKEN_PLACE, n_jobs: int = 1
) -> Any:
    """Encode X with the encoder of a fitted model, which is None if the model learnt from arrays."""
    if isinstance(X, Mapped):
        check_encoder(X, encoder)
        return X
    described = are_attributes(X, sequences)
    if encoder is None:
        if described:
            raise ValueError("X holds attributes, but the model was trained on arrays")
        return X
    tables = X if sequences and not sp.issparse(X) else [X]
    if len(tables) and all(sp.issparse(x) or has_columns(x, encoder) for x in tables):
        check_encoder(X, encoder)
        return X
    if not described and any(describes(x) is False for x in (X if sequences else [X])):
        raise ValueError("X holds arrays, but the model was trained on attributes")
    return encoder.encode(X, place=place, n_jobs=n_jobs)


class Described:
    """Mixin for models whose nodes may have attributes; an example is a node, or a sequence of nodes."""

    sequences: ClassVar[bool] = False
    encoder_: Any  # None if the model learnt from numbers

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        """Encode X by the names that the model knows or, before ``initialize``, by the names in X."""
        return self._features_of(X, n_jobs=n_jobs)

    def _features_of(self, X: Any, place: Place = TOKEN_PLACE, n_jobs: int = 1) -> Any:
        if hasattr(self, "encoder_"):
            return known_attributes(X, self.encoder_, self.sequences, place, n_jobs)
        return learnt_attributes(X, self.sequences, place, n_jobs)

    def learn_attributes(self, X: Any) -> Any:
        """Encode X, and make the names in X the names of the model."""
        X = learnt_attributes(X, self.sequences)
        self.encoder_ = encoder_in(X)
        return X

    def keep_names(self, X: Any) -> None:
        """Keep the encoder of these features."""
        self.encoder_ = encoder_in(X)

    def one_row(self, x: Any) -> Any:
        """Return one example as a table of one row."""
        if sp.issparse(x):
            return x
        if getattr(self, "encoder_", None) is None:
            return np.asarray(x)[None, :]
        return plain_matrix(self.convert([x]))


def has_columns(x: Any, encoder: AttributeEncoder) -> bool:
    """Whether x is an array with as many columns as an encoder."""
    return isinstance(x, np.ndarray) and x.ndim == 2 and x.shape[1] == encoder.n_features_


def check_encoder(X: Any, encoder: Any) -> None:
    """Refuse data that were encoded with other columns than the model has."""
    given = encoder_in(X)
    if given is not None and encoder is not None and not given.same_columns(encoder):
        raise ValueError(
            "X was encoded by a different encoder than the model's; give the attributes themselves"
        )


def saved_attributes(encoder: Any, name: str = "attributes") -> dict[str, Any]:
    """Return the entry of a model file for an encoder; the entry is None without an encoder."""
    return {name: None if encoder is None else encoder.state()}


def encoder_of(
    state: dict[str, Any], n_features: int, sequences: bool, name: str = "attributes"
) -> Any:
    """Return the encoder in the state of a model with this many features, or None."""
    if state.get(name) is None:
        return None
    encoder = AttributeEncoder.from_state(state[name], sequences)
    if encoder.n_features_ != n_features:
        raise FieldError(f"{encoder.n_features_} attributes do not match {n_features} features")
    return encoder
