"""``attribune benchmark``: every cell once, whatever happens in between, and tables from the files alone."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pandas as pd
import pytest
import small_runs
import yaml
from safetensors.numpy import load_file, save_file

from attribune.apps.cli import main
from attribune.apps.report.benchmark_page import benchmark_page
from attribune.benchmark.experiment import Choice, Experiment
from attribune.benchmark.presets import experiment_names
from attribune.benchmark.rendering import FORMATS
from attribune.benchmark.results import BenchmarkFolder, CellResult, Group, best_factor
from attribune.benchmark.summary import Summary, readable_json, summarize
from attribune.benchmark.tables import _chosen, benchmark_tables, verdict
from attribune.errors import ConfigError, ModelFolderError
from attribune.metrics.bins import count_ranges
from attribune.metrics.bootstrap import PairedResult, interval
from attribune.metrics.formulas import accuracy, log_loss, macro_f1
from attribune.metrics.pooling import pooled
from attribune.runs.recipe import Recipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory, backbone: Path) -> dict[str, Any]:
    table = small_runs.write_csv(tmp_path_factory.mktemp("data") / "train.csv", small_runs.reviews(200, seed=3))
    data = {
        "train": str(table),
        "text": "text",
        "label": "stars",
        "attributes": [{"name": "user"}, {"kind": "multi_label", "name": "tags", "separator": ";"}],
        "max_length": 32,
    }
    return {
        "name": "tiny",
        "sets": [{"name": "reviews", "title": "Small reviews", "data": data, "folds": [0, 1]}],
        "settings": [
            "none",
            "injector",
            {"name": "injector, shuffled", "method": "injector", "data": {"shuffled": True}, "rates": "injector"},
            {"name": "user alone", "method": "injector", "attributes": ["user"], "rates": False},
            "linear",
        ],
        "methods": {"injector": {"bottleneck": 4, "vector_size": 4}},
        "backbone": {"name": str(backbone)},
        "training": {"steps": 6, "batch_size": 16, "evaluate_every": 3, "precision": "float32"},
        "rates": {"factors": [0.5, 4.0]},
    }


@pytest.fixture(scope="module")
def finished(experiment: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolder:
    root = tmp_path_factory.mktemp("benchmark")
    (root / "tiny.yaml").write_text(yaml.safe_dump(experiment))
    assert main(["benchmark", "run", str(root / "tiny.yaml"), "--output", str(root / "out")]) == 0
    return BenchmarkFolder(root / "out")


def names(folder: BenchmarkFolder) -> list[str]:
    return sorted(str(path.parent.relative_to(folder.path / "cells")) for path in folder.path.rglob("cell.json"))


def scores(folder: BenchmarkFolder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder.path)): path.read_bytes()
        for path in sorted((folder.path / "cells").rglob("*_logits.safetensors"))
    }


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
        assert record["seconds"] > 0
        assert record["environment"]["versions"]["torch"]
        assert len(record["data"]) == 64


def test_the_rate_of_the_lowest_validation_loss_is_taken(finished: BenchmarkFolder) -> None:
    experiment = finished.experiment()
    for name in ("none", "injector", "injector, shuffled"):
        first = next(cell for cell in experiment.cells() if cell.setting.name == name and cell.factor is None)
        trials = experiment.trials(first)
        assert len(trials) == 2
        losses = {}
        for trial in trials:
            found = load_file(finished.place(trial) / "validation_logits.safetensors")
            losses[trial.factor] = log_loss(found["labels"], found["logits"]).value()
        expected = min(losses, key=lambda factor: losses[factor])
        assert best_factor(finished, trials, by="log_loss") == expected
        for cell in experiment.cells():
            if cell.setting.name == name and cell.factor is None:
                record = CellResult(cell, finished.place(cell)).record
                assert record.factor == expected
                assert record.learning_rate == pytest.approx(5e-4 * expected)
                assert record.backbone_learning_rate == pytest.approx((5e-5 if name == "none" else 5e-4) * expected)
    alone = finished.place(next(c for c in experiment.cells() if c.setting.name == "user alone"))
    recipe = yaml.safe_load((alone / "recipe.yaml").read_text())
    assert [attribute["name"] for attribute in recipe["data"]["attributes"]] == ["user"]
    assert recipe["training"]["learning_rate"] == 5e-4


def test_rates_of_each_fold_are_tried_on_it_alone(experiment: dict[str, Any]) -> None:
    each = Experiment.from_dict({**experiment, "rates": {"factors": [0.5, 4.0], "fold": "each"}})
    cells = list(each.cells())
    assert len({cell.path for cell in cells}) == len(cells)
    for cell in cells:
        trials = each.trials(cell)
        assert all(trial.fold == cell.fold for trial in trials)
        assert {trial.path for trial in trials} <= {other.path for other in cells}
        assert len(trials) == (2 if cell.factor is None and cell.setting.name not in ("user alone", "linear") else 0)
    assert sum(cell.factor is not None for cell in cells) == 8


def test_a_set_changes_the_training_and_a_setting_goes_before_it(experiment: dict[str, Any]) -> None:
    (plan,) = experiment["sets"]
    settings = ["none", {"name": "short", "method": "none", "training": {"steps": 3}}]
    own = {**plan, "name": "own", "training": {"steps": 7, "batch_size": 4}}
    made = Experiment.from_dict({**experiment, "sets": [plan, own], "settings": settings, "rates": None})
    assert Experiment.from_dict(yaml.safe_load(made.to_yaml())) == made
    trainings = {
        (cell.set.name, cell.setting.name): made.recipe(cell, data={}, task={})["training"] for cell in made.cells()
    }
    usual = trainings[plan["name"], "none"]
    assert usual["seed"] == 1
    assert trainings["own", "none"] == {**usual, "steps": 7, "batch_size": 4}
    assert trainings["own", "short"] == {**usual, "steps": 3, "batch_size": 4}


def test_a_setting_changes_the_task(experiment: dict[str, Any], tmp_path: Path) -> None:
    """Tasks with the same labels and metrics are compared on the same rows."""
    (plan,) = experiment["sets"]
    data = {**plan["data"], "label": "points"}
    rows = [{**row, "points": 1 + number % 3} for number, row in enumerate(small_runs.reviews(120, seed=4))]
    data["train"] = str(small_runs.write_csv(tmp_path / "points.csv", rows))
    task = {"kind": "rating", "expected": True, "score_by": ["rmse", "kappa"]}
    made = Experiment.from_dict(
        {
            **experiment,
            "sets": [{**plan, "data": data, "task": task, "folds": [0]}],
            "settings": ["injector", {"name": "ordinal", "method": "injector", "task": {"kind": "ordinal"}}],
            "rates": None,
        }
    )
    assert [made.recipe(cell, data={}, task=task)["task"]["kind"] for cell in made.cells()] == ["rating", "ordinal"]
    (tmp_path / "points.yaml").write_text(made.to_yaml())
    assert main(["benchmark", "run", str(tmp_path / "points.yaml"), "--output", str(tmp_path / "out")]) == 0
    (table,) = benchmark_tables(BenchmarkFolder(tmp_path / "out"))
    rating, ordinal = table.lines
    assert table.metric == "rmse"
    assert list(rating.metrics)[:2] == list(ordinal.metrics)[:2] == ["rmse", "kappa"]
    assert ordinal.loss is not None
    assert ordinal.loss.difference == pytest.approx(
        ordinal.metrics["log_loss"].value - rating.metrics["log_loss"].value
    )


def test_a_second_run_does_nothing(finished: BenchmarkFolder, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished.path / "cells").rglob("*")}
    assert main(["benchmark", "run", "--output", str(finished.path)]) == 0
    assert {path: path.stat().st_mtime_ns for path in (finished.path / "cells").rglob("*")} == before
    assert "14 of 14 cells done" in capsys.readouterr().err
    assert main(["benchmark", "status", str(finished.path)]) == 0
    assert capsys.readouterr().out == "14 of 14 cells done\n"


@browser.needs_browser
def test_the_page_in_a_browser(finished: BenchmarkFolder, tmp_path: Path) -> None:
    assert main(["benchmark", "report", str(finished.path), "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


def test_tables_need_no_torch(finished: BenchmarkFolder) -> None:
    code = (
        "import sys\nfrom attribune.apps.cli import main\n"
        f"assert main(['benchmark', 'table', {str(finished.path)!r}, '--format', sys.argv[1]]) == 0\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    for kind, mark in (("markdown", "### Small reviews"), ("latex", r"\begin{tabular}"), ("html", "<table>")):
        done = subprocess.run([sys.executable, "-c", code, kind], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert mark in done.stdout
        assert "injector, shuffled" in done.stdout


def test_figures_of_a_table_are_those_of_the_pooled_rows(
    finished: BenchmarkFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = benchmark_tables(finished)
    assert [line.name for line in table.lines] == ["none", "injector", "injector, shuffled", "user alone", "linear"]
    assert main(["benchmark", "table", str(finished.path), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for line in table.lines:
        cells = [finished.path / "cells" / "reviews" / line.name.replace(", ", "_").replace(" ", "_") / f for f in "01"]
        found = [load_file(cell / "test_logits.safetensors") for cell in cells]
        hits = np.concatenate([one["labels"] == one["logits"].argmax(axis=1) for one in found])
        assert line.metrics["accuracy"].value == pytest.approx(hits.mean())
        written = next(row for row in rows if (row["setting"], row["metric"]) == (line.name, "accuracy"))
        assert float(written["value"]) == pytest.approx(hits.mean())
        assert float(written["low"]) <= hits.mean() <= float(written["high"])
        assert (line.against is None) == (line.name == "none")
    reference = next(line for line in table.lines if line.name == "none")
    for line in table.lines[1:]:
        expected = line.metrics["accuracy"].value - reference.metrics["accuracy"].value
        assert line.against is not None
        assert line.against.difference == pytest.approx(expected)
        pairs = [other.group.against(line.group)["accuracy"] for other in table.lines if other is not line]
        assert (line.name in table.best) == (not any(pair.low > 0 for pair in pairs))


def test_a_record_holds_all_that_the_tables_say(
    finished: BenchmarkFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.json"
    assert main(["benchmark", "table", str(finished.path), "--json", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    summary = Summary.read(file)
    assert summary == summarize(finished)
    assert {training.cell for training in summary.trainings} == set(names(finished))
    for kind in FORMATS:
        drawn = []
        for place in (finished.path, file):
            assert main(["benchmark", "table", str(place), "--format", kind]) == 0
            drawn.append(capsys.readouterr().out)
        assert drawn[0] == drawn[1]
    assert main(["benchmark", "table", str(file), "--split", "validation"]) == 1
    assert f"{file} is a record of test rows, --split asks for validation rows" in capsys.readouterr().err


def test_any_setting_can_be_the_reference(
    finished: BenchmarkFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = benchmark_tables(finished, reference="user alone")
    (usual,) = benchmark_tables(finished)
    reference = {line.name: line for line in table.lines}["user alone"]
    assert reference.against is None
    for line, same in zip(table.lines, usual.lines, strict=True):
        assert line.metrics == same.metrics
        if line is not reference:
            assert line.against == line.group.against(reference.group)["accuracy"]
    file, words = tmp_path / "record.json", ["--reference", "user alone"]
    assert main(["benchmark", "table", str(finished.path), *words, "--json", str(file)]) == 0
    for place in (finished.path, file):
        assert main(["benchmark", "table", str(place), *words]) == 0
        assert "| user alone" in capsys.readouterr().out
    assert main(["benchmark", "report", str(finished.path), *words, "--output", str(tmp_path / "page.html")]) == 0
    assert "than user alone" in (tmp_path / "page.html").read_text()
    assert main(["benchmark", "table", str(file), "--reference", "none"]) == 1
    assert "is a record of differences to user alone, --reference asks for none" in capsys.readouterr().err
    assert main(["benchmark", "table", str(finished.path), "--reference", "user"]) == 1
    assert "has no setting 'user': choose from none, injector," in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not the record of a benchmark"),
        ("[]", "has 1 error"),
        ('{"part": "test", "rows": 3}', "rows: there is no such setting"),
    ],
)
def test_another_file_is_no_record(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "record.json"
    file.write_text(text)
    assert main(["benchmark", "table", str(file)]) == 1
    err = capsys.readouterr().err
    assert str(file) in err
    assert message in err


def test_json_with_a_line_for_what_fits() -> None:
    tree = {"a": [1, 2.5, None], "b": {"c": "ä" * 119, "d": [float(number) for number in range(40)]}, "e": {}}
    text = readable_json(tree)
    assert json.loads(text) == tree
    assert ' "a": [1, 2.5, null],' in text.splitlines()


def test_the_second_best_is_underlined_and_compared_with_the_best(
    finished: BenchmarkFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = benchmark_tables(finished)
    values = {line.name: line.metrics["accuracy"].value for line in table.lines}
    ordered = sorted(values.values(), reverse=True)
    assert table.leaders is not None
    first, second, pair = table.leaders
    assert (values[first], values[second]) == tuple(ordered[:2])
    assert pair.difference == pytest.approx(ordered[0] - ordered[1])
    for kind, mark in (("markdown", f"<u>{second}</u>"), ("latex", rf"\underline{{{second}}}")):
        assert main(["benchmark", "table", str(finished.path), "--format", kind]) == 0
        drawn = capsys.readouterr().out
        assert drawn.count(mark) == 1
        assert f"The best figure is that of {first}; against the second best, {second}" in drawn
    assert "`" not in drawn, "marks of Markdown mean nothing in LaTeX"


def test_rows_that_differ_are_not_compared(finished: BenchmarkFolder, tmp_path: Path) -> None:
    folder = BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))
    path = folder.path / "cells" / "reviews" / "linear" / "1" / "test_logits.safetensors"
    found = load_file(path)
    save_file({**found, "rows": found["rows"][::-1].copy()}, path)
    with pytest.raises(ConfigError, match=r"reviews/linear/1 and reviews/none/1 were scored on different test rows"):
        benchmark_tables(folder)


@pytest.mark.parametrize("name", ["test_logits", "test_facts"])
@pytest.mark.parametrize(("content", "said"), [(None, "is missing"), (b"cut", "is damaged")])
def test_a_cell_without_its_files_is_named_with_the_cure(
    finished: BenchmarkFolder, tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    folder = BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))
    cell = folder.path / "cells" / "reviews" / "linear" / "1"
    (cell / f"{name}.safetensors").unlink()
    if content is not None:
        (cell / f"{name}.safetensors").write_bytes(content)
    with pytest.raises(ModelFolderError, match=rf"{name}\.safetensors {said}.*or delete .*linear/1 and train the cell"):
        benchmark_tables(folder)


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


@pytest.mark.parametrize("workers", [2])
def test_processes_share_the_cells(
    finished: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path, workers: int
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(experiment))
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "out")]
    assert main([*words, "--workers", str(workers)]) == 0
    folder = BenchmarkFolder(tmp_path / "out")
    assert names(folder) == names(finished)
    assert scores(folder) == scores(finished)


RAY = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(not RAY, reason="Ray is not installed: pip install 'attribune[ray]'")
def test_a_cluster_of_two_workers_one_of_which_is_killed(
    finished: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path
) -> None:
    """In a process of its own, since Ray leaves threads and warnings behind."""
    alone = next(entry for entry in experiment["settings"] if isinstance(entry, dict) and entry["name"] == "user alone")
    (tmp_path / "tiny.yaml").write_text(
        yaml.safe_dump({**experiment, "settings": [alone, "linear"], "reference": "linear"})
    )
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(folder.path)]
    command = [sys.executable, "-m", "attribune", *words, "--engine", "ray", "--workers", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    killed, deadline = 0, time.monotonic() + 240
    while running.poll() is None and not killed and time.monotonic() < deadline:
        if list(folder.path.glob("work/*/*/*/recipe.yaml")):
            killed = kill_a_worker(folder)
        time.sleep(0.05)
    _, messages = running.communicate(timeout=300)
    assert running.returncode == 0, messages
    assert killed, "no worker was met at its work"
    assert len(names(folder)) == 4
    assert scores(folder).items() <= scores(finished).items()
    told = [line.split(": ")[0] for line in messages.splitlines() if ": done" in line]
    assert sorted(told) == names(folder), "each cell is done once"


def kill_a_worker(folder: BenchmarkFolder) -> int:
    """Kill a process that holds the lock of a cell; returns its number, 0 for none."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            held = [os.readlink(link) for link in (process / "fd").iterdir()]
            if any(name.startswith(str(folder.path)) and name.endswith(".lock") for name in held):
                os.kill(int(process.name), signal.SIGKILL)
                return int(process.name)
    return 0


def test_a_failing_cell_stops_no_other(experiment: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    broken = {
        **experiment,
        "rates": None,
        "settings": [{"name": "too large", "method": {"name": "injector", "hypercomplex": 5}}, "linear"],
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(broken))
    assert main(["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "out")]) == 1
    messages = capsys.readouterr().err
    assert "reviews/too_large/0: failed: " in messages
    assert "2 cells are not done, the first being reviews/too_large/0" in messages
    assert names(BenchmarkFolder(tmp_path / "out")) == ["reviews/linear/0", "reviews/linear/1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sets": []}, "sets: .*at least 1 item"),
        ({"settings": ["none", "none"]}, "'none' is named twice"),
        ({"reference": "injectr"}, "there is no setting 'injectr': choose one of none, injector"),
        ({"stepz": 3}, "stepz: there is no such setting"),
        ({"sets": [{"name": "x"}]}, "the set 'x' needs either prepared"),
        ({"sets": [{"name": "x", "prepared": "nowhere"}]}, "nowhere holds no prepared data set"),
        ({"settings": ["injectr"]}, "unknown method 'injectr'"),
        (
            {"sets": [{"name": "x", "data": {"train": "no.csv", "text": "t", "label": "l"}}]},
            r"no\.csv, the train rows of the set 'x', does not exist",
        ),
        (
            {"settings": [{"method": "injector", "attributes": ["colour"]}]},
            "names the attribute 'colour', which reviews",
        ),
        ({"training": {"steps": 0}}, "training.steps"),
        ({"settings": [{"name": "x", "method": {"bottleneck": 3}}]}, "the method .* has no name"),
        ({"rates": {"factors": [1, 1]}}, "name each once, above 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    experiment: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    message: str,
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**experiment, **change}))
    assert main(["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_as_it_is(
    experiment: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(experiment))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    assert main(["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "home")]) == 1
    assert (
        "home is not empty and holds no benchmark (thesis.txt): choose another output folder" in capsys.readouterr().err
    )
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_a_rate_without_an_end_is_not_taken(finished: BenchmarkFolder, tmp_path: Path) -> None:
    folder = BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))
    trials = folder.experiment().trials(next(c for c in folder.experiment().cells() if c.path == "reviews/none/0"))
    best = best_factor(folder, trials, by="log_loss")
    for trial in trials:
        record = json.loads((folder.place(trial) / "cell.json").read_text())
        if trial.factor == best:
            (folder.place(trial) / "cell.json").write_text(
                json.dumps({**record, "failure": "the loss became infinite"})
            )
    assert best_factor(folder, trials, by="log_loss") != best
    for trial in trials:
        record = json.loads((folder.place(trial) / "cell.json").read_text())
        (folder.place(trial) / "cell.json").write_text(json.dumps({**record, "failure": "the loss became infinite"}))
    with pytest.raises(ConfigError, match="no trial of reviews, none gave a finite loss: lower the learning rate"):
        best_factor(folder, trials, by="log_loss")


def test_a_diverging_trial_is_a_result(experiment: dict[str, Any], tmp_path: Path) -> None:
    wild = {**experiment, "settings": ["none"], "rates": {"factors": [1.0, 1e30]}}
    (tmp_path / "wild.yaml").write_text(yaml.safe_dump(wild))
    folder = BenchmarkFolder(tmp_path / "out")
    assert main(["benchmark", "run", str(tmp_path / "wild.yaml"), "--output", str(folder.path)]) == 0
    found = {c.factor: CellResult(c, folder.place(c)).record for c in folder.experiment().cells()}
    assert re.search("loss became infinite|training diverged", found[1e30].failure or "")
    assert found[None].factor == 1.0


def test_a_folder_keeps_to_its_experiment(
    finished: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**experiment, "training": {**experiment["training"], "steps": 7}}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    assert main(["benchmark", "run", str(tmp_path / "other.yaml"), "--output", str(finished.path)]) == 1
    assert "was started with another experiment (training)" in capsys.readouterr().err
    for change in ({"settings": experiment["settings"][:2]}, {"sets": [{**experiment["sets"][0], "folds": [0]}]}):
        (tmp_path / "less.yaml").write_text(yaml.safe_dump({**experiment, **change}))
        assert main(["benchmark", "run", str(tmp_path / "less.yaml"), "--output", str(finished.path)]) == 1
        assert "may be added, but not changed or removed" in capsys.readouterr().err
    assert finished.experiment() == Experiment.from_dict(experiment)


def test_the_experiments_of_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "run", "--preset", "mian", "--output", str(tmp_path / "o")]) == 1
    known = ", ".join(experiment_names())
    assert f"unknown experiment 'mian': choose one of {known}, or give a file" in capsys.readouterr().err
    assert {"main", "small", "glue", "tradeoff"} <= set(experiment_names())
    assert main(["benchmark", "run", "--preset", "main", "--output", str(tmp_path / "o"), "--sets", "polmedd"]) == 1
    assert "has no set 'polmedd': choose from yelp-2013" in capsys.readouterr().err
    assert main(["benchmark", "table", str(tmp_path)]) == 1
    assert "is not the folder of a benchmark" in capsys.readouterr().err


def test_the_report_is_one_page_that_says_no_more_than_its_intervals(
    finished: BenchmarkFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", "report", str(finished.path)]) == 0
    path = Path(capsys.readouterr().out.strip())
    page = path.read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page), "nothing is loaded from elsewhere"
    assert page.count("<svg") == page.count("<figcaption") >= 3
    (table,) = benchmark_tables(finished)
    for line in table.lines:
        assert f'<th scope="row">{line.name}' in page
    shown = [line.name for line in table.lines if line.better and line.hidden is not None and line.name != "linear"]
    shown = [name for name in shown if "shuffled" not in name]
    assert f"Shown to be better than none: {len(shown) or 'no setting'}" in page
    again = benchmark_page(finished)
    assert again == page, "the same results make the same page"


def test_the_report_without_torch_and_with_cells_missing(finished: BenchmarkFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    shutil.rmtree(copy / "cells" / "reviews" / "none")
    code = (
        "import sys\nfrom attribune.apps.cli import main\n"
        f"assert main(['benchmark', 'report', {str(copy)!r}]) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "Not run yet: none." in (copy / "report.html").read_text()


def test_a_table_of_ones_own(experiment: dict[str, Any], backbone: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["benchmark", "new", "--data", experiment["sets"][0]["data"]["train"], "--text", "text", "--label", "stars"]
    words += ["--attributes", "user", "--multi-label", "tags:;", "--seeds", "1", "--steps", "5"]
    assert main([*words, "--output", str(tmp_path / "mine.yaml")]) == 0
    assert f"attribune benchmark run {tmp_path / 'mine.yaml'}" in capsys.readouterr().err
    made = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    made["backbone"] = {"name": str(backbone)}
    made["data"] = {"max_length": 32}
    made["methods"] = {"injector": {"bottleneck": 4, "vector_size": 4}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(made))
    assert main(["benchmark", "run", str(tmp_path / "mine.yaml"), "--output", str(tmp_path / "out")]) == 0
    page = benchmark_page(BenchmarkFolder(tmp_path / "out"))
    for question in (
        "Do the attributes help?",
        "Which attributes?",
        "With which method?",
        "At what cost",
    ):
        assert question in page
    assert main([*words, "--output", str(tmp_path / "mine.yaml")]) == 1
    assert "already exists" in capsys.readouterr().err


def test_bins_hold_all_rows_and_never_look_at_labels() -> None:
    chance = np.random.default_rng(0)
    for counts in (chance.zipf(1.5, 2000) - 1, np.zeros(50, int), np.arange(300), np.repeat([0, 5], [3, 400])):
        ranges = count_ranges(counts)
        held = [int(((counts >= low) & (counts <= high)).sum()) for low, high in ranges]
        assert sum(held) == len(counts)
        assert all(low <= high for low, high in ranges)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(ranges))
        assert len(ranges) <= 12
        assert len(held) == 1 or min(held[1:]) >= 1
    zero = count_ranges(np.repeat([0, 1, 2, 3], [40, 30, 200, 200]))
    assert zero[0] == (0, 0), "values that were never trained on have a bin of their own"


@pytest.mark.parametrize(("low", "high", "shown"), [(0.1, 0.3, 1), (-0.3, -0.1, -1), (-0.1, 0.1, 0)])
def test_a_lower_error_is_better(low: float, high: float, shown: int) -> None:
    pair = PairedResult(difference=(low + high) / 2, low=low, high=high, p_value=0.5, level=0.95, resamples=10)
    assert verdict(pair, higher_is_better=True) == shown
    assert verdict(pair, higher_is_better=False) == -shown


def test_other_seeds_on_the_same_rows_make_no_interval_narrower() -> None:
    chance = np.random.default_rng(0)
    true, predicted = chance.integers(0, 3, 90), chance.integers(0, 3, 90)
    for metric in (accuracy(true, predicted), macro_f1(true, predicted, classes=3)):
        rows = np.arange(90)
        once, five = interval(metric), interval(pooled([metric] * 5, [rows] * 5))
        assert five.value == pytest.approx(once.value)
        assert (five.low, five.high) == pytest.approx((once.low, once.high), abs=0.02)
        apart = interval(pooled([metric] * 5, [rows + 90 * seed for seed in range(5)]))
        assert apart.high - apart.low < 0.6 * (once.high - once.low)


def test_rows_that_were_changed_in_between_are_refused(
    finished: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))
    table = Path(shutil.copy(experiment["sets"][0]["data"]["train"], tmp_path / "train.csv"))
    changed = json.loads(json.dumps(experiment))
    changed["sets"][0]["data"]["train"] = str(table)
    (copy.path / "experiment.yaml").write_text(yaml.safe_dump(changed))
    shutil.rmtree(copy.path / "cells" / "reviews" / "linear" / "1")
    with table.open("a") as file:
        file.write(table.read_text().splitlines()[-1] + "\n")
    assert main(["benchmark", "run", "--output", str(copy.path)]) == 1
    assert re.search(r"the data of reviews are not those that reviews/\S+ was trained on", capsys.readouterr().err)
    assert not copy.is_done(next(c for c in copy.experiment().cells() if c.path == "reviews/linear/1"))


def test_a_killed_cell_is_named_with_the_likely_cause(experiment: dict[str, Any], tmp_path: Path) -> None:
    one = {
        **experiment,
        "rates": None,
        "settings": ["injector"],
        "training": {**experiment["training"], "steps": 4000, "patience": 4000},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(one))
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(folder.path)]
    running = small_runs.Command(words, log=tmp_path / "log.txt")
    for _ in range(2):
        killed, deadline = 0, time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            if list(folder.path.glob("work/*/*/*/recipe.yaml")):
                killed = kill_a_worker(folder)
            time.sleep(0.05)
        assert killed, "no process was met at its work"
    assert running.wait() == 1
    messages = (tmp_path / "log.txt").read_text()
    assert "reviews/injector/0: failed: its process was killed, as the system does when memory runs out" in messages
    assert "2 cells are not done, the first being reviews/injector/0" in messages
    assert "resource_tracker" not in messages


def _heed_interrupts() -> None:
    """A command that a shell runs in the background ignores them, and so does what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_stops_every_process(experiment: dict[str, Any], tmp_path: Path) -> None:
    long = {**experiment, "rates": None, "training": {**experiment["training"], "steps": 4000, "patience": 4000}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(long))
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(folder.path), "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "attribune", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heed_interrupts,
    )
    deadline = time.monotonic() + 120
    while len(list(folder.path.glob("work/*/*/*/log.jsonl"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, messages = running.communicate(timeout=60)
    assert running.returncode == 130
    assert messages.rstrip().endswith(
        f"interrupted; finished cells are kept: run the same command again to continue in {folder.path}"
    )
    assert "Traceback" not in messages
    assert not kill_a_worker(folder), "no process is left at work"


def test_attribute_parameters_of_other_labels_and_rows(
    experiment: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Learned for `taste` and `smell` on two thirds of the rows, kept for `look` on the others."""
    rows = [{**row, "smell": row["look"]} for row in small_runs.reviews(160, seed=4)]
    cuts = {"train": rows[:100], "validation": rows[100:130], "test": rows[130:]}
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
    (tmp_path / "moved.yaml").write_text(yaml.safe_dump(moved))
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "moved.yaml"), "--output", str(folder.path)]
    assert main([*words, "--sets", "moved"]) == 0
    assert {name.split("/")[0] for name in names(folder)} == {"moved", "source"}, "with the set that it builds on"
    assert main(words) == 0
    capsys.readouterr()
    used = {
        name: json.loads((folder.path / f"cells/{name}/injector/0/metrics.json").read_text())
        for name in ("look", "source")
    }
    assert sum(one["rows"]["train"] for one in used.values()) == 100
    assert used["look"]["rows"]["train"] > 20
    assert used["source"]["rows"]["train"] > 1.4 * used["look"]["rows"]["train"]
    source = folder.path / "cells/source/injector/0/model"
    recipe = yaml.safe_load((folder.path / "cells/moved/injector/0/recipe.yaml").read_text())
    assert recipe["transfer"] == {"run": str(source), "frozen": True, "full_model": False}
    assert yaml.safe_load((folder.path / "cells/moved/none/0/recipe.yaml").read_text())["transfer"] is None
    assert [path.parent for path in folder.path.rglob("cells/**/model") if path.parent != source.parent] == [
        folder.path / "cells/source/none/0"
    ]
    table = next(table for table in benchmark_tables(folder) if table.plan.name == "moved")
    line = next(line for line in table.lines if line.name == "injector")
    assert line.moved is not None
    pair, here = line.moved
    assert pair.difference == pytest.approx(line.metrics["mean_accuracy"].value - here)
    assert main(["benchmark", "table", str(folder.path)]) == 0
    assert f"{100 * pair.difference / here:+.1f} %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes_from": "nothing"}, "takes its attributes from 'nothing': name a set"),
        ({"attributes_from": "reviews", "folds": [0, 5]}, "the set 'reviews' has no fold 5"),
        ({"labels": ["taste"]}, "second has no label 'taste': choose from stars"),
    ],
)
def test_sets_that_do_not_build_on_each_other(
    experiment: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], message: str
) -> None:
    second = {**experiment["sets"][0], "name": "second", **change}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**experiment, "sets": [experiment["sets"][0], second]}))
    assert main(["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err


def test_a_class_that_a_split_lacks_is_a_class_of_its_models_too(experiment: dict[str, Any], tmp_path: Path) -> None:
    rows = small_runs.reviews(80, seed=6)
    rows[0]["stars"] = rows[1]["stars"] = "never again"
    data = {**experiment["sets"][0]["data"], "train": str(small_runs.write_csv(tmp_path / "train.csv", rows))}
    rare = {
        **experiment,
        "sets": [{"name": "rare", "data": data, "folds": [0, 1, 2]}],
        "settings": ["linear", {"name": "linear, text alone", "method": "linear", "attributes": []}],
        "reference": "linear",
    }
    (tmp_path / "rare.yaml").write_text(yaml.safe_dump(rare))
    folder = BenchmarkFolder(tmp_path / "out")
    assert main(["benchmark", "run", str(tmp_path / "rare.yaml"), "--output", str(folder.path)]) == 0
    (table,) = benchmark_tables(folder)
    for line in table.lines:
        classes = [result.metrics.task["classes"] for result in line.group.results]
        assert classes == [["bad", "good", "never again"]] * 3


def rewrite(place: Path, logits: Any) -> None:
    """Give a trial other validation logits for the same rows."""
    path = place / "validation_logits.safetensors"
    arrays = load_file(path)
    found = logits(arrays["labels"], arrays["logits"].shape)
    save_file({**arrays, "logits": found.astype(np.float32)}, path)


def test_rates_and_choices_are_compared_by_the_main_metric_if_it_is_said(
    finished: BenchmarkFolder, tmp_path: Path
) -> None:
    """One is right more often and one has the lower log loss: certain of a wrong class in one row."""
    folder = BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "out")))
    experiment = folder.experiment()
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

    rewrite(folder.place(slow), hesitant)
    rewrite(folder.place(fast), certain)
    assert best_factor(folder, [slow, fast], by="log_loss") == slow.factor
    assert best_factor(folder, [slow, fast], by="main_metric") == fast.factor
    groups = {"hesitant": Group((CellResult(slow, folder.place(slow)),))}
    choice = Choice(name="the best", of=("hesitant", "certain"))
    assert _chosen(choice, groups, "main_metric") is None
    groups["certain"] = Group((CellResult(fast, folder.place(fast)),))
    assert _chosen(choice, groups, "log_loss") == "hesitant"
    assert _chosen(choice, groups, "main_metric") == "certain"
