"""Where no number of tokens is given, it follows the lengths of the texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import families
import pandas as pd
import pytest
import small_runs
from reporters import Notes
from transformers import AutoModel

from attribune import Predictor, train
from attribune.runs.folder import RunFolder

POSITIONS = 400


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_runs.save_backbone(tmp_path_factory.mktemp("long") / "backbone")
    config = families.tiny_backbone("bert").config
    config.max_position_embeddings = POSITIONS
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


def rows(long: int, *, words: int = 330) -> pd.DataFrame:
    """Forty texts, the given number of which has so many words."""
    table = small_runs.reviews(40)
    chance = random.Random(0)
    for row in table[:long]:
        row["text"] = " ".join(chance.choices(["plot", "film", "great", "dull"], k=words))
    return pd.DataFrame(table)[["text", "stars", "user"]]


def trained(folder: Path, backbone: Path, table: pd.DataFrame, **more: Any) -> tuple[RunFolder, Notes]:
    notes = Notes()
    options: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"], "method": "pln", "epochs": 0.1}
    train(table, folder, backbone=backbone, baselines=False, reporter=notes, **options, **more)
    return RunFolder(folder), notes


def test_the_window_holds_nearly_all_texts_and_the_cost_is_said(backbone: Path, tmp_path: Path) -> None:
    run, notes = trained(tmp_path / "run", backbone, rows(long=20))
    assert run.read_recipe().data.max_length == 352, "332 ids, and a multiple of 32"
    (said,) = (line for line in notes.lines if "longer than 256 tokens" in line)
    assert "so up to 352 are read of each, which takes about 1.3 times as long, and more memory: set max_length" in said
    assert said in run.read_results().notes
    assert "window-lengthened" in {found.code for found in run.read_results().findings}
    assert str(Predictor.from_pretrained(run.path).text_input.window) == "head:352"


def test_a_number_that_is_given_stays(backbone: Path, tmp_path: Path) -> None:
    run, notes = trained(tmp_path / "run", backbone, rows(long=20), max_length=64)
    assert run.read_recipe().data.max_length == 64
    assert not any("longer than" in line for line in notes.lines)


def test_few_long_texts_change_nothing(backbone: Path, tmp_path: Path) -> None:
    run, notes = trained(tmp_path / "run", backbone, rows(long=1))
    assert run.read_recipe().data.max_length is None
    assert str(Predictor.from_pretrained(run.path).text_input.window) == "head:256"
    assert not any("longer than" in line for line in notes.lines)
