"""Checksums of the files of a folder: what was changed, cut or exchanged since it was written is refused.

A model's folder is written at once, and `write_checksums` comes last. The files of a run are written one by one, and
some are replaced later: `CheckedFiles` writes them. Before a file is replaced, ``checksums.json`` lists the checksum of
the new content under ``next``, beside that of the old content under ``files``; an interruption leaves one of the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from attribune.core.files import read_json, replace_file, write_json
from attribune.errors import ModelFolderError

CHECKSUMS = "checksums.json"
_FORMAT, _VERSION = "attribune-checksums", 1
_BLOCK = 1 << 22
_COPY_AGAIN = "copy the folder again"


def write_checksums(folder: Path, names: Collection[str]) -> None:
    """Write the file of checksums of the named files in a folder; it comes last, when the others are complete.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    _Listed(files={name: checksum_of(folder / name) for name in names}).write(folder)


def check_files(folder: Path, names: Collection[str] | None = None) -> None:
    """Compare the files of a folder with its checksums; a folder of an earlier release, without any, passes.

    XXH3 finds damage and mixed-up files, at the speed of memory. It does not protect against an attacker, who would
    write other checksums as well.

    Args:
        names: of the files to compare, of which those without a checksum pass; by default all that have one.

    Raises:
        ModelFolderError: naming the files that differ.
    """
    listed = _Listed.read(folder, cure=_COPY_AGAIN)
    if listed is None:
        return
    differing = [
        name
        for name, expected in listed.files.items()
        if (names is None or name in names) and not agrees(folder / Path(name).name, expected)
    ]
    if differing:
        raise ModelFolderError(
            f"{folder} is damaged, or its files are of different models: {', '.join(differing[:3])} "
            f"{'differs' if len(differing) == 1 else 'differ'} from what was saved (see {CHECKSUMS}). Copy the folder "
            "again, or pass verify=False to read it as it is"
        )


@dataclass(frozen=True)
class CheckedFiles:
    """Files of a folder that are written one by one, each with its checksum; one process at a time may write them."""

    folder: Path

    @property
    def file(self) -> Path:
        """The file of checksums."""
        return self.folder / CHECKSUMS

    def check(self, name: str) -> None:
        """Compare a file with its checksum; one that is missing, or has none, passes.

        Raises:
            ModelFolderError: for a file that has changed since it was written, or checksums that are damaged.
        """
        path, listed = self.folder / name, self._read()
        while path.is_file() and (expected := listed.of(name)) and not any(agrees(path, one) for one in expected):
            before, listed = listed, self._read()
            if listed == before:  # otherwise it was replaced in the meantime
                raise ModelFolderError(
                    f"{path} was changed or damaged after it was written, its checksum is not the one in {self.file}: "
                    f"restore the file from a copy, or train again. To use it as it is, remove {self.file}, with which "
                    "changes are no longer noticed"
                )

    def check_all(self) -> None:
        """Compare all files that have a checksum; ModelFolderError as in `check`."""
        listed = self._read()
        for name in sorted({*listed.files, *listed.next}):
            self.check(Path(name).name)

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Replace files, each in one step, and their checksums; an interruption leaves either content of each.

        Raises:
            OSError: when one cannot be written.
            ModelFolderError: when the checksums cannot be written, or are damaged.
        """
        listed = self._read()
        for name in contents:
            if not listed.of(name) and (self.folder / name).is_file():
                listed.files[name] = checksum_of(self.folder / name)
        listed.next.update({name: _checksum_of_bytes(content) for name, content in contents.items()})
        listed.write(self.folder)
        for name, content in contents.items():
            replace_file(self.folder / name, content)
        listed.accept(contents)
        listed.write(self.folder)

    def add(self, names: Collection[str]) -> None:
        """List the checksums of files that are there and have none yet.

        Raises:
            ModelFolderError: when the checksums cannot be written, or are damaged.
        """
        listed = self._read()
        new = [name for name in names if not listed.of(name)]
        if new:
            listed.files.update({name: checksum_of(self.folder / name) for name in new})
            listed.write(self.folder)

    def settle(self) -> None:
        """Find out which contents an interrupted `write` left.

        Raises:
            ModelFolderError: when the checksums cannot be written, or are damaged.
        """
        listed = self._read()
        if listed.next:
            files = {name: self.folder / Path(name).name for name in listed.next}
            listed.accept([name for name, path in files.items() if agrees(path, listed.next[name])])
            listed.next.clear()
            listed.write(self.folder)

    def _read(self) -> _Listed:
        cure = f"{_COPY_AGAIN}, or remove the file, without which changes are not noticed"
        return _Listed.read(self.folder, cure=cure) or _Listed()


@dataclass
class _Listed:
    """The content of a file of checksums.

    Args:
        files: size and checksum of each file, by its name.
        next: of those that are being replaced, size and checksum of the new content.
    """

    files: dict[str, Any] = field(default_factory=dict)
    next: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, *, cure: str) -> _Listed | None:
        """Read the checksums of a folder; None without any."""
        path = folder / CHECKSUMS
        if not path.is_file():
            return None
        content = read_json(path, what="file of checksums", cure=cure)
        is_ours = isinstance(content, dict) and content.get("format") == _FORMAT and content.get("version") == _VERSION
        files, following = (content.get("files"), content.get("next", {})) if is_ours else (None, None)
        if not isinstance(files, dict) or not isinstance(following, dict):
            raise ModelFolderError(f"{path} is damaged or of a later release: {cure}")
        return cls(files, following)

    def of(self, name: str) -> list[Any]:
        """Return the checksums that a file may have; none for one that is not listed."""
        return [listed[name] for listed in (self.files, self.next) if name in listed]

    def accept(self, names: Collection[str]) -> None:
        """Note that files have their new content."""
        self.files.update({name: self.next.pop(name) for name in names})

    def write(self, folder: Path) -> None:
        """Write the file, in one step."""
        following = {"next": dict(sorted(self.next.items()))} if self.next else {}
        content = {"format": _FORMAT, "version": _VERSION, "files": dict(sorted(self.files.items())), **following}
        write_json(folder / CHECKSUMS, content, what="checksums", indent=1)


def agrees(path: Path, expected: Any) -> bool:
    """Whether a file has a checksum, as `checksum_of` returns it; one that may not be read has it not."""
    if not isinstance(expected, dict) or not path.is_file() or path.stat().st_size != expected.get("size"):
        return False
    try:
        return checksum_of(path) == expected
    except OSError:
        return False


def checksum_of(path: Path) -> dict[str, Any]:
    """Return the size and the XXH3 of a file."""
    digest, size = xxhash.xxh3_128(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return {"size": size, "xxh3_128": digest.hexdigest()}


def _checksum_of_bytes(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "xxh3_128": xxhash.xxh3_128(content).hexdigest()}
