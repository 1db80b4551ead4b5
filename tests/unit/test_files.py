"""Files are written completely or not at all; space is reserved; leftovers of killed writers are removed."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin.data.scratch import LEAST_ENTRIES, ScratchArray
from maxmargin.io import files

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs locks of POSIX")


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("allocates", [True, False])
def test_a_scratch_file_has_its_space_before_it_is_mapped(generator, monkeypatch, allocates):
    if not allocates:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    array = ScratchArray(np.float64)
    values = generator.normal(size=3 * LEAST_ENTRIES)
    array.append(values)
    found = os.fstat(array.file.fileno())
    assert found.st_blocks * 512 >= found.st_size == array.mapped.nbytes
    np.testing.assert_array_equal(array.array(), values)


def test_a_full_disk_is_told_with_the_folder_and_the_size(tmp_path, monkeypatch):
    array = ScratchArray(np.float64, tmp_path)
    array.append(np.ones(5))
    monkeypatch.setattr(files.os, "posix_fallocate", no_room, raising=False)
    wanted = 8 * (LEAST_ENTRIES + 1)
    with refusal(str(wanted), str(tmp_path), "No space left", "scratch=", kinds=(OSError,)):
        array.append(np.ones(LEAST_ENTRIES - 4))
    assert array.array().tolist() == [1.0] * 5  # the old content stays


def test_a_file_grows_by_what_is_needed_where_there_is_no_room_for_more(tmp_path, monkeypatch):
    array, real = ScratchArray(np.uint8, tmp_path), os.posix_fallocate

    def little_room(handle, first, count):
        return no_room() if first + count > LEAST_ENTRIES + 100 else real(handle, first, count)

    monkeypatch.setattr(files.os, "posix_fallocate", little_room)
    array.append(np.ones(LEAST_ENTRIES + 50, np.uint8))
    assert len(array.mapped) == LEAST_ENTRIES + 50


@POSIX
def test_what_a_killed_writer_of_a_model_left_is_removed_and_nothing_else(tmp_path):
    svm = mm.MulticlassSVC().fit(np.eye(3), [0, 1, 2])
    svm.save(tmp_path / "model")
    handle, alive = files.open_part(tmp_path / "model")  # a running writer
    kept = [".model.part", ".model.abc.part", "model.part", ".other.abcdefgh.part"]
    for name in [*kept, ".model.abcdefgh.part"]:
        (tmp_path / name).write_bytes(b"half")
    svm.save(tmp_path / "model")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"model", os.path.basename(alive), *kept}
    os.close(handle)


def test_a_model_that_does_not_fit_the_disk_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "model"
    svm = mm.MulticlassSVC().fit(np.eye(3), [0, 1, 2])
    svm.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(files.os, "fsync", no_room)
    with refusal("cannot write", "No space left", str(path), kinds=(OSError,)):
        svm.save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["model"]


WRITER = """
import sys, numpy as np, maxmargin as mm
writer = mm.data.ShardWriter(sys.argv[1], overwrite=True, shard_bytes=8)
writer.add(np.ones((3, 2)), [7, 8, 9])
print("begun", flush=True)
sys.stdin.read()
"""


def begun(folder):
    """Start a process that writes shards and waits."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"begun\n"
    return writer


@POSIX
def test_a_kill_leaves_the_old_data_set_and_the_next_writer_removes_the_rest(tmp_path):
    mm.data.write_shards(tmp_path, np.eye(4), [0, 1, 0, 1])
    (tmp_path / "shard-notes.txt").write_text("mine")
    writer = begun(tmp_path)
    with refusal("another writer"):
        mm.data.write_shards(tmp_path, np.eye(2), [0, 1], overwrite=True)
    # the refused writer left the other's files alone
    assert len(list(tmp_path.glob("shard-*-1.*"))) > 1
    writer.kill()
    writer.communicate()
    assert mm.data.open_shards(tmp_path).Y.tolist() == [0, 1, 0, 1]
    mm.data.write_shards(tmp_path, np.eye(2), [1, 0], overwrite=True)
    assert mm.data.open_shards(tmp_path).Y.tolist() == [1, 0]
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 4 and "shard-notes.txt" in names


@POSIX
def test_links_and_devices_stay_what_they_are(tmp_path):
    """Writing replaces the target of a link; a pipe receives the content."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_parts(tmp_path / "link", [b"n", b"ew"])
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    files.write_whole(tmp_path / "pipe", b"through")
    assert reader.communicate()[0] == b"through" and (tmp_path / "pipe").is_fifo()
    with pytest.raises(FileNotFoundError, match=r"none/file'$"):
        files.write_whole(tmp_path / "none" / "file", b"")
