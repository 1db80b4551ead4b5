"""Text files of data, plain or packed: found before anything is written, read with numbers of lines."""

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
MOST_SMALL = 2**20  # bytes of a template, unpacked
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def readable(path: Any, folder: Any = None) -> Path:
    """The path of a text file that can be opened, and that does not lie in the folder to write."""
    found = Path(path)
    if folder is not None:
        refuse_clash([found], folder, "folder")
    with open_bytes(found):
        return found


class KeptInput:
    """Standard input in an unnamed file, for those who read it more than once."""

    def __init__(self) -> None:
        self.file: Any = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(standard_input(), self.file)

    def __str__(self) -> str:
        return STANDARD_INPUT

    def open(self) -> IO[bytes]:
        """It, from its beginning."""
        self.file.seek(0)
        return open(os.dup(self.file.fileno()), "rb")


def standard_input() -> Any:
    """The bytes of standard input, which a look at the first of them does not take away."""
    if sys.stdin is None:
        raise ValueError("standard input is closed: name a file")
    file = sys.stdin.buffer
    return file if hasattr(file, "peek") else io.BufferedReader(file)  # type: ignore[arg-type]


def open_raw(path: Any) -> Any:
    """The bytes of a file as they are; "-" is standard input."""
    if isinstance(path, KeptInput):
        return path.open()
    return standard_input() if str(path) == STANDARD_INPUT else open(path, "rb")


def open_bytes(path: Any) -> IO[bytes]:
    """The bytes of a text file, unpacked where it is packed; "-" is standard input."""
    file = open_raw(path)
    start = file.peek(6)[:6]
    if start.startswith(b"PK\x03\x04"):
        file.close()
        raise ValueError(f"{path} is a zip file, expected text: unpack it first")
    unpacked = next((opener for magic, opener in PACKED.items() if start.startswith(magic)), None)
    if unpacked is None:
        return file
    if str(path) != STANDARD_INPUT:
        file.close()
        return unpacked(path, "rb")
    return unpacked(file, "rb")


def byte_lines(path: Any) -> Iterator[bytes]:
    """The lines of a file; refuses packed ones that are cut or damaged."""
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
    """The lines of a file in UTF-8, from 1 on; refuses one that is not such text."""
    return decoded_lines(path, byte_lines(path))


def small_text(path: Any) -> str:
    """All of a small file of text; refuses one that is larger, or that never ends."""
    with open_bytes(path) as file:
        try:
            content = file.read(MOST_SMALL + 1)
        except BROKEN as error:
            raise ValueError(f"it cannot be unpacked: {error}") from None
    if len(content) > MOST_SMALL:
        raise ValueError(f"it has more than {MOST_SMALL} bytes: name a smaller file of text")
    return "".join(line for _, line in decoded_lines(path, io.BytesIO(content)))


def decoded_lines(path: Any, lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Lines of bytes as text."""
    for number, raw in enumerate(lines, 1):
        if b"\0" in raw:
            raise ValueError(f"{path}, line {number}: a NUL character, which is not text")
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise ValueError(
                f"{path}, line {number}: the byte 0x{byte:02x} is not UTF-8 text; convert the file"
            ) from None
        yield number, line.replace("\r\n", "\n")


def batches_of(numbered: Iterable[tuple[int, Any]], size: float) -> Iterator[tuple[int, list[Any]]]:
    """Lines with their numbers, about ``size`` characters at a time, with the number of the first of them."""
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
    """The first line that is neither empty nor a comment; of standard input no more than has come by now."""
    lines = numbered_lines(path)
    if str(path) == STANDARD_INPUT and not isinstance(path, KeptInput):
        start = standard_input().peek(2**13).decode("utf-8-sig", "replace")
        lines = enumerate(start.splitlines(keepends=True), 1)
    found = next((line for _, line in lines if line.strip() and line[0] != "#"), "")
    return found.rstrip("\r\n")
