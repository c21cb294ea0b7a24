"""The encoder of BART, for which transformers has no class of its own."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import BartConfig, BartPreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import BartEncoder

__all__ = ["BartEncoderModel"]


class BartEncoderModel(BartPreTrainedModel):
    """BART without its decoder, read from the weights of any model of the family.

    Lewis et al. 2020 (BART).
    """

    _tied_weights_keys = {"encoder.embed_tokens.weight": "shared.weight"}  # noqa: RUF012 (as transformers has it)
    _keys_to_ignore_on_load_unexpected = [r"decoder"]  # noqa: RUF012 (as transformers has it)

    def __init__(self, config: BartConfig) -> None:
        super().__init__(config)
        config.is_encoder_decoder = False
        self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = BartEncoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the encoder, which multiply by ``sqrt(d_model)`` if the configuration says so."""
        return cast(nn.Module, self.encoder.embed_tokens)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Set them."""
        self.shared = self.encoder.embed_tokens = cast(nn.Embedding, value)

    def forward(self, *inputs: Any, **options: Any) -> BaseModelOutput:
        """Return the last states of the encoder, which takes the same inputs."""
        return self.encoder(*inputs, **options)
