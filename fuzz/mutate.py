"""Damage JSON values, arrays, texts and bytes, as an attacker would."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

Generator = np.random.Generator

JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    255,
    65_536,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63,
    2**64,
    2**200,
    10**400,
    -(2**63),
    0.0,
    -0.0,
    0.5,
    1.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "a",
    "\0",
    "a\0",
    "é\ud800",
    "x" * 300,
    "<U99999999",
    "<U9",
    ">i8",
    "<f8",
    "|O",
    "<M8[s]",
    "V9",
    "auto",
    "balanced",
    "scale",
    "../x",
    [],
    [[]],
    {},
    [0, 1],
    ["a", "b"],
    ["a", "a"],
    [None, 1.5, "a"],
    {"kind": "Multiclass"},
    {"name": "sda", "options": {}},
]


def pick(rng: Generator, items: Any) -> Any:
    """Return one of the items."""
    return items[int(rng.integers(len(items)))]


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Return the paths to all places inside a JSON value."""
    found = [path]
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        found += places(item, (*path, key))
    return found


def at(value: Any, path: tuple) -> Any:
    """Return the value at a place."""
    for key in path:
        value = value[key]
    return value


def damaged_value(rng: Generator, value: Any, others: Any = ()) -> Any:
    """Change one place of a JSON value: junk, a value from elsewhere, removed, repeated or nudged."""
    value = copy.deepcopy(value)
    place = pick(rng, places(value))
    if not place:
        return pick(rng, JUNK) if rng.random() < 0.1 else value
    holder, key = at(value, place[:-1]), place[-1]
    old = holder[key]
    kind = int(rng.integers(7))
    if kind == 0:
        del holder[key]
    elif kind == 1 and others:
        other = pick(rng, others)
        holder[key] = copy.deepcopy(at(other, pick(rng, places(other))))
    elif kind == 2:
        holder[key] = copy.deepcopy(at(value, pick(rng, places(value))))
    elif kind == 3 and isinstance(old, list) and old:
        holder[key] = old * int(rng.integers(2, 4)) if rng.random() < 0.5 else old[:-1]
    elif kind == 4 and isinstance(old, int | float):
        holder[key] = pick(rng, [old + 1, old - 1, -old, old % 7 + 0.5, bool(old), "7"])
    elif kind == 5 and isinstance(holder, dict):
        holder[pick(rng, ["extra", "kind", "classes", str(key) + " "])] = pick(rng, JUNK)
    else:
        holder[key] = copy.deepcopy(pick(rng, JUNK))
    return value


def damaged_json(rng: Generator, text: str) -> str:
    """Make JSON text that is hard to parse: depth, duplicate names, huge numbers, cuts."""
    cut = int(rng.integers(len(text) + 1))
    kind = int(rng.integers(6))
    if kind == 0:
        depth = int(rng.integers(1, 100_000))
        return "[" * depth + pick(rng, ["", text + "]" * depth])
    if kind == 1:
        return '{"model": 1, ' + text[1:]
    if kind == 2:
        return text[:cut] + "9" * int(rng.integers(1, 9000)) + text[cut:]
    if kind == 3:
        return text[:cut]
    if kind == 4:
        return text.replace('": ', '": {"a": ', 1)
    return text[:cut] + pick(rng, ["NaN", "-", "\0", "e", "\\u0000", '"', "}"]) + text[cut:]


def dumps(value: Any) -> str:
    """Return the JSON text of a value; NaN is written as NaN."""
    return json.dumps(value, sort_keys=True)


def damaged_array(rng: Generator, array: np.ndarray) -> np.ndarray:
    """Return an array of another type, shape or length, or with strange or permuted numbers."""
    kind = int(rng.integers(7))
    with np.errstate(all="ignore"):
        if kind == 0:
            types = ["f8", "f4", "f2", "i8", "i4", "i2", "u1", "u4", "?"]
            return np.nan_to_num(array).astype(pick(rng, types))
        if kind == 1:
            return array[: max(0, len(array) - int(rng.integers(1, 3)))]
        if kind == 2:
            return np.concatenate([array, array[: int(rng.integers(1, 3))]])
        if kind == 3:
            shapes = [(-1,), (1, -1), (-1, 1), (array.size, 1, 1)]
            return array.reshape(pick(rng, shapes) if array.size else (0, 3))
        if kind == 4:
            return np.empty(pick(rng, [(0,), (0, 2), (2, 0), (0, 2**40), (1, 1)]), array.dtype) * 0
        if kind == 5 and array.size:
            array = array.copy()
            values = {"f": [np.nan, np.inf, -np.inf, 1e308, -1.0, 1e-320, 0.0]}.get(
                array.dtype.kind, [-1, 2**31 - 1, -(2**31), 0, 1, 7, 10**6]
            )
            spot = rng.integers(array.size, size=int(rng.integers(1, 4)))
            array.ravel()[spot] = np.array(pick(rng, values)).astype(array.dtype)
            return array
        return rng.permutation(array.ravel()).reshape(array.shape)


def damaged_bytes(rng: Generator, data: bytes) -> bytes:
    """Flip, cut, double, insert or replace bytes."""
    content, kind = bytearray(data), int(rng.integers(6))
    spot = int(rng.integers(len(content) + 1))
    if kind == 0 or not content:
        return bytes(content[:spot])
    if kind == 1:
        for place in rng.integers(len(content), size=int(rng.integers(1, 5))):
            content[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        content[spot:spot] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 3:
        content = content[:spot] + content[max(0, spot - int(rng.integers(1, 60))) :]
    elif kind == 4:
        content[spot : spot + 8] = pick(rng, [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7])
    else:
        content = bytearray(rng.bytes(len(content)))
    return bytes(content)


def damaged_text(rng: Generator, text: str, words: list[str]) -> str:
    """Change lines or words of a text, and insert strange ones."""
    kind = int(rng.integers(5))
    if kind == 0:
        return "".join(pick(rng, words) for _ in range(int(rng.integers(1, 30))))
    lines = text.split("\n")
    i = int(rng.integers(len(lines)))
    if kind == 1:
        lines[i] = lines[i][: int(rng.integers(len(lines[i]) + 1))]
    elif kind == 2:
        lines.insert(i, "".join(pick(rng, words) for _ in range(int(rng.integers(1, 9)))))
    elif kind == 3:
        spot = int(rng.integers(len(lines[i]) + 1))
        lines[i] = lines[i][:spot] + pick(rng, words) + lines[i][spot:]
    else:
        fields = lines[i].split(" ")
        fields[int(rng.integers(len(fields)))] = pick(rng, words)
        lines[i] = " ".join(fields)
    return "\n".join(lines)
