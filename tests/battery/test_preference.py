"""The task that compares two texts, with every method and on every backbone family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lab_methods
import pytest
import torch
from families import EACH_KIND, FAMILIES, KIN, VOCABULARY, WORD_FAMILIES, assert_learns, tiny_backbone
from lab_methods import needs_lab

from attribune.backbones.families import placement_for
from attribune.errors import ConfigError, DataError
from attribune.methods import METHODS, Combined, E2ln, Injector, MethodConfig, Plora, Tokens
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Preference, Regression, Task

ROWS, LENGTH = 5, 9
SIZES = torch.tensor([[9, 4], [2, 7], [7, 7], [1, 3], [5, 9]])
METHOD = Injector(bottleneck=5, vector_size=13)


def fits(method: MethodConfig) -> bool:
    """Whether a method acts in BERT, and on one text alone."""
    return method.refusal(placement_for("bert")) is None and "text" not in method.points


FITTING = [(name, "bert") for name, kind in METHODS.items() if fits(kind())]
if lab_methods.HAS_LAB:
    FITTING += [("basis", "word-bilstm"), ("hcsc", "word-bilstm"), ("concat-text", "word-tang-cnn")]
OTHER = ("injector", "upa", "concat-text")  # the first that fits a family
EVERY_FAMILY = [
    pytest.param(family, marks=[] if family in EACH_KIND else pytest.mark.exhaustive)
    for family in (*FAMILIES, *WORD_FAMILIES)
    if family not in KIN
]


def build(family: str, method: MethodConfig = METHOD, *, task: Task | None = None, **options: Any) -> AttributeModel:
    torch.manual_seed(0)
    schema = Schema.fit(
        {"user": ["a", "b", "c"], "topic": ["x", "y", "x"]}, [Categorical("user"), Categorical("topic")]
    )
    model = AttributeModel.build(
        tiny_backbone(family), schema, task=task or Preference(), method=method, **{"dropout": 0.0, **options}
    )
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def batch() -> dict[str, torch.Tensor]:
    """Two texts of each row, padded on the right, as the collator has them."""
    generator = torch.Generator().manual_seed(3)
    mask = (torch.arange(LENGTH) < SIZES[..., None]).long()
    return {
        "input_ids": torch.randint(5, VOCABULARY, (ROWS, 2, LENGTH), generator=generator) * mask,
        "attention_mask": mask,
        "attribute_ids": torch.tensor([[0, 1], [1, 2], [2, 0], [3, 1], [1, 1]]),
        "labels": torch.tensor([0, 1, 0, 0, 1]),
    }


def alone(given: dict[str, torch.Tensor], place: int) -> dict[str, torch.Tensor]:
    """One of the two texts of each row, as rows of a task with one text."""
    texts = {name: given[name][:, place] for name in ("input_ids", "attention_mask")}
    return texts | {"attribute_ids": given["attribute_ids"]}


@needs_lab
def test_other_rows_are_not_read_in_front_of_two_texts() -> None:
    with pytest.raises(ConfigError, match="'history' reads other rows in front of one text, and the task 'preference'"):
        build("bert", lab_methods.SETTINGS["history"])


def saved_backbone(family: str, folder: Path) -> str:
    tiny_backbone(family).save_pretrained(folder / "backbone")
    return str(folder / "backbone")


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_family_learns_and_is_saved(family: str, tmp_path: Path) -> None:
    method = next(METHODS[name]() for name in OTHER if METHODS[name]().refusal(placement_for(family)) is None)
    model, given = build(family, method), batch()
    assert_learns(model, given)
    with torch.no_grad():
        logits = model(**given).logits
    assert logits.shape == (ROWS, 2)
    model.save_pretrained(tmp_path / "model")
    backbone = None if family in WORD_FAMILIES else saved_backbone(family, tmp_path)
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=backbone).eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(**given).logits, logits)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), [*FITTING, ("injector+chim", "bert")])
def test_a_reward_is_that_of_the_text_alone_with_its_rows_attributes(name: str, family: str) -> None:
    """With the same weights a task with one text and one output gives the same number."""
    parts = name.split("+")
    config = METHODS[name]() if len(parts) == 1 else Combined(parts=tuple(METHODS[part]() for part in parts))
    model, single = build(family, config).eval(), build(family, config, task=Regression()).eval()
    single.load_state_dict(model.state_dict())
    given = batch()
    model, single = model.double(), single.double()
    with torch.no_grad():
        rewards = model(**given).logits
        for place in range(2):
            expected = single(**alone(given, place)).logits.squeeze(1)
            torch.testing.assert_close(rewards[:, place], expected, rtol=0, atol=1e-10)
        swapped = given | {key: given[key].flip(1) for key in ("input_ids", "attention_mask")}
        torch.testing.assert_close(model(**swapped).logits, rewards.flip(1), rtol=0, atol=1e-10)
        others = model(**{**given, "attribute_ids": given["attribute_ids"].roll(1, 0)}).logits
    assert torch.equal(others, rewards) == (not config.uses_attributes)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model.float()(**given).logits
    assert rounded.dtype == torch.float32
    assert (rounded.bfloat16() != rounded).any(), "rewards are not rounded to bf16"


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), FITTING)
def test_ties_are_learned_with_every_method(name: str, family: str) -> None:
    model = build(family, METHODS[name](), task=Preference(learn_ties=True)).train()
    labels = torch.tensor([0, 1, 2, 2, 0])
    model(**{**batch(), "labels": labels}).loss.backward()
    assert model.link is not None
    assert model.link.log_nu.grad.abs() > 0
    with torch.no_grad():
        r_1, r_2, of_tie = model.eval()(**batch()).logits.T
        torch.testing.assert_close(of_tie, model.link.log_nu + (r_1 + r_2) / 2)
        alone_rewards = model.rewards(**{key: x for key, x in alone(batch(), 0).items() if key != "labels"})
    torch.testing.assert_close(alone_rewards, r_1, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [E2ln(vector_size=13), Tokens(), Injector(bottleneck=5, vector_size=13)])
def test_candidates_are_cut_into_chunks_of_their_own(method: MethodConfig) -> None:
    model, single = (build("bert", method, task=task, chunk=4).eval() for task in (Preference(), Regression()))
    single.load_state_dict(model.state_dict())
    with torch.no_grad():
        rewards = model(**batch()).logits
        expected = torch.cat([single(**alone(batch(), place)).logits for place in range(2)], dim=1)
    torch.testing.assert_close(rewards, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Injector(attribute_dropout=0.5), Plora(attribute_dropout=0.5)])
def test_both_texts_lose_the_same_attributes(method: MethodConfig) -> None:
    """With the same text twice, in training, the two rewards of a row are one number."""
    model, given = build("bert", method), batch()
    for name in ("input_ids", "attention_mask"):
        given[name] = given[name][:, :1].repeat(1, 2, 1)
    model.train()
    model.backbone.eval()
    for seed in range(5):
        torch.manual_seed(seed)
        first, second = model(**given).logits.T
        torch.testing.assert_close(first, second)


def test_a_batch_of_single_texts_is_refused() -> None:
    model, given = build("bert"), batch()
    with pytest.raises(DataError, match=r"shape \(5, 9\), but the task 'preference' compares 2 texts of each row"):
        model(**alone(given, 0))
