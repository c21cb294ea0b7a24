"""Readers: each kind of input has one, and a kind of one's own needs an input, a task and a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import small_runs
from trained_runs import TrainedRuns

from attribune import Predictor, Recipe, train
from attribune.analysis.evaluate import evaluate
from attribune.core.config import checked_dataclass
from attribune.data.readers import READERS, reader_of
from attribune.data.readers.base import TextRows
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import content_ids
from attribune.errors import ConfigError
from attribune.methods import Injector
from attribune.tasks import TASKS, Classification
from attribune.tasks.inputs import InputSettings, SingleText, TaskInput


def test_every_task_and_method_has_a_reader() -> None:
    assert {reader_of(task, Injector()) for task in TASKS.values()} == {*READERS.values()}


class ClaimEvidenceCaption(SingleText):
    """Three texts that are read in one sequence."""

    name = "three"
    needs_every_text = True

    def check(self, settings: InputSettings, *, task: str) -> None:
        if len(settings.text) != 3:
            raise ConfigError(f"task {task!r} reads a claim, an evidence and a caption: name these three as the text")
        super().check(settings, task=task)


@checked_dataclass(kw_only=True)
class Verification(Classification):
    """Whether a claim holds."""

    kind: ClassVar[str] = "verification"
    input: ClassVar[TaskInput] = ClaimEvidenceCaption()


class ThreeTextsEncoder(TextEncoder):
    """Joins three texts by the tokenizer's separator; each is cut to a third of the window."""

    name: ClassVar[str] = "three"

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TextRows:
        parts = [replace(text, columns=(name,)).read(columns, first_row=first_row) for name in text.columns]
        ids = [content_ids(self.tokenizer, part) if part else [] for part in parts]
        tokens = self.pair_tokens(text)
        room = (self.window.length(self.special) - len(tokens) - len(tokens.between)) // 3
        joined, rows = [], list(zip(*ids, strict=True))
        for one, two, three in rows:
            middle = [*tokens.between, *two[:room], *tokens.between]
            joined.append([*tokens.before, *one[:room], *middle, *three[:room], *tokens.after])
        return TextRows.without_attributes(
            joined,
            empty=[not all(row) for row in zip(*parts, strict=True)],
            shortened=[max(map(len, row)) > room for row in rows],
        )


@pytest.mark.slow
def test_a_kind_of_input_of_ones_own_is_trained_predicted_and_evaluated(
    trained_runs: TrainedRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(TASKS, "verification", Verification)
    monkeypatch.setitem(READERS, "three", ThreeTextsEncoder)
    names, rows = ("claim", "evidence", "caption"), small_runs.reviews(90, seed=3)
    shifted = zip(rows, [*rows[1:], rows[0]], [*rows[2:], *rows[:2]], strict=True)
    table = [
        {name: one["text"] for name, one in zip(names, three, strict=True)}
        | {"user": three[0]["user"], "y": three[0]["stars"]}
        for three in shifted
    ]
    table[5]["caption"] = ""
    data = small_runs.write_csv(tmp_path / "t.csv", table)
    settings = {
        "data": {"train": str(data), "text": names, "label": "y", "attributes": [{"name": "user"}], "max_length": 20},
        "task": {"kind": "verification"},
        "backbone": {"name": str(trained_runs.backbone())},
        "training": {"epochs": 1, "batch_size": 16, "precision": "float32"},
    }
    with pytest.raises(ConfigError, match="reads a claim, an evidence and a caption"):
        Recipe.from_dict({**settings, "data": {**settings["data"], "text": names[:2]}})  # type: ignore[dict-item]
    train(Recipe.from_dict(settings), tmp_path / "run")
    predictor = Predictor.from_pretrained(tmp_path / "run")
    encoded = predictor.encode_rows({name: [row[name] for row in table] for name in (*names, "user")})
    assert isinstance(predictor.task, Verification)
    assert np.flatnonzero(encoded.empty).tolist() == [5]
    cls, sep = predictor.model.tokenizer.cls_token_id, predictor.model.tokenizer.sep_token_id  # type: ignore[attr-defined]
    assert all(ids[0] == cls and ids[-1] == sep and ids.count(sep) == 3 for ids in encoded.inputs)
    one = predictor.predict({name: table[0][name] for name in (*names, "user")})
    assert one["prediction"] in ("good", "bad")
    assert evaluate(tmp_path / "run", data).rows == 89
