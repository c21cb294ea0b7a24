"""The parts of a run's page about people who judge the same texts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from datasets import Dataset
from safetensors.numpy import load_file
from trained_runs import TrainedRuns

from attribune.analysis.diagnostics import ScoredRows
from attribune.analysis.run_rows import RunRows, rows_of_run
from attribune.apps.report.page import Section
from attribune.apps.report.run_page import judge_sections, run_page
from attribune.tasks import Classification, Ordinal, Regression, Task

pytestmark = pytest.mark.slow

ALL = [
    "Judges beside each other",
    "Texts: predicted and seen disagreement",
    "Texts on which people disagree most",
    "Judges as the model knows them",
]
JUDGES, TEXTS = 5, 30


def judgements(texts: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Each text judged by five people, of whom u0 says bad of most of them."""
    rng = np.random.default_rng(start)
    table = []
    for number, row in enumerate(small_runs.reviews(texts, seed=start)):
        text = f"{row['text']} n{start} n{number % 61}"
        for judge in range(JUDGES):
            likes = rng.uniform() < (0.1 if judge == 0 else 0.8 if number % 2 else 0.5)
            table.append({**row, "text": text, "user": f"u{judge}", "stars": "good" if likes else "bad"})
    return table


def good_of_texts() -> Any:
    """(texts, judges) of the test rows: whether the judge calls the text good."""
    answers = [row["stars"] == "good" for row in judgements(TEXTS, start=1)]
    return np.array(answers, float).reshape(TEXTS, JUDGES)


@pytest.fixture(scope="module")
def data(trained_runs: TrainedRuns) -> Path:
    """The test rows."""
    return trained_runs.table(judgements(TEXTS, start=1))


@pytest.fixture(scope="module")
def run(trained_runs: TrainedRuns, data: Path) -> Path:
    return trained_runs("injector", "--test", str(data), "--no-baselines", rows=judgements(30))


@pytest.fixture(scope="module")
def own(run: Path) -> RunRows:
    return rows_of_run(run)


def with_rows(own: RunRows, task: Task, labels: Any, logits: Any = None, **more: Any) -> RunRows:
    """The same run with other labels of its test rows."""
    labels = np.asarray(labels)
    logits = np.random.default_rng(0).normal(size=(len(labels), task.outputs)) if logits is None else logits
    scored = ScoredRows(task=task, logits=logits, labels=labels, counts={}, clusters=own.scored_rows.clusters)
    return replace(own, scored_rows=replace(scored, ids=own.scored_rows.ids, **more), comparisons=[], results=[])


def sections(rows: RunRows) -> dict[str, Section]:
    return {section.title: section for section in judge_sections(rows)}


def test_the_page_of_judgements_has_their_judges_and_texts(own: RunRows) -> None:
    found = sections(own)
    assert list(found) == ALL
    judges = found[ALL[0]]
    assert judges.sentences[0] == (
        "Of 5 judges, 1 differs from random rows in bias (they answer good more or less often than others do): u0."
    )
    head, first, *_ = judges.table
    assert head[:3] == ["user", "judgements", "good, points"]
    assert first[:2] == ["u0", "30"]
    stars = good_of_texts()
    bias = 100 * (stars[:, 0] - stars[:, 1:].mean(axis=1)).mean()
    assert first[2] == f"{bias:+.1f} *"
    seen = np.mean([stars[:, i] != stars[:, j] for i in range(JUDGES) for j in range(i)])
    assert f"give different answers in {100 * seen:.1f} [" in found[ALL[1]].sentences[0]
    assert f"{TEXTS} texts were judged by several people" in found[ALL[1]].sentences[0]
    known = {line[0]: line for line in found[ALL[3]].table[1:]}
    counts = dict(zip(own.attributes[0].values, own.attributes[0].counts[1:], strict=True))
    assert {name: line[2] for name, line in known.items()} == {name: str(count) for name, count in counts.items()}
    page = run_page(own)
    assert re.findall("<h2>(.*?)</h2>", page)[-4:] == ALL


def test_scores_with_hidden_attributes_are_stored_and_equal_those_of_a_new_evaluation(
    own: RunRows, run: Path, data: Path
) -> None:
    again = rows_of_run(run, data)
    np.testing.assert_allclose(own.scored_rows.hidden, again.scored_rows.hidden, atol=1e-5)
    assert not np.allclose(own.scored_rows.hidden, own.scored_rows.logits)
    assert sections(again)[ALL[3]].sentences == sections(own)[ALL[3]].sentences
    stored = load_file(str(run / "test_logits.safetensors"))
    np.testing.assert_array_equal(stored["hidden"], own.scored_rows.hidden)


def test_the_most_disputed_texts_are_those_of_the_largest_figures(own: RunRows) -> None:
    lines = sections(own)["Texts on which people disagree most"].table[1:]
    texts = [row["text"] for row in judgements(TEXTS, start=1)][::JUDGES]
    assert {line[0] for line in lines} <= set(texts)
    for how, column in (("as predicted", 3), ("as seen", 4)):
        shown = [float(line[column]) for line in lines if line[1] == how]
        assert shown == sorted(shown, reverse=True)
    for line in lines:
        good = int(good_of_texts()[texts.index(line[0])].sum())
        answers = {"good": good, "bad": JUDGES - good}
        said = [f"{name} ({count})" if count > 1 else name for name, count in answers.items() if count]
        assert sorted(line[5].split(", ")) == sorted(said)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "unit"),
    [
        (Ordinal(classes=("1", "2", "3")), "difference"),
        (Regression(mean=2.0, std=0.8), "difference"),
        (Classification(classes=("a", "b", "c")), "agreement (%)"),
    ],
    ids=["ordinal", "numbers", "three classes"],
)
def test_every_task_of_one_answer_has_the_parts(task: Task, unit: str, own: RunRows) -> None:
    labels = np.random.default_rng(1).integers(3, size=TEXTS * JUDGES)
    given = ((labels + 1 - 2.0) / 0.8).astype(np.float32) if isinstance(task, Regression) else labels
    hidden = np.random.default_rng(2).normal(size=(len(labels), task.outputs))
    found = sections(with_rows(own, task, given, hidden=hidden))
    assert list(found) == ALL
    assert unit in found[ALL[0]].table[0]
    assert bool(found[ALL[0]].figures) == (unit == "difference")
    is_regression = isinstance(task, Regression)
    assert any("predicts one number" in line for line in found[ALL[1]].sentences) == is_regression


# What cannot be shown


def test_where_all_agree_one_sentence_says_so(own: RunRows) -> None:
    found = sections(with_rows(own, Classification(classes=("bad", "good")), np.ones(TEXTS * JUDGES, dtype=int)))
    assert found["Judges and their texts"].sentences == [
        f"All people agree about all of the {TEXTS} texts that several judged."
    ]
    assert "earlier releases" in found[ALL[3]].sentences[0], "these rows have no scores with hidden attributes"


@pytest.mark.parametrize(("clusters", "said"), [((), ""), (("user",), ""), (("text",), "no attribute tells")])
def test_what_is_not_known_of_the_rows_is_one_sentence(clusters: Any, said: str, own: RunRows) -> None:
    kinds = {name: own.scored_rows.clusters[name] for name in clusters}
    found = sections(replace(own, scored_rows=replace(own.scored_rows, clusters=kinds)))
    if said:
        (first, *_) = found.values()
        assert said in first.sentences[0]
        assert (first.figures, first.table) == ((), ())
    else:
        assert found == {}, "nobody judges the same text as another"


def test_judges_of_few_judgements_are_one_sentence(own: RunRows) -> None:
    rows = replace(own, scored_rows=own.scored_rows.select(np.arange(19 * JUDGES)))
    found = sections(rows)
    assert found[ALL[0]].sentences == [
        "Single judges are not compared: no value of user has twenty judgements of texts that others judged."
    ]
    assert "too few texts" in found[ALL[1]].sentences[1]
    assert found[ALL[3]].sentences == ["No value of user has twenty rows."]


def test_without_the_table_or_attributes_there_are_no_parts(own: RunRows) -> None:
    assert sections(replace(own, table=None)) == {}
    bare = replace(own.scored_rows, clusters={})
    assert sections(replace(own, scored_rows=bare, attributes=[])) == {}


def test_names_and_texts_are_escaped_and_no_formulas(own: RunRows) -> None:
    names = ["<script>alert(1)</script>", "$\\frac$", "日本", "a" * 300, "u4"]
    table = own.table.to_dict()
    table["user"] = [names[int(user[1])] for user in table["user"]]
    table["text"] = [f"<script>{text}" for text in table["text"]]
    page = run_page(replace(own, table=Dataset.from_dict(table)))
    assert [part in page for part in ("<script>", "$\\frac$", "日本")] == [False, True, True]
