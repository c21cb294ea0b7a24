"""Decoders that the placement table lacks: recognised by what their layers compute, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from families import VOCABULARY, assert_learns
from transformers import AutoConfig, PreTrainedModel

from attribune import AttributeModel, Classification, Schema
from attribune.backbones.families import PLACEMENTS, placement_for, writing_placement_for
from attribune.backbones.loading import build_backbone, load_backbone
from attribune.backbones.recognised import recognised
from attribune.errors import ConfigError
from attribune.methods import METHODS

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SCHEMA = Schema.fit({"user": ["a", "b", "a", "c"]}, ["user"])


def backbone_of(model_type: str, **settings: object) -> PreTrainedModel:
    torch.manual_seed(0)
    return build_backbone(AutoConfig.for_model(model_type, **SIZES, **settings)).eval()


@pytest.mark.parametrize("method", ["injector", "plora", "pln"])
@pytest.mark.parametrize(
    "family",
    ["starcoder2", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("stablelm", "seed_oss", "helium"))],
)
def test_a_recognised_family_learns_and_is_saved(family: str, method: str, tmp_path: Path) -> None:
    assert not any(family in row.model_types for row in PLACEMENTS)
    assert placement_for(family).is_recognised
    assert writing_placement_for(family) == placement_for(family)
    backbone = backbone_of(family)
    backbone.save_pretrained(tmp_path / "backbone")
    task = Classification(classes=("good", "bad"))
    model = AttributeModel.build(backbone, SCHEMA, task=task, method=METHODS[method]())
    ids = torch.randint(5, VOCABULARY, (4, 9), generator=torch.Generator().manual_seed(1))
    attributes = torch.from_numpy(SCHEMA.encode({"user": ["a", "b", "a", "c"]})[0])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "attribute_ids": attributes}
    assert_learns(model, {**given, "labels": torch.tensor([0, 1, 0, 1])})
    model.save_pretrained(tmp_path / "model")
    again = AttributeModel.from_pretrained(tmp_path / "model", backbone=tmp_path / "backbone")
    torch.testing.assert_close(again(**given).logits, model(**given).logits)


@pytest.mark.parametrize("settings", [{"use_parallel_residual": True}])
def test_a_model_whose_layers_are_laid_out_otherwise_is_refused(settings: dict[str, object], tmp_path: Path) -> None:
    refusal = "backbone of type 'stablelm': it has no module layers.0.post_attention_layernorm: choose another"
    with pytest.raises(ConfigError, match=refusal):
        backbone_of("stablelm", **settings)
    backbone = backbone_of("stablelm")
    backbone.config.update(settings)
    backbone.save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match=refusal):
        load_backbone(str(tmp_path / "other"))


def test_a_family_is_recognised_wherever_tensors_are_made() -> None:
    recognised.cache_clear()
    with torch.device("meta"):
        assert placement_for("starcoder2").is_recognised


@pytest.mark.parametrize("family", ["nemotron", "bloom", "clip", "nothing"])
def test_other_families_are_refused_with_those_of_the_table(family: str) -> None:
    with pytest.raises(ConfigError, match=f"no placement for backbones of type '{family}'"):
        placement_for(family)
