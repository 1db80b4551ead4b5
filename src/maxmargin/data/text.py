"""Text files of data: found before anything is written, and read with the numbers of their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def readable(path: Any) -> Path:
    """The path of a text file; refuses one that is not there, cannot be opened, or is packed."""
    found = Path(path)
    with open(found, "rb") as file:
        start = file.read(6)
    for magic, kind in PACKED.items():
        if start.startswith(magic):
            raise ValueError(f"{found} is a {kind} file, expected plain text: unpack it first")
    return found


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file in UTF-8, from 1 on; refuses one that is not such text."""
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if "\0" in line:
                raise ValueError(f"{path}, line {number}: a NUL character, which is not text")
            if not line.isascii():
                try:
                    line.encode("utf-8")
                except UnicodeEncodeError as error:
                    byte = ord(line[error.start]) & 0xFF
                    raise ValueError(
                        f"{path}, line {number}: the byte 0x{byte:02x} is not UTF-8 text; convert the file"
                    ) from None
            yield number, line
