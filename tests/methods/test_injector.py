"""What the Injector is built of, its initial values and attribute dropout; the equations are in tests/parity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hosts import make_host
from tiny_models import at_random
from torch import Tensor

from attribune.errors import ConfigError
from attribune.methods import Injector, generators
from attribune.methods.base import Method
from attribune.methods.condition import Slots
from attribune.methods.generators import build_generator, check_memory

USER = Slots(name="user", start=0, count=1, size=5)
TAGS = Slots(name="tags", start=1, count=3, size=7)
SLOTS = [USER, TAGS]
FORMS = [(low_rank, phm) for low_rank in (True, False) for phm in (True, False)]


def build(hidden: int = 48, sites: int = 1, slots: list[Slots] = SLOTS, **settings: Any) -> Method:
    return Injector(**{"bottleneck": 7, "vector_size": 5, **settings}).build(
        make_host(hidden=hidden, sites=sites, slots=slots, outputs=2)
    )


# Settings


def test_no_attributes() -> None:
    with pytest.raises(
        ConfigError, match="the schema has no attribute; name at least one, or use a method that reads none"
    ):
        Injector().build(make_host(hidden=48, sites=1, slots=[], outputs=2))


@pytest.mark.parametrize(
    ("hidden", "O", "fitting"),
    [
        (768, 6, "1, 2, 4, 8, 16"),
        (48, 3, "1, 2, 4"),
        (384, 5, "1, 2, 4, 8"),
        (63, 4, "1, 3"),
        (7, 2, "1"),
        (48, 100, "1, 2, 4"),
        (49, 4, "1, 7"),
    ],
)
def test_hidden_size_not_divisible(hidden: int, O: int, fitting: str) -> None:
    wrong = rf"hypercomplex is {O}.*hidden size {hidden} is not divisible by {O}² = {O**2}.*choose one of {fitting}$"
    with pytest.raises(ConfigError, match=wrong):
        build(hidden=hidden, hypercomplex=O)
    for fits in map(int, fitting.split(", ")):
        build(hidden=hidden, hypercomplex=fits)


def test_hypercomplex_is_not_read_without_phm_or_weight_injection() -> None:
    build(hidden=47, hypercomplex=6, phm=False)
    build(hidden=47, hypercomplex=6, weight_injection=False)


@pytest.mark.parametrize(("phm", "each"), [(True, 7 * 48 * 5 // 4), (False, 7 * 48 * 5)])
def test_generators_that_do_not_fit_in_memory(phm: bool, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused with the figure: 16 bytes for each number of each site and attribute."""
    needed = 16 * each * 3 * 2
    for memory, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(generators, "_largest_memory", lambda memory=memory: memory)
        if fits:
            method = build(sites=3, low_rank=False, phm=phm)
            numbers = sum(site.attributes[j].g.sigma.numel() for site in method.sites for j in range(2))
            assert numbers == each * 3 * 2
        else:
            with pytest.raises(
                ConfigError, match=rf"GiB to train \({each:,} numbers for each of 6 .* turn low_rank on"
            ):
                build(sites=3, low_rank=False, phm=phm)


def test_memory_is_not_asked_where_nothing_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "_largest_memory", lambda: 0)
    build(low_rank=True)
    build(low_rank=False, weight_injection=False)
    with torch.device("meta"):
        build(low_rank=False)


def test_memory_of_the_machine() -> None:
    with pytest.raises(ConfigError, match=r"need [\d.]+ GiB to train .*the machine has [\d.]+ GiB"):
        check_memory(Injector(low_rank=False, phm=False, vector_size=10**9), hidden=768, copies=24)


# What it is made of


def names(method: Method) -> set[str]:
    return {name.removeprefix("sites.0.") for name, _ in method.named_parameters()}


TASK = {"task.W_down", "task.b_down", "task.W_up", "task.b_up"}
COMMON = {"tables.0", *(f"attributes.0.{name}" for name in ("W_down", "b_down", "W_up", "b_up"))}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, TASK | {"attributes.0.G", "attributes.0.g.sigma", "attributes.0.g.s", "attributes.0.g.A_o"}),
        ({"task_adapter": False, "phm": False}, {"attributes.0.G", "attributes.0.g.sigma", "attributes.0.g.s"}),
        ({"weight_injection": False}, TASK | {"attributes.0.G"}),
        ({"bias_injection": False, "low_rank": False}, TASK | {"attributes.0.g.sigma", "attributes.0.g.A_o"}),
        ({"low_rank": False, "phm": False}, TASK | {"attributes.0.G", "attributes.0.g.sigma"}),
        ({"aggregation": "pre", "weight_injection": False, "task_adapter": False}, {"attributes.0.G"}),
    ],
)
def test_every_switch_builds_exactly_its_parameters(settings: dict[str, Any], expected: set[str]) -> None:
    assert names(build(slots=[USER], **settings)) == COMMON | expected


def test_one_table_per_attribute_shared_by_all_sites() -> None:
    method = build(sites=3)
    assert [tuple(table.shape) for table in method.tables] == [(5, 5), (7, 5)]
    assert len(method.sites) == 3
    assert len({id(p) for p in method.parameters()}) == 2 + 3 * (4 + 2 * (4 + 1 + 3))


# Initial values


def test_initial_values() -> None:
    method = build(hidden=160, bottleneck=61, vector_size=67, slots=[Slots(name="u", start=0, count=1, size=211)])
    table, adapter = method.tables[0].detach(), method.sites[0].attributes[0]
    assert not table[0].any(), "id 0 starts at zero"
    assert float(table[1:].std()) == pytest.approx(0.02, rel=0.05)
    for projection in (adapter.G, adapter.g.sigma):
        assert float(projection.detach().std()) == pytest.approx(1, rel=0.05)
    for name in ("W_down", "W_up"):
        weight = getattr(adapter, name).detach()
        assert float(weight.abs().max()) <= 0.02
        assert float(weight.std()) == pytest.approx(0.008796, rel=0.05)
    assert not adapter.b_down.any()
    assert not adapter.b_up.any()


@pytest.mark.slow
@pytest.mark.parametrize(("low_rank", "phm"), FORMS)
@pytest.mark.parametrize("initial_weight", [0.01, 0.05])
def test_initial_weight_is_the_standard_deviation_of_what_is_generated(
    initial_weight: float, low_rank: bool, phm: bool
) -> None:
    config = Injector(
        bottleneck=11,
        vector_size=13,
        low_rank=low_rank,
        phm=phm,
        initial_weight=initial_weight,
        initial_projection=0.7,
    )
    squares = []
    for _ in range(60):
        g = build_generator(config, hidden=48)
        of_size_one = torch.randn(7, 13) * 13**-0.5 / config.initial_projection
        squares.append(g(of_size_one, torch.eye(7)).detach().square().mean())
    assert float(torch.stack(squares).mean().sqrt()) == pytest.approx(initial_weight, rel=0.15)


# Attribute dropout


def randomised(**settings: Any) -> Method:
    return at_random(build(**settings), size=0.7).double()


def outputs(method: Method, ids: Tensor, h: Tensor) -> Tensor:
    return method.sites[0](h, method.condition(ids, len(ids))).detach()


def test_dropped_is_the_same_as_missing() -> None:
    """In training each row is, exactly, one of the four rows with some attributes hidden; nothing is rescaled."""
    method = randomised(attribute_dropout=0.5).train()
    n = 400
    ids, h = torch.tensor([[1, 2, 3, 6]]).expand(n, -1), torch.randn(1, 2, 48, dtype=torch.float64)
    seen = outputs(method, ids, h.expand(n, -1, -1))
    method.eval()
    hidden = torch.tensor([[1, 2, 3, 6], [0, 2, 3, 6], [1, 0, 0, 0], [0, 0, 0, 0]])
    possible = outputs(method, hidden, h.expand(4, -1, -1))
    distances = (seen[:, None] - possible[None]).abs().amax(dim=(2, 3))
    assert bool((distances.min(dim=1).values < 1e-10).all())
    share = torch.bincount(distances.argmin(dim=1), minlength=4) / n
    assert bool((share > 0.15).all()), "each of the four happens"
