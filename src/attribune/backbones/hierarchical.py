"""The hierarchical backbone: words to sentences, and sentences to the document (Yang et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.word_models import Recurrent, WordConfig, WordModel, WordOutput
from attribune.backbones.word_options import HierarchicalOptions, WordOptions
from attribune.functional.recurrent import real_words_first

__all__ = ["HierarchicalConfig", "HierarchicalModel", "Sentences"]


class HierarchicalConfig(WordConfig[HierarchicalOptions]):
    """The configuration of `HierarchicalModel`.

    Args:
        sentence_end_id: the id that stands between two sentences; None reads a text as one.
    """

    model_type = HierarchicalOptions.model_type
    options_class: ClassVar[type[WordOptions]] = HierarchicalOptions

    sentence_end_id: int | None = None


@dataclass(frozen=True)
class Sentences:
    """The sentences of a batch, one below the other: N of at most W words.

    Attributes:
        words: 1 for the words, 0 for padding.
        places: of each word among the B * T places of the batch; that of padding is any.
        rows: the row of each sentence.
        ranks: its number in the row, from 0.
        real: 1 for the sentences of each row, 0 for padding.
    """

    words: Shaped[Tensor, "N W"]
    places: Int[Tensor, "N W"]
    rows: Int[Tensor, " N"]
    ranks: Int[Tensor, " N"]
    real: Shaped[Tensor, "B S"]

    @classmethod
    def of(cls, attention_mask: Tensor, ends: Tensor, *, longest: int) -> Self:
        """Find the sentences of rows (B, T); those without a word are none.

        Args:
            attention_mask: 1 for real tokens.
            ends: where a sentence ends, which is no word.
            longest: most words of a sentence; a longer one goes on as the next.
        """
        (B, T), device = attention_mask.shape, attention_mask.device
        is_word = attention_mask.bool() & ~ends
        order = real_words_first(is_word)  # of places in a row, so that words stand side by side
        number, word = ends.cumsum(dim=1).gather(1, order), is_word.gather(1, order)
        place = torch.arange(T, device=device).expand(B, T)
        begins = number != torch.roll(number, 1, dims=1)
        begins[:, 0] = True
        within = place - torch.where(begins, place, 0).cummax(dim=1).values
        begins = (begins | (within % longest == 0)) & word
        rank = begins.cumsum(dim=1) - 1
        S = max(int(rank.max()) + 1, 1)
        real = torch.arange(S, device=device) < begins.sum(dim=1, keepdim=True)
        rows, ranks = real.nonzero(as_tuple=True)
        sentence = torch.zeros(B, S, dtype=torch.long, device=device)
        sentence[rows, ranks] = torch.arange(len(rows), device=device)
        column = (within % longest)[word]
        W = int(column.max()) + 1 if len(column) else 1
        words = torch.zeros(len(rows), W, dtype=attention_mask.dtype, device=device)
        places = torch.zeros(len(rows), W, dtype=torch.long, device=device)
        line = sentence.gather(1, rank.clamp(min=0))[word]
        words[line, column] = 1
        places[line, column] = (order + T * torch.arange(B, device=device).unsqueeze(1))[word]
        return cls(words, places, rows, ranks, real.to(attention_mask.dtype))

    def padded(self) -> Self:
        """Return the same with as many sentences in every row; those without words have nothing but padding."""
        B, S = self.real.shape
        line, W = self.rows * S + self.ranks, self.words.shape[1]
        words, places = self.words.new_zeros(B * S, W), self.places.new_zeros(B * S, W)
        words[line], places[line] = self.words, self.places
        every = torch.arange(B * S, device=line.device)
        return type(self)(words, places, every // S, every % S, self.real)

    def of_words(self, x: Float[Tensor, "B T E"]) -> Float[Tensor, "N W E"]:
        """Return the vectors of the words of each sentence, zero for padding."""
        return x.flatten(0, 1)[self.places] * self.words.unsqueeze(-1).to(x.dtype)

    def by_row(self, x: Float[Tensor, "N H"]) -> Float[Tensor, "B S H"]:
        """Return the vectors of the sentences of each row, zero for padding."""
        return x.new_zeros(*self.real.shape, x.shape[-1]).index_put((self.rows, self.ranks), x)


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
        self.sentences = Recurrent(options.hidden_size, options)

    def forward(self, x: Float[Tensor, "N W E"], sentences: Sentences) -> Float[Tensor, "B S H"]:
        """Return the states of sentences."""
        words = sentences.words
        hidden = self.words(x, words)
        if self.words.padding == "run":  # as released code does: a sentence without words pools its padding
            words = torch.where(words.any(dim=1, keepdim=True), words, torch.ones_like(words))
        states: Tensor = self.sentences(sentences.by_row(self.word_pool(hidden, words, sentences.rows)), sentences.real)
        return states


class HierarchicalModel(WordModel):
    """One or several hierarchies over the same word vectors; the states are those of sentences."""

    config_class = HierarchicalConfig

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.branches = nn.ModuleList(Hierarchy(options) for _ in range(options.branches))
        self.sentence_length, self.padding = options.sentence_length, options.padding
        self.sentence_end_id = config.sentence_end_id
        self.post_init()

    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the states of sentences, those of the branches side by side, and the mask of sentences."""
        ends = torch.zeros_like(attention_mask, dtype=torch.bool)
        if self.sentence_end_id is not None:
            ends = self._ids(input_ids) == self.sentence_end_id
        sentences = Sentences.of(attention_mask, ends, longest=self.sentence_length)
        if self.padding == "run":
            sentences = sentences.padded()
        words = sentences.of_words(x)
        states = torch.cat([branch(words, sentences) for branch in self.branches], dim=-1)
        return WordOutput(last_hidden_state=states, attention_mask=sentences.real)
