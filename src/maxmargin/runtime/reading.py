"""How many threads read what an estimator was given: said by who binds a model, asked by who reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

THREADS_TO_READ: ContextVar[int] = ContextVar("readers", default=1)


@contextmanager
def readers(threads: int) -> Iterator[None]:
    """Arrays and matrices are read by this many threads inside."""
    before = THREADS_TO_READ.set(threads)
    try:
        yield
    finally:
        THREADS_TO_READ.reset(before)
