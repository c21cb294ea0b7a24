"""SQuAD: official files, parts of them, a mirror's paragraphs without places of answers, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from published import read_rows, write, write_source
from published_texts import squad_question, squad_text

from attribune.errors import DataError
from attribune.runs.recipe import Recipe
from attribune.tasks.spans import Spans
from attribune_lab.benchmark.experiment import SetPlan
from attribune_lab.benchmark.source import SetSource
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.sets import CARDS
from attribune_lab.datasets.statistics import describe_set, divergences

COLUMNS = {"text": "text", "text_pair": "text_pair", "label": ["answers"]}
RECIPE = Recipe.from_dict(
    {"data": {"train": "squad", **COLUMNS}, "task": {"kind": "spans"}, "method": {"name": "none"}}
)
TEXT = "In 1066 the Normans, led by William, won at Hastings."


def paragraph(context: str, **answers: Any) -> str:
    """A line with a paragraph and its questions, the names of `answers`."""
    return json.dumps({"context": context, "qas": [{"question": q, "answer": a} for q, a in answers.items()]}) + "\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with whole-looking files, twenty training questions and ten development ones."""
    write(tmp_path / "train-v1.1.json", squad_text(squad_question(n) for n in range(20)))
    write(tmp_path / "dev-v1.1.json", squad_text(squad_question(n) for n in range(20, 30)))
    return tmp_path


def test_questions_paragraphs_and_answers_are_columns(source: Path) -> None:
    rows, log = read_rows("squad", source)
    assert log.read == {"test": 10, "train": 20}
    part, row = rows[0]
    answers = row.pop("answers")
    assert part == "test"
    assert row == {"text": "What is 20?", "text_pair": "It: a20 . And so on.", "title": "Article 0"}
    assert json.loads(answers) == {"text": ["a20"], "answer_start": [4]}


def test_questions_without_an_answer_are_those_of_the_second_version(tmp_path: Path) -> None:
    write_source(tmp_path, "squad-v2", 60)
    made = prepare(CARDS["squad-v2"], source=tmp_path, output=tmp_path / "out", partial=True)
    _, tables = SetSource(SetPlan(name="squad", prepared=str(made.folder))).tables(RECIPE, 0, trial=False)
    task = Spans.fit([tables["train"]["answers"], tables["train"]["text_pair"]])
    assert task.unanswerable
    labels, labelled = task.encode_labels([tables["test"]["answers"], tables["test"]["text_pair"]])
    assert labelled.all()
    assert sum(label == () for label in labels) == 7  # of twenty, every third


def test_paragraphs_without_places_continue_the_training_file(source: Path) -> None:
    known = squad_question(3)
    lines = [
        paragraph(known["context"], **{known["question"]: "a3", "And what else?": "so"}),
        paragraph(TEXT, **{"When?": "1066", "Who?": "e", "What?": "Franks"}),
        paragraph(squad_question(20)["context"], **{"What is 20?": "a20"}),
    ]
    write(source / "train-800-paragraphs.jsonl", "".join(lines))
    rows, log = read_rows("squad", source)
    assert log.read == {"test": 10, "train": 20, "paragraphs": 6}
    assert [(row["text"], row["title"]) for _, row in rows[30:]] == [("And what else?", "Article 3"), ("When?", TEXT)]
    assert json.loads(rows[-1][1]["answers"]) == {"text": ["1066"], "answer_start": [3]}
    assert log.left_out == {
        "questions that stand earlier in the files": 2,
        "questions whose answer is not in the paragraph exactly once, and without a place": 2,
    }


def test_an_answer_that_is_elsewhere_is_found_and_counted(source: Path) -> None:
    wrong = squad_question(40, answers=[{"text": "a40", "answer_start": 7}])
    write(source / "train-v1.1.json", squad_text([squad_question(0), wrong]))
    rows, log = read_rows("squad", source)
    assert json.loads(rows[-1][1]["answers"])["answer_start"] == [4]
    assert dict(log.remarks) == {"answers that are not where the file says, and were found by their text": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answers": [{"text": "Rollo", "answer_start": 4}]}, "an answer is not in its paragraph"),
        ({"answers": [{"text": "", "answer_start": 4}]}, "an answer is not in its paragraph"),
        ({"answers": [{"text": "a40", "answer_start": "early"}]}, "an answer is not in its paragraph"),
        ({"question": "half \ud83d"}, "half of a character pair"),
        ({"question": 7}, "'question' is '7', not text"),
        ({"answers": "a40"}, "'answers' is not a list"),
    ],
)
def test_a_broken_question_is_refused_with_its_place(source: Path, changes: dict[str, Any], reason: str) -> None:
    write(source / "train-v1.1.json", squad_text([squad_question(0), squad_question(40, **changes)]))
    with pytest.raises(DataError, match=rf"train-v1\.1\.json.*article 1.*{reason}"):
        read_rows("squad", source)


@pytest.mark.parametrize(
    "line",
    ['{"context": "text", "qas": 7}', '{"context": 7, "qas": [{"question": "q", "answer": "a"}]}', '{"qas": [[]]}'],
)
def test_a_broken_paragraph_is_refused_or_skipped(source: Path, line: str) -> None:
    write(source / "train-800-paragraphs.jsonl", line + "\n")
    with pytest.raises(DataError, match=r"train-800-paragraphs\.jsonl, line 1, question 1: no question with a para"):
        read_rows("squad", source)
    rows, log = read_rows("squad", source, skip_bad=True)
    assert len(rows) == 30
    assert log.bad == {"no question with a paragraph and answers": 1}


def test_a_truncated_file_is_refused(source: Path) -> None:
    file = source / "train-v1.1.json"
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.raises(DataError, match=r"train-v1\.1\.json, line 1: not JSON"):
        read_rows("squad", source)


def test_answers_have_neither_classes_nor_divergences(source: Path) -> None:
    made = prepare(CARDS["squad"], source=source, output=source / "out", partial=True)
    assert made.manifest["classes"] == {}
    assert "classes" not in {figure.name for figure in describe_set(made)}
    assert divergences(made) == []
    assert {card.classes_text for card in CARDS.values() if card.task["kind"] == "spans"} == {"answers"}


@pytest.mark.parametrize("most", [4, 40])
def test_a_benchmark_tests_on_the_same_drawn_questions_for_every_seed(source: Path, most: int) -> None:
    made = prepare(CARDS["squad"], source=source, output=source / "out", partial=True)
    plan = SetPlan(name="squad", prepared=str(made.folder), test_rows=most)
    drawn = []
    for fold in (0, 1):
        rows = SetSource(plan)
        tables = rows.tables(RECIPE, fold, trial=False)[1]
        assert rows.test_rows is not None
        assert made.parts()["test"]["text"].take(rows.test_rows).to_pylist() == tables["test"]["text"][:]
        drawn.append(rows.test_rows.tolist())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == min(most, 10)
