"""Trackers: told of the whole training through the callbacks of transformers, refused in time, no danger to a run."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
from trained_runs import ROWS, TrainedRuns
from transformers.integrations import INTEGRATION_TO_CALLBACK

from attribune import Recipe
from attribune.apps.cli import main
from attribune.errors import ConfigError
from attribune.training.callbacks import Tracker, check_trackers, run_name

# The writer of TensorBoard that transformers takes where the package tensorboard is missing; it writes what it is told.
WRITER = """
import json, os
class SummaryWriter:
    def __init__(self, log_dir):
        os.makedirs(log_dir, exist_ok=True)
        self.file = os.path.join(log_dir, "told.jsonl")
    def tell(self, **item):
        with open(self.file, "a") as file:
            file.write(json.dumps(item) + "\\n")
    def add_text(self, name, text, step=None):
        self.tell(text=name, value=text)
    def add_scalar(self, name, value, step):
        self.tell(scalar=name, value=value, step=step)
    def flush(self):
        pass
    def close(self):
        self.tell(closed=True)
"""
# A tracker that cannot reach its server.
UNREACHABLE = """
__version__ = "1.0"
def init(**settings):
    raise ConnectionError("no route to host,\\nproject " + settings["project"])
"""


@pytest.fixture
def words(tmp_path: Path, trained_runs: TrainedRuns, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A training, with the fakes where they are imported."""
    for name in ("tensorboardX", "trackio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "tensorboardX.py").write_text(WRITER)
    (tmp_path / "fakes" / "trackio.py").write_text(UNREACHABLE)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # whether tensorboard is installed or not
    monkeypatch.syspath_prepend(str(tmp_path / "fakes"))
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    yield small_runs.train_command(trained_runs.table(ROWS), tmp_path / "run", backbone=trained_runs.backbone())
    for name in ("tensorboardX", "trackio"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_tensorboard_is_told_of_losses_metrics_and_settings(words: list[str], tmp_path: Path) -> None:
    assert main([*words, "--report-to", "tensorboard", "--compare", "none", "--no-baselines"]) == 0
    for run, name in ((tmp_path / "run", "run"), (tmp_path / "run" / "compare" / "none", "run/compare/none")):
        told = [json.loads(line) for line in (run / "tensorboard" / "told.jsonl").read_text().splitlines()]
        scalars = {item["scalar"]: item["value"] for item in told if "scalar" in item}
        log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        assert scalars["eval/accuracy"] == next(entry["eval_accuracy"] for entry in log if "eval_accuracy" in entry)
        assert scalars["train/loss"] == next(entry["loss"] for entry in log if "loss" in entry)
        assert told[-1] == {"closed": True}
        texts = {item["text"]: item["value"] for item in told if "text" in item}
        assert json.loads(texts["args"])["run_name"] == name
        assert "injector" in texts["model_config"] or run.name == "none"
    recipe = (tmp_path / "run" / "recipe.yaml").read_text()
    assert "report_to:\n  - tensorboard\n" in recipe


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "unknown tracker 'none': choose from azure_ml, clearml, "),
        ("wandb", "the tracker 'wandb' cannot be used here: pip install wandb, or leave"),
        ("mlflow", "the tracker 'mlflow' cannot be used here: pip install mlflow, or leave"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, message: str) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed here")
    data = {"train": "no.csv", "text": "text", "label": "stars", "attributes": [{"name": "user"}]}
    recipe = Recipe.from_dict({"data": data, "training": {"report_to": name}})
    with pytest.raises(ConfigError, match=message):
        check_trackers(recipe.training.report_to)


def test_a_package_that_breaks_is_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fakes" / "trackio.py").write_text("raise RuntimeError('built for another Python')")
    assert main([*words, "--report-to", "trackio"]) == 1
    assert "'trackio' cannot be used here (built for another Python)" in capsys.readouterr().err


def test_it_is_refused_before_the_data_are_read(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "data.train=no-such-file.csv", "--report-to", "all"]) == 1
    assert "unknown tracker 'all'" in capsys.readouterr().err


def test_a_baseline_has_no_steps(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words[: words.index("--set")], "--method", "linear", "--report-to", "tensorboard"]) == 1
    assert "the method 'linear' has no training steps to report to tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_tracker_that_cannot_begin_stops_the_training(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--report-to", "trackio"]) == 1
    err = capsys.readouterr().err
    assert "error: the tracker 'trackio' cannot start (no route to host, project " in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::attribune.AttribuneWarning")
def test_a_tracker_that_fails_later_is_left_behind_and_goes_where_its_variable_says(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    calls: list[str] = []

    def fail(*_: Any, **__: Any) -> None:
        calls.append("on_log")
        raise OSError("connection reset")

    monkeypatch.setattr(INTEGRATION_TO_CALLBACK["tensorboard"], "on_log", fail)
    assert main([*words, "--report-to", "tensorboard", "--no-baselines"]) == 0
    err = capsys.readouterr().err
    assert re.search(r"^warning: the tracker 'tensorboard' failed at step \d+ \(connection reset\)", err, re.MULTILINE)
    assert calls == ["on_log"]
    assert (tmp_path / "run" / "metrics.json").is_file()
    assert (tmp_path / "board" / "told.jsonl").is_file()
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_every_event_is_passed_on() -> None:
    told: dict[str, str] = {}

    class Listener:
        def __getattr__(self, event: str) -> Any:
            return lambda args, *_, **__: told.update({event: args.output_dir})

    tracker = Tracker("listener", Listener(), Path("run"))
    events = [name for name in dir(tracker) if name.startswith("on_")]
    for event in events:
        getattr(tracker, event)(SimpleNamespace(output_dir="run/checkpoints"), None, None)
    assert list(told) == events
    assert {"on_log", "on_train_begin", "on_train_end", "on_evaluate", "on_step_end"} <= set(told)
    assert [event for event, folder in told.items() if folder == "run"] == ["on_init_end"]


def test_names_of_runs() -> None:
    assert run_name(Path("/a/runs/stars")) == "stars"
    assert run_name(Path("runs/stars/compare/none")) == "stars/compare/none"


def test_the_page_names_every_tracker() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")
    text = page.split("## Trackers")[1]
    assert [name for name in INTEGRATION_TO_CALLBACK if f"`{name}`" not in text] == []
