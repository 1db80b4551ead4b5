"""Threads for oracles in Python, which Ctrl-C cannot leave in a state where they wait for each other.

``ThreadPoolExecutor`` waits with locks that are written in Python: an interrupt at the wrong moment leaves
one of them closed, and what asks for it next waits without end. The queues here are atomic, and the threads
never keep the interpreter from ending.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from maxmargin._core import core

OFTEN = 0.05  # seconds between two looks at the deadline


class Threads:
    """Some threads that wait for work."""

    def __init__(self, count: int):
        self.count = count
        self.work: SimpleQueue[Any] = SimpleQueue()
        for _ in range(count):
            start_new_thread(serve, (self.work,))  # threading.Thread waits for it with such a lock

    def map(self, work: Callable[..., Any], pieces: list[tuple[Any, ...]]) -> list[Any]:
        """work(*piece) of every piece, in order, within the deadline of the calling thread."""
        answers: SimpleQueue[Any] = SimpleQueue()
        for number, piece in enumerate(pieces):
            self.work.put((answers, number, work, piece))
        found: dict[int, Any] = {}
        while len(found) < len(pieces):
            try:
                number, answer, error = answers.get(timeout=OFTEN)
            except Empty:
                core.poll()
                continue
            if error is not None:
                raise error
            found[number] = answer
        return [found[number] for number in range(len(pieces))]

    def close(self) -> None:
        """Let the threads end when they have done what they do now."""
        for _ in range(self.count):
            self.work.put(None)


def serve(work: SimpleQueue[Any]) -> None:
    """What a thread does: one piece after the other."""
    while (task := work.get()) is not None:
        answers, number, call, piece = task
        try:
            answers.put((number, call(*piece), None))
        except BaseException as error:  # raised in the thread that asked
            answers.put((number, None, error))
