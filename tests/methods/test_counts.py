"""Numbers of parameters at the BERT-base shape against the figures of the papers, without any weight in memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from attribune.backbones.families import placement_for
from attribune.backbones.loading import build_backbone
from attribune.backbones.tuning import tune_backbone
from attribune.methods import Adapter, Host, Injector, Plain
from attribune.methods.base import Method
from attribune.methods.condition import Slots
from attribune.methods.config import MethodConfig

PAPER = Injector(bottleneck=64, hypercomplex=4, vector_size=768)
TASK_ADAPTERS = 2_379_264
EACH_ATTRIBUTE = 8_283_648
ENCODER = 85_054_464
POOLER = 768 * 768 + 768


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    with torch.device("meta"):
        return build_backbone(BertConfig())


def method_on(bert: nn.Module, config: MethodConfig, attributes: int = 0) -> Method:
    slots = [Slots(name=f"a{j}", start=j, count=1, size=1_000 + j) for j in range(attributes)]
    with torch.device("meta"):
        return config.build(Host.of(bert, slots=slots, outputs=2))


def count(module: nn.Module, *, without: str | None = None) -> int:
    return sum(p.numel() for name, p in module.named_parameters() if without is None or not name.startswith(without))


def test_encoder(bert: nn.Module) -> None:
    assert count(bert, without="embeddings") == ENCODER
    with torch.device("meta"):
        with_pooler = BertModel(BertConfig())
    assert count(with_pooler, without="embeddings") == ENCODER + POOLER
    assert count(with_pooler) == 109_482_240


def test_adapter(bert: nn.Module) -> None:
    """2md + d + m at each of two sites in twelve layers (Houlsby et al. 2019, section 2.1)."""
    adapter = method_on(bert, Adapter(bottleneck=64))
    assert count(adapter) == 24 * (2 * 64 * 768 + 768 + 64) == TASK_ADAPTERS
    assert count(method_on(bert, Plain())) == 0


def test_layernorm_tuning(bert: nn.Module) -> None:
    tune_backbone(bert, placement_for("bert"), "layernorm")
    assert sum(p.numel() for p in bert.parameters() if p.requires_grad) == 24 * 2 * 768
    tune_backbone(bert, placement_for("bert"), "frozen")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attributes", "trained_millions", "all_millions", "percent"),
    [(1, 10.66, 96.3, 11.1), (2, 18.95, 104.6, 18.1), (3, 27.23, 112.9, 24.1), (4, 35.51, 121.2, 29.3)],
)
def test_injector(
    bert: nn.Module, attributes: int, trained_millions: float, all_millions: float, percent: float
) -> None:
    """Trained without tables and classifier; all with BERT's pooler, as the figures of the paper for 2 and 4."""
    method = method_on(bert, PAPER, attributes)
    assert count(method.tables) == sum((1_000 + j) * 768 for j in range(attributes))
    assert sum(count(site.task) for site in method.sites) == TASK_ADAPTERS
    for j in range(attributes):
        assert sum(count(site.attributes[j]) for site in method.sites) == EACH_ATTRIBUTE
    trained = count(method, without="tables")
    assert trained == TASK_ADAPTERS + attributes * EACH_ATTRIBUTE
    whole = count(bert, without="embeddings") + POOLER + trained
    found = round(trained / 1e6, 2), round(whole / 1e6, 1), round(100 * trained / whole, 1)
    assert found == (trained_millions, all_millions, percent)


def test_savings_of_the_generator(bert: nn.Module) -> None:
    """192 times fewer than one full linear map (Injectors, section 5 and appendix A.4)."""
    g = method_on(bert, PAPER, 1).sites[0].attributes[0].g
    assert 768 * 768 * 64 / g.sigma.numel() == 192
    assert round(768 * 768 * 64 / count(g), 2) == 191.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low_rank", "phm", "expected"),
    [
        (True, True, 4 * (768 * 64 + 48 + 16)),
        (True, False, 768 * 64 + 768),
        (False, True, 4 * (768 * 64 * 48 + 16)),
        (False, False, 768 * 768 * 64),
    ],
)
def test_every_form_of_the_generator(bert: nn.Module, low_rank: bool, phm: bool, expected: int) -> None:
    config = Injector(vector_size=768, low_rank=low_rank, phm=phm)
    assert count(method_on(bert, config, 1).sites[0].attributes[0].g) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "fewer"),
    [
        ({"task_adapter": False}, TASK_ADAPTERS),
        ({"bias_injection": False}, 2 * 24 * 64 * 768),
        ({"weight_injection": False}, 2 * 24 * 4 * (768 * 64 + 48 + 16)),
        ({"aggregation": "pre"}, 0),
    ],
)
def test_a_switch_turned_off_leaves_nothing_behind(bert: nn.Module, settings: dict[str, object], fewer: int) -> None:
    whole = TASK_ADAPTERS + 2 * EACH_ATTRIBUTE
    assert count(method_on(bert, Injector(vector_size=768, **settings), 2), without="tables") == whole - fewer
