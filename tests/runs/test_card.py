"""Model cards: filled from the run, readable by the hub, without paths and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small_runs
from huggingface_hub import ModelCard

from attribune.apps.cli import main
from attribune.runs.card import _table_name

pytestmark = pytest.mark.slow

ROWS = [{**row, 'na|me "x": [é]': row["user"]} for row in small_runs.reviews(90, seed=3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two more methods, on files with an odd column."""
    folder = tmp_path_factory.mktemp("cards")
    backbone = small_runs.save_backbone(folder / "secret-place" / "backbone")
    data = small_runs.write_csv(folder / "reviews.csv", ROWS)
    words = small_runs.train_command(data, folder / "run", backbone=backbone)
    salted = "data.attributes=[{name: user}, {name: 'na|me \"x\": [é]', unseen: hash, salt: pepper, buckets: 64}]"
    assert main([*words, salted, "--compare", "none", "linear", "--no-baselines"]) == 0
    return folder


def card_of(run: Path) -> tuple[ModelCard, str]:
    text = (run / "model" / "README.md").read_text(encoding="utf-8")
    return ModelCard(text), text


@pytest.mark.parametrize("place", [".", "compare/none", "compare/linear"])
def test_the_hub_reads_the_figures_of_the_run_and_no_path_value_or_secret(folder: Path, place: str) -> None:
    run = folder / "run" / place
    results: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    card, text = card_of(run)
    head = card.data.to_dict()
    assert head["library_name"] == "attribune"
    assert card.data.tags == ["attribune", results["method"], "text-classification"]
    assert card.data.model_name == f"{results['method']} on reviews.csv"
    assert {(found.dataset_split, found.metric_name): found.metric_value for found in card.data.eval_results} == {
        (part, metric): figure["value"]
        for part, figures in results["results"][0]["parts"].items()
        for metric, figure in figures.items()
    }
    assert ModelCard(str(card)).data.to_dict() == card.data.to_dict()
    for row in results["results"]:
        figure = row["parts"]["test"]["accuracy"]
        shown = f"{100 * figure['value']:.1f} [{100 * figure['low']:.1f}, {100 * figure['high']:.1f}]"
        assert f"| {row['name']} | {shown} |" in text
    assert f"- rows: {results['rows']['train']} train, {results['rows']['validation']} validation" in text
    secrets = [str(folder), "secret-place", "pepper", *(f"u{number}" for number in range(7))]
    words = set(text.replace("|", " ").replace('"', " ").replace("`", " ").split())
    assert [secret for secret in secrets if secret in text and (len(secret) > 2 or secret in words)] == []


def test_what_the_card_of_a_run_says(folder: Path) -> None:
    _, text = card_of(folder / "run")
    results = json.loads((folder / "run" / "metrics.json").read_text())
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Results", "## Data", "## Attributes", "## Training", "## Use", "## Limits"]
    for part in (
        "| backbone | backbone (tuning `frozen`) |",
        "| user | categorical | 7 | 1 |",
        '| na\\|me "x": [é] | categorical | 64 | 1 |',
        f"{results['training']['steps']} steps of 16 rows (1 epochs)",
        f"{results['training']['parameters']['trained']:,} trained",
        "injector against none, test accuracy: ",
        "$ attribune predict RUN new.csv --output predictions.csv",
        "counts as unknown",
        "cannot be unlearned",
    ):
        assert part in text
    without = card_of(folder / "run" / "compare" / "none")[1]
    assert "attributes hidden" not in without.lower()
    assert "counts as unknown" not in without


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "look", "--task", "regression"], "| task | regression of `look`, 1 outputs |"),
        (["--label", "look", "taste"], "| task | aspects of `look`, `taste`, "),
        (["--label", "stars", "--shuffled"], "This run is a control"),
        (["--label", "stars", "--weight", "taste"], "- training rows count by the column `taste`, scored rows alike"),
        (
            ["--label", "stars", "--set", "data.split.by=group", "data.split.column=product"],
            "cut from that of training, group `product`, seed 0",
        ),
    ],
)
def test_other_tasks_and_data(words: list[str], said: str, tmp_path: Path) -> None:
    rows = [{**row, "product": f"p{number % 20}"} for number, row in enumerate(small_runs.reviews(60))]
    data = small_runs.write_csv(tmp_path / "data.csv", rows)
    fixed = ["--text", "text", "--attributes", "user", "--method", "linear", "--no-baselines"]
    assert main(["train", str(data), *fixed, "--output", str(tmp_path / "run"), *words]) == 0
    card, text = card_of(tmp_path / "run")
    assert said in text
    assert card.data.eval_results


def test_tables_of_the_hub_keep_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _table_name("owner/reviews-v1.1:train") == "owner/reviews-v1.1:train"
    assert _table_name("/home/me/reviews") == "reviews"
    assert _table_name("some/where/reviews.csv.gz") == "reviews.csv.gz"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some").mkdir()
    assert _table_name("../" + tmp_path.name + "/some") == "some"
