"""What a model keeps of training rows beside its weights, to read it with other rows; a method brings the class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

from attribune.data.texts import TextInput
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.methods.config import MethodConfig
from attribune.schema import Schema
from attribune.schema.columns import Table
from attribune.schema.schema import Revision


class Memory(ABC):
    """Rows of a table that a model keeps beside its weights, and that its reader reads with others.

    A method names its class in ``MethodConfig.memory``, and a reader of its own finds the rows in `Reading.memory`.
    Nothing is learned for a value: the rows of new values are added, and those of values that are removed go. No other
    program reads them, so that such a model is not exported, and does not change while it predicts (`LiveRun`).
    ``files`` are the names that its files may have in the folder of a model.
    """

    files: ClassVar[tuple[str, ...]]
    config: MethodConfig

    @classmethod
    @abstractmethod
    def empty(cls, model: Any, *, backbone: str | Path | None = None) -> Self:
        """Return the memory of a model without rows.

        Args:
            model: a `ConditionedModel`.
            backbone: new location of its backbone's weights, if they were moved.
        """

    @abstractmethod
    def loaded(self, folder: Path, schema: Schema) -> Self | None:
        """Return what `save` wrote into the folder of a model with a schema; None where it wrote nothing.

        Raises:
            ModelFolderError: for a file that is missing or damaged, or does not fit the others.
        """

    @abstractmethod
    def save(self, folder: Path) -> tuple[str, ...]:
        """Write the rows into the folder of a model; returns the names of the files."""

    @classmethod
    @abstractmethod
    def written_texts(cls, folder: Path) -> Iterator[tuple[Path, str]]:
        """Yield the files in the folder of a model that have texts of rows, each with these, a line for each."""

    @property
    @abstractmethod
    def attribute(self) -> str:
        """The attribute by whose values rows are read."""

    @abstractmethod
    def added(
        self, table: Table, *, text: TextInput, labels: Sequence[str], missing: Sequence[str] = (), first_id: int = 1
    ) -> Self:
        """Return this and the rows of a table that can be read.

        Args:
            labels: the columns of the labels.
            missing: texts that mean no label.
            first_id: rows with a value of `attribute` of a smaller id are left out.

        Raises:
            ConfigError: for a model that cannot find rows.
            DataError: for a missing column, or a cell that cannot be read.
        """

    @abstractmethod
    def revised(self, revision: Revision) -> Self:
        """Return it with other values: the rows of those that are taken away are gone."""

    @abstractmethod
    def moved_to(self, schema: Schema) -> Self:
        """Return it under a schema with the same ids, and more, in perhaps more columns."""

    @abstractmethod
    def note(self) -> str:
        """Say how many rows are kept, and what for."""

    @abstractmethod
    def to(self, device: Any) -> None:
        """Compute on another device what finds rows, if anything is computed."""

    def attribute_among(self, names: Sequence[str] | None) -> str:
        """Return `attribute`, of which alone new values can be added.

        Args:
            names: the attributes whose values are to be added, where they are named; ConfigError for any other.
        """
        if other := [name for name in names or () if name != self.attribute]:
            raise ConfigError(
                f"method {self.config.name!r} reads the rows of {self.attribute!r}, not of {other[0]!r}: name "
                f"{self.attribute!r} alone"
            )
        return self.attribute


def memory_of(method: MethodConfig | type[MethodConfig]) -> type[Memory] | None:
    """Return the class of what a method keeps of training rows; None if it keeps nothing."""
    kind: type[Memory] | None = resolve_name(method.memory) if method.memory else None
    return kind


def memories() -> list[type[Memory]]:
    """Return the classes of all methods."""
    return [kind for method in METHODS.values() if (kind := memory_of(method)) is not None]


def memory_files() -> set[str]:
    """Return the names that files of a memory may have in the folder of a model, whatever its method is."""
    return {name for kind in memories() for name in kind.files}
