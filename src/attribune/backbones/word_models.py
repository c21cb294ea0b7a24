"""Backbones without pretraining: word vectors, and a convolution or a recurrent layer over them.

They are transformers models, so that all that is done with a pretrained backbone is done with them. They are trained
in full; their vocabulary and their word vectors come from the training rows.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from attribune import functional
from attribune.core.config import Settings
from attribune.errors import ConfigError
from attribune.functional.convolution import Filters
from attribune.functional.recurrent import LSTMWeights, Padding

__all__ = ["WORD_MODELS", "BiLSTMModel", "CNNModel", "WordConfig", "WordModel", "WordOptions"]

_RANGE = 0.1  # of random word vectors


def _even(value: int) -> int:
    if value % 2:
        raise ConfigError(f"{value} is odd: give an even number, half of it for a direction")
    return value


Size = Annotated[int, Field(ge=1, le=100_000)]


class WordOptions(Settings):
    """What can be chosen of a backbone over word vectors.

    Args:
        embedding_size: E, of a word vector.
        dropout: on the word vectors.
    """

    what: ClassVar[str] = "backbone.options"
    model_type: ClassVar[str]

    embedding_size: Size = 300
    dropout: float = Field(default=0.0, ge=0, lt=1)


class CNNOptions(WordOptions):
    """A convolution of words (Kim 2014).

    Args:
        widths: numbers of words that the filters read.
        filters: number of filters of each width.
    """

    model_type: ClassVar[str] = "word-cnn"

    widths: tuple[Annotated[int, Field(ge=1, le=1_000)], ...] = Field(default=(3, 4, 5), min_length=1)
    filters: Size = 100


class BiLSTMOptions(WordOptions):
    """A recurrent layer that reads the words in both directions.

    Args:
        hidden_size: H, of both directions together.
        padding: ``packed`` or ``run``; see `functional.lstm`.
    """

    model_type: ClassVar[str] = "word-bilstm"

    hidden_size: Annotated[Size, AfterValidator(_even)] = 200
    padding: Padding = "packed"


WORD_MODELS: dict[str, type[WordOptions]] = {"cnn": CNNOptions, "bilstm": BiLSTMOptions}
"""The options of the backbones without pretraining, by the names that recipes give them."""


class WordConfig(PreTrainedConfig):
    """The configuration of a backbone over word vectors; `options` are checked, defaults included.

    Args:
        vocab_size: number of words, padding (id 0) and the unknown word (id 1) among them.
    """

    options_class: ClassVar[type[WordOptions]] = WordOptions

    vocab_size: int = 2
    options: dict[str, Any] | None = None
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    hidden_size: int = 0

    def __post_init__(self, **kwargs: Any) -> None:
        self.options = self.options_class.from_dict(self.options or {}).model_dump(mode="json")
        self.hidden_size = self._states_size()
        super().__post_init__(**kwargs)

    def _states_size(self) -> int:
        """Return the number of features of a state."""
        raise NotImplementedError(type(self).__name__)

    def option(self, name: str) -> Any:
        """Return an option by its name."""
        return (self.options or {})[name]


class CNNConfig(WordConfig):
    """The configuration of `CNNModel`."""

    model_type = CNNOptions.model_type
    options_class: ClassVar[type[WordOptions]] = CNNOptions

    def _states_size(self) -> int:
        return len(self.option("widths")) * int(self.option("filters"))


class BiLSTMConfig(WordConfig):
    """The configuration of `BiLSTMModel`."""

    model_type = BiLSTMOptions.model_type
    options_class: ClassVar[type[WordOptions]] = BiLSTMOptions

    def _states_size(self) -> int:
        return int(self.option("hidden_size"))


class WordModel(PreTrainedModel):
    """Word vectors, drawn from U(-0.1, 0.1), that of padding zero, and a layer over them."""

    base_model_prefix: ClassVar[str] = "encoder"
    config: WordConfig

    def __init__(self, config: WordConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(
            config.vocab_size, config.option("embedding_size"), padding_idx=config.pad_token_id
        )
        self.dropout = nn.Dropout(config.option("dropout"))

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

    @abstractmethod
    def states(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the states (B, T, H) of word vectors (B, T, E)."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> BaseModelOutput:
        """Return the states of words, given by their ids or by vectors, (B, T, H)."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ConfigError("a backbone reads either input_ids or inputs_embeds: give one of them")
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        mask = x.new_ones(x.shape[:2], dtype=torch.long) if attention_mask is None else attention_mask
        return BaseModelOutput(last_hidden_state=self.states(self.dropout(x), mask))


class CNNModel(WordModel):
    """Filters over windows of words; states are 0 where a window would reach beyond the text."""

    config_class = CNNConfig

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        widths, E, F = (config.option(name) for name in ("widths", "embedding_size", "filters"))
        self.W = nn.ParameterList(nn.Parameter(_uniform((F, width, E), width * E)) for width in widths)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(F)) for _ in widths)
        self.post_init()

    def states(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the values of the filters from each word on."""
        filters = [Filters(W, b) for W, b in zip(self.W, self.b, strict=True)]
        return functional.convolved_words(x, attention_mask, filters)


class BiLSTMModel(WordModel):
    """Two directions of a recurrent layer side by side; states are 0 at padding."""

    config_class = BiLSTMConfig

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        E, H = config.option("embedding_size"), config.hidden_size // 2
        self.lstm = nn.LSTM(E, H, batch_first=True, bidirectional=True)
        self.padding: Literal["packed", "run"] = config.option("padding")
        self.post_init()

    def states(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the states of both directions."""
        directions = [
            LSTMWeights(*(getattr(self.lstm, f"{name}_l0{end}") for name in _LSTM_NAMES)) for end in ("", "_reverse")
        ]
        return functional.bilstm(x, attention_mask, *directions, padding=self.padding)


_LSTM_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _uniform(shape: tuple[int, ...], inputs: int) -> Tensor:
    return torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5)


for _config, _model in ((CNNConfig, CNNModel), (BiLSTMConfig, BiLSTMModel)):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
