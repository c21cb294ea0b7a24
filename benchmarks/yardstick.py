"""The yardstick of prediction and serving: the bare transformers model, by turns with ours, and what arithmetic allows.

`bare` is the stock class of transformers for a label of each text, over the same backbone: it reads no attributes. In
bf16 all its weights are in bfloat16, as its users would run it; `bare, autocast` is the same with weights in float32.
It takes turns with the other cases in one process, in the same precision and on the same batches. The share of bare is
how much of its throughput a case keeps, the median over the rounds; its floor is the share that would be left if time
were proportional to the multiplications and additions of all matrix products.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from harness import ratio
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attribune import AttributeModel, Predictor
from attribune.data.batching import batches_by_length
from attribune.models.half import HalfBackbone

BARE, AUTOCAST = "bare", "bare, autocast"
Context = Callable[[], AbstractContextManager[Any]]


def bare_model(backbone: transformers.PreTrainedModel, outputs: int) -> transformers.PreTrainedModel:
    """The stock class for so many classes, of the same shape, precision and device; its weights are random."""
    config = copy.deepcopy(backbone.config)
    config.num_labels = outputs
    if config.pad_token_id is None:  # by which a decoder finds the last token
        config.pad_token_id = 0
    with torch.device(backbone.device):
        model = transformers.AutoModelForSequenceClassification.from_config(config, dtype=backbone.dtype)
    return model.eval()


def bare_inputs(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of a batch, what a model without attributes reads."""
    return {name: x for name, x in given.items() if name != "attribute_ids"}


class BarePredictor:
    """The stock model in place of a predictor's, with its tokenizer, precision and batches."""

    def __init__(self, predictor: Predictor) -> None:
        model = predictor.model
        self._predictor, self._tokenizer = predictor, model.tokenizer
        self.model = bare_model(model.backbone, predictor.task.outputs)
        self._context = pass_of(self.model, predictor.precision)

    def logits(self, texts: Sequence[str], *, max_length: int) -> npt.NDArray[np.float32]:
        """Of texts, (n, outputs)."""
        return self.score(self._tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"])

    def score(self, ids: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """Of the ids of texts, (n, outputs)."""
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        found = np.zeros((len(ids), self.model.config.num_labels), dtype=np.float32)
        one = self._predictor
        for index in batches_by_length(lengths, size=one.batch_size, device=one.device):
            batch = self._tokenizer.pad({"input_ids": [ids[row] for row in index]}, return_tensors="pt").to(one.device)
            with torch.inference_mode(), self._context():
                found[index] = self.model(**batch).logits.float().cpu().numpy()
        return found


def pass_of(model: nn.Module, precision: str) -> Context:
    """The context of predictions in a precision: of our models as a `Predictor` runs them; others are cast."""
    if precision != "bf16":
        return nullcontext
    if isinstance(model, AttributeModel):
        return HalfBackbone(model).in_place
    model.to(torch.bfloat16)
    return nullcontext


def operations(
    model: nn.Module, given: Mapping[str, Tensor], context: AbstractContextManager[Any] | None = None
) -> int:
    """Multiplications and additions of the matrix products of one prediction, as torch counts them.

    Attention is computed as products that can be counted.
    """
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), context or nullcontext(), sdpa_kernel(SDPBackend.MATH), counter:
        model(**given)
    return int(counter.get_total_flops())


def shares_of_bare(times: Mapping[str, Sequence[float]], counts: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """The share of bare of every other case, and the floor of those whose operations were counted.

    Args:
        times: of the rounds, of bare among the others.
        counts: the operations of cases, of bare among them.
    """
    return {
        "of_bare": {case: ratio(times[BARE], took) for case, took in times.items() if case != BARE},
        "floor_of_bare": {case: counts[BARE] / count for case, count in counts.items() if case != BARE},
    }
