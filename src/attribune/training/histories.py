"""The histories of a model that reads any: the training rows of each value."""

from __future__ import annotations

from attribune.core.device import default_device
from attribune.core.progress import Reporter
from attribune.data.histories import Histories
from attribune.models.base import ConditionedModel
from attribune.models.folder import SCHEMA, ModelFolder
from attribune.models.text_vectors import frozen_vectors
from attribune.schema import Schema
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData

__all__ = ["fit_histories"]


def fit_histories(model: ConditionedModel, source: DataPlan, data: PreparedData, reporter: Reporter) -> None:
    """Give a model the training rows that it reads in front of others; nothing for other methods.

    Raises:
        ConfigError: for similar texts without a pretrained backbone.
        DataError: for a time that cannot be read.
    """
    known, embed = model.reader.no_histories(model.method_config, data.schema), None
    if known is None:
        return
    if known.config.time is None:
        model.text_vectors = frozen_vectors(model)
        model.text_vectors.to(default_device())
        embed = model.text_vectors.of_texts
    if source.transfer is not None and source.transfer.full_model:
        folder = ModelFolder.find(source.transfer.run).path
        stored = Histories.load(folder, known.config, Schema.load(folder / SCHEMA))
        known = known if stored is None else stored.moved_to(data.schema)
    model.histories = known.added(
        data.splits["train"].table,
        text=source.text,
        labels=source.source.label,
        missing=source.task_options["missing"],
        embed=embed,
    )
    attribute = model.histories.attribute
    reporter.note(
        f"history: texts and labels of {len(model.histories):,} training rows are stored with the model, to be read "
        f"in front of texts of the same {attribute!r}"
    )
