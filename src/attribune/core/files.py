"""Files that are written whole or not at all, also when the power fails; JSON files are read with one clear error."""

from __future__ import annotations

import atexit
import contextlib
import errno
import glob
import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from attribune.core.hashing import text_digest
from attribune.core.wording import cure_of
from attribune.errors import AttribuneError, ConfigError, ModelFolderError

_WRITER = re.compile(r"\.([0-9a-f]{8})-(\d+)\.tmp\Z")  # of a draft: its machine and process
_ABANDONED = 7 * 24 * 3600  # seconds
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that an interruption leaves either the old or the new content, never a part.

    Raises:
        OSError: when it cannot be written; the earlier file is still whole.
    """
    clear_drafts(path.parent, name=path.name)
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        move_into_place(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def make_folder(path: str | Path) -> Path:
    """Return a folder for results, which is made if it is not there.

    Raises:
        ConfigError: if it cannot be made.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made a folder ({error.strerror}): choose another") from error
    return Path(path)


def move_into_place(draft: Path, path: Path) -> None:
    """Rename a finished draft, file or folder, so that its content is on the disk before its name is.

    Raises:
        OSError: when it cannot be done; the earlier file is still whole.
    """
    for entry in (*draft.rglob("*"), draft) if draft.is_dir() else (draft,):
        sync(entry)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the list of names of a folder, is on the disk.

    Raises:
        OSError: when the system cannot write it.
    """
    if os.name == "nt" and path.is_dir():  # Windows opens no folders, and writes their names by itself
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def draft_of(path: Path) -> Path:
    """Return where this process writes a file before it takes its place; no other process writes there.

    Raises:
        OSError: for a path without a name, such as an empty one.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path.with_name(f".{path.name}.{_host()}-{os.getpid()}.tmp")


def clear_drafts(folder: Path, *, name: str | None = None) -> None:
    """Remove what killed processes left half written in a folder, of all files or of one.

    Whether a process of another machine, or of another container, still runs cannot be seen from here: what it left is
    removed when nothing was written to it for a week.
    """
    _clear(folder.glob(f".{'*' if name is None else glob.escape(name)}.*-*.tmp"))


@cache
def temporary_folder() -> Path:
    """Return a folder of this process, which is removed when Python ends.

    What a killed process has left is removed when the next one asks for such a folder.

    Raises:
        OSError: when there is none where one may write.
    """
    _clear(Path(tempfile.gettempdir()).glob("attribune-*.*-*.tmp"))
    folder = Path(tempfile.mkdtemp(prefix="attribune-", suffix=f".{_host()}-{os.getpid()}.tmp"))
    atexit.register(_remove_own, folder, os.getpid())
    return folder


@contextlib.contextmanager
def writing_temporarily(what: str) -> Iterator[None]:
    """Name the folder for temporary files where it is full or may not be written, instead of what is written later.

    Raises:
        ConfigError: with the cure.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be saved in {tempfile.gettempdir()}, the folder for temporary files "
            f"({error.strerror or error}): free some space there, or name another folder in the environment variable "
            "TMPDIR"
        ) from error


def _remove_own(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker must not remove its parent's files
        remove(folder)


def _clear(drafts: Iterable[Path]) -> None:
    """Remove those of drafts that nobody writes any more."""
    import psutil

    for draft in drafts:
        found = _WRITER.search(draft.name)
        if found is None:
            continue
        host, process = found.groups()
        if time.time() - _last_write(draft) > _ABANDONED if host != _host() else not psutil.pid_exists(int(process)):
            remove(draft)


def _last_write(path: Path) -> float:
    """Return when a file, or anything in a folder, was last written; now for what cannot be seen."""
    try:
        entries = (path, *path.rglob("*")) if path.is_dir() and not path.is_symlink() else (path,)
        return max(entry.lstat().st_mtime for entry in entries)
    except OSError:
        return time.time()


@cache
def _host() -> str:
    return text_digest(socket.gethostname(), size=4).hex()


def remove(path: Path) -> None:
    """Remove a file or a folder if it is there, as far as the system allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def json_bytes(data: Any, *, indent: int | None = None) -> bytes:
    """Return the content of a JSON file (UTF-8)."""
    return (json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent) + "\n").encode()


@contextlib.contextmanager
def writing(failure: str, *, then: str = "", error: type[AttribuneError] = ModelFolderError) -> Iterator[None]:
    """Say what could not be written in place of an error of the system, with its reason and the cure.

    Args:
        failure: such as ``the page cannot be written to report.html``.
        then: what follows the cure, such as ``; the earlier model is still whole``.

    Raises:
        AttribuneError: of these words, of the class `error`.
    """
    try:
        yield
    except OSError as found:
        raise error(f"{failure} ({found.strerror or found}): {cure_of(found)}{then}") from found


def write_json(path: str | Path, data: Any, *, what: str, indent: int | None = None) -> None:
    """Write a JSON file (UTF-8); an interrupted write leaves the earlier file.

    Raises:
        ModelFolderError: when the file cannot be written.
    """
    with writing(f"{path}: the {what} cannot be written"):
        replace_file(Path(path), json_bytes(data, indent=indent))


def read_json(path: str | Path, *, what: str, cure: str = "restore the file, or save the model again") -> Any:
    """Read a JSON file.

    Args:
        cure: of a file that is truncated or not JSON.

    Raises:
        ModelFolderError: naming a file that is missing, unreadable, truncated or not JSON.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text)
        if _HALF_PAIR.search(text):
            json.dumps(tree, ensure_ascii=False).encode()  # raises a ValueError for half of a pair, which is no text
        return tree
    except FileNotFoundError as error:
        raise ModelFolderError(f"{path}: the {what} file is missing: give the folder of a saved model") from error
    except OSError as error:
        raise ModelFolderError(
            f"{path}: the {what} cannot be read ({error.strerror or error}): check the file and its rights"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: the {what} is truncated or not JSON ({error}): {cure}") from error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a log, one per line; a line cut off by an interruption is skipped. Empty without a file."""
    items = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            items.append(json.loads(line))
    return [item for item in items if isinstance(item, dict)]
