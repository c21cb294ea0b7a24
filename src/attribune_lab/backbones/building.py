"""Backbones without pretraining before their training: their words and word vectors are those of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from attribune.backbones.loading import build_backbone
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, DataError
from attribune.methods import MethodConfig
from attribune.runs.learner import BackboneRecipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData
from attribune_lab.backbones.options import WORD_MODELS
from attribune_lab.backbones.word_vectors import WordVectors, read_word_vectors
from attribune_lab.backbones.words import (
    SENTENCE_END,
    SentenceTokenizer,
    WordVocabulary,
    tokenized_words,
    word_tokenizer,
)

_MOST_WORDS = 100_000


def build_word_backbone(
    recipe: BackboneRecipe, method: MethodConfig, plan: DataPlan, data: PreparedData, reporter: Reporter
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return an untrained backbone, and its tokenizer.

    A word has a vector of its own if training rows have it ``min_count`` times, or if the file of word vectors has it.

    Raises:
        ConfigError: for word vectors of another size than the options say, or a backbone that needs too much memory.
        DataError: for a file of word vectors that cannot be read, or when no word would have a vector.
    """
    chosen = WORD_MODELS[recipe.name].from_dict(recipe.options)
    read = plan.task.input.read_texts(plan.text, data.splits["train"].table)
    texts = list(tokenized_words(read, tokenization=chosen.tokenization))
    words = {word for text in texts for word in text}
    vectors = None if recipe.word_vectors is None else read_word_vectors(recipe.word_vectors, words)
    known = frozenset(() if vectors is None else vectors.words)
    vocabulary = WordVocabulary.fit(texts, known=known, limit=_MOST_WORDS, min_count=chosen.min_count)
    if vectors is not None and not known:
        raise DataError(
            f"{recipe.word_vectors}: has none of the {len(words):,} words of the training rows: give vectors of their "
            "language"
        )
    if not vocabulary.words:
        raise DataError(
            f"none of the {len(words):,} words of the training rows occurs {_times(chosen.min_count)}, so "
            f"the backbone {recipe.name!r} would know no word: give more rows, word vectors, or a pretrained backbone"
        )
    from_file = f", {len(known):,} of them from {recipe.word_vectors}" if known else ""
    reporter.note(f"words: {len(vocabulary.words):,} of {len(words):,} have a vector of their own{from_file}")
    if vectors is None and not chosen.train_vectors:
        reporter.note("word vectors: random, and not trained; give pretrained ones, or leave train_vectors out")
    options = method.word_options(recipe.name, attributes=len(data.schema)) | dict(recipe.options)
    if vectors is not None and options.setdefault("embedding_size", vectors.size) != vectors.size:
        raise ConfigError(
            f"embedding_size is {options['embedding_size']}, but {recipe.word_vectors} has vectors of {vectors.size} "
            "numbers: leave it out"
        )
    tokenizer = word_tokenizer(vocabulary, tokenization=chosen.tokenization, language=chosen.sentence_language)
    settings: dict[str, Any] = {"vocab_size": len(tokenizer), "options": options}
    if isinstance(tokenizer, SentenceTokenizer):
        settings["sentence_end_id"] = tokenizer.convert_tokens_to_ids(SENTENCE_END)
    config = AutoConfig.for_model(chosen.model_type, **settings)
    config._name_or_path = recipe.name
    backbone = build_backbone(config)
    if vectors is not None:
        _fill(backbone.get_input_embeddings(), vocabulary, vectors)
    return backbone, tokenizer


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


@torch.no_grad()
def _fill(embeddings: nn.Module, vocabulary: WordVocabulary, vectors: WordVectors) -> None:
    ids = vocabulary.encode(vectors.words)
    has_id = ids >= len(vocabulary) - len(vocabulary.words)
    weight = embeddings.get_parameter("weight")
    weight[torch.from_numpy(ids[has_id])] = torch.from_numpy(np.ascontiguousarray(vectors.matrix[has_id]))
