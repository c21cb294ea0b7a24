"""Panels: what they say is what single predictions say, put together."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from commands import Fails
from datasets import Dataset
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main
from attribune.errors import ConfigError, DataError
from attribune.metrics.distributions import disagreement
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run
from attribune.schema.schema import Revision
from attribune.values.panel import Panel

TEXTS = {"text": ["great film", "awful", "", "dull dull dull but great"]}


pytestmark = pytest.mark.slow


def labelled(runs: TrainedRuns, label: str, *more: str) -> Predictor:
    """A model of another column."""
    words = small_runs.train_command(runs.table(ROWS), "", backbone=runs.backbone(), label=[label])
    return load_run(runs.trained([*words, *more, "--no-baselines"]))[1]


@pytest.fixture
def predictor(trained_runs: TrainedRuns) -> Predictor:
    return load_run(trained_runs("injector"))[1]


def alone(predictor: Predictor, **values: Any) -> np.ndarray:
    """Probabilities of the texts for one member."""
    rows = {name: [values.get(name)] * len(TEXTS["text"]) for name in predictor.schema.names}
    return predictor.task.decode(predictor.logits(TEXTS | rows)[0]).probabilities  # type: ignore[return-value]


@pytest.mark.parametrize("method", ["injector", "linear", pytest.param("plora", marks=pytest.mark.exhaustive)])
def test_a_panel_says_what_its_members_say(trained_runs: TrainedRuns, method: str) -> None:
    predictor = load_run(trained_runs(method))[1]
    panel = Panel.of(predictor, "user")
    users = list(predictor.schema["user"].values)
    assert list(panel.names) == users
    rows = TEXTS | {name: [None] * 4 for name in predictor.schema.names if name != "user"}
    found = panel.predict(predictor, rows)
    each = np.stack([alone(predictor, user=user) for user in users], axis=1)
    mean, answers = each.mean(axis=1), ["bad", "good"]
    for place, answer in enumerate(answers):
        assert found[f"probability_{answer}"] == pytest.approx(mean[:, place], abs=1e-6)
        assert found[f"share_{answer}"] == pytest.approx((each.argmax(axis=2) == place).mean(axis=1))
    assert found["prediction"] == [answers[one] for one in mean.argmax(axis=1)]
    people, doubt = disagreement(each)
    assert found["disagreement"] == pytest.approx(people, abs=1e-6)
    assert found["doubt"] == pytest.approx(doubt, abs=1e-6)
    entropy = -(mean * np.log(mean)).sum(axis=1)
    assert people + doubt == pytest.approx(entropy, abs=1e-9)
    for text in range(4):
        other = {user for user, row in zip(users, each[text], strict=True) if row.argmax() != mean[text].argmax()}
        assert set(found["dissenters"][text]) == other


def test_ordered_answers_have_a_mean_and_a_spread(trained_runs: TrainedRuns) -> None:
    predictor = labelled(trained_runs, "look", "--task", "rating")
    found = Panel.of(predictor, "user").predict(predictor, TEXTS | {"tags": [None] * 4})
    each = np.stack([alone(predictor, user=user) for user in predictor.schema["user"].values], axis=1)
    numbers = each @ predictor.task.codec.positions
    assert found["expected"] == pytest.approx(numbers.mean(axis=1), abs=1e-5)
    assert found["spread"] == pytest.approx(numbers.std(axis=1), abs=1e-5)


@pytest.mark.exhaustive
def test_numbers_have_a_mean_and_a_spread(trained_runs: TrainedRuns) -> None:
    predictor = labelled(trained_runs, "look", "--task", "regression")
    found = Panel.of(predictor, "user").predict(predictor, TEXTS)
    assert set(found) == {"prediction", "spread"}
    each = [predictor.predict(TEXTS | {"user": [user] * 4})["prediction"] for user in predictor.schema["user"].values]
    assert found["prediction"] == pytest.approx(np.mean(each, axis=0), abs=1e-5)
    assert found["spread"] == pytest.approx(np.std(each, axis=0), abs=1e-5)


def test_a_table_of_members_and_the_texts_own_attributes(predictor: Predictor) -> None:
    others = [name for name in predictor.schema.names if name != "user"]
    members = Dataset.from_dict({"user": ["u1", None, "u3"], "name": ["Ann", "Someone", "Cy"], "age": [1, 2, 3]})
    assert Panel.of(predictor, members.to_pandas()).names == ("Ann", "Someone", "Cy")
    panel = Panel.of(predictor, members)
    assert panel.names == ("Ann", "Someone", "Cy")
    own = {name: ["drama", None, "war", "war"] if name == "tags" else [None] * 4 for name in others}
    logits = panel.scores(predictor, panel.encode(predictor, TEXTS | own))
    for member, user in enumerate(["u1", None, "u3"]):
        single = predictor.logits(TEXTS | own | {"user": [user] * 4})[0]
        assert logits[:, member] == pytest.approx(single, abs=1e-5)
    with pytest.raises(DataError, match="no column"):
        panel.encode(predictor, {"user": ["u1"], **{name: [None] for name in others}})


def test_many_texts_are_scored_in_pieces(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = Panel.of(predictor, "user")
    rows = TEXTS | {name: [None] * 4 for name in predictor.schema.names if name != "user"}
    whole = panel.predict(predictor, rows)
    monkeypatch.setattr("attribune.values.panel._SCORES", len(panel) + 1)  # a text at a time
    pieces = panel.predict(predictor, rows)
    for name in ("probability_good", "share_bad", "disagreement", "doubt"):
        assert pieces[name] == pytest.approx(whole[name], abs=1e-5)
    assert (pieces["prediction"], pieces["dissenters"]) == (whole["prediction"], whole["dissenters"])
    assert panel.predict(predictor, {name: [] for name in rows})["prediction"] == []


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_command_writes_opinions(
    trained_runs: TrainedRuns, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = small_runs.write_csv(tmp_path / "texts.csv", [{"text": text} for text in TEXTS["text"]])
    members = tmp_path / "members.csv"
    small_runs.write_csv(members, [{"user": "u1", "tags": "drama"}, {"user": "u2", "tags": "war"}])
    output = tmp_path / f"out.{ending}"
    command = ["predict", str(trained_runs("injector")), str(texts), "--output", str(output)]
    assert main([*command, "--panel", str(members)]) == 0
    said = capsys.readouterr().err  # nothing of attributes that the members have
    assert "attribute 'user'" not in said
    assert "attribute 'tags'" not in said
    with output.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file)) if ending == "csv" else [json.loads(line) for line in file]
    assert [row["text"] for row in rows] == TEXTS["text"]
    dissent = rows[0]["dissenters"]
    named = json.loads(dissent) if isinstance(dissent, str) else dissent
    assert set(named) <= {"u1", "u2"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("tags.csv", "no such file"),
        ([{"user": "nobody"}], "1 value is not in the vocabulary of the model"),
        ([{"age": "3"}], "the columns age: a panel has a row for each member, with one of the columns user"),
    ],
)
def test_panels_that_cannot_be(predictor: Predictor, tmp_path: Path, members: Any, message: str) -> None:
    if isinstance(members, list):
        small_runs.write_csv(tmp_path / "members.csv", members)
        members = str(tmp_path / "members.csv")
    with pytest.raises((ConfigError, DataError), match=message):
        Panel.of(predictor, members)


def test_nobody_can_be_asked_when_all_values_are_forgotten(predictor: Predictor) -> None:
    model = predictor.model
    known = model.values.known()
    model.values.use(known.revised(Revision.removing(known.schema, {"user": tuple(known.schema["user"].values)})))
    with pytest.raises(ConfigError, match="'user', of which the model knows no value"):
        Panel.of(predictor, "user").predict(predictor, TEXTS)


def test_all_is_for_one_attribute(predictor: Predictor, trained_runs: TrainedRuns) -> None:
    assert Panel.of(predictor, "all").names == Panel.of(predictor, "user").names
    both = "data.attributes=[{kind: categorical, name: user}, {kind: categorical, name: taste}]"
    two = labelled(trained_runs, "stars", both)
    said = r"the panel is 'all': give one of the attributes whose values .* \(user, taste"
    with pytest.raises(ConfigError, match=said):
        Panel.of(two, "all")
    panel = Panel.of(two, "user")
    with pytest.raises(DataError, match="no column 'taste'"):
        panel.predict(two, TEXTS)
    assert len(panel.predict(two, TEXTS | {"taste": ["1", "4", None, "2"]})["prediction"]) == 4


@pytest.mark.exhaustive
def test_models_without_panels(fails: Fails, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    plain = load_run(trained_runs("none"))[1]
    with pytest.raises(ConfigError, match="this one reads none"):
        Panel.of(plain, "user")
    several = labelled(trained_runs, "tags", "task.multi_label=true", "task.separator=;")
    with pytest.raises(ConfigError, match="a panel is for tasks with one answer of several"):
        Panel.of(several, "user")
    texts = small_runs.write_csv(tmp_path / "texts.csv", [{"text": text} for text in TEXTS["text"]])
    message = fails("predict", trained_runs("injector"), texts, "--output", tmp_path / "parts", "--panel", "user")
    assert "a panel writes one file: give an output with an ending" in message
