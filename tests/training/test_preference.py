"""The task `preference` in every verb, from a table to a prediction."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from preference_tables import chosen_and_rejected, learned_preference, preference_command, preferences
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.data.tables import read_table
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.values.panel import Panel

pytestmark = pytest.mark.slow

ROWS = preferences(120)


@pytest.fixture
def data(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(ROWS)


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    """A run that has learned the words and the judge."""
    return learned_preference(trained_runs)


def test_words_and_judges_are_learned(run: Path) -> None:
    results = RunFolder(run).read_results()
    assert list(results.table("test")[0].metrics) == ["accuracy", "log_loss"]
    assert any("are ties and are left out" in note for note in results.notes)
    assert (
        any("linear baselines cannot learn" in note for note in results.notes) or results.models[-1].name == "majority"
    )
    new = preferences(80, seed=1)
    predicted = load_run(run)[1].predict(new)
    decided = [row["winner"] != "tie" for row in new]
    hits = np.array([row["winner"] == name for row, name in zip(new, predicted["prediction"], strict=True)])
    assert hits[decided].mean() > 0.8
    other = load_run(run)[1].predict([{**row, "user": "u0" if row["user"] == "u3" else "u3"} for row in new])
    flipped = np.array(other["prediction"]) != np.array(predicted["prediction"])
    assert flipped[decided].mean() > 0.6, "who is asked decides"


def test_predictions_have_rewards_whose_difference_is_the_probability(run: Path, data: Path, tmp_path: Path) -> None:
    assert main(["predict", str(run), str(data), "--output", str(tmp_path / "out.jsonl")]) == 0
    shown = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(shown) == len(ROWS)
    for row in shown[:20]:
        difference = row["reward_first"] - row["reward_second"]
        assert row["probability_first"] == pytest.approx(1 / (1 + np.exp(-difference)), abs=1e-6)
        assert row["prediction"] == ("first" if difference > 0 else "second")
    predictor = load_run(run)[1]
    swapped = predictor.predict([{**row, "one": row["two"], "two": row["one"]} for row in ROWS])
    assert [row["probability_first"] for row in shown] == pytest.approx(
        swapped["probability_second"].tolist(), abs=1e-5
    )
    same = predictor.predict([{"one": "the film", "two": "the film", "user": "u1"}])
    assert same["probability_first"].tolist() == pytest.approx([0.5], abs=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.exhaustive), ["--prompt", "prompt"]])
def test_chosen_and_rejected_need_no_label(
    options: list[str], trained_runs: TrainedRuns, backbone: Path, tmp_path: Path
) -> None:
    run, rows = tmp_path / "run", chosen_and_rejected(ROWS)
    data = trained_runs.table(rows)
    assert main([*preference_command(data, run, backbone=backbone, is_chosen=True), *options]) == 0
    assert main(["evaluate", str(run), str(data)]) == 0
    predictor = load_run(run)[1]
    assert predictor.columns == (*(["prompt"] if options else []), "chosen", "rejected", "user")
    results = RunFolder(run).read_results()
    (majority,) = (row for row in results.table("validation") if row.name == "majority")
    assert majority.metrics["accuracy"].value == 0.5
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "preference between `chosen`, `rejected`, one reward for each" in card
    assert "label: none, the first text is the preferred one" in card
    assert ('"prompt": "..."' in card) == bool(options)
    if options:
        other = predictor.predict([{**row, "prompt": "the cast"} for row in rows])
        assert abs(other["reward_first"] - predictor.predict(rows)["reward_first"]).max() > 1e-6
    true = read_table(run / "test_predictions.parquet").column_names
    assert not [name for name in true if name.startswith("true_")]


def test_ties_are_counted_in_an_evaluation(run: Path, data: Path, capsys: Any) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(run), str(data)]) == 0
    notes = capsys.readouterr().err
    assert "with no preference between two different texts" in notes
    assert "are ties and are left out" in notes


@pytest.fixture
def with_ties(trained_runs: TrainedRuns, data: Path, backbone: Path) -> Path:
    """A run for which a tie is an answer."""
    words = ["task.learn_ties=true", "training.learning_rate=0.02", "--no-baselines"]
    return trained_runs.trained(preference_command(data, Path(), *words, backbone=backbone))


def test_ties_are_learned_and_predicted(with_ties: Path, data: Path, tmp_path: Path, capsys: Any) -> None:
    results = RunFolder(with_ties).read_results()
    assert not any("are ties and are left out" in note for note in results.notes)
    capsys.readouterr()
    assert main(["evaluate", str(with_ties), str(data), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["rows"] == len(ROWS)
    assert main(["predict", str(with_ties), str(data), "--output", str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    names = ["probability_first", "probability_second", "probability_tie"]
    for row in rows[:20]:
        assert sum(row[name] for name in names) == pytest.approx(1, abs=1e-5)
        decided = row["probability_first"] / (row["probability_first"] + row["probability_second"])
        difference = row["reward_first"] - row["reward_second"]
        assert decided == pytest.approx(1 / (1 + np.exp(-difference)), abs=1e-5)
        assert row["prediction"] == max(names, key=lambda name: row[name]).removeprefix("probability_")
    predictor = load_run(with_ties)[1]
    link, share = predictor.model.neural().link, predictor.task.tie_share
    begun = np.log(2 * share / (1 - share))
    assert abs(link.log_nu.item() - begun) > 1e-3, "the weight of ties is learned, and saved"
    rewards = predictor.reward([row["one"] for row in ROWS], user=[row["user"] for row in ROWS])
    assert rewards.tolist() == pytest.approx([row["reward_first"] for row in rows], abs=1e-5)


@pytest.mark.exhaustive
def test_a_run_with_ties_in_other_verbs(with_ties: Path, data: Path, tmp_path: Path) -> None:
    predictor = load_run(with_ties)[1]
    opinions = Panel.of(predictor, "user").predict(predictor, {name: [ROWS[0][name]] for name in ("one", "two")})
    assert set(opinions["prediction"]) <= {"first", "second", "tie"}
    new = small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "new"} for row in ROWS[:20]])
    shutil.copytree(with_ties, tmp_path / "run")
    for words in (
        ["enrol", str(tmp_path / "run"), str(new)],
        ["report", str(with_ties), str(data), "--output", str(tmp_path / "page.html")],
        ["compare", str(with_ties), str(with_ties)],
        ["describe", str(with_ties)],
        ["ablate", str(with_ties), str(data), "--rows", "20"],
    ):
        assert main(words) == 0, words


def test_a_panel_of_judges(run: Path) -> None:
    predictor = load_run(run)[1]
    rows = [row for row in preferences(40, seed=2) if row["winner"] != "tie"]
    opinions = Panel.of(predictor, "user").predict(
        predictor, {name: [row[name] for row in rows] for name in ("one", "two")}
    )
    assert np.mean([dissenters == ["u3"] for dissenters in opinions["dissenters"]]) > 0.5
    assert opinions["probability_first"] + opinions["probability_second"] == pytest.approx(np.ones(len(rows)))


def test_judgements_of_one_pair_make_distributions_and_clusters(backbone: Path, tmp_path: Path) -> None:
    pairs = [row for row in ROWS if row["winner"] != "tie"][:30]
    rows = [
        {**pair, "user": f"u{judge}", "winner": "first" if (judge + number) % 3 else "second"}
        for number, pair in enumerate(pairs)
        for judge in range(4)
    ]
    data = small_runs.write_csv(tmp_path / "judged.csv", rows)
    assert main(preference_command(data, tmp_path / "run", backbone=backbone)) == 0
    results = RunFolder(tmp_path / "run").read_results()
    assert any("not independent: intervals are over these" in note for note in results.notes)
    assert {"cross_entropy", "manhattan", "error_rate"} <= set(results.judgements("test")[0].metrics)


@pytest.mark.exhaustive
def test_runs_over_one_backbone_score_alone(trained_runs: TrainedRuns, data: Path, backbone: Path) -> None:
    run = trained_runs.trained([*preference_command(data, Path(), backbone=backbone), "--no-baselines"])
    group = PredictorGroup.from_pretrained({"a": run, "b": run})
    assert group.refusals["a"] == "it compares texts"
    found = group.predict({"a": ROWS[:9]})["a"]["probability_first"]
    assert found.tolist() == pytest.approx(load_run(run)[1].predict(ROWS[:9])["probability_first"].tolist(), abs=1e-5)


def test_hostile_rows(run: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    def written(changes: dict[str, Any]) -> str:
        return str(small_runs.write_csv(tmp_path / "hostile.csv", [*ROWS[:2], {**ROWS[2], **changes}, *ROWS[3:]]))

    assert main(["evaluate", str(run), written({"winner": "neither"})]) == 1
    assert "row 3 is 'neither', which is none of first, second, tie, equal" in capsys.readouterr().err
    assert main(["evaluate", str(run), written({"two": "", "winner": ""})]) == 0
    without = [{name: cell for name, cell in row.items() if name != "two"} for row in ROWS]
    table = small_runs.write_csv(tmp_path / "without.csv", without)
    capsys.readouterr()
    for words in (
        ["predict", str(run), str(table), "--output", str(tmp_path / "out.csv")],
        preference_command(table, tmp_path / "run", backbone=backbone),
    ):
        assert main(words) == 1
        assert "'two'" in capsys.readouterr().err


def test_rows_without_a_text_or_a_label_are_counted(backbone: Path, tmp_path: Path, capsys: Any) -> None:
    rows = [dict(row) for row in ROWS]
    for number, changes in {2: {"two": ""}, 4: {"one": " "}, 6: {"winner": "nan"}}.items():
        rows[number] |= changes
    data = small_runs.write_csv(tmp_path / "hostile.csv", rows)
    assert main([*preference_command(data, tmp_path / "run", backbone=backbone), "--no-baselines"]) == 0
    told = capsys.readouterr().err
    assert "2 rows without a text left out" in told
    assert "1 row without a label left out" in told


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: {"winner": "tie"}, "no training row has a label"),
        (lambda _: {"winner": "first"}, "every training label is"),
        (lambda row: {"two": row["one"]}, "no training row has two different texts"),
    ],
)
def test_tables_of_which_nothing_is_learned(
    change: Callable[[dict[str, Any]], dict[str, str]], message: str, backbone: Path, tmp_path: Path, capsys: Any
) -> None:
    data = small_runs.write_csv(tmp_path / "rows.csv", [{**row, **change(row)} for row in ROWS])
    assert main(preference_command(data, tmp_path / "run", backbone=backbone)) == 1
    assert message in capsys.readouterr().err


def test_a_label_that_no_training_row_has_is_named(data: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    other = small_runs.write_csv(tmp_path / "other.csv", [{**ROWS[0], "winner": "left"}, *ROWS[1:]])
    words = preference_command(data, tmp_path / "run", backbone=backbone)
    assert main([*words, "--test", str(other)]) == 1
    assert "is 'left', which is none of first, second, tie, equal: correct the cell" in capsys.readouterr().err


def test_settings_that_cannot_be(data: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    for change, message in (
        (["data.text_pair=[]"], "task 'preference' compares two texts: name one column of each"),
        (["data.text=[one, prompt]"], "task 'preference' compares two texts: name one column of each"),
        (["data.text_pair=one"], "column one is in both texts of the pair"),
        (["data.prompt=two"], "column two is a text that is compared and also the prompt or an attribute"),
        (["data.attributes=[{name: two}]"], "column two is a text that is compared"),
        (["data.prompt=winner"], "column winner is the label and also a text"),
        (["data.label=[winner, user]"], "reads one label column, 2 are named"),
        (["data.prompt=prompt", "data.chat=true"], "task 'preference' has no chat: leave it out"),
        (["data.partial_labels=true"], "task 'preference' has no partial_labels: leave it out"),
        (["method={name: linear}"], "method 'linear' compares no texts, as the task 'preference' does"),
        (
            ["task.classes=[a, b]"],
            "has no option classes; did you mean 'labels'? It has labels, ties, missing, score_by",
        ),
        (["task.labels=[first]"], "class"),
        (["data.window=sentences:8x3", "data.prompt=prompt"], "has the sentences of one text: choose chunks for pairs"),
    ):
        assert main(preference_command(data, run, *change, backbone=backbone)) == 1, change
        assert message in capsys.readouterr().err, change


@pytest.mark.parametrize(
    "settings",
    [
        ["data.window=chunks:8x3", "task.labels=[second, first]"],
        pytest.param(["data.window=head+tail:4+4"], marks=pytest.mark.exhaustive),
    ],
)
def test_windows_and_other_names(settings: list[str], data: Path, backbone: Path, tmp_path: Path) -> None:
    words = preference_command(data, tmp_path / "run", *settings, backbone=backbone, method="e2ln")
    assert main([*words, "--no-baselines"]) == 0
    assert main(["evaluate", str(tmp_path / "run"), str(data)]) == 0
