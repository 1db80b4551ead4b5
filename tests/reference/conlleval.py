"""The reference for entity scores: chunk counts, token by token, as the authors of conlleval describe them.

It never lists spans. It walks over the tokens of both taggings at once, with a boundary "O" after
each sentence. At each token it asks whether a chunk ended before it and whether one starts at it.
Its rules name pairs of letters; the original has pairs of B and I, and of I and E. The rules for S
(a single token) and for BIES follow the usual extension: S and B always start, E and S always end.
"""

from __future__ import annotations

from collections import Counter

ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
ENDS |= {"BS", "IS", "EB", "ES", "SB", "SI", "SE", "SS", "SO"}
STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
STARTS |= {"BS", "IS", "OS", "EB", "ES", "SB", "SI", "SE", "SS"}


def ended(last: tuple[str, str], now: tuple[str, str]) -> bool:
    """Return whether a chunk ended between two tokens."""
    return last[0] + now[0] in ENDS or (last[0] != "O" and last[1] != now[1])


def started(last: tuple[str, str], now: tuple[str, str]) -> bool:
    """Return whether a chunk starts at the second of two tokens."""
    return last[0] + now[0] in STARTS or (now[0] != "O" and last[1] != now[1])


def split(tag: str) -> tuple[str, str]:
    """Split a tag into letter and type; L and U of BILOU become E and S."""
    letter, _, kind = tag.partition("-")
    return {"L": "E", "U": "S"}.get(letter, letter), kind


def conlleval(Y: list[list[str]], P: list[list[str]]) -> tuple[Counter, Counter, Counter]:
    """Count the correct, true and guessed chunks by type."""
    correct, true, guessed = Counter(), Counter(), Counter()
    last_true = last_guess = ("O", "")
    inside = False  # whether a chunk began in both taggings and agrees so far
    for y, p in zip(Y, P, strict=True):
        for tag, guess in zip([*y, "O"], [*p, "O"], strict=True):
            now_true, now_guess = split(tag), split(guess)
            over = ended(last_true, now_true), ended(last_guess, now_guess)
            if inside and all(over) and last_true[1] == last_guess[1]:
                inside = False
                correct[last_true[1]] += 1
            elif inside and (over[0] != over[1] or now_true[1] != now_guess[1]):
                inside = False
            begun = started(last_true, now_true), started(last_guess, now_guess)
            if all(begun) and now_true[1] == now_guess[1]:
                inside = True
            true[now_true[1]] += begun[0]
            guessed[now_guess[1]] += begun[1]
            last_true, last_guess = now_true, now_guess
    return +correct, +true, +guessed
