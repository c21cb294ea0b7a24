"""Every kind of method on a pretended second device, where tensors of two devices do not mix, and in a recording."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import lab_methods
import pytest
import second_device
import torch
from families import WORD_FAMILIES, tiny_backbone
from tiny_models import CLASSES, make_batch, make_schema
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attribune.backbones.families import placement_for
from attribune.methods import METHODS, Chim, Combined, E2ln, Injector, Maa, MethodConfig, Pln, Upa
from attribune.models.model import AttributeModel
from attribune.tasks import Classification

OTHERS: dict[str, MethodConfig] = {
    "injector exact": Injector(initial_projection=9.0),
    "injector full": Injector(phm=False, low_rank=False, bottleneck=5),
    "pln mlp": Pln(vector_sizes=(13, 7), fusion="mlp"),
    "e2ln pooled by attention": E2ln(summary_pooling="attention"),
    "maa small": Maa(layers=2),
    "chim attention": Chim(places=("attention",)),
    "injector+upa": Combined(parts=(Injector(), Upa())),
}
CASES: dict[str, MethodConfig] = {name: kind() for name, kind in METHODS.items()} | OTHERS
FAMILIES = ("bert", *(name for name in ("word-hierarchical", "word-tang-cnn") if name in WORD_FAMILIES))


def model_of(name: str) -> AttributeModel:
    """A model of the first family that the method acts in."""
    config = CASES[name]
    family = next(family for family in FAMILIES if config.refusal(placement_for(family)) is None)
    backbone = tiny_backbone(family, options=lab_methods.NEEDS.get(name))
    return AttributeModel.build(backbone, make_schema(2), task=Classification(classes=CLASSES), method=config)


def batch() -> dict[str, Tensor]:
    return make_batch(2) | {"labels": torch.tensor([0, 1, 2, 1])}


EVERY_CASE = [pytest.param(name, marks=pytest.mark.exhaustive if name in OTHERS else []) for name in CASES]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", EVERY_CASE)
def test_learns_and_predicts_on_another_device_as_on_the_cpu(name: str) -> None:
    model, given = model_of(name).eval(), batch()
    expected = model(**given)
    expected.loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with second_device.second_device() as device:
        model.to(device)
        with torch.backends.cudnn.flags(allow_tf32=False):  # by default it rounds float32 in convolutions and LSTMs
            found = model(**{name: x.to(device) for name, x in given.items()})
            found.loss.backward()
        assert found.logits.device == device
        within = {"rtol": 1e-4, "atol": 1e-5}  # a GPU adds in another order
        torch.testing.assert_close(found.logits.cpu(), expected.logits, **within)
        grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert {grad.device for grad in grads.values()} == {device}
        torch.testing.assert_close({name: grad.cpu() for name, grad in grads.items()}, gradients, **within)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            assert model.train()(**{name: x.to(device) for name, x in given.items()}).loss.isfinite()


@pytest.mark.skipif(bool(os.environ.get("ATTRIBUNE_SECOND_DEVICE")), reason="it is a real one")
def test_the_pretended_device_refuses_what_a_gpu_refuses() -> None:
    with second_device.second_device() as device:
        there = torch.ones(2, 3, device=device)
        assert torch.arange(3, device=there.device).device == device
        with pytest.raises(RuntimeError, match="expected all tensors to be on the same device"):
            there + torch.ones(3)
        with pytest.raises(TypeError, match=r"use Tensor\.cpu\(\) first"):
            there.numpy()
        assert there[torch.tensor([1])].cpu().tolist() == [[1, 1, 1]]
        assert (there * torch.tensor(2.0)).sum().item() == 12


class Recording(TorchDispatchMode):
    """Refuses what the recording of a CUDA graph refuses: to ask the device for a number."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name.startswith(("_local_scalar_dense", "_unique", "unique", "nonzero", "equal", "is_nonzero")):
            raise RuntimeError(f"{name} in a recording")
        return func(*args, **(kwargs or {}))


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("upnn", "huapa", "iaa")])  # find sentences
def test_a_prediction_can_be_recorded_in_a_graph(name: str) -> None:
    model, given = model_of(name).eval(), batch()
    del given["labels"]
    recorded = {"is_initialized": lambda: True, "is_current_stream_capturing": lambda: True}
    with torch.inference_mode():
        expected = model(**given).logits
        with mock.patch.multiple(torch.cuda, **recorded), Recording():
            found = model(**given).logits
    torch.testing.assert_close(found, expected)
