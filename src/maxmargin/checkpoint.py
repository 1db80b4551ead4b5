"""Checkpoints: files with the state of a solver, from which a later fit resumes.

A file has the weights, the solver's snapshot (a dual point and arrays of its own), and the oracle
calls and seconds so far. It also identifies the fit by the version of this package, the parameters,
and checksums of the data. Files are written atomically (``io.files``): if the process is killed,
the last complete file remains.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import astuple, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from maxmargin.data.arrays import FLAG, POSITIVE
from maxmargin.data.digest import digest_of
from maxmargin.data.mapped import files_behind
from maxmargin.io.fields import (
    FieldError,
    choice,
    count,
    entries_of,
    field_of,
    flag,
    number,
    table,
)
from maxmargin.io.files import check_target
from maxmargin.io.model_file import CHECKPOINT, ModelFileError, may_be_stored, read, write
from maxmargin.io.paths import refuse_clash
from maxmargin.io.quoting import ForeignError, short
from maxmargin.models.marginals import Marginals
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import DISTRIBUTIONS, MARGINALS, PLANES
from maxmargin.result import Saved
from maxmargin.solvers import Snapshot, Solver

# Parameters that change neither the problem nor the meaning of a snapshot, so a later fit may
# change them.
MAY_CHANGE = (
    *("tol", "max_passes", "max_seconds", "warm_start", "n_jobs", "random_state", "verbose"),
    *("max_rounds", "round_tol"),
)
DATA = ("X", "Y", "sample_weight", "node_weight", "groups")
VECTORS: dict[str, Any] = {
    "offsets": np.float64,
    "sizes": np.int64,
    "index": np.int32,
    "value": np.float64,
}
POINT = ("partial", "kind", "relaxed")
File = TypeVar("File", bound="CheckpointFile")


class CheckpointFile:
    """The checkpoint file and the fit it belongs to.

    Parameters
    ----------
    path : file
    every : seconds between two checkpoints
    resume : whether to start from the checkpoint in the file, if there is one
    """

    def __init__(self, path: Any, every: float, resume: bool):
        POSITIVE.check("checkpoint_every", every)
        self.path: Path = Path(path)
        self.every: float = float(every)
        self.resume: bool = resume
        self.identity: dict[str, Any] = {}

    def check_path(self, inputs: Iterable[Any] = ()) -> None:
        """Raise ForeignError if the path cannot be written or is one of these inputs of the fit."""
        refuse_clash(inputs, self.path, "checkpoint")
        folder = self.path.parent
        if not folder.is_dir():
            raise ForeignError(f"checkpoint: {folder} is not a folder")
        if self.path.exists() and not self.path.is_file():
            raise ForeignError(f"checkpoint: {self.path} is not a regular file")
        try:
            check_target(self.path)
        except OSError as error:
            raise ForeignError(f"checkpoint: {self.path}: {error.strerror}") from None
        if not self.resume and self.path.is_file() and not may_be_stored(self.path):
            raise ForeignError(
                f"checkpoint: {self.path} exists and is not a checkpoint; remove it, or name another file"
            )

    def begin(self, svm: Any, facts: dict[str, Any]) -> bool:
        """Record the identity of the fit; return whether there is a checkpoint to resume."""
        self.check_path()
        whose = {"version of maxmargin": version("maxmargin"), "estimator": type(svm).__name__}
        self.identity = {**whose, **deciding_parameters(svm), **facts}
        return self.resume and self.path.exists()

    def store(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replace the file. If that fails, warn and keep the old one; training goes on."""
        try:
            write(self.path, {**header, "identity": self.identity}, arrays, CHECKPOINT)
        except OSError as error:
            last = "the last one is kept" if self.path.exists() else "there is no checkpoint"
            message = f"checkpoint: the file cannot be written ({error}); {last}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def stored(self, take: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> Any:
        """Pass the contents of the file to `take`; raise ForeignError if it belongs to another fit."""
        header, arrays = read(self.path, CHECKPOINT)
        try:
            known = entries_of(field_of(header, "identity"), "identity")
            check_same(self.path, known, self.identity)
            return take(header, arrays)
        except FieldError as error:
            raise ModelFileError(f"{self.path} is damaged: {error}") from error


class Checkpoint(CheckpointFile):
    """The checkpoints of a fit in one process."""

    found: Saved | None = None  # the checkpoint to resume from, if any

    def open(self, svm: Any, given: Any, problem: Problem, solver: Solver) -> None:
        """Record the identity of the fit, and read the checkpoint to resume from."""
        if not solver.resumes(problem):
            raise ValueError(
                f"checkpoint: solver {short(solver.name)} cannot resume from a checkpoint"
            )
        sizes = {"number of examples": problem.n_blocks, "number of weights": problem.dimension}
        if self.begin(svm, sizes | data_of(given, problem)):
            self.found = self.stored(partial(saved_of, problem=problem))

    def save(self, saved: Saved) -> None:
        """Replace the checkpoint in the file."""
        point, own = saved.snapshot.support, saved.snapshot.own
        header = {
            "point": {name: getattr(point, name) for name in POINT},
            "oracle_calls": int(saved.oracle_calls),
            "seconds": float(saved.seconds),
        }
        arrays = {f"own.{name}": np.asarray(array) for name, array in own.items()}
        self.store(header, arrays | {"w": saved.snapshot.w} | arrays_of(point))


class RoundsCheckpoint(CheckpointFile):
    """The checkpoints of rounds with hidden parts: the weights, which define the next completions."""

    saved: Any
    dimension: int

    def open(self, svm: Any, given: Any, rounds: Any) -> np.ndarray | None:
        """Record the identity of the rounds; return the weights to resume from, or None."""
        self.dimension, self.saved = int(given.model.size_joint_feature), 0.0
        facts = {"number of examples": len(given.Y), "number of weights": self.dimension}
        if not self.begin(svm, facts | checksums({name: getattr(given, name) for name in DATA})):
            return None
        return self.stored(partial(self._take, rounds=rounds))

    def keep(self, w: np.ndarray, rounds: Any, ended: bool) -> None:
        """Replace the file after a round if it is the last one or enough time has passed."""
        if not ended and rounds.seconds - self.saved < self.every:
            return
        header = {"oracle_calls": int(rounds.oracle_calls), "seconds": rounds.seconds}
        path = np.asarray(rounds.path, dtype=np.float64)
        self.store(header, {"w": np.asarray(w), "path": path, "passes": np.array([rounds.passes])})
        self.saved = rounds.seconds

    def _take(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], rounds: Any
    ) -> np.ndarray:
        w = table(arrays, "w", np.float64, self.dimension)
        path = table(arrays, "path", np.float64, -1)
        passes = float(table(arrays, "passes", np.float64, 1)[0])
        if not len(path) or not np.isfinite(path).all() or not np.isfinite(w).all() or passes < 0:
            raise FieldError("the rounds have impossible weights, objectives or passes")
        rounds.path, rounds.passes = path.tolist(), passes
        rounds.oracle_calls = count(header, "oracle_calls")
        rounds.began -= max(0.0, number(header, "seconds"))
        self.saved = rounds.seconds
        return w


def saved_of(header: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem) -> Saved:
    """Return the data that ``Checkpoint.save`` wrote."""
    support = support_of(entries_of(field_of(header, "point"), "point"), arrays, problem)
    own = {name[4:]: array for name, array in arrays.items() if name.startswith("own.")}
    w = table(arrays, "w", np.float64, problem.dimension)
    calls, seconds = count(header, "oracle_calls"), number(header, "seconds")
    return Saved(Snapshot(w, support, own), calls, max(0.0, seconds))


def make_checkpoint(
    path: Any,
    every: float,
    resume: bool,
    kind: type[File] = Checkpoint,  # type: ignore[assignment]
    inputs: Iterable[Any] = (),
) -> File | None:
    """Return the checkpoint that the parameters of ``fit`` ask for; check that it is no input of the fit."""
    if path is None and not resume:
        return None
    FLAG.check("resume", resume)
    if path is None:
        raise ValueError("resume=True needs the parameter checkpoint, the file to resume from")
    file = kind(path, every, resume)
    file.check_path(inputs)
    return file


def checkpoint_of(given: Any, kind: type[File]) -> File | None:
    """Return the checkpoint of a fit in one process; its file must not contain mapped data of the fit."""
    path, every, resume = given.kept
    sources = files_behind([getattr(given, name) for name in DATA])
    return make_checkpoint(path, every, resume, kind, sources)


# Identity of a fit


def deciding_parameters(svm: Any) -> dict[str, Any]:
    """Return the parameters that determine the problem and the meaning of a snapshot."""
    params = svm.get_params(deep=False).items()
    return {name: header_value(value, name) for name, value in params if name not in MAY_CHANGE}


def header_value(value: Any, name: str) -> Any:
    """Convert a parameter for a header: plain values stay, other values become their type and checksum."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    parts = value.get_params(deep=False) if hasattr(value, "get_params") else None
    if parts is None and isinstance(value, Solver):
        parts = {own.name: getattr(value, own.name) for own in fields(value)}
    if parts is not None:
        parts = {key: header_value(part, f"{name}: {key}") for key, part in parts.items()}
        return {"kind": type(value).__name__, **parts}
    return f"{type(value).__name__} with checksum {digest_of(value, name)}"


def data_of(given: Any, problem: Problem) -> dict[str, Any]:
    """Return checksums of the data; if an iterable yields chunks, only of the first chunk."""
    parts = {name: getattr(given, name) for name in DATA}
    if problem.open_stream is not None:
        source: Any = problem.source  # type: ignore[attr-defined]
        if problem.checked or not source.repeatable:
            raise ValueError(
                "checkpoint: a stream needs a compiled model, and data that can be read twice"
            )
        if given.Y is None:
            parts |= dict(zip(DATA, source.first, strict=False))
    return checksums(parts)


def checksums(parts: dict[str, Any]) -> dict[str, str]:
    """Return the checksums of the parts that are not None."""
    known = {name: part for name, part in parts.items() if part is not None}
    return {f"checksum of {name}": digest_of(part, name) for name, part in known.items()}


def check_same(path: Any, known: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise ForeignError if the file belongs to another fit, and name the first difference."""
    for name in {**wanted, **known}:
        then, now = known.get(name), wanted.get(name)
        if then == now:
            continue
        if isinstance(then, dict) and isinstance(now, dict):
            part = next(key for key in {**now, **then} if then.get(key) != now.get(key))
            name, then, now = f"{name}: {part}", then.get(part), now.get(part)
        raise ForeignError(
            f"resume: {path} is the checkpoint of another fit: {name} was {short(then)}, now it is "
            f"{short(now)}; set resume=False to start over"
        )


# A dual point as arrays


def arrays_of(point: Support) -> dict[str, np.ndarray]:
    """Return blocks, multipliers and outputs (labels, marginals, or planes of a Python model) as arrays."""
    arrays = {"blocks": point.blocks, "multipliers": point.multipliers}
    if isinstance(point.outputs, Marginals):
        names = [own.name for own in fields(Marginals)]
        outputs = dict(zip(names, astuple(point.outputs), strict=True))
    elif isinstance(point.outputs, list):
        outputs = plane_arrays(point.outputs)
    else:
        outputs = {"outputs": point.outputs}
    return {name: np.ascontiguousarray(array) for name, array in (arrays | outputs).items()}


def plane_arrays(planes: list[Any]) -> dict[str, np.ndarray]:
    """Return planes (offset, (index, value)) as concatenated arrays."""
    vectors = [vector for _, vector in planes]
    columns: dict[str, Any] = {
        "offsets": [offset for offset, _ in planes],
        "sizes": [len(index) for index, _ in vectors],
        "index": np.concatenate([np.empty(0), *(index for index, _ in vectors)]),
        "value": np.concatenate([np.empty(0), *(value for _, value in vectors)]),
    }
    return {name: np.asarray(columns[name], dtype) for name, dtype in VECTORS.items()}


def support_of(header: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem) -> Support:
    """Return the dual point that ``arrays_of`` wrote; raise FieldError if it does not fit this problem."""
    blocks = table(arrays, "blocks", np.int64, -1)
    multipliers = table(arrays, "multipliers", np.float64, len(blocks))
    # The number of examples in an iterable is not known yet.
    most = problem.n_blocks if problem.open_stream is None else np.iinfo(np.int64).max
    if len(blocks) and not 0 <= blocks.min() <= blocks.max() < most:
        raise FieldError("the dual point has examples outside the data")
    if len(blocks) and multipliers.min() < 0:
        raise FieldError("the dual point has negative multipliers")
    kind = choice(header, "kind", (PLANES, MARGINALS, DISTRIBUTIONS))
    point = Support(
        blocks, multipliers, None, flag(header, "partial"), kind, flag(header, "relaxed")
    )
    if kind == MARGINALS:
        names = [own.name for own in fields(Marginals)]
        return replace(point, outputs=Marginals(*(field_of(arrays, name) for name in names)))
    if problem.checked or "offsets" in arrays:
        return replace(point, outputs=planes_of(arrays, len(blocks), problem.dimension))
    outputs = field_of(arrays, "outputs")
    if kind == DISTRIBUTIONS:
        if outputs.ndim != 1 or outputs.dtype not in (np.float32, np.float64):
            raise FieldError(f"the array 'outputs' must hold numbers, got {outputs.dtype}")
        return replace(point, outputs=outputs)
    if outputs.ndim != 1 or outputs.dtype.kind not in "iu":
        raise FieldError(f"the array 'outputs' must hold whole numbers, got {outputs.dtype}")
    return replace(point, outputs=outputs)


def planes_of(arrays: dict[str, np.ndarray], n: int, dimension: int) -> list[Any]:
    """Return the planes that ``plane_arrays`` wrote."""
    offsets, sizes = (table(arrays, name, VECTORS[name], n) for name in ("offsets", "sizes"))
    total = int(sizes.sum()) if len(sizes) and sizes.min() >= 0 else -math.inf
    index, value = (table(arrays, name, VECTORS[name], -1) for name in ("index", "value"))
    if len(index) != len(value) or (n and total != len(index)):
        raise FieldError("the sizes of the planes do not match their vectors")
    if len(index) and not 0 <= index.min() <= index.max() < dimension:
        raise FieldError("the planes have indices outside the weights")
    ends = np.cumsum(sizes)[:-1]
    vectors = zip(np.split(index, ends), np.split(value, ends), strict=True)
    return list(zip(offsets.tolist(), vectors, strict=True)) if n else []
