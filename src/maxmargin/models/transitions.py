"""Forbidden transitions of a chain: as the user names them, and as pairs of numbers for the core.

    legal y:  no (y_{t-1}, y_t) is forbidden, y_0 is not a forbidden start, y_{T-1} not a forbidden end

A pair of labels has the number previous * K + next; previous = K stands for the start of a sequence, and
previous = K + 1 for its end. Every argmax of a chain, with or without the loss, is over legal labellings,
and so is the maximum in a slack.

The schemes of spans derive the pairs from label names such as "B-PER", a letter and a type:

    iob2    B I*        I after B or I of its type
    iobes   B I* E, S   I and E after B or I of their type; after B or I there must be I or E of the type
    bilou   B I* L, U   as iobes, with other letters
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from maxmargin.data.arrays import count_of
from maxmargin.data.labels import LabelSet
from maxmargin.data.tags import read_tag
from maxmargin.io.fields import FieldError, choice, table
from maxmargin.io.quoting import short

RULED_SCHEMES = ("iob2", "iobes", "bilou")
GIVEN = "given"  # entry of a file that lists pairs instead of naming a scheme
FREE = -1  # code of a position whose label is not fixed


@dataclass(frozen=True)
class Transitions:
    """Pairs (previous, next), first labels and last labels that a chain must not have."""

    forbidden: Sequence[tuple[Any, Any]] = ()
    starts: Sequence[Any] = ()
    ends: Sequence[Any] = ()


@dataclass(eq=False, repr=False)
class TransitionRules:
    """The forbidden pairs of a set of labels."""

    labels: LabelSet
    keys: np.ndarray
    scheme: str | None = None

    def __post_init__(self) -> None:
        self.keys = np.unique(self.keys).astype(np.int64)

    def first_illegal(self, codes: np.ndarray, offsets: np.ndarray) -> tuple[int, int, str] | None:
        """Find the first forbidden pair: its example, position and description; None if all are legal."""
        filled = np.flatnonzero(np.diff(offsets))
        first, last = offsets[:-1][filled], offsets[1:][filled] - 1
        K, codes = len(self.labels), codes.astype(np.int64)
        into = np.concatenate([[0], codes[:-1]]) * K + codes  # the pair that leads to each position
        into[first] = K * K + codes[first]
        wrong = np.isin(into, self.keys)
        wrong[last] |= np.isin((K + 1) * K + codes[last], self.keys)
        if not wrong.any():
            return None
        row = int(np.argmax(wrong))
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        return i, row - int(offsets[i]), self._says(int(into[row]), int(codes[row]))

    def _says(self, key: int, code: int) -> str:
        """Describe the pair that leads to a position if it is forbidden, else the pair at the end."""
        K, label = len(self.labels), self.labels.classes.tolist()
        if key not in self.keys:
            return f"{label[code]!r} at the end"
        place = "at the start" if key >= K * K else f"after {label[key // K]!r}"
        return f"{label[code]!r} {place}"

    def check_truth(self, codes: np.ndarray, offsets: np.ndarray) -> None:
        """Raise ValueError if a true output is not legal."""
        found = self.first_illegal(codes, offsets)
        if found is not None:
            i, t, pair = found
            raise ValueError(
                f"Y[{i}][{t}]: {pair} is illegal under the model's transitions "
                f"({self.scheme or 'as given'}); correct the labels, or allow it"
            )

    def check_prediction(self, codes: np.ndarray, offsets: np.ndarray, fixed: np.ndarray) -> None:
        """Raise ValueError if an example has no legal output; only then the argmax is not legal."""
        found = self.first_illegal(codes, offsets)
        other = np.flatnonzero((fixed != FREE) & (fixed != codes))
        if found is None and len(other) == 0:
            return
        i = int(np.searchsorted(offsets, other[0], side="right")) - 1 if found is None else found[0]
        raise self.impossible(i, fixed[offsets[i] : offsets[i + 1]])

    def impossible(self, i: int, fixed: np.ndarray) -> ValueError:
        """Return the error for an example without a legal output.

        Its message names the first position that no legal prefix reaches.
        """
        K, T = len(self.labels), len(fixed)
        legal = np.ones((K + 2, K), dtype=bool)
        legal.ravel()[self.keys] = False
        reached, t = legal[K], 0
        for t, code in enumerate(fixed.tolist()):
            reached = reached if t == 0 else legal[:K][reached].any(axis=0)
            reached = reached & (True if code == FREE else np.arange(K) == code)
            reached = reached & (legal[K + 1] if t == T - 1 else True)
            if not reached.any():
                break
        label = self.labels.classes.tolist()
        known = {s: label[code] for s, code in enumerate(fixed.tolist()) if code != FREE}
        with_these = f" with the labels {known} of fixed[{i}]" if known else ""
        return ValueError(
            f"X[{i}]: no labelling of {T} positions{with_these} is legal under the model's "
            f"transitions; the first position without a legal label is {t}"
        )

    def given(self) -> Transitions | str:
        """Return the parameter ``transitions`` that gives these rules."""
        if self.scheme is not None:
            return self.scheme
        K, label = len(self.labels), self.labels.classes.tolist()
        pairs = [(int(key) // K, int(key) % K) for key in self.keys]
        return Transitions(
            [(label[a], label[b]) for a, b in pairs if a < K],
            [label[b] for a, b in pairs if a == K],
            [label[b] for a, b in pairs if a == K + 1],
        )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the entries of a model file: the name of the scheme, or the pairs."""
        if self.scheme is not None:
            return {"transitions": self.scheme}, {}
        return {"transitions": GIVEN}, {"illegal": self.keys}


def rules_from_state(
    state: dict[str, Any], arrays: dict[str, np.ndarray], labels: LabelSet
) -> TransitionRules | None:
    """Read the rules that ``state`` wrote; None if the file has none."""
    if "transitions" not in state:
        return None
    name = choice(state, "transitions", (GIVEN, *RULED_SCHEMES))
    if name != GIVEN:
        return scheme_rules(name, labels)
    keys, K = table(arrays, "illegal", np.int64, -1), len(labels)
    if len(keys) and (keys[0] < 0 or keys[-1] >= K * (K + 2) or (np.diff(keys) <= 0).any()):
        raise FieldError("the illegal transitions must be pairs of labels in ascending order")
    return TransitionRules(labels, keys)


def read_transitions(given: Any, labels: LabelSet) -> TransitionRules:
    """Read the rules from the parameter ``transitions`` of a chain."""
    if isinstance(given, str):
        if given not in RULED_SCHEMES:
            raise ValueError(
                f"transitions must be one of {list(RULED_SCHEMES)} or Transitions(...), got {short(given)}"
            )
        return scheme_rules(given, labels)
    names = [field.name for field in fields(Transitions)]
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"transitions: {short(unknown[0])} is not one of {names}")
        given = Transitions(**given)
    if not isinstance(given, Transitions):
        raise ValueError(
            f"transitions must be None, one of {list(RULED_SCHEMES)}, models.Transitions(...) or a dict of "
            f"{names}, got {short(given)}"
        )
    return TransitionRules(labels, explicit_keys(given, labels))


def explicit_keys(given: Transitions, labels: LabelSet) -> np.ndarray:
    """Return pairs of labels as numbers; raise ValueError for labels that the model does not have."""
    for name, value in vars(given).items():
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(f"transitions: {name} must be a list, got {short(value)}")
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else (pair,) for pair in given.forbidden]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(
                f"transitions: forbidden must hold pairs (previous, next), got {short(pair)}"
            )

    def code(label: Any) -> int:
        found = int(labels.encode([label], "transitions")[0])
        if found < 0:
            raise ValueError(f"transitions: {short(label)} is not among the classes of the model")
        return found

    K = len(labels)
    keys = [code(a) * K + code(b) for a, b in pairs]
    keys += [K * K + code(a) for a in given.starts] + [(K + 1) * K + code(a) for a in given.ends]
    return np.array(keys, dtype=np.int64)


def scheme_rules(scheme: str, labels: LabelSet) -> TransitionRules:
    """Return the rules of a scheme of spans, derived from the names of the labels."""
    try:
        tags = [read_tag(label, scheme) for label in labels.classes.tolist()]
    except ValueError as error:
        raise ValueError(f"transitions={short(scheme)}: {error}") from None
    roles, types = (np.array(part) for part in zip(*tags, strict=True))
    goes_on = np.isin(roles, ["I", "E"])  # must follow a span
    open_before = np.isin(roles, ["B", "I"])
    kinds = np.unique(types, return_inverse=True)[1]
    same = kinds[:, None] == kinds[None, :]
    legal = np.where(goes_on[None, :], open_before[:, None] & same, True)
    ends = np.ones(len(roles), dtype=bool)
    if scheme != "iob2":  # a span that is open must continue
        legal &= open_before[:, None] == goes_on[None, :]
        ends = ~open_before
    return TransitionRules(labels, np.flatnonzero(~np.vstack([legal, ~goes_on, ends])), scheme)


def read_fixed(fixed: Any, labels: LabelSet, offsets: np.ndarray) -> np.ndarray:
    """Return, for each position of all examples, the code of the fixed label, or FREE.

    ``fixed`` has an entry for each example: a sequence with None for free labels, a dict from positions to
    labels, or None.
    """
    n = len(offsets) - 1
    if count_of(fixed, "fixed") != n:
        raise ValueError(f"fixed has {len(fixed)} examples, but X has {n}")
    codes = np.full(int(offsets[-1]), FREE, dtype=np.int32)
    for i, item in enumerate(fixed):
        length = int(offsets[i + 1] - offsets[i])
        if item is None:
            continue
        if not isinstance(item, Mapping):
            if isinstance(item, str | bytes) or not hasattr(item, "__len__") or len(item) != length:
                raise ValueError(
                    f"fixed[{i}] must have {length} labels (None for a free one), or be a dict "
                    f"from positions to labels; got {short(item)}"
                )
            item = dict(enumerate(item))
        known = {t: label for t, label in item.items() if label is not None}
        found = labels.encode(list(known.values()), f"fixed[{i}]")
        for (t, label), code in zip(known.items(), found.tolist(), strict=True):
            if not isinstance(t, int | np.integer) or not 0 <= t < length:
                raise ValueError(f"fixed[{i}]: {short(t)} is not a position of 0 to {length - 1}")
            if code < 0:
                raise ValueError(
                    f"fixed[{i}][{t}] = {short(label)} is not among the classes of the model"
                )
            codes[offsets[i] + t] = code
    return codes
