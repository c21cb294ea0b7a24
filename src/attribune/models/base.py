"""The base class of neural models: a backbone, a method acting in it, and the attributes of each batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import HfApi
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribune.backbones.added_tokens import AddedTokens, add_embeddings, added_count, known_embeddings
from attribune.backbones.architecture import Architecture
from attribune.backbones.int8 import check_int8
from attribune.backbones.loading import (
    AttentionDropout,
    LoadOptions,
    build_backbone,
    check_quantised_tuning,
    check_tokenizer,
    fingerprint,
    is_quantised,
)
from attribune.backbones.placement import Placement
from attribune.backbones.sharing import SharedBackbones, load_with_fingerprint
from attribune.backbones.sites import find_layers, first_position, most_positions
from attribune.backbones.sparse_attention import prepare_sparse_attention
from attribune.backbones.tuning import tune_backbone
from attribune.core.config import short_repr
from attribune.core.device import default_float32
from attribune.core.overlap import placed
from attribune.core.process import require_memory
from attribune.data.batching import batches_by_length
from attribune.data.memory import Memory, memory_of
from attribune.data.readers import reader_of
from attribune.data.readers.base import Collator, EncodedRows, Reader, Reading
from attribune.data.texts import TextInput
from attribune.data.windows import SpecialTokens, longest_input
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.methods import (
    DEFAULT_METHOD,
    METHODS,
    Host,
    MethodConfig,
    check_reads_descriptions,
    check_written,
    method_from_dict,
)
from attribune.methods.attribute_method import has_meta_tables, meta_tables
from attribune.methods.base import Method
from attribune.methods.condition import Condition, check_attribute_ids
from attribune.methods.in_text import written_refusal
from attribune.methods.merging import stored_buffers
from attribune.models.blend import Blend
from attribune.models.checks import claim
from attribune.models.config import AttributeConfig, check_foreign, device_of, dtype_of, with_outputs
from attribune.models.folder import ModelFolder, ModelSnapshot
from attribune.models.sizes import Sizes
from attribune.models.value_tables import AttributeVectors, KnownValues, ValueTables
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Task, task_from_dict
from attribune.tasks.capabilities import SHARED_BATCHES, why_not
from attribune.tasks.losses import Link


class ConditionedModel(PreTrainedModel):
    """A pretrained backbone conditioned on the attributes of each text.

    Args:
        backbone: the loaded backbone; without it one with random weights is built from ``config.text_config``.
        tokenizer: saved beside the model when there is one.
    """

    config_class = AttributeConfig
    architecture: ClassVar[Architecture]
    _foreign: ClassVar[str]  # what models of the other kind do, and their class
    main_input_name = "input_ids"
    head_options: ClassVar[tuple[str, ...]] = ()
    """The arguments of `build` about what is on top of the backbone."""
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _no_split_modules: ClassVar[list[str]] = []

    tokenizer: PreTrainedTokenizerBase | None
    backbone: PreTrainedModel
    placement: Placement
    head: nn.Linear | None
    link: Link | None
    memory: Memory | None = None
    blend: Blend | None = None
    reader: type[Reader]
    written: tuple[str, ...]  # the attributes whose values stand in front of a text
    quantised: str | None = None
    trainings: int = 0
    """How often it was switched to training; fused optimisers change parameters and not their versions."""

    @default_float32()
    def __init__(
        self,
        config: AttributeConfig,
        *,
        schema: Schema,
        backbone: PreTrainedModel | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__(config)
        if config.architecture is not self.architecture:
            raise ConfigError(f"this model {self._foreign}, or load_model, which finds the class")
        self.schema = schema
        self.tokenizer = tokenizer
        self.task: Task = task_from_dict(config.task or {})
        config.id2label = dict(enumerate(self.task.output_names))
        config.label2id = {label: number for number, label in config.id2label.items()}
        self.text_input = None if config.text_input is None else TextInput.from_dict(config.text_input)
        self.slots = schema.layout
        self.backbone = (
            build_backbone(config.text_config, architecture=self.architecture) if backbone is None else backbone
        )
        self.placement = self.architecture.placement(config.text_config.model_type)
        self.method_config = method_from_dict(config.method or {})
        self._check_method()
        self.written = self._written_names()
        self.reader = reader_of(self.task, self.method_config, written=self.written)
        described = [one for one in schema if one.description is not None]
        if self.method_config.writes_values:  # it reads numbers without a vector
            described = [one for one in described if one.spec.lists_values]
        check_reads_descriptions(self.method_config, [one.name for one in described])
        claim(self.backbone, acting=self._acts_inside())
        host = Host.of(
            self.stack,
            placement=self.placement,
            outputs=self.task.head.outputs,
            slots=self.slots,
            head_size=config.head_size,
        )
        host = replace(host, document=self._add_chunk_encoder(host))
        self.method = self._build_method(host)
        self._add_head(host)
        self.first_position = first_position(self.stack, self.placement)
        self.most_positions = most_positions(self.stack, self.placement)
        self.padded_length = self._prepare_attention()
        if is_quantised(self.backbone):
            check_quantised_tuning(config.tuning or "")
        else:
            self.backbone.requires_grad_(config.tuning == "full")
        tune_backbone(self.stack, self.placement, config.tuning or "")
        if config.added_tokens:
            add_embeddings(self.backbone, config.added_tokens)
        self.method.install(self.stack)
        # Every module is initialised when it is made; post_init would overwrite the initial values.
        for module in self.modules():
            module._is_hf_initialized = True
        self.post_init()
        config.learned = self.learned_names()
        # What is not trained from here on is stored nevertheless.
        if not getattr(self.backbone.config, "train_vectors", True):
            self.get_input_embeddings().weight.requires_grad_(False)
        for name in self.method.unused:
            self.get_parameter(name).requires_grad_(False)

    def _written_names(self) -> tuple[str, ...]:
        """Return the attributes whose values are written in front of a text; ConfigError where they cannot be."""
        method, given = self.method_config, () if self.text_input is None else self.text_input.written
        check_written(method, given)
        chosen = [one.name for name in given for one in self.schema.named(name) or [self.schema[name]]]
        written = method.written(self.schema.names, chosen)
        if chosen and (chunk := self.config.chunk) is not None:
            raise ConfigError(
                f"chunk is {chunk}, and values of {', '.join(chosen)} are written in front of a text, which is then "
                "read at once: leave chunk or written out"
            )
        if chosen and (refusal := written_refusal(self.placement, what="written values")) is not None:
            raise ConfigError(refusal)
        return written

    def _acts_inside(self) -> bool:
        """Whether hooks or low-rank maps may stand inside the backbone."""
        is_changed = "lora" in (self.config.tuning or "") or self.config.added_tokens > 0
        return "sites" in self.method_config.points or is_changed or not self.placement.is_pretrained

    def _build_method(self, host: Host) -> Method:
        """Build the method, after its parameters were counted."""
        if (refusal := self.method_config.refusal(self.placement)) is not None:
            raise ConfigError(refusal)
        try:
            with torch.device("meta"):
                draft = self.method_config.build_within(host)
        except (OverflowError, RuntimeError, TypeError) as error:  # numbers beyond those of tensors
            raise ConfigError(
                f"no tensors have the sizes of method {short_repr(self.method_config)}: lower them"
            ) from error
        mapped = ".tables." if has_meta_tables() else "..."  # stay in their file
        named = draft.named_parameters()
        needed = sum(p.numel() * p.element_size() for name, p in named if mapped not in f".{name}")
        require_memory(
            needed,
            what=f"method {short_repr(self.method_config)} with {len(self.schema)} attributes",
            cure="lower its sizes, or the numbers of values (max_values)",
        )
        return cast(Method, self.method_config.build_within(host))

    @classmethod
    def _untrained(
        cls,
        backbone: str | PreTrainedModel,
        schema: Schema,
        *,
        task: Task,
        method: MethodConfig | None,
        tuning: str | None,
        attention_dropout: AttentionDropout,
        revision: str | None,
        dtype: torch.dtype,
        options: LoadOptions,
        tokenizer: PreTrainedTokenizerBase | None,
        text_input: TextInput | None,
        added_tokens: AddedTokens = "refuse",
        own: Callable[[str, PreTrainedModel], dict[str, Any]],
    ) -> Self:
        """Make an untrained model over a backbone, which is loaded if only its name is given.

        Args:
            own: returns the settings that models of this kind alone have, for a backbone and its name.
        """
        mark: str | None = None
        if isinstance(backbone, str):
            name = backbone
            loaded, mark = load_with_fingerprint(
                name,
                revision=revision,
                architecture=cls.architecture,
                dtype=dtype,
                options=options,
                attention_dropout=attention_dropout,
            )
        else:
            name, loaded = str(backbone.config._name_or_path), backbone
            placement = cls.architecture.placement(loaded.config.model_type)
            if placement.has_pooler:
                loaded.pooler = None
            if placement.is_pretrained and not is_quantised(loaded):
                mark = fingerprint(loaded)
        if tokenizer is not None and added_tokens == "refuse":
            check_tokenizer(tokenizer, loaded, name=name, architecture=cls.architecture)
        method = METHODS[DEFAULT_METHOD]() if method is None else method
        config = AttributeConfig(
            text_config=loaded.config,
            backbone=name,
            revision=revision,
            backbone_fingerprint=mark,
            method=method.to_dict(),
            task=task.to_dict(),
            tuning=tuning or method.default_tuning,
            text_input=None if text_input is None else text_input.to_dict(),
            added_tokens=added_count(tokenizer, loaded, added_tokens=added_tokens),
            **own(name, loaded),
        )
        return cls(config, schema=schema, backbone=loaded, tokenizer=tokenizer)

    def _check_method(self) -> None:
        """Refuse methods that cannot act in a model of this kind."""

    def _add_chunk_encoder(self, host: Host) -> int | None:
        """Add the module that joins the vectors of chunks; returns the features of its document vectors."""
        return None

    def _add_head(self, host: Host) -> None:
        """Add the modules on top of the backbone."""
        self.head = self.link = None  # a language model has its own

    @abstractmethod
    def row_scores(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Return the scores of each row, (B, outputs), from which the task decodes it and computes its metrics."""

    @abstractmethod
    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the negative log-likelihood of each row, (B,), in nats."""

    def mean_loss(self, scores: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """Return the loss of all rows as of one batch, from their `row_scores`."""
        return float(self.task.loss(torch.from_numpy(np.asarray(scores)), torch.from_numpy(np.asarray(labels))))

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return what the losses of rows are divided by in the mean of a batch, (B,)."""
        return self.task.row_counts(labels)

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return the reader of the texts of rows; `text_input` replaces the model's own.

        Raises:
            ConfigError: for a model without a tokenizer, or a window that it cannot take.
        """
        own, text = self.text_input, text_input or self.text_input
        if text is not None and text.written and (own is None or text.written != own.written):
            raise ConfigError(
                f"text_input.written is {', '.join(text.written)}, and the model was built with "
                f"{', '.join(own.written if own else ()) or 'none'}: leave it out, since the model keeps what it writes"
            )
        return self.reader.of(self._reading(), text)

    def _reading(self) -> Reading:
        """Return what the reader must know of the model."""
        if self.tokenizer is None:
            raise ConfigError("the model has no tokenizer: set model.tokenizer first")
        return Reading(
            tokenizer=self.tokenizer,
            task=self.task,
            limit=self.longest_text(),
            segments=(getattr(self.backbone.config, "type_vocab_size", 0) or 0) > 1,  # it has embeddings of two
            is_causal=self.placement.pooling == "last",
            is_encoder_decoder=bool(self.config.is_encoder_decoder),
            chunk=self.config.chunk,
            memory=self.memory,
            written=self.written,
            written_dropout=self.method_config.written_dropout,
        )

    def collator(self, schema: Schema | None = None) -> Collator:
        """Return the collator of rows encoded with a schema, by default the model's own.

        Raises:
            ConfigError: without a tokenizer.
        """
        return self.reader.collator(self._reading(), self.schema if schema is None else schema)

    @property
    def precision(self) -> str | None:
        """The precision of the training, in which the model predicts by default; None where it is not known."""
        return cast(AttributeConfig, self.config).precision

    @property
    def reads_attributes(self) -> bool:
        """Whether the method reads attributes."""
        return self.method_config.uses_attributes

    @property
    def input_schema(self) -> Schema:
        """The attributes that the method reads: the schema, or one without attributes."""
        return self.schema if self.reads_attributes else Schema([])

    def prepare(self, device: torch.device) -> None:
        """Move the model to a device and switch to evaluation."""
        if self.quantised is not None:
            check_int8(device)
        self.to(device).eval()
        if self.memory is not None:
            self.memory.to(device)

    def neural(self, refusal: str = "") -> Self:
        """Return the model itself; a `Baseline` raises a ConfigError that says `refusal`."""
        return self

    def networks(self) -> list[PreTrainedModel]:
        """Return the model itself in a list."""
        return [self]

    def batch_refusal(self) -> str | None:
        """Return why its rows cannot be in one batch with those of other models; None if they can."""
        return why_not(self.task, SHARED_BATCHES)

    def batch(self, rows: EncodedRows) -> dict[str, Tensor]:
        """Pad encoded rows to one batch on the model's device."""
        batch = self.collator(self.input_schema).collate(rows.pieces().rows.features())
        known = known_embeddings(self.backbone)
        if batch["input_ids"].numel() and (largest := int(batch["input_ids"].max())) >= known:
            raise DataError(
                f"the tokenizer gives the id {largest}, but the backbone has {known} embeddings: copy the tokenizer's "
                "files from the folder of the backbone"
            )
        return {name: placed(x, self.device) for name, x in batch.items()}

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, Tensor]]]:
        """Cut rows into batches of at most `size` rows of similar length, the longest first.

        A batch ends where rows become much shorter, once it has enough ids to keep the processor busy. Each batch comes
        with the indices of its rows.
        """
        rows = rows.pieces().rows
        for index in batches_by_length(rows.lengths, size=size, device=self.device):
            yield index, self.batch(rows.take(index))

    def score(self, batch: dict[str, Tensor]) -> Tensor:
        """Return what the task decodes of each row of a batch, (B, outputs), calibrated where the model is."""
        return self.calibrated(self.row_scores(self(**batch).logits, batch.get("labels")).float())

    def calibrated(self, logits: Tensor) -> Tensor:
        """Return logits divided by the temperature that was fitted on validation rows, if one was."""
        return logits if self.temperature is None else logits / self.temperature

    @property
    def temperature(self) -> float | None:
        """By which logits are divided for calibrated scores; None where none was fitted."""
        temperature: float | None = self.config.calibration_temperature
        return temperature

    def evaluate_rows(
        self, rows: EncodedRows, *, size: int, run: Callable[[], AbstractContextManager[Any]]
    ) -> tuple[npt.NDArray[Any], float]:
        """Return the scores of encoded rows, (n, ...), not calibrated, and if they have labels their mean loss.

        Args:
            size: pieces of rows in one forward pass, which is without gradients.
            run: makes the context of a pass, such as its precision.
        """
        pieces = rows.pieces()
        sheet = pieces.sheet(self.task)
        losses, counts = 0.0, 0.0
        for index, batch in self.batches(pieces.rows, size=size):
            labels = batch.get("labels")
            with torch.inference_mode(), run():
                logits = self(**batch).logits
            if labels is not None:
                losses += float(self.row_losses(logits, labels).sum())
                counts += float(self.row_counts(labels).sum())
            pieces.put(sheet, index, self.row_scores(logits, labels).float().cpu().numpy())
        return pieces.merged(sheet, self.task), losses / max(1.0, counts)

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision as plain JSON values."""
        autocast = "bfloat16" if precision == "bf16" else None
        return {
            "method": self.method_config.name,
            "backbone": self.config.backbone,
            "parameters": sum(p.numel() for p in self.parameters()),
            "precision": self.quantised or autocast or str(self.backbone.dtype).removeprefix("torch."),
        }

    def condition(self, attribute_ids: Tensor | None, *, rows: int) -> Condition:
        """Collect the attributes of a batch for the method.

        Raises:
            DataError: for attribute_ids that are missing, of the wrong shape or out of range.
        """
        if self.method_config.uses_attributes:
            if attribute_ids is None:
                raise DataError(
                    f"method {self.method_config.name!r} needs attribute_ids: pass schema.encode(rows), or zeros of "
                    f"shape {(rows, self.schema.slots)} for rows without attributes; a Predictor reads rows"
                )
            check_attribute_ids(attribute_ids, self.slots, rows)
            if self.passes_by_plan and (planned := self.method.planned(attribute_ids, rows)) is not None:
                return planned
        condition = self.method.condition(attribute_ids, rows)
        ablation = self.method.ablation
        if ablation is None or ablation.columns is None or attribute_ids is None:
            return condition
        hidden = attribute_ids.clone()
        hidden[:, ablation.columns] = 0
        return condition.with_hidden(self.method.condition(hidden, rows))

    @property
    def passes_by_plan(self) -> bool:
        """Whether a pass now may be by plan: one without gradients, in which nothing reads the values themselves."""
        return not (self.training or torch.is_grad_enabled() or self.method.ablation is not None)

    @contextmanager
    def keeping_plans(self) -> Iterator[None]:
        """Let passes that are recorded within a block act by plan, with the parameters as they are now.

        Recorded operations cannot ask whether parameters have changed since, so that elsewhere recorded passes have no
        plans.
        """
        with ExitStack() as stack:
            for method in self.values.methods():
                stack.enter_context(method.keeping_plan(self.backbone.dtype))
            yield

    def _replicate_for_data_parallel(self) -> Self:
        raise ConfigError(
            "torch.nn.DataParallel copies layers without the attributes of their batch: use one process per device "
            "(torchrun or accelerate launch), or make one device visible"
        )

    def longest_text(self) -> int | None:
        """Return the maximum length of a text in ids, special tokens included; None without a limit.

        It is the smaller of the tokenizer's limit and the backbone's number of positions, less the positions and ids
        that the method uses.
        """
        limits = [self.most_positions, None if self.tokenizer is None else longest_input(self.tokenizer)]
        known = [limit for limit in limits if limit is not None]
        return min(known) - self.method.extra_positions - self.method.extra_inputs if known else None

    def _prepare_attention(self) -> int | None:
        """Choose the attention by the longest text; returns the length to which batches are padded, if any."""
        window = None if self.text_input is None else self.text_input.window
        special = None if self.tokenizer is None or window is None else SpecialTokens.of(self.tokenizer)
        longest = self.config.chunk or (None if window is None or special is None else window.length(special))
        if longest is not None:
            longest += self.method.extra_positions + self.method.extra_inputs
        return prepare_sparse_attention(self.stack, self.placement, longest=longest)

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or to evaluation; ConfigError for training a quantised model."""
        if mode and self.quantised is not None:
            raise ConfigError(
                f"the weights are rounded to {self.quantised} and cannot be trained: train the model from which "
                "this was made"
            )
        self.trainings += mode
        return cast(Self, super().train(mode))

    @property
    def stack(self) -> PreTrainedModel:
        """The part of the backbone whose layers have the sites: for models that write text, the layers that write."""
        return self.architecture.stack(self.backbone)

    @property
    def stack_name(self) -> str:
        """The name of `stack` in the model."""
        return f"backbone.{self.architecture.stack_path(self.backbone)}".rstrip(".")

    @property
    def values(self) -> ValueTables:
        """The values of attributes: which are known, and what was learned of them."""
        return ValueTables(self)

    def attribute_vectors(self, attribute: str) -> AttributeVectors:
        """Return the vectors of an attribute's values by value, which can be set.

            model.attribute_vectors("user")["u17"]

        Raises:
            ConfigError: for an attribute that the model does not have, or whose values have no vectors of their own.
        """
        return self.values.by_value(attribute)

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embeddings of the backbone."""
        return cast(nn.Module, self.backbone.get_input_embeddings())

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: every module is initialised when it is made."""

    @property
    def supports_gradient_checkpointing(self) -> bool:
        """Whether the backbone's family can be checkpointed (ALBERT and MPNet cannot)."""
        return bool(self.backbone.supports_gradient_checkpointing)

    def _set_gradient_checkpointing(
        self,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        if enable:
            if getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant"):
                raise ConfigError(
                    "reentrant gradient checkpointing loses the attributes of the batch: pass "
                    "{'use_reentrant': False}, which is the default"
                )
            gradient_checkpointing_func = partial(self._checkpoint, gradient_checkpointing_func)
        super()._set_gradient_checkpointing(enable, gradient_checkpointing_func, every_n_layers)

    def _checkpoint(self, function: Callable[..., Any], run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Checkpoint one layer so that its second run, in backward, sees the attributes of its first."""
        kwargs.setdefault("use_reentrant", False)
        if not torch.compiler.is_compiling():
            kwargs["context_fn"] = partial(self._contexts, self.method.holder.current)
        return function(run, *args, **kwargs)

    def _contexts(self, condition: Condition) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), self.method.holder.use(condition.again())

    def learned_names(self) -> list[str]:
        """Return the names of the `learned_tensors`."""
        return list(self.learned_tensors())

    def learned_tensors(self) -> dict[str, Tensor]:
        """Return the stored tensors: those trained when the model was built, those now, and what the method counts."""
        before = set(self.config.learned or ())
        trained = {name: p for name, p in self.named_parameters() if p.requires_grad or name in before}
        return trained | {f"method.{name}": buffer for name, buffer in stored_buffers(self.method).items()}

    def sizes(self) -> Sizes:
        """Count the parameters."""
        parameters = dict(self.named_parameters())
        trained = {name: p for name, p in parameters.items() if p.requires_grad}
        stored = list(self.learned_tensors().values())
        path = self.stack_name
        layers = tuple(f"{path}.{name}." for name in find_layers(self.stack, self.placement))
        encoder = [p for name, p in parameters.items() if name.startswith(layers) and "lora_" not in name]
        tables, inserted = self.values.tables(), (*layers, "method.")
        injected = [p for name, p in trained.items() if name.startswith(inserted) and name not in tables]
        return Sizes(
            total=sum(p.numel() for p in parameters.values()),
            trained=sum(p.numel() for p in trained.values()),
            stored=sum(p.numel() for p in stored),
            stored_bytes=sum(p.numel() * p.element_size() for p in stored),
            outputs=self.task.outputs,
            encoder=sum(p.numel() for p in encoder),
            injected=sum(p.numel() for p in injected),
        )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the learned tensors, or all tensors.

        Raises:
            ModelFolderError: for any other set of names, or a tensor of another shape, naming them.
        """
        learned, names = set(self.learned_names()), set(state_dict)
        if names not in (learned, set(self.state_dict())):
            missing, foreign = sorted(learned - names), sorted(names - set(self.state_dict()))
            raise ModelFolderError(
                f"the tensors are not those of this model: {len(missing)} missing ({', '.join(missing[:3]) or 'none'}),"
                f" {len(foreign)} unknown ({', '.join(foreign[:3]) or 'none'}): load a folder that save_pretrained of "
                "this model wrote"
            )
        try:
            super().load_state_dict(state_dict, strict=False, assign=assign)
        except RuntimeError as error:
            raise ModelFolderError(f"the tensors do not fit this model: {error}") from error
        return nn.modules.module._IncompatibleKeys([], [])

    def save_pretrained(
        self,
        save_directory: str | Path,
        is_main_process: bool = True,
        state_dict: Mapping[str, Tensor] | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """Write the learned tensors, the configuration, the schema, the tokenizer and a model card.

        Args:
            save_directory: created if missing; files of an earlier save are replaced, each in one step.
            is_main_process: whether to write; False in the other processes of a distributed run.
            state_dict: tensors to write instead of the model's own, as the stock Trainer passes them.
            push_to_hub: upload the folder afterwards, with `kwargs`.

        Raises:
            ModelFolderError: when the folder cannot be written.
            ConfigError: for a quantised model.
        """
        if self.quantised is not None:
            raise ConfigError(f"the weights are rounded to {self.quantised}: save the model from which this was made")
        if not is_main_process:
            return
        if Path(save_directory, "recipe.yaml").is_file():
            raise ModelFolderError(
                f"{save_directory} is the folder of a run, which has a model of its own: save into another folder"
            )
        self.snapshot(state_dict).save_pretrained(Path(save_directory))
        if push_to_hub:
            self.push_to_hub(kwargs.pop("repo_id", Path(save_directory).name), **kwargs)

    def snapshot(
        self, state_dict: Mapping[str, Tensor] | None = None, *, known: KnownValues | None = None
    ) -> ModelSnapshot:
        """Return what is saved of the model.

        Args:
            state_dict: as in `save_pretrained`.
            known: the values that it knows then, if other ones than now.
        """
        known = self.values.known() if known is None else known
        tensors = {**self.state_dict(), **known.tables} if state_dict is None else state_dict
        self.config.learned = self.learned_names()
        self.config.architectures = [type(self).__name__]
        return ModelSnapshot(
            tensors={name: tensors[name] for name in self.config.learned},
            config=self.config,
            schema=known.schema,
            tokenizer=self.tokenizer,
            sizes=self.sizes(),
            memory=self.memory,
            blend=self.blend_under(known.schema),
        )

    def blend_under(self, schema: Schema) -> Blend | None:
        """Return the simple models beside it, if there are some, with the values of another schema."""
        return self.blend if self.blend is None or not self.reads_attributes else self.blend.under(schema)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str | None = None,
        commit_description: str | None = None,
        private: bool | None = None,
        token: bool | str | None = None,
        revision: str | None = None,
        create_pr: bool = False,
    ) -> str:
        """Upload the folder that `save_pretrained` writes; returns the URL of the commit.

        Args:
            repo_id: name on the hub; the repository is created if missing.
            token: access token of the hub; by default that of the logged-in user.
            revision: branch.
            create_pr: open a pull request instead of committing.
        """
        api = HfApi(token=token)
        name = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return api.upload_folder(
                repo_id=name,
                folder_path=folder,
                commit_message=commit_message or f"Upload {type(self).__name__}",
                commit_description=commit_description,
                revision=revision,
                create_pr=create_pr,
            )

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        backbone: str | Path | None = None,
        config: AttributeConfig | None = None,
        revision: str | None = None,
        dtype: torch.dtype | str = torch.float32,
        device_map: torch.device | str | int | Mapping[str, Any] | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        attn_implementation: str | None = None,
        quantization_config: Any = None,
        shared: SharedBackbones | None = None,
        verify: bool = True,
        **others: Any,
    ) -> Self:
        """Load a model that `save_pretrained` wrote, ready for evaluation.

        Args:
            pretrained_model_name_or_path: a folder, or a name on the hub.
            backbone: new location of the backbone's weights, if they were moved.
            config: instead of the one in the folder, as the Auto classes of transformers pass it.
            revision: branch, tag or commit of the model on the hub.
            dtype: of the backbone's weights, or its name, such as "bfloat16"; "auto" is that of those
                that are saved with the model, else float32.
            device_map: a single device, such as "cuda"; "auto" is a GPU if there is one. By default that of the shared
                backbones, else the CPU.
            token: access token of the hub, for the model and its backbone; by default that of the logged-in user.
            cache_dir: where files of the hub are stored.
            local_files_only: read what is stored there alone.
            attn_implementation: of the backbone, such as "eager"; by default what transformers chooses.
            quantization_config: loads the backbone in 4 or 8 bits, on a GPU, where its matrices were not trained.
            shared: cache of backbones whose weights several models share, for prediction.
            verify: compare the files with the checksums that were saved with them; see `attribune.core.checksums`.
            others: ``output_hidden_states``, ``output_attentions`` and ``return_dict`` of the configuration; the
                further arguments of transformers are refused, each with its reason.

        Raises:
            ModelFolderError: for a missing, changed or foreign file, or another backbone than in training.
            ConfigError: when the backbone cannot be loaded, or for an argument that is not one.
        """
        check_foreign(others)
        if config is not None and attn_implementation is None:
            attn_implementation = config._attn_implementation
        options = LoadOptions(
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            attn_implementation=attn_implementation,
            quantization_config=quantization_config,
        )
        device = device_of(device_map) if shared is None or device_map is not None else shared.device
        folder = ModelFolder.find(pretrained_model_name_or_path, revision=revision, options=options)
        stored, tensors = folder.read(verify=verify)
        config = with_outputs(stored if config is None else config, others)
        schema = Schema.load(folder.schema)
        loaded = folder.read_backbone(config, name=backbone, dtype=dtype_of(dtype, tensors), shared=shared)
        # The tokenizer has the special tokens that a window leaves room for, by which a backbone chooses its attention.
        tokenizer = folder.read_tokenizer(shared=shared)
        with meta_tables():
            model = cls(config, schema=schema, backbone=loaded, tokenizer=tokenizer)
        if shared is not None:
            # Loading into the backbone must not overwrite weights that other models share.
            for tensor in model.learned_tensors().values():
                tensor.data = tensor.data.clone()
        model.load_state_dict(tensors | model.values.load(tensors))
        if (kind := memory_of(model.method_config)) is not None:
            model.memory = kind.empty(model, backbone=backbone).loaded(folder.path, schema)
        model.blend = Blend.load(folder.path, schema=model.input_schema, task=model.task)
        return cast(Self, model.eval().to(device))

    @classmethod
    def revised(
        cls, folder: str | Path, change: Callable[[Schema], Revision], *, backbone: str | Path | None = None
    ) -> Self:
        """Load a saved model after adding values to its schema, or removing values.

        Every row of a table moves with its value; a new value starts with the vector of unknown values. Errors are
        those of `from_pretrained` and of `change`, which makes the revision of the schema.
        """
        model = cls.from_pretrained(folder, backbone=backbone)
        revision = change(model.schema)
        model.values.use(model.values.known().revised(revision))
        if model.memory is not None:
            model.memory = model.memory.revised(revision)
        return model
