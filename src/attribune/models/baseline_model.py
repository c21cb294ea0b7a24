"""The base class of models without a backbone, and their files: settings in JSON, arrays, and the schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from attribune.core.arrays import Array
from attribune.core.checksums import check_files, write_checksums
from attribune.core.files import read_json, replace_file, write_json, writing
from attribune.core.hashing import sha256
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods.base import Method
from attribune.models.sizes import Sizes
from attribune.models.value_tables import ValueTables
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Task, task_from_dict

_SCHEMA = "schema.json"
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class StoredBaseline:
    """The content of the files of a model: settings, arrays by name, and the attributes."""

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
    def task(self) -> Task:
        """What is predicted."""
        return task_from_dict(self.settings["task"])

    @property
    def text_input(self) -> TextInput | None:
        """Which columns are the text; None in the files of earlier versions."""
        settings = self.settings.get("text_input")
        return None if settings is None else TextInput.from_dict(settings)

    def check_shapes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise a ModelFolderError unless the arrays have these names and shapes."""
        found = {name: array.shape for name, array in self.tensors.items()}
        if found != dict(expected):
            wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            raise ModelFolderError(
                f"{self.path}: describes arrays of shapes {[expected.get(name) for name in wrong]} "
                f"({', '.join(wrong)}), found {[found.get(name) for name in wrong]}: save the model again"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline(ABC):
    """A model without a backbone, such as `LinearModel`, which scores rows as a `ConditionedModel` does.

    `kind` is the name of its files without ending, and with the word model what messages call it.

    Args:
        features: of texts and attributes, whose values have weights and no vectors.
        text_input: which columns are the text; None where it is not known.
    """

    task: Task
    features: Any
    text_input: TextInput | None = None
    kind: ClassVar[str]
    reads_attributes: ClassVar[bool] = True
    precision: ClassVar[None] = None
    temperature: ClassVar[None] = None
    blend: ClassVar[None] = None
    memory: ClassVar[None] = None
    quantised: ClassVar[None] = None
    method: ClassVar[Method] = Method()
    values: ClassVar[ValueTables] = ValueTables(method)

    @property
    def schema(self) -> Schema:
        """The attributes."""
        schema: Schema = self.features.schema
        return schema

    @property
    def input_schema(self) -> Schema:
        """The attributes, all of which are features."""
        return self.schema

    @abstractmethod
    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows; ConfigError for text columns that the model cannot take."""

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Return all rows as one batch: what needs smaller ones cuts them itself."""
        if len(rows):
            yield np.arange(len(rows)), rows

    @abstractmethod
    def score(self, batch: Any) -> npt.NDArray[np.float32]:
        """Return the logits of a batch, (rows, outputs)."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """Count the parameters."""

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision; the precision asked for makes no difference."""
        return {"method": self.kind, "backbone": None, "parameters": self.sizes().total, "precision": "float32"}

    @abstractmethod
    def revised(self, revision: Revision) -> Self:
        """Return it with a changed schema; the weights of values that are kept are those of before."""

    def prepare(self, device: Any) -> None:  # noqa: B027 (it may be overridden)
        """Do nothing: baselines compute on the CPU."""

    def neural(
        self, refusal: str = "the model is a baseline, which acts in no backbone: train a method that does"
    ) -> NoReturn:
        """Refuse what needs a backbone."""
        raise ConfigError(refusal)

    def networks(self) -> list[Any]:
        """Return nothing."""
        return []

    def batch_refusal(self) -> str:
        """Refuse batches with rows of other models."""
        return "it has no pretrained backbone"

    @abstractmethod
    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what is stored as JSON, beside task and text columns, and what is stored as arrays."""

    @classmethod
    @abstractmethod
    def from_stored(cls, stored: StoredBaseline, *, backbone: str | Path | None) -> Self:
        """Return the model of its files; what does not fit together may raise a KeyError, a TypeError or a ValueError.

        Args:
            backbone: as `load` takes it.
        """

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the files of settings, arrays and the schema, such as `linear.json` and `linear.safetensors`.

        Raises:
            ModelFolderError: when the folder cannot be written.
        """
        settings, tensors = self.stored()
        data = safetensors.save({name: np.asarray(array, order="C") for name, array in tensors.items()})
        path = Path(folder) / f"{self.kind}.safetensors"
        with writing(f"{path}: cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        self.schema.save(path.with_name(_SCHEMA))
        content = {
            "format": f"attribune-{self.kind}",
            "version": _VERSION,
            "task": self.task.to_dict(),
            **({} if self.text_input is None else {"text_input": self.text_input.to_dict()}),
            **settings,
            "sha256": sha256([data]),
        }
        write_json(path.with_suffix(".json"), content, what=f"{self.kind} model")
        names = {path.name, path.with_suffix(".json").name, _SCHEMA, *Schema.files_beside(path.with_name(_SCHEMA))}
        write_checksums(path.parent, names)

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True, backbone: str | Path | None = None) -> Self:
        """Read what was saved.

        Args:
            verify: compare the files with the checksums that were saved with them.
            backbone: new location of the weights of a frozen backbone, if there is one, and they were moved.

        Raises:
            ModelFolderError: for a file that is missing, changed, truncated or of another model.
        """
        if verify:
            check_files(Path(folder))
        path = Path(folder) / f"{cls.kind}.json"
        settings = read_json(path, what=f"{cls.kind} model")
        if not isinstance(settings, Mapping) or settings.get("format") != f"attribune-{cls.kind}":
            raise ModelFolderError(f"{path}: is not a {cls.kind} model of this library: give the folder of a saved one")
        if settings.get("version") != _VERSION:
            raise ModelFolderError(
                f"{path}: has version {settings.get('version')!r}, this release reads {_VERSION}: save the model again"
            )
        tensors, schema = _read_tensors(path, settings.get("sha256")), Schema.load(path.with_name(_SCHEMA))
        try:
            stored = StoredBaseline(path=path, settings=settings, tensors=tensors, schema=schema)
            return cls.from_stored(stored, backbone=backbone)
        except ModelFolderError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFolderError(f"{path}: has entries that do not fit ({error}): save the model again") from error


def _read_tensors(settings: Path, digest: Any) -> dict[str, Array]:
    """Read the arrays beside a file of settings, which has their checksum."""
    path, cure = settings.with_suffix(".safetensors"), "restore the folder, or train the baseline again"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror or error}): {cure}") from error
    if sha256([data]) != digest:
        raise ModelFolderError(
            f"{path}: is truncated, changed or of another model (its checksum is not the one in {settings.name}): "
            f"{cure}"
        )
    try:
        return dict(safetensors.load(data))
    except SafetensorError as error:
        raise ModelFolderError(f"{path}: is not a safetensors file ({error}): {cure}") from error
