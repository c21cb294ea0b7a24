"""Two texts of a row, from a table to a prediction."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import small_runs
import torch
import yaml
from families import BERT_METHODS
from lab_methods import needs_lab
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import DataError
from attribune.models.auto import load_model
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run

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


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()


@pytest.fixture
def data(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(rows())


def command(data: Path, run: Path, *, backbone: Path, method: str) -> list[str]:
    words = small_runs.train_command(data, run, backbone=backbone, method=method)
    words[words.index("--text") + 1 : words.index("--text") + 2] = ["one", "--text-pair", "two"]
    return words


KEPT = ("concat-text", "history", "linear")
"""Methods that read values in the text, rows before it, and counts of its words."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in KEPT else pytest.mark.exhaustive)
        for name in (*BERT_METHODS, "linear", "automl")
    ],
)
def test_every_method_takes_pairs(method: str, data: Path, backbone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main([*command(data, run, backbone=backbone, method=method), "--no-baselines"]) == 0
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
    assert main([*command(data, run, backbone=backbone, method="none"), "--no-baselines"]) == 0
    model = load_model(run)
    predictor = Predictor(model)
    table = {"one": ["the film was great", "a"], "two": ["awful", "the plot and cast"]}
    batch = model.tokenizer(table["one"], table["two"], padding=True, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        expected = model.eval()(**batch).logits.numpy()
    assert batch["token_type_ids"].max() == 1
    assert predictor.logits(table)[0] == pytest.approx(expected, abs=1e-5)


@pytest.fixture
def pair_run(data: Path, backbone: Path, trained_runs: TrainedRuns) -> Path:
    return trained_runs.trained(command(data, Path(), backbone=backbone, method="injector"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_a_graph_reads_both_texts(kind: str, pair_run: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / {"torch": "graph.pt2", "onnx": "graph.onnx"}[kind]
    words = ["export", str(pair_run), "--format", kind, "--output", str(output)]
    assert main([*words, "--for", "user=u1", "--check", str(data)]) == 0
    if kind == "onnx":
        session = onnxruntime.InferenceSession(output)
        assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]


@needs_lab
@pytest.mark.exhaustive
def test_a_benchmark_of_pairs(data: Path, backbone: Path, tmp_path: Path) -> None:
    from attribune_lab.benchmark.results import BenchmarkFolder
    from attribune_lab.benchmark.tables import benchmark_tables

    words = ["benchmark", "new", "--data", str(data), "--text", "one", "--text-pair", "two", "--label", "stars"]
    assert main([*words, "--attributes", "user", "--steps", "2", "--output", str(tmp_path / "mine.yaml")]) == 0
    experiment = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert experiment["sets"][0]["data"]["text_pair"] == ["two"]
    experiment |= {
        "settings": ["none", "linear"],
        "reference": "none",
        "data": {"max_length": 32},
        "backbone": {"name": str(backbone)},
    }
    experiment["sets"][0]["folds"] = [0]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(experiment))
    assert main(["benchmark", "run", str(tmp_path / "mine.yaml"), "--output", str(tmp_path / "out")]) == 0
    (table,) = benchmark_tables(BenchmarkFolder(tmp_path / "out"))
    facts = table.lines[0].group.results[0].facts()
    assert facts["words"].min() >= 8, "of both texts"


LONG = "the film was great " * 6_000  # 114,000 characters
ODD = ["", " ", None, "\x00\x01", "\ufe0f", "\u202e", "x" * 100_000, LONG]


def test_texts_of_any_kind_and_length(pair_run: Path, tmp_path: Path) -> None:
    """Each with each, in every window that cuts."""
    table = [{"one": one, "two": two, "user": "u1"} for one in ODD for two in ODD]
    predictor = load_run(pair_run)[1]
    alone = predictor.predict(table)["probability_same"]
    assert np.isfinite(alone).all()
    for truncation in ("only_first", "only_second"):
        text = dataclasses.replace(predictor.text_input, truncation=truncation)
        cut = Predictor(predictor.model, text_input=text).predict(table)["probability_same"]
        assert np.isfinite(cut).all()
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in table), encoding="utf-8")
    assert main(["predict", str(pair_run), str(file), "--output", str(tmp_path / "out.jsonl")]) == 0
    shown = [json.loads(line)["probability_same"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert shown == pytest.approx(alone.tolist(), abs=1e-4)
    with pytest.raises(DataError, match="column 'two' holds text with half of a character pair"):
        predictor.predict([{"one": "a", "two": "\ud83d"}])


def test_settings_that_cannot_be(data: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    given = command(data, tmp_path / "run", backbone=backbone, method="none")
    for change, message in (
        (["data.text_pair=one"], "column one is in both texts of the pair"),
        (["data.truncation=both"], "truncation"),
        (["data.text_pair=[two, two]"], "named twice"),
        (["data.text_pair=nowhere"], "nowhere"),
        (["data.text_pair=stars"], "is the label and also a text"),
    ):
        assert main([*given, *change]) == 1
        assert message in capsys.readouterr().err
