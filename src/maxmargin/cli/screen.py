"""The output streams of a command: they keep control characters off a terminal.

Reports and messages are always escaped. Data (predictions and converted files) are escaped only on a
terminal, and stay raw in a file or a pipe.
"""

from __future__ import annotations

import codecs
import sys
from typing import Any

from maxmargin.io.quoting import printable


class Screen:
    """Standard output or standard error with escapes; the stream is None if it is closed."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.terminal: bool = stream is not None and stream.isatty()

    def __getattr__(self, name: str) -> Any:
        """Take any other attribute from the stream."""
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a report or a message with escapes."""
        if self.stream is not None:
            self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.stream is not None:
            self.stream.flush()

    def isatty(self) -> bool:
        return self.terminal

    def write_data(self, text: str) -> None:
        """Write data raw, or with escapes if the stream is a terminal."""
        if self.terminal:
            self.write(text)
        else:
            self.stream.write(text)

    @property
    def buffer(self) -> Any:
        """The byte stream for data."""
        return ShownBytes(self) if self.terminal else self.stream.buffer


class ShownBytes:
    """A byte stream on a terminal, shown as text with escapes."""

    def __init__(self, screen: Screen):
        self.screen = screen
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, content: bytes) -> int:
        """Write bytes as text with escapes."""
        self.screen.write(self.decoder.decode(content))
        return len(content)

    def flush(self) -> None:
        self.screen.write(self.decoder.decode(b"", final=True))
        self.screen.flush()


class LiveLine(Screen):
    """A terminal with a line that is rewritten: a carriage return at the start of a text is not escaped."""

    def write(self, text: str) -> int:
        if text.startswith("\r"):
            self.stream.write("\r")
        return super().write(text.removeprefix("\r"))


def write_data(text: str) -> None:
    """Write data to the standard output of a command."""
    out: Any = sys.stdout
    out.write_data(text)


def live_line() -> Any:
    """The standard error of a command, wrapped for a progress line."""
    err: Any = sys.stderr
    return LiveLine(err.stream)
