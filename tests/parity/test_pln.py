"""Personalised norms and biases against loops written from Zhang et al. 2024 (E2LN), equations 4 to 6, in float64.

In a whole backbone, forward hooks written here put numbers of the loops in the place of what a norm or a linear map
made of its input. Where each of them stands in a family is written down here once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from families import tiny_backbone
from hosts import make_host
from layer_parts import BIASES, NORMS, PARTS, changed_backbone, sites_of, states_of, states_of_backbone
from slow_layers import assert_apart, assert_same, draw, matrix_times, slow_norm
from tiny_models import (
    NUMBERS,
    assert_starts_as_plain,
    at_random,
    exactly,
    make_batch,
    make_model,
    row_vectors,
    slots_of,
)
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import Pln
from attribune.models.model import AttributeModel

pytestmark = pytest.mark.slow

EPS = 1e-5

Row = list[float]
Fusion = Callable[[list[Row]], Row]


# The paper, slowly; eq. 4 is `slow_norm`


def slow_rms_norm(x: Row, gain: Row, bias: Row, *, eps: float) -> Row:
    """Eq. 4 without a mean; of the bias there is only the personalised part."""
    root = math.sqrt(sum(number * number for number in x) / len(x) + eps)
    return [number / root * g + b for number, g, b in zip(x, gain, bias, strict=True)]


def personal(gain: Row, bias: Row, g: Row, b: Row) -> tuple[Row, Row]:
    """Eq. 5: (1 + g) ⊙ gain and b + bias."""
    return [(1 + x) * y for x, y in zip(g, gain, strict=True)], [x + y for x, y in zip(b, bias, strict=True)]


def fuse(fusion: str, module: nn.Module) -> Fusion:
    """How the vectors of the attributes become one; all of it without biases."""
    p = {name: parameter.tolist() for name, parameter in module.named_parameters()}

    def change(e: list[Row]) -> Row:
        side_by_side = [number for vector in e for number in vector]
        if fusion == "linear":
            return matrix_times(p["L"], side_by_side)
        if fusion == "mlp":
            return matrix_times(p["L_2"], [math.tanh(x) for x in matrix_times(p["L_1"], side_by_side)])
        weights = p["w"] if fusion == "weighted" else [1.0 for _ in e]
        return [sum(w * vector[i] for w, vector in zip(weights, e, strict=True)) for i in range(len(e[0]))]

    return change


# A whole backbone, with the modules concerned replaced by loops


def norm_by_hand(
    vectors: list[list[Row]], gain: Fusion, bias: Fusion, module: Any, args: tuple[Any, ...], _out: Any
) -> Tensor:
    """Every token of every row, from what the norm reads."""
    rms = hasattr(module, "variance_epsilon")
    eps = module.variance_epsilon if rms else module.eps
    own_gain = module.weight.tolist()
    own_bias = [0.0] * len(own_gain) if getattr(module, "bias", None) is None else module.bias.tolist()
    rows = []
    for x, e in zip(args[0].tolist(), vectors, strict=True):
        mine = personal(own_gain, own_bias, gain(e), bias(e))
        rows.append([(slow_rms_norm if rms else slow_norm)(token, *mine, eps=eps) for token in x])
    return torch.tensor(rows, dtype=torch.float64)


def check(
    family: str,
    config: Pln,
    batch: dict[str, Tensor],
    *,
    attributes: int = 2,
    compare: Callable[[Tensor, Tensor], None] = assert_same,
) -> None:
    """The last states are those of a plain backbone whose modules are replaced by loops."""
    model, parts = exactly(make_model(family, config, attributes=attributes)), PARTS[family]
    at_random(model.method, size=0.4)
    sites = sites_of(model)
    layers = [number - 1 for number in config.layers or (1, 2)]
    norms = {(parts.path(layer, norm), 0) for norm in NORMS[config.norms] for layer in layers}
    maps = {
        (parts.path(layer, part), parts.starts.get(part, 0))
        for part in BIASES[config.bias_terms]
        for layer in layers
        if parts.has(part)
    }
    assert set(sites) == norms | maps, "the library acts where it should"
    vectors = row_vectors(model.method.tables, model.slots, batch["attribute_ids"])
    biases = {place: fuse(config.fusion, sites[place].bias) for place in maps}
    changes = {place: lambda _token, e, bias=bias: bias(e) for place, bias in biases.items()}
    backbone = changed_backbone(family, changes, vectors)
    for path, start in norms:
        fusions = [fuse(config.fusion, getattr(sites[path, start], name)) for name in ("gain", "bias")]
        backbone.get_submodule(path).register_forward_hook(partial(norm_by_hand, vectors, *fusions))
    compare(states_of(model, batch), states_of_backbone(backbone, batch))


FAMILIES = ("bert", "modernbert", "llama", "t5")
PLACES = [
    {"norms": "attention"},
    {"norms": "feed_forward"},
    {"norms": "both"},
    {"norms": "none", "bias_terms": "attention"},
    {"norms": "none", "bias_terms": "feed_forward"},
    {"norms": "none", "bias_terms": "both"},
    {"norms": "both", "bias_terms": "both"},
]


def label(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("places", PLACES, ids=label)
def test_every_place(places: dict[str, Any], family: str) -> None:
    check(family, Pln(vector_size=3, **places), make_batch(2, rows=(0, 1, 2)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [(1,), (2,), (2, 1)])
def test_layers(layers: tuple[int, ...], family: str) -> None:
    check(family, Pln(vector_size=3, norms="both", bias_terms="attention", layers=layers), make_batch(2, rows=(0, 1)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [
        {"fusion": "mlp", "vector_size": 3},
        {"fusion": "mlp", "vector_sizes": (5, 2), "bias_terms": "both"},
        {"fusion": "addition", "vector_size": 48},
        {"fusion": "weighted", "vector_size": 48},
        {"fusion": "weighted", "vector_sizes": (48, 48)},
    ],
    ids=label,
)
def test_every_fusion(options: dict[str, Any], family: str) -> None:
    check(family, Pln(norms="both", **options), make_batch(2, rows=(0, 1)))


@pytest.mark.parametrize("fusion", ["addition", "weighted"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "t5"])
def test_fusions_without_maps_in_the_attention(family: str, fusion: str) -> None:
    config = Pln(norms="none", bias_terms="attention", fusion=fusion, vector_size=48)
    check(family, config, make_batch(2, rows=(0, 1)))


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("M", NUMBERS)
def test_rows(M: int, padding: str) -> None:
    """Several values, one twice, none; every attribute with vectors of its own size; as many rows as tokens."""
    config, batch = Pln(norms="both", vector_sizes=(3, 7, 1, 5)[:M]), make_batch(M, padding=padding)
    check("bert", config, {name: torch.cat([value, value[:1]]) for name, value in batch.items()}, attributes=M)


@pytest.mark.parametrize("rows", [(0,), (0, 1, 2)])
def test_maps_that_run_again_on_relative_positions(rows: tuple[int, ...]) -> None:
    check("deberta-v2", Pln(norms="none", bias_terms="attention", vector_size=3), make_batch(2, rows=rows))


# The function


@pytest.mark.parametrize(("B", "T", "H"), [(4, 3, 7), (5, 5, 5), (1, 4, 4), (3, 1, 2)])
def test_function(B: int, T: int, H: int) -> None:
    """With as many rows as tokens and features, which would let a wrong broadcast pass."""
    x, gain, bias, g, b = draw(B, T, H), draw(H), draw(H), draw(B, H), draw(B, H)
    g[0] = 0
    with_bias = nn.functional.layer_norm(x, (H,), gain, bias, EPS)
    without = nn.functional.layer_norm(x, (H,), gain, None, EPS)
    root = nn.functional.rms_norm(x, (H,), gain, EPS)
    for norm, normed, own in ((slow_norm, with_bias, bias), (slow_norm, without, None), (slow_rms_norm, root, None)):
        own_bias = [0.0] * H if own is None else own.tolist()
        expected = [
            [norm(token, *personal(gain.tolist(), own_bias, g[row].tolist(), b[row].tolist()), eps=EPS) for token in x_]
            for row, x_ in enumerate(x.tolist())
        ]
        assert_same(functional.personalised_norm(normed, own, g, b), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_without_a_change_it_is_the_plain_norm_to_the_last_bit(dtype: torch.dtype) -> None:
    normed, bias, zero = (100 * draw(4, 3, 7)).to(dtype), draw(7).to(dtype), torch.zeros(4, 7, dtype=dtype)
    assert torch.equal(functional.personalised_norm(normed, bias, zero, zero), normed)
    assert torch.equal(functional.personalised_norm(normed, None, zero, zero), normed)


WRONG: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "the bias is scaled too": lambda normed, bias, g, b: normed + g[:, None] * normed + b[:, None],
    "g in the place of 1 + g": lambda normed, bias, g, b: g[:, None] * (normed - bias) + bias + b[:, None],
    "b in the place of b + bias": lambda normed, bias, g, b: (1 + g[:, None]) * (normed - bias) + b[:, None],
    "b is scaled by the gain": lambda normed, bias, g, b: (
        normed + g[:, None] * (normed - bias) + b[:, None] * (1 + g[:, None])
    ),
    "rows taken for tokens": lambda normed, bias, g, b: normed + g * (normed - bias) + b,
}


@pytest.mark.parametrize("mistake", WRONG)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {name: torch.cat([value, value[:1]]) for name, value in make_batch(2).items()}  # as many rows as tokens
    monkeypatch.setattr(functional, "personalised_norm", WRONG[mistake])
    check("bert", Pln(vector_size=3), batch, compare=assert_apart)


# The start


STARTS = [
    Pln(),
    Pln(norms="both", bias_terms="both", fusion="mlp", vector_sizes=(5, 3)),
    Pln(norms="both", fusion="addition", vector_size=48),
    Pln(norms="both", fusion="weighted", vector_size=48),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("config", STARTS, ids=lambda config: config.fusion)
@pytest.mark.parametrize("family", FAMILIES)
def test_starts_as_the_plain_model_to_the_last_bit(family: str, config: Pln, tmp_path: Path) -> None:
    zero = assert_starts_as_plain(family, config, folder=tmp_path)
    assert zero == {"tables.0", "tables.1"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_step_moves_the_vectors_of_what_was_seen(family: str) -> None:
    """Zero vectors learn, since the maps are not zero; that of the unknown, and of values not seen, stay."""
    model, batch = make_model(family, Pln()), make_batch(2)
    model(**batch, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    for table, seen in zip(model.method.tables, ({1, 2, 3, 4, 5}, {1, 3}), strict=True):
        moved = {i for i, row in enumerate(table.grad) if bool(row.any())}
        assert moved == seen


def redraw(_model: AttributeModel, module: nn.Module) -> None:
    """What transformers does to modules that it takes for new: fill them at random."""
    with torch.no_grad():
        for parameter in module.parameters(recurse=False):
            parameter.normal_(std=0.02)


def test_nothing_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No initialisation of transformers comes after the model's own, whatever it would do."""
    monkeypatch.setattr(AttributeModel, "_init_weights", redraw)
    tiny_backbone("bert").save_pretrained(tmp_path / "backbone")
    model = make_model("bert", Pln())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.init_weights()
    model.post_init()
    model.save_pretrained(tmp_path / "model")
    for each in (model, AttributeModel.from_pretrained(tmp_path / "model", backbone=str(tmp_path / "backbone"))):
        torch.testing.assert_close(each.state_dict(), before, rtol=0, atol=0)


def test_a_second_drawing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the marks that keep transformers off, the vectors are drawn again, and the checks above notice."""
    monkeypatch.setattr(AttributeModel, "_init_weights", redraw)
    model, batch = make_model("bert", Pln()), make_batch(2)
    expected = model(**batch).logits
    for module in model.method.modules():
        module._is_hf_initialized = False
    model.init_weights()
    assert all(table.any() for table in model.method.tables)
    assert not torch.allclose(model(**batch).logits, expected, rtol=0, atol=1e-4)


# What does not fit


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("bert", {"fusion": "addition"}, r"adds vectors of sizes 64, 64 to the site 'attention_norm', of size 48"),
        (
            "bert",
            {"fusion": "weighted", "vector_sizes": (48, 3)},
            r"sizes 48, 3 to the site 'attention_norm', of size 48",
        ),
        ("bert", {"fusion": "addition", "vector_size": 48, "bias_terms": "both"}, r"to the site 'up_proj', of size 59"),
        (
            "llama",
            {"fusion": "addition", "vector_size": 48, "bias_terms": "attention"},
            r"to the site 'k_proj', of size 24",
        ),
        ("bert", {"vector_sizes": (3,)}, "vector_sizes has 1 numbers, but the schema has 2 attributes"),
        ("bert", {"layers": (1, 3)}, "layers names layer 3, but the backbone has 2"),
    ],
)
def test_what_does_not_fit_is_refused(family: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_model(family, Pln(**options))


def test_nothing_to_personalise_is_refused() -> None:
    with pytest.raises(ConfigError, match="norms and bias_terms are both 'none'"):
        Pln(norms="none")
    for layers in ((0,), (True,), "1", (1.0,)):
        with pytest.raises(ConfigError, match="layers is"):
            Pln(layers=layers)


def test_without_a_norm_there_is_nothing_to_act_on() -> None:
    assert not Pln().build(make_host(hidden=12, slots=slots_of(1))).sites
