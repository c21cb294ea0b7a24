"""The task `spans` in every verb, from a table to an answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
from token_tables import ASKED as ROWS
from token_tables import learned_spans, spans_command, write_json_lines
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.data.tables import read_table
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.spans import answer_scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in all forms."""
    root = tmp_path_factory.mktemp("spans")
    write_json_lines(root / "rows.jsonl", ROWS)
    kind = pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int64())})
    answers = pa.array([row["answers"] for row in ROWS], type=kind)
    columns = {name: [row[name] for row in ROWS] for name in ("question", "context", "user")}
    pq.write_table(pa.table({**columns, "answers": answers}), root / "rows.parquet")
    plain = [
        {name: row[name] for name in ("question", "context", "user")}
        | {"answer": (row["answers"]["text"] or [""])[0], "answer_start": (row["answers"]["answer_start"] or [""])[0]}
        | {"is_impossible": not row["answers"]["text"]}
        for row in ROWS
    ]
    small_runs.write_csv(root / "rows.csv", plain)
    return root


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return learned_spans(trained_runs)


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()


@pytest.mark.slow
def test_it_learns_and_answers_with_the_contexts_own_characters(run: Path, folder: Path, tmp_path: Path) -> None:
    outputs = {name: tmp_path / f"out.{name}" for name in ("jsonl", "csv", "parquet")}
    for name, output in outputs.items():
        source = folder / ("rows.jsonl" if name == "jsonl" else f"rows.{name}")
        assert main(["predict", str(run), str(source), "--output", str(output)]) == 0
    assert main(["predict", str(run), str(folder / "rows.jsonl"), "--output", str(tmp_path / "parts")]) == 0
    shown = [json.loads(line) for line in outputs["jsonl"].read_text().splitlines()]
    figures = [answer_scores(one["prediction"], row["answers"]["text"]) for one, row in zip(shown, ROWS, strict=True)]
    assert sum(f1 for _, f1 in figures) / len(figures) > 0.6
    assert {one["prediction"] == "" for one in shown} == {True, False}
    for one in shown:
        start = one["start"]
        assert (start == -1) == (one["prediction"] == "")
        assert start == -1 or one["context"].startswith(one["prediction"], start)
        best = json.loads(one["n_best"])
        assert [item["score"] for item in best] == sorted((item["score"] for item in best), reverse=True)
        assert best[0]["score"] == pytest.approx(one["score"])
    for name in ("csv", "parquet"):
        assert read_table(outputs[name])["prediction"][:] == [one["prediction"] for one in shown]
    assert pq.read_table(tmp_path / "parts")["start"].to_pylist() == [one["start"] for one in shown]


@pytest.mark.slow
def test_stored_scores_are_those_of_the_rows(run: Path, folder: Path) -> None:
    stored = StoredScores.read(run)
    part = stored.parts["test"]
    _, predictor = load_run(run)
    assert stored.task == predictor.task
    table = read_table(folder / "rows.jsonl").select(part["rows"])
    fresh, _ = predictor.logits(table)
    for one, other in zip(part["logits"], fresh, strict=True):
        assert [best[1:] for best in one.best[:1]] == [best[1:] for best in other.best[:1]]
        assert one.null == pytest.approx(other.null, abs=1e-4)
    results = json.loads((run / "metrics.json").read_text())
    found = {name: figure["value"] for name, figure in results["results"][0]["parts"]["test"].items()}
    labels, _ = stored.task.encode_labels([list(table["answers"]), list(table["context"])])
    assert found == pytest.approx({name: one.value() for name, one in stored.task.metrics(fresh, labels).items()})
    validation = stored.parts["validation"]
    tuned = stored.task.tuned(validation["logits"], validation["labels"])  # by scores of other batches in training
    assert tuned.null_score_diff_threshold == pytest.approx(stored.task.null_score_diff_threshold, abs=1e-5)
    assert "question-answering" in (run / "model" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["rows.csv", pytest.param("rows.parquet", marks=pytest.mark.exhaustive)])
def test_all_forms_of_labels_are_one(data: str, run: Path, folder: Path, backbone: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    words = spans_command(folder / data, other, backbone=backbone, method="none")
    assert main([*words, "--no-baselines"]) == 0
    found, expected = (StoredScores.read(path).parts["validation"]["labels"] for path in (other, run))
    assert [tuple(label) for label in found] == [tuple(label) for label in expected]
    assert main(["evaluate", str(other), str(folder / data)]) == 0


@pytest.mark.exhaustive
@pytest.mark.slow
def test_hostile_rows_are_answered(run: Path, tmp_path: Path) -> None:
    odd = [
        ("what", ""),
        ("", "the cat"),
        ("great " * 500, "so n1 film"),
        ("great", "the " * 25_000),
        ("\u0000", "\ufe0f"),
        (None, None),
    ]
    data = write_json_lines(
        tmp_path / "odd.jsonl", [{"question": one, "context": two, "user": None} for one, two in odd]
    )
    assert main(["predict", str(run), str(data), "--output", str(tmp_path / "out.jsonl")]) == 0
    shown = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [one["prediction"] for one in (shown[0], shown[4], shown[5])] == [""] * 3


@pytest.mark.slow
def test_what_cannot_be_is_refused(folder: Path, backbone: Path, tmp_path: Path, capsys: Any) -> None:
    given = spans_command(folder / "rows.jsonl", tmp_path / "run", backbone=backbone)
    for change, message in (
        (["data.text_pair=[]"], "a question and a context"),
        (["data.text_pair=[context, user]"], "a question and a context"),
        (["data.window=chunks"], "windows of max_length tokens"),
        (["data.max_length=4"], "leaves room"),
        (["task.n_best=0"], "n_best is 0"),
        (["task.doc_stride=many"], "doc_stride"),
        (["task.unanswerable=perhaps"], "unanswerable"),
        (["task.max_answer_length=3.5"], "max_answer_length"),
        (["data.label=[answers, user, id, question]"], "label"),
    ):
        assert main([*given, *change]) == 1, change
        error = capsys.readouterr().err
        assert message in error, (change, error)
        assert "Traceback" not in error
    for change, message in (
        ({"answers": {"text": ["nowhere"], "answer_start": [3]}}, "row 1, 'nowhere', is in the text 0 times"),
        (
            {"answers": {"text": ["a"], "answer_start": [-5]}, "context": "a b a"},
            "in the text 2 times, and not at -5",
        ),
        ({"answers": 7}, "row 1"),
        ({"answers": {"text": [["x"]]}}, "row 1"),
    ):
        rows = write_json_lines(tmp_path / "bad.jsonl", [ROWS[0] | change, *ROWS[1:]])
        assert main([given[0], str(rows), *given[2:]]) == 1, change
        error = capsys.readouterr().err
        assert message in error, (change, error)
        assert "Traceback" not in error


@pytest.mark.slow
def test_answers_that_no_window_has_are_counted(backbone: Path, tmp_path: Path, capsys: Any) -> None:
    """They are elsewhere than their row says, or longer than every window."""
    moved = next(row for row in ROWS if row["answers"]["text"])
    bad = moved | {"answers": {"text": moved["answers"]["text"], "answer_start": [10**6]}}
    long = {"question": "which words", "context": "so " + "great bad fine " * 9, "user": "u1"}
    long["answers"] = {"text": [long["context"][3:-1]], "answer_start": [3]}
    table = [bad, *ROWS[1:], *[long] * 40, {"question": "x", "context": "y", "answers": None}]
    rows = write_json_lines(tmp_path / "rows.jsonl", table)
    assert main([*spans_command(rows, tmp_path / "run", backbone=backbone, method="none"), "--no-baselines"]) == 0
    told = capsys.readouterr().err
    assert "1 answers are not where their row says, and were found by their text" in told
    assert "1 row without a label left out" in told
    counted = re.search(r"train: (\d+) of \d+ answers are whole in no window of head:16", told)
    assert counted is not None
    assert 20 < int(counted[1]) <= 40
