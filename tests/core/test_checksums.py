"""A folder's checksums: what was changed, cut or exchanged is named."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tally import tell

from attribune.core.checksums import CHECKSUMS, check_files, write_checksums
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


def test_a_name_does_not_lead_out_of_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = json.loads((folder / CHECKSUMS).read_text())
    content["files"]["../config.json"] = content["files"].pop("config.json")
    (folder / CHECKSUMS).write_text(json.dumps(content))
    check_files(folder)  # its last part alone counts


def test_a_folder_without_checksums_is_of_an_earlier_release(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    (folder / "config.json").write_bytes(b"changed")
    check_files(folder)
