"""Where families keep what their layers are made of, written down once more; and loops in the place of linear maps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from families import tiny_backbone
from slow_layers import Matrix, Vector, added, matrix_times
from tiny_models import exactly, recorded
from torch import Tensor, nn

from attribune.models.model import AttributeModel

Change = Callable[[Vector, Any], Vector]
"""What is added to the features of a token, from its state before the map and what is known of its row."""

NORMS = {
    "none": (),
    "attention": ("attention_norm",),
    "feed_forward": ("feed_forward_norm",),
    "both": ("attention_norm", "feed_forward_norm"),
}
BIASES = {
    "none": (),
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "feed_forward": ("up_proj", "gate", "down_proj"),
    "both": ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "gate", "down_proj"),
}
"""What the settings of personalised norms and biases call parts of a layer."""


@dataclass(frozen=True)
class LayerParts:
    """The paths of a layer's modules, the norms being those that read the residual stream after a sub-layer."""

    layers: str
    q_proj: str
    k_proj: str
    v_proj: str
    o_proj: str
    attention_norm: str
    up_proj: str
    down_proj: str
    feed_forward_norm: str
    gate: str | None = None
    final_norm: str | None = None  # of pre-norm families
    starts: Mapping[str, int] = field(default_factory=dict)  # the first feature of each part of a fused projection

    def has(self, part: str) -> bool:
        return getattr(self, part) is not None

    def path(self, layer: int, part: str, *, layers: int = 2) -> str:
        """The name of a part of a layer; in pre-norm families the norm after a layer is the first of the next one."""
        if part == "feed_forward_norm" and self.final_norm is not None:
            layer += 1
            if layer == layers:
                return self.final_norm
        return f"{self.layers.format(layer)}.{getattr(self, part)}"


_BERT = LayerParts(
    layers="encoder.layer.{}",
    q_proj="attention.self.query",
    k_proj="attention.self.key",
    v_proj="attention.self.value",
    o_proj="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up_proj="intermediate.dense",
    down_proj="output.dense",
    feed_forward_norm="output.LayerNorm",
)
_LLAMA = LayerParts(
    layers="layers.{}",
    q_proj="self_attn.q_proj",
    k_proj="self_attn.k_proj",
    v_proj="self_attn.v_proj",
    o_proj="self_attn.o_proj",
    attention_norm="post_attention_layernorm",
    up_proj="mlp.up_proj",
    down_proj="mlp.down_proj",
    feed_forward_norm="input_layernorm",
    gate="mlp.gate_proj",
    final_norm="norm",
)
PARTS = {
    "bert": _BERT,
    "roberta": _BERT,
    "electra": _BERT,
    "deberta-v2": replace(
        _BERT,
        q_proj="attention.self.query_proj",
        k_proj="attention.self.key_proj",
        v_proj="attention.self.value_proj",
    ),
    "distilbert": LayerParts(
        layers="transformer.layer.{}",
        q_proj="attention.q_lin",
        k_proj="attention.k_lin",
        v_proj="attention.v_lin",
        o_proj="attention.out_lin",
        attention_norm="sa_layer_norm",
        up_proj="ffn.lin1",
        down_proj="ffn.lin2",
        feed_forward_norm="output_layer_norm",
    ),
    "albert": LayerParts(
        layers="encoder.albert_layer_groups.0.albert_layers.0",
        q_proj="attention.query",
        k_proj="attention.key",
        v_proj="attention.value",
        o_proj="attention.dense",
        attention_norm="attention.LayerNorm",
        up_proj="ffn",
        down_proj="ffn_output",
        feed_forward_norm="full_layer_layer_norm",
    ),
    "modernbert": LayerParts(
        layers="layers.{}",
        q_proj="attn.Wqkv",
        k_proj="attn.Wqkv",
        v_proj="attn.Wqkv",
        o_proj="attn.Wo",
        attention_norm="mlp_norm",
        up_proj="mlp.Wi",
        down_proj="mlp.Wo",
        feed_forward_norm="attn_norm",
        final_norm="final_norm",
        starts={"k_proj": 48, "v_proj": 96},
    ),
    "gpt2": LayerParts(
        layers="h.{}",
        q_proj="attn.c_attn",
        k_proj="attn.c_attn",
        v_proj="attn.c_attn",
        o_proj="attn.c_proj",
        attention_norm="ln_2",
        up_proj="mlp.c_fc",
        down_proj="mlp.c_proj",
        feed_forward_norm="ln_1",
        final_norm="ln_f",
        starts={"k_proj": 48, "v_proj": 96},
    ),
    "llama": _LLAMA,
    "eurobert": _LLAMA,
    "t5": LayerParts(
        layers="encoder.block.{}",
        q_proj="layer.0.SelfAttention.q",
        k_proj="layer.0.SelfAttention.k",
        v_proj="layer.0.SelfAttention.v",
        o_proj="layer.0.SelfAttention.o",
        attention_norm="layer.1.layer_norm",
        up_proj="layer.1.DenseReluDense.wi",
        down_proj="layer.1.DenseReluDense.wo",
        feed_forward_norm="layer.0.layer_norm",
        final_norm="encoder.final_layer_norm",
    ),
}


class _MapByHand:
    """``W x + b`` and the changes of parts of it, for every token; of every second call only, where so told."""

    def __init__(self, rows: Sequence[Any], *, every_second: bool) -> None:
        self.rows, self.every_second = rows, every_second
        self.changes: list[tuple[int, Change]] = []
        self.calls = 0

    def __call__(self, module: Any, args: tuple[Any, ...], _output: Tensor) -> Tensor | None:
        self.calls += 1
        if self.every_second and self.calls % 2 == 0:
            return None
        W: Matrix = (module.weight if isinstance(module, nn.Linear) else module.weight.T).tolist()
        bias = [0.0] * len(W) if module.bias is None else module.bias.tolist()
        rows = []
        for x, known in zip(args[0].tolist(), self.rows, strict=True):
            tokens = []
            for token in x:
                total = added(matrix_times(W, token), bias)
                for start, change in self.changes:
                    for i, number in enumerate(change(token, known)):
                        total[start + i] += number
                tokens.append(total)
            rows.append(tokens)
        return torch.tensor(rows, dtype=torch.float64)


def changed_backbone(
    family: str, changes: Mapping[tuple[str, int], Change], rows: Sequence[Any], *, relative: bool = False
) -> nn.Module:
    """A plain backbone in float64 whose linear maps are changed by loops.

    Args:
        family: of the backbone.
        changes: by path and first feature of a map.
        rows: what the changes know of each row.
        relative: a mistake for a single row: DeBERTa's maps are changed on relative positions, too.
    """
    backbone = exactly(tiny_backbone(family))
    by_path: defaultdict[str, list[tuple[int, Change]]] = defaultdict(list)
    for (path, start), change in changes.items():
        by_path[path].append((start, change))
    for path, mine in by_path.items():
        # DeBERTa calls these two again, on relative positions, which belong to no row.
        hook = _MapByHand(rows, every_second=path.endswith(("query_proj", "key_proj")) and not relative)
        hook.changes = mine
        backbone.get_submodule(path).register_forward_hook(hook)
    return backbone


def sites_of(model: AttributeModel) -> dict[tuple[str, int], nn.Module]:
    """The sites of a model's method, by the path and the first feature of the module where each acts."""
    places = ((place.path, place.start or 0) for place in model.method.acts_at)
    return dict(zip(places, model.method.sites, strict=True))


def states_of(model: AttributeModel, batch: Mapping[str, Tensor]) -> Tensor:
    """The last states of the backbone in a model that is called."""
    with recorded(model.backbone) as found, torch.no_grad():
        model(**batch)
    states: Tensor = found[0].last_hidden_state
    return states


def states_of_backbone(backbone: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """The last states of a backbone that is called by itself."""
    with torch.no_grad():
        states: Tensor = backbone(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
    return states
