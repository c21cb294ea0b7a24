"""``attribune benchmark``: every cell once, whatever happens in between, and tables from the files alone."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import finished_benchmarks
import numpy as np
import pandas as pd
import pytest
import small_runs
import yaml
from finished_benchmarks import PROCESSES, names
from safetensors.numpy import load_file, save

from attribune.apps.cli import main
from attribune.core.checksums import CheckedFiles
from attribune.errors import ConfigError, ModelFolderError
from attribune.metrics.formulas import log_loss
from attribune.runs.recipe import Recipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare
from attribune_lab.benchmark.experiment import Cell, Choice, Experiment
from attribune_lab.benchmark.page import benchmark_page
from attribune_lab.benchmark.rendering import FORMATS, notes_of
from attribune_lab.benchmark.results import BenchmarkFolder, CellResult, Group, best_factor
from attribune_lab.benchmark.runner import Outcome, training_counts
from attribune_lab.benchmark.tables import Summary, _chosen, benchmark_tables, summarize

Begin = Draw = Callable[..., str]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cells_here")]
MARKS = {"markdown": "### Small reviews", "latex": r"\begin{tabular}", "html": "<table>"}
"""What is in tables of a format."""


def test_every_cell_has_a_folder_without_weights(finished: BenchmarkFolder) -> None:
    trials = [f"reviews/{setting}/rate-x{factor}-0" for setting in ("injector", "none") for factor in ("0.5", "4")]
    settings = ("injector", "injector_shuffled", "linear", "none", "user_alone")
    assert names(finished) == sorted([*trials, *(f"reviews/{name}/{fold}" for name in settings for fold in (0, 1))])
    for path in finished.path.rglob("cell.json"):
        files = set(os.listdir(path.parent))
        assert {"recipe.yaml", "metrics.json", "cell.json", "validation_logits.safetensors"} <= files
        assert ("test_logits.safetensors" in files) == ("rate-" not in str(path)), "trials never see test rows"
        assert not files & {"model", "checkpoints"}
        record = json.loads(path.read_text())
        assert record["seconds"] >= 0
        assert record["environment"]["versions"]["torch"]
        assert len(record["data"]) == 64


def test_the_rate_of_the_lowest_validation_loss_is_taken(finished: BenchmarkFolder) -> None:
    experiment = finished.experiment()
    cells = [cell for cell in experiment.cells() if cell.factor is None]
    for name in ("none", "injector", "injector, shuffled"):
        own = [cell for cell in cells if cell.setting.name == name]
        trials = experiment.trials(own[0])
        assert len(trials) == 2
        losses = {}
        for trial in trials:
            found = load_file(finished.place(trial) / "validation_logits.safetensors")
            losses[trial.factor] = log_loss(found["labels"], found["logits"]).value()
        expected = min(losses, key=losses.__getitem__)
        assert best_factor(finished, trials, by="log_loss") == expected
        for cell in own:
            record = CellResult(cell, finished.place(cell)).record
            assert record.factor == expected
            assert record.learning_rate == pytest.approx(5e-4 * expected)
            assert record.backbone_learning_rate == pytest.approx((5e-5 if name == "none" else 5e-4) * expected)
    alone = finished.place(next(cell for cell in cells if cell.setting.name == "user alone"))
    recipe = yaml.safe_load((alone / "recipe.yaml").read_text())
    assert [attribute["name"] for attribute in recipe["data"]["attributes"]] == ["user"]
    assert recipe["training"]["learning_rate"] == 5e-4


@pytest.mark.exhaustive
def test_settings_of_two_tasks_are_compared(experiment: dict[str, Any], tmp_path: Path, begin: Begin) -> None:
    """Tasks with the same labels and metrics are compared on the same rows."""
    (plan,) = experiment["sets"]
    rows = [{**row, "points": 1 + number % 3} for number, row in enumerate(small_runs.reviews(120, seed=4))]
    data = {**plan["data"], "label": "points", "train": str(small_runs.write_csv(tmp_path / "points.csv", rows))}
    task = {"kind": "rating", "expected": True, "score_by": ["rmse", "kappa"]}
    settings = ["injector", {"name": "ordinal", "method": "injector", "task": {"kind": "ordinal"}}]
    sets = [{**plan, "data": data, "task": task, "folds": [0]}]
    begin({**experiment, "sets": sets, "settings": settings, "rates": None})
    (table,) = benchmark_tables(BenchmarkFolder(tmp_path / "out"))
    rating, ordinal = table.lines
    assert table.metric == "rmse"
    assert list(rating.metrics)[:2] == list(ordinal.metrics)[:2] == ["rmse", "kappa"]
    losses = [line.metrics["log_loss"].value for line in (rating, ordinal)]
    assert ordinal.loss.difference == pytest.approx(losses[1] - losses[0])


def test_a_second_run_does_nothing(finished: BenchmarkFolder, attribune: Callable[..., Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished.path / "cells").rglob("*")}
    code, _, messages = attribune("benchmark", "run", "--output", finished.path)
    assert code == 0
    assert "14 of 14 cells done" in messages
    assert {path: path.stat().st_mtime_ns for path in (finished.path / "cells").rglob("*")} == before
    assert attribune("benchmark", "status", finished.path)[:2] == (0, "14 of 14 cells done\n")


@pytest.mark.exhaustive
@browser.needs_browser
def test_the_page_in_a_browser(finished: BenchmarkFolder, tmp_path: Path) -> None:
    assert main(["benchmark", "report", str(finished.path), "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


@pytest.mark.parametrize(
    ("verb", "shown"),
    [("table", "### Small reviews"), pytest.param("report", "Not run yet: none.", marks=pytest.mark.exhaustive)],
)
def test_tables_and_the_page_need_no_torch_and_not_all_cells(copy: BenchmarkFolder, verb: str, shown: str) -> None:
    shutil.rmtree(copy.path / "cells" / "reviews" / "none")
    code = (
        "import sys\nfrom attribune.apps.cli import main\n"
        f"assert main(['benchmark', {verb!r}, {str(copy.path)!r}]) == 0\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = done.stdout if verb == "table" else (copy.path / "report.html").read_text()
    assert shown in text
    assert "injector, shuffled" in text


def test_figures_of_a_table_are_those_of_the_pooled_rows(finished: BenchmarkFolder, table: Draw) -> None:
    (made,) = benchmark_tables(finished)
    assert [line.name for line in made.lines] == ["none", "injector", "injector, shuffled", "user alone", "linear"]
    rows = list(csv.DictReader(io.StringIO(table(finished.path, "--format", "csv"))))
    for line in made.lines:
        cells = [finished.path / "cells" / "reviews" / line.name.replace(", ", "_").replace(" ", "_") / f for f in "01"]
        found = [load_file(cell / "test_logits.safetensors") for cell in cells]
        hits = np.concatenate([one["labels"] == one["logits"].argmax(axis=1) for one in found])
        assert line.metrics["accuracy"].value == pytest.approx(hits.mean())
        written = next(row for row in rows if (row["setting"], row["metric"]) == (line.name, "accuracy"))
        assert float(written["value"]) == pytest.approx(hits.mean())
        assert float(written["low"]) <= hits.mean() <= float(written["high"])
        assert (line.against is None) == (line.name == "none")
    reference = next(line for line in made.lines if line.name == "none")
    for line in made.lines[1:]:
        expected = line.metrics["accuracy"].value - reference.metrics["accuracy"].value
        assert line.against.difference == pytest.approx(expected)
        pairs = [other.group.against(line.group)["accuracy"] for other in made.lines if other is not line]
        assert (line.name in made.best) == (not any(pair.low > 0 for pair in pairs))


def test_a_record_holds_all_that_the_tables_say(finished: BenchmarkFolder, tmp_path: Path, table: Draw) -> None:
    file = tmp_path / "record.json"
    assert table(finished.path, "--json", file) == f"{file}\n"
    summary = Summary.read(file)
    assert summary == summarize(finished)
    assert {training.cell for training in summary.trainings} == set(names(finished))
    for kind in FORMATS:
        drawn = table(finished.path, "--format", kind)
        assert drawn == table(file, "--format", kind)
        assert MARKS.get(kind, "") in drawn
        assert "injector, shuffled" in drawn
    message = table(file, "--split", "validation", code=1)
    assert f"{file} is a record of test rows, --split asks for validation rows" in message


@pytest.mark.exhaustive
def test_any_setting_can_be_the_reference(finished: BenchmarkFolder, tmp_path: Path, table: Draw) -> None:
    (made,) = benchmark_tables(finished, reference="user alone")
    (usual,) = benchmark_tables(finished)
    reference = {line.name: line for line in made.lines}["user alone"]
    assert reference.against is None
    for line, same in zip(made.lines, usual.lines, strict=True):
        assert line.metrics == same.metrics
        if line is not reference:
            assert line.against == line.group.against(reference.group)["accuracy"]
    file, page, words = tmp_path / "record.json", tmp_path / "page.html", ["--reference", "user alone"]
    table(finished.path, *words, "--json", file)
    for place in (finished.path, file):
        assert "| user alone" in table(place, *words)
    assert main(["benchmark", "report", str(finished.path), *words, "--output", str(page)]) == 0
    assert "than user alone" in page.read_text()
    message = table(file, "--reference", "none", code=1)
    assert "is a record of differences to user alone, --reference asks for none" in message
    message = table(finished.path, "--reference", "user", code=1)
    assert "has no setting 'user': choose from none, injector," in message


def test_the_second_best_is_underlined_and_compared_with_the_best(finished: BenchmarkFolder, table: Draw) -> None:
    (made,) = benchmark_tables(finished)
    values = {line.name: line.metrics["accuracy"].value for line in made.lines}
    ordered = sorted(values.values(), reverse=True)
    first, second, pair = made.leaders
    assert (values[first], values[second]) == tuple(ordered[:2])
    assert pair.difference == pytest.approx(ordered[0] - ordered[1])
    for kind, mark in (("markdown", f"<u>{second}</u>"), ("latex", rf"\underline{{{second}}}")):
        drawn = table(finished.path, "--format", kind)
        assert drawn.count(mark) == 1
        assert f"The best figure is that of {first}; against the second best, {second}" in drawn
    assert "`" not in drawn, "marks of Markdown mean nothing in LaTeX"


@pytest.mark.parametrize(("low", "high", "shown"), [(0.1, 0.3, True), (-0.3, -0.1, True), (-0.1, 0.3, False)])
def test_it_is_said_whether_the_best_is_shown_to_differ(
    finished: BenchmarkFolder, low: float, high: float, shown: bool
) -> None:
    (table,) = benchmark_tables(finished)
    first, second, pair = table.leaders
    notes = notes_of(replace(table, leaders=(first, second, replace(pair, low=low, high=high))))
    (note,) = [line for line in notes if line.startswith("The best figure")]
    assert ("no difference shown" in note) != shown


def test_rows_that_differ_are_not_compared(copy: BenchmarkFolder) -> None:
    path = copy.path / "cells" / "reviews" / "linear" / "1" / "test_logits.safetensors"
    found = load_file(path)
    CheckedFiles(path.parent).write({path.name: save({**found, "rows": found["rows"][::-1].copy()})})
    with pytest.raises(ConfigError, match=r"reviews/linear/1 and reviews/none/1 were scored on different test rows"):
        benchmark_tables(copy)


@pytest.mark.parametrize("name", ["test_logits", "test_facts"])
@pytest.mark.parametrize(("content", "said"), [(None, "is missing"), (b"cut", "is damaged")])
def test_a_cell_without_its_files_is_named_with_the_cure(
    copy: BenchmarkFolder, name: str, content: bytes | None, said: str
) -> None:
    cell = copy.path / "cells" / "reviews" / "linear" / "1"
    (cell / f"{name}.safetensors").unlink()
    if content is not None:
        (cell / f"{name}.safetensors").write_bytes(content)
    with pytest.raises(ModelFolderError, match=rf"{name}\.safetensors {said}.*or delete .*linear/1 and train the cell"):
        benchmark_tables(copy)


def test_a_row_counts_once_for_each_of_its_values() -> None:
    """Also where a value stands twice in it; of several values the rarest counts."""
    train, test = np.array([[3, 3], [3, 1], [2, 0], [0, 0]]), np.array([[3, 1], [2, 0], [4, 0], [0, 0]])
    assert training_counts(train, test).tolist() == [1, 1, 0, 0]
    assert training_counts(train, np.array([[3, 3]])).tolist() == [2]


def test_training_counts_come_from_training_rows_alone(finished: BenchmarkFolder, experiment: dict[str, Any]) -> None:
    table = pd.read_csv(experiment["sets"][0]["data"]["train"], keep_default_na=False)
    for cell in finished.experiment().cells():
        if cell.factor is not None:
            continue
        result = CellResult(cell, finished.place(cell))
        recipe = Recipe.from_dict(yaml.safe_load((finished.place(cell) / "recipe.yaml").read_text()))
        parts = prepare(DataPlan.of(recipe)).splits
        train, test = table.iloc[parts["train"].rows], table.iloc[parts["test"].rows]
        facts, users = result.facts(), train["user"].value_counts()
        assert facts["count.user"].tolist() == [int(users.get(user, 0)) for user in test["user"]]
        if "count.tags" in facts:
            tags = Counter(tag for cell_ in train["tags"] for tag in set(cell_.split(";")) - {""})
            expected = [min([tags[tag] for tag in cell_.split(";") if tag] or [0]) for cell_ in test["tags"]]
            assert facts["count.tags"].tolist() == expected
        assert facts["words"].min() > 1


def test_an_interrupt_says_how_to_continue(
    experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    class Interrupted(finished_benchmarks.CellsHere):
        def wait(self) -> list[Outcome]:
            raise KeyboardInterrupt

        def close(self) -> None:
            closed.append(self)

    closed: list[Interrupted] = []
    monkeypatch.setattr(PROCESSES, Interrupted)
    messages = begin({**experiment, "settings": ["linear"]}, code=130)
    assert len(closed) == 1
    how = f"finished cells are kept: run the same command again to continue in {tmp_path / 'out'}"
    assert messages.rstrip().endswith(f"interrupted; {how}")


def test_a_failing_cell_stops_no_other(experiment: dict[str, Any], tmp_path: Path, begin: Begin) -> None:
    broken = {"name": "too large", "method": {"name": "injector", "hypercomplex": 5}}
    messages = begin({**experiment, "rates": None, "settings": [broken, "linear"]}, code=1)
    assert "reviews/too_large/0: failed: " in messages
    assert "2 cells are not done, the first being reviews/too_large/0" in messages
    assert names(BenchmarkFolder(tmp_path / "out")) == ["reviews/linear/0", "reviews/linear/1"]


def test_a_rate_without_an_end_is_not_taken(copy: BenchmarkFolder) -> None:
    def fail(trial: Cell) -> None:
        path = copy.place(trial) / "cell.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "failure": "the loss became infinite"}))

    trials = copy.experiment().trials(next(c for c in copy.experiment().cells() if c.path == "reviews/none/0"))
    best = best_factor(copy, trials, by="log_loss")
    fail(next(trial for trial in trials if trial.factor == best))
    assert best_factor(copy, trials, by="log_loss") != best
    for trial in trials:
        fail(trial)
    with pytest.raises(ConfigError, match="no trial of reviews, none gave a finite loss: lower the learning rate"):
        best_factor(copy, trials, by="log_loss")


@pytest.mark.exhaustive
def test_a_diverging_trial_is_a_result(experiment: dict[str, Any], tmp_path: Path, begin: Begin) -> None:
    sets = [{**experiment["sets"][0], "folds": [0]}]
    begin({**experiment, "sets": sets, "settings": ["none"], "rates": {"factors": [1.0, 1e30]}})
    folder = BenchmarkFolder(tmp_path / "out")
    found = {c.factor: CellResult(c, folder.place(c)).record for c in folder.experiment().cells()}
    assert re.search("loss became infinite|training diverged", found[1e30].failure or "")
    assert found[None].factor == 1.0


def test_a_folder_keeps_to_its_experiment(finished: BenchmarkFolder, experiment: dict[str, Any], begin: Begin) -> None:
    fewer = "may be added, but not changed or removed"
    for change, message in (
        ({"training": {**experiment["training"], "steps": 7}}, "was started with another experiment (training)"),
        ({"settings": experiment["settings"][:2]}, fewer),
        ({"sets": [{**experiment["sets"][0], "folds": [0]}]}, fewer),
    ):
        assert message in begin({**experiment, **change}, output=finished.path, code=1)
    assert finished.experiment() == Experiment.from_dict(experiment)


def test_the_report_is_one_page_that_says_no_more_than_its_intervals(
    copy: BenchmarkFolder, attribune: Callable[..., Any]
) -> None:
    code, out, _ = attribune("benchmark", "report", copy.path)
    assert code == 0
    page = Path(out.strip()).read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page), "nothing is loaded from elsewhere"
    assert page.count("<svg") == page.count("<figcaption") >= 3
    (table,) = benchmark_tables(copy)
    for line in table.lines:
        assert f'<th scope="row">{line.name}' in page
    shown = [line.name for line in table.lines if line.better and line.hidden is not None and line.name != "linear"]
    shown = [name for name in shown if "shuffled" not in name]
    assert f"Shown to be better than none: {len(shown) or 'no setting'}" in page
    assert benchmark_page(copy) == page, "the same results make the same page"


@pytest.mark.exhaustive
def test_a_table_of_ones_own(experiment: dict[str, Any], tmp_path: Path, begin: Begin) -> None:
    words = ["benchmark", "new", "--data", experiment["sets"][0]["data"]["train"], "--text", "text", "--label", "stars"]
    words += ["--attributes", "user", "--multi-label", "tags:;", "--seeds", "1", "--steps", "5"]
    assert main([*words, "--output", str(tmp_path / "mine.yaml")]) == 0
    made = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    own = {"backbone": experiment["backbone"], "data": {"max_length": 32}, "methods": experiment["methods"]}
    begin({**made, **own})
    page = benchmark_page(BenchmarkFolder(tmp_path / "out"))
    for question in ("Do the attributes help?", "Which attributes?", "With which method?", "At what cost"):
        assert question in page


def test_rows_that_were_changed_in_between_are_refused(
    copy: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path, attribune: Callable[..., Any]
) -> None:
    table = Path(shutil.copy(experiment["sets"][0]["data"]["train"], tmp_path / "train.csv"))
    experiment["sets"][0]["data"]["train"] = str(table)
    (copy.path / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    shutil.rmtree(copy.path / "cells" / "reviews" / "linear" / "1")
    with table.open("a") as file:
        file.write(table.read_text().splitlines()[-1] + "\n")
    code, _, err = attribune("benchmark", "run", "--output", copy.path)
    assert code == 1
    assert re.search(r"the data of reviews are not those that reviews/\S+ was trained on", err)
    assert not copy.is_done(next(c for c in copy.experiment().cells() if c.path == "reviews/linear/1"))


@pytest.mark.exhaustive
def test_attribute_parameters_of_other_labels_and_rows(
    experiment: dict[str, Any], tmp_path: Path, begin: Begin, table: Draw
) -> None:
    """Learned for `taste` and `smell` on two thirds of the rows, kept for `look` on the others."""
    rows = [{**row, "smell": row["look"]} for row in small_runs.reviews(160, seed=4)]
    cuts = {"train": rows[:100], "validation": rows[100:110], "test": rows[110:140]}
    files = {name: str(small_runs.write_csv(tmp_path / f"{name}.csv", cut)) for name, cut in cuts.items()}
    data = {**experiment["sets"][0]["data"], **files, "label": ["look", "taste", "smell"]}
    common = {"data": data, "task": {"kind": "aspects", "classes": ["1", "2", "3", "4"]}, "disjoint": True}
    moved = {
        **experiment,
        "sets": [
            {"name": "moved", **common, "labels": ["look"], "attributes_from": "source"},
            {"name": "look", **common, "labels": ["look"]},
            {"name": "source", **common, "labels": ["taste", "smell"]},
        ],
        "settings": ["injector", "none"],
        "rates": {"factors": [0.5, 1.0]},
    }
    folder = BenchmarkFolder(tmp_path / "out")
    begin(moved, "--sets", "moved")
    assert {name.split("/")[0] for name in names(folder)} == {"moved", "source"}, "with the set that it builds on"
    begin(moved)
    used = {
        name: json.loads((folder.path / f"cells/{name}/injector/0/metrics.json").read_text())
        for name in ("look", "source")
    }
    assert sum(one["rows"]["train"] for one in used.values()) == 100
    assert used["look"]["rows"]["train"] > 20
    assert used["source"]["rows"]["train"] > 1.4 * used["look"]["rows"]["train"]
    source = folder.path / "cells/source/injector/0/model"
    begun = {
        name: yaml.safe_load((folder.path / f"cells/moved/{name}/0/recipe.yaml").read_text())["transfer"]
        for name in ("injector", "none")
    }
    assert begun == {"injector": {"run": str(source), "frozen": True, "full_model": False}, "none": None}
    assert {path.parent for path in folder.path.rglob("cells/**/model")} == {
        source.parent, folder.path / "cells/source/none/0",
    }  # fmt: skip
    made = next(one for one in benchmark_tables(folder) if one.plan.name == "moved")
    line = next(line for line in made.lines if line.name == "injector")
    pair, here = line.moved
    assert pair.difference == pytest.approx(line.metrics["mean_accuracy"].value - here)
    assert f"{100 * pair.difference / here:+.1f} %" in table(folder.path)


def test_a_class_that_a_split_lacks_is_a_class_of_its_models_too(
    experiment: dict[str, Any], tmp_path: Path, begin: Begin
) -> None:
    rows = small_runs.reviews(80, seed=6)
    rows[0]["stars"] = rows[1]["stars"] = "never again"
    data = {**experiment["sets"][0]["data"], "train": str(small_runs.write_csv(tmp_path / "train.csv", rows))}
    begin({**experiment, "sets": [{"name": "rare", "data": data, "folds": [0, 1, 2]}], "settings": ["linear"]})
    (table,) = benchmark_tables(BenchmarkFolder(tmp_path / "out"))
    for line in table.lines:
        classes = [result.metrics.task["classes"] for result in line.group.results]
        assert classes == [["bad", "good", "never again"]] * 3


def rewrite(place: Path, logits: Any) -> None:
    """Give a trial other validation logits for the same rows."""
    path = place / "validation_logits.safetensors"
    arrays = load_file(path)
    found = logits(arrays["labels"], arrays["logits"].shape)
    CheckedFiles(place).write({path.name: save({**arrays, "logits": found.astype(np.float32)})})


def test_rates_and_choices_are_compared_by_the_main_metric_if_it_is_said(copy: BenchmarkFolder) -> None:
    """One is right more often and one has the lower log loss: certain of a wrong class in one row."""
    experiment = copy.experiment()
    first = next(cell for cell in experiment.cells() if cell.setting.name == "none" and cell.factor is None)
    slow, fast = sorted(experiment.trials(first), key=lambda trial: float(trial.factor or 1))

    def certain(labels: Any, shape: tuple[int, int]) -> Any:
        logits = 9.0 * np.eye(shape[1])[labels]
        logits[0] = 200.0 * np.eye(shape[1])[(labels[0] + 1) % shape[1]]
        return logits

    def hesitant(labels: Any, shape: tuple[int, int]) -> Any:
        logits = 2.0 * np.eye(shape[1])[labels]
        logits[: len(labels) // 2] = np.roll(0.01 * np.eye(shape[1])[labels[: len(labels) // 2]], 1, axis=1)
        return logits

    rewrite(copy.place(slow), hesitant)
    rewrite(copy.place(fast), certain)
    assert best_factor(copy, [slow, fast], by="log_loss") == slow.factor
    assert best_factor(copy, [slow, fast], by="main_metric") == fast.factor
    groups = {"hesitant": Group((CellResult(slow, copy.place(slow)),))}
    choice = Choice(name="the best", of=("hesitant", "certain"))
    assert _chosen(choice, groups, "main_metric") is None
    groups["certain"] = Group((CellResult(fast, copy.place(fast)),))
    assert _chosen(choice, groups, "log_loss") == "hesitant"
    assert _chosen(choice, groups, "main_metric") == "certain"


def test_a_choice_may_be_the_best_fold_alone(copy: BenchmarkFolder) -> None:
    """As of a paper that takes the best of its runs: of all settings and folds, the lowest on validation rows."""
    names = ("injector", "injector, shuffled")
    choice = Choice(name="the best", of=names, best_fold=True)
    copy.begin(copy.experiment().model_copy(update={"choices": (choice,)}))
    cells = [cell for cell in copy.experiment().cells() if cell.factor is None and cell.setting.name in names]
    first = min(cells, key=lambda cell: CellResult(cell, copy.place(cell)).validation_score("log_loss"))
    (table,) = benchmark_tables(copy)
    best = table.lines[-1]
    assert (best.name, best.chosen, best.folds) == ("the best", first.setting.name, (first.fold,))
    (alone,) = best.group.results
    assert best.rows == len(alone.scores("test")["labels"])
    found = alone.scores("test")
    accuracy = float((found["logits"].argmax(axis=1) == found["labels"]).mean())
    assert best.metrics["accuracy"].value == pytest.approx(accuracy)
