"""Runs of the method `in-text`: what is predicted for known, new, hidden and shuffled values, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_runs
from fastapi.testclient import TestClient
from lab_methods import needs_lab
from trained_runs import TrainedRuns

from attribune import AttributeModel, forget
from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

# The tokenizer of the tiny backbone knows these names.
ROWS = [{**row, "user": f"n{row['user'][1:]}"} for row in small_runs.reviews(90, seed=3)]
TEXTS = pd.DataFrame({"text": ["the film was great", "a dull plot", "so fine", "n7"], "user": ["n0", "n3", "n50", ""]})


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs("in-text", "--compare", "shuffled", "--no-baselines", rows=ROWS)


def test_every_door_reads_the_values(run: Path, tmp_path: Path) -> None:
    names = [one.name for one in RunFolder(run).read_results().models]
    assert names[:3] == ["in-text", "in-text, attributes hidden", "in-text, attributes shuffled"]
    predictor = load_run(run)[1]
    given, hidden = predictor.logits(TEXTS)[0], predictor.logits(TEXTS, hide_attributes=True)[0]
    differs = np.abs(given - hidden).max(axis=1) > 1e-5
    assert differs.tolist() == [True, True, True, False]  # the name n50 is in no training row
    np.testing.assert_allclose(predictor.logits(TEXTS, hide_attributes=["user"])[0], hidden, atol=1e-6)
    model = AttributeModel.from_pretrained(shutil.copytree(run, tmp_path / "copy") / "model")
    np.testing.assert_allclose(Predictor(model).logits(TEXTS)[0], given, atol=1e-6)
    with TestClient(create_app(load_models([str(run)]))) as client:
        body = [{"text": text, "attributes": {"user": user}} for text, user in TEXTS.itertuples(index=False)]
        answer = client.post("/v1/predict", json={"rows": body}).json()
        served = [one["output"]["probability_good"] for one in answer["predictions"]]
    assert served == pytest.approx(predictor.predict(TEXTS)["probability_good"].tolist(), abs=1e-5)


def test_the_ids_of_another_value_are_its_name(run: Path) -> None:
    predictor = load_run(run)[1]
    rows = predictor.encode_rows(TEXTS)
    for value in ("n0", "n4"):
        ids = np.full_like(rows.attribute_ids, predictor.schema["user"].values.ids([value])[0])
        expected = predictor.logits(TEXTS.assign(user=value))[0]
        np.testing.assert_allclose(predictor.score(rows.with_attribute_ids(ids)), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["enrol", "RUN", "TABLE"], "reads values as they are written, so that there is nothing to learn"),
        (["export", "RUN", "--output", "OUT"], "writes values in front of a text, which no other program does"),
        (["next", "RUN", "TABLE", "--for", "user=n3"], "has no vector for each value of 'user'"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_what_needs_a_vector_is_refused(
    run: Path,
    trained_runs: TrainedRuns,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    places = {"RUN": str(run), "TABLE": str(trained_runs.table(ROWS)), "OUT": str(tmp_path / "out")}
    assert main([places.get(word, word) for word in words]) == 1
    assert said in capsys.readouterr().err


def test_a_forgotten_name_is_read_as_an_unknown_one(run: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    copy = trained_runs.copy(run, tmp_path / "run")
    before = load_run(copy)[1].logits(TEXTS)[0]
    done = forget(copy, "user", "n3")
    assert not done.faults
    assert any("a text with the name is read as one with any unknown name" in note for note in done.notes)
    predictor = load_run(copy)[1]
    assert "n3" not in list(predictor.schema["user"].values)
    np.testing.assert_allclose(predictor.logits(TEXTS)[0], before, atol=1e-6)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--set", "data.window=chunks"], "a text is read at once, behind its values"),
        pytest.param(
            ["--backbone", "bilstm"],
            "values are none of them: choose a pretrained backbone, or write no values",
            marks=needs_lab,
        ),
        (["--method", "in-text+injector"], "'in-text' is for a plain model"),
        (["--task", "similarity", "--text-pair", "tags", "--label", "look"], "puts more in front of one text"),
        (["--task", "tags", "--label", "tags"], "acts at the point text"),
    ],
    ids=lambda one: one[-1] if isinstance(one, list) else "",
)
def test_what_cannot_be_read_is_refused_at_once(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    words = small_runs.train_command(
        trained_runs.table(ROWS), tmp_path / "run", backbone=trained_runs.backbone(), method="in-text"
    )
    assert main([*words, *more]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        (["stars"], ["--tuning", "lora", "--number", "look", "--set", "training.precision=bf16"]),
        (["taste"], ["--task", "regression", "--multi-label", "tags:;"]),
        (["look", "taste"], ["--task", "aspects"]),
        (["look"], ["--task", "ordinal", "--numeric", "price"]),
    ],
    ids=lambda words: words[1] if words[0].startswith("--") else "",
)
def test_kinds_of_attributes_and_tasks(trained_runs: TrainedRuns, labels: list[str], more: list[str]) -> None:
    words = small_runs.train_command(
        trained_runs.table(ROWS), "", backbone=trained_runs.backbone(), method="in-text", label=labels
    )
    run = trained_runs.trained([*words, *more, "--no-baselines"])
    predictor = load_run(run)[1]
    table = pd.DataFrame(ROWS[:5])
    assert np.abs(predictor.logits(table)[0] - predictor.logits(table, hide_attributes=True)[0]).max() > 1e-5


def test_names_that_the_tokenizer_does_not_know_are_said(trained_runs: TrainedRuns) -> None:
    run = trained_runs("in-text", "--no-baselines")
    codes = {one["code"]: one["values"] for one in RunFolder(run).read_results().to_dict()["findings"]}
    assert codes["values-unread"] == {"attribute": "user", "count": 7, "values": 7}
