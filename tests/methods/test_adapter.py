"""Initial values of the adapter, and how methods stand in a backbone; the equation is in tests/parity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hosts import make_host
from torch import nn
from transformers import PreTrainedModel

from attribune.methods import Adapter, Host, Plain
from attribune.methods.adapter import truncated_normal_
from attribune.methods.base import Method
from attribune.methods.condition import Condition, Slots

Factory = Callable[..., PreTrainedModel]


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


# In the backbone


def installed(backbone: PreTrainedModel) -> Method:
    method = Adapter(bottleneck=7).build(Host.of(backbone, slots=(), outputs=2))
    method.install(backbone)
    return method


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
