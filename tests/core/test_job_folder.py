"""Folders of jobs: what is refused, what is begun, and that one process at a time holds one."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from attribune.core.job_folder import JobFolder, locked
from attribune.errors import ConfigError, ModelFolderError


@dataclass(frozen=True)
class Knitting(JobFolder):
    contents = "knitting"
    plan_name = "pattern.json"
    summary_name = "scarf.json"


def test_from_nothing_to_finished(tmp_path: Path) -> None:
    folder = Knitting(tmp_path / "new")
    folder.refuse_foreign()
    assert not folder.is_begun
    folder.write_plan(b"plan")
    folder.refuse_foreign()
    assert folder.is_begun
    assert not folder.is_finished
    assert folder.plan_file.read_bytes() == b"plan"
    folder.summary_file.write_bytes(b"done")
    assert folder.is_finished


def test_a_folder_of_something_else_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    Knitting(tmp_path).refuse_foreign()
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match=r"is not empty and holds no knitting \(thesis.txt\): choose another"):
        Knitting(tmp_path).refuse_foreign()
    with pytest.raises(ConfigError, match=r"thesis.txt is a file: choose another output folder"):
        Knitting(tmp_path / "thesis.txt").refuse_foreign()


def test_a_plan_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelFolderError, match="cannot be written"):
        Knitting(tmp_path / "file" / "new").write_plan(b"plan")
    with pytest.raises(ModelFolderError, match="cannot be written"), Knitting(tmp_path / "file" / "new").held():
        raise AssertionError


def _hold(path: str, connection: Connection) -> None:
    with Knitting(Path(path)).held():
        connection.send("held")
        connection.recv()


@pytest.mark.slow
def test_one_process_at_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(str(tmp_path), theirs))
    process.start()
    try:
        assert ours.recv() == "held"
        with (
            pytest.raises(ConfigError, match=rf"another process \({process.pid} on .* works in"),
            Knitting(tmp_path).held(),
        ):
            raise AssertionError
        with locked(tmp_path / ".lock", timeout=0.01) as free:
            assert not free
    finally:
        process.kill()  # the system frees the lock of whoever is gone
        process.join()
    with Knitting(tmp_path).held():
        pass
    with Knitting(tmp_path).held(wait=True):
        pass


LINKS = (".lock", ".lock.holder", "pattern.json", "scarf.json", "part", "deep/down/part", ".pattern.json.tmp")


@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_a_folder_is_refused_and_its_target_named(name: str, target: str, tmp_path: Path) -> None:
    """A stranger's folder must not lead to the user's own files."""
    (tmp_path / "file").write_text("dear")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "work" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / target)
    folder = Knitting(tmp_path / "work")
    with (
        pytest.raises(ModelFolderError, match=rf"{name} is a link to {tmp_path / target}, .*put a copy"),
        folder.held(),
    ):
        raise AssertionError
    assert not folder.is_held()
    assert (tmp_path / "file").read_text() == "dear"
    assert not any((tmp_path / "folder").iterdir())
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("link", ["hard", "symbolic"])
def test_who_holds_a_lock_is_never_written_into_another_file(link: str, tmp_path: Path) -> None:
    mine, holder = tmp_path / "mine", tmp_path / ".lock.holder"
    mine.write_text("dear")
    os.link(mine, holder) if link == "hard" else holder.symlink_to(mine)
    with locked(tmp_path / ".lock") as free:
        assert free
        assert str(os.getpid()) in holder.read_text()
    assert mine.read_text() == "dear"
