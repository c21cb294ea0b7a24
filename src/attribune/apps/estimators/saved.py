"""Estimators as they are kept: in the folder of their model, with ``estimator.json``, and packed for pickles."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attribune.core.checksums import CheckedFiles, check_files
from attribune.core.config import read_record, short_repr
from attribune.core.files import move_into_place, write_json, writing
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods import MethodConfig
from attribune.models.baselines import BaselineConfig
from attribune.models.predictor import Predictor
from attribune.schema.kinds import KINDS, Kind, kind_settings, read_kind

ESTIMATOR = "estimator.json"
"""The file of an estimator in the folder of its model."""
_WHAT = "record of an estimator"


def write_estimator(path: str | Path, record: Mapping[str, Any], save_model: Callable[[Path], None]) -> None:
    """Write the folder of an estimator; that of an earlier one is replaced once the new one is complete.

    Args:
        save_model: writes the files of the model into a folder.

    Raises:
        ConfigError: for a folder that holds something else.
        ModelFolderError: when it cannot be written; the earlier one is still complete.
    """
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and ((folder / ESTIMATOR).is_file() or not any(folder.iterdir()))):
        raise ConfigError(f"{folder} is there already, and is no saved estimator: choose a new folder")
    draft, old = (folder.with_name(f".{folder.name}.{state}") for state in ("new", "old"))
    try:
        with writing(f"the estimator cannot be saved in {folder}"):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            save_model(draft)
            write_json(draft / ESTIMATOR, record, what=_WHAT, indent=1)
            CheckedFiles(draft).add([ESTIMATOR])
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
                folder.rename(old)
            move_into_place(draft, folder)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(draft, ignore_errors=True)


def read_estimator(path: str | Path) -> dict[str, Any]:
    """Read what `write_estimator` wrote beside the model.

    Raises:
        ModelFolderError: for another folder, or a file that is damaged.
    """
    folder = Path(path)
    if not (folder / ESTIMATOR).is_file():
        raise ModelFolderError(
            f"{folder} has no {ESTIMATOR}, so it is no saved estimator: give a folder that its method save wrote, or "
            "read a model or a run with Predictor.from_pretrained"
        )
    check_files(folder, {ESTIMATOR})
    return read_record(folder / ESTIMATOR, dict[str, Any], what=_WHAT)


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator as plain values.

    Raises:
        ConfigError: for one that has none.
    """
    return {name: _plain(value, name) for name, value in parameters.items()}


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Kind):
        return kind_settings(value)
    if isinstance(value, MethodConfig | BaselineConfig):
        return value.to_dict()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one, name) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, name) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ConfigError(
        f"{name} is {short_repr(value)}, which cannot be saved: set another value first, as in set_params({name}=0), "
        "which leaves the trained model as it is"
    )


def restored_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return saved parameters as they are given to an estimator."""
    given = dict(parameters)
    attributes = given.get("attributes")
    if isinstance(attributes, list):
        given["attributes"] = [
            read_kind(one, KINDS, what="attribute") if isinstance(one, dict) else one for one in attributes
        ]
    elif isinstance(attributes, dict):
        given["attributes"] = read_kind(attributes, KINDS, what="attribute")
    return given


def plain_classes(classes: npt.NDArray[Any]) -> dict[str, Any]:
    """Return classes as plain values with the type of their array."""
    values = classes.astype(str) if classes.dtype.kind == "M" else classes
    return {"type": "object" if classes.dtype.hasobject else classes.dtype.str, "values": values.tolist()}


def restored_classes(record: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return what `plain_classes` was given."""
    return np.array(record["values"], dtype=np.dtype(record["type"]))


@contextmanager
def saved_model(predictor: Predictor) -> Iterator[Path]:
    """Save the model of a predictor into a folder that lasts as long as the block."""
    with TemporaryDirectory(prefix="attribune-") as name:
        folder = Path(name)
        predictor.model.save_pretrained(folder)
        yield folder


@dataclass(frozen=True, kw_only=True)
class PackedPredictor:
    """What a predictor is made of again.

    Attributes:
        files: the content of the model's files by their paths; the backbone's own weights are not among them.
        options: further arguments of `Predictor.from_pretrained`.
    """

    files: Mapping[str, bytes]
    options: Mapping[str, Any]

    @classmethod
    def of(cls, predictor: Predictor) -> Self:
        """Pack a predictor."""
        with saved_model(predictor) as folder:
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        names = ("precision", "batch_size", "text_input")
        return cls(files=files, options={name: getattr(predictor, name) for name in names})

    def unpack(self, *, backbone: str | Path | None) -> Predictor:
        """Return the predictor; ConfigError where its backbone cannot be loaded, ModelFolderError for another one."""
        with TemporaryDirectory(prefix="attribune-") as name:
            for path, content in self.files.items():
                file = Path(name, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return Predictor.from_pretrained(name, backbone=backbone, **self.options)
