"""`AttributeModel`: a backbone, a method acting in it, and a head, behaving as any transformers model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from attribune import functional
from attribune.backbones.added_tokens import AddedTokens
from attribune.backbones.architecture import ENCODER
from attribune.backbones.chunking import cut_chunks, without_empty_rows
from attribune.backbones.loading import AttentionDropout, LoadOptions
from attribune.backbones.placement import Pooling
from attribune.backbones.sites import find_layers
from attribune.backbones.sparse_attention import padded_inputs
from attribune.backbones.tuning import Tuning
from attribune.core.arguments import checked_arguments
from attribune.core.device import at_least_float32, is_recorded
from attribune.data.batching import batches_by_length
from attribune.data.readers.base import EncodedRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import Host, MethodConfig
from attribune.methods.condition import Condition, check_attribute_ids
from attribune.models.base import ConditionedModel
from attribune.models.checks import check_head, check_length, check_task, checked_chunk, own_pooling, pooling_named
from attribune.models.chunk_encoders import check_chunk_encoder, chunk_encoder_from_dict
from attribune.models.config import DROPOUT, AttributeConfig
from attribune.models.document_vectors import TextOf, encode_documents
from attribune.models.shared_texts import SharedTexts, draws_at_random, layers_replaced, runs_again, stopped_behind
from attribune.schema import Schema
from attribune.tasks import Task
from attribune.tasks.capabilities import EMBEDDINGS, why_not

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


class AttributeModel(ConditionedModel):
    """A pretrained encoder conditioned on the attributes of each text, with a prediction head.

    Create one with `build`, or with `from_pretrained` from a folder that `save_pretrained` wrote. Models that write
    text are `AttributeGenerator`. If the task scores tokens, the head reads the state of each token. The constructor
    takes the arguments of `ConditionedModel`.
    """

    architecture = ENCODER
    head_options = ("pooling", "dropout", "head_size", "chunk_encoder", "added_tokens")
    _foreign = "writes text: use AttributeGenerator"
    accepts_loss_kwargs = False

    document_size: int
    """H, of the vectors of documents."""

    @classmethod
    @checked_arguments
    def build(
        cls,
        backbone: str | PreTrainedModel,
        schema: Schema,
        *,
        task: Task,
        method: MethodConfig | None = None,
        tuning: str | None = None,
        pooling: Pooling | None = None,
        dropout: float = DROPOUT,
        head_size: int | None = None,
        attention_dropout: AttentionDropout = None,
        revision: str | None = None,
        dtype: torch.dtype = torch.float32,
        attn_implementation: str | None = None,
        quantization_config: Any = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        text_input: TextInput | str | Sequence[str] | None = None,
        chunk: int | None = None,
        chunk_encoder: Mapping[str, Any] | str | None = None,
        added_tokens: AddedTokens = "refuse",
    ) -> Self:
        """Make an untrained model over pretrained weights.

        Args:
            backbone: a hub name, a folder, or a loaded backbone, whose unused pooler is removed.
            schema: the attributes, fitted on training rows.
            method: settings of the method; by default those of the default method.
            tuning: which parameters of the backbone are trained, as `Tuning.parse` reads it; by default the method's.
            pooling: how the document vector is pooled; by default as in the training of the backbone, or else by the
                mean for a task that compares vectors.
            dropout: dropout on the pooled vector before the head.
            head_size: P, the size of a layer ``tanh(W_1 d + b_1)`` before the head; by default there is none.
            attention_dropout: attention dropout of a backbone loaded by name; by default its own. ``off`` is 0 where
                its family has one: faster and in less memory, and no worse where the backbone stays frozen.
            revision: branch, tag or commit of the backbone on the hub.
            dtype: dtype of a backbone loaded by name; method and head are always float32.
            attn_implementation: attention of a backbone loaded by name, such as ``eager``; by default what
                transformers chooses.
            quantization_config: loads a backbone by name in 4 or 8 bits, on a GPU, for a tuning that leaves its
                matrices as they are.
            tokenizer: saved with the model.
            text_input: which columns are the text, or the name of one; saved with the model, so that `Predictor` can
                read rows.
            chunk: ids that the backbone reads at once; by default those of the window of `text_input`, if any, or all.
            chunk_encoder: ``robert``, ``tobert`` or ``hibert``, or its settings; by default the mean of the chunks.
            added_tokens: ``train`` gives tokens of the tokenizer for which the backbone has no embeddings some of their
                own, which begin as the mean of the others and learn with every tuning; by default they are refused.

        Raises:
            ConfigError: for settings that do not fit each other or the backbone.
        """
        check_head(dropout, head_size)
        text = TextInput.read_setting(text_input)
        chunk = checked_chunk(chunk, text)
        return cls._untrained(
            backbone,
            schema,
            task=task,
            method=method,
            tuning=tuning,
            attention_dropout=attention_dropout,
            revision=revision,
            dtype=dtype,
            options=LoadOptions(attn_implementation=attn_implementation, quantization_config=quantization_config),
            tokenizer=tokenizer,
            text_input=text,
            added_tokens=added_tokens,
            own=lambda name, loaded: {
                "pooling": pooling or own_pooling(loaded, name, revision, task=task),
                "dropout": dropout,
                "head_size": head_size,
                "chunk": chunk,
                "chunk_encoder": None if chunk_encoder is None else chunk_encoder_from_dict(chunk_encoder).model_dump(),
            },
        )

    def _check_method(self) -> None:
        config = self.config
        check_task(self.task, self.method_config, self.placement, chunk=config.chunk, head_size=config.head_size)
        self.task.head.check_attributes(self.schema.sources)

    def _add_chunk_encoder(self, host: Host) -> int | None:
        self.chunk_encoder = None
        if self.config.chunk_encoder is None:
            return None
        config = chunk_encoder_from_dict(self.config.chunk_encoder)
        window = None if self.text_input is None else self.text_input.window
        check_chunk_encoder(config, self.method_config, chunk=self.config.chunk, window=window)
        self.chunk_encoder = config.build(host)
        return self.chunk_encoder.features

    def _add_head(self, host: Host) -> None:
        self.dropout = nn.Dropout(self.config.dropout)
        self.document_size = features = self.method.document_size or host.document or host.hidden
        self.task = self.task.with_vector_size(features)
        self.config.task = self.task.to_dict()
        self.hidden_layer = None if host.head_size is None else nn.Linear(features, host.head_size)
        self.head = nn.Linear(host.head_size or features, host.outputs) if host.outputs else None
        self.link = self.task.head.build_link(self._vector_sizes() if self.reads_attributes else None)
        self.pool = pooling_named(self.config.pooling)

    def batch_refusal(self) -> str | None:
        """Return why its rows cannot be in one batch with those of other models; None if they can."""
        placement, family = self.placement, self.backbone.config.model_type
        if self.config.tuning == "full" or self.config.added_tokens:
            return "its backbone was tuned in full" if self.config.tuning == "full" else "it has tokens of its own"
        if (reason := super().batch_refusal()) is not None:
            return reason
        if "embed" in self.method_config.points or self.method.extends_attention:
            return f"{self.method_config.name} changes what the layers of the backbone attend to"
        if not placement.is_pretrained or placement.has_global_attention or self.padded_length is not None:
            return "its backbone takes other inputs than ids and a mask"
        if placement.experts is not None and Tuning.parse(self.config.tuning).feed_forward_matrices:
            return "its experts were trained, which read the tokens of all rows at once"
        if self.config.chunk is not None or self.method.pads_right:
            return "it reads texts in chunks"
        if placement.relative_attention is not None:
            return f"{family} calls projections a second time, on relative positions"
        return f"{family} has biases outside the modules that take states alone" if placement.mixes_precisions else None

    def row_scores(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Return the logits themselves, (B, outputs), or (B, T, outputs) of a task that scores tokens."""
        return logits

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the task's loss of each row alone, (B,)."""
        return self.task.row_losses(logits, labels)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attribute_ids: Tensor | None = None,
        labels: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        weights: Tensor | None = None,
        text_keys: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> SequenceClassifierOutput:
        """Return logits, and the task's loss if there are labels; as a tuple with ``return_dict=False``.

        In training, methods with auxiliary losses return the logits of all losses, (B, n, outputs), the model's first.

        Args:
            input_ids: (B, T); of a task that compares C texts (B, C, T), as the mask and the types are.
            attention_mask: (B, T), 1 for real tokens; all ones by default.
            attribute_ids: (B, slots), from ``schema.encode``; required by methods that use attributes.
            labels: (B,) or (B, n), as the task encodes them; (B, T) for one that scores tokens, whose logits are (B, T,
                outputs).
            token_type_ids: (B, T), for backbones that take them.
            weights: (B,), how much each row counts in the loss; all the same by default.
            text_keys: (B,), or (B, C), equal for rows with equal ids, mask and types; such a text is read once up to
                the first layer in which the method acts. By default each text is read separately.
            inputs_embeds: (B, T, E), embeddings of the tokens instead of ``input_ids``.
            output_hidden_states: whether to return the states (B, T, H) before the first layer and behind each, with
                the positions that a method inserts; by default that of the configuration.
            output_attentions: whether to return the weights (B, heads, T, T) of the attention, which must be eager.

        Raises:
            DataError: for attribute_ids that are missing, of the wrong shape or out of range.
            ConfigError: for embeddings or outputs that this model does not have.
        """
        given = {"output_hidden_states": output_hidden_states, "output_attentions": output_attentions}
        asked = [name for name, value in given.items() if (getattr(self.config, name) if value is None else value)]
        read = self._read(
            input_ids, attention_mask, attribute_ids, token_type_ids, text_keys, inputs_embeds, asked=asked
        )
        logits = self.logits_of(read)
        if self.training and (auxiliary := self._auxiliary_logits(read.condition)):
            logits = torch.stack([logits, *auxiliary], dim=1)
        loss = None if labels is None else self.weighted_loss(logits, labels, weights)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=read.hidden_states, attentions=read.attentions
        )

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
        rows, depth = rows.pieces().rows, self.shared_depth
        config = getattr(self.stack.config, "encoder", self.stack.config)
        room = _MOST_STATES // config.hidden_size if depth is None and not strict else 0
        texts = None if depth == 0 else rows.text_numbers()
        for index in batches_by_length(rows.lengths, size=size, device=self.device, texts=texts, room=room):
            yield index, self.batch(rows.take(index))

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
        is_single: bool = False,
    ) -> TextStates:
        """Return the backbone's last states of a batch, their mask and the attributes.

        Args:
            asked: what else the backbone returns, such as ``output_hidden_states``.
            is_single: whether rows have one text, also for a task that compares several.
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
        count = 1
        if not is_single:
            inputs, count = self.task.input.single_texts(inputs, texts=self.task.head.texts, task=self.task.kind)
        condition = self._condition_of_texts(attribute_ids, rows=input_ids.shape[0], texts=count)
        rows, length = inputs["input_ids"].shape
        check_length(length, self.config.chunk, most=self.most_positions, own=self.method.extra_positions)
        shared = None if text_keys is None or asked else self._shared_texts(text_keys.flatten(), rows)
        return self._states(inputs, condition, asked) if shared is None else self._read_once(inputs, condition, shared)

    def _condition_of_texts(self, attribute_ids: Tensor | None, *, rows: int, texts: int) -> Condition:
        """Return the condition of the texts of rows, one after the other, each with the attributes that it reads."""
        columns = [slots.name for slots in self.slots for _ in range(slots.count)]
        reads = [[self.task.head.reads_attribute(name, place=place) for name in columns] for place in range(texts)]
        if texts == 1 or attribute_ids is None or not self.reads_attributes or all(map(all, reads)):
            condition = self.condition(attribute_ids, rows=rows)
            return condition if texts == 1 else condition.repeated(texts)
        check_attribute_ids(attribute_ids, self.slots, rows)
        known = attribute_ids.unsqueeze(1) * torch.tensor(reads, device=attribute_ids.device)
        return self.condition(known.flatten(0, 1), rows=rows * texts)

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
            kept = ("token_type_ids",) if self.placement.is_pretrained else ("token_type_ids", "input_ids")
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
        if not self.placement.is_pretrained:
            counted = output.attention_mask
            real = real * (counted if embedded is None else embedded.text_values(counted))
        hidden = hidden if embedded is None else embedded.text_states(hidden)
        return TextStates(
            hidden.reshape(rows, -1, hidden.shape[-1]),
            real.reshape(rows, -1),
            of_rows,
            hidden_states=output.get("hidden_states"),
            attentions=output.get("attentions"),
        )

    def document_vectors(self, **batch: Tensor) -> Tensor:
        """Return the vectors (B, H) of single texts (B, T), which the head reads; arguments as in `forward`."""
        return self._document(self._read_single(**batch))

    def rewards(self, **batch: Tensor) -> Tensor:
        """Return the rewards (B,) of single texts (B, T), of a task that compares texts; arguments as in `forward`."""
        read = self._read_single(**batch)
        return at_least_float32(self._outputs(self._document(read), read.condition)).squeeze(1)

    def _read_single(self, **batch: Tensor) -> TextStates:
        mask, ids, types, keys = map(batch.get, ("attention_mask", "attribute_ids", "token_type_ids", "text_keys"))
        return self._read(batch["input_ids"], mask, ids, types, keys, is_single=True)

    def encode(
        self,
        rows: Any,
        /,
        *,
        batch_size: int = 64,
        normalize: bool = False,
        of: TextOf = "text",
        **attributes: Any,
    ) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts with their attributes, as the head reads them.

            model.encode(["A joy from start to end.", "Dull."], user="u17", normalize=True)

        Args:
            rows: whatever `Predictor.predict` takes, of single texts.
            batch_size: rows in one pass; they are sorted by length.
            normalize: whether to scale vectors to length 1, so that their products are cosines.
            of: for the task ``similarity``, which text this is, ``text`` or ``text_pair``; it decides the column
                and the attributes with which texts are read.

        Raises:
            ConfigError: for a task that scores tokens or prefers one of two texts, or a model without text columns.
            DataError: as `Predictor.predict` does.
        """
        return encode_documents(self, rows, attributes, batch_size=batch_size, normalize=normalize, of=of)

    def logits_of(self, read: TextStates) -> Tensor:
        """Return the logits, float32 at least, of the backbone's last states.

        They are those of the documents, (B, outputs), or of each token, (B, T, outputs), where the task scores tokens.
        """
        if self.task.input.scores == "texts":
            return self._classified(self._document(read), read.condition)
        read = read.of_rows()
        hidden = self.method.encode(read.hidden, read.attention_mask, read.condition)
        assert self.head is not None
        logits: Tensor = self.head(self._features(hidden, self.head.weight.dtype))
        return at_least_float32(logits)

    def _document(self, read: TextStates) -> Tensor:
        """Return the document vectors (B, H), which depend on the text alone where the method only classifies them."""
        if self.training or {"encode", "pool"}.intersection(self.method_config.points):
            read = read.of_rows()
        hidden = self.method.encode(read.hidden, read.attention_mask, read.condition)
        document = self.method.pool(hidden, read.attention_mask, read.condition, self._pool)
        return document if read.texts is None else read.texts.spread(document)

    def _classified(self, document: Tensor, condition: Condition) -> Tensor:
        if self.head is None:
            with self.task.input.exactly(document.device.type):
                return self.task.head.logits(at_least_float32(document))
        return self._linked(self._outputs(document, condition), condition)

    def _outputs(self, document: Tensor, condition: Condition) -> Tensor:
        """Return the linear layer's outputs for document vectors (B, H)."""
        assert self.head is not None
        with self.task.input.exactly(document.device.type):
            return self.method.classify(self._features(document, self.head.weight.dtype), condition, self.head)

    def _linked(self, outputs: Tensor, condition: Condition) -> Tensor:
        """Return the logits (B, outputs of the task) of the head's outputs, one for each text of a row."""
        outputs = self.task.head.logits(at_least_float32(outputs))
        if self.link is None:
            return outputs
        return cast(Tensor, self.link(outputs, self.linked_vectors(condition)))

    @property
    def passes_by_plan(self) -> bool:
        """Whether a pass now may be by plan: one without gradients, in which nothing reads the values themselves."""
        return super().passes_by_plan and (self.link is None or not self.link.attributes)

    def linked_vectors(self, condition: Condition) -> list[Tensor]:
        """Return the rows' vectors (B, Z_j) of the attributes that the link reads."""
        if self.link is None or not self.link.attributes:
            return []
        values = next(part.values for part in condition.each() if part.values)
        known = dict(zip(self._vector_sizes(), values, strict=True))
        return [known[name].known_vectors() for name in self.link.attributes]

    def _vector_sizes(self) -> dict[str, int]:
        """Return the size of each attribute's vectors, in the first of the methods that has any."""
        return next((method.vector_sizes for method in self.values.methods() if method.vector_sizes), {})

    def _auxiliary_logits(self, condition: Condition) -> list[Tensor]:
        """Return the float32 logits of the method's further losses."""
        outputs = [self._linked(one, condition) for part in condition.each() for one in part.auxiliary]
        documents = (one for part in condition.each() for one in part.auxiliary_documents)
        return [*outputs, *(self._classified(document, condition) for document in documents)]

    def _features(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Return what the head reads of document vectors, or of states."""
        x = self.dropout(x).to(dtype)
        return x if self.hidden_layer is None else self.hidden_layer(x).tanh()

    def weighted_loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the task's loss of logits, plus the weighted ones of the auxiliary logits behind them.

        Args:
            logits: (B, n, outputs) in training with a method that has n losses; else those of the task alone.
            weights: (B,) of the rows.
        """
        parts = self.method.loss_weights
        if len(parts) == 1 or not self.training:
            return self._task_loss(logits, labels, weights)
        losses = [self._task_loss(one, labels, weights) for one in logits.unbind(dim=1)]
        return functional.joint_loss(torch.stack(losses), parts)

    def _task_loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        if weights is None:
            return self.task.loss(logits, labels)
        return self.task.weighted_loss(logits, labels, weights)

    def _pool(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the document vectors (B, H): those of chunks that have a real token, averaged or encoded."""
        B, T, H = hidden.shape
        chunk = min(self.config.chunk or T, T)
        if chunk == T and self.chunk_encoder is None:
            return self.pool(hidden, attention_mask)
        mask = attention_mask.view(-1, chunk)
        pooled, real = self.pool(hidden.view(-1, chunk, H), mask).view(B, T // chunk, H), mask.any(dim=1).view(B, -1)
        if self.chunk_encoder is None:
            return functional.mean_tokens(pooled, real)
        dtype = next(self.chunk_encoder.parameters()).dtype
        return cast(Tensor, self.chunk_encoder(pooled.to(dtype), real))


def _check_asked(model: ConditionedModel, asked: Sequence[str]) -> None:
    """Refuse to return states or attentions that the backbone does not have.

    Args:
        asked: such as ``output_hidden_states``.
    """
    if not asked:
        return
    if not model.placement.is_pretrained or model.config.chunk is not None:
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
    elif not model.placement.is_pretrained:
        reason = "backbones without pretraining read ids"
    elif model.config.chunk is not None or model.method.pads_right:
        reason = "texts are cut into chunks by their ids"
    else:
        reason = why_not(model.task, EMBEDDINGS)
    if reason is not None:
        raise ConfigError(f"inputs_embeds cannot be read: {reason}; give input_ids")
    width = cast(nn.Embedding, model.get_input_embeddings()).embedding_dim
    if embeddings.dim() != 3 or embeddings.shape[2] != width:
        raise DataError(
            f"inputs_embeds have the shape {tuple(embeddings.shape)}: give (rows, tokens, {width}), the size of the "
            "backbone's embeddings"
        )


for _auto in (AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification):
    _auto.register(AttributeConfig, AttributeModel, exist_ok=True)
