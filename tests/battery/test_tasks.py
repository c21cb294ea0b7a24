"""Tasks that compare texts, and tasks that score tokens, with every method and on every backbone family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lab_methods
import pytest
import torch
from families import EACH_KIND, FAMILIES, KIN, VOCABULARY, WORD_FAMILIES, assert_learns, tiny_backbone
from lab_methods import needs_lab
from torch import Tensor

from attribune.backbones.families import placement_for
from attribune.errors import ConfigError, DataError
from attribune.methods import (
    METHODS,
    Adapter,
    Combined,
    E2ln,
    Injector,
    MethodConfig,
    Plora,
    Tokens,
    check_reads_tokens,
)
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Preference, Regression, Similarity, Spans, Tags, Task

ROWS, LENGTH = 5, 9
SIZES = torch.tensor([[9, 4, 3], [2, 7, 5], [7, 7, 9], [1, 3, 2], [5, 9, 6]])  # of the texts of each row
TASKS: dict[str, Task] = {
    "preference": Preference(),
    "pairs": Similarity(form="pairs"),
    "scores": Similarity(form="scores", text_attributes="user", pair_attributes=["topic"]),
    "triplets": Similarity(form="triplets", text_attributes="user", pair_attributes=["topic"]),
    "tags": Tags(classes=["O", "B", "I"], scheme="conll"),
    "spans": Spans(),
}
LABELS = {"preference": [0, 1, 0, 0, 1], "pairs": [7, 1, 7, 3, 4]}
TOKENS = ("tags", "spans")
SCHEMA = Schema.fit({"user": ["a", "b", "c"], "topic": ["x", "y", "x"]}, [Categorical("user"), Categorical("topic")])
METHOD = Injector(bottleneck=5, vector_size=13)


def config_of(name: str) -> MethodConfig:
    """The defaults of a method, or of a sum of methods."""
    parts = [METHODS[part]() for part in name.split("+")]
    return parts[0] if len(parts) == 1 else Combined(parts=tuple(parts))


def build(family: str, task: str | Task, method: MethodConfig = METHOD, **options: Any) -> AttributeModel:
    """A model whose method is moved away from its initial values."""
    torch.manual_seed(0)
    task = TASKS[task] if isinstance(task, str) else task
    if not isinstance(task, Similarity):
        options = {"dropout": 0.0, **options}
    model = AttributeModel.build(tiny_backbone(family), SCHEMA, task=task, method=method, **options)
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def batch(task: str, *, texts: int = 2) -> dict[str, Tensor]:
    """The texts of each row, or its one window, padded on the right, as the collator has them."""
    generator = torch.Generator().manual_seed(3)
    sizes = SIZES[:, 0] if task in TOKENS else SIZES[:, :texts]
    mask = (torch.arange(LENGTH) < sizes[..., None]).long()
    return {
        "input_ids": torch.randint(5, VOCABULARY, mask.shape, generator=generator) * mask,
        "attention_mask": mask,
        "attribute_ids": torch.tensor([[2, 1], [1, 2], [2, 1], [3, 1], [int(task == "pairs"), 1]]),
        "labels": token_labels(task, mask) if task in TOKENS else torch.tensor(LABELS.get(task, LABELS["pairs"])),
    }


def token_labels(task: str, mask: Tensor) -> Tensor:
    """Of two in three real tokens a class, or the first and last token of an answer."""
    labels = torch.randint(0, 2, mask.shape, generator=torch.Generator().manual_seed(4))
    labels = torch.where(mask.bool() & (torch.arange(LENGTH) % 3 > 0), labels, -100)
    if task == "spans":
        labels = labels.clamp(max=0)
        labels[:, 0] = 1
        labels[torch.arange(ROWS), torch.tensor([4, 1, 5, 0, 0])] += 2
    return labels


def alone(given: dict[str, Tensor], place: int, attribute_ids: Tensor | None = None) -> dict[str, Tensor]:
    """One of the texts of each row, as rows of a task with one text."""
    texts = {name: given[name][:, place] for name in ("input_ids", "attention_mask")}
    return texts | {"attribute_ids": given["attribute_ids"] if attribute_ids is None else attribute_ids}


# Every family


OTHER = ("injector", "upa", "concat-text")  # the first that fits a family
EVERY_FAMILY = [
    pytest.param(task, family, marks=[] if family in EACH_KIND and task != "spans" else pytest.mark.exhaustive)
    for task in ("preference", "pairs", *TOKENS)
    for family in (*FAMILIES, *(WORD_FAMILIES if task not in TOKENS else ()))
    if family not in KIN and (task, family) != ("spans", "bert")
]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("task", "family"), [("spans", "bert"), *EVERY_FAMILY])
def test_every_family_learns_and_is_saved(task: str, family: str, tmp_path: Path) -> None:
    method = next(config for config in map(config_of, OTHER) if config.refusal(placement_for(family)) is None)
    model, given = build(family, task, method), batch(task)
    assert_learns(model, given)
    logits = model(**given).logits.detach()
    if task in TOKENS:
        check_rows_do_not_see_each_other(model, given)
    if task == "pairs":
        assert model.config.pooling == "mean"
        assert not [name for name, _ in model.named_parameters() if name.startswith("head")]
    numbers = {"preference": (2,), "pairs": (2 * model.document_size,)}.get(task, (LENGTH, model.task.outputs))
    assert logits.shape == (ROWS, *numbers)
    model.save_pretrained(tmp_path / "model")
    backbone = None
    if family not in WORD_FAMILIES:
        tiny_backbone(family).save_pretrained(tmp_path / "backbone")
        backbone = str(tmp_path / "backbone")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=backbone).eval()
    assert loaded.task == model.task
    torch.testing.assert_close(loaded(**given).logits.detach(), logits)


@torch.no_grad()
def check_rows_do_not_see_each_other(model: AttributeModel, given: dict[str, Tensor]) -> None:
    together = model(**given).logits
    for row, size in enumerate(SIZES[:, 0].tolist()):
        ids, attribute_ids = given["input_ids"][row : row + 1, :size], given["attribute_ids"][row : row + 1]
        logits = model(input_ids=ids, attribute_ids=attribute_ids).logits
        torch.testing.assert_close(logits[0], together[row, :size], rtol=0, atol=1e-5)
    assert model.row_losses(together, given["labels"]).shape == (ROWS,)


# Every method, on a task that compares texts


def reads_one_text(method: MethodConfig) -> bool:
    return method.refusal(placement_for("bert")) is None and "text" not in method.points


def compares(method: MethodConfig) -> bool:
    """Whether a method acts on no classifier."""
    return reads_one_text(method) and "classify" not in method.points and not method.has_classifiers


REWARDING = [(name, "bert") for name, kind in METHODS.items() if reads_one_text(kind())]
COMPARING = [(name, "bert") for name, kind in METHODS.items() if compares(kind())]
CLASSIFYING = {"chim": "bert", "injector+chim": "bert"}
if lab_methods.HAS_LAB:
    REWARDING += [("basis", "word-bilstm"), ("hcsc", "word-bilstm"), ("concat-text", "word-tang-cnn")]
    COMPARING += [("hcsc", "word-bilstm"), ("concat-text", "word-tang-cnn"), ("la", "word-hierarchical")]
    CLASSIFYING |= {"basis": "word-bilstm", "upnn": "word-tang-cnn", "huapa": "word-hierarchical"}


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), [*REWARDING, ("injector+chim", "bert")])
def test_a_reward_is_that_of_the_text_alone_with_its_rows_attributes(name: str, family: str) -> None:
    """With the same weights a task with one text and one output gives the same number."""
    config, given = config_of(name), batch("preference")
    model, single = (build(family, task, config).eval() for task in ("preference", Regression()))
    single.load_state_dict(model.state_dict())
    model, single = model.double(), single.double()
    with torch.no_grad():
        rewards = model(**given).logits
        expected = torch.cat([single(**alone(given, place)).logits for place in range(2)], dim=1)
        torch.testing.assert_close(rewards, expected, rtol=0, atol=1e-10)
        swapped = given | {key: given[key].flip(1) for key in ("input_ids", "attention_mask")}
        torch.testing.assert_close(model(**swapped).logits, rewards.flip(1), rtol=0, atol=1e-10)
        others = model(**{**given, "attribute_ids": given["attribute_ids"].roll(1, 0)}).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model.float()(**given).logits
    assert torch.equal(others, rewards) == (not config.uses_attributes)
    assert rounded.dtype == torch.float32
    assert (rounded.bfloat16() != rounded).any(), "rewards are not rounded to bf16"


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), REWARDING)
def test_ties_are_learned_with_every_method(name: str, family: str) -> None:
    model, given = build(family, Preference(learn_ties=True), config_of(name)).train(), batch("preference")
    model(**{**given, "labels": torch.tensor([0, 1, 2, 2, 0])}).loss.backward()
    assert model.link.log_nu.grad.abs() > 0
    with torch.no_grad():
        r_1, r_2, of_tie = model.eval()(**given).logits.T
        torch.testing.assert_close(of_tie, model.link.log_nu + (r_1 + r_2) / 2)
        rewards = model.rewards(**{key: x for key, x in alone(given, 0).items() if key != "labels"})
    torch.testing.assert_close(rewards, r_1, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [E2ln(vector_size=13), Tokens(), METHOD])
def test_candidates_are_cut_into_chunks_of_their_own(method: MethodConfig) -> None:
    model, single = (build("bert", task, method, chunk=4).eval() for task in ("preference", Regression()))
    single.load_state_dict(model.state_dict())
    given = batch("preference")
    with torch.no_grad():
        expected = torch.cat([single(**alone(given, place)).logits for place in range(2)], dim=1)
        torch.testing.assert_close(model(**given).logits, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Injector(attribute_dropout=0.5), Plora(attribute_dropout=0.5)])
def test_both_texts_lose_the_same_attributes(method: MethodConfig) -> None:
    """With the same text twice, in training, the two rewards of a row are one number."""
    model, given = build("bert", "preference", method), batch("preference")
    for name in ("input_ids", "attention_mask"):
        given[name] = given[name][:, :1].repeat(1, 2, 1)
    model.train()
    model.backbone.eval()
    for seed in range(5):
        torch.manual_seed(seed)
        first, second = model(**given).logits.T
        torch.testing.assert_close(first, second)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "family"), [*COMPARING, ("injector+maa", "bert")])
def test_only_the_first_text_is_read_with_the_attributes(name: str, family: str) -> None:
    """Both vectors are those of single texts, the second one with every attribute missing."""
    config, given = config_of(name), batch("pairs")
    model, ids = build(family, "pairs", config).eval().double(), given["attribute_ids"]
    with torch.no_grad():
        found = model(**given).logits.view(ROWS, 2, -1)
        for place, own in enumerate((ids, torch.zeros_like(ids))):
            expected = torch.nn.functional.normalize(model.document_vectors(**alone(given, place, own)), dim=1)
            torch.testing.assert_close(found[:, place], expected, rtol=0, atol=1e-10)
        others = model(**{**given, "attribute_ids": ids.roll(1, 0)}).logits.view(ROWS, 2, -1)
    torch.testing.assert_close(others[:, 1], found[:, 1], rtol=0, atol=1e-10)
    assert torch.equal(others[:, 0], found[:, 0]) == (not config.uses_attributes)
    model.float().train()
    model(**given).loss.backward()
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None], "all learn"


@pytest.mark.parametrize("task", ["scores", "triplets"])
def test_attributes_condition_the_texts_that_are_named(task: str) -> None:
    model = build("bert", task).eval()
    texts = model.task.head.texts
    given = batch(task, texts=texts)
    with torch.no_grad():
        vectors = [
            model.document_vectors(**alone(given, place, given["attribute_ids"] * torch.tensor([not place, place > 0])))
            for place in range(texts)
        ]
        cosines = [torch.cosine_similarity(vectors[0], other) for other in vectors[1:]]
        torch.testing.assert_close(model(**given).logits, torch.stack(cosines, dim=1))


# Every method, on a task that scores tokens


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_methods_act_in_token_states_or_are_refused(method: str) -> None:
    config = METHODS[method]()
    if {*config.points} & {"text", "pool", "classify"}:
        with pytest.raises(ConfigError, match=r"scores tokens: choose one of .*injector.*, or a sum of them"):
            build("bert", "tags", config)
        return
    check_reads_tokens(config, task="tags")
    model, given = build("bert", "tags", config).eval(), batch("tags")
    with torch.no_grad():
        logits = model(**given).logits
        other = model(**{**given, "attribute_ids": given["attribute_ids"].roll(1, 0)}).logits
    assert logits.shape == (ROWS, LENGTH, 3)
    assert torch.equal(logits, other) == (not config.uses_attributes)


# What cannot be


@pytest.mark.parametrize("name", CLASSIFYING)
def test_methods_at_a_classifier_do_not_compare_vectors(name: str) -> None:
    acts = rf"'{name.replace('+', '.')}' acts on a classifier, and .* choose one of none"
    with pytest.raises(ConfigError, match=acts):
        build(CLASSIFYING[name], "pairs", config_of(name))


@needs_lab
@pytest.mark.parametrize(("task", "named"), [("preference", ", and the task 'preference'"), ("pairs", "")])
def test_other_rows_are_not_read_in_front_of_two_texts(task: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"'history' puts more in front of one text{named}"):
        build("bert", task, lab_methods.SETTINGS["history"])


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"task.pair_attributes has 'topics', .* did you mean 'topic'"):
        build("bert", Similarity(form="pairs", pair_attributes="topics"))
    with pytest.raises(ConfigError, match="no text is read with the attribute 'topic'"):
        build("bert", Similarity(form="pairs", text_attributes="user"))
    with pytest.raises(ConfigError, match="chunk is 4: the task 'tags' has windows"):
        build("bert", "tags", Adapter(bottleneck=5), chunk=4)


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        (
            "preference",
            alone(batch("preference"), 0),
            r"shape \(5, 9\), but the task 'preference' compares 2 texts of",
        ),
        ("pairs", alone(batch("pairs"), 0), r"shape \(5, 9\), but the task 'similarity' compares 2 texts of each row"),
        ("triplets", batch("pairs"), r"shape \(5, 2, 9\), but the task 'similarity' compares 3 texts"),
        ("pairs", batch("pairs") | {"attribute_ids": torch.tensor([[2]] * 5)}, "attribute_ids has shape"),
    ],
)
def test_a_batch_of_another_shape_is_refused(task: str, given: dict[str, Tensor], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build("bert", task)(**given)
