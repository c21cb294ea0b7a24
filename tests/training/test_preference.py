"""The task `preference` in every verb, from a table to a prediction."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from fastapi.testclient import TestClient
from preference_tables import chosen_and_rejected, preferences

from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.data.tables import read_table
from attribune.models.panel import Panel
from attribune.models.predictor import Predictor
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

ROWS = preferences()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("preference")
    small_runs.save_backbone(root / "backbone")
    small_runs.write_csv(root / "rows.csv", ROWS)
    small_runs.write_csv(root / "trl.csv", chosen_and_rejected(ROWS))
    return root


def command(folder: Path, run: Path, *words: str, data: str = "rows.csv", method: str = "injector") -> list[str]:
    given = small_runs.train_command(folder / data, run, backbone=folder / "backbone", method=method)
    texts = (
        ["chosen", "--text-pair", "rejected"]
        if data == "trl.csv"
        else ["one", "--text-pair", "two", "--label", "winner"]
    )
    start = given.index("--text") + 1
    given[start : given.index("--attributes")] = [*texts, "--task", "preference"]
    return [*given, *words]


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned the words and the judge."""
    output = tmp_path_factory.mktemp("runs") / "run"
    words = ["backbone.tuning=full", "training.learning_rate=0.01", "training.backbone_learning_rate=0.003"]
    given = command(folder, output, *words)
    given[given.index("--epochs") + 1], given[given.index("--batch-size") + 1] = "12", "8"
    assert main(given) == 0
    return output


def test_words_and_judges_are_learned(run: Path, folder: Path, tmp_path: Path) -> None:
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


def test_predictions_have_rewards_whose_difference_is_the_probability(run: Path, folder: Path, tmp_path: Path) -> None:
    assert main(["predict", str(run), str(folder / "rows.csv"), "--output", str(tmp_path / "out.jsonl")]) == 0
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


@pytest.mark.parametrize("options", [[], ["--prompt", "prompt"]])
def test_chosen_and_rejected_need_no_label(options: list[str], folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main([*command(folder, run, "training.epochs=1", data="trl.csv"), *options]) == 0
    assert main(["evaluate", str(run), str(folder / "trl.csv")]) == 0
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
        table = chosen_and_rejected(ROWS)
        other = predictor.predict([{**row, "prompt": "the cast"} for row in table])
        assert abs(other["reward_first"] - predictor.predict(table)["reward_first"]).max() > 1e-6
    true = read_table(run / "test_predictions.parquet").column_names
    assert not [name for name in true if name.startswith("true_")]


def test_a_loaded_model_says_the_same_without_its_run(run: Path, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    predictor = Predictor.from_pretrained(tmp_path / "model", device="cpu", batch_size=3)
    expected = load_run(run)[1].predict(ROWS)
    assert predictor.predict(ROWS)["reward_first"].tolist() == pytest.approx(
        expected["reward_first"].tolist(), abs=1e-5
    )
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert '{"one": "...", "two": "...", "user": "..."}' in card


def test_the_service_compares(run: Path) -> None:
    with TestClient(create_app(load_models([str(run)]))) as client:
        row = ROWS[0]
        asked = {"text": {"one": row["one"], "two": row["two"]}, "attributes": {"user": "nobody"}}
        answer = client.post("/v1/predict", json=asked).json()["predictions"][0]
        assert answer["unknown"] == {"user": ["nobody"]}
        assert answer["output"]["probability_first"] + answer["output"]["probability_second"] == pytest.approx(1)
        panel = client.post("/v1/predict", json={"text": asked["text"], "panel": "user"}).json()["predictions"][0]
        assert panel["output"]["share_first"] in (0, 0.25, 0.5, 0.75, 1)
        refused = client.post("/v1/predict", json={"text": "one alone"})
        assert refused.status_code == 422
        assert "one, two" in refused.json()["errors"][0]["reason"]


def test_a_panel_of_judges(run: Path) -> None:
    predictor = load_run(run)[1]
    rows = [row for row in preferences(40, seed=2) if row["winner"] != "tie"]
    opinions = Panel.of(predictor, "user").predict(
        predictor, {name: [row[name] for row in rows] for name in ("one", "two")}
    )
    assert np.mean([dissenters == ["u3"] for dissenters in opinions["dissenters"]]) > 0.5
    assert opinions["probability_first"] + opinions["probability_second"] == pytest.approx(np.ones(len(rows)))


def test_judgements_of_one_pair_make_distributions_and_clusters(folder: Path, tmp_path: Path) -> None:
    pairs = [row for row in ROWS if row["winner"] != "tie"][:30]
    rows = [
        {**pair, "user": f"u{judge}", "winner": "first" if (judge + number) % 3 else "second"}
        for number, pair in enumerate(pairs)
        for judge in range(4)
    ]
    small_runs.write_csv(folder / "judged.csv", rows)
    assert main(command(folder, tmp_path / "run", "training.epochs=1", data="judged.csv")) == 0
    results = RunFolder(tmp_path / "run").read_results()
    assert any("not independent: intervals are over these" in note for note in results.notes)
    assert {"cross_entropy", "manhattan", "error_rate"} <= set(results.judgements("test")[0].metrics)


def test_verbs_that_work(run: Path, folder: Path, tmp_path: Path, capsys: Any) -> None:
    data = str(folder / "rows.csv")
    assert main(["evaluate", str(run), data]) == 0
    notes = capsys.readouterr().err
    assert "with no preference between two different texts" in notes
    assert "are ties and are left out" in notes
    assert main(["report", str(run), data, "--output", str(tmp_path / "report.html")]) == 0
    assert main(["report", str(run), "--output", str(tmp_path / "own.html")]) == 0
    assert main(["ablate", str(run), data]) == 0
    assert main(["describe", str(run)]) == 0
    assert main(["compare", str(run), str(run)]) == 0
    copy = shutil.copytree(run, tmp_path / "copy")
    small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "somebody"} for row in preferences(40, seed=5)])
    assert main(["enrol", str(copy), str(tmp_path / "new.csv")]) == 0
    assert "somebody" in load_run(copy)[1].schema["user"].values
    assert main(["forget", str(copy), "--attribute", "user", "--value", "somebody"]) == 0
    assert main(["train", "--continue", str(copy), data, "--output", str(tmp_path / "on"), "--epochs", "1"]) == 0


@pytest.mark.parametrize(
    "words", [["explain", "{run}", "{data}"], ["export", "{run}", "--for"], ["playground", "{run}"]]
)
def test_verbs_for_single_texts_are_refused(words: list[str], run: Path, folder: Path, capsys: Any) -> None:
    assert main([word.format(run=run, data=folder / "rows.csv") for word in words]) == 1
    assert "is for tasks with one score for a whole text, and 'preference' compares texts" in capsys.readouterr().err


def test_runs_over_one_backbone_score_alone(run: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert main(command(folder, other, "training.epochs=1")) == 0
    group = PredictorGroup.from_pretrained({"a": other, "b": run})
    assert group.refusals["a"] == "it compares texts"
    found = group.predict({"a": ROWS[:9]})["a"]["probability_first"]
    assert found.tolist() == pytest.approx(load_run(other)[1].predict(ROWS[:9])["probability_first"].tolist(), abs=1e-5)


def test_hostile_tables(run: Path, folder: Path, tmp_path: Path, capsys: Any) -> None:
    def written(changes: dict[str, Any], row: int = 2) -> str:
        rows = [dict(one) for one in ROWS]
        rows[row] |= changes
        return str(small_runs.write_csv(tmp_path / "hostile.csv", rows))

    assert main(["evaluate", str(run), written({"winner": "neither"})]) == 1
    assert "row 3 is 'neither', which is none of first, second, tie, equal" in capsys.readouterr().err
    assert main(["evaluate", str(run), written({"two": "", "winner": ""})]) == 0
    capsys.readouterr()
    for changes, message in (
        ({"winner": "left"}, "is 'left', which is none of first, second, tie, equal: correct the cell"),
        ({"two": ""}, "1 row without a text left out"),
        ({"one": " "}, "1 row without a text left out"),
        ({"winner": "nan"}, "1 row without a label left out"),
    ):
        words = command(folder, tmp_path / f"run{len(message)}{next(iter(changes))}", "training.epochs=1")
        words[1] = written(changes)
        code = main(words)
        output = capsys.readouterr()
        assert code == ("left out" not in message)
        assert message in output.err + output.out
    for name, cells in {"all ties": "tie", "one side": "first"}.items():
        words = command(folder, tmp_path / name, "training.epochs=1")
        words[1] = str(small_runs.write_csv(tmp_path / "one.csv", [{**row, "winner": cells} for row in ROWS]))
        assert main(words) == 1
        assert "no training row has a label" in (error := capsys.readouterr().err) or "every training label is" in error
    same = [{**row, "two": row["one"]} for row in ROWS]
    words = command(folder, tmp_path / "same", "training.epochs=1")
    words[1] = str(small_runs.write_csv(tmp_path / "same.csv", same))
    assert main(words) == 1
    assert "no training row has two different texts" in capsys.readouterr().err
    without = [{name: cell for name, cell in row.items() if name != "two"} for row in ROWS]
    words[1] = str(small_runs.write_csv(tmp_path / "without.csv", without))
    assert main(words) == 1
    assert "'two'" in capsys.readouterr().err
    assert main(["predict", str(run), words[1], "--output", str(tmp_path / "out.csv")]) == 1
    assert "'two'" in capsys.readouterr().err


def test_settings_that_cannot_be(folder: Path, tmp_path: Path, capsys: Any) -> None:
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
            "the task 'preference' has no option classes: it has labels, ties, missing, score_by",
        ),
        (["task.labels=[first]"], "class"),
        (["data.window=sentences:8x3", "data.prompt=prompt"], "has the sentences of one text: choose chunks for pairs"),
    ):
        assert main(command(folder, run, *change)) == 1, change
        assert message in capsys.readouterr().err, change


@pytest.mark.parametrize(
    "setting", ["data.window=chunks:8x3", "data.window=head+tail:4+4", "task.labels=[second, first]"]
)
def test_windows_and_other_names(setting: str, folder: Path, tmp_path: Path) -> None:
    assert main(command(folder, tmp_path / "run", setting, "training.epochs=1", method="e2ln")) == 0
    assert main(["evaluate", str(tmp_path / "run"), str(folder / "rows.csv")]) == 0
