"""A training on the export of an annotation tool is refused with the command that converts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "doccano": ({"text": "a text of words", "label": ["pos"], "username": "a"}, "label"),
    "tasks": ({"data": {"text": "words"}, "annotations": [{"completed_by": 1, "result": []}]}, "annotations"),
    "argilla": ({"text": "words", "label.responses": ["a"], "label.responses.users": ["b"]}, "label.responses"),
}


@pytest.mark.parametrize("tool", ROWS)
def test_a_training_on_an_export_names_the_conversion(tool: str, tmp_path: Path, fails: Callable[..., str]) -> None:
    row, label = ROWS[tool]
    path, output = tmp_path / f"{tool}.jsonl", tmp_path / "run"
    line = json.dumps(row)
    path.write_text("".join(line.replace("words", f"words {one}") + "\n" for one in range(20)))
    words = ["train", str(path), "--text", "text", "--label", *label.split(), "--method", "none"]
    message = fails(*words, "--output", output)
    assert f"attribune data judgements {path} --output {tool}-judgements.csv" in message
    assert "multi_label" not in message
    assert not (output / "model").exists()


def test_a_column_that_is_missing_elsewhere_is_only_named(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,stars\na,1\nb,2\n")
    message = fails("train", path, "--text", "text", "--label", "starz", "--method", "none", "--output", "run")
    assert "no column 'starz'; did you mean 'stars'?" in message
    assert "judgements" not in message
