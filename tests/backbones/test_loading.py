from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from families import EACH_KIND, FAMILIES, tiny_backbone
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from attribune.backbones import loading as module
from attribune.backbones.architecture import ENCODER, LANGUAGE_MODEL
from attribune.backbones.families import placement_for
from attribune.backbones.loading import (
    DEFAULT_BACKBONE,
    build_backbone,
    check_fingerprint,
    check_tokenizer,
    fingerprint,
    load_backbone,
    locate_backbone,
    pooling_of,
)
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods import Plain
from attribune.models.model import AttributeModel
from attribune.schema import Schema
from attribune.tasks import Classification

Factory = Callable[..., PreTrainedModel]
EVERY_FAMILY = [
    pytest.param(family, marks=[] if family in EACH_KIND else pytest.mark.exhaustive) for family in FAMILIES
]

T5S = ("t5", "mt5", "umt5")  # with one dropout for everything


# Building


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_no_pooler_and_no_head(model_type: str, tiny_config: Callable[[str], PreTrainedConfig]) -> None:
    backbone = build_backbone(tiny_config(model_type))
    assert backbone.config.model_type == model_type
    assert not [name for name, _ in backbone.named_parameters() if "pooler" in name or "lm_head" in name]
    if model_type == "t5":
        assert not [name for name, _ in backbone.named_parameters() if name.startswith("decoder")]


# Fingerprint


@pytest.mark.parametrize("model_type", EVERY_FAMILY)
def test_fingerprint_recognises_the_same_weights(model_type: str, tiny_backbone: Factory) -> None:
    one, two, other = tiny_backbone(model_type), tiny_backbone(model_type), tiny_backbone(model_type, seed=1)
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)
    two.train()
    two.requires_grad_(False)
    assert fingerprint(one) == fingerprint(two), "only the weights count"


def test_fingerprint_sees_one_changed_number_in_any_parameter(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    seen = {fingerprint(backbone)}
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.view(-1)[0] += 0.1
            seen.add(fingerprint(backbone))
    assert len(seen) == 1 + len(list(backbone.parameters()))


def test_fingerprint_sees_shape_and_name() -> None:
    def holding(name: str, weight: torch.Tensor) -> nn.Module:
        holder = nn.Module()
        holder.register_parameter(name, nn.Parameter(weight))
        return holder

    flat = torch.arange(200.0)
    marks = {
        fingerprint(holding("w", flat.view(10, 20))),
        fingerprint(holding("w", flat.view(20, 10))),
        fingerprint(holding("w", flat[:100].view(10, 10))),
        fingerprint(holding("v", flat.view(10, 20))),
    }
    assert len(marks) == 4


def test_other_weights_are_refused(tiny_backbone: Factory, tmp_path: Path) -> None:
    mark, other = (fingerprint(tiny_backbone("bert", seed=seed)) for seed in (0, 1))
    check_fingerprint(mark, mark, name="some/name", folder=tmp_path)
    with pytest.raises(ModelFolderError, match=rf"(?s)(?=.*{tmp_path})(?=.*'some/name')(?=.*backbone='FOLDER')"):
        check_fingerprint(other, mark, name="some/name", folder=tmp_path)


# Tokenizer


def tokenizer_of(words: int) -> PreTrainedTokenizerFast:
    """A tokenizer that knows as many words, the last of which was added."""
    known = WordLevel({f"w{number}": number for number in range(words - 1)}, unk_token="w0")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(known), pad_token="w0", unk_token="w0")
    tokenizer.add_tokens(["added"])
    return tokenizer


@pytest.mark.parametrize(
    ("model_type", "is_generative", "kind"),
    [
        ("bert", False, "AutoModel"),
        ("t5", False, "AutoModel"),
        ("gpt2", True, "AutoModelForCausalLM"),
        ("t5", True, "AutoModelForSeq2SeqLM"),
    ],
)
def test_a_tokenizer_longer_than_the_embeddings_is_refused_before_training(
    model_type: str, is_generative: bool, kind: str, tiny_backbone: Factory
) -> None:
    backbone = tiny_backbone(model_type, is_generative=is_generative)
    architecture = LANGUAGE_MODEL if is_generative else ENCODER
    known = backbone.get_input_embeddings().num_embeddings  # type: ignore[union-attr]
    check_tokenizer(tokenizer_of(known), backbone, name="bb", architecture=architecture)
    sizes = rf"has {known + 1:,} tokens, and the backbone 'bb' has embeddings for {known:,}: "
    with pytest.raises(ConfigError, match=rf"{sizes}.* model = {kind}\.from_pretrained\('bb'\)"):
        check_tokenizer(tokenizer_of(known + 1), backbone, name="bb", architecture=architecture)
    backbone.resize_token_embeddings(known + 1)  # the cure
    check_tokenizer(tokenizer_of(known + 1), backbone, name="bb", architecture=architecture)


def test_no_model_is_built_over_too_few_embeddings(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    long = tokenizer_of(backbone.get_input_embeddings().num_embeddings + 1)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="embeddings for"):
        AttributeModel.build(
            backbone, Schema([]), task=Classification(classes=("a", "b")), method=Plain(), tokenizer=long
        )


# Loading


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5"])
def test_a_saved_backbone_comes_back(model_type: str, tiny_backbone: Factory, tmp_path: Path) -> None:
    backbone = tiny_backbone(model_type)
    backbone.save_pretrained(tmp_path)
    loaded = load_backbone(str(tmp_path))
    assert fingerprint(loaded) == fingerprint(backbone)
    assert all(parameter.dtype == torch.float32 for parameter in loaded.parameters())
    backbone.to(torch.bfloat16).save_pretrained(tmp_path)
    half = load_backbone(str(tmp_path))
    assert all(parameter.dtype == torch.bfloat16 for parameter in half.parameters())


@pytest.mark.parametrize("kept", [0, 5])
def test_incomplete_weights(kept: int, tiny_backbone: Factory, tmp_path: Path) -> None:
    """Nothing stays random in silence."""
    backbone = tiny_backbone("bert")
    backbone.config.save_pretrained(tmp_path)
    tensors = dict(list(backbone.state_dict().items())[:kept]) or {"foreign.weight": torch.ones(2)}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lack 3[0-9] tensors of BertModel .* give complete weights"):
        load_backbone(str(tmp_path))


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def of_another_family(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "xlnet"}))


def configured(**settings: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (empty, r"the backbone .* could not be loaded .*Check the folder"),
        (cut, "could not be loaded"),
        (configured(hidden_size=96), "could not be loaded"),
        (of_another_family, "no placement for backbones of type 'xlnet'"),
        (configured(chunk_size_feed_forward=2), "chunk_size_feed_forward is 2"),
    ],
)
def test_a_folder_that_cannot_be_read_is_refused(
    damage: Callable[[Path], None], message: str, tiny_backbone: Factory, tmp_path: Path
) -> None:
    tiny_backbone("bert").save_pretrained(tmp_path)
    damage(tmp_path)
    with pytest.raises(ConfigError, match=message):
        load_backbone(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [one for one in EVERY_FAMILY if one.values[0] not in T5S])
def test_attention_dropout_replaces_the_pretrained_one(model_type: str, tiny_backbone: Factory, tmp_path: Path) -> None:
    """With the same draws, states differ by it alone; left out, it is that of the file."""
    tiny_backbone(model_type).save_pretrained(tmp_path)

    def states(attention_dropout: float | None) -> torch.Tensor:
        loaded = load_backbone(str(tmp_path), attention_dropout=attention_dropout).train()
        for part in loaded.modules():
            if isinstance(part, nn.Dropout) and part.p not in (0.0, 0.75):
                part.p = 0.0
        torch.manual_seed(0)
        states: torch.Tensor = loaded(torch.arange(5, 17)[None]).last_hidden_state
        return states

    none, much = states(0.0), states(0.75)
    torch.testing.assert_close(states(0.0), none)
    assert not torch.allclose(none, much, atol=1e-3)


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5"])
def test_attention_dropout_is_off_where_there_is_one(family: str, tiny_backbone: Factory, tmp_path: Path) -> None:
    tiny_backbone(family).save_pretrained(tmp_path)
    whole, without = (
        load_backbone(str(tmp_path), attention_dropout=choice).config.to_dict() for choice in (None, "off")
    )
    changed = {name: (value, without[name]) for name, value in whole.items() if without[name] != value}
    names = {"bert": "attention_probs_dropout_prob", "gpt2": "attn_pdrop"}
    assert changed == ({names[family]: (0.1, 0.0)} if family in names else {})


@pytest.mark.parametrize(
    ("family", "rate", "message"),
    [
        ("t5", 0.0, "'t5' have no dropout of the attention alone: leave attention_dropout out"),
        ("bert", 1.0, "attention_dropout is 1.0: it must be at least 0 and below 1"),
    ],
)
def test_attention_dropout_that_cannot_be_is_refused(
    family: str, rate: float, message: str, tiny_backbone: Factory, tmp_path: Path
) -> None:
    tiny_backbone(family).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=message):
        load_backbone(str(tmp_path), attention_dropout=rate)


# Where it is, and its document vector


def test_a_name_that_no_package_carries_is_left_as_it_is() -> None:
    assert locate_backbone("someone/some-model") == "someone/some-model"


def test_without_the_package_the_hub_name_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise module.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module.metadata, "distribution", missing)
    assert locate_backbone.__wrapped__(DEFAULT_BACKBONE) == DEFAULT_BACKBONE


@pytest.mark.parametrize(
    ("key", "pooling"),
    [("pooling_mode_cls_token", "first"), ("pooling_mode_mean_tokens", "mean"), ("pooling_mode_lasttoken", "last")],
)
def test_pooling_of_sentence_transformers(key: str, pooling: str, tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    settings = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 48}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({**settings, key: True}))
    assert pooling_of(str(tmp_path), placement_for("bert")) == pooling


@pytest.mark.parametrize(("model_type", "pooling"), [("bert", "first"), ("gpt2", "last"), ("t5", "mean")])
def test_pooling_of_the_family(model_type: str, pooling: str, tmp_path: Path) -> None:
    assert pooling_of(str(tmp_path), placement_for(model_type)) == pooling


POSITIONS = {
    **dict.fromkeys(("bert", "ernie", "rembert", "distilbert", "albert", "electra", "gpt2", "mbart"), 67),
    **dict.fromkeys(("roberta", "camembert", "roberta-prelayernorm", "mpnet"), 65),
    **dict.fromkeys(("deberta-v2", "llama", "t5")),
}


@pytest.mark.parametrize(("family", "positions"), POSITIONS.items())
def test_the_longest_text_is_that_of_tokenizer_and_positions(
    tiny_backbone: Factory, family: str, positions: int | None
) -> None:
    model = AttributeModel.build(tiny_backbone(family), Schema([]), task=Classification(classes=2), method=Plain())
    assert model.longest_text() == positions
    for limit, expected in ((10**30, positions), (31, 31), (512, positions or 512)):
        model.tokenizer = SimpleNamespace(model_max_length=limit)  # type: ignore[assignment]
        assert model.longest_text() == expected


@pytest.mark.slow
def test_threads_that_load_at_once_leave_transformers_as_it_was(tmp_path: Path) -> None:
    """It exchanges a function of all models while one is loaded; the head of each is tied, then and later."""
    tie_weights = PreTrainedModel.tie_weights
    tiny_backbone("gpt2", is_generative=True).save_pretrained(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: load_backbone(str(tmp_path), architecture=LANGUAGE_MODEL), range(24)))
    assert PreTrainedModel.tie_weights is tie_weights
    assert all(model.lm_head.weight is model.transformer.wte.weight for model in loaded)
