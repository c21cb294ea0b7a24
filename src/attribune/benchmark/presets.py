"""Experiments that come with the library."""

from __future__ import annotations

from importlib import resources

import yaml

from attribune.benchmark.experiment import Experiment
from attribune.errors import ConfigError

__all__ = ["experiment_names", "read_experiment"]

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
