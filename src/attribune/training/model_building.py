"""Untrained models, as a plan has them."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribune.backbones.loading import load_tokenizer
from attribune.core.progress import Reporter
from attribune.models.base import ConditionedModel
from attribune.models.generator import AttributeGenerator
from attribune.models.model import AttributeModel
from attribune.models.transfer import AttributeSource
from attribune.training.plan import DataPlan, ModelPlan
from attribune.training.preparation import PreparedData
from attribune.training.word_backbone import build_word_backbone, continued_word_backbone

__all__ = ["build_model"]


def build_model(plan: ModelPlan, source: DataPlan, data: PreparedData, reporter: Reporter) -> ConditionedModel:
    """Build the untrained model, with parameters transferred from another run."""
    backbone = plan.backbone
    loaded: str | PreTrainedModel = backbone.name
    tokenizer: PreTrainedTokenizerBase | None
    if backbone.is_pretrained:
        tokenizer = load_tokenizer(backbone.name, revision=backbone.revision)
    elif plan.transfer is not None and plan.transfer.full_model:
        loaded, tokenizer = continued_word_backbone(plan.transfer.run)
    else:
        loaded, tokenizer = build_word_backbone(backbone, plan.method, source, data, reporter)
    options: dict[str, Any] = {
        "task": data.task,
        "method": plan.method,
        "tuning": plan.tuning,
        "attention_dropout": backbone.attention_dropout,
        "revision": backbone.revision,
        "tokenizer": tokenizer,
        "text_input": source.text,
    }
    if not source.is_generative:
        options |= {"pooling": backbone.pooling, "dropout": backbone.dropout, "head_size": backbone.head_size}
        options |= {"chunk_encoder": backbone.chunk_encoder, "added_tokens": backbone.added_tokens}
    kind = AttributeGenerator if source.is_generative else AttributeModel
    model: ConditionedModel = kind.build(loaded, data.schema, **options)
    if plan.transfer is not None:
        transferred = AttributeSource.load(plan.transfer.run)
        transferred.load_into(model, frozen=plan.transfer.frozen, full_model=plan.transfer.full_model)
    return model
