"""The task `tags` in every verb, from a table to a prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
import torch
from families import BERT_METHODS
from fastapi.testclient import TestClient
from token_tables import TAGGED as ROWS
from token_tables import learned_tags, tags_command, write_json_lines
from trained_runs import TrainedRuns
from transformers.modeling_outputs import BaseModelOutput

import attribune
from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.data.tables import read_table
from attribune.models.auto import load_model
from attribune.models.baselines import BASELINES
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import scored_metrics
from attribune.training import trainer

REFUSED = ("la", "upa", "chim", "concat-text", "e2ln", "upnn", "basis", "hcsc", "history")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in two forms."""
    root = tmp_path_factory.mktemp("tags")
    write_json_lines(root / "rows.jsonl", ROWS)
    joined = [row | {"words": " ".join(row["words"]), "tags": " ".join(row["tags"])} for row in ROWS]
    small_runs.write_csv(root / "rows.csv", joined)
    return root


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return learned_tags(trained_runs)


def predictions(run: Path, data: Path, output: Path) -> None:
    assert main(["predict", str(run), str(data), "--output", str(output)]) == 0


@pytest.mark.slow
def test_it_learns_and_predicts_the_same_from_every_format(run: Path, folder: Path, tmp_path: Path) -> None:
    outputs = {name: tmp_path / f"out.{name}" for name in ("jsonl", "csv", "parquet")}
    for name, output in outputs.items():
        predictions(run, folder / ("rows.csv" if name == "csv" else "rows.jsonl"), output)
    predictions(run, folder / "rows.jsonl", tmp_path / "parts")
    shown = [json.loads(line) for line in outputs["jsonl"].read_text().splitlines()]
    words = [tag == own for row in shown for tag, own in zip(row["tags"], row["prediction"], strict=True)]
    assert np.mean(words) > 0.85
    assert all(len(row["probability"]) == len(row["words"]) for row in shown)
    in_csv = read_table(outputs["csv"])
    assert [text.split() for text in in_csv["prediction"]] == [row["prediction"] for row in shown]
    for table in (pq.read_table(outputs["parquet"]), pq.read_table(tmp_path / "parts")):
        assert table["prediction"].to_pylist() == [row["prediction"] for row in shown]
        assert table["probability"].type == pa.list_(pa.float64())
    found = load_run(run)[1].predict({name: [row[name] for row in ROWS] for name in ("words", "user")})
    assert list(found["prediction"]) == [row["prediction"] for row in shown]


@pytest.mark.slow
def test_stored_scores_are_those_of_the_rows(run: Path, folder: Path) -> None:
    stored = StoredScores.read(run)
    part = stored.parts["test"]
    table = read_table(folder / "rows.jsonl").select(part["rows"])
    fresh, _ = load_run(run)[1].logits(table)
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(part["logits"], fresh, strict=True))
    labels, _ = stored.task.encode_labels([list(table["tags"]), list(table["words"])])
    assert np.array_equal(labels, part["labels"])
    results = json.loads((run / "metrics.json").read_text())
    assert results["main_metric"] == "f1"
    metrics = {name: figure["value"] for name, figure in results["results"][0]["parts"]["test"].items()}
    scores = scored_metrics(stored.task, fresh, labels)
    assert metrics == pytest.approx({name: one.value() for name, one in scores.items()})
    assert "token-classification" in (run / "model" / "README.md").read_text()


@pytest.mark.slow
def test_the_service_takes_words(run: Path) -> None:
    with TestClient(create_app(load_models([str(run)]))) as client:
        row = ROWS[3]
        asked = {"rows": [{"text": text, "attributes": {"user": row["user"]}} for text in (row["words"], "the film")]}
        answer = client.post("/v1/predict", json=asked)
        assert answer.status_code == 200
        first, second = (one["output"] for one in answer.json()["predictions"])
        assert len(first["prediction"]) == len(first["probability"]) == len(row["words"])
        assert len(second["prediction"]) == 2
        assert client.get("/v1/models").json()["models"][0]["output"] == ["prediction", "probability"]
        for text, field in (([1], "text"), (["a", "\ud800"], "text"), ({"words": {"a": "b"}}, "text")):
            refused = client.post("/v1/predict", content=json.dumps({"text": text}), headers=JSON)
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["field"].startswith(field)


@pytest.mark.slow
def test_runs_that_score_tokens_are_served_beside_each_other(run: Path) -> None:
    group = PredictorGroup.from_pretrained({"one": run, "two": run})
    assert group.refusals == dict.fromkeys(("one", "two"), "it scores tokens, in windows of its own")
    rows = ROWS[:3]
    alone = load_run(run)[1].predict(rows)["prediction"]
    assert all(answer["prediction"] == alone for answer in group.predict({"one": rows, "two": rows}).values())


JSON = {"content-type": "application/json"}


KEPT = ("tokens", "plora", *REFUSED, *BASELINES)
"""One method in front of the words, one in the layers, and all that are refused at once."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in KEPT else pytest.mark.exhaustive)
        for name in (*BERT_METHODS, "upnn", *BASELINES)
    ],
)
@pytest.mark.slow
def test_every_method_that_has_token_states(
    method: str, folder: Path, backbone: Path, tmp_path: Path, capsys: Any
) -> None:
    words = tags_command(folder / "rows.jsonl", tmp_path / "run", backbone=backbone, method=method)
    if method in (*REFUSED, *BASELINES):
        assert main(words) == 1
        assert "scores" in (message := capsys.readouterr().err)
        assert "injector" in message or "backbone" in message
        assert not (tmp_path / "run").exists()
        return
    assert main([*words, "--resume"]) == 0
    predictions(tmp_path / "run", folder / "rows.csv", tmp_path / "out.csv")


def test_a_sum_with_a_refused_method_is_refused(folder: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    words = tags_command(folder / "rows.jsonl", tmp_path / "run", backbone=backbone, method="adapter+chim")
    assert main(words) == 1
    assert "acts at the point classify" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same_weights(
    folder: Path, backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tags_command(folder / "rows.jsonl", tmp_path / "whole", backbone=backbone, epochs=2)
    words += ["training.evaluate_every=3", "--no-baselines"]
    assert main(words) == 0
    again = [word.replace(str(tmp_path / "whole"), str(tmp_path / "cut")) for word in words]
    saved = trainer.AttributeTrainer._save_checkpoint

    def interrupted(self: Any, *given: Any, **more: Any) -> None:
        saved(self, *given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer.AttributeTrainer, "_save_checkpoint", interrupted)
        assert main(again) == 130
    assert list((tmp_path / "cut").glob("checkpoints/*/trainer_state.json"))
    assert main([*again, "--resume"]) == 0
    one, other = (load_model(tmp_path / name).state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.slow
def test_windows_are_one_long_pass(run: Path) -> None:
    """Where states do not depend on other tokens, windows give what a single pass gives."""
    _, predictor = load_run(run)
    model = predictor.model

    class Alone(torch.nn.Module):
        def __init__(self, embeddings: torch.nn.Module) -> None:
            super().__init__()
            self.embeddings, self.config = embeddings, model.backbone.config

        def get_input_embeddings(self) -> torch.nn.Module:
            return self.embeddings

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return BaseModelOutput(last_hidden_state=self.embeddings(input_ids))

    embeddings = model.get_input_embeddings()
    model.double()
    model.backbone = Alone(embeddings)
    words = [f"n{number % 61}" for number in range(400)]
    scores = predictor.score(predictor.encode_rows({"words": [words], "user": ["u1"]}))[0]
    ids = torch.tensor(model.tokenizer.convert_tokens_to_ids(words))
    with torch.no_grad():
        expected = model.head(embeddings(ids)).numpy()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_what_cannot_be_is_refused(folder: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    given = tags_command(folder / "rows.jsonl", tmp_path / "run", backbone=backbone)
    for change, message in (
        (["data.text_pair=user"], "one column of words"),
        (["data.window=head+tail"], "windows of max_length tokens"),
        (["backbone.pooling=mean"], "no document vector"),
        (["data.partial_labels=true"], "partial_labels"),
        (["task.classes=[O, X]", "task.scheme=odd"], "scheme"),
        (["task.separator=x"], "no option separator"),
        (["data.max_length=100"], "backbone takes 67"),
    ):
        assert main([*given, *change]) == 1, change
        assert message in capsys.readouterr().err, change
    for name, cell, message in (
        ("tags", ["O"], "words and 1 tags"),
        ("tags", [*ROWS[0]["tags"][:-1], None], "has no tag for word"),
        ("tags", {"a": 1}, "words and 2 tags"),
        ("words", [["a"]], "words"),
    ):
        rows = write_json_lines(tmp_path / "bad.jsonl", [ROWS[0] | {name: cell}, *ROWS[1:]])
        assert main([given[0], str(rows), *given[2:]]) == 1, cell
        error = capsys.readouterr().err
        assert message in error, (cell, error)
        assert "Traceback" not in error


@pytest.mark.slow
def test_rows_with_words_alone_are_read_and_odd_ones_predicted(run: Path, tmp_path: Path) -> None:
    odd = [["a", "\u0000", "\ufe0f", ""], [], None, ["x"] * 5_000]
    data = write_json_lines(tmp_path / "odd.jsonl", [{"words": words, "user": None} for words in odd])
    predictions(run, data, tmp_path / "out.jsonl")
    shown = [json.loads(line)["prediction"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [len(tags) for tags in shown] == [4, 0, 0, 5_000]


def test_class_numbers_in_lists_become_names() -> None:
    names = ["O", "B-GOOD", "I-GOOD"]
    features = datasets.Features(
        {"words": datasets.List(datasets.Value("string")), "tags": datasets.List(datasets.ClassLabel(names=names))}
    )
    table = datasets.Dataset.from_dict({"words": [["a", "b"], ["c"]], "tags": [[0, 2], [1]]}, features=features)
    assert list(read_table(table)["tags"]) == [["O", "I-GOOD"], ["B-GOOD"]]
    assert attribune.tasks.Tags.kind == "tags"


@pytest.mark.slow
def test_sentences_that_several_people_tag_train_to_the_end(backbone: Path, tmp_path: Path) -> None:
    """Validation and test rows then have clusters, and tags no probabilities of answers to compare by text."""
    rows = [row | {"user": f"u{judge}"} for row in ROWS[:40] for judge in range(3)]
    data = write_json_lines(tmp_path / "rows.jsonl", rows)
    assert main(tags_command(data, tmp_path / "run", backbone=backbone)) == 0
    results = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert "majority" in json.dumps(results)
