"""Compare paths by the files that they lead to, so that no writer replaces an input or another output.

The key of a file is its device and inode number, so that symbolic and hard links to it have one key. The key
of a path that does not exist yet is the key of the nearest existing folder and the names below it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from maxmargin.io.files import is_left_over
from maxmargin.io.quoting import ForeignError

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Location:
    """A file or folder with its key and the keys of the folders above it; devices and pipes have no key."""

    name: str
    key: Key | None
    above: frozenset[Key] = frozenset()
    path: str = ""

    def holds(self, other: Location) -> bool:
        """Whether another location is this one or lies in it."""
        return self.key is not None and (self.key == other.key or self.key in other.above)


def key_of(found: os.stat_result, path: str) -> Key:
    """The key of an existing file: its device and inode number, or its path if there are no inodes."""
    return (found.st_dev, found.st_ino) if found.st_ino else (os.path.normcase(path),)


def location_of(path: Any) -> Location:
    """The location that a path leads to."""
    name = os.fspath(path)
    real = os.path.realpath(name)
    keys = keys_from_root(real)
    with suppress(OSError):  # it is not there yet
        found = os.stat(name)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            return Location(name, None)
        keys[-1] = key_of(found, real)
    return Location(name, keys[-1], frozenset(keys[:-1]), real)


def keys_from_root(real: str) -> list[Key]:
    """The keys of all folders on the way to a path, and of the path itself at the end."""
    steps = [real]
    while os.path.dirname(steps[-1]) != steps[-1]:
        steps.append(os.path.dirname(steps[-1]))
    keys: list[Key] = []
    for step in reversed(steps):
        try:
            keys.append(key_of(os.stat(step), step))
        except OSError:
            keys.append((*(keys[-1] if keys else ()), os.path.basename(step)))
    return keys


def open_location(stream: Any, name: str) -> Location:
    """The location of an open stream; it has no key unless the stream is a file."""
    try:
        found = os.fstat(stream.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or not a file of the system
        return Location(name, None)
    return Location(name, key_of(found, name) if stat.S_ISREG(found.st_mode) else None)


def clash(inputs: Iterable[Location], outputs: Iterable[Location]) -> str | None:
    """Describe inputs and outputs that are one file or lie in each other; None if all differ."""
    sources, written = list(inputs), list[Location]()
    for output in outputs:
        for read in sources:
            found = destroyed(read, output)
            if found:
                return found
        for other in written:
            if other.holds(output) or output.holds(other):
                return f"{pair(other, output)} would both be written; name two different files"
        written.append(output)
    return None


def destroyed(read: Location, output: Location) -> str | None:
    """How writing an output would harm an input; None if it would not."""
    if read.key is not None and read.key == output.key:
        return f"{pair(read, output)} would be read and overwritten; name another output"
    if read.holds(output):
        return f"{output.name} lies in {read.name}, which is an input; write elsewhere"
    if output.holds(read):
        return f"the input {read.name} lies in {output.name}; write elsewhere"
    if read.path and output.path and is_left_over(read.path, output.path):
        return (
            f"{read.name} has the name of an unfinished {output.name}, which writers remove; "
            "rename it first"
        )
    return None


def pair(one: Location, other: Location) -> str:
    """Return the names of two locations that are the same file, as text for a message."""
    return (
        one.name
        if one.name == other.name
        else f"{one.name} and {other.name}, which are the same file,"
    )


def refuse_clash(inputs: Iterable[Any], output: Any, what: str) -> None:
    """Refuse an output of the library that is an input, or lies in one; ``what`` is its parameter."""
    found = clash(map(location_of, inputs), [location_of(output)])
    if found:
        raise ForeignError(f"{what}: {found}")
