"""Full disks and killed writers: the old data or the new data must be whole.

    python -m fuzz.disk --seconds 60

Kills (SIGKILL at a random moment) need POSIX. Full disks need a small tmpfs, which only root can
mount.
Without one, these cases are skipped, and the report says so.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import maxmargin as mm
from fuzz.common import Find, main
from fuzz.limits import bounded, workshop
from fuzz.mutate import pick
from maxmargin import models, solvers
from maxmargin.data import ShardError
from maxmargin.data.scratch import PlaneFile, ScratchArray

Generator = np.random.Generator
SMALL = 2**20  # size in bytes of the disk that fills


@cache
def fitted(width: int) -> Any:
    """Return a classifier with this many features; all of its weights are equal to the width."""
    X = np.random.default_rng(0).normal(size=(6, width))
    svm = mm.MulticlassSVC(tol=0.5).fit(X, [0, 1, 2] * 2)
    svm._adopt(svm.model_, np.full_like(svm.w_, width))
    return svm


def rows(n: int, width: int) -> np.ndarray:
    return np.full((n, width), n, dtype=np.float32)


# Kills


def save_models(folder: Path) -> None:
    for k in range(10**9):
        fitted(5 + k % 7 * 400).save(folder / "model")


def write_rows(folder: Path) -> None:
    for k in range(10**9):
        n = 3 + k % 5 * 40
        mm.data.write_shards(folder, rows(n, 4), [n] * n, shard_bytes=64, overwrite=True)


def convert_text(folder: Path) -> None:
    for k in range(10**9):
        n = 3 + k % 5 * 40
        (folder / "text").write_text(f"{n} 1:{n} 4:{n}\n" * n)
        options = {"shard_bytes": 64, "overwrite": True}
        mm.data.svmlight_to_shards(folder / "text", folder / "set", **options)


def check_model(folder: Path) -> None:
    """Check that the file is one of the saved models, not a mixture of two."""
    found = mm.load(folder / "model")
    if not (found.w_ == found.n_features_in_).all():
        raise Find("a model file is a mixture of two")


def check_rows(folder: Path) -> None:
    data = mm.data.open_shards(folder)
    numbers = set(np.unique(data.X.tocsr().toarray() if data.X.sparse else data.X)) - {0.0}
    if numbers != {len(data)} or set(data.Y.tolist()) != {len(data)}:
        raise Find(f"a data set of {len(data)} rows is a mixture: {numbers}")


def checkpointed(folder: Path, **given: Any) -> Any:
    """Return a fit that writes a checkpoint after each step and resumes from the last checkpoint."""
    X = np.random.default_rng(0).normal(size=(40, 6))
    svm = mm.StructuralSVM(models.Multiclass(), solver="sda", tol=1e-6, max_passes=10**6)
    asked = {"checkpoint": folder / "fit", "checkpoint_every": 1e-9, "resume": True}
    return svm.fit(X, np.arange(40) % 3, **asked, **given)


def keep_fitting(folder: Path) -> None:
    for _ in range(10**9):
        (folder / "fit").unlink(missing_ok=True)
        checkpointed(folder)


def check_checkpoint(folder: Path) -> None:
    """Check that training reaches the optimum from the checkpoint, or from none if there is no file."""
    if not checkpointed(folder).certificate_.converged:
        raise Find("a checkpoint does not lead to the optimum")


KILLED: dict[str, tuple[Callable, Callable, Callable]] = {
    "model": (save_models, check_model, lambda folder: fitted(5).save(folder / "model")),
    "checkpoint": (keep_fitting, check_checkpoint, checkpointed),
    "shards": (
        write_rows,
        check_rows,
        lambda folder: mm.data.write_shards(folder, rows(3, 4), [3] * 3, overwrite=True),
    ),
    "text": (
        convert_text,
        lambda folder: check_rows(folder / "set"),
        lambda folder: mm.data.write_shards(folder / "set", rows(3, 4), [3] * 3, overwrite=True),
    ),
}


def killed(rng: Generator) -> str:
    """Kill a process that overwrites a file or a data set again and again, and check the result."""
    name = pick(rng, sorted(KILLED))
    _, check, write = KILLED[name]
    folder = workshop("disk") / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write(folder)
    command = [sys.executable, "-m", "fuzz.disk", "--victim", name, str(folder)]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert victim.stdout is not None
    victim.stdout.readline()  # wait until it has begun
    for _ in range(int(rng.integers(1, 4))):  # sleep once or more often before the kill
        time.sleep(float(rng.exponential(0.02)))
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    try:
        check(folder)
        write(folder)
        check(folder)
    except ValueError as error:
        raise Find(f"{name}: {error}") from error
    left = [path.name for path in folder.rglob("*") if path.name.endswith(".part")]
    shards = len(list(folder.rglob("shard-*")))
    if left or shards not in (0, 2):
        raise Find(f"{name}: left behind {left}, {shards} shard files")
    return f"killed, {name}"


def be_victim(name: str, folder: str) -> None:
    """Write until killed; this is the main function of the process to kill."""
    fitted(5)
    print("begun", flush=True)
    KILLED[name][0](Path(folder))


# Full disks


@cache
def small_disk() -> Path | None:
    """Return a small disk that fills quickly, or None if none can be mounted."""
    folder = workshop("disk") / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("mount"):
        return None
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    atexit.register(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
    return folder


def full_model(folder: Path, rng: Generator) -> None:
    fitted(5 + int(rng.integers(2000))).save(folder / "model")


def full_shards(folder: Path, rng: Generator) -> None:
    n = int(rng.integers(1, 5000))
    mm.data.write_shards(folder / "set", rows(n, 4), [n] * n, shard_bytes=4096, overwrite=True)


def full_scratch(folder: Path, rng: Generator) -> None:
    """Append to an array until the disk is full or 40 times."""
    array = ScratchArray(pick(rng, [np.uint8, np.float64, PlaneFile.PLANE]), folder)
    for _ in range(40):
        array.append(np.ones(int(rng.integers(1, 4000)), array.dtype))
    array.array().tobytes()


def full_stream(folder: Path, rng: Generator) -> None:
    """Run a fit that spills its multipliers to the disk."""
    X = rng.normal(size=(600, 3))
    Y = rng.integers(3, size=600)
    solver = solvers.Streaming(cache_bytes=20_000, scratch=folder, passes=1, verify=False)
    svm = mm.StructuralSVM(models.Multiclass(), solver=solver, C=10.0)
    with bounded():
        svm.fit(iter([(X, Y)]))


def full_checkpoint(folder: Path, rng: Generator) -> None:
    """Check that training goes on without a checkpoint, with a warning that names the reason."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_checkpoint(folder)
    if any(str(warning.message).find("No space left") < 0 for warning in caught):
        raise Find(f"a warning says too little: {[str(w.message) for w in caught]}")


FULL = {
    "checkpoint": full_checkpoint,
    "model": full_model,
    "shards": full_shards,
    "scratch": full_scratch,
    "stream": full_stream,
}


def full(rng: Generator) -> str:
    """Write onto a disk with little space."""
    folder = small_disk()
    if folder is None:
        return "full disk: skipped, since no tmpfs can be mounted here"
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    name = pick(rng, sorted(FULL))
    fitted(5).save(folder / "model")
    mm.data.write_shards(folder / "set", rows(3, 4), [3] * 3)
    ballast = min(int(rng.integers(SMALL)), free_bytes(folder) - 6 * 4096)
    (folder / "ballast").write_bytes(bytes(ballast))
    outcome = "done"
    try:
        FULL[name](folder, rng)
    except (OSError, ShardError) as error:
        if "No space left" not in str(error) or str(folder) not in str(error):
            raise Find(f"{name}: the error says too little: {error!r}") from error
        outcome = "refused"
    check_model(folder)
    check_rows(folder / "set")
    left = [path.name for path in folder.rglob("*") if path.name.endswith(".part")]
    if left:
        raise Find(f"{name}: left behind {left}")
    return f"full disk, {name}, {outcome}"


def free_bytes(folder: Path) -> int:
    """The number of free bytes on the disk of a folder."""
    disk = os.statvfs(folder)
    return max(0, disk.f_bavail * disk.f_frsize)


def attempt(rng: Generator) -> str:
    """Try a kill or a full disk; kills are rare because each takes as long as many full disks."""
    return killed(rng) if rng.random() < 0.05 else full(rng)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--victim"]:
        be_victim(*sys.argv[2:4])
    main("disk", attempt)
