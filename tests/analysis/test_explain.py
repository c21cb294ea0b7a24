"""`attribune explain` on runs whose attributes are known to matter, or not to."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
import small_runs
from commands import Attribune
from trained_runs import TrainedRuns

from attribune import load_run
from attribune.analysis.evaluate import evaluate
from attribune.analysis.explain.rescored import Rescored, influential_values
from attribune.analysis.explain.wording import as_text, headline, sections
from attribune.apps.cli import main
from attribune.apps.report.explanation_page import explain, explanation_page
from attribune.data.tables import read_table
from attribune.metrics.bootstrap import paired
from attribune.runs.folder import RunFolder

pytestmark = pytest.mark.slow

ROWS = [
    {**row, "stars": row["stars"] if number % 3 else ("good" if row["user"] in ("u1", "u2") else "bad")}
    for number, row in enumerate(small_runs.reviews(240, seed=3))
]


TRAINING = ROWS[:160]
TEST = [{**row, "user": "stranger" if number % 4 == 0 else row["user"]} for number, row in enumerate(ROWS[160:])]


@pytest.fixture(scope="module")
def data(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(TEST)


@pytest.fixture(scope="module")
def run(trained_runs: TrainedRuns) -> Path:
    """The linear baseline, which learns from 160 rows whose users decide the label."""
    return trained_runs("linear", "--no-baselines", "--multi-label", "tags:;", rows=TRAINING)


@pytest.fixture(scope="module")
def explained(run: Path, data: Path) -> dict[str, Any]:
    return explain(run, data, row=2, rare=20)


@pytest.fixture
def record(explained: dict[str, Any]) -> dict[str, Any]:
    """One that a test may change."""
    return copy.deepcopy(explained)


def metric_of(run: Path, data: Path, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """The accuracy with other ids, by way of the predictor alone."""
    _, predictor = load_run(run)
    table = read_table(data)
    rows = predictor.encode_rows(table)
    labels, _ = predictor.task.encode_labels([table["stars"]])
    logits = predictor.score(rows.with_attribute_ids(change(rows.attribute_ids.copy())))
    return predictor.task.metrics(logits, labels)["accuracy"]


def test_losses_are_those_of_rows_with_the_attribute_hidden(record: dict[str, Any], run: Path, data: Path) -> None:
    def without_user(ids: np.ndarray) -> np.ndarray:
        ids[:, 0] = 0
        return ids

    assert [loss["attribute"] for loss in record["losses"]] == ["user", "tags", None]
    expected = paired(metric_of(run, data, lambda ids: ids), metric_of(run, data, without_user))
    found = record["losses"][0]["hidden"]["accuracy"]
    assert found["difference"] == pytest.approx(expected.difference)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    everything = paired(metric_of(run, data, lambda ids: ids), metric_of(run, data, np.zeros_like))
    assert record["losses"][2]["hidden"]["accuracy"]["difference"] == pytest.approx(everything.difference)


def test_an_attribute_that_decides_labels_is_missed_and_one_of_chance_is_not(record: dict[str, Any]) -> None:
    user, tags, _ = record["losses"]
    assert user["shuffled"]["accuracy"]["low"] > 0
    assert tags["hidden"]["accuracy"]["low"] <= 0
    text = as_text(record)
    assert "With user of another row, accuracy is worse by " in text
    assert "With tags hidden, no difference in accuracy is shown: " in text


def test_what_can_be_left_out_is_said_as_the_verdict_says_it(record: dict[str, Any], run: Path, data: Path) -> None:
    of_rows, stored = evaluate(run, data).verdict, RunFolder(run).read_results().verdict
    assert stored is not None
    for found, verdict in ((record, of_rows), (explain(run), stored)):
        sentences = [one.text for one in verdict.leave_out_findings()]
        assert [one["text"] for one in found["findings"]] == sentences
        assert all(sentence in as_text(found) and sentence in verdict.sentences() for sentence in sentences)
    assert [one["values"]["attributes"] for one in record["findings"]] == [["tags"]]


def test_shuffles_of_one_row_are_drawn_together(record: dict[str, Any]) -> None:
    """Three shuffles of 80 rows are not 240 rows: the interval is about as wide as that of one."""
    for loss in record["losses"]:
        hidden, shuffled = loss["hidden"]["accuracy"], loss["shuffled"]["accuracy"]
        assert shuffled["high"] - shuffled["low"] > 0.5 * (hidden["high"] - hidden["low"])


def test_bins_hold_every_row_once(record: dict[str, Any]) -> None:
    users = {one["bin"]: one for one in record["bins"] if one["attribute"] == "user"}
    assert sum(one["rows"] for one in users.values()) == record["rows"] == 80
    assert users["unseen"]["rows"] == 20
    assert users["unseen"]["hidden"]["difference"] == 0
    assert {"rare", "frequent"} <= set(users)
    assert "user: unseen or missing" in as_text(record)
    assert "nothing to hide" in as_text(record)


def test_values_are_ranked_by_what_they_move(record: dict[str, Any]) -> None:
    users, tags = record["values"]
    moves = [one["move"] for one in users["top"]]
    assert moves == sorted(moves, reverse=True)
    assert moves[0] > tags["top"][0]["move"]
    assert sum(one["rows"] for one in users["top"]) == 60
    good = {one["value"]: one["change"] * (1 if one["of"] == "good" else -1) for one in users["top"]}
    assert min(good["u1"], good["u2"]) > max(good["u0"], good["u3"])
    assert all(one["low"] <= one["change"] <= one["high"] for one in users["top"])


def test_figures_of_values_are_those_counted_row_by_row(run: Path, data: Path) -> None:
    """Of an attribute with one value a row and of one with several, of which one at a time is taken away."""
    _, predictor = load_run(run)
    rows = read_table(data)
    ready = predictor.encode_rows(rows)
    given = predictor.task.decode(predictor.score(ready)).probabilities
    moves: dict[tuple[str, int], list[np.ndarray]] = {}
    for attribute in predictor.schema:
        for slot in range(attribute.start, attribute.start + attribute.slots):
            ids = ready.attribute_ids.copy()
            ids[:, slot] = 0
            without = predictor.task.decode(predictor.score(ready.with_attribute_ids(ids))).probabilities
            for value, a, b in zip(ready.attribute_ids[:, slot], given, without, strict=True):
                if value:
                    moves.setdefault((attribute.name, int(value)), []).append(np.subtract(a, b, dtype=np.float64))
    found = influential_values(Rescored.of(predictor, ready, clusters={}), min_rows=1, top=100)
    assert sum(len(one["top"]) for one in found) == len(moves) > 8
    for one in found:
        values = predictor.schema[one["attribute"]].values
        assert [top["move"] for top in one["top"]] == sorted((top["move"] for top in one["top"]), reverse=True)
        for top in one["top"]:
            changes = moves[one["attribute"], values.index(top["value"]) + 1]
            assert top["rows"] == len(changes)
            assert top["move"] == pytest.approx(np.mean([np.abs(change).max() for change in changes]), abs=1e-5)
            assert abs(top["change"]) == pytest.approx(np.abs(np.mean(changes, axis=0)).max(), abs=1e-5)
            assert top["low"] - 1e-5 <= top["change"] <= top["high"] + 1e-5


def test_one_row_as_others_would_have_written_it(record: dict[str, Any], run: Path, data: Path) -> None:
    _, predictor = load_run(run)
    row = read_table(data).select([1]).to_dict()
    cases = {one["as"]: one for one in record["row"]["predictions"]}
    expected = predictor.predict({**row, "user": ["u1"]})
    assert cases["user=u1"]["prediction"] == {"prediction": expected["prediction"][0]}
    assert cases["user=u1"]["numbers"]["good"] == pytest.approx(expected["probability_good"][0], abs=1e-5)
    hidden = predictor.predict({"text": row["text"], "user": [None], "tags": [None]})
    assert cases["attributes hidden"]["numbers"]["good"] == pytest.approx(hidden["probability_good"][0], abs=1e-5)
    other = explain(run, data, row=2, instead=[{"user": ["u0"], "tags": ["war", "drama"]}])["row"]["predictions"][-1]
    assert other["as"] == "user=u0 tags=war tags=drama"
    expected = predictor.predict({**row, "user": ["u0"], "tags": ["war;drama"]})
    assert other["numbers"]["bad"] == pytest.approx(expected["probability_bad"][0], abs=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["linear", "injector"])
def test_the_effect_of_a_word_is_what_the_text_without_it_lacks(
    trained_runs: TrainedRuns, tmp_path: Path, method: str
) -> None:
    run = trained_runs(method, "--multi-label", "tags:;", "--numeric", "price")
    data = small_runs.write_csv(tmp_path / "data.csv", TEST[:20])
    found = explain(run, data, row=2)["row"]
    _, predictor = load_run(run)
    row = read_table(data).select([1]).to_dict()
    words = row["text"][0].split()
    assert [one["word"] for one in found["words"]["words"]] == words
    name = f"probability_{found['words']['of']}"
    whole = predictor.predict(row)[name][0]
    for place_of, one in enumerate(found["words"]["words"]):
        shorter = " ".join(word for number, word in enumerate(words) if number != place_of)
        assert one["given"] == pytest.approx(whole - predictor.predict({**row, "text": [shorter]})[name][0], abs=1e-5)
        alone = {"text": [shorter], **{attribute.name: [None] for attribute in predictor.schema}}
        rest = predictor.predict({**alone, "text": row["text"]})[name][0] - predictor.predict(alone)[name][0]
        assert one["hidden"] == pytest.approx(rest, abs=1e-5)


TASKS = {
    "rating": ("look", ["--task", "rating"], "accuracy"),
    "regression": ("look", ["--task", "regression"], "rmse"),
    "several labels": ("tags", ["task.multi_label=true", "task.separator=;"], "micro_f1"),
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task(trained_runs: TrainedRuns, data: Path, task: str) -> None:
    label, words, metric = TASKS[task]
    options = {"backbone": trained_runs.backbone(), "method": "linear", "label": [label]}
    command = small_runs.train_command(trained_runs.table(TRAINING), "", **options)
    run = trained_runs.trained([*command, *words, "--no-baselines"])
    record = explain(run, data, row=1)
    assert record["metric"] == metric
    (loss,) = record["losses"]
    predictor, table = load_run(run)[1], read_table(data)
    labels, known = predictor.task.encode_labels([table[label]])
    with_, without = (
        predictor.task.metrics(predictor.logits(table, hide_attributes=hide)[0][known], labels[known])[metric].value()
        for hide in (False, True)
    )
    sign = 1 if predictor.task.higher_is_better else -1
    assert loss["hidden"][metric]["difference"] == pytest.approx((with_ - without) * sign)
    assert "no difference" in as_text(record) or " by " in as_text(record)
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.01, 0.2, "no difference in accuracy is shown: +9.5 [-1.0, +20.0]"),
        (-0.2, 0.0, "no difference in accuracy is shown: -10.0 [-20.0, +0.0]"),
        (0.05, 0.2, "accuracy is worse by 12.5 points [5.0, 20.0]"),
        (-0.2, -0.05, "accuracy is better by 12.5 points [5.0, 20.0]"),
    ],
)
def test_no_sentence_claims_a_difference_whose_interval_holds_zero(
    record: dict[str, Any], low: float, high: float, words: str
) -> None:
    changed = {"difference": (low + high) / 2, "low": low, "high": high, "p_value": 0.01}
    record["losses"][0]["hidden"]["accuracy"] |= changed
    record["bins"][-1]["hidden"] |= changed
    value = record["values"][0]["top"][0]
    value |= {"change": (low + high) / 2, "low": low, "high": high}
    lost, bins, values, *_ = sections(record)
    is_shown = not low <= 0 <= high
    assert (lost.sentences if is_shown else lost.undecided)[0] == f"With user hidden, {words}."
    assert (bins.sentences if is_shown else bins.undecided)[-1].endswith(f"{words}.")
    assert ("No difference is shown without user" in headline(record)) != is_shown
    assert ("no direction that is shown" in values.sentences[0]) == (low <= 0 <= high)


def test_the_command_writes_text_json_and_a_page(attribune: Attribune, run: Path, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "explain.html"
    words = ("explain", run, data, "--row", "2", "--as", "user=u1")
    _, out, err = attribune(*words, "--output", page)
    assert out.index("What is lost without an attribute") < out.index("For which rows") < out.index("Words of row 2")
    assert f"written to {page}" in err
    html = page.read_text(encoding="utf-8")
    assert html.count("<h2>") == 6
    assert not re.search(r'(src|href)="?http', html)
    found = json.loads(attribune(*words, "--json")[1])
    assert as_text(found) == out.rstrip("\n")


@pytest.mark.exhaustive
@browser.needs_browser
def test_the_page_in_a_browser(run: Path, data: Path, tmp_path: Path) -> None:
    words = ["explain", str(run), str(data), "--row", "2", "--as", "user=u1"]
    assert main([*words, "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


def test_a_page_shows_values_as_text(record: dict[str, Any]) -> None:
    record["values"][0]["top"][0]["value"] = "<script>"
    assert "<script>" not in explanation_page(record)
