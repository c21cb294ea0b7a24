"""Profile of a training: a trace, and a summary of how much time is spent on attributes."""

from __future__ import annotations

import gzip
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attribune.core.files import replace_file
from attribune.core.process import peak_megabytes
from attribune.methods.base import Method, SiteModule
from attribune.models.base import ConditionedModel

__all__ = ["ProfileSteps", "summary", "time_by_part"]

_STEPS, _BEFORE = 8, 3  # measured steps, and steps before them that are not measured
_POINTS = ("condition", "embed", "encode", "pool", "classify", "act_at")
_PREFIX = "attribune."
_BACKWARD = "autograd::engine::evaluate_function"
_OPERATIONS = 15
_ATTRIBUTES, _ADAPTERS, _REST = "attributes", "task adapters", "backbone and head"
_OPTIMISER, _DATA = "optimiser", "data"
_WORDS = {
    _ATTRIBUTES: "all that the method does with attributes, and task adapters that run in one operation with theirs",
    _ADAPTERS: "the rest of what its sites do",
    _REST: "forward and backward passes of the rest of the model, and the loss",
    _OPTIMISER: "the update",
    _DATA: "waiting for the next batch",
}


class ProfileSteps(TrainerCallback):
    """Profile a few steps after the first ones, and write ``trace.json.gz`` and ``summary.md``."""

    def __init__(self, model: ConditionedModel, folder: Path) -> None:
        self.model, self.folder = model, folder
        self._open: ExitStack | None = None
        self._profile: profile | None = None
        self._begun = 0

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start after the first steps, or at once if there are too few."""
        if self._profile is not None:
            return
        if state.global_step >= min(_BEFORE, max(0, state.max_steps - _STEPS)):
            self._begun, self._open = state.global_step, ExitStack()
            self._open.enter_context(_named(self.model))
            activities = [ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(ProfilerActivity.CUDA)
            self._profile = self._open.enter_context(profile(activities=activities, profile_memory=True))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop after the last measured step."""
        if state.global_step - self._begun >= _STEPS:
            self._finish(state)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop if the training was shorter."""
        self._finish(state)

    def _finish(self, state: TrainerState) -> None:
        if self._profile is None or self._open is None:
            return
        self._open.close()
        self._open = None
        steps = state.global_step - self._begun
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = self.folder / "trace.json"
        self._profile.export_chrome_trace(str(plain))
        with plain.open("rb") as source, gzip.open(self.folder / "trace.json.gz", "wb") as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
        text = summary(self._profile, steps=steps, name=str(self.model.method_config.name))
        replace_file(self.folder / "summary.md", text.encode())


def _named(model: ConditionedModel) -> ExitStack:
    """Name the method's work in the trace, until the stack is closed."""
    stack = ExitStack()
    for module in model.modules():
        if isinstance(module, Method):
            for point in _POINTS:
                setattr(module, point, _within(_ATTRIBUTES, getattr(module, point)))
                stack.callback(delattr, module, point)
        elif isinstance(module, SiteModule) and not module.reads_attributes:
            module.forward = _within(_ADAPTERS, module.forward)
            stack.callback(delattr, module, "forward")
    return stack


def _within(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def named(*args: Any, **options: Any) -> Any:
        with record_function(_PREFIX + part):
            return function(*args, **options)

    return named


def time_by_part(events: Iterable[Any]) -> dict[str, float]:
    """Sum up the microseconds of each part of a training, forward and backward together.

    A backward operation belongs to the part of its forward operation, which has the same sequence number.

    Args:
        events: of ``torch.profiler.profile.events()``.
    """
    events = list(events)
    of_sequence: dict[int, str] = {}
    for event in events:
        if event.sequence_nr >= 0 and not event.name.startswith(_BACKWARD):
            of_sequence.setdefault(event.sequence_nr, _enclosing(event))
    times: defaultdict[str, float] = defaultdict(float)
    for event in events:
        part = _enclosing(event)
        backward = _ancestor(event, _BACKWARD)
        if backward is not None:
            part = of_sequence.get(backward.sequence_nr, _REST)
        times[part] += _own_time(event)
    return dict(times)


def _enclosing(event: Any) -> str:
    """Return the innermost part in which an event happened."""
    while event is not None:
        if event.name.startswith(_PREFIX):
            return str(event.name.removeprefix(_PREFIX))
        if event.name.startswith("Optimizer.step"):
            return _OPTIMISER
        if event.name.startswith("enumerate(DataLoader)"):
            return _DATA
        event = event.cpu_parent
    return _REST


def _ancestor(event: Any, prefix: str) -> Any:
    while event is not None and not event.name.startswith(prefix):
        event = event.cpu_parent
    return event


def _own_time(event: Any) -> float:
    """Return the time on the GPU if there is one, else on the CPU."""
    return float(event.self_device_time_total if torch.cuda.is_available() else event.self_cpu_time_total)


def summary(finished: profile, *, steps: int, name: str) -> str:
    """Render a finished profile as Markdown: time by part and by operation, and memory."""
    parts = time_by_part(finished.events())  # type: ignore[no-untyped-call]
    total = sum(parts.values()) or 1.0

    def cost(microseconds: float) -> str:
        return f"{microseconds / 1e3 / steps:.2f} | {microseconds / total:.1%}"

    lines = [f"# Where the time of {steps} steps went: {name}", ""]
    lines += [f"Attributes took {parts.get(_ATTRIBUTES, 0.0) / total:.1%} of the time, forward and backward.", ""]
    lines += ["| part | ms a step | share | |", "|---|---:|---:|---|"]
    slowest_first = sorted((part for part in _WORDS if part in parts), key=lambda part: -parts[part])
    lines += [f"| {part} | {cost(parts[part])} | {_WORDS[part]} |" for part in slowest_first]
    averages = [one for one in finished.key_averages() if not one.key.startswith((_PREFIX, "ProfilerStep"))]
    lines += ["", "| operation | calls a step | ms a step | share |", "|---|---:|---:|---:|"]
    for one in sorted(averages, key=_own_time, reverse=True)[:_OPERATIONS]:
        lines.append(f"| `{one.key}` | {one.count / steps:.0f} | {cost(_own_time(one))} |")
    memory = f"The process held {peak_megabytes():,.0f} MB at most."
    if torch.cuda.is_available():
        memory += f" On the device, {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB were allocated at most."
    lines += ["", memory, "Most memory was asked for by:", "", "| operation | MB a step |", "|---|---:|"]
    for one in sorted(averages, key=lambda one: -one.self_cpu_memory_usage)[:5]:
        lines.append(f"| `{one.key}` | {one.self_cpu_memory_usage / 2**20 / steps:,.1f} |")
    lines += ["", "`trace.json.gz` has every operation: open it in chrome://tracing or ui.perfetto.dev."]
    return "\n".join(lines) + "\n"
