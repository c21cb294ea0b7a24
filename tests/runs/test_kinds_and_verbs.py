"""Every kind of run with every verb: it works and says what belongs to this kind, or one message names the cure."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import preference_tables
import pytest
import similarity_tables
import small_runs
import token_tables
from fastapi.testclient import TestClient
from huggingface_hub import ModelCard
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.data.tables import read_table
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores
from attribune.tasks import Task, capabilities, task_from_dict

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
Make = Callable[[TrainedRuns], Path]


STARS = ("prediction", "probability_bad", "probability_good")


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Args:
        make: trains one, or takes what others trained.
        rows: makes a number of labelled rows, by a seed.
        metric: the main one.
        columns: what is predicted of a row.
        texts: the columns of the text.
        hub: what the hub calls its task.
    """

    make: Make
    rows: Callable[..., Rows] = small_runs.reviews
    task: str = "classification"
    metric: str = "accuracy"
    columns: tuple[str, ...] = STARS
    texts: tuple[str, ...] = ("text",)
    method: str = "injector"
    hub: str = "text-classification"


def trained(*more: str, method: str = "injector", rows: Rows = ROWS) -> Make:
    return lambda runs: runs(method, *more, rows=rows)


def with_shares(count: int, *, seed: int) -> Rows:
    """Reviews whose label says how many of their readers gave which answer."""
    rows = small_runs.reviews(count, seed=seed)
    shares = {"good": {"good": 0.75, "bad": 0.25}, "bad": {"bad": 1.0}}
    return [row | {"stars": json.dumps(shares[row["stars"]])} for row in rows]


def two_texts(count: int, *, seed: int) -> Rows:
    """Reviews in two parts."""
    rows = small_runs.reviews(count, seed=seed)
    return [row | {"one": " ".join(row["text"].split()[::2]), "two": f"the {row['text']}"} for row in rows]


def written(count: int, *, seed: int) -> Rows:
    """Texts to write, after a prompt."""
    rows = small_runs.reviews(count, seed=seed)
    return [{"ask": f"n{number % 61}", "text": row["text"], "user": row["user"]} for number, row in enumerate(rows)]


def pairs_of_texts(runs: TrainedRuns) -> Path:
    table, texts = runs.table(two_texts(90, seed=3)), ("one", "--text-pair", "two")
    words = small_runs.train_command(table, Path(), backbone=runs.backbone(), text=texts)
    return runs.trained([*words, "--no-baselines"])


def writing(runs: TrainedRuns) -> Path:
    backbone = runs.backbone("llama", is_generative=True)
    texts = ("text", "--prompt", "ask", "--task", "generation")
    words = small_runs.train_command(runs.table(written(90, seed=3)), Path(), backbone=backbone, text=texts, label=())
    return runs.trained([*words, "--no-baselines"])


SEVERAL_LABELS = ("data.label=tags", "task.multi_label=true", "task.separator=;", "--no-baselines")


def of_look(task: str, metric: str, *columns: str) -> Kind:
    """Numbers as answers."""
    make = trained("data.label=look", f"task.kind={task}", "--no-baselines")
    return Kind(make, task=task, metric=metric, columns=("prediction", *columns))


def similar(make: Make, rows: Callable[..., Rows], metric: str) -> Kind:
    """A query and a document."""
    texts = ("query", "document")
    return Kind(make, rows, "similarity", metric, ("prediction",), texts, hub="sentence-similarity")


KINDS = {
    "classes": Kind(trained()),
    "several labels": Kind(trained(*SEVERAL_LABELS), metric="micro_f1", columns=("prediction", "probability_war")),
    "aspects": Kind(
        trained("data.label=[look,taste]", "--no-baselines"),
        task="aspects",
        metric="mean_accuracy",
        columns=("prediction_look", "prediction_taste"),
    ),
    "shares": Kind(
        trained("task.soft_labels=true", "--no-baselines", rows=with_shares(90, seed=3)),
        with_shares,
        metric="cross_entropy",
    ),
    "rating": of_look("rating", "accuracy", "probability_4"),
    "ordinal": of_look("ordinal", "rmse", "expected"),
    "numbers": of_look("regression", "rmse"),
    "two texts": Kind(pairs_of_texts, two_texts, texts=("one", "two")),
    "tags": Kind(
        token_tables.learned_tags,
        token_tables.tagged_words,
        "tags",
        "f1",
        ("prediction", "probability"),
        ("words",),
        hub="token-classification",
    ),
    "spans": Kind(
        token_tables.learned_spans,
        token_tables.questions,
        "spans",
        "f1",
        ("prediction", "start", "score"),
        ("question", "context"),
        hub="question-answering",
    ),
    "similar pairs": similar(similarity_tables.learned_similarity, similarity_tables.pairs, "mrr"),
    "similarity scores": similar(
        lambda runs: similarity_tables.learned_similarity(runs, "scores"), similarity_tables.scores, "spearman"
    ),
    "preference": Kind(
        preference_tables.learned_preference,
        preference_tables.preferences,
        "preference",
        columns=("prediction", "reward_first", "reward_second", "probability_first"),
        texts=("one", "two"),
    ),
    "writing": Kind(
        writing, written, "generation", "perplexity", ("perplexity", "tokens"), ("ask", "text"), hub="text-generation"
    ),
    "linear": Kind(trained(method="linear"), method="linear"),
    "boosting": Kind(trained(method="boosting"), method="boosting"),
    "automl": Kind(trained(method="automl"), method="automl"),
}
BASELINES = {"linear", "boosting", "automl"}
TOKENS, COMPARED = {"tags", "spans"}, {"similar pairs", "similarity scores", "preference"}
SEVERAL_ANSWERS = {"several labels", "aspects", "tags", "spans", "similar pairs", "similarity scores", "writing"}

EXPLAINS = {"explain", "explain own rows", "explain a row"}
EXPORTS = {"export a folder", "export a graph"}
ONE_SCORE = "is for tasks with one score for a whole text, and '{task}'"
OTHERS = "use `attribune evaluate`, `predict`, `report`, `ablate` or `serve`"
ONE_ANSWER = "is for tasks with one answer of several, or a number, and this is '{task}': predict for each value alone"
SEVERAL = ONE_ANSWER.replace("'{task}'", "'{task}' with several labels per row")
REFUSED: list[tuple[set[str], set[str], str]] = [
    ({*EXPLAINS, *EXPORTS, "playground"}, TOKENS, f"{ONE_SCORE} scores tokens: {OTHERS}"),
    ({*EXPLAINS, *EXPORTS, "playground"}, COMPARED, f"{ONE_SCORE} compares texts: {OTHERS}"),
    ({"playground"}, {"writing"}, "writes text, which the playground does not show: use `attribune generate`"),
    ({"predict a text"}, {"two texts", "spans", "writing", *COMPARED}, "does not say which it is: give rows, such as"),
    ({"predict alone"}, BASELINES, "has no recipe.yaml"),
    ({"predict a panel"}, {"several labels"}, f"a panel {SEVERAL}"),
    ({"next"}, {"several labels"}, f"the next text {SEVERAL}"),
    ({"predict a panel"}, SEVERAL_ANSWERS, f"a panel {ONE_ANSWER}"),
    ({"next"}, SEVERAL_ANSWERS, f"the next text {ONE_ANSWER}"),
    ({"next"}, BASELINES, "that could be learned: train with a method that has: `attribune train --method injector`"),
    ({"generate"}, set(KINDS) - {"writing"}, "has the task '{task}', which writes no text: use `attribune predict`"),
    ({"enrol"}, {"similar pairs"}, "train further with its rows (`attribune train --continue`)"),
    ({"enrol"}, BASELINES, "method '{method}' has no vector for each value: train again with the new values, or with"),
    ({"ablate"}, BASELINES, "method '{method}' acts in no layer of a backbone, so no layer of it can"),
    ({"train on"}, BASELINES, "method '{method}' is a baseline, which is not trained further: train it anew"),
    (EXPORTS, BASELINES, "method '{method}' has no backbone: only neural models are exported"),
    (
        {"export a graph"},
        {"writing"},
        "is for models with one score for a whole text, and {run} writes: choose --format",
    ),
]
"""Verbs, kinds that they refuse, and what the message says."""


OF_TASKS = {
    **dict.fromkeys(EXPLAINS, capabilities.EXPLAIN),
    "export a folder": capabilities.EXPORT,
    "export a graph": capabilities.GRAPH,
    "playground": capabilities.PLAYGROUND,
    "predict a panel": capabilities.PANEL,
    "next": capabilities.NEXT,
    "generate": capabilities.GENERATE,
    "enrol": capabilities.ENROL,
}
"""Verbs that depend on the task, with their line in the table of what tasks can do."""


def refusal(kind: str, verb: str) -> str | None:
    found = [message for verbs, kinds, message in REFUSED if verb in verbs and kind in kinds]
    return found[0] if found else None


SAID: dict[Any, list[dict[str, Any]]] = {}
"""What predictors of runs said, so that each is loaded once for all verbs."""


class Case:
    """A kind of run that meets a verb."""

    def __init__(self, kind: Kind, runs: TrainedRuns, place: Path) -> None:
        self.kind, self.runs, self.place = kind, runs, place
        self.run = kind.make(runs)
        self.rows = kind.rows(12, seed=5)

    def words(self, template: str) -> list[str]:
        """The words of a command; what they name is written when it is named."""
        files: dict[str, Callable[[], Path]] = {
            "{run}": lambda: self.run,
            "{model}": lambda: self.runs.copy(self.run / "model", self.place / "alone"),
            "{copy}": lambda: self.runs.copy(self.run, self.copied),
            "{rows}": lambda: self.table("rows", self.rows),
            "{new}": lambda: self.table("new", [row | {"user": "zoe"} for row in self.rows]),
            "{more}": lambda: self.table("more", self.kind.rows(40, seed=9)),
        }
        return [str(files[word]()) if word in files else word.format(out=self.place) for word in template.split()]

    def table(self, name: str, rows: Rows) -> Path:
        if self.kind.task in TOKENS:
            return token_tables.write_json_lines(self.place / f"{name}.jsonl", rows)
        return small_runs.write_csv(self.place / f"{name}.csv", rows)

    @property
    def copied(self) -> Path:
        return self.place / "copy"

    @property
    def task(self) -> Task:
        return task_from_dict(RunFolder(self.run).read_results().task)

    def page(self) -> str:
        return (self.place / "page.html").read_text(encoding="utf-8")

    def expected(self, **changes: Any) -> list[dict[str, Any]]:
        """What the predictor of the run says of the rows."""
        key = (self.run, *changes.values())
        if key not in SAID:
            SAID[key] = self.said(load_run(self.run)[1], **changes)
        return SAID[key]

    def said(self, predictor: Predictor, **changes: Any) -> list[dict[str, Any]]:
        """What a predictor says of the rows."""
        return columns(self.kind, predictor.predict([row | changes for row in self.rows]))


def columns(kind: Kind, found: Any) -> list[dict[str, Any]]:
    """The rows of a prediction, as JSON has them."""
    rows = zip(*(list(found[name]) for name in kind.columns), strict=True)
    return [{name: plain(cell) for name, cell in zip(kind.columns, row, strict=True)} for row in rows]


def plain(cell: Any) -> Any:
    cell = cell.tolist() if hasattr(cell, "tolist") else cell
    return [plain(one) for one in cell] if isinstance(cell, list | tuple) else cell


def assert_same(found: Iterable[dict[str, Any]], expected: list[dict[str, Any]], *, atol: float = 1e-5) -> None:
    for one, other in zip(found, expected, strict=True):
        for name, cell in other.items():
            is_number = isinstance(cell, float) or (isinstance(cell, list) and cell and isinstance(cell[0], float))
            assert one[name] == (pytest.approx(cell, rel=1e-4, abs=atol) if is_number else cell), name


def described(case: Case, out: str, _: str) -> None:
    assert re.search(rf"(?m)^task +{case.kind.task}$", out)
    assert re.search(rf"(?m)^method +{case.kind.method}$", out)
    assert re.search(r"(?m)^user +categorical ", out)


def evaluated(case: Case, out: str, _: str) -> None:
    head = next(line for line in out.splitlines() if line.startswith("95 % intervals"))
    assert head.removeprefix("95 % intervals").split()[0] == case.kind.metric
    assert re.search(r"(?m)^as given ", out)
    assert re.search(r"(?m)^attributes hidden ", out)
    assert f"as given against attributes hidden, {case.kind.metric}: " in out


def evaluated_on_its_own(case: Case, out: str, err: str) -> None:
    """The figures are those of the training, which scored the same rows."""
    stored = RunFolder(case.run).read_results()
    shown = json.loads(out)
    assert shown["rows"] == stored.rows["test"]
    assert f"these are the {stored.rows['test']:,} test rows of the run, from" in err
    (own, *_) = stored.table("test")
    for name, interval in own.metrics.items():
        assert shown["metrics"]["as given"][name]["value"] == pytest.approx(interval.value, rel=1e-4, abs=1e-5)


def compared(case: Case, out: str, _: str) -> None:
    assert re.search(rf"test {case.kind.metric}: \+0\.0\S* .*: no difference shown", out)


def reported(case: Case, _: str, __: str) -> None:
    page = case.page()
    assert "Verdict" in page
    assert case.kind.metric.replace("_", " ") in page


def predicted(case: Case, _: str, err: str) -> None:
    assert "12 rows written to" in err
    shown = [json.loads(line) for line in (case.place / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert_same(shown, case.expected())
    for text in case.kind.texts:
        assert [row[text] for row in shown] == [row[text] for row in case.rows]


def predicted_a_text(_: Case, out: str, __: str) -> None:
    assert re.search(r"(?m)^prediction(_look)?: ", out)


def predicted_a_panel(case: Case, _: str, __: str) -> None:
    found = pd.read_csv(case.place / "panel.csv")
    if case.kind.task == "regression":
        assert (found["spread"] >= 0).all()
    else:
        shares = found.filter(like="share_")
        assert shares.sum(axis=1).to_numpy() == pytest.approx(1)
        assert found["disagreement"].between(0, 1).all()


def generated(_: Case, out: str, __: str) -> None:
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert row["prompt"] == "n1"
    assert row["attributes"] == {"user": "u1"}


def explained(case: Case, out: str, _: str) -> None:
    assert f" rows, {case.kind.metric}\n" in out
    assert re.search(rf"With user hidden, (no difference in )?{case.kind.metric} is ", out)


def explained_a_row(case: Case, _: str, __: str) -> None:
    page = case.page()
    for text in case.kind.texts:
        assert case.rows[1][text].split()[-1] in page


def ablated(case: Case, out: str, err: str) -> None:
    assert "7 passes over " in err
    assert re.search(rf"(?m)^off +layers +{case.kind.metric.replace('_', ' ')} (lost|added)", out)
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("user ")] == [["user", n] for n in "010"]


def exported(case: Case, _: str, __: str) -> None:
    """Without attributes, the folder says what the run says of the value, and knows no other."""
    folder = case.place / "exported"
    texts = [{name: row[name] for name in case.kind.texts} for row in case.rows]
    assert_same(columns(case.kind, Predictor.from_pretrained(folder).predict(texts)), case.expected(user="u1"))
    assert not [path.name for path in folder.glob("*.json*") if re.search(r'"u\d"', path.read_text(encoding="utf-8"))]


def enrolled(case: Case, _: str, err: str) -> None:
    """Predictions for known values stay the same; how many powers an Injector's weights need may change."""
    assert "values added: 1" in err
    predictor = load_run(case.copied)[1]
    assert "zoe" in predictor.schema["user"].values
    assert_same(case.said(predictor), case.expected())


def forgot(case: Case, _: str, err: str) -> None:
    assert f"no file below {case.copied} contains the value any more" in err
    recipe, predictor = load_run(case.copied)
    assert "u1" not in predictor.schema["user"].values
    rows = StoredScores.read(case.copied).parts["test"]["rows"]
    assert "u1" not in list(read_table(recipe.data.train).select(rows)["user"])
    assert_same(case.said(predictor, user="u2"), case.expected(user="u2"))


def asked_next(case: Case, out: str, _: str) -> None:
    lines = [line.split() for line in out.splitlines() if re.match(r"\d", line)]
    assert len({line[0] for line in lines}) == 2
    assert all(1 <= int(line[0]) <= len(case.rows) for line in lines)


def trained_on(case: Case, _: str, err: str) -> None:
    assert f"the run is in {case.place / 'on'}" in err
    assert RunFolder(case.place / "on").read_results().main_metric == case.kind.metric


def played(_: Case, __: str, err: str) -> None:
    assert "the playground is at http://here" in err


VERBS: dict[str, tuple[str, Callable[[Case, str, str], None]]] = {
    "describe": ("describe {run}", described),
    "evaluate": ("evaluate {run} {rows}", evaluated),
    "evaluate own rows": ("evaluate {run} --json", evaluated_on_its_own),
    "compare": ("compare {run} {run}", compared),
    "report": ("report {run} --output {out}/page.html", reported),
    "report of a table": ("report {run} {rows} --output {out}/page.html", reported),
    "predict": ("predict {run} {rows} --output {out}/out.jsonl", predicted),
    "predict alone": ("predict {model} {rows} --output {out}/out.jsonl", predicted),
    "predict a text": ("predict {run} --text great --attribute user=u1", predicted_a_text),
    "predict a panel": ("predict {run} {rows} --panel user --output {out}/panel.csv", predicted_a_panel),
    "generate": ("generate {run} --prompt n1 --attribute user=u1 --max-new-tokens 2", generated),
    "explain": ("explain {run} {rows}", explained),
    "explain own rows": ("explain {run}", explained),
    "explain a row": ("explain {run} {rows} --row 2 --output {out}/page.html", explained_a_row),
    "ablate": ("ablate {run} {rows}", ablated),
    "export a folder": ("export {run} --for user=u1 --output {out}/exported", exported),
    "export a graph": ("export {run} --format torch --output {out}/graph.pt2", lambda *_: None),
    "enrol": ("enrol {copy} {new}", enrolled),
    "forget": ("forget {copy} --attribute user --value u1", forgot),
    "next": ("next {run} {rows} --for user=u1 --count 2", asked_next),
    "train on": ("train {more} --continue {run} --output {out}/on --epochs 1 --no-baselines", trained_on),
    "playground": ("playground {run}", played),
}
"""The words of each verb, and what must hold after it where it works."""

ALIKE = {"several labels", "aspects", "shares", "rating", "ordinal", "numbers"}
"""Kinds that differ from `classes` in their task alone."""

TAKES_LONG = {"boosting", "automl", "similarity scores"}
"""Kinds like `linear` and `similar pairs` that take long to train."""

LIKE_OTHERS = {"two texts", "spans", "preference", "writing"}
"""Kinds of which the files and vectors are those of `classes`, `tags` or `similar pairs`."""

OF_THE_TASK = {"describe", "evaluate", "compare", "report", "predict", "predict a panel"}
"""Verbs that ask a task for what it alone knows, and that no other test asks of every task."""

OF_THE_FILES = {"report of a table", "predict alone", "ablate", "forget", "enrol"}
"""Verbs that work on the files, layers and vectors of any task."""


def marks(kind: str, verb: str) -> list[pytest.MarkDecorator]:
    """What is one thing for several kinds is asked of the first of them, and of the others by `make test-all` alone.

    A training that goes on is asked where another verb says that it is the cure.
    """
    if kind in TAKES_LONG:
        is_left_out = True
    elif refusal(kind, verb) is not None:
        is_left_out = kind in ALIKE and verb not in OF_THE_TASK
    elif verb == "train on":
        is_left_out = refusal(kind, "enrol") is None
    else:
        is_left_out = (kind in ALIKE and verb not in OF_THE_TASK) or (kind in LIKE_OTHERS and verb in OF_THE_FILES)
    return [pytest.mark.exhaustive] if is_left_out else []


PAIRS = [
    pytest.param(kind, verb, marks=marks(kind, verb), id=f"{kind}, {verb}")
    for kind in KINDS
    for verb in VERBS
    if verb != "export a graph" or refusal(kind, verb)  # one that works takes ten seconds, in tests/export
]


@pytest.fixture
def case(request: pytest.FixtureRequest, trained_runs: TrainedRuns, tmp_path: Path) -> Case:
    return Case(KINDS[request.getfixturevalue("kind")], trained_runs, tmp_path)


@pytest.fixture
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The playground answers a text instead of opening a page."""

    class Page(ModuleType):
        def launch(self, session: Any, **_: Any) -> tuple[Page, str]:
            second = {"second": "the film"} if session.reads_pairs else {}
            answer = session.ask("great film", {"user": ["u1"]}, **second)
            assert len(answer.names) == len(answer.numbers[0])
            return self, "http://here"

        is_running = False

        def close(self, *, verbose: bool) -> None:
            pass

    monkeypatch.setitem(sys.modules, "attribune.apps.playground.page", Page("page"))


@pytest.mark.parametrize(("kind", "verb"), PAIRS)
@pytest.mark.usefixtures("_no_page")
def test_a_kind_meets_a_verb(kind: str, verb: str, case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    template, shows = VERBS[verb]
    words = case.words(template)
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    message = refusal(kind, verb)
    if verb in OF_TASKS and kind not in BASELINES:
        assert capabilities.can(case.task, OF_TASKS[verb]) == (message is None)
    if message is None:
        assert code == 0, err
        shows(case, out, err)
    else:
        assert (code, out) == (1, "")
        assert message.format(task=case.kind.task, method=case.kind.method, run=case.run) in err
        assert err.count(": error: ") == 1
        assert "Traceback" not in err


CALL = "predictor.predict("


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks(kind, "describe")) for kind in KINDS])
def test_the_card_of_a_kind_has_its_task_and_code_that_runs(kind: str, case: Case) -> None:
    text = (case.run / "model" / "README.md").read_text(encoding="utf-8")
    head = ModelCard(text).data
    assert head.tags == ["attribune", case.kind.method, case.kind.hub]
    assert {(one.dataset_split, one.metric_name) for one in head.eval_results} >= {("test", case.kind.metric)}
    assert re.search(rf"(?m)^\| task \| {case.kind.task} (of|between) ", text)
    assert ("```python" in text) == (kind not in BASELINES)
    for code in (part.split("```")[0] for part in text.split("```python\n")[1:]):
        namespace: dict[str, Any] = {}
        exec(code.replace("this/folder", str(case.run / "model")).replace(CALL, f"found = {CALL}"), namespace)
        if kind == "writing":
            assert len(namespace["texts"]) == 1
        else:
            assert all(f'"{name}": "..."' in code for name in (*case.kind.texts, "user"))
            assert set(case.kind.columns) <= set(namespace["found"])


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks(kind, "serve")) for kind in KINDS])
def test_a_kind_is_served(kind: str, case: Case) -> None:
    texts = case.kind.texts
    row = case.rows[0]
    given = row[texts[0]] if len(texts) == 1 else {name: row[name] for name in texts}
    with TestClient(create_app(load_models([str(case.run)]))) as client:
        asked = {"text": given, "attributes": {"user": row["user"]}}
        answer = client.post("/v1/predict", json=asked).json()["predictions"][0]
        stranger = client.post("/v1/predict", json={"text": given, "attributes": {"user": "nobody"}})
        assert stranger.json()["predictions"][0]["unknown"] == {"user": ["nobody"]}
        if len(texts) > 1:
            for wrong, reason in (("one alone", ", ".join(texts)), (["a", "b"], "a list, but this model reads a text")):
                refused = client.post("/v1/predict", json={"text": wrong})
                assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "text")
                assert reason in refused.json()["errors"][0]["reason"]
    assert_same([answer["output"]], case.expected()[:1])
