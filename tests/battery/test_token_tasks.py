"""Tasks that score tokens, on every backbone family, and with every method that acts before the document vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import EACH_KIND, FAMILIES, KIN, VOCABULARY, assert_learns, tiny_backbone

from attribune.errors import ConfigError
from attribune.methods import METHODS, Adapter, Injector, MethodConfig, check_reads_tokens
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Spans, Tags, Task

ROWS, LENGTH = 5, 9
SIZES = [9, 2, 7, 1, 5]
TASKS: dict[str, Task] = {"tags": Tags(classes=["O", "B", "I"], scheme="conll"), "spans": Spans()}
METHOD = Injector(bottleneck=5, vector_size=13)


def build(family: str, task: str, method: MethodConfig = METHOD, **options: Any) -> AttributeModel:
    torch.manual_seed(0)
    schema = Schema.fit({"user": ["a", "b", "c"]}, [Categorical("user")])
    return AttributeModel.build(tiny_backbone(family), schema, task=TASKS[task], method=method, **options)


def batch(task: str = "tags") -> dict[str, torch.Tensor]:
    """Windows padded on the right, as the collator has them."""
    generator = torch.Generator().manual_seed(3)
    mask = (torch.arange(LENGTH) < torch.tensor(SIZES)[:, None]).long()
    labels = torch.randint(0, 2, (ROWS, LENGTH), generator=generator)
    labels = torch.where(mask.bool() & (torch.arange(LENGTH) % 3 > 0), labels, -100)
    if task == "spans":
        labels = labels.clamp(max=0)
        labels[:, 0] = 1
        labels[torch.arange(ROWS), torch.tensor([4, 1, 5, 0, 0])] += torch.tensor([2, 2, 2, 2, 2])
    return {
        "input_ids": torch.randint(5, VOCABULARY, (ROWS, LENGTH), generator=generator) * mask,
        "attention_mask": mask,
        "attribute_ids": torch.tensor([[0], [1], [2], [3], [1]]),
        "labels": labels,
    }


EVERY_FAMILY = [
    pytest.param(family, task, marks=[] if family in EACH_KIND and task == "tags" else pytest.mark.exhaustive)
    for family in FAMILIES
    if family not in KIN
    for task in TASKS
    if (family, task) != ("bert", "spans")
]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("family", "task"), [("bert", "spans"), *EVERY_FAMILY])
def test_every_family_learns_and_rows_do_not_see_each_other(family: str, task: str, tmp_path: Path) -> None:
    model, given = build(family, task, dropout=0.0), batch(task)
    assert_learns(model, given)
    model.double()
    with torch.no_grad():
        together = model(**given).logits
        assert together.shape == (ROWS, LENGTH, model.task.outputs)
        for row, size in enumerate(SIZES):
            alone = {name: values[row : row + 1, :size] for name, values in given.items() if name == "input_ids"}
            logits = model(**alone, attribute_ids=given["attribute_ids"][row : row + 1]).logits
            torch.testing.assert_close(logits[0], together[row, :size], rtol=0, atol=1e-6)
        losses_of_rows = model.row_losses(together, given["labels"])
    assert losses_of_rows.shape == (ROWS,)
    model.float().save_pretrained(tmp_path / "model")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=saved_backbone(family, tmp_path)).eval()
    with torch.no_grad():
        assert torch.equal(loaded(**given).logits, model(**given).logits)


def saved_backbone(family: str, folder: Path) -> str:
    tiny_backbone(family).save_pretrained(folder / "backbone")
    return str(folder / "backbone")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_methods_act_in_token_states_or_are_refused(method: str) -> None:
    config = METHODS[method]()
    if {*config.points} & {"text", "pool", "classify"}:
        with pytest.raises(ConfigError, match=r"scores tokens: choose one of .*injector.*, or a sum of them"):
            build("bert", "tags", config)
        return
    check_reads_tokens(config, task="tags")
    model, given = build("bert", "tags", config).eval(), batch()
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        logits = model(**given).logits
        other = model(**{**given, "attribute_ids": given["attribute_ids"].roll(1, 0)}).logits
    assert logits.shape == (ROWS, LENGTH, 3)
    assert torch.equal(logits, other) == (not config.uses_attributes)


def test_chunks_are_refused() -> None:
    with pytest.raises(ConfigError, match="chunk is 4: the task 'tags' has windows"):
        build("bert", "tags", Adapter(bottleneck=5), chunk=4)
