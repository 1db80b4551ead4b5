"""Files that are written whole or not at all, and what a killed writer leaves.

A file is written under a name of its own beside the target, which it then replaces in one step. Whoever
writes holds the system's lock (``flock``) of that file, or of the folder, for as long as it lives. A file
that nobody has locked was left by a writer that has ended: the next writer removes it. Where the system
has no such lock nothing is removed, since its writer may still be at work.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED_SUFFIX = ".part"
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def lock(handle: int) -> bool | None:
    """Lock an open file or folder; False where another has the lock, None where the system has none."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in TAKEN else None  # some network disks have no locks
    return True


def lock_folder(folder: Path) -> tuple[int | None, bool | None]:
    """A folder's open handle, and what ``lock`` says of it; no handle where folders cannot be opened."""
    if fcntl is None:
        return None, None
    handle = os.open(folder, os.O_RDONLY)
    return handle, lock(handle)


def write_whole(target: Path, content: Any) -> None:
    """Put content in the place of a file, whole or not at all; it is on the disk when this returns."""
    write_parts(target, [content])


def write_parts(target: Path, parts: Iterable[Any]) -> None:
    """The same, of content that comes in parts; a device or a pipe just gets them."""
    if target.exists() and not target.is_file() and not target.is_dir():
        with open(target, "wb") as stream:
            stream.writelines(parts)
        return
    target = target.resolve()  # what a link leads to is replaced, not the link
    remove_left_over(target)
    try:
        handle, temporary = open_part(target)
    except OSError as error:  # of the file that is asked for, not of the one beside it
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
            os.umask(mask := os.umask(0))
            os.chmod(temporary, 0o666 & ~mask)
            if os.name == "posix":  # while it is locked
                os.replace(temporary, target)
        if os.name != "posix":  # an open file cannot be renamed there
            os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def part_prefix(target: Path) -> str:
    """How the names of unfinished files begin; a long name is cut, since the whole has 255 bytes."""
    return f".{target.name[:50]}."


def open_part(target: Path) -> tuple[int, str]:
    """A new file beside the target, locked, and its name."""
    while True:
        handle, name = tempfile.mkstemp(UNFINISHED_SUFFIX, part_prefix(target), target.parent)
        taken = lock(handle)
        # Another writer may have found it before it was locked, and removed it or be about to.
        if taken is not False and os.path.exists(name):
            return handle, name
        os.close(handle)
        Path(name).unlink(missing_ok=True)


def remove_left_over(target: Path) -> None:
    """Remove unfinished files of writers of this target that were killed."""
    wanted = re.compile(
        re.escape(part_prefix(target)) + r"[a-z0-9_]{8}" + re.escape(UNFINISHED_SUFFIX)
    )
    for path in listed(target.parent):
        if not wanted.fullmatch(path.name):
            continue
        with suppress(OSError):  # it is gone already, or somebody else's
            handle = os.open(path, os.O_RDONLY)
            try:
                if lock(handle):
                    path.unlink()
            finally:
                os.close(handle)


def listed(folder: Path) -> Iterable[Path]:
    """What is in a folder; nothing where it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some disks cannot
            os.fsync(handle)
    finally:
        os.close(handle)
