"""Backbones without pretraining: word vectors, and a convolution or a recurrent layer over them.

They are transformers models, so that all that is done with a pretrained backbone is done with them. They are trained
in full; their vocabulary and their word vectors come from the training rows.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from attribune import functional
from attribune.errors import ConfigError
from attribune.functional.convolution import Filters
from attribune.functional.recurrent import LSTMWeights

__all__ = ["WORD_MODELS", "BiLSTMConfig", "BiLSTMModel", "CNNConfig", "CNNModel", "WordConfig", "WordModel"]

_RANGE = 0.1  # of random word vectors


class WordConfig(PreTrainedConfig):
    """What backbones over word vectors share.

    Args:
        vocab_size: number of words, padding (id 0) and the unknown word (id 1) among them.
        embedding_size: E, of a word vector.
        dropout: on the word vectors.
    """

    vocab_size: int = 2
    embedding_size: int = 300
    dropout: float = 0.0
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    hidden_size: int = 300

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of what can be chosen, beside `embedding_size` and `dropout`."""
        return ()


class CNNConfig(WordConfig):
    """A convolution of words (Kim 2014).

    Args:
        widths: numbers of words that the filters read.
        filters: number of filters of each width.
    """

    model_type = "word-cnn"

    widths: list[int] | None = None
    filters: int = 100

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of what can be chosen."""
        return ("widths", "filters")

    def __post_init__(self, **kwargs: Any) -> None:
        self.widths = [3, 4, 5] if self.widths is None else list(self.widths)
        if not self.widths or min(self.widths) < 1 or self.filters < 1:
            raise ConfigError(f"widths are {self.widths} and filters {self.filters}: give numbers of at least 1")
        self.hidden_size = len(self.widths) * self.filters
        super().__post_init__(**kwargs)


class BiLSTMConfig(WordConfig):
    """A recurrent layer that reads the words in both directions.

    Args:
        hidden_size: H, of both directions together.
        padding: ``packed`` or ``run``; see `functional.lstm`.
    """

    model_type = "word-bilstm"

    hidden_size: int = 200
    padding: Literal["packed", "run"] = "packed"

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of what can be chosen."""
        return ("hidden_size", "padding")

    def __post_init__(self, **kwargs: Any) -> None:
        if self.hidden_size < 2 or self.hidden_size % 2:
            raise ConfigError(f"hidden_size is {self.hidden_size}: give an even number, half of it for a direction")
        super().__post_init__(**kwargs)


class WordModel(PreTrainedModel):
    """Word vectors, drawn from U(-0.1, 0.1), that of padding zero."""

    base_model_prefix: ClassVar[str] = "encoder"
    config: WordConfig

    def __init__(self, config: WordConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)

    def _init_weights(self, module: nn.Module) -> None:
        """Draw word vectors; other modules have drawn their weights themselves."""
        if module is self.embeddings:
            nn.init.uniform_(self.embeddings.weight, -_RANGE, _RANGE)
            with torch.no_grad():
                self.embeddings.weight[self.embeddings.padding_idx] = 0

    def get_input_embeddings(self) -> nn.Module:
        """Return the word vectors."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word vectors."""
        assert isinstance(value, nn.Embedding)
        self.embeddings = value

    def words(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, inputs_embeds: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the vectors of the words, (B, T, E), and the mask, (B, T)."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ConfigError("a backbone reads either input_ids or inputs_embeds: give one of them")
        vectors = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        mask = vectors.new_ones(vectors.shape[:2], dtype=torch.long) if attention_mask is None else attention_mask
        return self.dropout(vectors), mask


class CNNModel(WordModel):
    """Filters over windows of words; states are 0 where a window would reach beyond the text."""

    config_class = CNNConfig

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        assert config.widths is not None
        E, F = config.embedding_size, config.filters
        self.W = nn.ParameterList(nn.Parameter(_uniform((F, width, E), width * E)) for width in config.widths)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(F)) for _ in config.widths)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> BaseModelOutput:
        """Return the states (B, T, widths x filters)."""
        x, mask = self.words(input_ids, attention_mask, inputs_embeds)
        filters = [Filters(W, b) for W, b in zip(self.W, self.b, strict=True)]
        return BaseModelOutput(last_hidden_state=functional.convolved_words(x, mask, filters))


class BiLSTMModel(WordModel):
    """Two directions of a recurrent layer side by side."""

    config_class = BiLSTMConfig

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        H, E = config.hidden_size // 2, config.embedding_size
        self.lstm = nn.LSTM(E, H, batch_first=True, bidirectional=True)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> BaseModelOutput:
        """Return the states (B, T, H), zeros at padding."""
        x, mask = self.words(input_ids, attention_mask, inputs_embeds)
        directions = [
            LSTMWeights(*(getattr(self.lstm, f"{name}_l0{end}") for name in _LSTM_NAMES)) for end in ("", "_reverse")
        ]
        states = functional.bilstm(x, mask, *directions, padding=self.config.padding)
        return BaseModelOutput(last_hidden_state=states)


_LSTM_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _uniform(shape: tuple[int, ...], inputs: int) -> Tensor:
    return torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5)


WORD_MODELS: dict[str, type[WordConfig]] = {"cnn": CNNConfig, "bilstm": BiLSTMConfig}
"""The configurations of the backbones without pretraining, by the names that recipes give them."""

for _config, _model in ((CNNConfig, CNNModel), (BiLSTMConfig, BiLSTMModel)):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
