"""Encoders of new values: they learn what there is to learn, are stored with the model, and enrol in one pass."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from datasets import Dataset
from drawn_values import EACH, TASKS, drawn_rows, model_of
from trained_runs import TrainedRuns

from attribune import AttributeModel
from attribune.apps.cli import main
from attribune.core.files import read_json
from attribune.errors import ConfigError
from attribune.models.set_encoder import LabelledDocuments
from attribune.models.value_slopes import value_slopes
from attribune.runs.enrol import enrol
from attribune.runs.loading import load_run
from attribune.training import new_values
from attribune.training.new_values import can_encode_sets, learn_set_encoder

NEW = {
    "text": ["great film", "dull", "great"] * 2,
    "stars": ["good", "bad", "good"] * 2,
    "user": ["n1", "n1", "n2"] * 2,
}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_values, "_STEPS", 30)


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "classification",
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in TASKS if kind != "classification"),
    ],
)
def test_it_knows_new_values_better_than_none(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are drawn from the model with vectors far from the unknown one; values that taught nothing gain."""
    monkeypatch.setattr(new_values, "_STEPS", 300)
    task = TASKS[kind]
    model = model_of(task, tmp_path)
    rows = drawn_rows(model, task, scale=3.0)
    state = {name: p.detach().clone() for name, p in model.named_parameters()}
    user = model.schema["user"]
    found = learn_set_encoder(model, user, rows.take, rows.attribute_ids, run=nullcontext)
    assert found is not None
    assert found.values == 48
    assert found.loss_with < 0.98 * found.loss_without
    parameters = dict(model.named_parameters())
    assert all(torch.equal(parameters[name], value) for name, value in state.items())
    assert [name for name in parameters if name not in state] == [f"set_encoders.0.{n}" for n in ENCODER]


@pytest.mark.exhaustive
def test_it_is_learned_to_the_same_figures(tmp_path: Path) -> None:
    task = TASKS["rating"]
    found = []
    for folder in ("one", "two"):
        model = model_of(task, tmp_path / folder)
        rows = drawn_rows(model, task, scale=3.0)
        found.append(learn_set_encoder(model, model.schema["user"], rows.take, rows.attribute_ids, run=nullcontext))
    assert found[0] == found[1]


ENCODER = ["E", "W_1", "b_1", "W_2", "U", "q", "kappa"]


@pytest.mark.exhaustive
def test_more_rows_say_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vectors of all rows of a value tell its other values' rows apart better than those of one row."""
    monkeypatch.setattr(new_values, "_STEPS", 300)
    task = TASKS["regression"]
    model = model_of(task, tmp_path)
    rows, user = drawn_rows(model, task, scale=3.0), model.schema["user"]
    assert learn_set_encoder(model, user, rows.take, rows.attribute_ids, run=nullcontext) is not None
    owners = rows.attribute_ids[:, 0]
    hidden = np.zeros_like(owners)
    slopes = value_slopes(model, user, rows, nullcontext, own=hidden, described=hidden)
    encoder = model.set_encoder("user")
    assert slopes is not None
    assert encoder is not None
    labels = torch.stack(slopes.labels)
    documents = LabelledDocuments.of(task, slopes.documents, slopes.logits.float(), labels)
    losses = []
    for count in (0, 1, EACH - 1):
        sets = [np.flatnonzero(owners == value)[:count] for value in range(1, 61)]
        vectors = encoder.of_sets(documents, sets) / model.values.spread(user)
        last = torch.arange(EACH - 1, 60 * EACH, EACH)
        logits = slopes.logits[last].float() + torch.einsum("ncd,nd->nc", slopes.J[last].float(), vectors)
        losses.append(float(task.row_losses(logits, labels[last]).mean()))
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.slow
def test_too_few_values_have_no_encoder(tmp_path: Path) -> None:
    model = model_of(TASKS["rating"], tmp_path)
    rows, user = drawn_rows(model, TASKS["rating"], scale=1.0), model.schema["user"]
    few = rows.attribute_ids.copy()
    few[few > 19] = 0
    assert learn_set_encoder(model, user, rows.take, few, run=nullcontext) is None
    assert model.config.set_encoders is None
    with torch.no_grad():  # nothing depends on the value
        model.head.weight.zero_()
    found = learn_set_encoder(model, user, rows.take, rows.attribute_ids, run=nullcontext)
    assert found is not None
    assert found.loss_with == found.loss_without


def test_rows_stay_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.concatenate([np.repeat(np.arange(1, 31), 50), np.arange(31, 60), np.zeros(9, np.int64)])[:, None]
    for limit, each in ((6_000, 40), (300, 10), (100, 4)):
        chosen = new_values._rows_of_episodes(ids, np.random.default_rng(0), limit=limit)
        assert chosen is not None
        owners, counts = np.unique(ids[chosen], return_counts=True)
        assert set(counts) == {each}
        assert owners.max() <= 30
        assert len(chosen) <= limit


# Runs


ROWS = [row | {"user": f"u{number % 25}"} for number, row in enumerate(small_runs.reviews(200, seed=3))]


def words(library: TrainedRuns, output: Path | str, *, method: str = "injector", on: bool = True) -> list[str]:
    command = small_runs.train_command(library.table(ROWS), Path(output), backbone=library.backbone(), method=method)
    return [*command, f"training.set_encoders={str(on).lower()}", "--no-baselines", "--tuning", "frozen"]


@pytest.fixture
def folder(trained_runs: TrainedRuns, few_steps: None) -> Path:
    """A run with an encoder, and the messages of its training."""

    def make(folder: Path) -> None:
        folder.mkdir()
        with redirect_stderr(io.StringIO()) as said:
            assert main(words(trained_runs, folder / "run")) == 0
        (folder / "said.txt").write_text(said.getvalue(), encoding="utf-8")

    return trained_runs.once("set-encoder", words(trained_runs, ""), make)


@pytest.fixture
def original(folder: Path) -> Path:
    return folder / "run"


@pytest.fixture
def run(original: Path, trained_runs: TrainedRuns, tmp_path: Path) -> Path:
    """A run with an encoder that a test may change."""
    return trained_runs.copy(original, tmp_path / "run")


def predictions(run: Path, users: list[str]) -> Any:
    rows = {"text": ["great film"] * len(users), "user": users}
    return load_run(run)[1].logits(Dataset.from_dict(rows))[0]


@pytest.mark.slow
def test_it_is_stored_and_enrols_without_gradients(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_json(run / "model" / "config.json", what="config")["set_encoders"] == ["user"]
    model = AttributeModel.from_pretrained(run / "model")
    encoder = model.set_encoder("user")
    assert encoder is not None
    with torch.no_grad():
        encoder.W_2.normal_()  # so short a training may find nothing
    model.save_pretrained(run / "model")
    users = [f"u{number}" for number in range(25)]
    before = predictions(run, users)
    with monkeypatch.context() as patch:
        patch.setattr(torch.autograd, "backward", None)
        found = enrol(run, Dataset.from_dict(NEW), by="encoder").values
    assert [(value.value, value.rows) for value in found] == [("n1", 4), ("n2", 2)]
    assert found[0].loss_before != found[0].loss_after
    assert np.array_equal(predictions(run, users), before)
    assert len(np.unique(predictions(run, ["n1", "n2", "unknown"]))) > 3
    vectors = load_run(run)[1].model.value_vectors("user", count=27)
    assert np.abs(vectors[25:]).max() > 0
    assert main(["enrol", str(run), "--undo"]) == 0
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 0
    alone = {
        name: [value for value, user in zip(column, NEW["user"], strict=True) if user == "n1"]
        for name, column in NEW.items()
    }
    enrol(run, Dataset.from_dict(alone), by="encoder")
    np.testing.assert_allclose(load_run(run)[1].model.value_vectors("user", count=25)[-1], vectors[25], atol=1e-6)


@pytest.mark.slow
def test_both_finds_the_maximum_of_the_posterior(run: Path) -> None:
    found = {}
    for by in ("posterior", "both"):
        enrol(run, Dataset.from_dict(NEW), by=by, steps=60)  # type: ignore[arg-type]
        found[by] = predictions(run, ["n1", "n2"])
        assert main(["enrol", str(run), "--undo"]) == 0
    np.testing.assert_allclose(found["both"], found["posterior"], atol=1e-3)


@pytest.mark.slow
def test_the_command_says_how_well_it_does(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = (folder / "said.txt").read_text(encoding="utf-8")
    assert "encoder of new values of 'user': trained on 20 values; rows of others have the loss " in said
    new = tmp_path / "new.jsonl"
    new.write_text(json.dumps({"text": "fine", "stars": "good", "user": "x"}) + "\n", encoding="utf-8")
    assert main(["enrol", str(run), str(new), "--by", "encoder", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"][0]["value"] == "x"
    assert main(["enrol", str(run), str(new), "--by", "guess"]) == 1
    assert "'encoder' or 'both', it is 'guess'" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("on", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_continued_run_has_an_encoder_of_its_own(
    on: bool, original: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    assert main([*words(trained_runs, tmp_path / "run", on=on), "--continue", str(original)]) == 0
    model = AttributeModel.from_pretrained(tmp_path / "run" / "model")
    assert (model.set_encoder("user") is not None) is on


@pytest.mark.exhaustive
@pytest.mark.slow
def test_described_values_have_one(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    """Episodes show the description of a value, and hide its own vector."""
    table = tmp_path / "users.csv"
    lines = ["user,age", *(f"u{number},{number + 20}" for number in range(25)), "n1,30"]
    table.write_text("\n".join(lines), encoding="utf-8")
    assert main([*words(trained_runs, tmp_path / "run"), "--values", f"user={table}"]) == 0
    rows = {name: column[:2] for name, column in NEW.items()} | {"user": ["n9", "n9"]}
    assert enrol(tmp_path / "run", Dataset.from_dict(rows), by="encoder").values[0].rows == 2


@pytest.mark.slow
@pytest.mark.parametrize("by", ["encoder", "both"])
def test_without_an_encoder_there_is_a_cure(trained_runs: TrainedRuns, tmp_path: Path, by: Any) -> None:
    run = trained_runs.copy(trained_runs("injector"), tmp_path / "run")
    with pytest.raises(ConfigError, match=f"no encoder of new values of 'user', which '{by}' needs: train with"):
        enrol(run, Dataset.from_dict(NEW), by=by)
    assert not (run / ".model.new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "adapter", "hcsc"])
def test_models_that_can_have_none_are_refused_before_training(
    trained_runs: TrainedRuns, tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(trained_runs, tmp_path / "run", method=method)) == 1
    assert "no attribute has vectors that could be encoded from rows: turn it off" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_hashed_and_numeric_attributes_have_none(tmp_path: Path) -> None:
    model = model_of(TASKS["rating"], tmp_path)
    user = model.schema["user"]
    assert can_encode_sets(model, user)
    assert not can_encode_sets(model, replace(user, spec=replace(user.spec, unseen="hash", buckets=8)))


@pytest.mark.slow
def test_a_failure_loses_no_trained_model(
    trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory that runs out in the middle of the episodes: the model is stored without an encoder, and loads."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(new_values._Episodes, "loss", fail)
    assert main(words(trained_runs, tmp_path / "run")) == 0
    assert "encoder of new values of 'user': not trained (out of memory)" in capsys.readouterr().err
    model = AttributeModel.from_pretrained(tmp_path / "run" / "model")
    assert model.config.set_encoders is None
    assert model.set_encoder("user") is None


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_interruption_is_resumed_to_the_same_model(
    original: Path, trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(new_values._Episodes, "loss", interrupt)
        assert main(words(trained_runs, tmp_path / "run")) == 130
    assert main([*words(trained_runs, tmp_path / "run"), "--resume"]) == 0
    found, expected = ((run / "model" / "model.safetensors").read_bytes() for run in (tmp_path / "run", original))
    assert found == expected


@pytest.mark.slow
def test_rows_of_values_are_found_at_once(run: Path) -> None:
    """Values with rows between each other, and of several in a table."""
    users = ["n3", "u1", "n1", "n3", None, "n2", "n1", "n3"]
    rows = {"text": [f"film n{number}" for number in range(8)], "stars": ["good", "bad"] * 4, "user": users}
    found = enrol(run, Dataset.from_dict(rows)).values
    assert {value.value: value.rows for value in found} == {"n3": 3, "n1": 2, "n2": 1}
    assert all(value.loss_before is not None for value in found)
