"""The sentences of texts, for backbones that read them one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Self

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attribune.functional.recurrent import real_words_first
from attribune_lab.backbones.models import Options, WordConfig, WordModel


class SentenceConfig(WordConfig[Options], Generic[Options]):
    """The configuration of a backbone that reads sentences.

    Args:
        sentence_end_id: the id that stands between two sentences; None reads a text as one.
    """

    sentence_end_id: int | None = None


class SentenceModel(WordModel):
    """A backbone that reads sentences."""

    config: SentenceConfig[Any]

    def sentences_of(self, attention_mask: Tensor, input_ids: Tensor | None, *, longest: int | None) -> Sentences:
        """Find the sentences of a batch; see `Sentences.of`. Without a longest one, a text is one sentence."""
        ends = torch.zeros_like(attention_mask, dtype=torch.bool)
        if longest is not None and self.config.sentence_end_id is not None:
            ends = self._ids(input_ids) == self.config.sentence_end_id
        return Sentences.of(attention_mask, ends, longest=longest or attention_mask.shape[1])


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
            longest: maximum number of words of a sentence; a longer one continues as the next.
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
