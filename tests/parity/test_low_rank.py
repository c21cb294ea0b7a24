"""Low-rank adaptation with attributes, `plora` and `modulated`, against loops written from the equations, in float64.

The equation of `plora` is that of Zhang et al. 2024; the other one has a scale of the inner features in front. In a
whole backbone, forward hooks written here put numbers of the loops in the place of what a projection made of its input.
Where the projections stand in a family is written down here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from layer_parts import PARTS, changed_backbone, sites_of, states_of, states_of_backbone
from slow_layers import added, assert_apart, assert_same, draw, matrix_times
from tiny_models import (
    NUMBERS,
    assert_starts_as_plain,
    at_random,
    exactly,
    make_batch,
    make_model,
    row_vectors,
)
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import MethodConfig, Modulated, Plora

Row = list[float]

FAMILIES = ("bert", "gpt2", "deberta-v2", "llama")


# The paper, slowly


def slow_change(
    x: Row, e: list[Row], A: list[Row], P: list[list[Row]], B: list[Row], scale: float, M: list[list[Row]] | None = None
) -> Row:
    """(alpha / r) B ((1 + sum_j M_j a_j) ⊙ (A x) + sum_j P_j a_j), without M that of PLoRA."""
    inner = matrix_times(A, x)
    if M is not None:
        factors = added([1.0] * len(A), *(matrix_times(M_j, a_j) for M_j, a_j in zip(M, e, strict=True)))
        inner = [factor * number for factor, number in zip(factors, inner, strict=True)]
    for P_j, a_j in zip(P, e, strict=True):
        inner = added(inner, matrix_times(P_j, a_j))
    return [scale * number for number in matrix_times(B, inner)]


def split(P: list[Row], sizes: Sequence[int]) -> list[list[Row]]:
    """The P_j, which the library keeps side by side."""
    assert sum(sizes) == len(P[0])
    ends = [sum(sizes[: j + 1]) for j in range(len(sizes))]
    return [[row[end - size : end] for row in P] for end, size in zip(ends, sizes, strict=True)]


def changer(site: nn.Module, sizes: Sequence[int], scale: float) -> Callable[[Row, list[Row]], Row]:
    p = {name: parameter.tolist() for name, parameter in site.named_parameters()}
    M = split(p["M"], sizes) if "M" in p else None
    return lambda x, e: slow_change(x, e, p["A"], split(p["P"], sizes), p["B"], scale, M)


def check(
    family: str,
    config: MethodConfig,
    batch: dict[str, Tensor],
    *,
    attributes: int = 2,
    compare: Callable[[Tensor, Tensor], None] = assert_same,
    fused_start: int | None = None,
    relative: bool = False,
) -> None:
    """The last states are those of a plain backbone whose queries and values are changed by loops.

    Mistakes: ``fused_start``, where the model's values of the first layer start; ``relative``, see `changed_backbone`.
    """
    model, parts = exactly(make_model(family, config, attributes=attributes)), PARTS[family]
    at_random(model.method, size=0.5)
    tables = list(model.method.tables)
    sites = sites_of(model)
    kinds = ("q_proj", "v_proj")
    assert set(sites) == {(parts.path(layer, kind), parts.starts.get(kind, 0)) for layer in (0, 1) for kind in kinds}
    sizes = [table.shape[1] for table in tables]
    changes = {place: changer(site, sizes, 5 / 3) for place, site in sites.items()}
    vectors = row_vectors(tables, model.slots, batch["attribute_ids"])
    backbone = changed_backbone(family, changes, vectors, relative=relative)
    if fused_start is not None:
        model.method.acts_at[1] = replace(model.method.acts_at[1], start=fused_start)
    compare(states_of(model, batch), states_of_backbone(backbone, batch))


CONFIG = Plora(rank=3, alpha=5.0, vector_size=4)
CONFIGS = [CONFIG, Modulated(rank=3, alpha=5.0, vector_size=4)]
BOTH = pytest.mark.parametrize("config", CONFIGS, ids=["plora", "modulated"])


# The function


@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize(("inputs", "features", "r", "Z"), [(7, 5, 3, 2), (5, 7, 2, 3), (4, 4, 4, 4), (3, 2, 1, 1)])
def test_function(inputs: int, features: int, r: int, Z: int, M: int) -> None:
    """With as many rows as tokens and features, which would let a wrong broadcast pass."""
    output, x, attributes = draw(4, 4, features), draw(4, 4, inputs), [draw(4, Z) for _ in range(M)]
    attributes[0][1] = 0  # a missing value
    A, P, B = draw(r, inputs), [draw(r, Z) for _ in range(M)], draw(features, r)
    scales = [draw(r, Z) for _ in range(M)]
    a = torch.cat(attributes, dim=1)
    plain = functional.personalised_low_rank(output, x, a, A, torch.cat(P, dim=1), B, scale=1.7)
    modulated = functional.modulated_low_rank(
        output, x, a, A, torch.cat(scales, dim=1), torch.cat(P, dim=1), B, scale=1.7
    )
    assert plain.shape == modulated.shape == output.shape
    for row in range(4):
        e, given = [a[row].tolist() for a in attributes], (A.tolist(), [p.tolist() for p in P], B.tolist(), 1.7)
        for found, M_j in ((plain, None), (modulated, [m.tolist() for m in scales])):
            changes = [slow_change(token, e, *given, M_j) for token in x[row].tolist()]
            expected = output[row] + torch.tensor(changes, dtype=torch.float64)
            assert_same(found[row], expected)


# Whole backbones


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_whole_backbone(family: str, config: MethodConfig) -> None:
    check(family, config, make_batch(2))


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("M", NUMBERS)
@BOTH
def test_rows(config: MethodConfig, M: int, padding: str) -> None:
    """Several values, one twice, none."""
    check("bert", config, make_batch(M, padding=padding), attributes=M)


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_single_row(family: str, row: int) -> None:
    check(family, CONFIG, make_batch(2, rows=(row,)))


def test_a_single_row_as_long_as_the_relative_positions() -> None:
    """One row of 26 tokens looks just like DeBERTa's 2 · 13 relative positions."""
    model = make_model("deberta-v2", CONFIG)
    batch = {
        "input_ids": torch.randint(5, 101, (1, 26)),
        "attention_mask": torch.ones(1, 26, dtype=torch.int64),
        "attribute_ids": torch.tensor([[3, 2, 0, 1]]),
    }
    seen = []
    query = model.backbone.encoder.layer[0].attention.self.query_proj
    query.register_forward_hook(lambda _module, args, _output: seen.append(tuple(args[0].shape)))
    model(**batch)
    assert seen == [(1, 26, 48), (1, 26, 48)]
    check("deberta-v2", CONFIG, batch)
    check("deberta-v2", CONFIG, batch, relative=True, compare=assert_apart)


# The start


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("config", [Plora(), Modulated()])
@pytest.mark.parametrize("family", FAMILIES)
def test_starts_as_the_plain_model_to_the_last_bit(family: str, config: MethodConfig, tmp_path: Path) -> None:
    zero = assert_starts_as_plain(family, config, folder=tmp_path)
    assert zero == {"tables.0", "tables.1", *(f"sites.{i}.B" for i in range(4))}


@pytest.mark.parametrize("config", [Plora(), Modulated()])
def test_the_vectors_learn_from_the_second_step(config: MethodConfig) -> None:
    """B alone has a gradient at first; A, M, P and the vectors of what was seen follow once it has moved."""
    model, batch = make_model("bert", config), {**make_batch(2), "labels": torch.tensor([0, 1, 2, 0])}
    moved = []
    for _ in range(2):
        model.zero_grad()
        model(**batch).loss.backward()
        parameters = dict(model.method.named_parameters())
        moved.append({name for name, p in parameters.items() if p.grad is not None and bool(p.grad.any())})
        with torch.no_grad():
            for parameter in parameters.values():
                parameter -= 0.1 * parameter.grad
    assert moved[0] == {f"sites.{i}.B" for i in range(4)}
    # M and P stand before vectors that are zero still.
    assert moved[1] == {f"sites.{i}.{name}" for i in range(4) for name in "AB"} | {"tables.0", "tables.1"}
    tables = model.method.tables
    assert [{i for i, row in enumerate(t.grad) if bool(row.any())} for t in tables] == [{1, 2, 3, 4, 5}, {1, 3}]


# Planted mistakes


RIGHT, RIGHT_MODULATED = functional.personalised_low_rank, functional.modulated_low_rank
WRONG: dict[str, Callable[..., Tensor]] = {
    "no scale": lambda output, x, a, A, P, B, scale: RIGHT(output, x, a, A, P, B, scale=1.0),
    "without A x": lambda output, x, a, A, P, B, scale: RIGHT(output, 0 * x, a, A, P, B, scale=scale),
    "without the attributes": lambda output, x, a, A, P, B, scale: RIGHT(output, x, 0 * a, A, P, B, scale=scale),
    "one P for all attributes": lambda output, x, a, A, P, B, scale: RIGHT(
        output, x, a, A, P.tensor_split(2, dim=1)[0].repeat(1, 2), B, scale=scale
    ),
    "attributes in another order": lambda output, x, a, A, P, B, scale: RIGHT(
        output, x, a.roll(a.shape[1] // 2, dims=1), A, P, B, scale=scale
    ),
    "the output is adapted and not the input": lambda output, x, a, A, P, B, scale: RIGHT(
        output, output, a, A, P, B, scale=scale
    ),
}
WRONG_SCALES: dict[str, Callable[..., Tensor]] = {
    "none": lambda output, x, a, A, M, P, B, scale: RIGHT_MODULATED(output, x, a, A, 0 * M, P, B, scale=scale),
    "by P": lambda output, x, a, A, M, P, B, scale: RIGHT_MODULATED(output, x, a, A, P, M, B, scale=scale),
    "of the shift too": lambda output, x, a, A, M, P, B, scale: (
        output + scale * ((1 + a @ M.T).unsqueeze(1) * (x @ A.T + (a @ P.T).unsqueeze(1))) @ B.T
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", WRONG)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "personalised_low_rank", WRONG[mistake])
    check("bert", CONFIG, make_batch(2), compare=assert_apart)


@pytest.mark.parametrize("mistake", WRONG_SCALES)
def test_a_scale_of_the_wrong_side_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "modulated_low_rank", WRONG_SCALES[mistake])
    check("bert", CONFIGS[1], make_batch(2), compare=assert_apart)


def test_values_in_the_place_of_keys_in_a_fused_projection_are_seen() -> None:
    check("gpt2", CONFIG, make_batch(2), fused_start=48, compare=assert_apart)


def test_projections_by_name() -> None:
    model = make_model("bert", Modulated(target_modules=("k_proj", "o_proj")))
    assert {site.path.rpartition("attention.")[2] for site in model.method.acts_at} == {"self.key", "output.dense"}
    with pytest.raises(ConfigError, match="target_modules"):
        Modulated.from_dict({"target_modules": ["query"]})
