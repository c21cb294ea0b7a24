"""What a backbone is loaded for: to read texts into states, or to write texts; and encoders that are alone."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import transformers
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartPreTrainedModel,
    MBartPreTrainedModel,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import BartEncoder
from transformers.models.mbart.modeling_mbart import MBartEncoder

from attribune.backbones.families import placement_for, writing_placement_for
from attribune.backbones.placement import Placement
from attribune.core.door import as_argument
from attribune.errors import ConfigError


class _EncoderAlone:
    """What the models without a decoder have in common; a subclass is a class of transformers as well."""

    _tied_weights_keys = {"encoder.embed_tokens.weight": "shared.weight"}  # noqa: RUF012 (as transformers has it)
    _keys_to_ignore_on_load_unexpected = [r"decoder"]  # noqa: RUF012 (as transformers has it)
    encoder_class: ClassVar[type[PreTrainedModel]]
    encoder: Any

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        config.is_encoder_decoder = False
        self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = self.encoder_class(config)
        cast(PreTrainedModel, self).post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the encoder, which multiply by ``sqrt(d_model)`` if the configuration says so."""
        return cast(nn.Module, self.encoder.embed_tokens)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Set them."""
        self.shared = self.encoder.embed_tokens = cast(nn.Embedding, value)

    def forward(self, *inputs: Any, **options: Any) -> BaseModelOutput:
        """Return the last states of the encoder, which takes the same inputs."""
        return cast(BaseModelOutput, self.encoder(*inputs, **options))


class BartEncoderModel(_EncoderAlone, BartPreTrainedModel):
    """BART without its decoder, read from the weights of any model of the family.

    Lewis et al. 2020 (BART).
    """

    encoder_class = BartEncoder


class MBartEncoderModel(_EncoderAlone, MBartPreTrainedModel):
    """mBART without its decoder, read from the weights of any model of the family.

    Liu et al. 2020 (mBART).
    """

    encoder_class = MBartEncoder


_OWN_CLASSES = {"BartEncoderModel": BartEncoderModel, "MBartEncoderModel": MBartEncoderModel}


class Architecture:
    """Which part of a pretrained model is loaded, and where methods act in it.

    This one is the model without its head, of an encoder-decoder the encoder alone.
    """

    def placement(self, model_type: str) -> Placement:
        """Return the row of the placement table for a ``config.model_type``; ConfigError where there is none."""
        return placement_for(model_type)

    def auto_class(self, config: PreTrainedConfig) -> Any:
        """Return the Auto class with which a user of transformers loads the model of a configuration."""
        return AutoModel

    def model_class(self, config: PreTrainedConfig, placement: Placement) -> Any:
        """Return the class, or the Auto class, with which this library loads it."""
        if placement.model_class is None:
            return self.auto_class(config)
        config.is_encoder_decoder = False  # or the encoder of T5Gemma refuses it
        return _OWN_CLASSES.get(placement.model_class) or getattr(transformers, placement.model_class)

    def stack(self, backbone: PreTrainedModel) -> PreTrainedModel:
        """Return the part of a backbone whose layers have the sites, which may be the backbone."""
        return backbone

    def embedding_cure(self) -> str:
        """Return what else a user may do about tokens without embeddings, for a list in a message."""
        return f"train those of the added tokens ({as_argument('backbone.added_tokens', 'train')}), "

    def loader(self, config: PreTrainedConfig) -> tuple[Any, dict[str, Any]]:
        """Return the class with which the model of a configuration is built or loaded, and the options of both.

        Raises:
            ConfigError: for a family that the placement table lacks, or a setting under which sites do not work.
        """
        placement = self.placement(config.model_type)
        if chunk := getattr(config, "chunk_size_feed_forward", 0):
            raise ConfigError(
                f"chunk_size_feed_forward is {chunk}: the site after the feed-forward would run once per chunk; set it "
                "to 0"
            )
        options = {"add_pooling_layer": False} if placement.has_pooler else {}
        return self.model_class(config, placement), options

    def build(self, config: PreTrainedConfig) -> PreTrainedModel:
        """Build the model of a configuration with random weights, however large; errors are those of `loader`."""
        model_class, options = self.loader(config)
        build = getattr(model_class, "from_config", model_class)
        return cast(PreTrainedModel, build(config, **options))

    def stack_path(self, backbone: PreTrainedModel) -> str:
        """Return the path of the `stack` in a backbone; empty for the backbone itself."""
        stack = self.stack(backbone)
        return next(str(name) for name, module in backbone.named_modules() if module is stack)


class _LanguageModel(Architecture):
    """A model with its language-model head. Methods act in the layers that write, of an encoder-decoder the decoder."""

    def placement(self, model_type: str) -> Placement:
        return writing_placement_for(model_type)

    def auto_class(self, config: PreTrainedConfig) -> Any:
        return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM

    def model_class(self, config: PreTrainedConfig, placement: Placement) -> Any:
        return self.auto_class(config)

    def stack(self, backbone: PreTrainedModel) -> PreTrainedModel:
        decoder = backbone.get_decoder()  # ModernBERT's decoder calls its output layer so
        return cast(PreTrainedModel, decoder if isinstance(decoder, PreTrainedModel) else backbone.base_model)

    def embedding_cure(self) -> str:
        return ""


ENCODER = Architecture()
"""Reads texts into states, which a head scores."""
LANGUAGE_MODEL = _LanguageModel()
"""Writes texts."""
