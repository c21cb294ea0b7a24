"""The model card that is written beside a saved model."""

from __future__ import annotations

from attribune.configuration import AttributeConfig, Sizes
from attribune.schema import Schema

__all__ = ["model_card"]

_CARD = """---
library_name: attribune
base_model: {base}
tags:
- attribune
- {method}
- text-classification
---

# {base} with `{method}`

A model of [Attribune](https://pypi.org/project/attribune): a pretrained language model that reads the metadata of a
text beside the text.

| | |
|---|---|
| backbone | {base} ({family}, tuning `{tuning}`, document vector `{pooling}`) |
| method | `{method}` |
| task | {task}, {outputs} outputs |
| parameters | {total:,} in all, {trained:,} trained, {stored:,} stored ({megabytes:.1f} MB) |

## Attributes

{attributes}

## Use

```python
from attribune import AttributeModel

model = AttributeModel.from_pretrained("this/folder")
```

Only the tensors that learned are in this folder; the rest comes from the backbone above. The vocabularies of the
attributes in `schema.json` hold the values of the training rows in plain text, unless an attribute was hashed: look at
them before you publish the folder.
"""


def model_card(config: AttributeConfig, schema: Schema, sizes: Sizes) -> str:
    """The card, in Markdown with the hub's header. It names attributes and counts their values, but lists none."""
    lines = ["| attribute | kind | ids | slots |", "|---|---|---|---|"]
    lines += [f"| {a.name} | {a.spec.kind} | {a.size:,} | {a.slots} |" for a in schema.attributes]
    task = config.task or {}
    return _CARD.format(
        base=config.backbone or "a backbone built in memory",
        family=config.text_config.model_type,
        method=(config.method or {}).get("name"),
        tuning=config.tuning,
        pooling=config.pooling,
        task=task.get("kind"),
        outputs=sizes.outputs,
        total=sizes.total,
        trained=sizes.trained,
        stored=sizes.stored,
        megabytes=sizes.stored_bytes / 1e6,
        attributes="\n".join(lines) if schema.attributes else "None.",
    )
