"""Damaged folders of shards and text files: they are read, or refused with an error that names
them.

    python -m fuzz.shards --seconds 60

The fuzzer changes, cuts and exchanges manifests and files of dense and sparse rows, sequences and
trees.
Usually it repairs the sizes and checksums of the manifest. A folder that opens must be readable,
row by row
and as a whole, or raise ``ShardError``. Text files for every reader get strange lines: the error
must name
the file and, if the problem is in a line, the line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin as mm
from fuzz.common import Find, main
from fuzz.limits import bounded, causes, workshop
from fuzz.mutate import damaged_bytes, damaged_json, damaged_text, damaged_value, dumps, pick
from maxmargin.data import ShardError
from maxmargin.data.manifest import MANIFEST_NAME
from maxmargin.data.synthetic import random_treebank

Generator = np.random.Generator
Files = dict[str, bytes]


@cache
def originals() -> list[tuple[str, Files]]:
    """The name and the files of a folder of each kind."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)).astype(np.float32), np.array(["red", "green", "blue"] * 3)
    thin = sp.csr_matrix(np.where(rng.random((9, 3)) < 0.5, X, 0))
    chains = [X[a : a + 3] for a in (0, 3, 6)]
    kinds: dict[str, tuple] = {
        "dense": (X, y),
        "csr": (thin, np.arange(9) % 2),
        "no labels": (X, None),
        "sequences": (chains, [y[:3]] * 3),
        "sparse sequences": ([thin[a : a + 3] for a in (0, 3, 6)], [y[:3]] * 3),
        "trees": random_treebank(6, random_state=0),
    }
    found = []
    for name, (inputs, outputs) in kinds.items():
        folder = workshop("shards") / "original"
        mm.data.write_shards(folder, inputs, outputs, shard_bytes=200)
        found.append((name, {path.name: path.read_bytes() for path in folder.iterdir()}))
        shutil.rmtree(folder)
    return found


def repaired(files: Files) -> Files:
    """Return the files with correct sizes and checksums in the manifest, if the manifest can be parsed."""
    try:
        manifest = json.loads(files[MANIFEST_NAME])
        for k, shard in enumerate(manifest["shards"]):
            for part, entry in shard["files"].items():
                data = files[f"shard-{k:05d}.{part}"]
                entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        return files | {MANIFEST_NAME: json.dumps(manifest).encode()}
    except (KeyError, TypeError, AttributeError, ValueError):
        return files


def damaged_numbers(rng: Generator, name: str, data: bytes) -> bytes:
    """Change some numbers in a file of offsets, pointers, columns or codes; its length stays the same."""
    kind = {"offsets": "<i8", "starts": "<i8", "data": "u1", "trees": "u1"}.get(
        name.split(".")[-1], "<i4"
    )
    numbers = np.frombuffer(data, kind).copy()
    limits = np.iinfo(kind)
    for _ in range(int(rng.integers(1, 4))):
        numbers[int(rng.integers(len(numbers)))] = pick(
            rng, [0, 1, 2, 3, 5, 100, limits.max, limits.min]
        )
    return numbers.tobytes()


def damaged_folder(rng: Generator, files: Files, other: Files) -> tuple[str, Files]:
    """Return a folder with one or two things wrong, and a name for the damage."""
    name, kind = pick(rng, sorted(set(files) - {MANIFEST_NAME})), rng.random()
    if kind < 0.35:
        manifest = json.loads(files[MANIFEST_NAME])
        for _ in range(1 + int(rng.integers(3)) // 2):
            manifest = damaged_value(rng, manifest, [json.loads(other[MANIFEST_NAME])])
        changed = files | {MANIFEST_NAME: dumps(manifest).encode("utf-8", "surrogatepass")}
        return "manifest", repaired(changed) if rng.random() < 0.5 else changed
    if kind < 0.45:
        text = damaged_json(rng, files[MANIFEST_NAME].decode())
        return "manifest text", files | {MANIFEST_NAME: text.encode("utf-8", "surrogatepass")}
    if kind < 0.5:
        return "manifest bytes", files | {MANIFEST_NAME: damaged_bytes(rng, files[MANIFEST_NAME])}
    if kind < 0.8:
        return "numbers", repaired(files | {name: damaged_numbers(rng, name, files[name])})
    if kind < 0.95:
        changed = files | {name: damaged_bytes(rng, files[name])}
        return "bytes", repaired(changed) if rng.random() < 0.7 else changed
    if kind < 0.975:
        return "missing", {key: data for key, data in files.items() if key != name}
    return "mixed", files | {key: data for key, data in other.items() if key != MANIFEST_NAME}


def read_all(data: Any) -> None:
    """Read everything of a data set that Python can read, and make one prediction."""
    if data.manifest.kind == "trees":
        list(data.X), list(data.Y or ())
        return
    # dense rows of the widest data sets would exhaust any memory
    narrow = data.manifest.features < 1000
    for i in (0, len(data) - 1):
        x = data.X[i]
        x.toarray() if sp.issparse(x) and narrow else x.sum()
    if data.manifest.kind == "rows" and narrow:
        data.X @ np.ones((data.manifest.features, 2))
        data.X[: max(1, len(data) - 1)].tocsr().toarray()
        data.X[[0, -1, 0]]
    if data.Y is not None:
        list(data.Y), data.Y[0], data.Y[-1], data.classes


def cut_attempt(rng: Generator) -> str:
    """Open a folder, cut one of its files, and read: the error must name the file."""
    name, files = pick(rng, originals())
    folder = laid_out(files)
    data = mm.data.open_shards(folder)
    key = pick(rng, sorted(set(files) - {MANIFEST_NAME}))
    os.truncate(folder / key, int(rng.integers(len(files[key]))))
    try:
        read_all(data)
    except ShardError as error:
        if key not in str(error):
            raise Find(f"{name}: the error does not name {key}: {error}") from error
        return "cut, reported"
    # these two are copied when the folder is opened
    if key.split(".")[1] not in ("offsets", "starts"):
        raise Find(f"{name}: {key} was cut, and nobody said so")
    return "cut, copied before"


def laid_out(files: Files) -> Path:
    """Write these files into a folder that holds nothing else."""
    folder = workshop("shards") / "shards"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for key, content in files.items():
        (folder / key).write_bytes(content)
    return folder


def folder_attempt(rng: Generator) -> str:
    """Try one damaged folder."""
    name, files = pick(rng, originals())
    what, files = damaged_folder(rng, files, pick(rng, originals())[1])
    folder = laid_out(files)
    verify = bool(rng.random() < 0.7)
    with bounded():
        try:
            data = mm.data.open_shards(folder, verify=verify)
            read_all(data)
        except ShardError as error:
            if any(isinstance(cause, MemoryError) for cause in causes(error)):
                raise Find(
                    f"{name}, {what}: memory for {sum(map(len, files.values()))} bytes"
                ) from error
            if str(folder) not in str(error):
                raise Find(f"{name}, {what}: the error does not name the file: {error}") from error
            return f"{what}, refused"
        except Exception as error:
            raise Find(f"{name}, {what}: raised {error!r}") from error
    return f"{what}, read"


SVMLIGHT = "1 1:2 3:4.5\n-1 2:1e-3 # a comment\n2 qid:3 1:1\n0.5 2:7\n"
COLUMNS = "the DT O\ndog NN B\n\nthe DT O\ncat NN B\nran VB O\n"
BRACKETS = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks))) )\n# note\n(S (NP (-NONE- *)) (VP (VB go)))\n"
WORDS = [
    "0", "1", "-1", "1:1", "0:1", "2147483647:1", "2147483648:1", "99999999999:1", "-5:1", "1:nan", "1:1e999",
    "1:", ":1", "::", "nan", "inf", "1e400", "9" * 30, "qid:x", "qid:1", "#", " ", "\t", "\n", "\r", "\n\n",
    "\0", "é", "日本", "\udcff", "a b c", "a b", "(", ")", "((", "))", "()", "(S", "-NONE-", "(X (Y z))", ";",
    "%", "@", "1 1:1 1:2", "2:1 1:1", "a", "B\0", "\u2028", "\x0c", "\x1f\x8b", "0x10", "1_0:1", "+1",
]  # fmt: skip


def convert(kind: str, path: Path, folder: Path, rng: Generator) -> Path:
    """Convert a text file into shards."""
    if kind == "svmlight":
        zero = bool(rng.random() < 0.3)
        width = 3 if rng.random() < 0.2 else None
        return mm.data.svmlight_to_shards(
            path, folder, zero_based=zero, n_features=width, overwrite=True
        )
    if kind == "columns":
        bits = 4 if rng.random() < 0.3 else None
        return mm.data.columns_to_shards(path, folder, hash_bits=bits, overwrite=True)
    clean = bool(rng.random() < 0.7)
    return mm.data.trees_to_shards(path, folder, cleaned=clean, overwrite=True)


def text_attempt(rng: Generator) -> str:
    """Try one damaged text file."""
    texts = {"svmlight": SVMLIGHT, "columns": COLUMNS, "brackets": BRACKETS}
    kind = pick(rng, sorted(texts))
    text = texts[kind]
    for _ in range(int(rng.integers(1, 4))):
        text = damaged_text(rng, text, WORDS)
    data = text.encode("utf-8", "surrogateescape")
    data = damaged_bytes(rng, data) if rng.random() < 0.15 else data
    path, folder = workshop("shards") / "text", workshop("shards") / "made"
    path.write_bytes(data)
    with bounded():
        try:
            read_all(mm.data.open_shards(convert(kind, path, folder, rng)))
        except ValueError as error:
            message = str(error)
            empty = "no examples" in message
            if (not empty and str(path) not in message) or (folder / "x").exists():
                raise Find(
                    f"{kind}: the error does not name the file: {error!r} in {data!r}"
                ) from error
            if not empty and not re.search(r"line \d+|plain text", message):
                raise Find(f"{kind}: the error names no line: {error!r} in {data!r}") from error
            return f"{kind}, refused"
        except Exception as error:
            raise Find(f"{kind}: raised {error!r} for {data!r}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return f"{kind}, read"


def attempt(rng: Generator) -> str:
    """Try a folder, a file that is cut, or a text file."""
    kind = rng.random()
    if kind < 0.05:
        return cut_attempt(rng)
    return folder_attempt(rng) if kind < 0.6 else text_attempt(rng)


if __name__ == "__main__":
    main("shards", attempt)
