"""Backbones without pretraining before their training: their words and word vectors are those of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerFast

from attribune.backbones.word_models import WORD_MODELS, WordConfig
from attribune.core.progress import Reporter
from attribune.data.word_tokenizer import word_tokenizer
from attribune.data.word_vectors import WordVectors, read_word_vectors
from attribune.data.words import WordVocabulary, split_words
from attribune.errors import ConfigError, DataError
from attribune.runs.recipe import BackboneRecipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData

__all__ = ["build_word_backbone"]

_MOST_WORDS = 100_000


def build_word_backbone(
    recipe: BackboneRecipe, plan: DataPlan, data: PreparedData, reporter: Reporter
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Return an untrained backbone, and its tokenizer.

    A word has a vector of its own if training rows have it twice, or if the file of word vectors has it.

    Raises:
        ConfigError: for options that the backbone does not have.
        DataError: for a file of word vectors that cannot be read, or has none of the words.
    """
    texts = [split_words(text) for text in plan.text.read_all(data.splits["train"].table)]
    vectors = None
    if recipe.word_vectors is not None:
        words = {word for text in texts for word in text}
        vectors = read_word_vectors(recipe.word_vectors, words)
        if not vectors.words:
            raise DataError(
                f"{recipe.word_vectors}: has none of the {len(words):,} words of the training rows: give vectors of "
                "their language"
            )
        reporter.note(f"word vectors of {vectors.size} numbers for {len(vectors.words):,} of {len(words):,} words")
    vocabulary = WordVocabulary.fit(texts, known=frozenset(vectors.words if vectors else ()), limit=_MOST_WORDS)
    backbone = AutoModel.from_config(_config(recipe, vocabulary, vectors))
    if vectors is not None:
        _fill(backbone, vocabulary, vectors)
    return backbone, word_tokenizer(vocabulary)


def _config(recipe: BackboneRecipe, vocabulary: WordVocabulary, vectors: WordVectors | None) -> WordConfig:
    kind, options = WORD_MODELS[recipe.name], dict(recipe.options)
    known = {*kind.options(), "embedding_size", "dropout"}
    if unknown := sorted(set(options) - known):
        listed = ", ".join(sorted(known))
        raise ConfigError(f"the backbone {recipe.name!r} has no option {unknown[0]!r}: it has {listed}")
    if vectors is not None and options.setdefault("embedding_size", vectors.size) != vectors.size:
        raise ConfigError(
            f"embedding_size is {options['embedding_size']}, but {recipe.word_vectors} has vectors of {vectors.size} "
            "numbers: leave it out"
        )
    config = kind(vocab_size=len(vocabulary), **options)
    config._name_or_path = recipe.name
    return config


@torch.no_grad()
def _fill(backbone: Any, vocabulary: WordVocabulary, vectors: WordVectors) -> None:
    """Give words their pretrained vectors."""
    ids = vocabulary.encode(vectors.words)
    has_id = ids >= len(vocabulary) - len(vocabulary.words)
    backbone.embeddings.weight[torch.from_numpy(ids[has_id])] = torch.from_numpy(
        np.ascontiguousarray(vectors.matrix[has_id])
    )
