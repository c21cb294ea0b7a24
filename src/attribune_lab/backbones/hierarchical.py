"""The hierarchical backbone: words to sentences, and sentences to the document (Yang et al. 2016)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.recurrent import Recurrent
from attribune_lab.backbones.models import WordOutput
from attribune_lab.backbones.options import HierarchicalOptions, WordOptions
from attribune_lab.backbones.sentences import SentenceConfig, SentenceModel, Sentences


class HierarchicalConfig(SentenceConfig[HierarchicalOptions]):
    """The configuration of `HierarchicalModel`."""

    model_type = HierarchicalOptions.model_type
    options_class: ClassVar[type[WordOptions]] = HierarchicalOptions


class WordPool(nn.Module):
    """The vector of a sentence: the mean of the states of its words; here methods pool in their own way."""

    def forward(
        self, hidden: Float[Tensor, "N W H"], words: Shaped[Tensor, "N W"], rows: Int[Tensor, " N"]
    ) -> Float[Tensor, "N H"]:
        """Pool the states of the words of sentences; `rows` are those of the batch to which they belong."""
        return functional.mean_tokens(hidden, words)


class Hierarchy(nn.Module):
    """A recurrent layer over words, their pooling, and a recurrent layer over sentences."""

    def __init__(self, options: HierarchicalOptions) -> None:
        super().__init__()
        self.words = Recurrent(options.input_size, options)
        self.word_pool = WordPool()
        self.sentences = Recurrent(options.hidden_size, options, size=options.sentence_size)

    def forward(self, x: Float[Tensor, "N W E"], sentences: Sentences) -> Float[Tensor, "B S H"]:
        """Return the states of sentences."""
        words, rows = sentences.words, sentences.rows
        hidden = self.words(x, words)
        vectors = self.word_pool(hidden, words, rows)
        if self.words.padding == "run":
            empty = ~words.any(dim=1)
            vectors = vectors.index_put((empty,), self._evenly(hidden[empty], rows[empty]))
        states: Tensor = self.sentences(sentences.by_row(vectors), sentences.real)
        return states

    def _evenly(self, hidden: Float[Tensor, "N W H"], rows: Int[Tensor, " N"]) -> Float[Tensor, "N H"]:
        """Pool all places of sentences with the same weight, as released code does where a sentence has no word.

        Methods may change what is added up, so that each place is pooled alone.
        """
        N, W, H = hidden.shape
        alone = self.word_pool(hidden.reshape(N * W, 1, H), hidden.new_ones(N * W, 1), rows.repeat_interleave(W))
        pooled: Tensor = alone.view(N, W, H).mean(dim=1)
        return pooled


class HierarchicalModel(SentenceModel):
    """One or several hierarchies over the same word vectors; the states are those of sentences."""

    config_class = HierarchicalConfig

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.branches = nn.ModuleList(Hierarchy(options) for _ in range(options.branches))
        self.sentence_length, self.padding = options.sentence_length, options.padding
        self.post_init()

    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the states of sentences, those of the branches side by side, and the mask of sentences."""
        sentences = self.sentences_of(attention_mask, input_ids, longest=self.sentence_length)
        if self.padding == "run":
            sentences = sentences.padded()
        words = sentences.of_words(x)
        states = torch.cat([branch(words, sentences) for branch in self.branches], dim=-1)
        return WordOutput(last_hidden_state=states, attention_mask=sentences.real)
