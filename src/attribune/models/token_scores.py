"""Scores of rows whose tokens are scored, merged from those of their windows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy.typing as npt

from attribune.data.rows import EncodedRows
from attribune.data.token_rows import windows_of
from attribune.models.base import ConditionedModel
from attribune.tasks import TokenTask

__all__ = ["score_tokens"]


def score_tokens(
    model: ConditionedModel,
    rows: EncodedRows,
    task: TokenTask,
    *,
    size: int,
    run: Callable[[], AbstractContextManager[Any]],
) -> tuple[npt.NDArray[Any], float]:
    """Return the scores of encoded rows, (n,), as the task defines them, and if they have labels their mean loss.

    Args:
        size: windows in one forward pass.
        run: makes the context of a pass.
    """
    windows, cut, owners = windows_of(rows, task)
    parts: list[list[Any]] = [[] for _ in range(len(rows))]
    reduced: list[Any] = [None] * len(windows)
    losses, counts = 0.0, 0.0
    for index, batch in model.batches(windows, size=size):
        with run():
            output = model(**batch)
        if "labels" in batch:
            losses += float(model.row_losses(output.logits, batch["labels"]).sum())
            counts += float(model.row_counts(batch["labels"]).sum())
        logits = output.logits.float().cpu().numpy()
        for window, scores in zip(index.tolist(), logits, strict=True):
            reduced[window] = task.window_scores(scores[: len(cut[window].ids)], cut[window])
    for owner, result in zip(owners.tolist(), reduced, strict=True):
        parts[owner].append(result)
    scored = task.empty_scores(len(rows))
    for row, (results, text) in enumerate(zip(parts, rows.inputs, strict=True)):
        scored[row] = task.row_scores(results, text)
    return scored, losses / max(1.0, counts)
