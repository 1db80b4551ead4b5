"""Read text files of data, plain or compressed, with line numbers; check them before writing output."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from maxmargin.io.paths import refuse_clash

STANDARD_INPUT = "-"
MOST_SMALL = 2**20  # largest size in bytes of a small text (a template), uncompressed
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def readable(path: Any, folder: Any = None) -> Path:
    """Return the path of a text file; refuse one that cannot be opened or lies in the output folder."""
    found = Path(path)
    if folder is not None:
        refuse_clash([found], folder, "folder")
    with open_bytes(found):
        return found


class KeptInput:
    """A copy of standard input in an unnamed file, so that it can be read more than once."""

    def __init__(self) -> None:
        self.file: Any = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(standard_input(), self.file)

    def __str__(self) -> str:
        return STANDARD_INPUT

    def open(self) -> IO[bytes]:
        """Open the copy at its beginning."""
        self.file.seek(0)
        return open(os.dup(self.file.fileno()), "rb")


def standard_input() -> Any:
    """Standard input as a binary stream whose first bytes can be peeked at."""
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file")
    file = sys.stdin.buffer
    return file if hasattr(file, "peek") else io.BufferedReader(file)  # type: ignore[arg-type]


def open_raw(path: Any) -> Any:
    """Open a file as a binary stream without decompression; "-" is standard input."""
    if isinstance(path, KeptInput):
        return path.open()
    return standard_input() if str(path) == STANDARD_INPUT else open(path, "rb")


def open_bytes(path: Any) -> IO[bytes]:
    """Open a text file as a binary stream, decompressed if needed; "-" is standard input."""
    file = open_raw(path)
    start = file.peek(6)[:6]
    if start.startswith(b"PK\x03\x04"):
        file.close()
        raise ValueError(f"{path} is a zip file, but must be text; unpack it first")
    unpacked = next((opener for magic, opener in PACKED.items() if start.startswith(magic)), None)
    if unpacked is None:
        return file
    if str(path) != STANDARD_INPUT:
        file.close()
        return unpacked(path, "rb")
    return unpacked(file, "rb")


def byte_lines(path: Any) -> Iterator[bytes]:
    """Yield the lines of a file as bytes; refuse damaged compressed files."""
    number = 0
    with open_bytes(path) as file:
        try:
            for number, line in enumerate(file, 1):  # noqa: B007
                yield line
        except BROKEN as error:
            raise ValueError(
                f"{path}, after line {number}: it cannot be unpacked: {error}"
            ) from None


def numbered_lines(path: Any) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers from 1 on; refuse other bytes."""
    return decoded_lines(path, byte_lines(path))


def small_text(path: Any) -> str:
    """Return the whole text of a small file; refuse a larger or endless one."""
    with open_bytes(path) as file:
        try:
            content = file.read(MOST_SMALL + 1)
        except BROKEN as error:
            raise ValueError(f"it cannot be unpacked: {error}") from None
    if len(content) > MOST_SMALL:
        raise ValueError(f"it has more than {MOST_SMALL} bytes; name a smaller text file")
    return "".join(line for _, line in decoded_lines(path, io.BytesIO(content)))


def decoded_lines(path: Any, lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Decode lines of bytes as UTF-8, and yield them with their numbers; refuse other bytes."""
    for number, raw in enumerate(lines, 1):
        if b"\0" in raw:
            raise ValueError(
                f"{path}, line {number}: the line has a NUL character, so it is not text"
            )
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise ValueError(
                f"{path}, line {number}: the byte 0x{byte:02x} is not UTF-8 text; convert the file"
            ) from None
        yield number, line.replace("\r\n", "\n")


def batches_of(numbered: Iterable[tuple[int, Any]], size: float) -> Iterator[tuple[int, list[Any]]]:
    """Group numbered lines into batches of about ``size`` characters; yield first number and lines."""
    first, lines, taken = 1, list[Any](), 0
    for number, line in numbered:
        first = first if lines else number
        lines.append(line)
        taken += len(line)
        if taken >= size:
            yield first, lines
            lines, taken = [], 0
    if lines:
        yield first, lines


def first_line(path: Any) -> str:
    """The first line that is neither empty nor a comment; empty if there is none.

    For standard input it only peeks at the bytes that have already arrived, without consuming them.
    """
    lines = numbered_lines(path)
    if str(path) == STANDARD_INPUT and not isinstance(path, KeptInput):
        start = standard_input().peek(2**13).decode("utf-8-sig", "replace")
        lines = enumerate(start.splitlines(keepends=True), 1)
    found = next((line for _, line in lines if line.strip() and line[0] != "#"), "")
    return found.rstrip("\r\n")
