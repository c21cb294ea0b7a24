"""The second part of the training of `one-per-value`: each value's own rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset

from attribune.core.progress import Reporter
from attribune.errors import DataError
from attribune.models.base import ConditionedModel
from attribune.runs.recipe import TrainingRecipe
from attribune_lab.methods.one_per_value import OnePerValue, OnePerValueMethod


def train_own_values(
    model: ConditionedModel,
    train: Dataset,
    settings: TrainingRecipe,
    reporter: Reporter,
    *,
    run: Callable[[], AbstractContextManager[Any]],
) -> float:
    """Train the factors of each value with enough rows, one value after the other.

    An interrupted training begins this part anew, with the same result.

    Args:
        train: encoded training rows.
        run: makes the context of a forward pass.

    Returns:
        The seconds that it took.
    """
    method, config = cast(OnePerValueMethod, model.method), cast(OnePerValue, model.method_config)
    if not any(site.A.requires_grad for site in method.own_sites):
        reporter.note("one-per-value: the factors are those of another run, and no value is trained further")
        return 0.0
    started, collate = time.perf_counter(), model.collator(model.input_schema)
    ids = np.asarray(train.with_format("numpy")["attribute_ids"][:]).reshape(len(train), -1)
    counts = np.bincount(method.attribute.of(torch.from_numpy(ids)).flatten().numpy(), minlength=method.attribute.size)
    values = [value for value in range(1, method.attribute.size) if counts[value] >= config.min_rows]
    rows = train.with_format(None)
    state = [parameter.requires_grad for parameter in model.parameters()]
    model.requires_grad_(False)
    model.train()
    for value in values:
        torch.manual_seed(settings.seed + value)
        chance = np.random.default_rng((settings.seed, value))
        own = np.flatnonzero(ids[:, method.attribute.columns][:, 0] == value)
        with method.training_of(value) as factors:
            _train(model, factors, _batches(rows, own, config, settings, chance, collate), config, settings, run)
    for parameter, requires_grad in zip(model.parameters(), state, strict=True):
        parameter.requires_grad_(requires_grad)
    seconds = time.perf_counter() - started
    few = int(((counts > 0) & (counts < config.min_rows))[1:].sum())
    reporter.note(
        f"one-per-value: {len(values):,} values of {method.attribute.name!r} trained further on their own rows in "
        f"{seconds:.0f} s; {few:,} with fewer than {config.min_rows} rows have the factors of all"
    )
    return seconds


def _batches(
    rows: Dataset,
    own: Any,
    config: OnePerValue,
    settings: TrainingRecipe,
    chance: np.random.Generator,
    collate: Callable[..., dict[str, torch.Tensor]],
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the batches of all epochs of a value's rows."""
    for _ in range(config.epochs):
        order = chance.permutation(own)
        for start in range(0, len(order), settings.batch_size):
            yield collate([rows[int(row)] for row in order[start : start + settings.batch_size]])


def _train(
    model: ConditionedModel,
    factors: list[torch.nn.Parameter],
    batches: Iterator[dict[str, torch.Tensor]],
    config: OnePerValue,
    settings: TrainingRecipe,
    run: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Train the factors, which only here have gradients."""
    for factor in factors:
        factor.requires_grad_(True)
    optimizer = torch.optim.AdamW(factors, lr=settings.learning_rate * config.rate, weight_decay=settings.weight_decay)
    for batch in batches:
        optimizer.zero_grad()
        with run():
            loss = model(**{name: x.to(model.device) for name, x in batch.items()}).loss
        if not torch.isfinite(loss):
            raise DataError("the loss of a value's own rows became infinite or not a number: lower method.rate")
        loss.backward()
        if settings.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(factors, settings.max_grad_norm)
        optimizer.step()
    for factor in factors:
        factor.requires_grad_(False)
        factor.grad = None
