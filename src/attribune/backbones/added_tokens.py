"""Embeddings of tokens that were added to a tokenizer: rows of their own behind the pretrained ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribune.core.config import short_repr
from attribune.errors import ConfigError

AddedTokens = Literal["refuse", "train"]
"""What becomes of tokens for which a backbone has no embeddings."""

_ROWS = "added_rows"  # the name of their parameter within the embeddings
_AT_ONCE = 10_000  # rows of the pretrained embeddings


def known_embeddings(backbone: PreTrainedModel) -> int:
    """Return the number of tokens that have embeddings, added ones included."""
    return cast(nn.Embedding, backbone.get_input_embeddings()).num_embeddings


def added_count(
    tokenizer: PreTrainedTokenizerBase | None, backbone: PreTrainedModel, *, added_tokens: AddedTokens
) -> int:
    """Return how many tokens are to get embeddings, since they have none.

    Raises:
        ConfigError: for an unknown setting, or one that needs a tokenizer, without one.
    """
    if added_tokens not in get_args(AddedTokens):
        raise ConfigError(f"added_tokens is {short_repr(added_tokens)}: choose {' or '.join(get_args(AddedTokens))}")
    if added_tokens == "refuse":
        return 0
    if tokenizer is None:
        raise ConfigError("added_tokens='train' needs the tokenizer that has them: give it, or leave added_tokens out")
    return max(0, len(tokenizer) - known_embeddings(backbone))


def is_added(name: str) -> bool:
    """Whether a parameter, or a tensor of a file, has the embeddings of added tokens."""
    return name.endswith(f".{_ROWS}")


def add_embeddings(backbone: PreTrainedModel, count: int) -> None:
    """Give a backbone embeddings of as many further tokens, which learn whatever else of it does.

    Each begins as the mean of the embeddings that are there, as transformers has it but for noise. They are a float32
    parameter of their own, ``added_rows`` (count, E), beside the pretrained ones, whose name and shape stay.
    """
    embeddings = cast(nn.Embedding, backbone.get_input_embeddings())
    known = embeddings.num_embeddings
    rows = nn.Parameter(_mean(embeddings).repeat(count, 1))
    embeddings.register_parameter(_ROWS, rows)
    embeddings.num_embeddings = known + count
    embeddings.forward = partial(_embed, embeddings, embeddings.forward, known)  # type: ignore[method-assign]
    backbone.set_input_embeddings(embeddings)  # also in the encoder of T5, which has a module of its own until then


@torch.no_grad()
def _mean(embeddings: nn.Embedding) -> Tensor:
    """Return the mean vector (E,) that the embeddings give, which some families scale."""
    count = embeddings.num_embeddings
    total = torch.zeros(embeddings.embedding_dim, device=embeddings.weight.device)
    for start in range(0, count, _AT_ONCE):
        ids = torch.arange(start, min(start + _AT_ONCE, count), device=total.device)
        total += embeddings(ids).float().sum(dim=0)
    return total / count


def _embed(embeddings: nn.Embedding, pretrained: Callable[[Tensor], Tensor], known: int, ids: Tensor) -> Any:
    vectors = pretrained(ids.clamp(max=known - 1))
    own = cast(Tensor, embeddings.get_parameter(_ROWS))[(ids - known).clamp(min=0)]
    return torch.where((ids >= known).unsqueeze(-1), own.to(vectors.dtype), vectors)
