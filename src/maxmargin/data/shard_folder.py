"""The folder of a writer of shards: the writer locks it and removes the files that killed writers left.

An old data set stays complete until the new manifest replaces the old one in one step. If the process is
killed at any moment, the folder holds the old or the new data set. The disk must have space for both.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import IO

from maxmargin.data.manifest import (
    MANIFEST_NAME,
    Manifest,
    file_name,
    read_manifest,
    remove_others,
    write_manifest,
)
from maxmargin.data.mapped import ShardError
from maxmargin.io.files import (
    NEW_FILE,
    PRIVATE,
    check_target,
    keep_rights,
    lock_folder,
    open_new,
)


class ShardFolder:
    """A folder in which one writer is at work; ``generation`` belongs to the new data set."""

    generation: int = 0
    over: bool = False
    before: os.stat_result | None = None  # status of the manifest that will be replaced

    def __init__(self, path: Path, overwrite: bool):
        self.path = path
        self.made: list[Path] = []  # folders created by this writer
        self.written: list[Path] = []
        self.handle: int | None = None  # the locked folder
        try:
            for folder in (*reversed(path.parents), path):
                if not folder.exists():
                    self.made.append(folder)
                    folder.mkdir(exist_ok=True)
            self.handle, locked = lock_folder(path)
            if locked is False:
                raise ShardError(
                    f"{path}: another writer is using this folder; wait for it, or choose another "
                    "folder"
                )
            kept = self._present(overwrite)
            if locked:
                remove_others(path, kept)
        except BaseException:
            self.abandon()
            raise

    def _present(self, overwrite: bool) -> set[str]:
        """Return the files of the old data set, and set the generation of the new one."""
        if not (self.path / MANIFEST_NAME).exists():
            return set()
        if not overwrite:
            raise ShardError(
                f"{self.path} already holds a data set; set overwrite=True to replace it"
            )
        self.before = check_target(self.path / MANIFEST_NAME, in_use=True)
        try:
            old = read_manifest(self.path)
        except ShardError:  # a damaged data set is replaced too; keep all files until then
            names = {path.name for path in self.path.iterdir()}
            found = (re.match(r"shard-\d+-(\d{1,15})\.", name) for name in names)
            self.generation = 1 + max((int(match[1]) for match in found if match), default=0)
            return names
        self.generation = old.generation + 1
        return old.names()

    def new_file(self, shard: int, part: str) -> Path:
        """Return the path of a file that is about to be written, and remember it."""
        self.check()
        path = self.path / file_name(shard, part, self.generation)
        self.written.append(path)
        return path

    def open_file(self, path: Path) -> IO[bytes]:
        """Open a new file, with the rights of the manifest that will be replaced."""
        path.unlink(missing_ok=True)
        stream = os.fdopen(open_new(path, NEW_FILE if self.before is None else PRIVATE), "wb")
        if self.before is not None:
            keep_rights(str(path), self.before)
        return stream

    def check(self) -> None:
        """Refuse to write after the end."""
        if self.over:
            raise ShardError(f"{self.path}: this writer is closed; open a new one")

    def install(self, manifest: Manifest) -> None:
        """Make the written files the data set of the folder, and remove the files of an old one."""
        try:
            write_manifest(self.path, manifest)
        except OSError as error:
            raise ShardError(f"cannot write {self.path / MANIFEST_NAME}: {error}") from error
        with suppress(OSError):  # files may be open elsewhere; the next writer removes them
            remove_others(self.path, manifest.names())
        self.leave()

    def abandon(self) -> None:
        """Remove the written files and the folders that were created for them."""
        if self.over:
            return
        if not self._installed():
            for path in self.written:
                path.unlink(missing_ok=True)
            for folder in reversed(self.made):
                with suppress(OSError):  # the folder is not empty
                    folder.rmdir()
        self.leave()

    def _installed(self) -> bool:
        """Whether the manifest already names the new files; an interrupt may come just after that."""
        try:
            return bool(self.written) and read_manifest(self.path).generation == self.generation
        except (ShardError, OSError):
            return False

    def leave(self) -> None:
        """Release the lock and end this writer."""
        self.over = True
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def __del__(self) -> None:
        self.leave()
