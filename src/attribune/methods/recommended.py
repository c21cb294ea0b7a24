"""Which method to take for which need: what `attribune methods` and the documentation say."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RECOMMENDED", "Recommendation"]


class Recommendation(NamedTuple):
    """A value of ``--method``, and when to take it."""

    method: str
    when: str


RECOMMENDED = (
    Recommendation("injector", "you start: no other is shown to be better, and one frozen backbone serves many runs"),
    Recommendation("plora", "each row has another user, and you need nearly the speed of the bare backbone"),
    Recommendation("pln", "you may fine-tune the whole backbone for this one task"),
    Recommendation("tokens", "a causal model writes, also on servers that take prompt embeddings"),
    Recommendation("intercept", "you do not fine-tune: vectors of a frozen backbone, and a shift for each value"),
    Recommendation("linear", "you need an answer in seconds on any machine, or a baseline to beat"),
    Recommendation("auto", "the rows should decide, within a budget of time"),
)
