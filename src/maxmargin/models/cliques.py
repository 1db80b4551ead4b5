"""Factors over several nodes: their weights, and their conversion to nodes and edges.

A factor over m nodes becomes a node of its own, without features or loss. The label of this node is the state
of the factor. Edges to its members allow each state only the labels that belong to it. So the argmax, the
relaxation and the certificates for nodes and edges also serve for such factors. The linear relaxation over
nodes and edges equals the linear relaxation over factors, because a state fixes or frees each member's label
independently of the other members.

    "full"       a state and a weight for each labelling of the members     K_1 ... K_m states
    "diagonal"   K weights, one for each label that all members have
    "potts"      one weight, used if all members have the same label

The last two kinds need only m K states instead of K^m; each labelling has one of these states:

    (k)       all members have label k                          number k, with a weight
    (i, k)    the first i have it, the next one has not         number i K + k, 0 < i < m
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import array_of
from maxmargin.data.labels import LabelSet
from maxmargin.io.fields import FieldError, entries_of, field_of, is_whole_in, list_of
from maxmargin.io.quoting import short

CLIQUE_KINDS = ("full", "diagonal", "potts")
ONE_CLIQUE = "clique"  # the default name of factors
MOST_STATES = 2**16 - 1
NEVER_TOGETHER = -2  # the column of a pair of labels that no output has together; it has no score


@dataclass(frozen=True)
class Cliques:
    """Factors of one name: the types of their members, the numbers of labels of these, and the kind."""

    name: Hashable
    types: tuple[int, ...]
    sizes: tuple[int, ...]
    kind: str

    @property
    def n_states(self) -> int:
        """The number of states of a factor."""
        return int(np.prod(self.sizes)) if self.kind == "full" else len(self.sizes) * self.sizes[0]

    @property
    def columns(self) -> np.ndarray:
        """The weight of each state; -1 for a state without a weight."""
        if self.kind == "full":
            return np.arange(self.n_states, dtype=np.int32)
        columns = np.full(self.n_states, -1, dtype=np.int32)
        K = self.sizes[0]
        columns[:K] = np.arange(K) if self.kind == "diagonal" else 0
        return columns

    @property
    def n_weights(self) -> int:
        """The number of weights that the factors share."""
        return int(self.columns.max()) + 1

    def allowed(self, member: int) -> np.ndarray:
        """Return which labels of a member belong to each state, (states, labels)."""
        if self.kind == "full":
            labels = np.indices(self.sizes).reshape(len(self.sizes), -1)[member]
            return labels[:, None] == np.arange(self.sizes[member])
        m, K = len(self.sizes), self.sizes[0]
        same = np.eye(K, dtype=bool)
        rows = [same]  # first the states (k), then the states (i, k)
        for i in range(1, m):
            rows.append(same if member < i else ~same if member == i else np.ones((K, K), bool))
        return np.concatenate(rows)

    def states(self, labels: np.ndarray) -> np.ndarray:
        """Return the state of each labelling, given codes (n, m)."""
        if self.kind == "full":
            return np.ravel_multi_index(tuple(labels.T), self.sizes).astype(np.int32)
        differs = labels != labels[:, :1]
        first = np.where(differs.any(axis=1), differs.argmax(axis=1), 0)  # 0 if none differs
        return (first * self.sizes[0] + labels[:, 0]).astype(np.int32)


def read_cliques(given: Any, n: int, i: int) -> dict[Hashable, np.ndarray]:
    """Return the factors over several nodes of an example: for each name the members, (F, m)."""
    if given is None:
        return {}
    named = given.items() if isinstance(given, Mapping) else [(ONE_CLIQUE, given)]
    found = {}
    for name, members in named:
        where = f"X[{i}][4]" + (f"[{name!r}]" if isinstance(given, Mapping) else "")
        array = array_of(members, where)
        if array.size == 0:
            continue
        if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iu":
            raise ValueError(
                f"{where} must hold the nodes of each factor, whole numbers of shape (F, m) with "
                f"m >= 2, got {array.dtype} {array.shape}"
            )
        ordered = np.sort(array, axis=1)
        wrong = (ordered[:, 0] < 0) | (ordered[:, -1] >= n)
        wrong |= (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if wrong.any():
            f = int(np.argmax(wrong))
            raise ValueError(
                f"{where}[{f}] = {array[f].tolist()} must name different nodes among the {n} "
                "nodes of the example"
            )
        found[name] = np.ascontiguousarray(array, dtype=np.int32)
    return found


def learn_cliques(
    items: Sequence[Any],
    types: list[np.ndarray],
    sets: list[LabelSet],
    kinds: Any,
    names: list[Any],
) -> list[Cliques]:
    """Return the factors of each name that occurs, sorted by name, with the types of their members."""
    seen: dict[Hashable, tuple[int, ...]] = {}
    for i, (item, own) in enumerate(zip(items, types, strict=True)):
        for name, members in item.cliques.items():
            for row in np.unique(own[members], axis=0).tolist():
                if seen.setdefault(name, tuple(row)) != tuple(row):
                    raise ValueError(
                        f"X[{i}][4]: factors {short(name)} have members of the types "
                        f"{[names[t] for t in row]} and {[names[t] for t in seen[name]]}; give "
                        "factors with other types another name"
                    )
    if not seen:
        return []
    return [
        made_cliques(name, seen[name], sets, kind_of_weights(kinds, name))
        for name in LabelSet(list(seen)).classes.tolist()
    ]


def kind_of_weights(kinds: Any, name: Hashable) -> str:
    """Return the kind of the weights of factors of a name, from the parameter ``cliques``."""
    kind = kinds.get(name) if isinstance(kinds, Mapping) else kinds
    if not isinstance(kind, str) or kind not in CLIQUE_KINDS:
        raise ValueError(
            f"cliques must be one of {list(CLIQUE_KINDS)}, got {short(kind)} for factors {short(name)}"
        )
    return kind


def made_cliques(
    name: Hashable, types: tuple[int, ...], sets: list[LabelSet], kind: str
) -> Cliques:
    """Make the factors of a name.

    Raises ValueError for too many states, or if labels are compared but members have different labels.
    """
    classes = [sets[t].classes.tolist() for t in types]
    if kind != "full" and any(own != classes[0] for own in classes):
        raise ValueError(
            f"cliques={short(kind)} needs members with equal labels, but those of the factors "
            f"{short(name)} differ; use 'full'"
        )
    made = Cliques(name, types, tuple(len(own) for own in classes), kind)
    check_states(made)
    return made


def check_states(made: Cliques) -> None:
    """Raise ValueError for more states than the limit."""
    states = float(np.prod([float(size) for size in made.sizes]))
    if made.kind == "full" and states > MOST_STATES:
        raise ValueError(
            f"cliques='full': factors {short(made.name)} would have {states:.3g} states, but at "
            f"most {MOST_STATES} are possible; use 'potts' or 'diagonal', which have few"
        )


def saved_cliques(state: dict[str, Any], sets: list[LabelSet]) -> list[Cliques]:
    """Read the factors from a model file; files of models without such factors have none."""
    if "cliques" not in state:
        return []
    names = LabelSet.from_state(entries_of(field_of(state, "clique_names"), "clique_names"))
    entries = list_of(state, "cliques")
    if len(entries) != len(names) or not entries:
        raise FieldError(f"there are {len(names)} names of factors, but {len(entries)} factors")
    found = []
    for name, entry in zip(names.classes.tolist(), entries, strict=True):
        fits = isinstance(entry, list) and len(entry) >= 3 and entry[-1] in CLIQUE_KINDS
        if not fits or not all(is_whole_in(t, 0, len(sets) - 1) for t in entry[:-1]):
            raise FieldError(f"cliques must hold [type, ..., kind], got {short(entry)}")
        found.append(made_cliques(name, tuple(entry[:-1]), sets, entry[-1]))
    return found


def clique_state(cliques: list[Cliques]) -> dict[str, Any]:
    """Return the entries of a model file for the factors."""
    if not cliques:
        return {}
    names = LabelSet([own.name for own in cliques])
    return {
        "clique_names": names.state(),
        "cliques": [[*own.types, own.kind] for own in cliques],
    }
