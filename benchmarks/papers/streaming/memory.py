"""The peak of a process's anonymous memory, from a thread that looks every few milliseconds."""

from __future__ import annotations

import threading
from pathlib import Path

STATUS = Path("/proc/self/status")


def anonymous_bytes() -> int:
    """Return RssAnon of this process (Linux): its memory without pages of mapped files."""
    for line in STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{STATUS} has no RssAnon")


class PeakMemory:
    """Measures the peak memory inside the context.

    ``peak`` is in bytes above the value at the start.
    """

    def __init__(self, every: float = 0.005):
        self.every, self.peak = every, 0
        self.done = threading.Event()

    def __enter__(self) -> PeakMemory:
        self.base = anonymous_bytes()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.done.wait(self.every):
            self.peak = max(self.peak, anonymous_bytes() - self.base)

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()
        self.peak = max(self.peak, anonymous_bytes() - self.base)
