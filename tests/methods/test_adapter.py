"""The settings of the adapter and how methods stand in a backbone; the equation is in tests/parity."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hosts import make_host
from pydantic import ValidationError
from torch import nn
from transformers import PreTrainedModel

from attribune.errors import ConfigError
from attribune.methods import Adapter, Host, Plain
from attribune.methods.adapter import truncated_normal_
from attribune.methods.base import Method
from attribune.methods.condition import Condition, Slots

Factory = Callable[..., PreTrainedModel]


@pytest.mark.parametrize("option", ["bottleneck", "initial_scale"])
@pytest.mark.parametrize("value", [0, -1])
def test_bad_values(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"adapter: {option} is {value}, it must be above 0"):
        Adapter(**{option: value})


def test_settings_are_keyword_only_and_frozen() -> None:
    with pytest.raises(TypeError):
        Adapter(64)  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        Adapter().bottleneck = 3  # type: ignore[misc]


def test_norms_learn_unless_told_otherwise() -> None:
    assert Adapter.default_tuning == "layernorm"
    assert not Adapter.uses_attributes


def test_initial_values() -> None:
    """N(0, 0.01²) truncated at two standard deviations, biases zero (Houlsby et al. 2019, section 2.1 and 3.6)."""
    method = Adapter(bottleneck=61, initial_scale=0.01).build(make_host(hidden=211, sites=2, slots=(), outputs=2))
    for name, parameter in method.named_parameters():
        if "b_" in name:
            assert not parameter.any()
        else:
            assert float(parameter.detach().abs().max()) <= 0.02
            # The standard deviation of a normal truncated at two is 0.8796 of the whole one's.
            assert float(parameter.detach().std()) == pytest.approx(0.008796, rel=0.03)
    assert not torch.equal(method.sites[0].W_down, method.sites[1].W_down)


def test_truncation_follows_the_scale() -> None:
    parameter = truncated_normal_(nn.Parameter(torch.empty(101, 103)), 3.0)
    assert 5.5 < float(parameter.detach().abs().max()) <= 6.0


def test_starts_near_the_identity() -> None:
    site = Adapter(bottleneck=61).build(make_host(hidden=211, sites=1, slots=(), outputs=2)).sites[0]
    h = torch.randn(2, 5, 211)
    assert 0 < float((site(h) - h).detach().norm() / h.norm()) < 0.01


# In the backbone


def run(
    method: Method, backbone: nn.Module, ids: torch.Tensor, attribute_ids: torch.Tensor | None = None
) -> torch.Tensor:
    with method.holder.use(method.condition(attribute_ids, len(ids))):
        return backbone(input_ids=ids).last_hidden_state


def installed(backbone: PreTrainedModel, scale: float = 0.3) -> Method:
    method = Adapter(bottleneck=7, initial_scale=scale).build(Host.of(backbone, slots=(), outputs=2))
    method.install(backbone)
    return method


def test_each_site_gets_its_own_module(tiny_backbone: Factory) -> None:
    """Each alone changes the output, and in its own way."""
    ids, outputs = torch.randint(5, 101, (2, 7)), []
    for number in range(4):
        backbone = tiny_backbone("bert")
        plain = backbone(input_ids=ids).last_hidden_state
        method = installed(backbone)
        for other, site in enumerate(method.sites):
            for parameter in site.parameters():
                torch.nn.init.normal_(parameter, std=0.3 if other == number else 0.0)
        outputs.append(run(method, backbone, ids) - plain)
    assert all(float(change.detach().abs().max()) > 1e-3 for change in outputs)
    assert len({round(float(change.detach().norm()), 3) for change in outputs}) == 4


def test_zero_adapters_are_the_backbone(tiny_backbone: Factory) -> None:
    ids, backbone = torch.randint(5, 101, (2, 7)), tiny_backbone("bert")
    plain = backbone(input_ids=ids).last_hidden_state
    method = installed(backbone)
    for parameter in method.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(run(method, backbone, ids), plain)


def test_the_plain_method_leaves_the_backbone_alone(tiny_backbone: Factory) -> None:
    ids, backbone = torch.randint(5, 101, (2, 7)), tiny_backbone("bert")
    plain = backbone(input_ids=ids).last_hidden_state
    slots = [Slots(name="u", start=0, count=1, size=3)]
    method = Plain().build(Host.of(backbone, slots=slots, outputs=2))
    method.install(backbone)
    assert list(method.parameters()) == []
    assert not [m for m in backbone.modules() if m._forward_hooks]
    assert torch.equal(backbone(input_ids=ids).last_hidden_state, plain)
    assert method.condition(torch.ones(2, 1, dtype=torch.int64), 2) == Condition(rows=2, values=())


def test_a_call_past_the_model_is_refused(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    installed(backbone)
    with pytest.raises(RuntimeError, match="call the AttributeModel itself"):
        backbone(input_ids=torch.randint(5, 101, (2, 7)))


def test_a_folded_batch_is_refused(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    method = installed(backbone)
    with method.holder.use(method.condition(None, 3)), pytest.raises(RuntimeError, match="in a batch of 3 rows"):
        backbone(input_ids=torch.randint(5, 101, (2, 7)))


def test_a_copy_hooks_its_own_backbone(tiny_backbone: Factory) -> None:
    """Changing the copy leaves the original as it was, and the copy obeys its own adapters."""
    pair = nn.Module()
    pair.backbone = tiny_backbone("bert")
    pair.method = installed(pair.backbone)
    ids = torch.randint(5, 101, (2, 7))
    before = run(pair.method, pair.backbone, ids)
    twin = copy.deepcopy(pair)
    assert torch.equal(run(twin.method, twin.backbone, ids), before)
    for parameter in twin.method.parameters():
        torch.nn.init.zeros_(parameter)
    assert not torch.equal(run(twin.method, twin.backbone, ids), before)
    assert torch.equal(run(pair.method, pair.backbone, ids), before)


class _Echo(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.clone()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_site_works_in_its_own_precision_and_answers_in_that_of_the_backbone(dtype: torch.dtype) -> None:
    backbone = nn.Sequential(_Echo())
    method = Adapter(bottleneck=5, initial_scale=0.3).build(make_host(hidden=7, sites=1, slots=(), outputs=2))
    method.install(backbone)
    h = torch.randn(2, 3, 7).to(dtype)
    seen: list[torch.dtype] = []
    method.sites[0].register_forward_pre_hook(lambda _m, args: seen.append(args[0].dtype))
    with method.holder.use(Condition(rows=2, values=())):
        output = backbone(h)
    assert seen == [torch.float32]
    assert output.dtype == dtype
    assert torch.equal(output, method.sites[0](h.float()).to(dtype))


@pytest.mark.parametrize("shape", [(2, 7), (2, 3, 4, 7)])
def test_a_tensor_that_is_not_hidden_states_is_refused(shape: tuple[int, ...]) -> None:
    backbone: Any = nn.Sequential(_Echo())
    method = Adapter(bottleneck=5).build(make_host(hidden=7, sites=1, slots=(), outputs=2))
    method.install(backbone)
    with method.holder.use(Condition(rows=2, values=())), pytest.raises(RuntimeError, match="site 0 saw a tensor"):
        backbone(torch.randn(shape))
