"""Bounds for one case: memory, warnings, and a folder in memory for its files."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

GIGABYTE = 2**30


def address_space() -> int:
    """Bytes of addresses that this process has, or none where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def bounded(extra: int = GIGABYTE) -> Iterator[None]:
    """At most this much more memory; what needs more gets a MemoryError. Warnings are ignored."""
    present = address_space()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if present:
            resource.setrlimit(resource.RLIMIT_AS, (present + extra, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@cache
def workshop(name: str) -> Path:
    """A folder for the files of a fuzzer, in memory where there is such a disk; gone at the end."""
    shared = Path("/dev/shm")
    folder = tempfile.mkdtemp(
        prefix=f"maxmargin-fuzz-{name}-", dir=shared if shared.is_dir() else None
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was made of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
