"""The tasks `tags` and `spans`, which score tokens, from a table to an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
import torch
from families import BERT_METHODS
from fastapi.testclient import TestClient
from lab_methods import needs_lab
from resumed import assert_resumes_exactly
from token_tables import ASKED, TAGGED, learned_spans, learned_tags, spans_command, tags_command, write_json_lines
from trained_runs import TrainedRuns
from transformers.modeling_outputs import BaseModelOutput

from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.data.tables import read_table
from attribune.models.baselines import BASELINES
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import scored_metrics
from attribune.tasks.spans import answer_scores

COMMANDS = {"tags": tags_command, "spans": spans_command}
ROWS = {"tags": TAGGED, "spans": ASKED}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of both tasks in every form."""
    root = tmp_path_factory.mktemp("tokens")
    for task, rows in ROWS.items():
        write_json_lines(root / f"{task}.jsonl", rows)
    joined = [row | {"words": " ".join(row["words"]), "tags": " ".join(row["tags"])} for row in TAGGED]
    small_runs.write_csv(root / "tags.csv", joined)
    columns = {name: [row[name] for row in ASKED] for name in ("question", "context", "user", "answers")}
    kind = pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int64())})
    pq.write_table(pa.table(columns | {"answers": pa.array(columns["answers"], type=kind)}), root / "spans.parquet")
    plain = [
        {name: row[name] for name in ("question", "context", "user")}
        | {"answer": (row["answers"]["text"] or [""])[0], "answer_start": (row["answers"]["answer_start"] or [""])[0]}
        | {"is_impossible": not row["answers"]["text"]}
        for row in ASKED
    ]
    small_runs.write_csv(root / "spans.csv", plain)
    return root


@pytest.fixture
def tags_run(trained_runs: TrainedRuns) -> Path:
    return learned_tags(trained_runs)


@pytest.fixture
def spans_run(trained_runs: TrainedRuns) -> Path:
    return learned_spans(trained_runs)


def predictions(run: Path, data: Path, output: Path) -> list[dict[str, Any]]:
    """What the command says of a table, in JSON lines or only written."""
    assert main(["predict", str(run), str(data), "--output", str(output)]) == 0
    return [json.loads(line) for line in output.read_text().splitlines()] if output.suffix == ".jsonl" else []


@pytest.mark.slow
def test_tags_are_learned_and_predicted_alike_from_every_format(tags_run: Path, folder: Path, tmp_path: Path) -> None:
    shown = predictions(tags_run, folder / "tags.jsonl", tmp_path / "out.jsonl")
    for name, source in (("out.csv", "tags.csv"), ("out.parquet", "tags.jsonl"), ("parts", "tags.jsonl")):
        predictions(tags_run, folder / source, tmp_path / name)
    words = [tag == own for row in shown for tag, own in zip(row["tags"], row["prediction"], strict=True)]
    assert np.mean(words) > 0.85
    assert all(len(row["probability"]) == len(row["words"]) for row in shown)
    expected = [row["prediction"] for row in shown]
    assert [text.split() for text in read_table(tmp_path / "out.csv")["prediction"]] == expected
    for name in ("out.parquet", "parts"):
        table = pq.read_table(tmp_path / name)
        assert table["prediction"].to_pylist() == expected
        assert table["probability"].type == pa.list_(pa.float64())
    found = load_run(tags_run)[1].predict({name: [row[name] for row in TAGGED] for name in ("words", "user")})
    assert list(found["prediction"]) == expected


@pytest.mark.slow
def test_answers_are_learned_and_have_the_contexts_own_characters(
    spans_run: Path, folder: Path, tmp_path: Path
) -> None:
    shown = predictions(spans_run, folder / "spans.jsonl", tmp_path / "out.jsonl")
    figures = [answer_scores(one["prediction"], row["answers"]["text"]) for one, row in zip(shown, ASKED, strict=True)]
    assert sum(f1 for _, f1 in figures) / len(figures) > 0.6
    assert {one["prediction"] == "" for one in shown} == {True, False}
    for one in shown:
        start = one["start"]
        assert (start == -1) == (one["prediction"] == "")
        assert start == -1 or one["context"].startswith(one["prediction"], start)
        best = json.loads(one["n_best"])
        assert [item["score"] for item in best] == sorted((item["score"] for item in best), reverse=True)
        assert best[0]["score"] == pytest.approx(one["score"])
    for ending in ("csv", "parquet"):
        predictions(spans_run, folder / f"spans.{ending}", tmp_path / f"out.{ending}")
        found = read_table(tmp_path / f"out.{ending}")
        assert found["prediction"][:] == [one["prediction"] for one in shown]
    predictions(spans_run, folder / "spans.jsonl", tmp_path / "parts")
    assert pq.read_table(tmp_path / "parts")["start"].to_pylist() == [one["start"] for one in shown]


def results_of(run: Path) -> dict[str, float]:
    """The figures of the test rows as they are stored."""
    results = json.loads((run / "metrics.json").read_text())
    return {name: figure["value"] for name, figure in results["results"][0]["parts"]["test"].items()}


@pytest.mark.slow
def test_stored_scores_of_tags_are_those_of_the_rows(tags_run: Path, folder: Path) -> None:
    stored = StoredScores.read(tags_run)
    part = stored.parts["test"]
    table = read_table(folder / "tags.jsonl").select(part["rows"])
    fresh, _ = load_run(tags_run)[1].logits(table)
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(part["logits"], fresh, strict=True))
    labels, _ = stored.task.encode_labels([list(table["tags"]), list(table["words"])])
    assert np.array_equal(labels, part["labels"])
    scores = scored_metrics(stored.task, fresh, labels)
    assert results_of(tags_run) == pytest.approx({name: one.value() for name, one in scores.items()})


@pytest.mark.slow
def test_stored_scores_of_spans_are_those_of_the_rows(spans_run: Path, folder: Path) -> None:
    stored = StoredScores.read(spans_run)
    part = stored.parts["test"]
    predictor = load_run(spans_run)[1]
    assert stored.task == predictor.task
    table = read_table(folder / "spans.jsonl").select(part["rows"])
    fresh, _ = predictor.logits(table)
    for one, other in zip(part["logits"], fresh, strict=True):
        assert [best[1:] for best in one.best[:1]] == [best[1:] for best in other.best[:1]]
        assert one.null == pytest.approx(other.null, abs=1e-4)
    labels, _ = stored.task.encode_labels([list(table["answers"]), list(table["context"])])
    scores = stored.task.metrics(fresh, labels)
    assert results_of(spans_run) == pytest.approx({name: one.value() for name, one in scores.items()})
    validation = stored.parts["validation"]
    tuned = stored.task.tuned(validation["logits"], validation["labels"])  # by scores of other batches in training
    assert tuned.null_score_diff_threshold == pytest.approx(stored.task.null_score_diff_threshold, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["spans.csv", pytest.param("spans.parquet", marks=pytest.mark.exhaustive)])
def test_all_forms_of_answers_are_one(data: str, spans_run: Path, folder: Path, backbone: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    assert main([*spans_command(folder / data, other, backbone=backbone, method="none"), "--no-baselines"]) == 0
    found, expected = (StoredScores.read(path).parts["validation"]["labels"] for path in (other, spans_run))
    assert [tuple(label) for label in found] == [tuple(label) for label in expected]
    assert main(["evaluate", str(other), str(folder / data)]) == 0


@pytest.mark.slow
def test_the_service_takes_words(tags_run: Path) -> None:
    row, headers = TAGGED[3], {"content-type": "application/json"}
    with TestClient(create_app(load_models([str(tags_run)]))) as client:
        asked = {"rows": [{"text": text, "attributes": {"user": row["user"]}} for text in (row["words"], "the film")]}
        answer = client.post("/v1/predict", json=asked)
        assert answer.status_code == 200
        first, second = (one["output"] for one in answer.json()["predictions"])
        assert len(first["prediction"]) == len(first["probability"]) == len(row["words"])
        assert len(second["prediction"]) == 2
        assert client.get("/v1/models").json()["models"][0]["output"] == ["prediction", "probability"]
        for text in ([1], ["a", "\ud800"], {"words": {"a": "b"}}):
            refused = client.post("/v1/predict", content=json.dumps({"text": text}), headers=headers)
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["field"].startswith("text")


@pytest.mark.slow
def test_runs_that_score_tokens_are_served_beside_each_other(tags_run: Path) -> None:
    group = PredictorGroup.from_pretrained({"one": tags_run, "two": tags_run})
    assert group.refusals == dict.fromkeys(("one", "two"), "it scores tokens, in windows of its own")
    alone = load_run(tags_run)[1].predict(TAGGED[:3])["prediction"]
    found = group.predict({"one": TAGGED[:3], "two": TAGGED[:3]})
    assert all(answer["prediction"] == alone for answer in found.values())


REFUSED = ("la", "upa", "chim", "concat-text", "e2ln", "upnn", "basis", "hcsc", "history", "in-text", *BASELINES)
KEPT = ("tokens", "plora", *REFUSED)
"""One method in front of the words, one in the layers, and all that are refused at once."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "method",
    [
        *(
            pytest.param(name, marks=[] if name in KEPT else pytest.mark.exhaustive)
            for name in (*BERT_METHODS, *BASELINES)
        ),
        pytest.param("upnn", marks=needs_lab),
    ],
)
@pytest.mark.slow
def test_every_method_that_has_token_states(
    method: str, folder: Path, backbone: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    words = tags_command(folder / "tags.jsonl", tmp_path / "run", backbone=backbone, method=method)
    if method in REFUSED:
        message = fails(*words)
        assert "scores" in message
        assert "injector" in message or "backbone" in message
        assert not (tmp_path / "run").exists()
    else:
        assert main([*words, "--resume"]) == 0
        predictions(tmp_path / "run", folder / "tags.csv", tmp_path / "out.csv")


def test_a_sum_with_a_refused_method_is_refused(
    folder: Path, backbone: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    words = tags_command(folder / "tags.jsonl", tmp_path / "run", backbone=backbone, method="adapter+chim")
    assert "acts at the point classify" in fails(*words)


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same_weights(folder: Path, backbone: Path, tmp_path: Path) -> None:
    def command(run: Path) -> list[str]:
        words = tags_command(folder / "tags.jsonl", run, backbone=backbone, epochs=2)
        return [*words, "training.evaluate_every=3", "--no-baselines"]

    assert_resumes_exactly(command, tmp_path)


@pytest.mark.slow
def test_windows_are_one_long_pass(tags_run: Path) -> None:
    """Where states do not depend on other tokens, windows give what a single pass gives."""
    predictor = load_run(tags_run)[1]
    model = predictor.model
    embeddings = model.get_input_embeddings()

    class Alone(torch.nn.Module):
        config = model.backbone.config

        def get_input_embeddings(self) -> torch.nn.Module:
            return embeddings

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return BaseModelOutput(last_hidden_state=embeddings(input_ids))

    model.double()
    model.backbone = Alone()
    words = [f"n{number % 61}" for number in range(400)]
    scores = predictor.score(predictor.encode_rows({"words": [words], "user": ["u1"]}))[0]
    ids = torch.tensor(model.tokenizer.convert_tokens_to_ids(words))
    with torch.no_grad():
        expected = model.head(embeddings(ids)).numpy()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


SETTINGS = {
    "tags": [
        (["data.text_pair=user"], "one column of words"),
        (["data.window=head+tail"], "windows of max_length tokens"),
        (["backbone.pooling=mean"], "no document vector"),
        (["data.partial_labels=true"], "partial_labels"),
        (["task.classes=[O, X]", "task.scheme=odd"], "scheme"),
        (["task.separator=x"], "no option separator"),
        (["data.max_length=100"], "backbone takes 67"),
    ],
    "spans": [
        (["data.text_pair=[]"], "a question and a context"),
        (["data.text_pair=[context, user]"], "a question and a context"),
        (["data.window=chunks"], "windows of max_length tokens"),
        (["data.max_length=4"], "leaves room"),
        (["task.n_best=0"], "n_best is 0"),
        (["task.doc_stride=many"], "doc_stride"),
        (["task.unanswerable=perhaps"], "unanswerable"),
        (["task.max_answer_length=3.5"], "max_answer_length"),
        (["data.label=[answers, user, id, question]"], "label"),
    ],
}
CELLS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "tags": [
        ({"tags": ["O"]}, "words and 1 tags"),
        ({"tags": [*TAGGED[0]["tags"][:-1], None]}, "has no tag for word"),
        ({"tags": {"a": 1}}, "words and 2 tags"),
        ({"words": [["a"]]}, "words"),
    ],
    "spans": [
        ({"answers": {"text": ["nowhere"], "answer_start": [3]}}, "row 1, 'nowhere', is in the text 0 times"),
        ({"answers": {"text": ["a"], "answer_start": [-5]}, "context": "a b a"}, "in the text 2 times, and not at -5"),
        ({"answers": 7}, "row 1"),
        ({"answers": {"text": [["x"]]}}, "row 1"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("task", COMMANDS)
def test_what_cannot_be_is_refused(
    task: str, folder: Path, backbone: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    given = COMMANDS[task](folder / f"{task}.jsonl", tmp_path / "run", backbone=backbone)
    for settings, message in SETTINGS[task]:
        assert message in fails(*given, *settings), settings
    for change, message in CELLS[task]:
        rows = write_json_lines(tmp_path / "bad.jsonl", [ROWS[task][0] | change, *ROWS[task][1:]])
        assert message in fails(given[0], rows, *given[2:]), change


@pytest.mark.slow
def test_rows_with_words_alone_are_read_and_odd_ones_predicted(tags_run: Path, tmp_path: Path) -> None:
    odd = [["a", "\u0000", "\ufe0f", ""], [], None, ["x"] * 5_000]
    data = write_json_lines(tmp_path / "odd.jsonl", [{"words": words, "user": None} for words in odd])
    shown = predictions(tags_run, data, tmp_path / "out.jsonl")
    assert [len(row["prediction"]) for row in shown] == [4, 0, 0, 5_000]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_hostile_rows_are_answered(spans_run: Path, tmp_path: Path) -> None:
    odd = [
        ("what", ""),
        ("", "the cat"),
        ("great " * 500, "so n1 film"),
        ("great", "the " * 25_000),
        ("\u0000", "\ufe0f"),
        (None, None),
    ]
    rows = [{"question": one, "context": two, "user": None} for one, two in odd]
    shown = predictions(spans_run, write_json_lines(tmp_path / "odd.jsonl", rows), tmp_path / "out.jsonl")
    assert [shown[row]["prediction"] for row in (0, 4, 5)] == [""] * 3


def test_class_numbers_in_lists_become_names() -> None:
    numbers = datasets.List(datasets.ClassLabel(names=["O", "B-GOOD", "I-GOOD"]))
    features = datasets.Features({"words": datasets.List(datasets.Value("string")), "tags": numbers})
    table = datasets.Dataset.from_dict({"words": [["a", "b"], ["c"]], "tags": [[0, 2], [1]]}, features=features)
    assert list(read_table(table)["tags"]) == [["O", "I-GOOD"], ["B-GOOD"]]


@pytest.mark.slow
def test_sentences_that_several_people_tag_train_to_the_end(backbone: Path, tmp_path: Path) -> None:
    """Validation and test rows then have clusters, and tags no probabilities of answers to compare by text."""
    rows = [row | {"user": f"u{judge}"} for row in TAGGED[:40] for judge in range(3)]
    data = write_json_lines(tmp_path / "rows.jsonl", rows)
    assert main(tags_command(data, tmp_path / "run", backbone=backbone)) == 0
    assert "majority" in (tmp_path / "run" / "metrics.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_answers_that_no_window_has_are_counted(backbone: Path, tmp_path: Path, capsys: Any) -> None:
    """They are elsewhere than their row says, or longer than every window."""
    moved = next(row for row in ASKED if row["answers"]["text"])
    bad = moved | {"answers": {"text": moved["answers"]["text"], "answer_start": [10**6]}}
    long = {"question": "which words", "context": "so " + "great bad fine " * 9, "user": "u1"}
    long["answers"] = {"text": [long["context"][3:-1]], "answer_start": [3]}
    table = [bad, *ASKED[1:], *[long] * 40, {"question": "x", "context": "y", "answers": None}]
    rows = write_json_lines(tmp_path / "rows.jsonl", table)
    assert main([*spans_command(rows, tmp_path / "run", backbone=backbone, method="none"), "--no-baselines"]) == 0
    told = capsys.readouterr().err
    assert "1 answers are not where their row says, and were found by their text" in told
    assert "1 row without a label left out" in told
    counted = re.search(r"train: (\d+) of \d+ answers are whole in no window of head:16", told)
    assert counted is not None
    assert 20 < int(counted[1]) <= 40
