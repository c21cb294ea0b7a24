"""The doors of transformers: Auto classes, the pipeline, arguments of `from_pretrained` and of a pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import build_hf_headers
from tiny_models import make_batch, make_model
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

from attribune.apps.pipeline import AttributeClassificationPipeline
from attribune.backbones.architecture import ENCODER
from attribune.backbones.loading import LoadOptions, check_quantised_tuning, load_backbone, load_tokenizer
from attribune.backbones.sharing import SharedBackbones
from attribune.errors import AttribuneError, ConfigError, DataError
from attribune.methods import E2ln, Injector, Plain, Tokens, Upa
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.schema import Categorical, Schema
from attribune.tasks import Aspects, Classification, Ordinal, Rating, Regression, Task

SCHEMA = Schema.fit({"user": ["a", "b", "a"]}, [Categorical("user")])
METHOD = Injector(bottleneck=5, vector_size=7, initial_weight=0.5, initial_scale=0.3)
ROWS = [{"text": "the film was great", "user": "a"}, {"text": "a plot", "user": "b"}, {"text": "dull", "user": None}]


def build(backbone: Path, task: Task | None = None, **options: Any) -> AttributeModel:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    task = task or Classification(classes=("bad", "good"))
    settings = {"method": METHOD, "tokenizer": tokenizer, "text_input": "text", **options}
    return AttributeModel.build(str(backbone), SCHEMA, task=task, **settings).eval()


@pytest.fixture
def folder(backbone: Path, tmp_path: Path) -> Path:
    build(backbone).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.parametrize("auto", [AutoModel, AutoModelForSequenceClassification])
def test_auto_classes_load_the_same_model(auto: Any, folder: Path) -> None:
    model, again = AttributeModel.from_pretrained(folder), auto.from_pretrained(folder, attn_implementation="eager")
    assert isinstance(again, AttributeModel)
    assert again.backbone.config._attn_implementation == "eager"
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name)), name


def test_a_classifier_is_no_language_model(folder: Path) -> None:
    with pytest.raises(ConfigError, match="use AttributeModel, or load_model"):
        AutoModelForCausalLM.from_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "labels"),
    [
        (Classification(classes=("bad", "good")), ["bad", "good"]),
        (Rating(classes=("1", "2", "4")), ["1", "2", "4"]),
        (Aspects(names=("look", "taste"), classes=(("no", "yes"), ("0", "1"))), None),
        (Regression(mean=0.0, std=1.0), ["LABEL_0"]),
    ],
)
def test_labels_are_true_when_saved_and_loaded(
    backbone: Path, tmp_path: Path, task: Task, labels: list[str] | None
) -> None:
    build(backbone, task).save_pretrained(tmp_path)
    for config in (AutoConfig.from_pretrained(tmp_path), AttributeModel.from_pretrained(tmp_path).config):
        expected = labels or ["look_no", "look_yes", "taste_0", "taste_1"]
        assert config.id2label == dict(enumerate(expected))
        assert config.label2id == {name: number for number, name in enumerate(expected)}
        assert config.num_labels == task.outputs


@pytest.mark.slow
def test_the_pipeline_says_what_the_predictor_does(folder: Path) -> None:
    expected = Predictor.from_pretrained(folder, device="cpu").predict(ROWS)
    classify = pipeline("attribute-classification", model=str(folder), device="cpu")
    found = classify(ROWS)
    assert [row["label"] for row in found] == expected["prediction"]
    for number, row in enumerate(found):
        assert row["score"] == pytest.approx(expected[f"probability_{row['label']}"][number], abs=1e-6)
    assert classify("the film was great", user="a") == pytest.approx(found[0])
    assert list(classify(iter(ROWS))) == found
    ranked = classify(ROWS[1], top_k=None)
    assert ranked[0]["label"] == found[1]["label"]
    assert sum(row["score"] for row in ranked) == pytest.approx(1)
    with pytest.raises(DataError, match="did you mean 'user'"):
        classify("dull", usr="a")
    always = pipeline("attribute-classification", model=str(folder), device="cpu", user="a", top_k=2)
    for one, other in zip(always("the film was great"), classify("the film was great", user="a", top_k=2), strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert always("dull", user="b", top_k=1) == pytest.approx(classify("dull", user="b"), abs=1e-6)
    with pytest.raises(DataError, match="did you mean 'user'"):
        pipeline("attribute-classification", model=str(folder), device="cpu", usr="a")


def test_the_pipeline_refuses_what_has_no_classes(backbone: Path) -> None:
    with pytest.raises(ConfigError, match="this model's is 'regression': use Predictor"):
        AttributeClassificationPipeline(build(backbone, Regression(mean=0.0, std=1.0)), device="cpu")
    ordinal = build(backbone, Ordinal(classes=("1", "2", "3")))
    with pytest.raises(ConfigError, match="top_k is 0: give a whole number of at least 1"):
        AttributeClassificationPipeline(ordinal, device="cpu")("dull", top_k=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trust_remote_code": True}, "no code is ever run"),
        ({"subfolder": "model"}, "give the folder itself"),
        ({"devicemap": "cpu"}, "did you mean device_map"),
        ({"device_map": {"a": 0, "b": 1}}, "not spread over several"),
        ({"device_map": "cuda:99"}, r"device_map is 'cuda:99', and torch finds \d+ GPU"),
        ({"device_map": 99}, r"device_map is 'cuda:99', and torch finds \d+ GPU"),
        ({"device_map": "xpu:99"}, r"device_map is 'xpu:99', and torch finds \d+ GPU"),
        ({"device_map": "vulkan"}, r"device_map is 'vulkan', and torch finds 0 GPUs"),
        ({"load_in_4bit": True}, "give quantization_config"),
        ({"quantization_config": Plain()}, "quantization_config is Plain: .* there is none here"),
    ],
)
def test_arguments_are_refused_with_the_reason(
    folder: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=message):
        AttributeModel.from_pretrained(folder, **options)


def test_bits_are_for_matrices_that_do_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    for tuning in ("frozen", "layernorm", "lora:q,v:4"):
        check_quantised_tuning(tuning)
    with pytest.raises(ConfigError, match="quantised and cannot learn, and the tuning is 'top_1'"):
        check_quantised_tuning("top_1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    options = LoadOptions(quantization_config=object())
    with pytest.raises(ConfigError, match="share a backbone cannot have it in 4 or 8 bits"):
        SharedBackbones().load("x", revision=None, architecture=ENCODER, dtype=torch.float32, options=options)


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    asked: list[Any] = []

    def refuse(address: Any, *_: Any, **__: Any) -> None:
        asked.append(address)
        raise ConnectionRefusedError

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("socket.create_connection", refuse)
    build_hf_headers()  # in a process's first request, the hub's library asks for a list of its own
    asked.clear()
    for load in (load_backbone, load_tokenizer, AttributeModel.from_pretrained):
        with pytest.raises(AttribuneError, match="nobody/nothing") as caught:
            load("nobody/nothing")
        assert "\n" not in str(caught.value)
    assert asked == [("127.0.0.1", 9)] * 3, "once for each, and not again and again"


def test_states_of_layers_are_those_of_the_backbone() -> None:
    model, batch = make_model("bert", Plain()), make_batch(2)
    texts = {name: batch[name] for name in ("input_ids", "attention_mask")}
    output = model(**batch, output_hidden_states=True)
    expected = model.backbone(**texts, output_hidden_states=True)
    assert len(output.hidden_states) == 1 + model.backbone.config.num_hidden_layers
    for found, state in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(found, state)
    assert model(**batch).hidden_states is None
    model.config.output_hidden_states = True
    assert len(model(**batch, return_dict=False)) == 2


def test_attentions_where_the_backbone_keeps_them() -> None:
    model, batch = make_model("bert", METHOD), make_batch(2)
    with pytest.raises(ConfigError, match=r"the attention is sdpa, .* attn_implementation='eager'"):
        model(**batch, output_attentions=True)
    model.backbone.set_attn_implementation("eager")
    attentions = model(**batch, output_attentions=True).attentions
    assert len(attentions) == model.backbone.config.num_hidden_layers
    hidden = ~batch["attention_mask"].bool()[:, None, None].expand_as(attentions[0])
    for weights in attentions:
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
        assert not weights[hidden].any()


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_embeddings_stand_for_ids(family: str) -> None:
    model, batch = make_model(family, METHOD), make_batch(2)
    expected = model(**batch).logits
    embeddings = model.get_input_embeddings()(batch.pop("input_ids"))
    torch.testing.assert_close(model(inputs_embeds=embeddings, **batch).logits, expected)
    with pytest.raises(DataError, match="inputs_embeds have the shape"):
        model(inputs_embeds=embeddings[..., 1:], **batch)
    with pytest.raises(DataError, match="neither input_ids nor inputs_embeds"):
        model(**batch)


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        (Tokens(), {}, "the method 'tokens' puts its own"),
        (Upa(vector_size=7), {"chunk": 3}, "texts are cut into chunks"),
        (E2ln(vector_size=7), {}, "texts are cut into chunks"),
    ],
)
def test_embeddings_are_refused_where_ids_are_needed(method: Any, options: dict[str, Any], reason: str) -> None:
    model, batch = make_model("bert", method, **options), make_batch(2)
    embeddings = model.get_input_embeddings()(batch.pop("input_ids"))
    with pytest.raises(ConfigError, match=f"inputs_embeds cannot be read: {reason}"):
        model(inputs_embeds=embeddings, **batch)
