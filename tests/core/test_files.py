"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attribune.core import files
from attribune.core.files import clear_drafts, draft_of, move_into_place, replace_file


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    rename, sync = Path.replace, files.sync
    monkeypatch.setattr(files, "sync", lambda path: (order.append(f"sync {path.name}"), sync(path)))
    monkeypatch.setattr(Path, "replace", lambda *paths: (order.append("rename"), rename(*paths)))
    replace_file(tmp_path / "a.json", b"1")
    assert order == [f"sync {draft_of(tmp_path / 'a.json').name}", "rename", f"sync {tmp_path.name}"]


def test_a_folder_is_synced_with_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path.name))
    (tmp_path / "draft" / "inner").mkdir(parents=True)
    (tmp_path / "draft" / "inner" / "file").write_text("1")
    move_into_place(tmp_path / "draft", tmp_path / "model")
    assert synced == ["inner", "file", "draft", tmp_path.name]
    assert (tmp_path / "model" / "inner" / "file").is_file()


@pytest.mark.parametrize("failing", ["write_bytes", "replace"])
def test_an_error_leaves_the_earlier_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "a.json"
    replace_file(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, failing, full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.slow
def test_drafts_of_dead_processes_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "a [1].csv"
    program = "import os, sys; from pathlib import Path; from attribune.core.files import draft_of\n"
    program += "draft_of(Path(sys.argv[1])).write_text('half')"
    for name in ("a [1].csv", "b.csv"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=True)
    mine = draft_of(path)
    mine.write_text("half")
    elsewhere = tmp_path / f".{path.name}.ffffffff-1.tmp"  # of another machine
    elsewhere.write_text("half")
    assert len(os.listdir(tmp_path)) == 4
    clear_drafts(tmp_path, name=path.name)
    assert {mine.name, elsewhere.name} < set(os.listdir(tmp_path))
    assert len(os.listdir(tmp_path)) == 3
    clear_drafts(tmp_path)
    assert set(os.listdir(tmp_path)) == {mine.name, elsewhere.name}


def test_drafts_of_other_machines_are_removed_when_they_are_old(tmp_path: Path) -> None:
    name = "model.onnx"
    old, young, begun, foreign = (
        tmp_path / f".{name}.ffffffff-{end}" for end in ("1.tmp", "2.tmp", "3.tmp", "someone.tmp")
    )
    for folder in (old, begun):
        folder.mkdir()
        (folder / "weights").write_text("half")
    for file in (young, foreign):
        file.write_text("half")
    for path in (old / "weights", old, begun, foreign):
        os.utime(path, (0, 0))
    clear_drafts(tmp_path, name="other")
    assert len(os.listdir(tmp_path)) == 4
    clear_drafts(tmp_path, name=name)
    assert {path.name for path in tmp_path.iterdir()} == {young.name, begun.name, foreign.name}


@pytest.mark.slow
def test_the_temporary_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    program = "import os, sys; from attribune.core.files import temporary_folder\n"
    program += "(temporary_folder() / 'table').write_text(sys.argv[1])\nif sys.argv[1] == 'killed': os._exit(9)"
    left = list[list[str]]()
    for end in ("killed", "whole"):
        subprocess.run([sys.executable, "-c", program, end], check=False, env={**os.environ, "TMPDIR": str(tmp_path)})
        left.append([path.read_text() for path in tmp_path.glob("*/table")])
    assert left == [["killed"], []]
    assert not os.listdir(tmp_path)
