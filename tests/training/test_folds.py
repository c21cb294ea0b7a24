"""Cross-validation inside a run: every row is scored by a model that has not read it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_runs

from attribune import Predictor, Recipe, compare_runs, evaluate, train
from attribune.core.progress import Reporter
from attribune.data.splits import fold_numbers
from attribune.data.tables import read_table
from attribune.data.texts import text_digests
from attribune.errors import ConfigError, DataError
from attribune.runs.folder import RunFolder
from attribune.runs.stored_scores import StoredScores
from attribune.training.folds import prepare_folds
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare

ROWS = pd.DataFrame(small_runs.reviews(240))
COLUMNS: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"]}


def trained(folder: Path, backbone: Path | None, rows: Any = ROWS, **options: Any) -> RunFolder:
    """Train a small network, or without a backbone a linear model."""
    network = {"max_length": 32, "method": "pln", "epochs": 1, "backbone": backbone}
    options = {**({"method": "linear"} if backbone is None else network), **options}
    settings = {"training.precision": "float32", "evaluation.cluster": "rows", "training.blend": "never"}
    options["settings"] = {**settings, **options.get("settings", {})}
    train(rows, folder, **{**COLUMNS, **options})
    return RunFolder(folder)


@pytest.fixture(scope="module")
def run(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("folds") / "run", backbone, folds=3, compare=["adapter"])


@pytest.mark.parametrize("column", [None, "user"])
def test_folds_keep_equal_texts_and_groups_together_and_have_similar_sizes(column: str | None) -> None:
    rows = read_table(pd.concat([ROWS, ROWS[:40]]))
    folds = fold_numbers(rows, 3, text=["text"], seed=1, column=column)
    kept = rows["user"] if column else text_digests(rows, ["text"])
    assert all(len({fold for fold, one in zip(folds, kept, strict=True) if one == value}) == 1 for value in {*kept})
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= (2 if column is None else 40)
    if column is None:
        assert (folds != fold_numbers(rows, 3, text=["text"], seed=2)).any()


def test_more_folds_than_texts_are_refused() -> None:
    with pytest.raises(DataError, match="4 rows with 4 different texts cannot make 5 folds: give fewer folds"):
        fold_numbers(read_table(ROWS[:4]), 5, text=["text"])


@pytest.mark.parametrize("split", [{}, {"by": "group", "column": "user"}])
def test_no_fold_trains_on_what_it_scores_and_all_rows_are_scored_once(split: dict[str, Any]) -> None:
    rows = pd.concat([ROWS, ROWS[:40].assign(user="u0")], ignore_index=True)
    recipe = {"data": {"train": "rows", **COLUMNS, "split": {"folds": 4, **split}}}
    plan = DataPlan.of(Recipe.from_dict(recipe))
    data = prepare(plan, {"train": rows})
    scored: list[int] = []
    for fold in prepare_folds(plan, data):
        texts = {name: {*rows["text"][part.rows]} for name, part in fold.splits.items()}
        assert not texts["test"] & (texts["train"] | texts["validation"])
        assert {*fold.schema["user"].values} == {*rows["user"][fold.splits["train"].rows]}
        assert list(fold.splits["test"].table["text"]) == list(rows["text"][fold.splits["test"].rows])
        assert fold.task == data.task
        scored += fold.splits["test"].rows.tolist()
    assert len(scored) == len({*scored})
    assert {*scored} == (
        {*range(len(rows))} if not split else {*np.concatenate([p.rows for p in data.splits.values()])}
    )


def test_the_figures_are_of_all_rows_and_the_predictions_of_the_folds(run: RunFolder) -> None:
    results, scores = run.read_results(), StoredScores.read(run.path)
    assert results.rows == {"train": 216, "test": 240}
    assert results.training.selected_by == "last"
    assert [one.name for one in results.models[:3]] == ["pln", "pln, attributes hidden", "adapter"]
    assert {"linear", "attributes-only", "majority"} <= {one.name for one in results.models}
    part = scores.parts["test"]
    assert part["rows"].tolist() == list(range(240))
    found = scores.task.proper_score(part["logits"], part["labels"])
    assert found is not None
    assert results.models[0].parts["test"]["log_loss"].value == pytest.approx(found.value(), abs=1e-9)
    table = pq.read_table(run.predictions("test"))
    assert table["true_stars"].to_pylist() == ROWS["stars"].tolist()
    own = Predictor.from_pretrained(run.path).logits(ROWS)[0]
    assert np.abs(own - part["logits"]).max() > 1e-3, "the saved model has read these rows"
    (finding,) = (one for one in results.findings if one.code == "scored-out-of-fold")
    assert finding.values == {"folds": 3, "rows": 240, "is_chosen": False}
    assert not run.folds.exists()
    assert results.verdict is not None
    assert [one.rows for one in results.verdict.by_attribute] == [240]


def test_a_run_on_folds_is_compared_and_says_that_its_model_has_read_the_rows(run: RunFolder, tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    other = trained(tmp_path / "linear", None, str(tmp_path / "rows.csv"), folds=3)
    found = compare_runs(run.path, other.path)
    assert {one["part"] for one in found} == {"test"}
    assert found.notes == []
    again = evaluate(other.path, ROWS)
    assert any("240 rows have a text that is among the training texts" in note for note in again.notes)


def test_an_interrupted_run_goes_on_with_the_next_fold(
    run: RunFolder, backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Reporter):
        def note(self, text: str) -> None:
            if "fold 2" in text:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", backbone, folds=3, reporter=Stop())
    stopped = RunFolder(tmp_path / "run")
    before = stopped.fold(1).outcome.read_bytes()
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    trained(stopped.path, backbone, folds=3, resume=True)
    assert stopped.fold(1).outcome.read_bytes() == before
    first, second = (StoredScores.read(one.path).parts["test"]["logits"] for one in (run, stopped))
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_a_run_is_trained_further_and_says_that_it_has_read_the_rows(backbone: Path, tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    options = {"rows": str(tmp_path / "rows.csv"), "folds": 2, "baselines": False}
    first = trained(tmp_path / "first", backbone, **options)
    further = {"transfer": {"run": str(first.path), "frozen": False, "full_model": True}}
    results = trained(tmp_path / "further", backbone, settings=further, **options).read_results()
    found = [one for one in results.findings if one.code == "trained-before"]
    assert sum(one.values["rows"] for one in found) == len(ROWS)


TASKS = {
    "regression": {"label": "taste", "task": "regression"},
    "ordinal": {"label": "taste", "task": "ordinal"},
    "aspects": {"label": ["look", "taste"]},
    "several": {"label": "tags", "task": {"kind": "classification", "multi_label": True, "separator": ";"}},
    "shuffled": {"settings": {"data.shuffled": True}},
    "blended": {"settings": {"training.blend": "always"}},
    "no attributes": {"attributes": [], "method": "adapter"},
}


@pytest.mark.parametrize("case", TASKS)
def test_tasks(case: str, backbone: Path, tmp_path: Path) -> None:
    rows = ROWS[ROWS["tags"] != ""][:90] if case == "several" else ROWS[:90]
    done = trained(tmp_path / "run", backbone, rows, folds=2, **TASKS[case])
    results = done.read_results()
    assert results.rows["test"] == 90
    assert results.models[0].parts.keys() == {"test"}
    assert ("pln, not blended" in [one.name for one in results.models]) == (case == "blended")


@pytest.mark.parametrize(
    ("count", "options", "folds"),
    [
        (200, {}, 5),
        (199, {}, None),
        (200, {"folds": 0}, None),
        (200, {"settings": {"data.split.fractions": (0.8, 0.2, 0.0)}}, None),
        (200, {"settings": {"data.split.fractions": (0.4, 0.1, 0.5)}}, None),
        (200, {"test": ROWS[200:]}, None),
    ],
)
def test_some_hundred_rows_are_divided_unless_it_is_said(
    count: int, options: dict[str, Any], folds: int | None, tmp_path: Path
) -> None:
    done = trained(tmp_path / "run", None, ROWS[:count], **options).read_results()
    found = [one.values for one in done.findings if one.code == "scored-out-of-fold"]
    assert found == ([] if folds is None else [{"folds": folds, "rows": count, "is_chosen": True}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds is 1: give 2 or more, or 0 for none"),
        ({"folds": 3, "validation": ROWS[:40]}, "folds are made of all rows, so validation and test rows are not read"),
        (
            {"folds": 3, "settings": {"data.split.by": "time", "data.split.column": "price"}},
            "folds with a split by 'time'",
        ),
        ({"folds": 300}, "240 rows with .* different texts cannot make 300 folds"),
    ],
)
def test_what_cannot_be_divided_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        trained(tmp_path / "run", None, **options)
    assert not (tmp_path / "run").exists()
