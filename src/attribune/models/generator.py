"""`AttributeGenerator`: a language model with a method acting in it, which writes as any transformers model.

Shapes: B rows, T ids, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import CausalLMOutputWithPast, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from attribune.backbones.architecture import LANGUAGE_MODEL
from attribune.backbones.loading import AttentionDropout, LoadOptions
from attribune.core.arguments import checked_arguments
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import METHODS, Host, MethodConfig
from attribune.methods.base import Embedded
from attribune.methods.condition import Condition
from attribune.models.base import ConditionedModel
from attribune.models.config import AttributeConfig
from attribune.schema import Schema
from attribune.tasks import Generation

_STATES = ("logits", "last_hidden_state")


class AttributeGenerator(ConditionedModel, GenerationMixin):
    """A pretrained language model conditioned on the attributes of each text.

    Create one with `build`, or with `from_pretrained` from a folder that `save_pretrained` wrote. It takes
    ``attribute_ids`` beside ``input_ids`` in `forward` and in `generate`. Methods act in the layers that write: those
    of a causal model, or of the decoder of an encoder-decoder, whose encoder reads the prompt without attributes. The
    constructor takes the arguments of `ConditionedModel`.
    """

    architecture = LANGUAGE_MODEL
    _foreign = "does not write text: use AttributeModel"
    accepts_loss_kwargs = True

    task: Generation

    @classmethod
    @checked_arguments
    def build(
        cls,
        backbone: str | PreTrainedModel,
        schema: Schema,
        *,
        method: MethodConfig | None = None,
        task: Generation | None = None,
        tuning: str | None = None,
        attention_dropout: AttentionDropout = None,
        revision: str | None = None,
        dtype: torch.dtype = torch.float32,
        attn_implementation: str | None = None,
        quantization_config: Any = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        text_input: TextInput | str | Sequence[str] | None = None,
    ) -> Self:
        """Make an untrained model over pretrained weights; other arguments are those of `AttributeModel.build`.

        Args:
            backbone: a hub name, a folder, or a loaded language model.
            method: settings of the method, which may act at sites, and in a causal model in front of the text.
            task: with texts that mean no response.
            tuning: all settings but ``full`` refer to the layers that write.
            tokenizer: saved with the model; texts end at its end token.
            text_input: which columns are the response and the prompt; saved with the model.

        Raises:
            ConfigError: for settings that do not fit each other or the backbone.
        """
        return cls._untrained(
            backbone,
            schema,
            task=task or Generation(),
            method=method,
            tuning=tuning,
            attention_dropout=attention_dropout,
            revision=revision,
            dtype=dtype,
            options=LoadOptions(attn_implementation=attn_implementation, quantization_config=quantization_config),
            tokenizer=tokenizer,
            text_input=TextInput.read_setting(text_input),
            own=lambda _, loaded: {
                "is_encoder_decoder": loaded.config.is_encoder_decoder,
                "generation": _generation_settings(loaded, tokenizer),
            },
        )

    def _check_method(self) -> None:
        points = {"sites"} if self.config.is_encoder_decoder else {"sites", "embed"}
        if foreign := set(self.method_config.points) - points:
            able = ", ".join(name for name, method in METHODS.items() if points.issuperset(method.points))
            kind = "an encoder-decoder" if foreign == {"embed"} else "a model"
            raise ConfigError(
                f"method {self.method_config.name!r} acts at the point {' and '.join(sorted(foreign))}, which {kind} "
                f"that writes text does not have: choose one of {able}, or a sum of these"
            )

    def _add_head(self, host: Host) -> None:
        super()._add_head(host)
        self.generation_config = GenerationConfig.from_dict(self.config.generation or {})
        if not self.config.is_encoder_decoder:
            self.loss_type = "ForCausalLM"  # tells the stock Trainer that the first id of a row is not predicted

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attribute_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        weights: Tensor | None = None,
        **inputs: Any,
    ) -> CausalLMOutputWithPast | Seq2SeqLMOutput:
        """Return logits (B, T, V), and the loss if there are labels; as a tuple with ``return_dict=False``.

        Args:
            input_ids: (B, T), prompt and response of a causal model, the prompt of an encoder-decoder.
            attention_mask: (B, T), 1 for real ids; all ones by default.
            attribute_ids: (B, slots), from ``schema.encode``; required by methods that use attributes.
            labels: (B, T), the ids to write and -100 elsewhere: at the same position as in ``input_ids`` for a causal
                model, the response alone for an encoder-decoder.
            num_items_in_batch: number of labels by which the summed loss is divided; that of this batch by default.
                With weights, it is the sum of those of the labels.
            weights: (B,), how much each row counts in the loss; all the same by default.
            inputs: further arguments of the backbone, such as ``past_key_values`` and ``use_cache``.

        Raises:
            DataError: for attribute_ids that are missing, of the wrong shape or out of range, or a text too long.
        """
        if labels is not None:
            inputs.setdefault("use_cache", False)
            if self.config.is_encoder_decoder and inputs.get("decoder_input_ids") is None:
                inputs["decoder_input_ids"] = self.backbone.prepare_decoder_input_ids_from_labels(labels)
        output = self._run(self.backbone, input_ids, attention_mask, attribute_ids, **inputs)
        if labels is not None:
            output.loss = self._loss(output.logits, labels, weights, count=num_items_in_batch)
        return output

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, *, count: Tensor | int | None) -> Tensor:
        aligned, counts = self._aligned(logits, labels), self.row_counts(labels)
        if weights is None:
            mean = self.task.loss(*aligned)
        else:
            mean, counts = self.task.weighted_loss(*aligned, weights), weights * counts
        return mean if count is None else mean * counts.sum() / count

    def _run(
        self,
        module: Callable[..., Any],
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attribute_ids: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Call the backbone, or a part of it, with the attributes of the batch."""
        written = next(
            ids for ids in (inputs.get("decoder_input_ids"), input_ids, inputs.get("inputs_embeds")) if ids is not None
        )
        cache = inputs.get("past_key_values")
        seen = 0 if cache is None else cache.get_seq_length()
        length = written.shape[1] + (seen or self.method.extra_positions)
        if self.most_positions is not None and length > self.most_positions:
            raise DataError(
                f"a text of {length} ids is longer than the {self.most_positions} that the backbone takes: write fewer "
                "new ones, or encode with a shorter window"
            )
        condition, embedded = self.condition(attribute_ids, rows=written.shape[0]), None
        if "embed" in self.method_config.points:
            behind, embedded = self._embed_behind_front(input_ids, attention_mask, condition, seen=seen)
            inputs |= behind
        else:
            inputs |= {"input_ids": input_ids, "attention_mask": attention_mask}
        has_positions = inputs.get("position_ids") is not None or self.config.is_encoder_decoder
        if not has_positions and attention_mask is not None and attention_mask.dim() == 2:
            positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)  # those of GPT-2 would count padding before
            inputs["position_ids"] = positions[:, -written.shape[1] :]
        with self.method.holder.use(condition):
            output = module(**inputs)
        return output if embedded is None or seen else _of_text(output, embedded)

    def _embed_behind_front(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, condition: Condition, *, seen: int
    ) -> tuple[dict[str, Tensor], Embedded]:
        """Return the backbone's inputs, and all embeddings with the vectors of the method among them.

        The first pass has the vectors in front of the text; they stay in the cache, and later ones have new ids alone.

        Args:
            input_ids: (B, T), those that are new.
            attention_mask: of the ids so far, without the vectors; all ones by default.
            seen: positions in the cache.

        Raises:
            ConfigError: for a cache that does not hold the vectors and the ids before the new ones.
            DataError: for embeddings in place of ids.
        """
        if input_ids is None:
            raise DataError("the method puts vectors in front of the ids of a text: give input_ids, not inputs_embeds")
        (rows, new), front = input_ids.shape, self.method.extra_positions
        before = max(0, seen - front)
        if attention_mask is None:
            attention_mask = input_ids.new_ones(rows, before + new)
        if attention_mask.shape != (rows, before + new) or (seen and not before):
            raise ConfigError(
                f"the cache has {seen} positions, {front} of them for vectors in front of the text, and the attention "
                f"mask the shape {tuple(attention_mask.shape)} for {new} new ids: write with a dynamic cache that this "
                "model filled"
            )
        ids = nn.functional.pad(input_ids, (before, 0))
        embedded = self.method.embed(ids, attention_mask, condition, self.get_input_embeddings())
        assert embedded is not None
        states = embedded.states[:, -new:] if seen else embedded.states
        positions = embedded.position_ids(attention_mask, first=0).clamp(min=0)
        inputs = {
            "inputs_embeds": states,
            "attention_mask": embedded.attention_mask,
            "position_ids": positions[:, -states.shape[1] :],
        }
        return inputs, embedded

    def _aligned(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and the labels that they are for: those of a causal model are for the next id."""
        return (logits, labels) if self.config.is_encoder_decoder else (logits[:, :-1], labels[:, 1:])

    def row_scores(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Return of each response the negative log-likelihood in nats and the number of its ids, (B, 2) float32."""
        assert labels is not None
        return self.task.scores(*self._aligned(logits, labels))

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return of each response the negative log-likelihood in nats, (B,)."""
        return self.row_scores(logits, labels)[:, 0]

    def mean_loss(self, scores: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """Return the mean negative log-likelihood of an id in nats, from the `row_scores`."""
        likelihood, ids = np.asarray(scores, dtype=np.float64).sum(axis=0)
        return float(likelihood / max(ids, 1))

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the number of ids of each response, (B,)."""
        return self.task.row_counts(self._aligned(labels, labels)[1])

    @property
    def base_model(self) -> Any:
        """The backbone without its head, called with the same arguments as this model; used by TRL's trainers."""
        return partial(self._run, self.backbone.base_model)

    def get_output_embeddings(self) -> nn.Module | None:
        """Return the language-model head."""
        head: nn.Module | None = self.backbone.get_output_embeddings()
        return head

    def get_encoder(self, modality: str | None = None) -> PreTrainedModel:
        """Return the encoder of an encoder-decoder."""
        return self.backbone.get_encoder(modality)

    def get_decoder(self) -> PreTrainedModel:
        """Return the layers that write."""
        return self.stack

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the model with its generation settings; see `ConditionedModel.save_pretrained`."""
        self.config.generation = _plain(self.generation_config)
        super().save_pretrained(save_directory, *args, **kwargs)


for _auto in (AutoModelForCausalLM, AutoModelForSeq2SeqLM):
    _auto.register(AttributeConfig, AttributeGenerator, exist_ok=True)


def _generation_settings(backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> dict[str, Any]:
    """Return the backbone's settings; texts also end at the tokenizer's end token."""
    settings = _plain(backbone.generation_config)
    ends = settings.get("eos_token_id", [])
    ends = ends if isinstance(ends, list) else [ends]
    if tokenizer is not None and tokenizer.eos_token_id not in (None, *ends):
        settings["eos_token_id"] = [*ends, tokenizer.eos_token_id]
    return settings


def _plain(settings: GenerationConfig) -> dict[str, Any]:
    return {key: value for key, value in settings.to_diff_dict().items() if key != "transformers_version"}


def _of_text(output: Any, embedded: Embedded) -> Any:
    """Return the output of a first pass without the positions of the vectors; it is changed in place."""
    S = embedded.states.shape[1]
    for name in _STATES:
        if (states := output.get(name)) is not None and states.shape[1] == S:
            output[name] = embedded.text_states(states)
    if output.get("hidden_states") is not None:
        output["hidden_states"] = tuple(embedded.text_states(states) for states in output["hidden_states"])
    return output
