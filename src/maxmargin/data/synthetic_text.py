"""Synthetic sentences with names of people, organisations and places, made from patterns and lists.

They are hard to tag for the usual reasons: some names do not occur in training, some names are also words or
names of another kind ("Rose", "Lincoln", "Jordan"), and some entities have several words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.arrays import whole

__all__ = ["KNOWN_NAMES", "news_sentences"]

NAMES = """
first    Anna Ben Carla David Elena Frank Grace Henry Irene Jordan Kim Laura Martin Nora Rose Tom Aisha
first    Björn Chiara Dmitri Farid Ingrid Keiko Lwazi Mateus Olga Priya Rafael Siobhan Yusuf
last     Adams Baker Chen Duval Evans Fischer Garcia Hill Ito Jensen Kumar Lincoln Moreau Novak Okafor
last     Petrov Quinn Rossi Sato Tanaka Ueda Vargas Weber Young Zimmer Brooks Castle Field
town     Aberdeen Boston Cairo Dallas Essen Florence Geneva Houston Jordan Kingston Lincoln Madrid
town     Nairobi Oslo Porto Quito Riga Seoul Tunis Utrecht Valencia Warsaw York Zagreb
head     Northern Atlas Summit Harbor Delta Pioneer Castle Field Rose Union Silver Baltic
tail     Bank Motors Airlines Foods Energy Group Partners Systems Holdings Insurance
day      Monday Tuesday Wednesday Thursday Friday
month    January March May June October
""".strip()
PATTERNS = """
{PER} joined {ORG} in {LOC} last {day} .
Shares of {ORG} fell after {PER} resigned .
{ORG} will open an office in {LOC} , {PER} said .
In {LOC} , {PER} met managers of {ORG} on {day} .
The bank in {LOC} was sold to {ORG} .
{PER} and {PER} bought a castle near {LOC} .
Analysts at {ORG} expect prices to rise in {month} .
She walked across the field to the harbor in {LOC} .
{PER} , who lives in {LOC} , planted a rose in {month} .
Prices of foods and energy rose in {LOC} , {ORG} reported .
The union called a strike at {ORG} for {day} .
He has worked for {ORG} since {PER} left .
""".strip().splitlines()
NEW_PATTERNS = """
According to {PER} , flights between {LOC} and {LOC} start in {month} .
{ORG} sued {ORG} over a contract that {PER} signed .
{LOC} welcomed {PER} on {day} .
A group of managers left {ORG} and founded {ORG} in {LOC} .
Young people in {LOC} trust {PER} more than {ORG} .
On {day} the insurance paid , wrote {PER} of {ORG} .
""".strip().splitlines()
LISTS: dict[str, list[str]] = {}
for _line in NAMES.splitlines():
    _kind, *_names = _line.split()
    LISTS[_kind] = LISTS.get(_kind, []) + _names

# Lists of names to use as features (gazetteers); like real ones, they are incomplete.
KNOWN_NAMES = {kind: frozenset(LISTS[kind][::2]) for kind in ("first", "town", "tail")}


def news_sentences(
    n: int, random_state: Any = None, *, new: bool = False
) -> tuple[list[list[str]], list[list[str]]]:
    """Draw synthetic sentences of news with the tags of their entities.

    Parameters
    ----------
    n : number of sentences.
    random_state : None, an int, or a NumPy ``Generator``.
    new : False: use three fifths of each list of names, and twelve patterns of sentences. True: use all
        names, and six further patterns, so that some names and patterns are new to a trained tagger.

    Returns
    -------
    X : list of lists of words.
    Y : list of lists of tags, ``O`` or ``B-`` and ``I-`` with ``PER``, ``ORG`` or ``LOC``.
    """
    whole().check("n", n)
    rng = np.random.default_rng(random_state)
    patterns = PATTERNS + NEW_PATTERNS * new
    X, Y = [], []
    for number in rng.integers(len(patterns), size=n):
        words: list[str] = []
        tags: list[str] = []
        for token in patterns[number].split():
            kind = token.strip("{}")
            if kind in ("PER", "ORG", "LOC"):
                found = _entity(kind, rng, new)
                tags += [f"{'BI'[place > 0]}-{kind}" for place in range(len(found))]
            else:
                found = [_one(LISTS[kind], rng)] if kind != token else [token]
                tags += ["O"]
            words += found
        X.append(words)
        Y.append(tags)
    return X, Y


def _one(names: list[Any], rng: np.random.Generator) -> Any:
    return names[rng.integers(len(names))]


def _entity(kind: str, rng: np.random.Generator, new: bool) -> list[str]:
    """Draw a name of one to three words."""

    def some(of: str) -> str:
        names = LISTS[of]
        return _one(names if new else names[: int(0.6 * len(names))], rng)

    if kind == "PER":
        full = [some("first"), some("last")]
        return _one([full, full, full[1:], full[:1]], rng)
    if kind == "LOC":
        return ["New", some("town")] if rng.random() < 0.1 else [some("town")]
    name = [some("head"), some("tail")]
    return _one([name, [*name, "Inc."], [some("last"), "&", some("last")], name[:1]], rng)
