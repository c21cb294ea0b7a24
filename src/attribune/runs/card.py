"""The model card of a run: metrics, rows, attributes, training, use and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult

from attribune.core.door import as_argument, written_to_file
from attribune.data.table_files import ENDINGS
from attribune.metrics.tables import comparison_lines, markdown_table
from attribune.models.blend import Blend
from attribune.models.folder import CARD, SCHEMA, code_spans, public_name, render_card
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.results import RunResults
from attribune.schema import Schema


def run_card(recipe: Recipe, schema: Schema, results: RunResults) -> str:
    """Render the card of a run, without values of attributes or local paths."""
    with written_to_file():
        verdict = [] if results.verdict is None else results.verdict.sentences()
    tables = shown_tables(recipe)
    learner, blended = recipe.learner, results.training.blend is not None
    base = public_name(learner.read_backbone)
    reads, settings, sizes = recipe.task_input, recipe.input_settings, results.training.parameters
    return render_card(
        "runs/templates/run_card.md.j2",
        base=base,
        method=results.method,
        task=recipe.task_class,
        name=f"{results.method} on {tables['train']}",
        metrics=_hub_metrics(recipe, results, tables),
        backbone=learner.backbone_words(base or Path(recipe.backbone.name).name),
        recipe=recipe,
        learner=learner,
        stored_texts=[text for text in (learner.options.stored_texts, blended and Blend.stored_texts) if text],
        schema=schema,
        results=results,
        sizes=sizes,
        predicted=reads.prediction_words(settings, outputs=sizes.outputs, spans=code_spans),
        text=code_spans(reads.shown_texts(settings)),
        label=reads.label_words(settings, spans=code_spans),
        writes=reads.writes,
        tables=tables,
        figures=[(caption, markdown_table(rows)) for caption, rows in results.tables()],
        comparisons=comparison_lines(results.comparisons),
        verdict=verdict,
    )


def has_own_card(folder: RunFolder, recipe: Recipe) -> bool:
    """Whether the card of a run's model is as the package wrote it; that of a run without results is."""
    path = folder.model / CARD
    if not path.is_file() or not folder.is_finished:
        return True
    return path.read_bytes() == run_card(recipe, folder.read_schema(), folder.read_results()).encode()


def shown_tables(recipe: Recipe) -> dict[str, str]:
    """Return the names of the tables as a card shows them, by part."""
    parts = {part: getattr(recipe.data, part) for part in ("train", "validation", "test")}
    return {part: _table_name(source) for part, source in parts.items() if source}


def _table_name(source: str) -> str:
    """Return the name of a file without its folder, or the full name of a table on the hub."""
    path = Path(source)
    is_file = path.is_absolute() or path.exists() or path.name.endswith(tuple(ENDINGS))
    return path.name if is_file else source


def _hub_metrics(recipe: Recipe, results: RunResults, tables: Mapping[str, str]) -> list[EvalResult]:
    """Return the model's own metrics for the metadata block of the card."""
    return [
        EvalResult(
            task_type=recipe.task_class.pipeline,
            dataset_type=table,
            dataset_name=table,
            dataset_split=part,
            metric_type=metric,
            metric_name=metric,
            metric_value=interval.value,
        )
        for part, metrics in results.models[0].parts.items()
        for table in [tables.get(part, tables["train"])]
        for metric, interval in metrics.items()
        if math.isfinite(interval.value)
    ]


_COMMON = 5


def describe_run(path: str | Path) -> dict[str, Any]:
    """Return attributes with their vocabularies, method, backbone, data and results of a run, finished or not.

    Raises:
        ModelFolderError: when there is no run, or a file of it is damaged.
    """
    folder = RunFolder.of(path)
    recipe = folder.read_recipe()
    description: dict[str, Any] = {
        "state": "finished"
        if folder.is_finished
        else f"interrupted; repeat its training with {as_argument('resume', True, at='train')}",
        "method": recipe.method,
        "task": recipe.task_kind,
        "data": recipe.data.train,
        "text": list(recipe.data.text),
        **({"text_pair": list(recipe.data.text_pair)} if recipe.data.text_pair else {}),
        **recipe.task_input.shown_columns(recipe.input_settings),
        "window": str(recipe.data.text_input().window),
        **({"written": list(recipe.data.written)} if recipe.data.written else {}),
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
        "unseen": attribute.spec.unseen or "missing",
        "most_common": [
            [value, int(count)] for value, count in zip(attribute.values[:_COMMON], attribute.counts[1:], strict=False)
        ],
    }
