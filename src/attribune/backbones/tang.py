"""The convolution of Tang, Qin and Liu 2015, whose windows are averaged: one vector for a text or a sentence."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.hierarchical import Sentences
from attribune.backbones.word_models import FilterBank, WordConfig, WordModel, WordOutput
from attribune.backbones.word_options import TangOptions, WordOptions

__all__ = ["TangConfig", "TangModel"]


class TangConfig(WordConfig[TangOptions]):
    """The configuration of `TangModel`.

    Args:
        sentence_end_id: the id that stands between two sentences; None reads a text as one.
    """

    model_type = TangOptions.model_type
    options_class: ClassVar[type[WordOptions]] = TangOptions

    sentence_end_id: int | None = None


class TangModel(WordModel):
    """Averaged windows of words; the only state is that of the text."""

    config_class = TangConfig

    def __init__(self, config: TangConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.filters = FilterBank(options.input_size, options.widths, options.filters)
        self.tanh_before_mean, self.sentences = options.tanh_before_mean, options.sentences
        self.sentence_length = options.sentence_length
        self.gru = nn.GRU(options.filters, options.filters, batch_first=True) if self.sentences == "gru" else None
        self.post_init()

    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the vector of the text as its one state, (B, 1, H)."""
        if self.sentences is None:
            ends, longest = torch.zeros_like(attention_mask, dtype=torch.bool), attention_mask.shape[1]
        else:
            ends, longest = self._ids(input_ids) == self.config.sentence_end_id, self.sentence_length
        sentences = Sentences.of(attention_mask, ends, longest=longest)
        vectors = functional.averaged_windows(
            sentences.of_words(x), sentences.words, self.filters.each(), tanh_before_mean=self.tanh_before_mean
        )
        states, real = sentences.by_row(vectors), sentences.real
        if self.gru is None:
            text = functional.mean_tokens(states, real)
        else:
            text = functional.last_token(self.gru(states)[0], real) * real[:, :1]
        return WordOutput(last_hidden_state=text.unsqueeze(1), attention_mask=real[:, :1])
