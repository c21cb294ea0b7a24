"""Finished cells as small files, one each, which can be kept with a project and from which a benchmark goes on."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from safetensors.numpy import load_file, save

from attribune.core.arrays import Array
from attribune.core.checksums import CheckedFiles
from attribune.core.config import Settings, checked_record
from attribune.core.files import make_folder, read_json, replace_file, write_json
from attribune.core.hashing import sha256
from attribune.errors import AttribuneError, ModelFolderError
from attribune.runs.stored_scores import HIDDEN_LOGITS, NETWORK_LOGITS
from attribune_lab.benchmark.experiment import Cell, Experiment
from attribune_lab.benchmark.results import CELL, METRICS, BenchmarkFolder
from attribune_lab.benchmark.runner import data_checksum
from attribune_lab.benchmark.source import SetSource, value_files

_Name: TypeAlias = Literal["validation_logits", "test_logits", "test_facts"]
_AGAIN = "remove it, and the cell is trained again"
_ARRAYS: tuple[_Name, ...] = ("validation_logits", "test_logits", "test_facts")
_OF_RUNS = (HIDDEN_LOGITS, NETWORK_LOGITS, "values.")
"""How arrays begin that the tables do not read: other scores, whose metrics are known, and values."""
_SENTENCES = ("verdict", "findings")
_LARGEST = 1e3  # logits of classes that are stored in half precision, which changes no third digit of a metric


@dataclass(frozen=True)
class CellFiles:
    """A folder with what the tables of a benchmark need of each finished cell.

    A file has the record and the metrics of a cell and its compressed scores, with the logits of classes in half
    precision; no model, log or text. It is for the settings with which the cell was trained.
    """

    path: Path

    def file(self, cell: Cell) -> Path:
        """Return the file of a cell."""
        return self.path / f"{cell.path}.json"

    def exchange(self, folder: BenchmarkFolder, experiment: Experiment) -> list[Cell]:
        """Restore the cells that have a file, and write files of the others that are done.

        Returns:
            The cells whose files are of other settings, or of other data.
        """
        make_folder(self.path)  # before hours of training
        others = []
        data_here = cache(partial(_data_here, experiment))
        for cell in experiment.cells():
            if folder.is_done(cell):
                if not self.file(cell).is_file():
                    self.write(folder, experiment, cell)
            elif self.file(cell).is_file() and not self.restore(
                folder, experiment, cell, data=data_here(cell.set.name)
            ):
                others.append(cell)
        return others

    def write(self, folder: BenchmarkFolder, experiment: Experiment, cell: Cell) -> None:
        """Write the file of a finished cell."""
        place = folder.place(cell)
        arrays = {name: load_file(place / _file(name)) for name in _ARRAYS if (place / _file(name)).is_file()}
        content = _Content(
            settings=_digest(experiment, cell),
            record=read_json(place / CELL, what="record of the cell"),
            metrics=_kept_metrics(place / METRICS),
            arrays={
                name: {
                    key: _Packed.of(_rounded(array) if key == "logits" else array)
                    for key, array in found.items()
                    if not key.startswith(_OF_RUNS)
                }
                for name, found in arrays.items()
            },
        )
        file = self.file(cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, f"{json.dumps(asdict(content), indent=1)}\n".encode())

    def restore(self, folder: BenchmarkFolder, experiment: Experiment, cell: Cell, *, data: str | None = None) -> bool:
        """Put a cell into the folder of the benchmark; returns whether its file is for these settings and data.

        Args:
            data: the checksum of the data, if they are here.

        Raises:
            ModelFolderError: for a file that cannot be read.
        """
        file = self.file(cell)
        what = "result of a cell"
        content = checked_record(read_json(file, what=what, cure=_AGAIN), _Content, source=file, what=what, cure=_AGAIN)
        if content.settings != _digest(experiment, cell) or data not in (None, content.record.get("data")):
            return False
        try:
            arrays = {name: {key: one.array() for key, one in found.items()} for name, found in content.arrays.items()}
        except (TypeError, ValueError, zlib.error) as error:
            raise ModelFolderError(f"{file}: the {what} is damaged ({error}): {_AGAIN}") from error
        files = {_file(name): save(found) for name, found in arrays.items()}
        if content.metrics is not None:
            files[METRICS] = json.dumps(content.metrics).encode()
        place = folder.place(cell)
        place.mkdir(parents=True, exist_ok=True)
        CheckedFiles(place).write(files)
        write_json(place / CELL, content.record, what="record of the cell", indent=1)
        return True


@dataclass(frozen=True, kw_only=True)
class _Packed:
    """An array, compressed."""

    dtype: str
    shape: list[int]
    content: str

    @classmethod
    def of(cls, array: Array) -> _Packed:
        content = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        return cls(dtype=str(array.dtype), shape=list(array.shape), content=content)

    def array(self) -> Array:
        """Return it, in single precision if it was rounded."""
        content = zlib.decompress(base64.b64decode(self.content, validate=True))
        array = np.frombuffer(content, self.dtype).reshape(self.shape)
        return array.astype(np.float32) if array.dtype == np.float16 else array


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What is in a file."""

    format: Literal["attribune-cell"] = "attribune-cell"
    version: Literal[1] = 1
    settings: str
    record: dict[str, Any]
    metrics: dict[str, Any] | None
    arrays: dict[_Name, dict[str, _Packed]]


def _data_here(experiment: Experiment, name: str) -> str | None:
    """Return the checksum of the data of a set; None where they are not here."""
    changes = [experiment.data, *(setting.data for setting in experiment.settings)]
    if not all(Path(file).is_file() for change in changes for file in value_files(change)):
        return None
    try:
        source = SetSource(next(one for one in experiment.sets if one.name == name))
        source.check_files()
    except AttribuneError:
        return None
    return data_checksum(experiment, source)


def _file(name: str) -> str:
    return f"{name}.safetensors"


def _kept_metrics(file: Path) -> dict[str, Any] | None:
    """Return the metrics of a cell, without the sentences about it; None for one that has none."""
    if not file.is_file():
        return None
    return {name: value for name, value in read_json(file, what="metrics").items() if name not in _SENTENCES}


def _digest(experiment: Experiment, cell: Cell) -> str:
    """Return a hash of the settings on which the scores of a cell depend."""
    needed = experiment.needs(cell)
    tree = {
        "sets": [_written(one.set, "folds", "title") for one in (cell, *needed)],
        "settings": [_written(one.setting, "series", "at", "rates") for one in (cell, *needed)],
        "cells": [one.path for one in (cell, *needed)],
        "common": _written(experiment, "name", "title", "sets", "settings", "rates", "reference", "choices", "axis"),
    }
    return sha256([json.dumps(tree, sort_keys=True).encode()])


def _written(settings: Settings, *left_out: str) -> dict[str, Any]:
    """Return settings that are not the default."""
    return settings.model_dump(mode="json", exclude_defaults=True, exclude={*left_out})


def _rounded(logits: Array) -> Array:
    """Return logits of classes in half precision; numbers that are predicted stay as they are."""
    is_classes = logits.ndim > 1 and logits.shape[-1] > 1
    return logits.astype(np.float16) if is_classes and np.abs(logits).max(initial=0.0) < _LARGEST else logits
