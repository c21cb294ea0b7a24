"""The task `similarity` in every verb, from a table to a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from similarity_tables import DOCUMENTS, FORMS, fitting, learned_similarity, pairs, similarity_command
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    """A run that has learned from pairs what each user looks for."""
    return learned_similarity(trained_runs)


def share_found(predictor: Predictor, *, as_user: int | None = None) -> float:
    """The share of new queries of which the nearest document is the one that the user wants, or another user."""
    rows = pairs(80, seed=5)
    asked = [row if as_user is None else {**row, "user": f"u{as_user}"} for row in rows]
    queries = predictor.encode(asked, normalize=True)
    documents = predictor.encode(DOCUMENTS, of="text_pair", normalize=True)
    nearest = (queries @ documents.T).argmax(axis=1)
    return float(np.mean([DOCUMENTS[place] == row["document"] for place, row in zip(nearest, rows, strict=True)]))


def test_the_user_decides_which_document_is_found(run: Path) -> None:
    """Without the user one of two documents of a subject fits as well as the other: half are found."""
    predictor = load_run(run)[1]
    assert share_found(predictor) > 0.9
    assert 0.3 < share_found(predictor, as_user=0) < 0.7
    results = RunFolder(run).read_results()
    as_given, hidden, chance = (row.metrics for row in results.table("test"))
    assert as_given["mrr"].value > 0.95
    assert as_given["recall_at_1"].value > 0.9
    assert hidden["mrr"].value < 0.9, "attributes hidden"
    assert chance["recall_at_1"].value < 0.15
    assert as_given["mrr"].low > hidden["mrr"].high - 0.1


@pytest.mark.parametrize("form", [pytest.param("triplets", marks=pytest.mark.exhaustive), "scores"])
def test_other_rows_teach_the_same(form: str, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    run = trained_runs.copy(learned_similarity(trained_runs, form), tmp_path / "run")
    predictor = load_run(run)[1]
    rows = pairs(80, seed=6)
    near = predictor.predict(rows)["prediction"]
    others = [{**row, "document": fitting(row["query"], row["user"], is_other=True)} for row in rows]
    assert np.mean(near > predictor.predict(others)["prediction"]) > 0.9
    assert predictor.columns == ("query", "document", "user"), "no negative is needed"
    assert main(["evaluate", str(run), str(trained_runs.table(rows_of(form, seed=8)))]) == 0
    small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "somebody"} for row in rows_of(form, seed=7)])
    assert main(["enrol", str(run), str(tmp_path / "new.csv")]) == 0
    assert "somebody" in load_run(run)[1].schema["user"].values
    if form == "triplets":
        without = [{name: cell for name, cell in row.items() if name != "other"} for row in rows_of(form, seed=7)]
        small_runs.write_csv(tmp_path / "without.csv", without)
        assert main(["evaluate", str(run), str(tmp_path / "without.csv")]) == 1
        assert main(["predict", str(run), str(tmp_path / "without.csv"), "--output", str(tmp_path / "out.csv")]) == 0


def rows_of(form: str, *, seed: int) -> list[dict[str, Any]]:
    return FORMS[form][0](40, seed=seed)


def split_off(document: str) -> dict[str, str]:
    """The last word of a document as its item."""
    *words, item = document.split()
    return {"document": " ".join(words), "item": item}


@pytest.mark.exhaustive
def test_a_word_backbone_learns_with_items_of_documents(tmp_path: Path) -> None:
    """The item conditions the document, whose words do not say what the user wants, and the user the query."""
    rows = [row | split_off(row["document"]) for row in pairs(400, seed=2)]
    data = small_runs.write_csv(tmp_path / "items.csv", rows)
    settings = ("task.pair_attributes=[item]", "training.learning_rate=0.01")
    words = similarity_command(data, tmp_path / "run", *settings, backbone=Path("bilstm"), method="concat-text")
    words[words.index("--epochs") + 1] = "6"
    words.insert(words.index("--attributes") + 2, "item")
    assert main(words) == 0
    predictor = load_run(tmp_path / "run")[1]
    query = predictor.encode("film n1 n20", user="u1")
    assert query.shape == predictor.encode("the plot n1", of="text_pair", item="great").shape
    found = RunFolder(tmp_path / "run").read_results().table("test")
    assert found[0].metrics["mrr"].value > 0.95
    assert found[1].metrics["mrr"].value < 0.85, "attributes hidden"


def test_hostile_tables(trained_runs: TrainedRuns, tmp_path: Path, capsys: Any) -> None:
    def code(form: str, rows: list[dict[str, Any]]) -> tuple[int, str]:
        data = small_runs.write_csv(tmp_path / "hostile.csv", rows)
        result = main(similarity_command(data, tmp_path / "run", backbone=trained_runs.backbone(), form=form))
        output = capsys.readouterr()
        return result, output.err + output.out

    def changed(form: str, changes: dict[str, Any], row: int = 2) -> list[dict[str, Any]]:
        rows = [dict(one) for one in rows_of(form, seed=3)]
        rows[row] |= changes
        return rows

    for form, rows, message in (
        ("scores", changed("scores", {"score": "4.5"}), "'4.5' (1, first in row 3); scores are cosines, from -1 to 1"),
        ("scores", changed("scores", {"score": "high"}), "outside the scale of the task 'similarity'"),
        ("pairs", [{**row, "document": "same"} for row in rows_of("pairs", seed=3)], "has the same second text"),
        ("pairs", [{**row, "document": row["query"]} for row in rows_of("pairs", seed=3)], "can be used"),
        ("pairs", [{**row, "document": ""} for row in rows_of("pairs", seed=3)], "has both a text"),
    ):
        result, output = code(form, rows)
        assert (result, message in output) == (1, True), output
    result, output = code("triplets", changed("triplets", {"other": ""}))
    assert result == 0
    assert "1 row without a text left out" in output


def test_settings_that_cannot_be(trained_runs: TrainedRuns, tmp_path: Path, capsys: Any) -> None:
    data, backbone = trained_runs.table(pairs(240)), trained_runs.backbone()
    for change, message in (
        (["data.text_pair=[]"], "compares two texts: name the column of the second one with --text-pair"),
        (["data.text=[query, title]"], "compares one column with another: name one with --text, one with --text-pair"),
        (["data.text_pair=[document, title]"], "compares one column with another"),
        (["data.text_negative=[other, title]"], "at most one with --text-negative"),
        (["data.label=user", "data.text_negative=other"], "leave label or text_negative out"),
        (["data.prompt=other"], "task 'similarity' reads no prompt"),
        (["task.form=scores"], "task.form is 'scores', and the columns that are named make pairs"),
        (["training.batch_size=1"], "pairs are learned from the other rows of a batch: give at least 2"),
        (["backbone.head_size=5"], "task 'similarity' has no head"),
        (["data.text_negative=query"], "column query is the negative and also another text"),
        (["task.pair_attributes=[item]"], "task.pair_attributes has 'item', which is none of the attributes user"),
        (["task.kind=preference", "data.text_negative=other"], "task 'preference' reads no text_negative"),
        (["method={name: linear}"], "method 'linear' compares no texts, as the task 'similarity' does"),
        (["method={name: chim}"], "method 'chim' acts on a classifier"),
        (["task.margin=0.5"], "margin is for triplets, and the rows are pairs"),
    ):
        assert main(similarity_command(data, tmp_path / "run", *change, backbone=backbone)) == 1, change
        assert message in capsys.readouterr().err, change
