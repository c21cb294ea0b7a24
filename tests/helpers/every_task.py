"""Labels of three rows for every task."""

from __future__ import annotations

from typing import Any

_SPANS = [{"text": ["film"], "answer_start": [4]}] * 3
LABELS: dict[str, tuple[list[Any], dict[str, Any]]] = {  # columns of labels, and options
    "classification": ([["good", "bad", "good"]], {}),
    "rating": ([["1", "2", "3"]], {}),
    "ordinal": ([["1", "2", "3"]], {}),
    "regression": ([[0.5, 1.5, 2.0]], {}),
    "aspects": ([["1", "2", "3"], ["2", "1", "2"]], {"names": ["look", "taste"]}),
    "preference": ([["first", "second", "first"]], {}),
    "similarity": ([["a", "b", "c"], ["d", "e", "f"]], {"form": "pairs"}),
    "tags": ([[["B-X", "O"], ["O"], ["I-X"]]], {}),
    "spans": ([_SPANS, ["the film was"] * 3], {}),
    "generation": ([["a", "b", "c"]], {}),
}
