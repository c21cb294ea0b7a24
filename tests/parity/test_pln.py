"""Personalised norms and biases against loops written from Zhang et al. 2024 (E2LN), equations 4 to 6, in float64.

In a whole backbone, forward hooks written here put numbers of the loops in the place of what a norm or a linear map
made of its input. Where each of them stands in a family is written down here once more.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from families import tiny_backbone
from hosts import make_host
from safetensors.torch import load_file
from tiny_models import NUMBERS, at_random, exactly, make_batch, make_model, recorded, row_vectors, slots_of
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import Plain, Pln
from attribune.models.model import AttributeModel

pytestmark = pytest.mark.slow

TOLERANCE = 1e-10
MISTAKE = 1e-3
EPS = 1e-5

Row = list[float]
Vectors = list[list[Row]]
Change = Callable[[list[Row]], Row]


# The paper, slowly


def layer_norm(x: Row, gain: Row, bias: Row, eps: float) -> Row:
    """Eq. 4."""
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((number - mean) ** 2 for number in x) / len(x) + eps)
    return [(number - mean) / deviation * g + b for number, g, b in zip(x, gain, bias, strict=True)]


def rms_norm(x: Row, gain: Row, bias: Row, eps: float) -> Row:
    """The same without a mean; of the bias there is only the personalised part."""
    root = math.sqrt(sum(number * number for number in x) / len(x) + eps)
    return [number / root * g + b for number, g, b in zip(x, gain, bias, strict=True)]


def personal(gain: Row, bias: Row, g: Row, b: Row) -> tuple[Row, Row]:
    """Eq. 5: (1 + g) ⊙ gain and b + bias."""
    return [(1 + x) * y for x, y in zip(g, gain, strict=True)], [x + y for x, y in zip(b, bias, strict=True)]


def linear(matrix: Sequence[Row], x: Row) -> Row:
    return [sum(w * number for w, number in zip(row, x, strict=True)) for row in matrix]


def fuse(fusion: str, module: nn.Module) -> Change:
    """How the vectors of the attributes become one; all of it without biases."""
    p = {name: parameter.tolist() for name, parameter in module.named_parameters()}

    def change(e: list[Row]) -> Row:
        side_by_side = [number for vector in e for number in vector]
        if fusion == "linear":
            return linear(p["L"], side_by_side)
        if fusion == "mlp":
            return linear(p["L_2"], [math.tanh(x) for x in linear(p["L_1"], side_by_side)])
        weights = p["w"] if fusion == "weighted" else [1.0 for _ in e]
        return [sum(w * vector[i] for w, vector in zip(weights, e, strict=True)) for i in range(len(e[0]))]

    return change


# Where it stands in a backbone


NORMS: dict[str, dict[str, list[str]]] = {  # the norms that read the stream after a sub-layer, of layers 1 and 2
    "bert": {
        "attention": ["encoder.layer.0.attention.output.LayerNorm", "encoder.layer.1.attention.output.LayerNorm"],
        "feed_forward": ["encoder.layer.0.output.LayerNorm", "encoder.layer.1.output.LayerNorm"],
    },
    "modernbert": {
        "attention": ["layers.0.mlp_norm", "layers.1.mlp_norm"],
        "feed_forward": ["layers.1.attn_norm", "final_norm"],
    },
    "llama": {
        "attention": ["layers.0.post_attention_layernorm", "layers.1.post_attention_layernorm"],
        "feed_forward": ["layers.1.input_layernorm", "norm"],
    },
    "t5": {
        "attention": ["encoder.block.0.layer.1.layer_norm", "encoder.block.1.layer.1.layer_norm"],
        "feed_forward": ["encoder.block.1.layer.0.layer_norm", "encoder.final_layer_norm"],
    },
    "deberta-v2": {},
}
MAPS: dict[str, dict[str, list[tuple[str, int]]]] = {  # linear maps of layer {}, and the first of the features changed
    "bert": {
        "attention": [(f"encoder.layer.{{}}.attention.{name}", 0) for name in ("self.query", "self.key", "self.value")]
        + [("encoder.layer.{}.attention.output.dense", 0)],
        "feed_forward": [("encoder.layer.{}.intermediate.dense", 0), ("encoder.layer.{}.output.dense", 0)],
    },
    "modernbert": {
        "attention": [("layers.{}.attn.Wqkv", start) for start in (0, 48, 96)] + [("layers.{}.attn.Wo", 0)],
        "feed_forward": [("layers.{}.mlp.Wi", 0), ("layers.{}.mlp.Wo", 0)],
    },
    "llama": {
        "attention": [(f"layers.{{}}.self_attn.{name}_proj", 0) for name in "qkvo"],
        "feed_forward": [(f"layers.{{}}.mlp.{name}_proj", 0) for name in ("gate", "up", "down")],
    },
    "t5": {
        "attention": [(f"encoder.block.{{}}.layer.0.SelfAttention.{name}", 0) for name in "qkvo"],
        "feed_forward": [(f"encoder.block.{{}}.layer.1.DenseReluDense.{name}", 0) for name in ("wi", "wo")],
    },
    "deberta-v2": {
        "attention": [(f"encoder.layer.{{}}.attention.self.{name}_proj", 0) for name in ("query", "key", "value")]
        + [("encoder.layer.{}.attention.output.dense", 0)],
    },
}
BOTH = {
    "none": (),
    "attention": ("attention",),
    "feed_forward": ("feed_forward",),
    "both": ("attention", "feed_forward"),
}


def norms_of(family: str, config: Pln) -> set[str]:
    return {NORMS[family][part][n - 1] for part in BOTH[config.norms] for n in config.layers or (1, 2)}


def maps_of(family: str, config: Pln) -> set[tuple[str, int]]:
    places = [place for part in BOTH[config.bias_terms] for place in MAPS[family][part]]
    return {(path.format(n - 1), start) for path, start in places for n in config.layers or (1, 2)}


# A whole backbone, with the modules concerned replaced by loops


def norm_by_hand(vectors: Vectors, gain: Change, bias: Change, module: Any, args: tuple[Any, ...], _out: Any) -> Tensor:
    """Every token of every row, from what the norm reads."""
    rms = hasattr(module, "variance_epsilon")
    eps = module.variance_epsilon if rms else module.eps
    own_gain = module.weight.tolist()
    own_bias = [0.0] * len(own_gain) if getattr(module, "bias", None) is None else module.bias.tolist()
    rows = []
    for x, e in zip(args[0].tolist(), vectors, strict=True):
        mine = personal(own_gain, own_bias, gain(e), bias(e))
        rows.append([(rms_norm if rms else layer_norm)(token, *mine, eps) for token in x])
    return torch.tensor(rows, dtype=torch.float64)


class MapByHand:
    """``W x + bias + L e``, the change on a part of the features; of every second call only, where so told."""

    def __init__(self, vectors: Vectors, changes: list[tuple[int, Change]], *, every_second: bool) -> None:
        self.vectors, self.changes, self.every_second = vectors, changes, every_second
        self.calls = 0

    def __call__(self, module: nn.Linear, args: tuple[Any, ...], _out: Any) -> Tensor | None:
        self.calls += 1
        if self.every_second and self.calls % 2 == 0:
            return None
        W = module.weight.tolist()
        own_bias = [0.0] * len(W) if module.bias is None else module.bias.tolist()
        rows = []
        for x, e in zip(args[0].tolist(), self.vectors, strict=True):
            total = list(own_bias)
            for start, change in self.changes:
                for i, number in enumerate(change(e)):
                    total[start + i] += number
            rows.append([[a + b for a, b in zip(linear(W, token), total, strict=True)] for token in x])
        return torch.tensor(rows, dtype=torch.float64)


def by_hand(model: AttributeModel, family: str, config: Pln, batch: dict[str, Tensor]) -> Tensor:
    """The last states of a plain backbone with hooks."""
    backbone = exactly(tiny_backbone(family))
    sites = dict(
        zip(((place.path, place.start or 0) for place in model.method.acts_at), model.method.sites, strict=True)
    )
    norms, maps = norms_of(family, config), maps_of(family, config)
    assert set(sites) == {(path, 0) for path in norms} | maps, "the library acts where it should"
    vectors = row_vectors(model.method.tables, model.slots, batch["attribute_ids"])
    for path in norms:
        site = sites[path, 0]
        change = partial(norm_by_hand, vectors, fuse(config.fusion, site.gain), fuse(config.fusion, site.bias))
        backbone.get_submodule(path).register_forward_hook(change)
    changes = defaultdict(list)
    for path, start in maps:
        changes[path].append((start, fuse(config.fusion, sites[path, start].bias)))
    for path, mine in changes.items():
        # DeBERTa calls these two again, on relative positions, which belong to no row.
        every_second = path.endswith(("query_proj", "key_proj"))
        backbone.get_submodule(path).register_forward_hook(MapByHand(vectors, mine, every_second=every_second))
    with torch.no_grad():
        return backbone(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state


def worst(model: AttributeModel, family: str, config: Pln, batch: dict[str, Tensor]) -> float:
    """The greatest difference between the library and the loops, over all last states."""
    with recorded(model.backbone) as found, torch.no_grad():
        model(**batch)
    states = found[0].last_hidden_state
    assert states.dtype == torch.float64
    return float((states - by_hand(model, family, config, batch)).abs().max())


def scattered(family: str, config: Pln, *, attributes: int = 2) -> AttributeModel:
    model = exactly(make_model(family, config, attributes=attributes))
    at_random(model.method, size=0.4)
    return model


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
    config = Pln(vector_size=3, **places)
    model = scattered(family, config)
    assert worst(model, family, config, make_batch(2, rows=(0, 1, 2))) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [(1,), (2,), (2, 1)])
def test_layers(layers: tuple[int, ...], family: str) -> None:
    config = Pln(vector_size=3, norms="both", bias_terms="attention", layers=layers)
    model = scattered(family, config)
    assert worst(model, family, config, make_batch(2, rows=(0, 1))) < TOLERANCE


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
    config = Pln(norms="both", **options)
    model = scattered(family, config)
    assert worst(model, family, config, make_batch(2, rows=(0, 1))) < TOLERANCE


@pytest.mark.parametrize("fusion", ["addition", "weighted"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "t5"])
def test_fusions_without_maps_in_the_attention(family: str, fusion: str) -> None:
    config = Pln(norms="none", bias_terms="attention", fusion=fusion, vector_size=48)
    model = scattered(family, config)
    assert worst(model, family, config, make_batch(2, rows=(0, 1))) < TOLERANCE


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("M", NUMBERS)
def test_rows(M: int, padding: str) -> None:
    """Several values, one twice, none; every attribute with vectors of its own size."""
    config = Pln(norms="both", vector_sizes=(3, 7, 1, 5)[:M])
    model = scattered("bert", config, attributes=M)
    assert [table.shape[1] for table in model.method.tables] == [3, 7, 1, 5][:M]
    assert worst(model, "bert", config, make_batch(M, padding=padding)) < TOLERANCE


@pytest.mark.parametrize("rows", [(0,), (0, 1, 2)])
def test_maps_that_run_again_on_relative_positions(rows: tuple[int, ...]) -> None:
    config = Pln(norms="none", bias_terms="attention", vector_size=3)
    model = scattered("deberta-v2", config)
    assert worst(model, "deberta-v2", config, make_batch(2, rows=rows)) < TOLERANCE


# The function


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(("B", "T", "H"), [(4, 3, 7), (5, 5, 5), (1, 4, 4), (3, 1, 2)])
def test_function(B: int, T: int, H: int) -> None:
    """With as many rows as tokens and features, which would let a wrong broadcast pass."""
    x, gain, bias, g, b = draw(B, T, H), draw(H), draw(H), draw(B, H), draw(B, H)
    g[0] = 0
    with_bias = nn.functional.layer_norm(x, (H,), gain, bias, EPS)
    without = nn.functional.layer_norm(x, (H,), gain, None, EPS)
    root = nn.functional.rms_norm(x, (H,), gain, EPS)
    for norm, normed, own in ((layer_norm, with_bias, bias), (layer_norm, without, None), (rms_norm, root, None)):
        found = functional.personalised_norm(normed, own, g, b)
        assert found.shape == x.shape
        for row in range(B):
            own_bias = [0.0] * H if own is None else own.tolist()
            mine = personal(gain.tolist(), own_bias, g[row].tolist(), b[row].tolist())
            expected = [norm(token, *mine, EPS) for token in x[row].tolist()]
            assert float((found[row] - torch.tensor(expected, dtype=torch.float64)).abs().max()) < TOLERANCE


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
    config, batch = Pln(vector_size=3), make_batch(2)
    batch = {name: torch.cat([value, value[:1]]) for name, value in batch.items()}  # as many rows as tokens
    model = scattered("bert", config)
    assert worst(model, "bert", config, batch) < TOLERANCE
    monkeypatch.setattr(functional, "personalised_norm", WRONG[mistake])
    assert worst(model, "bert", config, batch) > MISTAKE


# The start


def plain(family: str) -> AttributeModel:
    return make_model(family, Plain())


def start(family: str, config: Pln, other: AttributeModel) -> AttributeModel:
    """The model as it is built, with the head of another."""
    model = make_model(family, config)
    model.head.load_state_dict(other.head.state_dict())
    return model


def still_zero(model: AttributeModel) -> bool:
    return all(not table.any() for table in model.method.tables)


STARTS = [
    Pln(),
    Pln(norms="both", bias_terms="both", fusion="mlp", vector_sizes=(5, 3)),
    Pln(norms="both", fusion="addition", vector_size=48),
    Pln(norms="both", fusion="weighted", vector_size=48),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("config", STARTS, ids=lambda config: config.fusion)
@pytest.mark.parametrize("family", FAMILIES)
def test_starts_as_the_plain_model_to_the_last_bit(family: str, config: Pln) -> None:
    """In evaluation, and in the first step of training with the same dropout in the backbone."""
    other, batch = plain(family), make_batch(2)
    model = start(family, config, other)
    ids = batch.pop("attribute_ids")
    assert still_zero(model)
    assert all(bool((p != 0).any()) for name, p in model.method.named_parameters() if "tables" not in name)
    assert torch.equal(model(**batch, attribute_ids=ids).logits, other(**batch).logits)
    model.method.attribute_dropout = 0.0
    first_steps = []
    for each, inputs in ((model.train(), {**batch, "attribute_ids": ids}), (other.train(), batch)):
        torch.manual_seed(5)
        first_steps.append(each(**inputs).logits)
    assert torch.equal(*first_steps)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_step_moves_the_vectors_of_what_was_seen(family: str) -> None:
    """Zero vectors learn, since the maps are not zero; that of the unknown, and of values not seen, stay."""
    model, batch = make_model(family, Pln()), make_batch(2)
    model(**batch, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    for table, seen in zip(model.method.tables, ({1, 2, 3, 4, 5}, {1, 3}), strict=True):
        moved = {i for i, row in enumerate(table.grad) if bool(row.any())}
        assert moved == seen


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vectors_stay_zero_when_saved_and_loaded(family: str, tmp_path: Path) -> None:
    model, batch = start(family, STARTS[1], other := plain(family)), make_batch(2)
    model.save_pretrained(tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    assert [name for name, tensor in tensors.items() if name.startswith("method.tables.") and not tensor.any()] == [
        "method.tables.0",
        "method.tables.1",
    ]
    loaded = AttributeModel.from_pretrained(tmp_path / "model")
    assert still_zero(loaded)
    expected = other(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    assert torch.equal(loaded(**batch).logits, expected)


def redraw(_model: AttributeModel, module: nn.Module) -> None:
    """What transformers does to modules that it takes for new: fill them at random."""
    with torch.no_grad():
        for parameter in module.parameters(recurse=False):
            parameter.normal_(std=0.02)


def test_nothing_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No initialisation of transformers comes after the model's own, whatever it would do."""
    monkeypatch.setattr(AttributeModel, "_init_weights", redraw)
    model, batch = start("bert", Pln(), other := plain("bert")), make_batch(2)
    model.init_weights()
    model.post_init()
    model.save_pretrained(tmp_path / "model")
    loaded = AttributeModel.from_pretrained(tmp_path / "model")
    expected = other(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    for each in (model, loaded):
        assert still_zero(each)
        assert torch.equal(each(**batch).logits, expected)


def test_a_second_drawing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the marks that keep transformers off, the vectors are drawn again, and the checks above notice."""
    monkeypatch.setattr(AttributeModel, "_init_weights", redraw)
    model, batch = start("bert", Pln(), other := plain("bert")), make_batch(2)
    for module in model.method.modules():
        module._is_hf_initialized = False
    model.init_weights()
    assert not still_zero(model)
    expected = other(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
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
