"""Attribune: pretrained language models that read the metadata of a text beside the text.

    schema = Schema.fit(table, [Categorical("user"), MultiLabel("tags", separator="|")])
    model = AttributeModel.build(backbone, schema, task=Classification(classes=5))

The subpackages, the lowest first; each imports only from those above it in this list:

    errors      what can go wrong: the thing, the value seen, the cure
    core        settings, files, resumable folders, logs, the console, this process
    metrics     formulas, bootstrap intervals, tables of results
    functional  the papers' equations as pure functions, one file a paper
    backbones   pretrained models: where methods act in them, what of them learns, how they are loaded
    schema      attributes, their vocabularies, and rows as attribute ids
    methods     one file a method, and what all share: the condition, the host, the registry
    tasks       what is predicted: labels, losses, metrics, one file a task
    data        tables, splits, windows, encoding, batches
    models      a backbone, a method and a task: built, saved, loaded, used
    runs        recipe and folder of a training, results, cards, the verdict
    values      new, added and removed values: enrolment, removal, panels, what to judge next
    training    from a recipe to a run; search over recipes
    prediction  tables and folders of files, scored or written, by one process or many
    analysis    evaluation, comparison, diagnostics, explanations
    export      models without this library: merged, ONNX, torch, peft
    apps        command line, service, playground, reports, doctor, estimators of scikit-learn

Beside it is `attribune_lab`: published data sets, experiments on them, and what only the literature uses.
"""

from __future__ import annotations

import logging
from importlib import metadata
from typing import Any

import lazy_loader

# The public names stand in __init__.pyi. They are imported when first asked for: torch and transformers take seconds,
# which `attribune --help` need not wait for.
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _find(name)
    except AttributeError as error:
        from attribune.core.plugins import bundled_plugins

        for place in (bundled_plugins("methods") | bundled_plugins("baselines")).values():
            if place.rpartition(".")[2] == name:
                raise AttributeError(f"attribune has no {name!r}, which is {place}") from error
        raise


logging.getLogger(__name__).addHandler(logging.NullHandler())  # it is for the program to show the log

__version__ = metadata.version("attribune")
