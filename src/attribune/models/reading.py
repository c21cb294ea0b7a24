"""How the texts of a batch are read: in chunks, and once for all rows that share a text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.backbones.chunking import cut_chunks, without_empty_rows
from attribune.backbones.sites import find_layers
from attribune.backbones.sparse_attention import padded_inputs
from attribune.backbones.word_models import WordModel, WordOutput
from attribune.core.device import is_recorded
from attribune.data.batching import batches_by_length
from attribune.data.history_encoding import with_histories
from attribune.data.rows import EncodedRows
from attribune.errors import ConfigError, DataError
from attribune.methods.condition import Condition, check_attribute_ids
from attribune.models.base import ConditionedModel
from attribune.models.checks import check_length
from attribune.models.shared_texts import SharedTexts, draws_at_random, layers_replaced, runs_again, stopped_behind

__all__ = ["ReadingModel", "TextStates"]

_MOST_STATES = 2**24  # numbers in the states of a batch of more rows than its size: 64 MB in float32


class TextStates(NamedTuple):
    """The last states of the texts of a batch of B rows.

    Attributes:
        hidden: (B, T, H), or (U, T, H) of the distinct `texts`.
        attention_mask: (B, T) or (U, T).
        condition: of the B rows.
        hidden_states: of all layers, (B, S, H) each, where they are asked for; S counts the positions that a method
            inserts, too.
        attentions: of all layers, (B, heads, S, S) each, where they are asked for.
    """

    hidden: Tensor
    attention_mask: Tensor
    condition: Condition
    texts: SharedTexts | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None

    def of_rows(self) -> TextStates:
        """Return the states (B, T, H) of the rows."""
        if self.texts is None:
            return self
        spread = self.texts.spread
        return self._replace(hidden=spread(self.hidden), attention_mask=spread(self.attention_mask), texts=None)


class ReadingModel(ConditionedModel):
    """A model that reads whole texts; its constructor takes the arguments of `ConditionedModel`."""

    @cached_property
    def shared_depth(self) -> int | None:
        """How many layers compute the same for all rows that share a text; None for the whole backbone."""
        first = self.method.first_layer()
        if "embed" in self.method_config.points:
            return 0
        if first is not None and (not self.placement.has_sites or self.placement.shared_layers):
            return 0  # layers that are no row, or run again
        return first

    def batches(
        self, rows: EncodedRows, *, size: int, strict: bool = False
    ) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, Tensor]]]:
        """Cut rows into batches, as `ConditionedModel` does, with the rows that share a text in one as far as they fit.

        Args:
            size: maximum number of rows. Where the whole backbone is shared, it is that of texts, while states are few.
            strict: whether it is always that of rows.
        """
        rows, depth = with_histories(rows), self.shared_depth
        config = getattr(self.stack.config, "encoder", self.stack.config)
        room = _MOST_STATES // config.hidden_size if depth is None and not strict else 0
        texts = None if depth == 0 else rows.text_numbers()
        for index in batches_by_length(rows.lengths, size=size, device=self.device, texts=texts, room=room):
            yield index, self.batch(rows.take(index))

    @property
    @abstractmethod
    def document_size(self) -> int:
        """H, of the vectors of documents."""

    @abstractmethod
    def document_vectors(self, **batch: Tensor) -> Tensor:
        """Return the vectors (B, H) of documents, which the head reads; arguments as in `forward`."""

    @cached_property
    def _layers(self) -> list[str]:
        return find_layers(self.stack, self.placement)

    def _read(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        attribute_ids: Tensor | None,
        token_type_ids: Tensor | None,
        text_keys: Tensor | None,
        inputs_embeds: Tensor | None = None,
        asked: Sequence[str] = (),
        texts: int | None = None,
    ) -> TextStates:
        """Return the backbone's last states of a batch, their mask and the attributes.

        Args:
            asked: what else the backbone returns, such as ``output_hidden_states``.
            texts: how many texts a row has; by default as many as the task compares.
        """
        _check_asked(self, asked)
        if inputs_embeds is not None:
            if input_ids is not None:
                raise DataError("input_ids and inputs_embeds are both given: give one of them")
            return self._read_embeddings(inputs_embeds, attention_mask, attribute_ids, token_type_ids, asked)
        if input_ids is None:
            raise DataError("neither input_ids nor inputs_embeds are given: make batches with model.collator()")
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        if (count := self.task.candidates if texts is None else texts) > 1:
            if input_ids.dim() != 3 or input_ids.shape[1] != count:
                raise DataError(
                    f"input_ids have the shape {tuple(input_ids.shape)}, but the task {self.task.kind!r} compares "
                    f"{count} texts of each row: make batches with model.collator()"
                )
            inputs = {name: x.flatten(0, 1) for name, x in inputs.items()}
        condition = self._condition_of_texts(attribute_ids, rows=input_ids.shape[0], texts=count)
        rows, length = inputs["input_ids"].shape
        check_length(length, self.config.chunk, most=self.most_positions, own=self.method.extra_positions)
        shared = None if text_keys is None or asked else self._shared_texts(text_keys.flatten(), rows)
        return self._states(inputs, condition, asked) if shared is None else self._read_once(inputs, condition, shared)

    def _condition_of_texts(self, attribute_ids: Tensor | None, *, rows: int, texts: int) -> Condition:
        """Return the condition of the texts of rows, one after the other, each with the attributes that it reads."""
        reads = self._reads_columns[:texts]
        if texts == 1 or attribute_ids is None or not self.reads_attributes or all(map(all, reads)):
            condition = self.condition(attribute_ids, rows=rows)
            return condition if texts == 1 else condition.repeated(texts)
        check_attribute_ids(attribute_ids, self.slots, rows)
        known = attribute_ids.unsqueeze(1) * torch.tensor(reads, device=attribute_ids.device)
        return self.condition(known.flatten(0, 1), rows=rows * texts)

    @property
    def _reads_columns(self) -> list[list[bool]]:
        """Whether the text of a row at each place is read with each column of attribute ids."""
        places = range(self.task.candidates)
        return [
            [self.task.reads_attribute(slots.name, place=place) for slots in self.slots for _ in range(slots.count)]
            for place in places
        ]

    def _read_embeddings(
        self,
        embeddings: Tensor,
        attention_mask: Tensor | None,
        attribute_ids: Tensor | None,
        token_type_ids: Tensor | None,
        asked: Sequence[str],
    ) -> TextStates:
        """Return what `_read` does, of the embeddings (B, T, E) of tokens."""
        _check_embeddings(self, embeddings)
        rows, length, _ = embeddings.shape
        if attention_mask is None:
            attention_mask = torch.ones(rows, length, dtype=torch.long, device=embeddings.device)
        check_length(length, None, most=self.most_positions, own=0)
        inputs = {"inputs_embeds": embeddings, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        if self.first_position is not None:  # the family's own code would count padding
            inputs["position_ids"] = attention_mask.cumsum(dim=1) * attention_mask + self.first_position - 1
        return self._states(inputs, self.condition(attribute_ids, rows=rows), asked)

    def _shared_texts(self, keys: Tensor, rows: int) -> SharedTexts | None:
        """Find rows that share a text; None where what they share is nothing, or would not be what it is apart."""
        if self.shared_depth == 0 or is_recorded():
            return None
        if keys.shape != (rows,):
            raise DataError(f"text_keys are {len(keys)} numbers, and the batch has {rows} texts: give one for each")
        texts = SharedTexts.of(keys)
        if texts is None or draws_at_random(self.backbone):
            return None
        # Below an inner layer, a second run of the layers in the backward pass may not know what the first one did.
        is_inner = self.shared_depth is not None and self.training
        return None if is_inner and runs_again(self.backbone) else texts

    def _read_once(self, inputs: dict[str, Tensor], condition: Condition, texts: SharedTexts) -> TextStates:
        """Compute what is below the method for each distinct text, and the layers from there on for each row."""
        distinct, bare = {name: x[texts.rows] for name, x in inputs.items()}, condition.bare(len(texts))
        depth = self.shared_depth
        if depth is None:
            return self._states(distinct, bare)._replace(condition=condition, texts=texts)
        layers = [self.stack.get_submodule(path) for path in self._layers]
        with stopped_behind(layers[depth - 1], layers[depth:]) as outputs:
            self._states(distinct, bare)
        below = texts.spread_output(outputs[-1])
        # The family's own code makes masks and positions of all rows.
        with layers_replaced(layers[:depth], lambda: below):
            return self._states(inputs, condition)

    def _states(self, inputs: dict[str, Tensor], condition: Condition, asked: Sequence[str] = ()) -> TextStates:
        """Return the backbone's last states (B, T, H) of the tokens, and their mask; T is a multiple of the chunk."""
        of_rows, rows = (
            condition,
            inputs["attention_mask"].shape[0],
        )  # and not its len(), which an export would take for a constant
        if self.config.chunk is not None or self.method.pads_right:
            T = inputs["input_ids"].shape[1]
            inputs = cut_chunks(inputs, min(T, self.config.chunk or T))
            condition = condition.over_chunks(inputs["input_ids"].shape[0] // rows)
        real = inputs["attention_mask"]
        ids = inputs.get("input_ids")
        embedded = None if ids is None else self.method.embed(ids, real, condition, self.get_input_embeddings())
        if embedded is not None:
            kept = ("token_type_ids", "input_ids") if isinstance(self.backbone, WordModel) else ("token_type_ids",)
            inputs = {name: embedded.scatter(x) for name, x in inputs.items() if name in kept}
            inputs |= {"inputs_embeds": embedded.states, "attention_mask": embedded.attention_mask}
            if self.first_position is not None:
                inputs["position_ids"] = embedded.position_ids(real, first=self.first_position)
        if condition.chunks > 1:
            inputs["attention_mask"] = without_empty_rows(inputs["attention_mask"])
        text, places = real if embedded is None else embedded.scatter(real), inputs["attention_mask"].shape[1]
        inputs, text = padded_inputs(inputs, text, self.backbone, self.placement, length=self.padded_length)
        # The code of block-sparse attention mixes precisions under autocast, too.
        is_whole = self.placement.mixes_precisions or self.padded_length is not None
        whole = torch.autocast(text.device.type, enabled=False) if is_whole else nullcontext()
        with self.method.holder.use(condition.with_token_mask(text)), whole:
            output = self.backbone(**inputs, **dict.fromkeys(asked, True))
        hidden = output.last_hidden_state[:, :places]
        if self.placement.states != "token":
            return TextStates(hidden, output.attention_mask, of_rows)
        if isinstance(output, WordOutput):
            counted = cast(Tensor, output.attention_mask)
            real = real * (counted if embedded is None else embedded.text_values(counted))
        hidden = hidden if embedded is None else embedded.text_states(hidden)
        return TextStates(
            hidden.reshape(rows, -1, hidden.shape[-1]),
            real.reshape(rows, -1),
            of_rows,
            hidden_states=output.get("hidden_states"),
            attentions=output.get("attentions"),
        )


def _check_asked(model: ConditionedModel, asked: Sequence[str]) -> None:
    """Refuse to return states or attentions that the backbone does not have.

    Args:
        asked: such as ``output_hidden_states``.
    """
    if not asked:
        return
    if isinstance(model.backbone, WordModel) or model.config.chunk is not None:
        what = "reads texts in chunks" if model.config.chunk is not None else "is not pretrained"
        raise ConfigError(
            f"{asked[0]} is True, and the backbone {what}, which has no states for each text: leave it out"
        )
    if "output_attentions" in asked and (used := model.stack.config._attn_implementation) != "eager":
        raise ConfigError(
            f"output_attentions is True, and the attention is {used}, which does not keep its weights: load the model "
            "with attn_implementation='eager'"
        )


def _check_embeddings(model: ConditionedModel, embeddings: Tensor) -> None:
    """Refuse embeddings in place of ids where the ids are needed, or of another shape than (B, T, E)."""
    reason = None
    if "embed" in model.method_config.points:
        reason = f"the method {model.method_config.name!r} puts its own among those of the ids"
    elif isinstance(model.backbone, WordModel):
        reason = "backbones without pretraining read ids"
    elif model.config.chunk is not None or model.method.pads_right:
        reason = "texts are cut into chunks by their ids"
    elif model.task.candidates > 1:
        reason = f"the task {model.task.kind!r} compares texts"
    if reason is not None:
        raise ConfigError(f"inputs_embeds cannot be read: {reason}; give input_ids")
    width = cast(nn.Embedding, model.get_input_embeddings()).embedding_dim
    if embeddings.dim() != 3 or embeddings.shape[2] != width:
        raise DataError(
            f"inputs_embeds have the shape {tuple(embeddings.shape)}: give (rows, tokens, {width}), the size of the "
            "backbone's embeddings"
        )
