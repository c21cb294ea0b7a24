"""Which method to take for which need: what `attribune methods` and the documentation say."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RECOMMENDED", "Recommendation"]


class Recommendation(NamedTuple):
    """A value of ``--method``, and when to take it."""

    method: str
    when: str


RECOMMENDED = (
    Recommendation(
        "injector",
        "you are starting: no other method is shown to be better on judgements, and runs share one frozen backbone",
    ),
    Recommendation("plora", "every row has another user, and prediction must be nearly as fast as the bare backbone"),
    Recommendation("pln", "you can fine-tune the whole backbone for this one task"),
    Recommendation("tokens", "a causal language model writes, also on servers that accept prompt embeddings"),
    Recommendation("intercept", "you do not fine-tune: vectors of a frozen backbone, and a shift for each value"),
    Recommendation("linear", "you need an answer in seconds on any machine, or a baseline"),
    Recommendation("auto", "the rows should decide, within a time budget"),
)
