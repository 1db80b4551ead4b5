"""Write files whole or not at all, and remove the unfinished files of killed writers.

A writer creates a temporary file beside the target, then replaces the target in one step. It holds the
system's lock (``flock``) of the temporary file, or of the folder, until it ends. An unfinished file without a
lock was left by a writer that has ended, so the next writer removes it. If the system has no such locks, no
file is removed, since its writer may still be at work.

The new file gets the rights of the old one, and never has more while it is written. A file without the right
to write is not replaced, not even by root. A file that this process has mapped as data is not replaced
either.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import weakref
from collections import Counter
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
NEW_FILE, PRIVATE, ANY_WRITER = 0o666, 0o600, 0o222  # rights, before the umask
READ_ONLY = "the file exists and is write-protected; change its rights, or name another file"
IN_USE = "this process uses the data of this file; write to another file"
MAPPED = Counter[tuple[int, int]]()  # number of arrays that map a file, by its device and inode


def lock(handle: int) -> bool | None:
    """Lock an open file or folder; False if another has the lock, None if the system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in TAKEN else None  # some network disks have no locks
    return True


def lock_folder(folder: Path) -> tuple[int | None, bool | None]:
    """Open and lock a folder; return the handle and the result of ``lock``.

    Both are None if the system cannot open folders.
    """
    if fcntl is None:
        return None, None
    handle = os.open(folder, os.O_RDONLY)
    return handle, lock(handle)


def write_whole(target: Path, content: Any) -> None:
    """Replace a file by content, whole or not at all; the content is on the disk on return."""
    write_parts(target, [content])


def write_parts(target: Path, parts: Iterable[Any], in_use: bool = False) -> None:
    """Replace a file by content that comes in parts; a device or a pipe is written directly.

    in_use : whether to replace the file even if this process uses it as data
    """
    if is_device(target):
        with open(target, "wb") as stream:
            stream.writelines(parts)
        return
    target = resolved(target)  # replace the file that a link leads to, not the link
    before = check_target(target, in_use)
    remove_left_over(target)
    try:
        handle, temporary = open_part(target, NEW_FILE if before is None else PRIVATE)
    except OSError as error:  # name the target, not the temporary file
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
            if before is not None:
                keep_rights(temporary, before)
            if os.name == "posix":  # rename while the lock is held
                os.replace(temporary, target)
        if os.name != "posix":  # Windows cannot rename an open file
            os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def is_device(path: Path) -> bool:
    """Whether a path leads to a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


def resolved(path: Path) -> Path:
    """Return the path that links lead to; refuse links that lead to themselves."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


def check_target(target: Path, in_use: bool = False) -> os.stat_result | None:
    """Return the status of the file to replace, None if there is none; refuse a protected target."""
    if is_device(target):
        return None
    found = resolved(target)
    if found.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not found.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target))
    if not os.access(found.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    if not found.is_file():
        return None
    before = found.stat()
    if not before.st_mode & ANY_WRITER or not os.access(found, os.W_OK):
        raise PermissionError(errno.EACCES, READ_ONLY, str(target))
    if not in_use and MAPPED[before.st_dev, before.st_ino]:
        raise OSError(errno.EBUSY, IN_USE, str(target))
    return before


def hold_mapped(array: Any, path: Path) -> None:
    """Protect a mapped file from the writers of this process until its array is gone."""
    found = os.stat(path)
    key = (found.st_dev, found.st_ino)
    MAPPED[key] += 1
    weakref.finalize(array, release_mapped, key).atexit = False


def release_mapped(key: tuple[int, int]) -> None:
    """Forget one of the arrays that map a file."""
    MAPPED[key] -= 1
    if not MAPPED[key]:
        del MAPPED[key]


def keep_rights(path: str, before: os.stat_result) -> None:
    """Give a new file the owner, the group and the rights of the one that it is going to replace."""
    rights = stat.S_IMODE(before.st_mode) & 0o777
    if hasattr(os, "chown"):
        with suppress(OSError):  # only root may change the owner
            os.chown(path, before.st_uid, before.st_gid)
        if os.stat(path).st_gid != before.st_gid:  # another group gets the rights of everybody
            rights &= ~0o070 | (rights & 0o007) << 3
    os.chmod(path, rights)


def part_prefix(target: Path) -> str:
    """The first part of the names of unfinished files; long names are cut to stay below 255 bytes."""
    return f".{target.name[:50]}."


def open_new(path: Path, rights: int) -> int:
    """Create a file and return its handle; the umask may take some of the given rights away."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, rights & 0o777)


def open_part(target: Path, rights: int = NEW_FILE) -> tuple[int, str]:
    """Create and lock a new file beside the target; return its handle and its name."""
    while True:
        name = part_prefix(target) + secrets.token_hex(4) + UNFINISHED_SUFFIX
        path = target.parent / name
        try:
            handle = open_new(path, rights)
        except FileExistsError:
            continue
        taken = lock(handle)
        # Another writer may have found the file before this lock, and removed it or be about to.
        if taken is not False and path.exists():
            return handle, str(path)
        os.close(handle)
        path.unlink(missing_ok=True)


def is_left_over(path: str, target: str) -> bool:
    """Whether a path has the name of an unfinished file of a target."""
    begin = re.escape(part_prefix(Path(target)))
    wanted = begin + r"[a-z0-9_]{8}" + re.escape(UNFINISHED_SUFFIX)
    beside = os.path.dirname(path) == os.path.dirname(target)
    return beside and re.fullmatch(wanted, os.path.basename(path), re.DOTALL) is not None


def remove_left_over(target: Path) -> None:
    """Remove the unfinished files that killed writers of this target left."""
    for path in listed(target.parent):
        if not is_left_over(str(path), str(target)):
            continue
        with suppress(OSError):  # it is gone already, or belongs to another user
            handle = os.open(path, os.O_RDONLY)
            try:
                if lock(handle):
                    path.unlink()
            finally:
                os.close(handle)


def listed(folder: Path) -> Iterable[Path]:
    """The paths in a folder; empty if the folder cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def sync_folder(folder: Path) -> None:
    """Write the new names in a folder to the disk, if the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some disks cannot sync folders
            os.fsync(handle)
    finally:
        os.close(handle)
