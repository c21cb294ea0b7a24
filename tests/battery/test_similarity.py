"""The task that compares vectors, with every method and on every backbone family."""

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
from attribune.methods import METHODS, Combined, Injector, MethodConfig
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Similarity

ROWS, LENGTH = 5, 9
SIZES = torch.tensor([[9, 4, 3], [2, 7, 5], [7, 7, 9], [1, 3, 2], [5, 9, 6]])
METHOD = Injector(bottleneck=5, vector_size=13)
CLASSIFYING = {"chim": "bert"}
if lab_methods.HAS_LAB:
    CLASSIFYING |= {"basis": "word-bilstm", "upnn": "word-tang-cnn", "huapa": "word-hierarchical"}
OTHER = ("injector", "upa", "concat-text")  # the first that fits a family
EVERY_FAMILY = [
    pytest.param(family, marks=[] if family in EACH_KIND else pytest.mark.exhaustive)
    for family in (*FAMILIES, *WORD_FAMILIES)
    if family not in KIN
]


def compares(method: MethodConfig) -> bool:
    """Whether a method acts in BERT, on one text alone, and on no classifier."""
    is_apart = "text" not in method.points and "classify" not in method.points and not method.has_classifiers
    return is_apart and method.refusal(placement_for("bert")) is None


FITTING = [(name, "bert") for name, kind in METHODS.items() if compares(kind())]
if lab_methods.HAS_LAB:
    FITTING += [("hcsc", "word-bilstm"), ("concat-text", "word-tang-cnn"), ("la", "word-hierarchical")]


def build(family: str, method: MethodConfig = METHOD, *, task: Similarity | None = None) -> AttributeModel:
    torch.manual_seed(0)
    schema = Schema.fit(
        {"user": ["a", "b", "c"], "topic": ["x", "y", "x"]}, [Categorical("user"), Categorical("topic")]
    )
    model = AttributeModel.build(tiny_backbone(family), schema, task=task or Similarity(form="pairs"), method=method)
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def batch(texts: int = 2) -> dict[str, torch.Tensor]:
    """The texts of each row, padded on the right, as the collator has them."""
    generator = torch.Generator().manual_seed(3)
    mask = (torch.arange(LENGTH) < SIZES[:, :texts, None]).long()
    return {
        "input_ids": torch.randint(5, VOCABULARY, (ROWS, texts, LENGTH), generator=generator) * mask,
        "attention_mask": mask,
        "attribute_ids": torch.tensor([[2, 1], [1, 2], [2, 1], [3, 1], [1, 1]]),
        "labels": torch.tensor([7, 1, 7, 3, 4]),
    }


def alone(given: dict[str, torch.Tensor], place: int, attribute_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """One of the texts of each row, as rows of single texts."""
    texts = {name: given[name][:, place] for name in ("input_ids", "attention_mask")}
    return texts | {"attribute_ids": attribute_ids}


@pytest.mark.parametrize("name", [*CLASSIFYING, "injector+chim"])
def test_methods_at_a_classifier_are_refused(name: str) -> None:
    parts = [METHODS[part]() for part in name.split("+")]
    method = parts[0] if len(parts) == 1 else Combined(parts=tuple(parts))
    with pytest.raises(
        ConfigError, match=rf"'{name.replace('+', '.')}' acts on a classifier, and .* choose one of none"
    ):
        build(CLASSIFYING.get(name, "bert"), method)


@needs_lab
def test_other_rows_are_not_read_in_front_of_two_texts() -> None:
    with pytest.raises(ConfigError, match="'history' reads other rows in front of one text"):
        build("bert", lab_methods.SETTINGS["history"])


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_family_learns_and_is_saved(family: str, tmp_path: Path) -> None:
    method = next(METHODS[name]() for name in OTHER if METHODS[name]().refusal(placement_for(family)) is None)
    model, given = build(family, method), batch()
    assert model.config.pooling == "mean"
    assert not [name for name, _ in model.named_parameters() if name.startswith("head")]
    assert_learns(model, given)
    with torch.no_grad():
        logits = model(**given).logits
    assert logits.shape == (ROWS, 2 * model.document_size)
    model.save_pretrained(tmp_path / "model")
    backbone = None
    if family not in WORD_FAMILIES:
        tiny_backbone(family).save_pretrained(tmp_path / "backbone")
        backbone = str(tmp_path / "backbone")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=backbone).eval()
    assert loaded.task == model.task
    with torch.no_grad():
        torch.testing.assert_close(loaded(**given).logits, logits)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), [*FITTING, ("injector+maa", "bert")])
def test_only_the_first_text_is_read_with_the_attributes(name: str, family: str) -> None:
    """Both vectors are those of single texts, the second one with every attribute missing."""
    parts = name.split("+")
    config = METHODS[name]() if len(parts) == 1 else Combined(parts=tuple(METHODS[part]() for part in parts))
    model, given = build(family, config).eval().double(), batch()
    ids = given["attribute_ids"]
    with torch.no_grad():
        found = model(**given).logits.view(ROWS, 2, -1)
        for place, own in enumerate((ids, torch.zeros_like(ids))):
            single = model.document_vectors(**alone(given, place, own))
            expected = torch.nn.functional.normalize(single, dim=1)
            torch.testing.assert_close(found[:, place], expected, rtol=0, atol=1e-10)
        others = model(**{**given, "attribute_ids": ids.roll(1, 0)}).logits.view(ROWS, 2, -1)
    torch.testing.assert_close(others[:, 1], found[:, 1], rtol=0, atol=1e-10)
    assert torch.equal(others[:, 0], found[:, 0]) == (not config.uses_attributes)
    model.float().train()
    model(**given).loss.backward()
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None], "all learn"


@pytest.mark.parametrize("form", ["scores", "triplets"])
def test_attributes_condition_the_texts_that_are_named(form: Any) -> None:
    task = Similarity(form=form, text_attributes="user", pair_attributes=["topic"])
    model, given = build("bert", task=task).eval(), batch(task.head.texts)
    ids = given["attribute_ids"]
    with torch.no_grad():
        logits = model(**given).logits
        vectors = [
            model.document_vectors(**alone(given, place, ids * torch.tensor([place == 0, place > 0])))
            for place in range(task.head.texts)
        ]
    cosines = [torch.cosine_similarity(vectors[0], other) for other in vectors[1:]]
    torch.testing.assert_close(logits, torch.stack(cosines, dim=1))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"task.pair_attributes has 'topics', .* did you mean 'topic'"):
        build("bert", task=Similarity(form="pairs", pair_attributes="topics"))
    with pytest.raises(ConfigError, match="no text is read with the attribute 'topic'"):
        build("bert", task=Similarity(form="pairs", text_attributes="user"))
    with pytest.raises(DataError, match=r"shape \(5, 9\), but the task 'similarity' compares 2 texts of each row"):
        build("bert")(**alone(batch(), 0, batch()["attribute_ids"]))
    with pytest.raises(DataError, match=r"shape \(5, 2, 9\), but the task 'similarity' compares 3 texts"):
        build("bert", task=Similarity(form="triplets"))(**batch())
    with pytest.raises(DataError, match="attribute_ids has shape"):
        build("bert")(**{**batch(), "attribute_ids": batch()["attribute_ids"][:, :1]})
