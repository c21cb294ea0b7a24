"""The training rows that a model keeps beside its weights, where its method reads any."""

from __future__ import annotations

from attribune.core.device import default_device
from attribune.core.progress import Reporter
from attribune.data.memory import memory_of
from attribune.models.base import ConditionedModel
from attribune.models.folder import SCHEMA, ModelFolder
from attribune.schema import Schema
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData

__all__ = ["fill_memory"]


def fill_memory(model: ConditionedModel, source: DataPlan, data: PreparedData, reporter: Reporter) -> None:
    """Give a model the training rows that it keeps, behind those of the run that it continues; none for most methods.

    Raises:
        ConfigError: for a model that cannot find rows.
        DataError: for a cell that cannot be read.
    """
    if (kind := memory_of(model.method_config)) is None:
        return
    memory = kind.empty(model)
    memory.to(default_device())
    if source.transfer is not None and source.transfer.full_model:
        folder = ModelFolder.find(source.transfer.run).path
        stored = memory.loaded(folder, Schema.load(folder / SCHEMA))
        memory = memory if stored is None else stored.moved_to(data.schema)
    model.memory = memory.added(
        data.splits["train"].table,
        text=source.text,
        labels=source.source.label,
        missing=source.task_options["missing"],
    )
    reporter.note(model.memory.note())
