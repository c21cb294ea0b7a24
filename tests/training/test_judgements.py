"""Texts that several people judge, from the table to the report: intervals are over texts and judges everywhere."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_runs
from safetensors.numpy import load_file
from trained_runs import TrainedRuns

from attribune.analysis.evaluate import compare_runs, evaluate
from attribune.apps.cli import main
from attribune.core.files import read_json
from attribune.data.clusters import unpacked_clusters
from attribune.metrics.bootstrap import interval
from attribune.runs.folder import RunFolder
from attribune.runs.stored_scores import StoredScores

pytestmark = pytest.mark.slow

JUDGES, EACH = 9, 5


def judgements(texts: int, *, seed: int) -> list[dict[str, Any]]:
    """Every text judged by some of the judges, each of whom is harsh or mild."""
    chance = random.Random(seed)
    rows = []
    for row in small_runs.reviews(texts, seed=seed):
        for judge in chance.sample(range(JUDGES), EACH):
            mild = chance.random() < judge / JUDGES
            said = {"text": f"{row['text']} t{seed}", "stars": "good" if mild else "bad"}
            rows.append(said | {"user": f"j{judge}", "site": f"s{judge % 2}"})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained_runs: TrainedRuns) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    trained_runs.copy(trained_runs.backbone(), folder / "backbone")
    for seed, (name, texts) in enumerate({"train": 40, "validation": 25, "test": 30}.items()):
        small_runs.write_csv(folder / f"{name}.csv", judgements(texts, seed=seed))
    return folder


def train(folder: Path, output: str, *more: str, method: str = "injector") -> int:
    words = small_runs.train_command(folder / "train.csv", folder / output, backbone=folder / "backbone", method=method)
    files = ["--validation", str(folder / "validation.csv"), "--test", str(folder / "test.csv")]
    return main([*words, *more, *files])


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    assert train(folder, "run", "--compare", "attributes-only") == 0
    return folder / "run"


def test_intervals_of_a_training_are_over_texts_and_judges(run: Path) -> None:
    results = RunFolder(run).read_results()
    note = "test: 150 rows are of 30 texts and 9 values of user, and not independent: intervals are over these"
    assert note in results.notes
    stored = StoredScores.read(run)
    arrays = stored.parts["test"]
    clusters = unpacked_clusters(arrays)
    assert {name: len(set(kind.tolist())) for name, kind in clusters.items()} == {"text": 30, "user": 9}
    for name, metric in stored.task.metrics(arrays["logits"], arrays["labels"]).items():
        found = results.models[0].parts["test"][name]
        assert found == interval(replace(metric, clusters=tuple(clusters.values())))
        alone = interval(metric)
        assert found.value == alone.value
        assert (found.low, found.high) != (alone.low, alone.high)
    majority = next(model for model in results.models if model.name == "majority").parts["test"]["accuracy"]
    assert majority.high - majority.low > 0.2  # of 150 judgements by 9 people
    assert not any(name.startswith("clusters") for name in load_file(str(run / "model" / "model.safetensors")))


def test_texts_have_metrics_of_their_own(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is predicted of a text for its judges, beside what they said, in the results, the card and all commands."""
    results = RunFolder(run).read_results()
    names = ["cross_entropy", "manhattan", "jensen_shannon", "error_rate"]
    assert [list(row.metrics) for row in results.judgements("test")] == [names] * len(results.models)
    arrays = StoredScores.read(run).parts["test"]
    accuracy = results.models[0].parts["test"]["accuracy"]
    wrong = results.models[0].judgements["test"]["error_rate"]
    assert wrong.value == pytest.approx(1 - accuracy.value)  # every text has as many judges
    assert len(arrays["labels"]) == 150
    assert "texts with several judgements" in (run / "model" / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["evaluate", str(run), str(folder / "test.csv")]) == 0
    assert "jensen_shannon" in capsys.readouterr().out.partition("texts with several judgements")[2]
    assert main(["evaluate", str(run), str(folder / "test.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["judgements"]
    assert list(found) == ["as given", "attributes hidden"]
    assert found["as given"]["manhattan"]["value"] == pytest.approx(
        results.models[0].judgements["test"]["manhattan"].value, abs=1e-6
    )


@pytest.mark.exhaustive
def test_other_commands_draw_the_same(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = RunFolder(run).read_results()
    evaluation = evaluate(run, folder / "test.csv")
    assert evaluation.metrics["as given"]["accuracy"].low == pytest.approx(
        results.models[0].parts["test"]["accuracy"].low, abs=0.02
    )
    assert any("150 rows are of 30 texts and 9 values of user" in note for note in evaluation.notes)
    other = run / "compare" / "attributes-only"
    (accuracy,) = [pair for pair in compare_runs(run, other) if pair["metric"] == "accuracy"]
    named = next(pair for pair in results.comparisons if pair.b == "attributes-only")
    assert (accuracy["low"], accuracy["high"], accuracy["p_value"]) == (named.low, named.high, named.p_value)

    assert main(["explain", str(run), str(folder / "test.csv"), "--output", str(folder / "why.html")]) == 0
    assert main(["report", str(run), "--output", str(folder / "report.html")]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "95 % intervals of the bootstrap over texts and values of user" in page
    capsys.readouterr()


def test_the_recipe_chooses_otherwise(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(folder, "rows", "evaluation.cluster=rows", method="attributes-only") == 0
    assert train(folder, "site", "evaluation.cluster=[site, text]", method="attributes-only") == 0
    notes = {name: " ".join(RunFolder(folder / name).read_results().notes) for name in ("rows", "site")}
    assert "not independent" not in notes["rows"]
    assert "of 2 values of site and 30 texts" in notes["site"]
    capsys.readouterr()
    assert train(folder, "lost", "evaluation.cluster=rater", method="attributes-only") == 1
    message = capsys.readouterr().err
    assert "evaluation.cluster names the column 'rater', which the rows do not have: choose from text, stars" in message
    assert not (folder / "lost").exists()


def test_hashed_judges_leave_no_mark(folder: Path) -> None:
    hashed = "data.attributes=[{kind: categorical, name: user, unseen: hash, salt: secret}]"
    assert train(folder, "hashed", hashed, method="attributes-only") == 0
    assert set(unpacked_clusters(StoredScores.read(folder / "hashed").parts["test"])) == {"text"}


def test_shuffled_attributes_leave_the_judges_as_they_are(folder: Path, run: Path) -> None:
    assert train(folder, "shuffled", "--shuffled", method="attributes-only") == 0
    shuffled, own = (
        unpacked_clusters(StoredScores.read(path).parts["test"])["user"] for path in (folder / "shuffled", run)
    )
    assert shuffled.tolist() == own.tolist()


@pytest.mark.exhaustive
def test_a_benchmark_pools_judges_over_seeds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = folder / "plan.yaml"
    plan.write_text(
        "name: judged\nsets:\n  - name: judged\n    folds: [0, 1]\n    data:\n"
        + "".join(f"      {part}: {folder / part}.csv\n" for part in ("train", "validation", "test"))
        + "      text: text\n      label: stars\n      attributes: [{kind: categorical, name: user}]\n"
        "settings: [attributes-only, {name: text alone, method: linear, attributes: []}]\n",
        encoding="utf-8",
    )
    assert main(["benchmark", "run", str(plan), "--output", str(folder / "bench")]) == 0
    capsys.readouterr()
    assert main(["benchmark", "table", str(folder / "bench")]) == 0
    words = "150 pooled test rows for attributes-only; 95 % bootstrap intervals over texts and values of user"
    assert words in " ".join(capsys.readouterr().out.split())
    assert main(["benchmark", "table", str(folder / "bench"), "--json", str(folder / "table.json")]) == 0
    lines = read_json(folder / "table.json", what="record")["tables"][0]["lines"]
    assert [line["clusters"] for line in lines] == [["text", "user"]] * 2


def test_speakers_are_drawn_where_texts_are_not_shared(folder: Path) -> None:
    (folder / "speakers").mkdir()
    for name in ("train", "validation", "test"):
        rows = [
            row | {"text": f"{row['text']} {name} {number}", "user": f"u{number % 24}", "site": f"s{number % 2}"}
            for number, row in enumerate(small_runs.reviews(96, seed=3))
        ]
        small_runs.write_csv(folder / "speakers" / f"{name}.csv", rows)
    (folder / "speakers" / "backbone").symlink_to(folder / "backbone")
    assert train(folder / "speakers", "run", method="attributes-only") == 0
    results = RunFolder(folder / "speakers" / "run").read_results()
    assert "test: 96 rows are of 24 values of user, and not independent: intervals are over these" in results.notes
