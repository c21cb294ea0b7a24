"""Description of a run from its files, without loading the backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribune.core.door import as_call
from attribune.models.folder import SCHEMA
from attribune.runs.folder import RunFolder
from attribune.schema import Schema

__all__ = ["describe_run"]

_COMMON = 5


def describe_run(path: str | Path) -> dict[str, Any]:
    """Return attributes with their vocabularies, method, backbone, data and results of a run, finished or not.

    Raises:
        ModelFolderError: when there is no run, or a file of it is damaged.
    """
    folder = RunFolder.of(path)
    recipe = folder.read_recipe()
    description: dict[str, Any] = {
        "state": "finished" if folder.is_finished else f"interrupted; resume it with {as_call('train', resume=True)}",
        "method": recipe.method,
        "task": recipe.task_kind,
        "data": recipe.data.train,
        "text": list(recipe.data.text),
        **({"text_pair": list(recipe.data.text_pair)} if recipe.data.text_pair else {}),
        **recipe.task_input.shown_columns(recipe.input_settings),
        "window": str(recipe.data.text_input().window),
        "shuffled": recipe.data.shuffled,
    }
    learner = recipe.learner
    if learner.tuned_backbone is not None:
        description |= {"backbone": learner.tuned_backbone, "tuning": learner.tuning, **learner.rates}
    schema = folder.read_schema() if (folder.model / SCHEMA).is_file() else Schema([])
    description["attributes"] = [_describe(attribute) for attribute in schema.attributes]
    if folder.is_finished:
        results = folder.read_results()
        if results.training.network is not None:
            description["network"] = results.training.network
        description["results"] = results.to_dict()
    return description


def _describe(attribute: Any) -> dict[str, Any]:
    return {
        "name": attribute.name,
        "kind": attribute.spec.kind,
        "ids": attribute.size,
        "slots": attribute.slots,
        "unseen": getattr(attribute.spec, "unseen", "missing"),
        "most_common": [
            [value, int(count)] for value, count in zip(attribute.values[:_COMMON], attribute.counts[1:], strict=False)
        ],
    }
