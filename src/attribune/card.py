"""The model card that is written beside a saved model, in Markdown with the head that the hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from attribune.configuration import AttributeConfig, Sizes
from attribune.evaluation.report import markdown_cells
from attribune.schema import Schema

__all__ = ["PRIVACY", "attribute_table", "card_text", "model_card", "parameter_text", "public_name", "use_in_python"]

_INTRODUCTION = """A model of [Attribune](https://pypi.org/project/attribune): a pretrained language model that
reads the metadata of a text beside the text."""

_FOLDER = """Only the tensors that learned are in this folder; the rest comes from the backbone above."""

PRIVACY = """The vocabularies of the attributes in
`schema.json` hold the values of the training rows in plain text, unless an attribute was hashed: look at them before
you publish the folder."""

_RAW = """from attribune import Predictor

predictor = Predictor.from_pretrained("this/folder")
predictor.predict([{row}])"""

_WRITING = """from attribune import Writer, load_model

writer = Writer(load_model("this/folder"))
texts, _ = writer.write(["..."], {row})"""

_ENCODED = """from attribune import AttributeModel

model = AttributeModel.from_pretrained("this/folder")"""


def model_card(config: AttributeConfig, schema: Schema, sizes: Sizes) -> str:
    """The card of a model of which no more is known than its folder holds.

    It names attributes and counts their values, but lists none.
    """
    method, task = str((config.method or {}).get("name")), config.task or {}
    base = public_name(config.backbone)
    shown = base or (Path(config.backbone).name if config.backbone else "a backbone built in memory")
    facts = {
        "backbone": f"{shown} ({config.text_config.model_type}, tuning `{config.tuning}`"
        + (")" if config.writes else f", document vector `{config.pooling}`)"),
        "method": f"`{method}`",
        "task": str(task.get("kind")) + ("" if config.writes else f", {sizes.outputs} outputs"),
        "parameters": parameter_text(sizes.total, sizes.trained, sizes.stored, sizes.stored_bytes),
    }
    columns = None if config.text_input is None else config.text_input["columns"]
    sections = {
        "Attributes": attribute_table(schema),
        "Use": f"{use_in_python(columns, schema, writes=config.writes)}\n\n{_FOLDER} {PRIVACY}",
    }
    title = f"{shown} with `{method}`"
    return card_text(title, base=base, method=method, facts=facts, sections=sections, writes=config.writes)


def card_text(
    title: str,
    *,
    base: str | None,
    method: str,
    facts: Mapping[str, str],
    sections: Mapping[str, str],
    name: str | None = None,
    results: Sequence[EvalResult] = (),
    writes: bool = False,
) -> str:
    """A card.

    Args:
        title: its heading.
        base: the backbone's name on the hub, where it has one.
        method: its name, a tag.
        facts: rows of the table below the heading.
        sections: Markdown by heading.
        name: of the model beside its figures.
        results: figures that the hub shows.
        writes: whether the model writes text.
    """
    pipeline = "text-generation" if writes else "text-classification"
    head = ModelCardData(
        library_name="attribune",
        base_model=base,
        pipeline_tag=pipeline,
        tags=["attribune", method, pipeline],
        model_name=name if results else None,
        eval_results=list(results) or None,
    )
    table = markdown_cells([["", ""], *([key, value] for key, value in facts.items())]).replace("---:", "---")
    blocks = [f"---\n{head.to_yaml()}\n---", f"# {title}", _INTRODUCTION, table]
    blocks += [f"## {heading}\n\n{text}" for heading, text in sections.items()]
    return "\n\n".join(blocks) + "\n"


def public_name(backbone: str | None) -> str | None:
    """A backbone's name on the hub; None for a folder of this machine, whose path means nothing to others."""
    # Its path may even tell what should stay here.
    is_local = not backbone or Path(backbone).is_absolute() or Path(backbone).exists()
    return None if is_local else backbone


def parameter_text(total: int, trained: int, stored: int, stored_bytes: int) -> str:
    """Numbers of parameters in a few words."""
    return f"{total:,} in all, {trained:,} trained, {stored:,} stored ({stored_bytes / 1e6:.1f} MB)"


def attribute_table(schema: Schema) -> str:
    """Name, kind and number of values of each attribute."""
    if not schema.attributes:
        return "None."
    rows = [[a.name, a.spec.kind, f"{a.size - 1:,}", f"{a.slots}"] for a in schema.attributes]
    return markdown_cells([["attribute", "kind", "values", "slots"], *rows])


def use_in_python(columns: Sequence[str] | None, schema: Schema, *, writes: bool) -> str:
    """Code that loads the model, and predicts where its text columns are known, or writes."""
    if writes:
        values = {name: ["..."] for name in schema.names}
        return f"```python\n{_WRITING.format(row=json.dumps(values, ensure_ascii=False))}\n```"
    if columns is None:
        return f"```python\n{_ENCODED}\n```"
    cells: dict[str, Any] = dict.fromkeys((*columns, *schema.names), "...")
    return f"```python\n{_RAW.format(row=json.dumps(cells, ensure_ascii=False))}\n```"
