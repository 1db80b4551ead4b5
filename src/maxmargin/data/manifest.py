"""The manifest of a sharded data set: a JSON file that lists the shards. Nothing in it is executed.

    format, version     "maxmargin-shards", 1, or 2 with a generation
    generation          absent, or the number of times that the data set was replaced in its folder
    kind                "rows" (an example is a row) or "sequences" (an example is a run of rows)
    layout, dtype       "dense" or "csr", "<f4" or "<f8"
    features            number of columns
    labels              {"classes": [...], "dtype": ...} or null; the files hold codes, indices into classes
    attributes          {"names": [...]}, {"hash_bits": b}, {"n_features": n} or null: names of the columns
    shards              [{"examples", "rows", "entries", "files": {part: {"bytes", "sha256"}}}, ...]

The files of shard 3 are called shard-00003.<part>, or shard-00003-<generation>.<part>. A manifest cannot
point to other files. It is written last, to a temporary file that then replaces it, so a folder with a
manifest is complete. A data set that replaces another has a higher generation. The files of both lie side by
side until the manifest changes, in one step, from the old files to the new ones.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.labels import LabelSet
from maxmargin.data.mapped import ShardError
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    choice,
    count,
    entries_of,
    list_of,
    parse_json,
    texts,
)
from maxmargin.io.files import write_parts
from maxmargin.io.quoting import short

SHARD_FORMAT, MANIFEST_VERSION, MANIFEST_NAME = "maxmargin-shards", 1, "manifest.json"
REPLACED = 2  # version of a manifest with a generation; earlier readers refuse it
PARTS = ("data", "indices", "indptr", "offsets", "codes", "trees", "starts")
FILES = re.compile(rf"shard-\d{{5,}}(-\d+)?\.({'|'.join(PARTS)})|{re.escape(MANIFEST_NAME)}\.part")
SHARD_KINDS, LAYOUTS, DTYPES = ("rows", "sequences"), ("dense", "csr"), ("<f4", "<f8")
TREES, TEXT, BYTES = "trees", "text", "|u1"  # kind, layout and dtype of treebanks


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
    """The content of a folder of shards."""

    kind: str
    layout: str
    dtype: str
    features: int
    labels: dict[str, Any] | None
    attributes: dict[str, Any] | None
    shards: list[Shard]
    generation: int = 0

    @property
    def examples(self) -> int:
        """The number of examples in all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def rows(self) -> int:
        """The number of rows in all shards."""
        return sum(shard.rows for shard in self.shards)

    def sizes(self, shard: Shard) -> dict[str, int]:
        """The size in bytes that each file of a shard must have."""
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

    def names(self) -> set[str]:
        """The names of all files of the data set."""
        shards = enumerate(self.shards)
        return {
            MANIFEST_NAME,
            *(file_name(k, part, self.generation) for k, own in shards for part in own.files),
        }


def file_name(shard: int, part: str, generation: int = 0) -> str:
    """The name of a file of a shard."""
    return f"shard-{shard:05d}{f'-{generation}' if generation else ''}.{part}"


def remove_others(folder: Path, kept: set[str]) -> None:
    """Remove files that only a writer of shards can have made, except the kept ones."""
    for path in folder.iterdir():
        if FILES.fullmatch(path.name) and path.name not in kept:
            path.unlink(missing_ok=True)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write or replace the manifest of a folder, whole or not at all."""
    content = {"format": SHARD_FORMAT, "version": MANIFEST_VERSION, **asdict(manifest)}
    if manifest.generation:
        content["version"] = REPLACED
    else:
        del content["generation"]
    text = json.dumps(content, allow_nan=False, indent=1)
    write_parts(folder / MANIFEST_NAME, [text.encode("utf-8")], in_use=True)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; refuse one that no writer could have written."""
    path = folder / MANIFEST_NAME
    if path.exists() and not path.is_file():
        raise ShardError(f"{path} is not a regular file")
    try:
        return parse_manifest(parse_json(path.read_bytes().decode("utf-8"), finite=True))
    except FileNotFoundError:
        raise ShardError(
            f"{path} is missing; either this is not a folder of shards, or writing it did not "
            "finish"
        ) from None
    except (UnicodeDecodeError, FieldError) as error:
        raise ShardError(f"{path} cannot be read: {error}") from error
    except ShardError as error:
        raise ShardError(f"{path}: {error}") from error


def parse_manifest(content: Any) -> Manifest:
    """Return a checked manifest from parsed JSON."""
    try:
        manifest = manifest_of(entries_of(content, "the manifest"))
    except FieldError as error:
        raise ShardError(str(error)) from error
    for k, shard in enumerate(manifest.shards):
        check_sizes(manifest, shard, k)
    if not manifest.shards:
        raise ShardError("shards is empty; at least one shard is needed")
    return manifest


def manifest_of(fields: dict[str, Any]) -> Manifest:
    """Return a manifest whose fields are checked one by one, but not yet compared with each other."""
    choice(fields, "format", (SHARD_FORMAT,))
    version = fields.get("version")
    if isinstance(version, bool) or version not in (MANIFEST_VERSION, REPLACED):
        raise ShardError(
            f"version {short(version)} is unknown; this maxmargin reads {MANIFEST_VERSION}, "
            f"{REPLACED}"
        )
    trees = choice(fields, "kind", (*SHARD_KINDS, TREES)) == TREES
    labels, attributes = fields.get("labels"), fields.get("attributes")
    return Manifest(
        kind=fields["kind"],
        layout=choice(fields, "layout", (TEXT,) if trees else LAYOUTS),
        dtype=choice(fields, "dtype", (BYTES,) if trees else DTYPES),
        features=count(fields, "features", 1, MOST_FEATURES),
        labels=None if labels is None else parse_labels(labels),
        attributes=None if attributes is None else parse_attributes(attributes),
        shards=[parse_shard(entry, k) for k, entry in enumerate(list_of(fields, "shards"))],
        generation=count(fields, "generation", 1) if version == REPLACED else 0,
    )


def parse_shard(entry: Any, k: int) -> Shard:
    """Return the checked counts and files of one shard."""
    fields = entries_of(entry, f"shards[{k}]")
    files = {}
    for part, file in entries_of(fields.get("files"), f"shards[{k}].files").items():
        values = entries_of(file, f"shards[{k}].files.{short(part)}")
        digest = values.get("sha256")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ShardError(f"shards[{k}].files.{short(part)}.sha256 is not a SHA-256 checksum")
        files[part] = FileEntry(count(values, "bytes"), digest)
    entries = count(fields, "entries", 0, 2**31 - 1)
    return Shard(count(fields, "examples", 1), count(fields, "rows", 1), entries, files)


def check_sizes(manifest: Manifest, shard: Shard, k: int) -> None:
    """Refuse a shard whose files or sizes do not fit its counts and types."""
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
        declared, name = shard.files[part].bytes, file_name(k, part, manifest.generation)
        if declared != size:
            raise ShardError(
                f"{name} has {declared} bytes in the manifest, but its counts and dtype "
                f"{manifest.dtype} need {size}"
            )


def parse_labels(value: Any) -> dict[str, Any]:
    """Return the checked classes, in the order of their codes."""
    fields = entries_of(value, "labels")
    classes = list_of(fields, "classes")
    if any(isinstance(label, float) and not math.isfinite(label) for label in classes):
        raise ShardError("labels.classes holds a number that is not finite")
    labels = {"classes": classes, "dtype": fields.get("dtype")}
    LabelSet.from_state(labels)
    return labels


def parse_attributes(value: Any) -> dict[str, Any]:
    """Return the checked description of the columns: names, hash_bits or n_features."""
    fields = entries_of(value, "attributes")
    if set(fields) == {"hash_bits"}:
        return {"hash_bits": count(fields, "hash_bits", 1, 30)}
    if set(fields) == {"n_features"}:
        return {"n_features": count(fields, "n_features", 1, MOST_FEATURES)}
    if set(fields) != {"names"}:
        raise ShardError("attributes must hold names (texts), hash_bits or n_features")
    return {"names": texts(fields, "names")}


def columns_state(encoder: AttributeEncoder) -> dict[str, Any]:
    """Return the description of an encoder's columns for a manifest."""
    columns = encoder.n_features
    if columns is not None:
        bits = int(columns).bit_length() - 1
        return (
            {"hash_bits": bits}
            if 1 <= bits <= 30 and columns == 2**bits
            else {"n_features": int(columns)}
        )
    return {"names": encoder.state()["names"]}


def columns_encoder(manifest: Manifest) -> AttributeEncoder | None:
    """The encoder that made the columns; None if they do not stand for attributes."""
    state = manifest.attributes
    if state is None:
        return None
    if "hash_bits" in state:
        state = {"n_features": 2 ** state["hash_bits"]}
    encoder = AttributeEncoder.from_state(state, sequences=manifest.kind == "sequences")
    return encoder if encoder.n_features_ == manifest.features else None


def coded(labels: dict[str, Any]) -> np.ndarray:
    """The classes as an array, in the order of their codes."""
    return LabelSet.from_state(labels).classes
