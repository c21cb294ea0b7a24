"""The model card of a run: figures, rows, attributes, training, use and limits, from the run's own record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult

from attribune.card import PRIVACY, attribute_table, card_text, parameter_text, public_name, use_in_python
from attribune.data.tables import ENDINGS
from attribune.evaluation.report import comparison_lines, markdown_table
from attribune.evaluation.results import result_rows
from attribune.recipe import Recipe
from attribune.schema import Schema

__all__ = ["run_card"]

_FIGURES = """In brackets: 95 % intervals over the choice of rows; those over seeds and training rows are wider."""
_HIDDEN = "*Attributes hidden* is the same model reading the text alone."

_COMMANDS = """On the command line, with the folder of the run, in which this folder is `model`:

```console
$ attribune predict RUN new.csv --output predictions.csv
$ attribune evaluate RUN test.csv
$ attribune describe RUN
```"""

_WRITE = """On the command line, with the folder of the run, in which this folder is `model`:

```console
$ attribune generate RUN rows.csv --output texts.jsonl
$ attribune evaluate RUN rows.csv
$ attribune describe RUN
```"""


def run_card(recipe: Recipe, schema: Schema, results: Mapping[str, Any]) -> str:
    """The card of a run.

    Values of attributes and paths of this machine are not in it.

    Args:
        recipe: of the run.
        schema: with the vocabularies of the training rows.
        results: what ``metrics.json`` holds.
    """
    method, sizes, data = str(recipe.method["name"]), results["training"]["parameters"], _table_name(recipe.data.train)
    base = None if recipe.is_baseline else public_name(recipe.backbone.name)
    shown = "no backbone" if recipe.is_baseline else base or Path(recipe.backbone.name).name
    labels = ", ".join(f"`{column}`" for column in recipe.label_columns)
    facts = {
        "backbone": shown if recipe.is_baseline else f"{shown} (tuning `{recipe.tuning}`)",
        "method": f"`{method}`",
        "task": f"{recipe.task_kind} of {labels}" + ("" if recipe.writes else f", {sizes['outputs']} outputs"),
        "parameters": parameter_text(sizes["total"], sizes["trained"], sizes["stored"], sizes["stored_bytes"]),
    }
    sections = {
        "Results": _results(results),
        "Data": _data(recipe, results),
        "Attributes": attribute_table(schema),
        "Training": _training(recipe, results),
        "Use": _use(recipe, schema),
        "Limits": "\n".join(f"- {' '.join(line.split())}" for line in _limits(recipe, schema)),
    }
    return card_text(
        f"`{method}` on {data}",
        base=base,
        method=method,
        facts=facts,
        sections=sections,
        name=f"{method} on {data}",
        results=_for_the_hub(recipe, results),
        writes=recipe.writes,
    )


def _table_name(source: str) -> str:
    """A file by its name alone, a table of the hub by all of it."""
    path = Path(source)
    is_file = path.is_absolute() or path.exists() or path.name.endswith(tuple(ENDINGS))
    return path.name if is_file else source


def _for_the_hub(recipe: Recipe, results: Mapping[str, Any]) -> list[EvalResult]:
    """The figures of the model itself, as the head of the card holds them."""
    parts = {part: getattr(recipe.data, part) or recipe.data.train for part in ("validation", "test")}
    return [
        EvalResult(
            task_type="text-generation" if recipe.writes else "text-classification",
            dataset_type=_table_name(parts[part]),
            dataset_name=_table_name(parts[part]),
            dataset_split=part,
            metric_type=metric,
            metric_name=metric,
            metric_value=figure["value"],
        )
        for part, figures in results["results"][0]["parts"].items()
        for metric, figure in figures.items()
        if math.isfinite(figure["value"])
    ]


def _results(results: Mapping[str, Any]) -> str:
    blocks = [
        f"{part.capitalize()}, {results['rows'][part]:,} rows:\n\n{markdown_table(rows)}"
        for part in ("validation", "test")
        if (rows := result_rows(results["results"], part=part))
    ]
    if lines := comparison_lines(results["comparisons"]):
        blocks.append("\n".join(f"- {line}" for line in lines))
    hidden = any(row["name"].endswith("attributes hidden") for row in results["results"])
    return "\n\n".join([*blocks, f"{_FIGURES} {_HIDDEN}" if hidden else _FIGURES])


def _data(recipe: Recipe, results: Mapping[str, Any]) -> str:
    data, split = recipe.data, recipe.data.split
    files = {part: getattr(data, part) for part in ("train", "validation", "test") if getattr(data, part)}
    rows = ", ".join(f"{count:,} {part}" for part, count in results["rows"].items())
    lines = [
        f"rows: {rows}",
        "tables: " + ", ".join(f"{part} `{_table_name(source)}`" for part, source in files.items()),
        "text: " + ", ".join(f"`{column}`" for column in data.text) + f", window `{data.text_input().window}`",
        "label: " + ", ".join(f"`{column}`" for column in data.label),
    ]
    if "validation" not in files:
        by = f"{split.by} `{split.column}`" if split.column else split.by
        lines.append(
            f"split: parts without a table of their own are cut from that of training, {by}, seed {split.seed}"
        )
    return "\n".join(f"- {line}" for line in lines)


def _training(recipe: Recipe, results: Mapping[str, Any]) -> str:
    record, settings, place = results["training"], recipe.training, results["environment"]
    if recipe.is_baseline:
        lines = [f"logistic regression, C = {record['C']:g}, in {record['seconds']:,.0f} s"]
    else:
        lines = [
            f"{record['steps']:,} steps of {settings.batch_size * settings.gradient_accumulation} rows "
            f"({record['epochs']:.3g} epochs), the best at step {record['best_step']:,}"
            f"{', stopped early' if record['stopped_early'] else ''}; {record['seconds']:,.0f} s",
            f"AdamW, learning rate {settings.learning_rate:g} (backbone {recipe.backbone_learning_rate:g}), warm-up "
            f"{settings.warmup:g}, weight decay {settings.weight_decay:g}, {settings.precision}, seed {settings.seed}",
        ]
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    return "\n".join(f"- {line}" for line in [*lines, f"on {place['device']}: Python {place['python']}, {versions}"])


def _use(recipe: Recipe, schema: Schema) -> str:
    if recipe.is_baseline:
        return _COMMANDS
    if recipe.writes:
        return f"{use_in_python(None, schema, writes=True)}\n\n{_WRITE}"
    return f"{use_in_python(recipe.data.text, schema, writes=False)}\n\n{_COMMANDS}"


def _limits(recipe: Recipe, schema: Schema) -> Iterator[str]:
    if recipe.data.shuffled:
        yield "This run is a control: its attributes were dealt out anew over the rows. It is not for use."
    if len(schema) and recipe.reads_attributes:
        yield """A value that no training row had counts as unknown, as a missing one does: nothing is known of it, and
            the text decides. Where all are unknown, the figures are those with attributes hidden."""
        if recipe.data.split.by != "group":
            yield "Test rows share values with training rows; on values that are new, the figures may be too high."
        yield """A value cannot be unlearned by removing its vector: what its rows taught the weights that all values
            share stays. Only a training without these rows forgets them."""
        yield PRIVACY
    yield "The figures are for rows like those of training: other sources, languages or times may give others."
