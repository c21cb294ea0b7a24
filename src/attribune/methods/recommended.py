"""Which method to take for which need: what `attribune methods` and the documentation say."""

from __future__ import annotations

RECOMMENDED: tuple[tuple[str, str], ...] = (
    (
        "injector",
        "you are starting: no other method is shown to be better on judgements, and runs share one frozen backbone",
    ),
    ("plora", "every row has another user, and prediction must be nearly as fast as the bare backbone"),
    ("pln", "you can fine-tune the whole backbone for this one task"),
    ("tokens", "a causal language model writes, also on servers that accept prompt embeddings"),
    ("intercept", "you do not fine-tune: vectors of a frozen backbone, and a shift for each value"),
    ("linear", "you need an answer in seconds on any machine, or a baseline"),
    ("auto", "the rows should decide, within a time budget"),
)
"""Values of ``--method``, each with when to take it."""
