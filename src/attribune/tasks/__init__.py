"""Tasks: the labels, loss, decoding and metrics of what is predicted.

A task is a small frozen record that is fitted on the labels of the training rows and saved beside the model. All that
depends on the target is in the task; the model only needs `outputs` (the size of its head) and `loss`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from attribune.core.plugins import load_plugins
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError
from attribune.tasks.aspects import Aspects
from attribune.tasks.base import ADDED_LATER, Decoded, Task
from attribune.tasks.classification import Classification
from attribune.tasks.generation import Generation
from attribune.tasks.labels import UNSEEN
from attribune.tasks.preference import Preference
from attribune.tasks.rating import Ordinal, Rating
from attribune.tasks.regression import Regression
from attribune.tasks.similarity import Similarity
from attribune.tasks.spans import Spans
from attribune.tasks.tags import Tags
from attribune.tasks.tokens import TokenTask

__all__ = [
    "TASKS",
    "UNSEEN",
    "Aspects",
    "Classification",
    "Decoded",
    "Generation",
    "Ordinal",
    "Preference",
    "Rating",
    "Regression",
    "Similarity",
    "Spans",
    "Tags",
    "Task",
    "TokenTask",
    "fit_task",
    "task_from_dict",
]

TASKS: dict[str, type[Task]] = {
    task.kind: task
    for task in (Classification, Rating, Ordinal, Regression, Aspects, Preference, Similarity, Generation, Tags, Spans)
}
"""Every task by its kind, including those of plugins."""


def fit_task(kind: str, label_columns: Sequence[Sequence[Any]], **options: Any) -> Task:
    """Fit the task `kind` on the labels of training rows; ConfigError for an unknown kind or option."""
    fit = _task_class(kind).fit
    allowed = list(inspect.signature(fit).parameters.values())[1:]
    needed = [option.name for option in allowed if option.default is option.empty]
    _check_names(kind, options, allowed=[option.name for option in allowed], needed=needed)
    return fit(label_columns, **options)


def task_from_dict(data: Mapping[str, Any]) -> Task:
    """Restore a task from its `to_dict`, also by way of JSON; ConfigError for anything else."""
    if not isinstance(data, Mapping) or "kind" not in data:
        raise ConfigError(
            f"a stored task is {data!r}: it must be a mapping with the key 'kind', one of {', '.join(TASKS)}"
        )
    values = {name: _frozen(value) for name, value in data.items() if name != "kind"}
    task = _task_class(data["kind"])
    stored = [field.name for field in fields(task)]  # type: ignore[arg-type]
    _check_names(data["kind"], values, allowed=stored, needed=[name for name in stored if name not in ADDED_LATER])
    return task(**values)


def _task_class(kind: Any) -> type[Task]:
    if not isinstance(kind, str) or kind not in TASKS:
        raise ConfigError(f"there is no task {kind!r}: choose one of {', '.join(TASKS)}")
    task = TASKS[kind]
    own = {name for one in task.__mro__[: task.__mro__.index(Task)] for name in vars(one)}
    lacking = {*task.__abstractmethods__}
    if not own & {"codec", "codec_for"}:
        lacking |= {"encode_labels", "loss"} - own
    if lacking or not is_dataclass(task):
        absent = f"has no {', '.join(sorted(lacking))}" if lacking else "is no dataclass"
        raise ConfigError(
            f"{task.__name__}, the task {kind!r}, {absent}: a task is a frozen dataclass with all of Task"
        )
    return task


def _check_names(kind: str, options: Mapping[str, Any], *, allowed: Sequence[str], needed: Sequence[str]) -> None:
    if unknown := sorted(set(options) - set(allowed)):
        rest = did_you_mean_or(unknown[0], allowed, f"it has {', '.join(allowed)}")
        raise ConfigError(f"the task {kind!r} has no option {', '.join(unknown)}{rest}")
    if absent := sorted(set(needed) - set(options)):
        raise ConfigError(f"the task {kind!r} needs {', '.join(absent)}: give it")


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


TASKS |= load_plugins("tasks", Task) | TASKS  # a plugin replaces none of ours
