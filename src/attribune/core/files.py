"""JSON files of a run or model folder: written whole or not at all, read with one clear error."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from attribune.errors import ModelFolderError

__all__ = ["draft_of", "read_json", "read_json_lines", "replace_file", "write_json"]


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that an interruption leaves either the old or the new content, never a part.

    Raises:
        OSError: when it cannot be written; the earlier file is still whole.
    """
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def draft_of(path: Path) -> Path:
    """Return where a file is written before it is moved; always the same name, so the next write replaces a draft."""
    return path.with_name(f".{path.name}.tmp")


def write_json(path: str | Path, data: Any, *, what: str, indent: int | None = None) -> None:
    """Write a JSON file (UTF-8); an interrupted write leaves the earlier file.

    Raises:
        ModelFolderError: when the file cannot be written.
    """
    path = Path(path)
    try:
        replace_file(path, (json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent) + "\n").encode())
    except OSError as error:
        raise ModelFolderError(
            f"{path}: the {what} cannot be written ({error.strerror or error}): make room, or choose a folder that you "
            "may write to"
        ) from error


def read_json(path: str | Path, *, what: str) -> Any:
    """Read a JSON file.

    Raises:
        ModelFolderError: naming a file that is missing, unreadable, truncated or not JSON.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFolderError(f"{path}: the {what} file is missing: give the folder of a saved model") from error
    except OSError as error:
        raise ModelFolderError(
            f"{path}: the {what} cannot be read ({error.strerror or error}): check the file and its rights"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(
            f"{path}: the {what} is truncated or not JSON ({error}): restore the file, or save the model again"
        ) from error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a log, one per line; a line cut off by an interruption is skipped. Empty without a file."""
    items = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            items.append(json.loads(line))
    return [item for item in items if isinstance(item, dict)]
