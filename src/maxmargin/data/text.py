"""Text files of data, plain or packed: found before anything is written, read with numbers of lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

STANDARD_INPUT = "-"
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def readable(path: Any) -> Path:
    """The path of a text file; refuses one that is not there or cannot be opened."""
    found = Path(path)
    with open_bytes(found):
        return found


def open_bytes(path: Any) -> IO[bytes]:
    """The bytes of a text file, unpacked where it is packed; "-" is standard input."""
    if str(path) == STANDARD_INPUT:
        return sys.stdin.buffer
    with open(path, "rb") as file:
        start = file.read(6)
    if start.startswith(b"PK\x03\x04"):
        raise ValueError(f"{path} is a zip file, expected text: unpack it first")
    opened = next((opener for magic, opener in PACKED.items() if start.startswith(magic)), open)
    return opened(path, "rb")


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
    for number, raw in enumerate(byte_lines(path), 1):
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
