"""A folder's checksums: what was changed, cut or exchanged is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tally import tell

from attribune.core import checksums
from attribune.core.checksums import CHECKSUMS, CheckedFiles, check_files, write_checksums
from attribune.errors import ModelFolderError

CONTENT = {"config.json": b'{"a": 1}', "model.safetensors": bytes(range(256)) * 40, "empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    write_checksums(tmp_path, CONTENT)
    return tmp_path


def test_what_was_written_is_read(folder: Path) -> None:
    check_files(folder)
    (folder / "notes.txt").write_text("mine")
    check_files(folder)


def test_any_flipped_bit_is_seen(folder: Path) -> None:
    chance = random.Random(0)
    for _ in range(200):
        name = chance.choice(["config.json", "model.safetensors"])
        content = bytearray(CONTENT[name])
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (folder / name).write_bytes(content)
        with pytest.raises(ModelFolderError, match=rf"is damaged, or its files .*: {name} differs"):
            check_files(folder)
        (folder / name).write_bytes(CONTENT[name])
    tell("refused", 200)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_is_cut_missing_or_zero_is_seen(folder: Path, name: str) -> None:
    path, content = folder / name, CONTENT[name]
    for damaged in (b"", content[:-1], content + b"\0", content[: len(content) // 2].ljust(len(content), b"\0")):
        path.write_bytes(damaged)
        with pytest.raises(ModelFolderError, match=name):
            check_files(folder)
    path.unlink()
    with pytest.raises(ModelFolderError, match=name):
        check_files(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format": "attribune-checksums", "version": 2, "files": {}}',
        '{"format": "attribune-checksums", "version": 1, "files": []}',
    ],
)
def test_damaged_checksums_are_refused(folder: Path, text: str) -> None:
    (folder / CHECKSUMS).write_text(text)
    with pytest.raises(ModelFolderError, match=CHECKSUMS):
        check_files(folder)


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"size": "8"}, {"size": 8}, {"size": 8, "xxh3_128": 1}])
def test_an_entry_of_another_type_is_a_difference(folder: Path, entry: object) -> None:
    content = json.loads((folder / CHECKSUMS).read_text())
    content["files"]["config.json"] = entry
    (folder / CHECKSUMS).write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match=r"config\.json"):
        check_files(folder)


def test_a_name_does_not_lead_out_of_the_folder(folder: Path) -> None:
    content = json.loads((folder / CHECKSUMS).read_text())
    content["files"]["../config.json"] = content["files"].pop("config.json")
    (folder / CHECKSUMS).write_text(json.dumps(content))
    check_files(folder)  # its last part alone counts


def test_a_folder_without_checksums_is_of_an_earlier_release(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    (folder / "config.json").write_bytes(b"changed")
    check_files(folder)


class TestFilesWrittenOneByOne:
    """A run's own files, of which some are replaced later."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> CheckedFiles:
        files = CheckedFiles(tmp_path)
        files.write({"recipe.yaml": b"a: 1", "metrics.json": b"{}"})
        return files

    def test_what_was_written_is_read_and_any_other_content_refused(self, files: CheckedFiles) -> None:
        files.check("recipe.yaml")
        (files.folder / "recipe.yaml").write_bytes(b"a: 2")
        said = r"recipe\.yaml was changed or damaged .*restore .*remove .*checksums"
        with pytest.raises(ModelFolderError, match=said):
            files.check("recipe.yaml")
        files.check("metrics.json")
        with pytest.raises(ModelFolderError, match=r"recipe\.yaml"):
            files.check_all()
        files.file.unlink()  # the cure that is named
        files.check("recipe.yaml")
        files.check_all()

    def test_missing_and_foreign_files_pass(self, files: CheckedFiles) -> None:
        (files.folder / "recipe.yaml").unlink()
        (files.folder / "notes.txt").write_text("mine")
        for name in ("recipe.yaml", "notes.txt", "nowhere"):
            files.check(name)
        files.check_all()

    def test_added_files_are_checked_from_then_on(self, files: CheckedFiles) -> None:
        (files.folder / "log.jsonl").write_bytes(b"{}")
        files.add(["log.jsonl", "metrics.json"])
        (files.folder / "log.jsonl").write_bytes(b"[]")
        with pytest.raises(ModelFolderError, match=r"log\.jsonl"):
            files.check("log.jsonl")

    def test_damage_is_not_taken_over_when_others_are_written(self, files: CheckedFiles) -> None:
        (files.folder / "recipe.yaml").write_bytes(b"a: 2")
        files.write({"metrics.json": b"[]"})
        files.add(["recipe.yaml"])
        files.settle()
        with pytest.raises(ModelFolderError, match=r"recipe\.yaml"):
            files.check("recipe.yaml")

    @pytest.mark.parametrize("has_checksums", [True, False])
    @pytest.mark.parametrize("change", range(1, 6))
    def test_an_interruption_leaves_the_old_or_the_new_content(
        self, change: int, has_checksums: bool, files: CheckedFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Killed before each of the writes: of the checksums, of two files, of the checksums; and after the last."""
        if not has_checksums:  # as a run of an earlier version
            files.file.unlink()
        before = self._contents(files)
        self._interrupt(change, monkeypatch)
        new = {"recipe.yaml": b"a: 3", "metrics.json": b'{"a": 3}', "new.json": b"{}"}
        with pytest.raises(KeyboardInterrupt):
            files.write(new)
        monkeypatch.undo()
        for _ in range(2):
            for name, content in self._contents(files).items():
                assert content in (before.get(name), new[name])
                files.check(name)
            files.settle()
        if change > 1:
            assert "next" not in json.loads(files.file.read_text())
            (files.folder / "recipe.yaml").write_bytes(b"a: 4")
            with pytest.raises(ModelFolderError, match=r"recipe\.yaml"):
                files.check("recipe.yaml")
        files.write(new)  # the same again comes to the same end
        assert self._contents(files) == new
        assert set(json.loads(files.file.read_text())) == {"format", "version", "files"}

    @staticmethod
    def _contents(files: CheckedFiles) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in files.folder.iterdir() if path != files.file}

    @staticmethod
    def _interrupt(change: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Interrupt the process before one of its writes, counted from 1."""
        seen = 0

        def counted(write: Callable[..., None]) -> Callable[..., None]:
            def interrupted(*given: Any, **options: Any) -> None:
                nonlocal seen
                seen += 1
                if seen == change:
                    raise KeyboardInterrupt
                write(*given, **options)

            return interrupted

        for name in ("replace_file", "write_json"):
            monkeypatch.setattr(checksums, name, counted(getattr(checksums, name)))

    def test_a_reader_waits_for_no_one(self, files: CheckedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that is replaced after its checksum was read is compared with its new one."""
        agrees = checksums.agrees

        def replaced_first(path: Path, expected: Any) -> bool:
            monkeypatch.setattr(checksums, "agrees", agrees)
            files.write({"recipe.yaml": b"a: 2"})
            return agrees(path, expected)

        monkeypatch.setattr(checksums, "agrees", replaced_first)
        files.check("recipe.yaml")

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"format": "attribune-checksums", "version": 1, "files": {}, "next": 1}']
    )
    def test_damaged_checksums_name_their_own_cure(self, files: CheckedFiles, text: str) -> None:
        files.file.write_text(text)
        for use in (lambda: files.check("recipe.yaml"), files.settle, lambda: files.add(["recipe.yaml"])):
            with pytest.raises(ModelFolderError, match=rf"{CHECKSUMS}.*or remove the file"):
                use()
