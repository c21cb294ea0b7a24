"""Model cards in Markdown, with the metadata block that the hub reads."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from attribune.core.terminal import one_line
from attribune.metrics.tables import markdown_cell
from attribune.models.config import AttributeConfig
from attribune.models.sizes import Sizes
from attribune.schema import Schema

__all__ = ["code_spans", "model_card", "pipeline_of", "public_name", "render_card"]

_SENSITIVE = re.compile(
    r"(?i)(?<![a-z])(age|aged|birth|born|gender|sex|race|racial|ethnic|religio|faith|politic|party|national|citizen|"
    r"origin|native|disab|health|diagnos|orientation|sexual|income|salary|marital|caste)"
)
_PIPELINES = {
    "generation": "text-generation",
    "similarity": "sentence-similarity",
    "spans": "question-answering",
    "tags": "token-classification",
}


def model_card(config: AttributeConfig, schema: Schema, sizes: Sizes) -> str:
    """Render the card of a saved model; it names the attributes and counts their values, but lists none."""
    base = public_name(config.backbone)
    return render_card(
        "models/templates/model_card.md.j2",
        base=base,
        method=str((config.method or {}).get("name")),
        backbone=base or (Path(config.backbone).name if config.backbone else "a backbone built in memory"),
        task_kind=str((config.task or {}).get("kind")),
        reads_tokens=config.reads_tokens,
        config=config,
        schema=schema,
        sizes=sizes,
    )


def render_card(
    template: str,
    *,
    base: str | None,
    method: str,
    task_kind: str,
    name: str | None = None,
    metrics: Sequence[EvalResult] = (),
    **facts: Any,
) -> str:
    """Render a card from a template.

    Args:
        template: its path in the package.
        base: the backbone's name on the hub, where it has one.
        method: name of the method, which becomes a tag.
        task_kind: name of the task.
        name: the model's name, shown on the hub beside the metrics.
        facts: variables of the template beside `method`, `task_kind` and `head`.
    """
    pipeline = pipeline_of(task_kind)
    head = ModelCardData(
        library_name="attribune",
        base_model=base,
        pipeline_tag=pipeline,
        tags=["attribune", method, pipeline],
        model_name=name if metrics else None,
        eval_results=list(metrics) or None,
    )
    return _templates().get_template(template).render(head=head.to_yaml(), method=method, task_kind=task_kind, **facts)


def pipeline_of(task_kind: str) -> str:
    """Return what the hub calls models of a task."""
    return _PIPELINES.get(task_kind, "text-classification")


def public_name(backbone: str | None) -> str | None:
    """Return a backbone's name on the hub; None for a local folder, whose path means nothing to others."""
    # A path may also reveal what should stay private.
    is_local = not backbone or Path(backbone).is_absolute() or Path(backbone).exists()
    return None if is_local else backbone


def _in_code(text: object) -> str:
    """Return a text for the inside of a code span, which a backtick or an empty line would end."""
    return one_line(str(text)).replace("`", "'")


def code_spans(names: Sequence[str]) -> str:
    """Write the names of columns as code, with commas between them."""
    return ", ".join(f"`{_in_code(name)}`" for name in names)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("attribune", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "cell": lambda text: markdown_cell(one_line(text)).replace("<", "&lt;"),
        "code": code_spans,
        "in_code": _in_code,
        "sensitive": lambda names: [name for name in names if _SENSITIVE.search(name)],
        "comma": lambda number, places=None: f"{number:,}" if places is None else f"{number:,.{places}f}",
        "example": lambda columns, cell: json.dumps(dict.fromkeys(columns, cell), ensure_ascii=False),
    }
    return templates
