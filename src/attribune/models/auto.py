"""Load saved models of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

from attribune.backbones.architecture import Architecture
from attribune.core.arguments import checked_arguments
from attribune.core.plugins import absent_plugins
from attribune.errors import ConfigError, ModelFolderError
from attribune.models.base import ConditionedModel
from attribune.models.baseline_model import Baseline
from attribune.models.baselines import BASELINES, BaselineConfig
from attribune.models.folder import ModelFolder
from attribune.models.generator import AttributeGenerator
from attribune.models.model import AttributeModel
from attribune.schema import Schema
from attribune.schema.schema import Revision

Scorer: TypeAlias = ConditionedModel | Baseline
"""A model that scores rows, with a backbone or without."""


def model_class(architecture: Architecture) -> type[AttributeModel] | type[AttributeGenerator]:
    """Return the class of models over such a part of a pretrained model."""
    return AttributeModel if architecture is AttributeModel.architecture else AttributeGenerator


@checked_arguments
def load_model(name: str | Path, *, revision: str | None = None, **options: Any) -> ConditionedModel:
    """Load a model that `save_pretrained` wrote, whether it scores texts or writes them.

    Arguments and errors are those of `AttributeModel.from_pretrained`.
    """
    config = ModelFolder.find(name, revision=revision).read_config()
    return model_class(config.architecture).from_pretrained(name, revision=revision, **options)


def revised_model(
    folder: str | Path, change: Callable[[Schema], Revision], *, backbone: str | Path | None = None
) -> ConditionedModel:
    """Load a model with a revised schema, see `ConditionedModel.revised`."""
    kind = model_class(ModelFolder.find(folder).read_config().architecture)
    return kind.revised(folder, change, backbone=backbone)


def load_baseline(folder: Path, *, backbone: str | Path | None = None) -> Baseline | None:
    """Load the baseline that was saved in a folder; None where there is none.

    Args:
        backbone: new location of the weights of its frozen backbone, if it has one and they were moved.

    Raises:
        ModelFolderError: for a file that is missing, changed, truncated or of another model.
    """
    if (kind := baseline_in(folder)) is None:
        return None
    model: Baseline = resolve_name(kind.model).load(folder, backbone=backbone)
    return model


def baseline_in(folder: Path) -> type[BaselineConfig] | None:
    """Return the kind of the baseline whose files are in a folder, if any."""
    for name, missing in absent_plugins("baselines").items():
        if (folder / f"{name}.json").is_file():
            raise ModelFolderError(f"{folder}: the method {name!r} of this model {missing}")
    return next((kind for kind in BASELINES.values() if (folder / kind.file).is_file()), None)


def load_scorer(folder: Path, **options: Any) -> Scorer:
    """Load a model from its folder, as `load_saved` does; a neural one must have a tokenizer."""
    model = load_saved(folder, **options)
    if isinstance(model, ConditionedModel) and model.tokenizer is None:
        raise ModelFolderError(f"{folder} has no tokenizer_config.json: copy the tokenizer's files there again")
    return model


def load_saved(name: str | Path, *, backbone: str | Path | None = None, **options: Any) -> Scorer:
    """Load a neural model or a baseline by the folder of its run, its own folder, or its name on the hub.

    Args:
        backbone: new location of the backbone's weights, if they were moved.
        options: of `load_model`.
    """
    for folder in (Path(name), Path(name) / "model"):
        if folder.is_dir() and (baseline := load_baseline(folder, backbone=backbone)) is not None:
            return baseline
    return load_model(name, backbone=backbone, **options)


def named_runs(runs: Mapping[str, str | Path] | Sequence[str | Path]) -> dict[str, str | Path]:
    """Return runs by their names, by default those of their folders; ConfigError for two of one name, or none."""
    if isinstance(runs, str | Path) or not isinstance(runs, Mapping | Sequence) or not runs:
        raise ConfigError(f"the runs are {runs!r}: give several folders, or a mapping of names to folders")
    if isinstance(runs, Mapping):
        return dict(runs)
    named: dict[str, str | Path] = {}
    for run in runs:
        name = Path(run).resolve().name
        if name in named:
            raise ConfigError(f"two of the runs are named {name!r}: give a mapping of names to folders")
        named[name] = run
    return named
