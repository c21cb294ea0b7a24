"""Vectors that a method puts in front of a text, in the passes of a causal model that writes it.

Shapes: B rows, T ids, S positions: those of the ids and the vectors.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attribune.errors import ConfigError, DataError
from attribune.methods.base import Embedded, Method
from attribune.methods.condition import Condition

__all__ = ["embed_behind_front", "of_text"]

_STATES = ("logits", "last_hidden_state")


def embed_behind_front(
    method: Method,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    condition: Condition,
    embeddings: nn.Module,
    *,
    seen: int,
) -> tuple[dict[str, Tensor], Embedded]:
    """Return the backbone's inputs, and all embeddings with the vectors of the method among them.

    The first pass has the vectors in front of the text; they stay in the cache, and the next passes have new ids alone.

    Args:
        input_ids: (B, T), those that are new.
        attention_mask: of the ids so far, without the vectors; all ones by default.
        seen: positions in the cache.

    Raises:
        ConfigError: for a cache that does not hold the vectors and the ids before the new ones.
        DataError: for embeddings in place of ids.
    """
    if input_ids is None:
        raise DataError("the method puts vectors in front of the ids of a text: give input_ids, not inputs_embeds")
    rows, new = input_ids.shape
    before = max(0, seen - method.extra_positions)
    if attention_mask is None:
        attention_mask = input_ids.new_ones(rows, before + new)
    if attention_mask.shape != (rows, before + new) or (seen and not before):
        raise ConfigError(
            f"the cache has {seen} positions, {method.extra_positions} of them for vectors in front of the text, and "
            f"the attention mask the shape {tuple(attention_mask.shape)} for {new} new ids: write with a dynamic cache "
            "that this model filled"
        )
    ids = nn.functional.pad(input_ids, (before, 0))
    embedded = method.embed(ids, attention_mask, condition, embeddings)
    assert embedded is not None
    states = embedded.states[:, -new:] if seen else embedded.states
    positions = embedded.position_ids(attention_mask, first=0).clamp(min=0)
    inputs = {
        "inputs_embeds": states,
        "attention_mask": embedded.attention_mask,
        "position_ids": positions[:, -states.shape[1] :],
    }
    return inputs, embedded


def of_text(output: Any, embedded: Embedded) -> Any:
    """Return the output of a first pass without the positions of the vectors; it is changed in place."""
    S = embedded.states.shape[1]
    for name in _STATES:
        if (states := output.get(name)) is not None and states.shape[1] == S:
            output[name] = embedded.text_states(states)
    if output.get("hidden_states") is not None:
        output["hidden_states"] = tuple(embedded.text_states(states) for states in output["hidden_states"])
    return output
