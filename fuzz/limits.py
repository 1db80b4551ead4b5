"""Limits for one case: memory, warnings, and a folder in memory for its files."""

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
    """The size in bytes of this process's address space, or 0 if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def bounded(extra: int = GIGABYTE) -> Iterator[None]:
    """Limit additional memory to this many bytes, and ignore warnings.

    Code that needs more memory gets a MemoryError.
    """
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
    """Create a folder for the files of a fuzzer, in memory if /dev/shm exists; it is removed at exit."""
    shared = Path("/dev/shm")
    folder = tempfile.mkdtemp(
        prefix=f"maxmargin-fuzz-{name}-", dir=shared if shared.is_dir() else None
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then its cause or context, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
