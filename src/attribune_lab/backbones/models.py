"""Backbones without pretraining: word vectors, and a convolution or a recurrent layer over them.

They are transformers models, so that all that is done with a pretrained backbone is done with them. They are trained
in full; their vocabulary and their word vectors come from the training rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from attribune.backbones.recurrent import Recurrent
from attribune.errors import ConfigError
from attribune.functional.recurrent import real_words_first
from attribune_lab import functional
from attribune_lab.backbones.options import BiLSTMCNNOptions, BiLSTMOptions, CNNOptions, WordOptions
from attribune_lab.functional.convolution import Filters

_RANGE = 0.1  # of random word vectors
Options = TypeVar("Options", bound=WordOptions)


class WordConfig(PreTrainedConfig, Generic[Options]):
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
        options = self.options_class.from_dict(self.options or {})
        self.options = options.stored()
        self.hidden_size = options.states_size
        super().__post_init__(**kwargs)

    @property
    def chosen(self) -> Options:
        """The options, typed."""
        return cast(Options, self.options_class.from_dict(self.options))

    @property
    def train_vectors(self) -> bool:
        """Whether the word vectors are trained."""
        return self.chosen.train_vectors


class CNNConfig(WordConfig[CNNOptions]):
    """The configuration of `CNNModel`."""

    model_type = CNNOptions.model_type
    options_class: ClassVar[type[WordOptions]] = CNNOptions


class BiLSTMConfig(WordConfig[BiLSTMOptions]):
    """The configuration of `BiLSTMModel`."""

    model_type = BiLSTMOptions.model_type
    options_class: ClassVar[type[WordOptions]] = BiLSTMOptions


class BiLSTMCNNConfig(WordConfig[BiLSTMCNNOptions]):
    """The configuration of `BiLSTMCNNModel`."""

    model_type = BiLSTMCNNOptions.model_type
    options_class: ClassVar[type[WordOptions]] = BiLSTMCNNOptions


@dataclass
class WordOutput(BaseModelOutput):
    """Last states (B, T, H), and in `attention_mask` (B, T) those that count."""

    attention_mask: Tensor | None = None


class WordModel(PreTrainedModel):
    """Word vectors, drawn from U(-0.1, 0.1), that of padding zero, and a layer over them."""

    base_model_prefix: ClassVar[str] = "encoder"
    config: WordConfig[Any]

    def __init__(self, config: WordConfig[Any]) -> None:
        super().__init__(config)
        options: WordOptions = config.chosen
        self.embeddings = nn.Embedding(config.vocab_size, options.embedding_size, padding_idx=config.pad_token_id)
        self.input_size = options.input_size
        self.dropout = nn.Dropout(options.dropout)
        self.state_dropout = nn.Dropout(options.state_dropout)
        self.dropped_id = config.unk_token_id if options.unknown_words == "drop" else None

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
    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the states of word vectors (B, T, E); `input_ids` are known unless vectors alone were given."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> WordOutput:
        """Return the states of words, given by their ids or by vectors.

        Beside vectors, ids say which words are unknown and where sentences end.
        """
        if input_ids is None and inputs_embeds is None:
            raise ConfigError("a backbone reads input_ids or inputs_embeds: give one of them")
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if x.shape[-1] != self.input_size:
            raise ConfigError(
                f"the backbone reads words of {self.input_size} features, {self.config.chosen.input_vectors} times the "
                f"embedding size, and these have {x.shape[-1]}: leave the option input_vectors to the method"
            )
        mask = x.new_ones(x.shape[:2], dtype=torch.long) if attention_mask is None else attention_mask
        if self.dropped_id is not None:
            mask = mask * (self._ids(input_ids) != self.dropped_id)
        output = self.encode(self.dropout(x), mask, input_ids)
        output.last_hidden_state = self.state_dropout(output.last_hidden_state)
        return output

    def _ids(self, input_ids: Tensor | None) -> Tensor:
        if input_ids is None:
            raise ConfigError(f"{type(self).__name__} reads input_ids beside inputs_embeds: give both")
        return input_ids


class FilterBank(nn.Module):
    """Filters of several widths over words."""

    def __init__(self, E: int, widths: Sequence[int], F: int, *, centred: bool) -> None:
        super().__init__()
        self.W = nn.ParameterList(nn.Parameter(_uniform((F, width, E), width * E)) for width in widths)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(F)) for _ in widths)
        self.centred = centred

    def each(self) -> list[Filters]:
        """Return the filters of each width."""
        return [Filters(W, b) for W, b in zip(self.W, self.b, strict=True)]

    def forward(self, x: Float[Tensor, "B T E"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B T states"]:
        """Return the values of the filters at each word; real words come first."""
        return functional.convolved_words(x, attention_mask, self.each(), centred=self.centred)


class FlatModel(WordModel):
    """A backbone that reads the words of a text one after the other.

    Words that are dropped are read as padding behind the others, and the states stand where the words are. Padding has
    zeros for word vectors, as in sentences, whatever a loaded table has for it.
    """

    @abstractmethod
    def states_of(
        self, x: Float[Tensor, "B T E"], attention_mask: Shaped[Tensor, "B T"]
    ) -> Float[Tensor, "B T states"]:
        """Return the states of words, of which the real ones come first."""

    def encode(self, x: Tensor, attention_mask: Tensor, input_ids: Tensor | None) -> WordOutput:
        """Return the states of the words."""
        if self.dropped_id is None:
            x = x * attention_mask.unsqueeze(-1).to(x.dtype)
            return WordOutput(last_hidden_state=self.states_of(x, attention_mask), attention_mask=attention_mask)
        order = real_words_first(attention_mask).unsqueeze(-1)
        mask = attention_mask.gather(1, order.squeeze(-1))
        states = self.states_of(x.gather(1, order.expand_as(x)) * mask.unsqueeze(-1).to(x.dtype), mask)
        states = torch.zeros_like(states).scatter(1, order.expand_as(states), states)
        return WordOutput(last_hidden_state=states, attention_mask=attention_mask)


class CNNModel(FlatModel):
    """Filters over windows of words; states are 0 where a window would reach beyond the text."""

    config_class = CNNConfig

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.filters = FilterBank(options.input_size, options.widths, options.filters, centred=False)
        self.post_init()

    def states_of(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the values of the filters from each word on."""
        return cast(Tensor, self.filters(x, attention_mask))


class BiLSTMModel(FlatModel):
    """A recurrent layer over the words."""

    config_class = BiLSTMConfig

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        size, has_projection = config.chosen.input_size, config.chosen.projection
        self.projection = nn.Linear(size, size) if has_projection else None
        self.recurrent = Recurrent(size, config.chosen)
        self.post_init()

    def states_of(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the states of the recurrent layer."""
        words = x if self.projection is None else self.projection(x).tanh()
        return cast(Tensor, self.recurrent(words, attention_mask))


class BiLSTMCNNModel(FlatModel):
    """A recurrent layer and filters around each word, side by side."""

    config_class = BiLSTMCNNConfig

    def __init__(self, config: BiLSTMCNNConfig) -> None:
        super().__init__(config)
        options = config.chosen
        self.recurrent = Recurrent(options.input_size, options)
        self.filters = FilterBank(options.input_size, options.widths, options.filters, centred=True)
        self.post_init()

    def states_of(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the states of the recurrent layer and the values of the filters."""
        return torch.cat([self.recurrent(x, attention_mask), self.filters(x, attention_mask)], dim=-1)


def _uniform(shape: tuple[int, ...], inputs: int) -> Tensor:
    return torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5)
