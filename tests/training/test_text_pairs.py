"""Two texts of a row, from a table to a prediction."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch

from attribune.apps.cli import main
from attribune.methods import METHODS
from attribune.models.auto import load_model
from attribune.models.predictor import Predictor
from attribune.runs.folder import load_run

pytestmark = pytest.mark.slow


def rows(count: int = 90) -> list[dict[str, Any]]:
    """Whether two texts have the same mood, which neither of them tells alone."""
    chance, words, table = random.Random(3), {True: ["great", "lovely"], False: ["awful", "dull"]}, []
    for number in range(count):
        moods = chance.random() < 0.5, chance.random() < 0.5
        one, two = (f"the film was {chance.choice(words[mood])} n{number % 61}" for mood in moods)
        same = "same" if moods[0] == moods[1] else "other"
        table.append({"one": one, "two": two, "stars": same, "user": f"u{chance.randrange(5)}"})
    return table


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.write_csv(tmp_path_factory.mktemp("data") / "pairs.csv", rows())


def command(data: Path, run: Path, *, backbone: Path, method: str) -> list[str]:
    words = small_runs.train_command(data, run, backbone=backbone, method=method)
    words[words.index("--text") + 1 : words.index("--text") + 2] = ["one", "--text-pair", "two"]
    return words


@pytest.mark.parametrize("method", [*METHODS, "linear"])
def test_every_method_takes_pairs(method: str, data: Path, backbone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(command(data, run, backbone=backbone, method=method)) == 0
    assert main(["predict", str(run), str(data), "--output", str(tmp_path / "out.jsonl")]) == 0
    assert main(["evaluate", str(run), str(data)]) == 0
    shown = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    _, predictor = load_run(run)
    table = {name: [row[name] for row in rows()] for name in predictor.columns}
    assert set(table) >= {"one", "two"}
    found = predictor.predict(table)
    assert [row["probability_same"] for row in shown] == pytest.approx(found["probability_same"].tolist(), abs=1e-4)
    swapped = predictor.predict(table | {"one": table["two"], "two": ["the film"] * len(rows())})
    assert abs(swapped["probability_same"] - found["probability_same"]).max() > 1e-6


def test_the_backbone_reads_what_its_tokenizer_makes(data: Path, backbone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(command(data, run, backbone=backbone, method="none")) == 0
    model = load_model(run)
    predictor = Predictor(model)
    table = {"one": ["the film was great", "a"], "two": ["awful", "the plot and cast"]}
    batch = model.tokenizer(table["one"], table["two"], padding=True, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        expected = model.eval()(**batch).logits.numpy()
    assert batch["token_type_ids"].max() == 1
    assert predictor.logits(table)[0] == pytest.approx(expected, abs=1e-5)
