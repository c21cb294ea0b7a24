"""Experiments that come with the library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from attribune.benchmark.experiment import Experiment
from attribune.errors import ConfigError

__all__ = ["experiment_names", "own_experiment", "read_experiment"]

_FOLDER = resources.files("attribune.benchmark") / "experiments"


def experiment_names() -> list[str]:
    """The names, in alphabetical order."""
    return sorted(item.name.removesuffix(".yaml") for item in _FOLDER.iterdir() if item.name.endswith(".yaml"))


def read_experiment(name: str) -> Experiment:
    """An experiment by its name.

    Raises:
        ConfigError: for an unknown name; the message lists those there are.
    """
    if name not in experiment_names():
        raise ConfigError(f"unknown experiment {name!r}: choose one of {', '.join(experiment_names())}, or give a file")
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return Experiment.from_dict(yaml.safe_load(text), source=f"the experiment {name}")


def own_experiment(
    table: str | Path,
    *,
    text: Sequence[str],
    label: Sequence[str],
    attributes: Sequence[Mapping[str, Any]],
    task: str | None = None,
    seeds: int = 2,
    steps: int = 250,
) -> Experiment:
    """The experiment that asks of a table: do my attributes help, which, for which rows, how, and at what cost.

    Args:
        table: the file.
        text: its text columns.
        label: its label columns.
        attributes: as a recipe has them.
        task: the kind; found out from the label unless given.
        seeds: splits, and trainings of every setting.
        steps: of every training.

    Raises:
        ConfigError: without an attribute, or for names that are not those of settings.
    """
    if not attributes:
        raise ConfigError("no attribute is named: name at least one column, since the question is whether it helps")
    names = [str(attribute["name"]) for attribute in attributes]
    alone = [{"name": f"{name} alone", "method": "injector", "attributes": [name], "rates": False} for name in names]
    settings: list[Any] = [
        "none",
        "adapter",
        "injector",
        {"name": "injector, shuffled", "method": "injector", "data": {"shuffled": True}},
        *(alone if len(names) > 1 else []),
        "upa",
        "pln",
        "linear",
        {"name": "linear, text alone", "method": "linear", "attributes": []},
        "attributes-only",
    ]
    data = {
        "train": str(table),
        "text": list(text),
        "label": list(label),
        "attributes": [
            {key: value for key, value in attribute.items() if value is not None} for attribute in attributes
        ],
    }
    plan = {
        "name": re.sub(r"[^A-Za-z0-9]+", "-", Path(table).stem).strip("-") or "table",
        "data": data,
        "task": {} if task is None else {"kind": task},
        "folds": list(range(seeds)),
    }
    return Experiment.from_dict(
        {
            "name": "own",
            "title": f"Attributes of {Path(table).name}",
            "sets": [plan],
            "settings": settings,
            "data": {"max_length": 128},
            "training": {"steps": steps, "evaluate_every": max(1, steps // 5), "patience": 5},
        }
    )
