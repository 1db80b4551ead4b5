"""A limit on the time of what the calling thread does: passes of the core, and own oracles between two calls.

Both ask from time to time (``core.poll``), where their state is whole; after the limit the answer is
``TimeUp``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from maxmargin._core import core

TimeUp: type[Exception] = core.TimeUp


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Ends what runs inside with ``TimeUp`` after this many seconds, or at an earlier deadline around it."""
    before = core.set_deadline(math.inf)
    core.set_deadline(min(before, core.now() + seconds))
    try:
        yield
    finally:
        core.set_deadline(before)
