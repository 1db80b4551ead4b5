"""Permissions of files: a new file gets the permissions of the old one; read-only files are not replaced."""

import os
import stat

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin.cli import main
from maxmargin.io import files

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs rights of POSIX")


def rights(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def fitted():
    return mm.MulticlassSVC().fit(np.eye(4), [0, 1, 0, 1])


def save_model(path):
    fitted().save(path)


def save_page(path):
    fitted().report(path)


def save_checkpoint(path):
    mm.MulticlassSVC().fit(np.eye(4), [0, 1, 0, 1], checkpoint=path)


def save_conversion(path):
    source = path.parent / "source.crfsuite"
    source.write_text("A\tx\nB\ty\n\n")
    assert main(["convert", str(source), str(path), "--to", "crfsuite"]) == 0


def save_by_command(path):
    source = path.parent / "source.crfsuite"
    source.write_text("A\tx\nB\ty\n\n" * 4)
    assert main(["train", str(source), str(path), "--quiet"]) == 0


WRITERS = (save_model, save_page, save_checkpoint, save_conversion, save_by_command)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o200])
def test_a_file_keeps_its_rights(write, mode, tmp_path):
    path = tmp_path / "file"
    write(path)
    assert rights(path) == 0o644
    path.chmod(mode)
    if mode == 0o200 and os.geteuid() != 0:
        return
    (tmp_path / "link").symlink_to(path)
    write(tmp_path / "link")
    assert rights(path) == mode and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_has_the_rights_of_the_umask(mask, tmp_path):
    os.umask(mask)
    save_model(tmp_path / "model")
    assert rights(tmp_path / "model") == 0o666 & ~mask


@pytest.mark.parametrize("write", [save_model, save_page])
def test_a_file_without_the_right_to_write_stays(write, tmp_path):
    path = tmp_path / "file"
    write(path)
    before = path.read_bytes()
    path.chmod(0o444)
    with refusal("write-protected", kinds=(PermissionError,)):
        write(path)
    assert path.read_bytes() == before and rights(path) == 0o444
    assert [own.name for own in tmp_path.iterdir()] == ["file"]


def test_commands_and_checkpoints_refuse_it_before_the_work(tmp_path, capsys):
    path = tmp_path / "file"
    save_checkpoint(path)
    path.chmod(0o400)
    with refusal("checkpoint", "write-protected", kinds=(ValueError,)):
        save_checkpoint(path)
    lines = ("train none", "convert none", "report none --output", "path none --report")
    for line in (*lines, "train none m --checkpoint"):
        assert main([*line.split(), str(path)]) == 1
        assert "write-protected" in capsys.readouterr().err


@pytest.mark.parametrize("replaced", [False, True])
def test_an_unfinished_file_shows_no_more_than_the_finished_one(replaced, tmp_path, monkeypatch):
    path, seen, real = tmp_path / "file", [], os.fsync
    if replaced:
        path.touch(0o640)
    monkeypatch.setattr(
        files.os, "fsync", lambda handle: (seen.append(rights(handle)), real(handle))
    )
    os.umask(0o027)
    files.write_whole(path, b"content")
    assert seen[0] & ~rights(path) == 0 and rights(path) == 0o640


def test_another_group_gets_what_everybody_has(tmp_path, monkeypatch):
    """If the group of the old file cannot be kept, the new group gets only the permissions of others."""
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    before = path.stat()
    other = os.stat_result([*before[:5], before.st_gid + 1, *before[6:]])
    monkeypatch.setattr(files.os, "chown", lambda *_: (_ for _ in ()).throw(PermissionError()))
    files.keep_rights(str(path), other)
    assert rights(path) == 0o644


def test_shards_keep_the_rights_of_the_data_set(tmp_path):
    mm.data.write_shards(tmp_path, np.eye(4), [0, 1, 0, 1])
    assert {rights(path) for path in tmp_path.iterdir()} == {0o644}
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    mm.data.write_shards(tmp_path, np.eye(3), [0, 1, 0], overwrite=True)
    assert {rights(path) for path in tmp_path.iterdir()} == {0o600}
    (tmp_path / "manifest.json").chmod(0o400)
    with refusal("write-protected", kinds=(PermissionError,)):
        mm.data.write_shards(tmp_path, np.eye(2), [0, 1], overwrite=True)
    assert len(mm.data.open_shards(tmp_path)) == 3


def test_links_that_lead_to_themselves(tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    for write in (save_model, save_page, save_checkpoint):
        with refusal("symbolic links", kinds=(OSError, ValueError)):
            write(tmp_path / "loop")
    with pytest.raises(OSError):
        save_model(tmp_path / "loop")
    assert main(["train", "none", str(tmp_path / "loop")]) == 1
    assert "symbolic links" in capsys.readouterr().err and (tmp_path / "loop").is_symlink()
