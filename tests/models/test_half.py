"""Predictions in bf16 read copies of the backbone's weights in bf16, and not autocast's of every pass."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from families import WORD_FAMILIES, tiny_backbone
from tiny_models import CLASSES, make_batch, make_schema
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attribune.methods import METHODS
from attribune.models.half import HalfBackbone
from attribune.models.model import AttributeModel
from attribune.tasks import Classification


def model_of(family: str = "bert", method: str = "pln") -> AttributeModel:
    torch.manual_seed(0)
    model = AttributeModel.build(
        tiny_backbone(family),
        make_schema(2),
        task=Classification(classes=CLASSES),
        method=METHODS[method](),
        dropout=0.0,
    )
    return model.eval()


def logits_of(model: AttributeModel, half: HalfBackbone, batch: Mapping[str, Tensor]) -> Tensor:
    with torch.inference_mode(), half.in_place():
        found: Tensor = model(**batch).logits
    return found


class Casts(TorchDispatchMode):
    """Counts the numbers that are cast."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.sizes[str(tuple(args[0].shape))] += 1
        return func(*args, **kwargs or {})


def test_no_weight_of_the_backbone_is_cast_in_a_pass() -> None:
    model, batch = model_of(), make_batch(2)
    half = HalfBackbone(model)
    logits_of(model, half, batch)
    matrices = {str(tuple(p.shape)) for p in model.backbone.parameters() if p.dim() == 2}
    with torch.no_grad(), half.in_place(), Casts() as casts:
        model(**batch)
    assert not matrices & casts.sizes.keys()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), Casts() as casts:
        model(**batch)
    assert matrices & casts.sizes.keys(), "autocast casts them"


def test_the_weights_are_back_after_a_pass_and_after_one_that_failed() -> None:
    model, batch = model_of(), make_batch(2)
    before = dict(model.named_parameters())
    half = HalfBackbone(model)
    logits_of(model, half, batch)
    with pytest.raises(RuntimeError, match="index"), torch.inference_mode(), half.in_place():
        raise RuntimeError("index out of range")
    assert all(p is before[name] for name, p in model.named_parameters())
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_changed_weights_are_rounded_anew() -> None:
    model, batch = model_of(), make_batch(2)
    half = HalfBackbone(model)
    before = logits_of(model, half, batch)
    assert torch.equal(before, logits_of(model, half, batch))
    with torch.no_grad():
        model.backbone.get_input_embeddings().weight.mul_(2)
    changed = logits_of(model, half, batch)
    assert not torch.equal(before, changed)
    assert torch.equal(changed, logits_of(model, HalfBackbone(model), batch))


def test_what_a_fused_optimiser_changed_is_rounded_anew() -> None:
    torch.manual_seed(0)
    task = Classification(classes=CLASSES)
    model = AttributeModel.build(
        tiny_backbone("bert"), make_schema(2), task=task, method=METHODS["pln"](), tuning="full"
    )
    batch = make_batch(2)
    half = HalfBackbone(model.eval())
    before = logits_of(model, half, batch)
    optimizer = torch.optim.AdamW(model.backbone.parameters(), lr=0.1, fused=True)
    model.train()(**batch, labels=torch.tensor([0, 1, 2, 1])).loss.backward()
    optimizer.step()
    assert not torch.allclose(logits_of(model.eval(), half, batch), before, atol=0.01)


def test_weights_that_layers_share_are_copied_once() -> None:
    model = model_of("albert")  # which runs one layer several times
    own = {p.data_ptr() for p in model.backbone.parameters()}
    with torch.inference_mode(), HalfBackbone(model).in_place():
        copies = list(model.backbone.parameters())
    assert {p.dtype for p in copies} == {torch.bfloat16}
    assert len({p.data_ptr() for p in copies}) == len(own)


@pytest.mark.parametrize("family", ["deberta", *WORD_FAMILIES[:1]])
def test_families_that_mix_precisions_have_none(family: str) -> None:
    assert not HalfBackbone.is_possible(model_of(family, "none"))


def test_a_pickled_one_has_no_copies() -> None:
    model = model_of()
    half = HalfBackbone(model)
    logits_of(model, half, make_batch(2))
    assert len(pickle.dumps((model, half))) < len(pickle.dumps(model)) + 200
