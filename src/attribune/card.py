"""The model card that is written beside a saved model."""

from __future__ import annotations

import json
from pathlib import Path

from attribune.configuration import AttributeConfig, Sizes
from attribune.schema import Schema

__all__ = ["model_card"]

_CARD = """---
library_name: attribune
{base_model}tags:
- attribune
- {method}
- {pipeline}
---

# {base} with `{method}`

A model of [Attribune](https://pypi.org/project/attribune): a pretrained language model that reads the metadata of a
text beside the text.

| | |
|---|---|
| backbone | {base} ({family}, tuning `{tuning}`{vector}) |
| method | `{method}` |
| task | {task}{outputs} |
| parameters | {total:,} in all, {trained:,} trained, {stored:,} stored ({megabytes:.1f} MB) |

## Attributes

{attributes}

## Use

```python
{use}
```

Only the tensors that learned are in this folder; the rest comes from the backbone above. The vocabularies of the
attributes in `schema.json` hold the values of the training rows in plain text, unless an attribute was hashed: look at
them before you publish the folder.
"""


_RAW = """from attribune import Predictor

predictor = Predictor.from_pretrained("{folder}")
predictor.predict([{row}])"""

_WRITING = """from attribune import Writer, load_model

writer = Writer(load_model("{folder}"))
texts, _ = writer.write(["..."], {row})"""

_ENCODED = """from attribune import AttributeModel

model = AttributeModel.from_pretrained("{folder}")"""


def model_card(config: AttributeConfig, schema: Schema, sizes: Sizes) -> str:
    """The card, in Markdown with the hub's header. It names attributes and counts their values, but lists none."""
    lines = ["| attribute | kind | ids | slots |", "|---|---|---|---|"]
    lines += [f"| {a.name} | {a.spec.kind} | {a.size:,} | {a.slots} |" for a in schema.attributes]
    task = config.task or {}
    # A folder of this machine means nothing to a reader elsewhere, and its path may tell what should stay here.
    is_local = not config.backbone or Path(config.backbone).is_absolute() or Path(config.backbone).exists()
    base = Path(config.backbone).name if config.backbone else "a backbone built in memory"
    return _CARD.format(
        base=base if is_local else config.backbone,
        base_model="" if is_local else f"base_model: {config.backbone}\n",
        use=_use(config, schema),
        family=config.text_config.model_type,
        method=(config.method or {}).get("name"),
        tuning=config.tuning,
        vector="" if config.writes else f", document vector `{config.pooling}`",
        pipeline="text-generation" if config.writes else "text-classification",
        task=task.get("kind"),
        outputs="" if config.writes else f", {sizes.outputs} outputs",
        total=sizes.total,
        trained=sizes.trained,
        stored=sizes.stored,
        megabytes=sizes.stored_bytes / 1e6,
        attributes="\n".join(lines) if schema.attributes else "None.",
    )


def _use(config: AttributeConfig, schema: Schema) -> str:
    folder = "this/folder"
    if config.writes:
        values = {name: ["..."] for name in schema.names}
        return _WRITING.format(folder=folder, row=json.dumps(values, ensure_ascii=False))
    if config.text_input is None:
        return _ENCODED.format(folder=folder)
    cells = dict.fromkeys((*config.text_input["columns"], *schema.names), "...")
    return _RAW.format(folder=folder, row=json.dumps(cells, ensure_ascii=False))
