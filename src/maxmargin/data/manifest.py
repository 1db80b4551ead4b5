"""The manifest of a sharded data set: what is in the folder, in JSON. Nothing in it is executed.

    format, version     "maxmargin-shards", 1
    kind                "rows" (an example is a row) or "sequences" (an example is a run of rows)
    layout, dtype       "dense" or "csr", "<f4" or "<f8"
    features            columns
    labels              {"classes": [...], "dtype": ...} or null; the files hold codes, places in classes
    attributes          {"names": [...]}, {"hash_bits": b} or null: what the columns stand for
    shards              [{"examples", "rows", "entries", "files": {part: {"bytes", "sha256"}}}, ...]

The files of shard 3 are called shard-00003.<part>; a manifest cannot point to any other. It is written
last, to a temporary file that then takes its place: a folder with a manifest was written whole.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet

FORMAT, VERSION, NAME = "maxmargin-shards", 1, "manifest.json"
KINDS, LAYOUTS, DTYPES = ("rows", "sequences"), ("dense", "csr"), ("<f4", "<f8")
TREES, TEXT, BYTES = "trees", "text", "|u1"  # kind, layout and dtype of treebanks go together
MOST = 2**53  # no count is larger


class ShardError(ValueError):
    """A folder of shards that is damaged, incomplete or no such folder, or that cannot be written."""


@dataclass(frozen=True)
class FileEntry:
    """Size and checksum of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """Counts of one shard; ``entries`` is the number of stored values of a CSR shard, else 0."""

    examples: int
    rows: int
    entries: int
    files: dict[str, FileEntry]


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards holds."""

    kind: str
    layout: str
    dtype: str
    features: int
    labels: dict[str, Any] | None
    attributes: dict[str, Any] | None
    shards: list[Shard]

    @property
    def examples(self) -> int:
        """How many examples all shards hold."""
        return sum(shard.examples for shard in self.shards)

    @property
    def rows(self) -> int:
        """How many rows all shards hold."""
        return sum(shard.rows for shard in self.shards)

    def sizes(self, shard: Shard) -> dict[str, int]:
        """Bytes that each file of a shard must have."""
        if self.kind == TREES:
            starts = (shard.examples + 1) * 8
            drawn = {"trees": shard.entries, "starts": starts} if shard.entries else {}
            return {"data": shard.rows, "offsets": starts, **drawn}
        item = int(self.dtype[-1])
        if self.layout == "dense":
            sizes = {"data": shard.rows * self.features * item}
        else:
            sizes = {"data": shard.entries * item, "indices": shard.entries * 4}
            sizes["indptr"] = (shard.rows + 1) * 4
        if self.kind == "sequences":
            sizes["offsets"] = (shard.examples + 1) * 8
        if self.labels is not None:
            sizes["codes"] = shard.rows * 4
        return sizes


def file_name(shard: int, part: str) -> str:
    """The name of a file of a shard."""
    return f"shard-{shard:05d}.{part}"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in its place, whole or not at all."""
    content = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    text = json.dumps(content, allow_nan=False, indent=1)
    temporary = folder / f"{NAME}.part"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / NAME)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder; refuses one that no writer could have written."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise ShardError(
            f"{path} is missing: this is no folder of shards, or writing it did not come to its end"
        ) from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ShardError(f"{path} is not readable: {error}") from None
    try:
        return parse_manifest(content)
    except ShardError as error:
        raise ShardError(f"{path}: {error}") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of a manifest")


def parse_manifest(content: Any) -> Manifest:
    """A checked manifest from what JSON gave."""
    fields = entries_of(content, "the manifest")
    if fields.get("format") != FORMAT:
        raise ShardError(f"format must be {FORMAT!r}, got {short(fields.get('format'))}")
    if fields.get("version") != VERSION or isinstance(fields["version"], bool):
        raise ShardError(
            f"version {short(fields.get('version'))} is not known; this is for {VERSION}"
        )
    manifest = Manifest(
        kind=choice(fields, "kind", (*KINDS, TREES)),
        layout=choice(fields, "layout", (TEXT,) if fields["kind"] == TREES else LAYOUTS),
        dtype=choice(fields, "dtype", (BYTES,) if fields["kind"] == TREES else DTYPES),
        features=count(fields, "features", 1, 2**31 - 1),
        labels=parse_labels(fields.get("labels")),
        attributes=parse_attributes(fields.get("attributes")),
        shards=[parse_shard(entry, k) for k, entry in enumerate(list_of(fields, "shards"))],
    )
    for k, shard in enumerate(manifest.shards):
        check_sizes(manifest, shard, k)
    if not manifest.shards:
        raise ShardError("shards is empty: there are no examples")
    return manifest


def parse_shard(entry: Any, k: int) -> Shard:
    """One shard's counts and files."""
    fields = entries_of(entry, f"shards[{k}]")
    files = {}
    for part, file in entries_of(fields.get("files"), f"shards[{k}].files").items():
        values = entries_of(file, f"shards[{k}].files.{short(part)}")
        digest = values.get("sha256")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ShardError(f"shards[{k}].files.{short(part)}.sha256 is no SHA-256 checksum")
        files[part] = FileEntry(count(values, "bytes", 0, MOST), digest)
    examples, rows = count(fields, "examples", 1, MOST), count(fields, "rows", 1, MOST)
    return Shard(examples, rows, count(fields, "entries", 0, 2**31 - 1), files)


def check_sizes(manifest: Manifest, shard: Shard, k: int) -> None:
    """The files of a shard must be those that its counts and types ask for."""
    sizes = manifest.sizes(shard)
    if manifest.kind == "rows" and shard.examples != shard.rows:
        raise ShardError(f"shards[{k}] has {shard.examples} examples in {shard.rows} rows")
    if shard.examples > shard.rows:
        raise ShardError(f"shards[{k}] has {shard.examples} sequences in {shard.rows} rows")
    if set(sizes) != set(shard.files):
        raise ShardError(
            f"shards[{k}].files must be {sorted(sizes)}, got {short(sorted(shard.files))}"
        )
    for part, size in sizes.items():
        if shard.files[part].bytes != size:
            raise ShardError(
                f"{file_name(k, part)} would have {shard.files[part].bytes} bytes, but its counts and "
                f"dtype {manifest.dtype} ask for {size}"
            )


def parse_labels(value: Any) -> dict[str, Any] | None:
    """The classes, in the order of their codes."""
    if value is None:
        return None
    fields = entries_of(value, "labels")
    classes = list_of(fields, "classes")
    for label in classes:
        if label is not None and not isinstance(label, str | int | float | bool):
            raise ShardError(f"labels.classes holds {short(label)}, neither text nor a number")
        if isinstance(label, float) and not math.isfinite(label):
            raise ShardError("labels.classes holds a number that is not finite")
    dtype = fields.get("dtype")
    if not isinstance(dtype, str) or not re.fullmatch(r"[<>|=]?([biufUS]\d{1,6}|O)", dtype):
        raise ShardError(f"labels.dtype {short(dtype)} is no type of labels")
    labels = {"classes": classes, "dtype": dtype}
    try:
        LabelSet.from_state(labels)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ShardError(f"labels do not fit their dtype {dtype}: {error}") from None
    return labels


def parse_attributes(value: Any) -> dict[str, Any] | None:
    """What the columns stand for."""
    if value is None:
        return None
    fields = entries_of(value, "attributes")
    if set(fields) == {"hash_bits"}:
        return {"hash_bits": count(fields, "hash_bits", 1, 30)}
    names = list_of(fields, "names")
    if set(fields) != {"names"} or not all(isinstance(name, str) for name in names):
        raise ShardError("attributes must hold names (texts) or hash_bits")
    return {"names": names}


def short(value: Any) -> str:
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def entries_of(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ShardError(f"{what} must be a JSON object, got {short(value)}")
    return value


def list_of(fields: dict[str, Any], name: str) -> list:
    value = fields.get(name)
    if not isinstance(value, list):
        raise ShardError(f"{name} must be a list, got {short(value)}")
    return value


def choice(fields: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise ShardError(f"{name} must be one of {list(allowed)}, got {short(value)}")
    return value


def count(fields: dict[str, Any], name: str, least: int, most: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ShardError(
            f"{name} must be a whole number from {least} to {most}, got {short(value)}"
        )
    return value


def coded(labels: dict[str, Any]) -> np.ndarray:
    """The classes as an array, in the order of their codes."""
    return LabelSet.from_state(labels).classes
