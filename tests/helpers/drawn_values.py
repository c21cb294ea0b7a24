"""A model whose values matter, and rows whose labels it would give to values of a known spread."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import small_runs
import torch

from attribune import AttributeModel
from attribune.backbones.loading import load_tokenizer
from attribune.data.readers.base import EncodedRows, TextRows
from attribune.methods import METHODS
from attribune.models.value_tables import value_spread
from attribune.schema import Categorical, Schema
from attribune.tasks import Regression, Task, fit_task

VALUES, EACH = 60, 6


def model_of(task: Task, folder: Path, *, method: str = "injector") -> AttributeModel:
    names = [f"v{value}" for value in range(VALUES)] * 2
    schema = Schema.fit({"user": names}, [Categorical("user")])
    backbone = small_runs.save_backbone(folder / "backbone")
    torch.manual_seed(0)
    model = AttributeModel.build(
        str(backbone), schema, task=task, method=METHODS[method](), dropout=0.0, tokenizer=load_tokenizer(str(backbone))
    )
    with torch.no_grad():  # a value matters as soon as its vector does
        for name, parameter in model.named_parameters():
            if name.endswith(("W_up", "head.weight")):
                parameter.normal_(std=0.3)
    return model.eval()


def drawn_rows(model: AttributeModel, task: Task, *, scale: float) -> EncodedRows:
    """Rows of values whose vectors are the unknown one plus `scale` times the deviation of those in the model."""
    generator = torch.Generator().manual_seed(1)
    chance = np.random.default_rng(0)
    ids = np.repeat(np.arange(1, VALUES + 1), EACH)[:, None]
    rows = TextRows.without_attributes([chance.integers(5, 30, 8).tolist() for _ in ids]).with_attribute_ids(ids)
    tables = [model.get_parameter(name) for name in model.values.owners()]
    before = [table.detach().clone() for table in tables]
    with torch.no_grad():
        for table in tables:
            noise = torch.randn(table[1:].shape, generator=generator)
            table[1:] = table[0] + scale * value_spread(table, np.ones(len(table))) * noise
        logits = torch.cat([model(**batch).logits[index.argsort()] for index, batch in model.batches(rows, size=400)])
        for table, old in zip(tables, before, strict=True):
            table.copy_(old)
    return replace(rows, labels=drawn_labels(task, logits, generator).numpy())


def drawn_labels(task: Task, logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A label of each row, drawn from the law of which the loss is the negative log-likelihood.

    That of the squared error is normal with variance 1/2. Two points have the same first three moments, and square to
    one number.
    """
    if isinstance(task, Regression):
        signs = 2 * torch.randint(0, 2, (len(logits),), generator=generator) - 1
        return logits.squeeze(1) + math.sqrt(0.5) * signs
    codecs = [choice.codec for choice in task.codec.choices]
    if any(not codec.has_one_class for codec in codecs):
        drawn = logits.sigmoid().bernoulli(generator=generator)
        return torch.cat([drawn, torch.zeros_like(drawn[:, :1])], dim=1)
    classes = logits.softmax(dim=1).multinomial(1, generator=generator).squeeze(1)
    if any(codec.has_shares for codec in codecs):
        return torch.nn.functional.one_hot(classes, logits.shape[1]).to(logits)
    return classes


TASKS = {
    "regression": fit_task("regression", [["0", "1", "2"]]),
    "classification": fit_task("classification", [["a", "b", "c"]]),
    "several": fit_task("classification", [[["a"], ["b", "c"]]], multi_label=True),
    "rating": fit_task("rating", [["1", "2", "3"]]),
    "ordinal": fit_task("ordinal", [["1", "2", "3"]]),
}
