"""The logits and labels that a run stores for its validation and test rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from attribune.errors import ModelFolderError
from attribune.runs.folder import RunFolder
from attribune.tasks import Task, task_from_dict

__all__ = ["StoredScores"]


@dataclass(frozen=True, kw_only=True)
class StoredScores:
    """Scores of a run: for each part, ``rows`` (n,) of the table, ``labels`` and ``logits`` as the task has them.

    A model that reads attributes also has ``hidden``, the logits with every attribute hidden; not one that scores
    tokens, nor one of an earlier release.
    """

    task: Task
    parts: dict[str, dict[str, npt.NDArray[Any]]]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the scores of a run; ModelFolderError if it is not finished, or a file is missing or damaged."""
        folder = RunFolder.of(path)
        results = folder.read_results()
        task = task_from_dict(results.task)
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for part in [name for name in ("validation", "test") if name in results.rows]:
            file = folder.checked(folder.logits(part))
            try:
                parts[part] = task.unpacked(load_file(str(file)))
            except (SafetensorError, OSError, KeyError) as error:
                raise ModelFolderError(
                    f"{file} is missing or damaged ({error}): restore the file, or train again"
                ) from error
        return cls(task=task, parts=parts)
