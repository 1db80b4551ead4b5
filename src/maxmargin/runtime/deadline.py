"""A time limit for the calling thread: passes of the core, and Python oracles between two calls.

Both call ``core.poll`` from time to time, at points where their state is consistent. After the limit it
raises ``TimeUp``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from maxmargin._core import core

TimeUp: type[Exception] = core.TimeUp


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End the body with ``TimeUp`` after this many seconds, or at an earlier deadline around it."""
    before = core.set_deadline(math.inf)
    core.set_deadline(min(before, core.now() + seconds))
    try:
        yield
    finally:
        core.set_deadline(before)
