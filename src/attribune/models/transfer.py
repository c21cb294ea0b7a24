"""Transfer of attribute parameters from one model to another.

Amplayo, Yoo and Lee 2022 (section 5): parameters that read attributes are learned on one task and frozen on another,
where only the task adapter and the head are trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.models.config import AttributeConfig
from attribune.models.folder import ModelFolder
from attribune.schema import Schema, ValueTable
from attribune.tasks import Task, task_from_dict

_FITTING = ("min_count", "max_values")  # they decide which values get an id, not how values are read


@dataclass(frozen=True, kw_only=True)
class AttributeSource:
    """A trained model whose attribute parameters are taken over; `tensors` are the learned ones."""

    folder: Path
    config: AttributeConfig
    schema: Schema
    tensors: dict[str, Tensor]

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a run or a model, without its backbone; ModelFolderError for an incomplete one."""
        files = ModelFolder.find(folder)
        config, tensors = files.read()
        return cls(folder=Path(folder), config=config, schema=Schema.load(files.schema), tensors=tensors)

    def schema_with(self, fitted: Schema, *, frozen: bool, values: Mapping[str, ValueTable] | None = None) -> Schema:
        """Return the schema of the new model: the source's values under their ids.

        Args:
            fitted: the schema of the new model's training rows.
            frozen: whether values that the source does not know stay unknown; otherwise they get ids after the
                source's.
            values: tables that describe values of the new rows, as those of the source were described.

        Raises:
            ConfigError: for attributes that differ from the source's, or values that it does not describe.
            DataError: for a table that lacks a column of the source's.
        """
        self._check_described(values or {})
        ours, theirs = ([(a.name, a.spec.kind) for a in schema] for schema in (fitted, self.schema))
        if ours != theirs:
            raise ConfigError(
                f"the attributes are {_listed(ours)}, but {self.folder} has {_listed(theirs)}: name the same ones in "
                "the same order"
            )
        for one, other in zip(fitted, self.schema, strict=True):
            mine, its = asdict(one.spec), asdict(other.spec)
            if wrong := next((name for name in mine if name not in _FITTING and mine[name] != its[name]), None):
                raise ConfigError(
                    f"attribute {one.name!r} has {wrong}={mine[wrong]!r}, but {self.folder} has {its[wrong]!r}: its "
                    "values would be read differently; use the same setting"
                )
        if set(fitted.missing) != set(self.schema.missing):
            raise ConfigError(
                f"the texts that mean no value are {list(fitted.missing)}, but {self.folder} has "
                f"{list(self.schema.missing)}: give the same data.missing"
            )
        return self.schema if frozen else self.schema.grown(fitted).with_descriptions(values or {}, known=self.schema)

    def _check_described(self, values: Mapping[str, ValueTable]) -> None:
        for name, table in values.items():
            described = self.schema[name].description
            if described is None or not self.schema[name].spec.lists_values:
                raise ConfigError(
                    f"values of {name!r} are described now, but not in {self.folder}, whose map of descriptions would "
                    "be needed: leave data.values out, or train from the beginning"
                )
            if described.own_vectors != table.own_vectors:
                raise ConfigError(
                    f"own_vectors of {name!r} is {str(table.own_vectors).lower()}, but "
                    f"{str(described.own_vectors).lower()} in {self.folder}: give the same"
                )

    def task(self, kind: str) -> Task:
        """Return the task of the source, whose classes its head knows.

        Raises:
            ConfigError: for another kind of task.
        """
        task = task_from_dict(self.config.task or {})
        if task.kind != kind:
            raise ConfigError(
                f"{self.folder} was trained for the task {task.kind}, not {kind}: its head cannot be trained further"
            )
        return task

    @torch.no_grad()
    def load_into(self, model: ConditionedModel, *, frozen: bool, full_model: bool = False) -> None:
        """Load the learned tensors into a model with the same backbone and method, and the schema of `schema_with`.

        Vectors of values that the source does not know keep their initial values.

        Args:
            frozen: whether the loaded parameters are frozen.
            full_model: whether to load everything that the source learned, not only its attribute parameters.

        Raises:
            ConfigError: naming what differs between the two models.
        """
        if model.config.backbone_fingerprint != self.config.backbone_fingerprint:
            raise ConfigError(
                f"{self.folder} was trained on the backbone {self.config.backbone}, whose weights are not those of "
                f"{model.config.backbone}: use the same one"
            )
        name_of_method = model.method_config.name
        parameters: Mapping[str, Tensor] = model.values.parameters()
        if full_model:
            parameters = model.learned_tensors()
        if not parameters:
            raise ConfigError(f"method {name_of_method!r} has no parameters that read attributes: use another")
        by_value = model.values.owners()
        for name, parameter in parameters.items():
            tensor = self.tensors.get(name)
            rows = len(tensor) if tensor is not None and name in by_value else len(parameter)
            if tensor is None or tensor.shape != parameter[:rows].shape:
                shown = "none" if tensor is None else f"one of shape {tuple(tensor.shape)}"
                raise ConfigError(
                    f"{self.folder} (method {(self.config.method or {}).get('name')}) has {shown} where method "
                    f"{name_of_method!r} has {name} of shape {tuple(parameter.shape)}: give the method, options and "
                    "tuning with which it was trained"
                )
        for name, parameter in parameters.items():
            parameter[: len(self.tensors[name])] = self.tensors[name].to(parameter.dtype)
            if isinstance(parameter, nn.Parameter):
                parameter.requires_grad_(not frozen)


def _listed(attributes: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in attributes) or "none"
