"""Decoders that the placement table lacks, recognised by the names of their modules and by a test of what they compute.

The layers of most decoders are those of Llama, ``h + attention(norm(h))`` and then ``h + mlp(norm(h))``. A small model
of a family with random weights is asked whether its layers are, and so is each model that is loaded, since its
configuration may say otherwise.

Shapes: batch B, length T, hidden H.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedModel

from attribune.backbones.placement import Placement
from attribune.errors import ConfigError

_log = logging.getLogger(__name__)
_SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MOST_PARAMETERS = 1_000_000  # of a small model, whose configuration had other names for its sizes
_TOKENS = 8
_NO_ATTENTION = "its family is not in the table of backbones, and it is not known how its attention reads keys"


@cache
def recognised(model_type: str, known: Placement) -> Placement | None:
    """Return the placement of a family that the table lacks; None for one that has other layers.

    Args:
        known: the row of Llama, from which this one differs in the maps of its feed-forward part.
    """
    if model_type not in CONFIG_MAPPING:
        return None
    try:
        config = CONFIG_MAPPING[model_type](**_SMALL)
        with torch.device("meta"):
            draft = AutoModel.from_config(config)
        row = _row_of(draft, model_type, known)
        if row is None or sum(one.numel() for one in draft.parameters()) > _MOST_PARAMETERS:
            return None
        # A caller may be making tensors on the meta device, as of a model whose memory is asked for.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = AutoModel.from_config(config, dtype=torch.float32)
            misfit = _misfit(model, row)
    except Exception as error:  # families refuse sizes that they do not know with any exception
        _log.info("backbones of type %s are not recognised: %s", model_type, error)
        return None
    if misfit is not None:
        _log.info("backbones of type %s are not recognised: %s", model_type, misfit)
    return row if misfit is None else None


def check_recognised(stack: PreTrainedModel, placement: Placement) -> None:
    """Test on one batch that a model of a recognised family computes what its placement says.

    Args:
        stack: the model whose layers have the sites.

    Raises:
        ConfigError: naming what differs.
    """
    if placement.is_recognised and stack.device.type != "meta" and (reason := _misfit(stack, placement)) is not None:
        kind = stack.config.model_type
        raise ConfigError(f"no placement for this backbone of type {kind!r}: {reason}: choose another backbone")


def _row_of(model: PreTrainedModel, model_type: str, known: Placement) -> Placement | None:
    """Return the placement by the names of the modules; None where they are not those of the known family."""
    modules = dict(model.named_modules())
    inside = [*_watched(known).values(), known.q_proj, known.k_proj, known.v_proj, known.o_proj]
    tables = [one for one in modules.values() if isinstance(one, nn.Embedding)]
    usual = [*known.final_norms, *(f"layers.0.{path}" for path in inside)]
    if len(tables) != 1 or not modules.keys() >= set(usual):
        return None
    hidden = model.config.hidden_size
    feed_forward = modules[f"layers.0.{known.feed_forward}"]
    maps = {name: one for name, one in feed_forward.named_children() if isinstance(one, nn.Linear)}
    up = [name for name, one in maps.items() if one.in_features == hidden]
    down = [name for name, one in maps.items() if one.out_features == hidden]
    if not up or len(down) != 1:
        return None
    return replace(
        known,
        model_types=(model_type,),
        up_proj=tuple(f"{known.feed_forward}.{name}" for name in up),
        down_proj=f"{known.feed_forward}.{down[0]}",
        has_start_token=False,
        no_extra_attention=_NO_ATTENTION,
        is_recognised=True,
    )


def _watched(placement: Placement) -> dict[str, str]:
    """Return the paths inside a layer of what computes its states."""
    assert placement.attention is not None
    assert placement.feed_forward is not None
    norms = dict(zip(("first", "second"), placement.norms, strict=True))
    return {"attention": placement.attention, "feed_forward": placement.feed_forward, **norms}


def _misfit(model: PreTrainedModel, placement: Placement) -> str | None:
    """Return in which way a model does not compute what its placement says; None where it does."""
    modules = dict(model.named_modules())
    layers = [name for name in modules if name.startswith("layers.") and name.count(".") == 1]
    inside = _watched(placement)
    watched = {
        (number, kind): f"{layer}.{path}" for number, layer in enumerate(layers) for kind, path in inside.items()
    }
    if lacking := sorted({*watched.values(), *placement.final_norms} - modules.keys()):
        return f"it has no module {lacking[0]}"
    watched |= {(number, "layer"): layer for number, layer in enumerate(layers)}
    seen: dict[tuple[int, str], Tensor] = {}
    handles = [
        modules[path].register_forward_hook(_keeps(seen, *key), with_kwargs=True) for key, path in watched.items()
    ]
    ids = (torch.arange(_TOKENS, device=model.device) * 7 + 3) % model.config.vocab_size
    other = ids.clone()
    other[-1] = (other[-1] + 1) % model.config.vocab_size
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            changed = _first(model(input_ids=other[None]))
            states = _first(model(input_ids=ids[None]))
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    for number in range(len(layers)):
        stream = seen[number, "layer in"]
        after = stream + seen[number, "attention out"]
        if not _same(seen[number, "first in"], stream) or not _same(seen[number, "second in"], after):
            return f"layer {number} does not add what its attention gives to the state that it reads"
        if not _same(seen[number, "layer out"], after + seen[number, "feed_forward out"]):
            return f"layer {number} does not add what its feed-forward part gives to the state behind the attention"
    if not _same(states[:, :-1], changed[:, :-1]):
        return "a state depends on later tokens"
    norms = [*(path for (_, kind), path in watched.items() if kind in ("first", "second")), *placement.final_norms]
    return next((f"{path} multiplies by other weights" for path in norms if not _multiplies(modules[path])), None)


def _keeps(seen: dict[tuple[int, str], Tensor], number: int, kind: str) -> Any:
    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        seen[number, f"{kind} in"] = args[0] if args else kwargs["hidden_states"]
        seen[number, f"{kind} out"] = _first(output)

    return keep


def _first(output: Any) -> Tensor:
    """Return the states of an output, which may hold more."""
    states: Tensor = output if isinstance(output, Tensor) else output[0]
    return states


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two states (B, T, H) are the same, as exact as their numbers are."""
    tolerance = 1e-4 if one.dtype in (torch.float32, torch.float64) else 0.03
    return bool((one.double() - other.double()).norm() <= tolerance * other.double().norm())


def _multiplies(norm: nn.Module) -> bool:
    """Whether a norm multiplies by its weight, as LayerNorm and RMSNorm do."""
    weight = getattr(norm, "weight", None)
    if not isinstance(weight, Tensor):
        return False
    states = torch.linspace(-1, 2, weight.numel(), device=weight.device, dtype=weight.dtype)[None]
    with torch.no_grad():
        given, bias = norm(states), getattr(norm, "bias", None)
        centred = states - states.mean(-1, keepdim=True)
        scaled = [weight * one / one.pow(2).mean(-1, keepdim=True).sqrt() for one in (states, centred)]
    return any(_same(given, one if bias is None else one + bias) for one in scaled)
