"""How the logits of rows depend on the vectors of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.data.readers.base import EncodedRows
from attribune.models.model import AttributeModel
from attribune.models.value_tables import value_spread
from attribune.models.value_vectors import first_gradients, table_gradients, with_first_values
from attribune.schema.attributes import FittedAttribute

__all__ = ["ValueSlopes", "value_slopes"]


@dataclass(frozen=True, kw_only=True)
class ValueSlopes:
    """Logits of n rows, and their derivatives in the vector of one value of each row.

    Attributes:
        logits: (n, C) float64.
        J: (n, C, D) float64, of the vectors in all tables side by side, in units of `value_spread`.
        documents: (n, H) the vectors of the texts that the head reads; of a row with several texts side by side.
        labels: of each row; empty where the rows have none.
    """

    logits: Tensor
    J: Tensor
    documents: Tensor
    labels: list[Tensor]


def value_slopes(
    model: AttributeModel,
    attribute: FittedAttribute,
    rows: EncodedRows,
    run: Callable[[], AbstractContextManager[Any]],
    *,
    own: npt.NDArray[np.int64],
    described: npt.NDArray[np.int64],
    batch_size: int = 32,
) -> ValueSlopes | None:
    """Compute the logits of rows and their derivatives, each in a vector of its own.

    Args:
        attribute: one that has vectors of values.
        rows: whose values of the attribute are not read.
        run: makes the context of a forward pass.
        own: (n,) the id whose own vector each row has.
        described: (n,) the id whose description each row has.

    Returns:
        None for logits that do not depend on the vectors, or are no finite numbers.
    """
    with table_gradients(model, model.values.names(attribute.name)) as parameters:
        spreads = [value_spread(p, attribute.counts).flatten().double().cpu() for p in parameters.values()]
        size, C, D = min(batch_size, attribute.size - 1), model.task.outputs, sum(map(len, spreads))
        found, slopes = torch.zeros(len(rows), C).double(), torch.zeros(len(rows), C, D).double()
        documents: list[Tensor] = [torch.empty(0)] * len(rows)
        labels: list[Tensor] = [torch.empty(0)] * len(rows)
        for index, batch in model.batches(rows, size=size, strict=True):
            source = torch.from_numpy(own[index])
            vectors = {name: p.detach()[source.to(p.device)] for name, p in parameters.items()}
            with with_first_values(model, attribute, vectors, described[index], batch) as inputs:
                with run():
                    texts, logits = model.documents_and_logits(**inputs)
                if not logits.requires_grad:
                    return None
                found[index] = logits.detach().double().cpu()
                slopes[index] = _derivatives(logits, parameters, spreads)
            texts = texts.detach().float().cpu().view(len(index), -1)
            for row, document in zip(index.tolist(), texts, strict=True):
                documents[row] = document
            for row, label in zip(index.tolist(), batch["labels"].cpu() if "labels" in batch else (), strict=False):
                labels[row] = label
    is_finite = bool(slopes.isfinite().all() and found.isfinite().all())
    if not is_finite:
        return None
    return ValueSlopes(logits=found, J=slopes, documents=torch.stack(documents), labels=labels)


def _derivatives(logits: Tensor, parameters: Mapping[str, nn.Parameter], spreads: Sequence[Tensor]) -> Tensor:
    """Return the derivatives (B, C, D) of logits (B, C) in the vectors of the first B values."""
    B, C = logits.shape
    slopes = torch.zeros(B, C, sum(map(len, spreads))).double()
    for output in range(C):
        gradients = first_gradients(logits[:, output].sum(), parameters, B)
        parts = [s * gradient.flatten(1).double().cpu() for s, gradient in zip(spreads, gradients, strict=True)]
        slopes[:, output] = torch.cat(parts, dim=1)
    return slopes
