"""The convolution of Tang, Qin and Liu 2015, whose windows are averaged: one vector for a text or a sentence."""

from __future__ import annotations

from typing import ClassVar, Self

from torch import Tensor, nn

from attribune.functional import last_token, mean_tokens
from attribune_lab.backbones.models import FilterBank, WordOutput
from attribune_lab.backbones.options import TangOptions, WordOptions
from attribune_lab.backbones.sentences import SentenceConfig, SentenceModel
from attribune_lab.functional import averaged_windows


class TangConfig(SentenceConfig[TangOptions]):
    """The configuration of `TangModel`."""

    model_type = TangOptions.model_type
    options_class: ClassVar[type[WordOptions]] = TangOptions


class _GRU(nn.GRU):
    """Always in training mode, in which alone cuDNN has gradients; it has no dropout."""

    def train(self, mode: bool = True) -> Self:
        """Stay in training mode."""
        return super().train()


class TangModel(SentenceModel):
    """Averaged windows of words; the only state is that of the text."""

    config_class = TangConfig

    def __init__(self, config: TangConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.filters = FilterBank(options.input_size, options.widths, options.filters, centred=False)
        self.tanh_before_mean = options.tanh_before_mean
        self.sentence_length = None if options.sentences is None else options.sentence_length
        self.gru = _GRU(options.filters, options.filters, batch_first=True) if options.sentences == "gru" else None
        self.post_init()

    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the vector of the text as its one state, (B, 1, H)."""
        sentences = self.sentences_of(attention_mask, input_ids, longest=self.sentence_length)
        vectors = averaged_windows(
            sentences.of_words(x), sentences.words, self.filters.each(), tanh_before_mean=self.tanh_before_mean
        )
        states, real = sentences.by_row(vectors), sentences.real
        text = mean_tokens(states, real) if self.gru is None else last_token(self.gru(states)[0], real) * real[:, :1]
        return WordOutput(last_hidden_state=text.unsqueeze(1), attention_mask=real[:, :1])
