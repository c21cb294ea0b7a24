"""Experiments that packages bring, and the one for a user's own table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from attribune.core.plugins import load_plugins
from attribune.errors import ConfigError
from attribune_lab.benchmark.experiment import Experiment

__all__ = ["experiment_names", "own_experiment", "read_experiment"]

_SMALL = "-small"


def experiment_names(*, small: bool = False) -> list[str]:
    """Return the names of the experiments, or of those of which there is a small version."""
    return sorted(name.removesuffix(_SMALL) for name in _files() if name.endswith(_SMALL) == small)


def read_experiment(name: str, *, small: bool = False) -> Experiment:
    """Read an experiment, or its small version; ConfigError for an unknown name, with the known ones."""
    known = experiment_names(small=small)
    if name not in known:
        what = "experiment with a small version" if small else "experiment"
        raise ConfigError(f"unknown {what} {name!r}: choose one of {', '.join(known)}, or give a file")
    text = _files()[f"{name}{_SMALL if small else ''}"].read_text(encoding="utf-8")
    return Experiment.from_dict(yaml.safe_load(text), source=f"the experiment {name}")


@cache
def _files() -> dict[str, Traversable]:
    """Return the YAML files of experiments by name: those of the packages under ``attribune.experiments``."""
    packages = load_plugins("experiments", ModuleType).values()
    items = [item for package in packages for item in resources.files(package).iterdir()]
    return {item.name.removesuffix(".yaml"): item for item in items if item.name.endswith(".yaml")}


def own_experiment(
    table: str | Path,
    *,
    text: Sequence[str],
    label: Sequence[str],
    attributes: Sequence[Mapping[str, Any]],
    text_pair: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
    task: str | None = None,
    seeds: int = 2,
    steps: int = 250,
) -> Experiment:
    """Make the experiment that compares methods, attributes and controls on a table.

    Args:
        attributes: as in a recipe.
        text_pair: columns of a second text that is read with the first.
        values: tables that describe the values of attributes.
        task: kind of the task; by default inferred from the label columns.
        seeds: number of splits, and of trainings of every setting.
        steps: of every training.

    Raises:
        ConfigError: without an attribute, or for names that are not valid for settings.
    """
    if not attributes:
        raise ConfigError("no attribute is named: name at least one column, since the question is whether it helps")
    given = [{key: value for key, value in attribute.items() if value is not None} for attribute in attributes]
    data = {"train": str(table), "text": list(text), "label": list(label), "attributes": given}
    tables = {name: {"table": table} for name, table in (values or {}).items()}
    plan = {
        "name": re.sub(r"[^A-Za-z0-9]+", "-", Path(table).stem).strip("-") or "table",
        "data": data | ({"text_pair": list(text_pair)} if text_pair else {}) | ({"values": tables} if tables else {}),
        "task": {} if task is None else {"kind": task},
        "folds": list(range(seeds)),
    }
    return Experiment.from_dict(
        {
            "name": "own",
            "title": f"Attributes of {Path(table).name}",
            "sets": [plan],
            "settings": _own_settings([str(attribute["name"]) for attribute in attributes], tables),
            "data": {"max_length": 128},
            "training": {"steps": steps, "evaluate_every": max(1, steps // 5), "patience": 5},
        }
    )


def _own_settings(names: Sequence[str], values: Mapping[str, Mapping[str, str]]) -> list[Any]:
    """Return the settings for attributes with these names: methods, controls, and each attribute alone.

    Where `values` are described, their vectors alone and their descriptions alone as well.
    """
    said = {name: {**table, "own_vectors": False} for name, table in values.items()}
    parts = {"injector, ids alone": {}, "injector, descriptions alone": said} if values else {}
    alone = [{"name": f"{name} alone", "method": "injector", "attributes": [name], "rates": False} for name in names]
    return [
        "none",
        "adapter",
        "injector",
        {"name": "injector, shuffled", "method": "injector", "data": {"shuffled": True}},
        *({"name": name, "method": "injector", "data": {"values": part}} for name, part in parts.items()),
        *(alone if len(names) > 1 else []),
        "upa",
        "pln",
        "linear",
        {"name": "linear, text alone", "method": "linear", "attributes": []},
        "attributes-only",
    ]
