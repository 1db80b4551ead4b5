"""The number of threads that read an estimator's input: estimators set it, the readers ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

THREADS_TO_READ: ContextVar[int] = ContextVar("readers", default=1)


@contextmanager
def readers(threads: int) -> Iterator[None]:
    """Read arrays and matrices with this many threads inside the context."""
    before = THREADS_TO_READ.set(threads)
    try:
        yield
    finally:
        THREADS_TO_READ.reset(before)
