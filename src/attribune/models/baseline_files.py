"""The files of a baseline in a model's folder: settings in JSON, numbers in safetensors, the schema, checksums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from attribune.core.arrays import Array
from attribune.core.checksums import check_files, write_checksums
from attribune.core.files import read_json, replace_file, write_json
from attribune.core.hashing import sha256
from attribune.data.texts import TextInput
from attribune.errors import ModelFolderError
from attribune.schema import Schema

__all__ = ["BaselineFiles", "StoredBaseline", "stored_text"]


_SCHEMA = "schema.json"
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class StoredBaseline:
    """The content of the files: settings, arrays by name, and the attributes."""

    path: Path
    settings: Mapping[str, Any]
    tensors: Mapping[str, Array]
    schema: Schema

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a setting that is a list of texts; TypeError for anything else."""
        texts = self.settings[name]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{name!r} is not a list of texts")
        return tuple(texts)

    @property
    def text_input(self) -> TextInput | None:
        """Which columns are the text; None in the files of earlier versions."""
        settings = self.settings.get("text_input")
        return None if settings is None else TextInput.from_dict(settings)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Turn what does not fit together while a model is made of the files into a ModelFolderError."""
        try:
            yield
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, ModelFolderError):
                raise
            raise ModelFolderError(
                f"{self.path}: has entries that do not fit ({error}): save the model again"
            ) from error

    def check_shapes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise a ModelFolderError unless the arrays have these names and shapes."""
        found = {name: array.shape for name, array in self.tensors.items()}
        if found != dict(expected):
            wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            raise ModelFolderError(
                f"{self.path}: describes arrays of shapes {[expected.get(name) for name in wrong]} "
                f"({', '.join(wrong)}), found {[found.get(name) for name in wrong]}: save the model again"
            )


def stored_text(text_input: TextInput | None) -> dict[str, Any]:
    """Return the setting from which `StoredBaseline.text_input` is read; none where it is not known."""
    return {} if text_input is None else {"text_input": text_input.to_dict()}


@dataclass(frozen=True)
class BaselineFiles:
    """The files of one kind of baseline, such as ``linear.json`` and ``linear.safetensors``.

    Args:
        name: of the files, without ending.
        what: the kind of model, for messages.
    """

    name: str
    what: str

    @property
    def settings(self) -> str:
        """The name of the file of settings."""
        return f"{self.name}.json"

    @property
    def tensors(self) -> str:
        """The name of the file of arrays."""
        return f"{self.name}.safetensors"

    def save(
        self, folder: str | Path, *, settings: Mapping[str, Any], tensors: Mapping[str, Array], schema: Schema
    ) -> None:
        """Write the files.

        Raises:
            ModelFolderError: when the folder cannot be written.
        """
        data = safetensors.save({name: np.asarray(array, order="C") for name, array in tensors.items()})
        path = Path(folder) / self.tensors
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        except OSError as error:
            raise ModelFolderError(
                f"{path}: cannot be written ({error.strerror or error}): free some space, or choose another folder"
            ) from error
        schema.save(path.with_name(_SCHEMA))
        content = {
            "format": f"attribune-{self.name}",
            "version": _VERSION,
            **settings,
            "sha256": sha256([data]),
        }
        write_json(path.with_name(self.settings), content, what=self.what)
        names = {self.tensors, self.settings, _SCHEMA, *Schema.files_beside(path.with_name(_SCHEMA))}
        write_checksums(path.parent, names)

    def load(self, folder: str | Path, *, verify: bool = True) -> StoredBaseline:
        """Read what `save` wrote.

        Args:
            verify: compare the files with the checksums that were saved with them.

        Raises:
            ModelFolderError: for a file that is missing, changed, truncated or of another model.
        """
        if verify:
            check_files(Path(folder))
        path = Path(folder) / self.settings
        settings = read_json(path, what=self.what)
        if not isinstance(settings, Mapping) or settings.get("format") != f"attribune-{self.name}":
            raise ModelFolderError(f"{path}: is not a {self.what} of this library: give the folder of a saved one")
        if settings.get("version") != _VERSION:
            raise ModelFolderError(
                f"{path}: has version {settings.get('version')!r}, this release reads {_VERSION}: save the model again"
            )
        tensors = self._read_tensors(path.with_name(self.tensors), settings.get("sha256"))
        return StoredBaseline(
            path=path, settings=settings, tensors=tensors, schema=Schema.load(path.with_name(_SCHEMA))
        )

    def _read_tensors(self, path: Path, digest: Any) -> dict[str, Array]:
        cure = "restore the folder, or train the baseline again"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelFolderError(f"{path}: cannot be read ({error.strerror or error}): {cure}") from error
        if sha256([data]) != digest:
            raise ModelFolderError(
                f"{path}: is truncated, changed or of another model (its checksum is not the one in {self.settings}): "
                f"{cure}"
            )
        try:
            return dict(safetensors.load(data))
        except SafetensorError as error:
            raise ModelFolderError(f"{path}: is not a safetensors file ({error}): {cure}") from error
