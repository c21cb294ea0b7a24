"""Low-rank adaptation with attributes, `plora` and `modulated`, against loops written from the equations, in float64.

The equation of `plora` is that of Zhang et al. 2024; the other one has a scale of the inner features in front. In a
whole backbone, forward hooks written here put numbers of the loops in the place of what a projection made of its input.
Where the projections stand in a family is written down here once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from families import tiny_backbone
from tiny_models import NUMBERS, at_random, exactly, make_batch, make_model, recorded, row_vectors
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import MethodConfig, Modulated, Plain, Plora
from attribune.models.model import AttributeModel

TOLERANCE = 1e-10
MISTAKE = 1e-3

Row = list[float]
Vectors = list[list[Row]]

PLACES: dict[str, list[tuple[str, int]]] = {  # queries and values of layer {}, and the first of the features changed
    "bert": [("encoder.layer.{}.attention.self.query", 0), ("encoder.layer.{}.attention.self.value", 0)],
    "gpt2": [("h.{}.attn.c_attn", 0), ("h.{}.attn.c_attn", 96)],
    "deberta-v2": [
        ("encoder.layer.{}.attention.self.query_proj", 0),
        ("encoder.layer.{}.attention.self.value_proj", 0),
    ],
    "llama": [("layers.{}.self_attn.q_proj", 0), ("layers.{}.self_attn.v_proj", 0)],
}


# The paper, slowly


def linear(matrix: Sequence[Row], x: Row) -> Row:
    return [sum(w * number for w, number in zip(row, x, strict=True)) for row in matrix]


def added(*vectors: Row) -> Row:
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def slow_change(
    x: Row, e: list[Row], A: list[Row], P: list[list[Row]], B: list[Row], scale: float, M: list[list[Row]] | None = None
) -> Row:
    """(alpha / r) B ((1 + sum_j M_j a_j) ⊙ (A x) + sum_j P_j a_j), without M that of PLoRA."""
    inner = linear(A, x)
    if M is not None:
        factors = added([1.0] * len(A), *(linear(M_j, a_j) for M_j, a_j in zip(M, e, strict=True)))
        inner = [factor * number for factor, number in zip(factors, inner, strict=True)]
    for P_j, a_j in zip(P, e, strict=True):
        inner = added(inner, linear(P_j, a_j))
    return [scale * number for number in linear(B, inner)]


def split(P: list[Row], sizes: Sequence[int]) -> list[list[Row]]:
    """The P_j, which the library keeps side by side."""
    assert sum(sizes) == len(P[0])
    ends = [sum(sizes[: j + 1]) for j in range(len(sizes))]
    return [[row[end - size : end] for row in P] for end, size in zip(ends, sizes, strict=True)]


def changer(site: nn.Module, sizes: Sequence[int], scale: float) -> Callable[[Row, list[Row]], Row]:
    p = {name: parameter.tolist() for name, parameter in site.named_parameters()}
    M = split(p["M"], sizes) if "M" in p else None
    return lambda x, e: slow_change(x, e, p["A"], split(p["P"], sizes), p["B"], scale, M)


class ProjectionByHand:
    """``W x + b`` and the changes of parts of it, for every token; of every second call only, where so told."""

    def __init__(self, vectors: Vectors, *, every_second: bool) -> None:
        self.vectors, self.every_second = vectors, every_second
        self.changes: list[tuple[int, Callable[[Row, list[Row]], Row]]] = []
        self.calls = 0

    def __call__(self, module: Any, args: tuple[Any, ...], _out: Tensor) -> Tensor | None:
        self.calls += 1
        if self.every_second and self.calls % 2 == 0:
            return None
        W = (module.weight if isinstance(module, nn.Linear) else module.weight.T).tolist()
        bias = [0.0] * len(W) if module.bias is None else module.bias.tolist()
        rows = []
        for x, e in zip(args[0].tolist(), self.vectors, strict=True):
            tokens = []
            for token in x:
                total = added(linear(W, token), bias)
                for start, change in self.changes:
                    for i, number in enumerate(change(token, e)):
                        total[start + i] += number
                tokens.append(total)
            rows.append(tokens)
        return torch.tensor(rows, dtype=torch.float64)


def by_hand(
    model: AttributeModel, family: str, batch: dict[str, Tensor], *, scale: float, relative: bool = False
) -> Tensor:
    """The last states of a plain backbone with hooks.

    Args:
        model: whose parameters are read.
        family: of the backbone.
        batch: as the model takes it.
        scale: alpha / r.
        relative: a mistake for a single row: DeBERTa's projections are changed on relative positions, too.
    """
    backbone = exactly(tiny_backbone(family))
    tables = list(model.method.tables)
    vectors = row_vectors(tables, model.slots, batch["attribute_ids"])
    sites = dict(
        zip(((place.path, place.start or 0) for place in model.method.acts_at), model.method.sites, strict=True)
    )
    places = [(path.format(layer), start) for layer in (0, 1) for path, start in PLACES[family]]
    assert set(sites) == set(places), "the library acts where it should"
    hooks: defaultdict[str, list[tuple[int, Any]]] = defaultdict(list)
    for path, start in places:
        hooks[path].append((start, changer(sites[path, start], [table.shape[1] for table in tables], scale)))
    for path, changes in hooks.items():
        # DeBERTa calls this one again, on relative positions, which belong to no row.
        hook = ProjectionByHand(vectors, every_second=path.endswith("query_proj") and not relative)
        hook.changes = changes
        backbone.get_submodule(path).register_forward_hook(hook)
    with torch.no_grad():
        return backbone(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state


def states_of(model: AttributeModel, batch: dict[str, Tensor]) -> Tensor:
    with recorded(model.backbone) as found, torch.no_grad():
        model(**batch)
    states: Tensor = found[0].last_hidden_state
    assert states.dtype == torch.float64
    return states


def difference(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max())


def scattered(family: str, config: MethodConfig, *, attributes: int = 2) -> AttributeModel:
    model = exactly(make_model(family, config, attributes=attributes))
    at_random(model.method, size=0.5)
    return model


CONFIG = Plora(rank=3, alpha=5.0, vector_size=4)
CONFIGS = [CONFIG, Modulated(rank=3, alpha=5.0, vector_size=4)]
BOTH = pytest.mark.parametrize("config", CONFIGS, ids=["plora", "modulated"])


# The function


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


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
            assert difference(found[row], expected) < TOLERANCE


# Whole backbones


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("family", PLACES)
def test_whole_backbone(family: str, config: MethodConfig) -> None:
    model, batch = scattered(family, config), make_batch(2)
    assert difference(states_of(model, batch), by_hand(model, family, batch, scale=5 / 3)) < TOLERANCE


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("M", NUMBERS)
@BOTH
def test_rows(config: MethodConfig, M: int, padding: str) -> None:
    """Several values, one twice, none."""
    model, batch = scattered("bert", config, attributes=M), make_batch(M, padding=padding)
    assert difference(states_of(model, batch), by_hand(model, "bert", batch, scale=5 / 3)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("family", PLACES)
def test_a_single_row(family: str, row: int) -> None:
    model, batch = scattered(family, CONFIG), make_batch(2, rows=(row,))
    assert difference(states_of(model, batch), by_hand(model, family, batch, scale=5 / 3)) < TOLERANCE


def test_a_single_row_as_long_as_the_relative_positions() -> None:
    """One row of 26 tokens looks just like DeBERTa's 2 · 13 relative positions."""
    model = scattered("deberta-v2", CONFIG)
    batch = {
        "input_ids": torch.randint(5, 101, (1, 26)),
        "attention_mask": torch.ones(1, 26, dtype=torch.int64),
        "attribute_ids": torch.tensor([[3, 2, 0, 1]]),
    }
    seen = []
    query = model.backbone.encoder.layer[0].attention.self.query_proj
    query.register_forward_hook(lambda _module, args, _output: seen.append(tuple(args[0].shape)))
    found = states_of(model, batch)
    assert seen == [(1, 26, 48), (1, 26, 48)]
    assert difference(found, by_hand(model, "deberta-v2", batch, scale=5 / 3)) < TOLERANCE
    assert difference(found, by_hand(model, "deberta-v2", batch, scale=5 / 3, relative=True)) > MISTAKE


# The start


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("config", [Plora(attribute_dropout=0.0), Modulated(attribute_dropout=0.0)])
@pytest.mark.parametrize("family", PLACES)
def test_starts_as_the_plain_model_to_the_last_bit(family: str, config: MethodConfig, tmp_path: Path) -> None:
    """In evaluation, in the first step of training with the same dropout, and after saving and loading."""
    tiny_backbone(family).save_pretrained(tmp_path / "backbone")
    model, other = make_model(family, config), make_model(family, Plain())
    model.head.load_state_dict(other.head.state_dict())
    batch = make_batch(2)
    ids = batch.pop("attribute_ids")
    expected = other(**batch).logits
    assert torch.equal(model(**batch, attribute_ids=ids).logits, expected)
    model.save_pretrained(tmp_path / "model")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=str(tmp_path / "backbone"))
    for each in (model, loaded):
        for name, parameter in each.method.named_parameters():
            assert bool(parameter.any()) == (name.rpartition(".")[2] in ("A", "M", "P")), name
    assert torch.equal(loaded(**batch, attribute_ids=ids).logits, expected)
    first_steps = []
    for each, inputs in ((model.train(), {**batch, "attribute_ids": ids}), (other.train(), batch)):
        torch.manual_seed(5)
        first_steps.append(each(**inputs).logits)
    assert torch.equal(*first_steps)


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


WRONG: dict[str, Callable[..., Tensor]] = {
    "no scale": lambda right, output, x, a, A, P, B, scale: right(output, x, a, A, P, B, scale=1.0),
    "without A x": lambda right, output, x, a, A, P, B, scale: right(output, 0 * x, a, A, P, B, scale=scale),
    "without the attributes": lambda right, output, x, a, A, P, B, scale: right(output, x, 0 * a, A, P, B, scale=scale),
    "one P for all attributes": lambda right, output, x, a, A, P, B, scale: right(
        output, x, a, A, torch.cat([P[:, : P.shape[1] // 2]] * 2, dim=1), B, scale=scale
    ),
    "attributes in another order": lambda right, output, x, a, A, P, B, scale: right(
        output, x, a.roll(a.shape[1] // 2, dims=1), A, P, B, scale=scale
    ),
    "the output is adapted and not the input": lambda right, output, x, a, A, P, B, scale: right(
        output, output, a, A, P, B, scale=scale
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", WRONG)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = scattered("bert", CONFIG), make_batch(2)
    expected, right = by_hand(model, "bert", batch, scale=5 / 3), functional.personalised_low_rank
    assert difference(states_of(model, batch), expected) < TOLERANCE
    monkeypatch.setattr(
        functional,
        "personalised_low_rank",
        lambda output, x, a, A, P, B, *, scale: WRONG[mistake](right, output, x, a, A, P, B, scale),
    )
    assert difference(states_of(model, batch), expected) > MISTAKE


def test_values_in_the_place_of_keys_in_a_fused_projection_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = scattered("gpt2", CONFIG), make_batch(2)
    right = by_hand(model, "gpt2", batch, scale=5 / 3)
    model.method.acts_at[1] = replace(model.method.acts_at[1], start=48)
    assert difference(states_of(model, batch), right) > MISTAKE


def test_a_scale_of_the_wrong_side_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = scattered("bert", CONFIGS[1]), make_batch(2)
    expected, right = by_hand(model, "bert", batch, scale=5 / 3), functional.modulated_low_rank
    assert difference(states_of(model, batch), expected) < TOLERANCE
    for wrong in (
        lambda output, x, a, A, M, P, B, *, scale: right(output, x, a, A, 0 * M, P, B, scale=scale),
        lambda output, x, a, A, M, P, B, *, scale: right(output, x, a, A, P, M, B, scale=scale),
        lambda output, x, a, A, M, P, B, *, scale: (
            output + scale * ((1 + a @ M.T).unsqueeze(1) * (x @ A.T + (a @ P.T).unsqueeze(1))) @ B.T
        ),  # the shift is scaled too
    ):
        monkeypatch.setattr(functional, "modulated_low_rank", wrong)
        assert difference(states_of(model, batch), expected) > MISTAKE


def test_projections_by_name() -> None:
    model = make_model("bert", Modulated(target_modules=("k_proj", "o_proj")))
    assert {site.path.rpartition("attention.")[2] for site in model.method.acts_at} == {"self.key", "output.dense"}
    with pytest.raises(ConfigError, match="target_modules"):
        Modulated.from_dict({"target_modules": ["query"]})
