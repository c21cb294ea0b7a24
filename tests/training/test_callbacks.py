"""What looks on at a training: early stopping, the time that is left, and trackers, which are no danger to a run."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
from trained_runs import ROWS, TrainedRuns
from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import INTEGRATION_TO_CALLBACK

from attribune import Recipe
from attribune.apps.cli import main
from attribune.core.progress import Reporter
from attribune.errors import ConfigError
from attribune.metrics.metric import metric_info
from attribune.training import callbacks
from attribune.training.callbacks import EarlyStopping, Tracker, check_trackers, run_name

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


def test_what_cannot_be_tracked_is_refused_before_the_data_are_read(
    words: list[str], tmp_path: Path, fails: Callable[..., str]
) -> None:
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\x00")  # reading it would fail
    lost = ["train", str(tmp_path / "odd.csv"), *words[2:]]
    assert "unknown tracker 'all'" in fails(*lost, "--report-to", "all")
    (tmp_path / "fakes" / "trackio.py").write_text("raise RuntimeError('built for another Python')")
    assert "'trackio' cannot be used here (built for another Python)" in fails(*lost, "--report-to", "trackio")
    linear = [*words[: words.index("--set")], "--method", "linear", "--report-to", "tensorboard"]
    assert "the method 'linear' has no training steps to report to tensorboard" in fails(*linear)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_tracker_that_cannot_begin_stops_the_training(
    words: list[str], tmp_path: Path, fails: Callable[..., str]
) -> None:
    said = "error: the tracker 'trackio' cannot start (no route to host, project "
    assert said in fails(*words, "--report-to", "trackio")
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


@pytest.mark.parametrize(
    ("values", "higher", "patience", "stale"),
    [
        ([], True, 1, False),
        ([0.5], True, 1, False),
        ([0.5, 0.5], True, 1, True),
        ([0.5, 0.6, 0.6, 0.7], True, 1, False),
        ([0.5, 0.6, 0.6, 0.6], True, 2, True),
        ([0.5, 0.6, 0.6, 0.6], True, 3, False),
        ([0.9, 0.5, 0.6, 0.7], False, 2, True),
        ([0.9, 0.5, 0.6, 0.4], False, 2, False),
    ],
)
def test_training_is_exhausted_when_patience_checks_brought_nothing(
    values: list[float], higher: bool, patience: int, stale: bool
) -> None:
    history: list[dict[str, Any]] = [{"loss": 3.0, "step": 1}]
    history += [{"eval_score": value} for value in values]
    state = TrainerState(log_history=history)
    metric = replace(metric_info("accuracy"), name="score", higher_is_better=higher)
    assert EarlyStopping(metric, patience=patience).is_exhausted(state) is stale


@pytest.mark.parametrize(
    ("step", "resumed", "may_stop", "said"),
    [
        (0.01, 0, True, []),
        (0.2, 0, True, ["training: 289 more steps take about 58 seconds, and less if it stops early"]),
        (0.2, 0, False, ["training: 289 more steps take about 58 seconds"]),
        (2.0, 0, True, ["training: 289 more steps take about 10 minutes, and less if it stops early"]),
        (2.0, 200, True, ["training: 89 more steps take about 3 minutes, and less if it stops early"]),
        (60.0, 0, True, ["training: 289 more steps take about 4.8 hours, and less if it stops early"]),
        (2.0, 290, True, []),
    ],
)
def test_a_long_training_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: float, resumed: int, may_stop: bool, said: list[str]
) -> None:
    """The first step, here of a minute, is not counted."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: clock[0])
    notes: list[str] = []
    reporter = Reporter()
    monkeypatch.setattr(reporter, "note", notes.append)
    callback = callbacks.Progress(reporter, tmp_path / "log.jsonl", may_stop_early=may_stop)
    arguments, state, control = TrainingArguments(output_dir=str(tmp_path)), TrainerState(), TrainerControl()
    state.global_step, state.max_steps = resumed, 300
    callback.on_train_begin(arguments, state, control)
    for number in range(resumed, 300):
        clock[0] += step if number > resumed else 60
        state.global_step = number + 1
        callback.on_step_end(arguments, state, control)
    assert notes == said
