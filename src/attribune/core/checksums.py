"""Checksums of the files of a folder: what was changed, cut or exchanged since it was written is refused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import xxhash

from attribune.core.files import read_json, write_json
from attribune.errors import ModelFolderError

__all__ = ["CHECKSUMS", "check_files", "checksum_of", "write_checksums"]

CHECKSUMS = "checksums.json"
_FORMAT, _VERSION = "attribune-checksums", 1
_BLOCK = 1 << 22


def write_checksums(folder: Path, names: Collection[str]) -> None:
    """Write the file of checksums of the named files in a folder; it comes last, when the others are complete.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    files = {name: checksum_of(folder / name) for name in sorted(names)}
    content = {"format": _FORMAT, "version": _VERSION, "files": files}
    write_json(folder / CHECKSUMS, content, what="checksums", indent=1)


def check_files(folder: Path) -> None:
    """Compare the files of a folder with its checksums; a folder of an earlier release, without any, passes.

    XXH3 finds damage and mixed-up files, at the speed of memory. It does not protect against an attacker, who would
    write other checksums as well.

    Raises:
        ModelFolderError: naming the files that differ.
    """
    path = folder / CHECKSUMS
    if not path.is_file():
        return
    content = read_json(path, what="file of checksums")
    files: Any = content.get("files") if isinstance(content, dict) and content.get("format") == _FORMAT else None
    if not isinstance(files, dict) or content.get("version") != _VERSION:
        raise ModelFolderError(f"{path} is damaged or of a later release: copy the folder again")
    differing = [name for name, expected in files.items() if not _agrees(folder / Path(name).name, expected)]
    if differing:
        raise ModelFolderError(
            f"{folder} is damaged, or its files are of different models: {', '.join(differing[:3])} "
            f"{'differs' if len(differing) == 1 else 'differ'} from what was saved (see {CHECKSUMS}). Copy the folder "
            "again, or pass verify=False to read it as it is"
        )


def _agrees(path: Path, expected: Any) -> bool:
    if not isinstance(expected, dict) or not path.is_file() or path.stat().st_size != expected.get("size"):
        return False
    return checksum_of(path) == expected


def checksum_of(path: Path) -> dict[str, Any]:
    """Return the size and the XXH3 of a file."""
    digest, size = xxhash.xxh3_128(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return {"size": size, "xxh3_128": digest.hexdigest()}
