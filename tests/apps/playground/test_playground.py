"""What the playground answers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained_runs import ROWS, TrainedRuns

from attribune import load_run
from attribune.apps.playground import PanelAnswer, Session
from attribune.apps.playground.drawing import answer_html, map_svg, panel_html
from attribune.core.checksums import CheckedFiles
from attribune.errors import ConfigError

pytestmark = pytest.mark.slow

ATTRIBUTES = ("--multi-label", "tags:;", "--numeric", "price")


def test_a_text_is_answered_as_the_predictor_does(session: Session, run: Path) -> None:
    answer = session.ask("the film was great", {"user": ["u1"], "tags": ["war", "drama"]})
    assert answer.names == ["bad", "good"]
    assert answer.cases == ["as given", "attributes hidden", "user hidden", "tags hidden", "price hidden"]
    assert (answer.probabilities, answer.notes) == (True, [])
    _, predictor = load_run(run)
    users, tags = ["u1", None, None, "u1", "u1"], ["war;drama", None, "war;drama", None, "war;drama"]
    table = {"text": ["the film was great"] * 5, "user": users, "price": [None] * 5, "tags": tags}
    decoded = predictor.task.decode(predictor.logits(table)[0])
    np.testing.assert_allclose(answer.numbers, decoded.probabilities, atol=1e-6)
    assert answer.predictions == decoded.predictions["prediction"]


def test_what_the_model_does_not_know_is_read_as_unknown_and_said(session: Session) -> None:
    answer = session.ask("the film", {"user": ["stranger"]})
    np.testing.assert_allclose(answer.numbers[0], answer.numbers[1], atol=1e-6)
    assert answer.notes == ["user 'stranger' was in no training row: it is read as unknown"]


def test_two_values_differ_in_the_attribute_alone(session: Session) -> None:
    answer = session.compare("the film was great", {"user": ["u5"], "tags": ["war"]}, "user", ["u1", "u2"])
    assert answer.cases == ["user=u1", "user=u2", "without user"]
    for case, user in enumerate((["u1"], ["u2"], [])):
        alone = session.ask("the film was great", {"user": user, "tags": ["war"]})
        np.testing.assert_allclose(answer.numbers[case], alone.numbers[0], atol=1e-6)
    with pytest.raises(ConfigError, match="has no value 'stranger'"):
        session.compare("the film", {}, "user", ["u1", "stranger"])


def test_a_panel_puts_the_answers_of_all_values_together(session: Session) -> None:
    answer = session.ask_panel("the film was great", {"user": ["u5"], "tags": ["war"]}, "user")
    values = list(session.predictor.schema["user"].values)
    asked = [session.ask("the film was great", {"user": [value], "tags": ["war"]}) for value in values]
    each = np.stack([one.numbers[0] for one in asked])
    own, mean = each.argmax(axis=1), each.mean(axis=0)
    best = int(mean.argmax())
    assert (answer.members, len(values), answer.notes) == (7, 7, [])
    assert answer.probabilities == pytest.approx({"bad": mean[0], "good": mean[1]}, abs=1e-6)
    assert answer.shares == pytest.approx({"bad": np.mean(own == 0), "good": np.mean(own == 1)})
    assert answer.prediction == ["bad", "good"][best]
    order = np.argsort(each[:, best], kind="stable")
    assert answer.dissenters == [values[place] for place in order if own[place] != best]
    doubt = np.mean([-(p * np.log(p)).sum() for p in each])
    figures = {"disagreement": -(mean * np.log(mean)).sum() - doubt, "doubt": doubt}
    assert answer.figures == pytest.approx(figures, abs=1e-6)


def words_of(html: str) -> str:
    """What is read on a page."""
    return " ".join(re.sub("<[^>]*>", " ", html).split())


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"disagreement": 0.3, "doubt": 0.1}, "75% because the values give different answers, and 25% because"),
        ({"disagreement": 0.0, "doubt": 0.001}, "The model is sure of the answer, and the same for all values."),
        ({"expected": 3.26}, "The mean of their numbers is 3.26."),
        ({"expected": 3.26, "spread": 0.8}, "The standard deviation of their numbers is 0.8."),
    ],
)
def test_a_panel_speaks_in_sentences(session: Session, figures: dict[str, float], said: str) -> None:
    answer = replace(session.ask_panel("the film was great", {}, "user"), figures=figures)
    assert said in words_of(panel_html(answer, "user"))


def test_of_many_values_the_first_are_asked_and_the_others_counted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attribune.apps.playground.session._MAX_MEMBERS", 3)
    answer = session.ask_panel("the film was great", {}, "user")
    assert (answer.members, answer.notes) == (3, ["3 of 7 values were asked, the first of the list"])
    first = session.predictor.schema["user"].values[:3]
    each = [session.ask("the film was great", {"user": [value]}).numbers[0] for value in first]
    assert list(answer.probabilities.values()) == pytest.approx(np.mean(each, axis=0), abs=1e-6)


def test_only_attributes_are_asked_and_never_a_table(session: Session, trained_runs: TrainedRuns) -> None:
    for name in (str(trained_runs.table(ROWS)), "all", "nobody", ""):
        with pytest.raises(ConfigError, match="there is no attribute"):
            session.ask_panel("the film", {}, name)


def test_a_map_has_the_vectors_and_the_mean_labels_of_training_rows(session: Session) -> None:
    found = session.values.map("user")
    mine = [row["stars"] == "good" for row in ROWS if row["user"] == found.values[0]]
    assert found.means["share of good"][0] == pytest.approx(np.mean(mine))
    assert found.means["share of good"] + found.means["share of bad"] == pytest.approx(np.ones(len(found.values)))
    assert len(found.values) == len(found.positions) == 7
    vectors = session.values._vectors("user")
    centred = vectors - vectors.mean(axis=0)
    assert found.explained_variance_ratio == pytest.approx((found.positions**2).sum() / (centred**2).sum())
    assert (found.positions[:, 0] ** 2).sum() >= (found.positions[:, 1] ** 2).sum()


def test_neighbours_are_those_of_the_smallest_angle(session: Session) -> None:
    vectors = session.values._vectors("user")
    values = list(session.predictor.schema["user"].values)
    me = values.index("u3")
    cosines = {
        value: vectors[me] @ vectors[other] / np.linalg.norm(vectors[me]) / np.linalg.norm(vectors[other])
        for other, value in enumerate(values)
        if other != me
    }
    found = session.values.neighbours("user", "u3", limit=3)
    assert [value for value, _ in found] == sorted(cosines, key=lambda value: -cosines[value])[:3]
    assert dict(found) == pytest.approx({value: cosines[value] for value, _ in found})
    assert len(session.values.neighbours("user", "u3")) == 5 < len(cosines)
    with pytest.raises(ConfigError, match="no vector of 'stranger'"):
        session.values.neighbours("user", "stranger")


def test_examples_are_training_rows_with_their_values_and_labels(session: Session) -> None:
    examples = session.examples()
    assert len(examples) == 40
    for one, row in zip(examples, ROWS, strict=False):
        assert (one.text, one.label, one.second) == (row["text"], row["stars"], "")
        assert one.values["user"] == [row["user"]]
        assert set(one.values["tags"]) == set(filter(None, row["tags"].split(";")))
        assert one.values["price"] == [row["price"]] * bool(row["price"])


def test_ratings_are_in_their_order_and_classes_by_probability(session: Session) -> None:
    answer = replace(
        session.ask("the film", {}), names=["1", "2", "3"], numbers=np.array([[0.2, 0.5, 0.3]]), cases=["as given"]
    )
    rows = r"<tr><th>(\d)</th>"
    assert re.findall(rows, answer_html(answer)) == ["2", "3", "1"]
    assert re.findall(rows, answer_html(replace(answer, is_ordered=True))) == ["1", "2", "3"]
    named = replace(answer, names=["prediction", "2", "3"])
    assert answer_html(named).count("<th>prediction</th>") == 2  # also the name of a class
    assert answer_html(replace(named, probabilities=False)).count("<th>prediction</th>") == 1
    shares = {"1": 0.2, "2": 0.5, "3": 0.3}
    panel = replace(session.ask_panel("the film", {}, "user"), probabilities=shares, shares=shares)
    assert re.findall(rows, panel_html(panel, "user")) == ["2", "3", "1"]
    assert re.findall(rows, panel_html(replace(panel, is_ordered=True), "user")) == ["1", "2", "3"]


def test_a_map_names_the_values_at_its_edges_and_escapes_them() -> None:
    rng = np.random.default_rng(0)
    values = ["<img src=x>", *(f"v{number}" for number in range(1, 60))]
    positions = rng.normal(size=(60, 2))
    positions[0], positions[1] = [9, 0], [-9, 0]
    drawing = map_svg(values, positions, np.full(60, 10), np.append(np.nan, rng.random(59)), by="share of good")
    assert drawing.count("<circle") == 60
    assert "<img" not in drawing
    names = re.findall("<text[^>]*>([^<]*)</text>", drawing)
    assert {"&lt;img src=x&gt;", "v1", "share of good"} <= set(names)
    assert len(names) < 30, "names that would overlap are left out"
    x = {title: float(at) for at, title in re.findall(r'cx="([\d.]+)"[^>]*><title>([^:]*):', drawing)}
    assert max(x, key=x.__getitem__) == "&lt;img src=x&gt;"
    assert min(x, key=x.__getitem__) == "v1"


@pytest.mark.parametrize(
    ("method", "more"),
    [("linear", ATTRIBUTES), pytest.param("automl", ("--no-baselines",), marks=pytest.mark.exhaustive), ("none", ())],
)
def test_models_without_vectors_are_played_with_too(
    method: str, more: tuple[str, ...], trained_runs: TrainedRuns
) -> None:
    session = Session.open(trained_runs(method, *more))
    answer = session.ask("the film was great", {attribute.name: ["x"] for attribute in session.attributes})
    assert answer.numbers.sum(axis=1) == pytest.approx(np.ones(len(answer.cases)))
    for attribute in session.attributes:
        assert session.values.map(attribute.name) is None
    if method == "none":
        assert "this one reads none" in session.no_panel
    else:
        assert session.no_panel is None
        assert sum(session.ask_panel("the film was great", {}, "user").shares.values()) == pytest.approx(1)


def test_without_the_training_table_only_examples_and_means_are_missing(
    run: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    moved = trained_runs.copy(run, tmp_path / "run")
    recipe = (moved / "recipe.yaml").read_text(encoding="utf-8")
    table = str(trained_runs.table(ROWS))
    assert table in recipe
    CheckedFiles(moved).write({"recipe.yaml": recipe.replace(table, str(tmp_path / "train.csv")).encode()})
    session = Session.open(moved)
    assert session.examples() == []
    assert "train.csv" in session.notes[0]
    assert session.values.map("user").means == {}
    assert session.ask("the film", {}).cases[0] == "as given"


@pytest.mark.parametrize(
    ("text", "said"), [("", "no text"), ("  \n", "no text"), ("a " * 60_000, "120,000 characters")]
)
def test_texts_that_cannot_be_read_are_refused(text: str, said: str, session: Session) -> None:
    with pytest.raises(ConfigError, match=said):
        session.ask(text, {})


def test_names_are_escaped_in_the_answer(session: Session) -> None:
    answer = session.ask("<b>film</b>", {"user": ["<img src=x onerror=alert(1)>"]})
    assert "<img" not in answer_html(answer)
    panel = replace(session.ask_panel("<b>film</b>", {}, "user"), dissenters=["<img src=x>"], prediction="<img>")
    assert "<img" not in panel_html(panel, "<img>")


def test_a_panel_of_numbers_has_their_mean_and_spread_alone() -> None:
    numbers: dict[str, Any] = {"members": 4, "prediction": "3.25", "figures": {"spread": 0.5}}
    answer = PanelAnswer(**numbers, probabilities={}, shares={}, dissenters=[], notes=["3 of 4 were asked"])
    said = "4 values of user together: 3.25 The standard deviation of their numbers is 0.5. 3 of 4 were asked."
    assert words_of(panel_html(answer, "user")) == said
