"""Embeddings of added tokens: they begin as the mean, learn with every tuning, and are stored with the model."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_methods import needs_lab
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attribune.backbones.added_tokens import is_added, known_embeddings
from attribune.backbones.sharing import SharedBackbones
from attribune.errors import ConfigError
from attribune.export.peft_folder import _check_lora
from attribune.methods import Injector, Plain
from attribune.methods.merging import MergedMethod
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.runs.recipe import Recipe, TrainingRecipe
from attribune.schema import Categorical, Schema
from attribune.tasks import Classification
from attribune.training.optimizer import build_optimizer

Factory = Callable[..., PreTrainedModel]
SCHEMA = Schema.fit({"user": ["a", "b", "a"]}, [Categorical("user")])
TASK = Classification(classes=2)
ADDED = ["<title>", "<body>"]
KINDS = ["bert", "gpt2", "t5", "bart"]  # T5 has one module for two names, and the last multiplies embeddings


def tokenizer_of(backbone: PreTrainedModel) -> PreTrainedTokenizerFast:
    """One that has two tokens more than the backbone has embeddings."""
    count = known_embeddings(backbone)
    known = WordLevel({f"w{number}": number for number in range(count)}, unk_token="w0")
    inner = Tokenizer(known)
    inner.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w1", unk_token="w0")
    tokenizer.add_tokens(ADDED)
    return tokenizer


def folder_of(backbone: PreTrainedModel, folder: Path) -> str:
    backbone.save_pretrained(folder)
    return str(folder)


def built(backbone: str | PreTrainedModel, tokenizer: PreTrainedTokenizerFast, **options: Any) -> AttributeModel:
    """A model that trains the added tokens, in evaluation mode."""
    settings: dict[str, Any] = {"method": Injector(bottleneck=8, vector_size=8), "tuning": "frozen", **options}
    model = AttributeModel.build(
        backbone, SCHEMA, task=TASK, tokenizer=tokenizer, text_input="text", added_tokens="train", **settings
    )
    return model.eval()


def rows_of(model: AttributeModel) -> str:
    return next(name for name in model.learned_names() if is_added(name))


def batch(tokens: list[int]) -> dict[str, torch.Tensor]:
    ids = torch.tensor([tokens])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "attribute_ids": torch.tensor([[1]])}


@pytest.mark.parametrize("kind", KINDS)
def test_they_begin_as_the_mean_and_change_nothing_else(kind: str, tiny_backbone: Factory) -> None:
    plain, backbone = tiny_backbone(kind), tiny_backbone(kind)
    tokenizer, known = tokenizer_of(plain), known_embeddings(plain)
    model = built(backbone, tokenizer)
    pretrained, embeddings = plain.get_input_embeddings(), model.get_input_embeddings()
    with torch.no_grad():
        expected = pretrained(torch.arange(known)).mean(dim=0)
        found = embeddings(torch.tensor([[3, known, 5, known + 1]]))
        torch.testing.assert_close(found[0, 1], expected)
        torch.testing.assert_close(found[0, 3], expected)
        assert torch.equal(found[0, ::2], pretrained(torch.tensor([3, 5])))
    assert known_embeddings(model.backbone) == len(tokenizer) == known + 2


@pytest.mark.parametrize("tuning", ["frozen", "full", "layernorm", "lora:q,v:2"])
@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_they_learn_with_every_tuning_and_are_loaded(
    kind: str, tuning: str, tiny_backbone: Factory, tmp_path: Path
) -> None:
    backbone = tiny_backbone(kind)
    known, tokenizer = known_embeddings(backbone), tokenizer_of(backbone)
    model = built(folder_of(backbone, tmp_path / "backbone"), tokenizer, tuning=tuning)
    settings = TrainingRecipe(learning_rate=0.1, backbone_learning_rate=1e-9)
    optimizer, name = build_optimizer(model, settings), rows_of(model)
    given = batch([3, known, 7]) | {"labels": torch.tensor([1])}
    model.train()(**given).loss.backward()
    gradient = model.get_parameter(name).grad
    assert gradient is not None
    assert gradient[0].abs().sum() > 0
    assert gradient[1].abs().sum() == 0, "the other token is not in the batch"
    before = model.get_parameter(name).detach().clone()
    optimizer.step()
    assert (model.get_parameter(name)[0] - before[0]).abs().max() > 1e-3, "at the rate of what is new"
    model.eval().save_pretrained(tmp_path / "model")
    assert load_file(tmp_path / "model/model.safetensors")[name].shape == (2, before.shape[1])
    assert json.loads((tmp_path / "model/config.json").read_text())["added_tokens"] == 2
    loaded = AttributeModel.from_pretrained(tmp_path / "model")
    shared = AttributeModel.from_pretrained(tmp_path / "model", shared=SharedBackbones())
    copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        expected = model(**batch([3, known, 7, known + 1])).logits
        for other in (loaded, shared, copied, pickled):
            assert torch.equal(other(**batch([3, known, 7, known + 1])).logits, expected)


def test_the_embeddings_of_a_shared_backbone_stay(tiny_backbone: Factory, tmp_path: Path) -> None:
    backbone = tiny_backbone("bert")
    folder, tokenizer = folder_of(backbone, tmp_path / "backbone"), tokenizer_of(backbone)
    built(folder, tokenizer, method=Plain()).save_pretrained(tmp_path / "added")
    AttributeModel.build(folder, SCHEMA, task=TASK, method=Plain(), tuning="frozen").save_pretrained(tmp_path / "plain")
    shared = SharedBackbones()
    added = AttributeModel.from_pretrained(tmp_path / "added", shared=shared)
    plain = AttributeModel.from_pretrained(tmp_path / "plain", shared=shared)
    assert known_embeddings(added.backbone) == known_embeddings(plain.backbone) + 2
    assert plain.batch_refusal() is None
    assert added.batch_refusal() == "it has tokens of its own"


def test_a_predictor_reads_texts_with_them(tiny_backbone: Factory, tmp_path: Path) -> None:
    backbone = tiny_backbone("bert")
    model = built(folder_of(backbone, tmp_path / "backbone"), tokenizer_of(backbone))
    with torch.no_grad():
        model.get_parameter(rows_of(model)).normal_(std=20)
    model.save_pretrained(tmp_path / "model")
    for dtype in ("float32", "bfloat16", "auto"):
        loaded = AttributeModel.from_pretrained(tmp_path / "model", dtype=dtype)
        assert loaded.get_parameter(rows_of(loaded)).dtype == torch.float32
        assert loaded.backbone.dtype == (torch.bfloat16 if dtype == "bfloat16" else torch.float32)
    predictor = Predictor.from_pretrained(tmp_path / "model")
    found = predictor.predict({"text": ["w5 <title> w6", "w5 <body> w6"], "user": ["a", "a"]})
    assert len(set(found["probability_1"])) == 2


def test_what_cannot_have_them_says_so(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    options: dict[str, Any] = {"task": TASK, "method": Plain()}
    with pytest.raises(ConfigError, match="needs the tokenizer that has them"):
        AttributeModel.build(backbone, SCHEMA, added_tokens="train", **options)
    with pytest.raises(ConfigError, match="added_tokens is 'yes': choose refuse or train"):
        AttributeModel.build(backbone, SCHEMA, added_tokens="yes", tokenizer=tokenizer_of(backbone), **options)  # type: ignore[arg-type]
    model = built(backbone, tokenizer_of(backbone))
    with pytest.raises(ConfigError, match="belongs to another AttributeModel"):
        built(backbone, tokenizer_of(backbone))
    with pytest.raises(ConfigError, match="added tokens are trained, which a folder of peft does not hold"):
        _check_lora(model, MergedMethod(config=Plain()))


@needs_lab
@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"task": {"kind": "generation"}, "data": {"text": ["text"]}}, "a model that writes text"),
        ({"method": {"name": "linear"}}, "method 'linear'"),
        ({"backbone": {"name": "cnn"}}, "is not for the backbone 'cnn'"),
    ],
)
def test_recipes_that_cannot_have_them(settings: dict[str, Any], what: str) -> None:
    data: dict[str, Any] = {"text": ["text"], "label": "label", "attributes": [{"name": "user"}]}
    backbone = {"added_tokens": "train", **settings.get("backbone", {})}
    tree = {"data": {"train": "t.csv", **data}, **settings, "backbone": backbone}
    if "task" in settings:
        tree["data"] = {"train": "t.csv", "text": ["text"], "attributes": [{"name": "user"}]}
    with pytest.raises(ConfigError, match=what):
        Recipe.from_dict(tree)


def test_without_added_tokens_nothing_is_added(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer_of(backbone)._tokenizer, pad_token="w1")
    embeddings = known_embeddings(backbone)
    tokenizer._tokenizer = Tokenizer(WordLevel({f"w{n}": n for n in range(embeddings)}, unk_token="w0"))
    model = built(backbone, tokenizer)
    assert model.config.added_tokens == 0
    assert not any(map(is_added, model.state_dict()))
