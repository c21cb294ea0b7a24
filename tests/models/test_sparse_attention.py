"""A saved model of a backbone with sparse attention reads as it did in training."""

from __future__ import annotations

from pathlib import Path

import small_runs
import torch
from tiny_models import make_schema

from attribune.backbones.loading import load_tokenizer
from attribune.data.texts import TextInput
from attribune.data.windows import parse_window
from attribune.methods import Tokens
from attribune.models.auto import load_model
from attribune.models.model import AttributeModel
from attribune.tasks import Classification


def test_a_loaded_model_has_the_attention_and_the_length_of_the_saved_one(tmp_path: Path) -> None:
    backbone = str(small_runs.save_backbone(tmp_path / "backbone", model_type="big_bird"))
    schema = make_schema(1)
    for size, kind in ((8, "original_full"), (40, "block_sparse")):
        model = AttributeModel.build(
            backbone,
            schema,
            task=Classification(classes=3),
            method=Tokens(),
            tokenizer=load_tokenizer(backbone),
            text_input=TextInput(columns=("text",), window=parse_window("head", max_length=size)),
        ).eval()
        model.save_pretrained(str(tmp_path / f"model-{size}"))
        loaded = load_model(tmp_path / f"model-{size}")
        assert (model.backbone.attention_type, loaded.backbone.attention_type) == (kind, kind)
        assert loaded.padded_length == model.padded_length
        batch = {"input_ids": torch.randint(5, 60, (2, size)), "attribute_ids": torch.tensor([[1, 2, 0], [3, 0, 0]])}
        torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits, rtol=0, atol=1e-6)
