"""What all models with attributes share: a backbone, a method acting in it, and the attributes of each batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribune.backbone import build_backbone, fingerprint, load_backbone
from attribune.condition import Condition, Slots, check_attribute_ids
from attribune.configuration import AttributeConfig
from attribune.data.collator import Collator
from attribune.data.texts import TextEncoder, TextInput
from attribune.data.windows import longest_input
from attribune.errors import ConfigError, DataError
from attribune.methods import DEFAULT_METHOD, METHODS, Host, MethodConfig, method_from_dict
from attribune.placement import placement_for
from attribune.schema import Schema
from attribune.sites import first_position, most_positions
from attribune.stored import StoredModel
from attribune.tasks import Task, task_from_dict
from attribune.tuning import tune_backbone

if TYPE_CHECKING:
    from attribune.data.encoding import RowEncoder

__all__ = ["ConditionedModel", "schema_slots"]


class ConditionedModel(StoredModel):
    """A pretrained backbone conditioned on the attributes of each text, whatever is predicted.

    Args:
        config: the configuration.
        schema: the attributes.
        backbone: the loaded backbone; without it one with random weights is built from ``config.text_config``.
        tokenizer: saved beside the model when there is one.
    """

    main_input_name = "input_ids"
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _no_split_modules: ClassVar[list[str]] = []

    def __init__(
        self,
        config: AttributeConfig,
        *,
        schema: Schema,
        backbone: PreTrainedModel | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__(config)
        self._check_kind(config)
        self.schema = schema
        self.tokenizer = tokenizer
        self.task: Task = task_from_dict(config.task or {})
        self.text_input = None if config.text_input is None else TextInput.from_dict(config.text_input)
        self.slots = schema_slots(schema)
        self.backbone = build_backbone(config.text_config, writes=self.writes) if backbone is None else backbone
        self.placement = placement_for(config.text_config.model_type, writes=self.writes)
        self.method_config = method_from_dict(config.method or {})
        self._check_method()
        _take(self.backbone, acting="sites" in self.method_config.points or "lora" in (config.tuning or ""))
        host = Host.of(self.stack, placement=self.placement, outputs=self.task.outputs, slots=self.slots)
        self.method = self.method_config.build(host)
        self._add_head(host)
        self.first_position = first_position(self.stack, self.placement)
        self.most_positions = most_positions(self.stack, self.placement)
        self.backbone.requires_grad_(config.tuning == "full")
        tune_backbone(self.stack, self.placement, config.tuning or "")
        self.method.install(self.stack)
        # Everything is initialised where it is made: the redraw of post_init would undo the initial values.
        for module in self.modules():
            module._is_hf_initialized = True
        self.post_init()
        config.learned = self.learned_names()

    @classmethod
    def _loaded(
        cls, backbone: str | PreTrainedModel, *, revision: str | None, attention_dropout: float | None
    ) -> tuple[str, PreTrainedModel]:
        """The name of a backbone, and the backbone, loaded where it is a name."""
        if isinstance(backbone, str):
            options: dict[str, Any] = {"revision": revision, "attention_dropout": attention_dropout}
            return backbone, load_backbone(backbone, writes=cls.writes, **options)
        return backbone.config._name_or_path, backbone

    @staticmethod
    def _config(
        name: str,
        loaded: PreTrainedModel,
        *,
        task: Task,
        method: MethodConfig | None,
        tuning: str | None,
        revision: str | None,
        text_input: TextInput | None,
        **own: Any,
    ) -> AttributeConfig:
        """The configuration of an untrained model."""
        method = METHODS[DEFAULT_METHOD]() if method is None else method
        return AttributeConfig(
            text_config=loaded.config,
            backbone=name,
            revision=revision,
            backbone_fingerprint=fingerprint(loaded),
            method=method.to_dict(),
            task=task.to_dict(),
            tuning=tuning or method.default_tuning,
            text_input=None if text_input is None else text_input.to_dict(),
            **own,
        )

    @classmethod
    def _check_kind(cls, config: AttributeConfig) -> None:
        """Refuse the configuration of a model of the other kind."""
        if config.writes != cls.writes:
            kind, name = ("writes", "AttributeGenerator") if config.writes else ("does not write", "AttributeModel")
            raise ConfigError(f"this model {kind} text: use {name}, or load_model, which finds the class out")

    def _check_method(self) -> None:
        """Refuse methods that cannot act in a model of this kind."""

    def _add_head(self, host: Host) -> None:
        """Make what stands on the backbone beside the method."""

    @abstractmethod
    def row_scores(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """What the task needs of each row, (B, outputs), to decode it and to compute its metrics.

        Args:
            logits: of a forward pass.
            labels: of the same batch.
        """

    @abstractmethod
    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The negative log-likelihood of each row, (B,), in nats.

        Args:
            logits: of a forward pass.
            labels: of the same batch.
        """

    def row_encoder(self, text_input: TextInput | None = None) -> RowEncoder:
        """What makes ids of the texts of rows, as this model reads them.

        Args:
            text_input: which columns are the text, and how it is fitted; the model's own unless given.

        Raises:
            ConfigError: without a tokenizer, or for a window that the backbone cannot take.
        """
        text = text_input or self.text_input
        window = None if text is None else text.window
        return TextEncoder(self._own_tokenizer(), window=window, limit=self.longest_text())

    def collator(self, schema: Schema | None = None) -> Collator:
        """What makes batches of encoded rows.

        Args:
            schema: with which they were encoded; the model's own unless given.

        Raises:
            ConfigError: without a tokenizer.
        """
        return Collator(self._own_tokenizer(), self.schema if schema is None else schema)

    def _own_tokenizer(self) -> PreTrainedTokenizerBase:
        if self.tokenizer is None:
            raise ConfigError("the model has no tokenizer: set model.tokenizer first")
        return self.tokenizer

    def _condition(self, attribute_ids: Tensor | None, *, rows: int) -> Condition:
        if self.method_config.uses_attributes:
            if attribute_ids is None:
                raise DataError(
                    f"method {self.method_config.name!r} needs attribute_ids: pass schema.encode(rows), or zeros of "
                    f"shape {(rows, self.schema.slots)} for rows whose attributes are all missing"
                )
            check_attribute_ids(attribute_ids, self.slots, rows)
        return self.method.condition(attribute_ids, rows)

    def _replicate_for_data_parallel(self) -> Self:
        raise ConfigError(
            "torch.nn.DataParallel copies layers without the attributes of their batch: use one process per device "
            "(torchrun or accelerate launch), or make one device visible"
        )

    def keep_weights(self, megabytes: float) -> None:
        """Keep what methods generate for the values seen last, for passes without gradients: the same users again.

        Only weights of attributes with one value per row are kept, and only by methods that generate any (Injector);
        they are forgotten when a parameter changes. 0, the beginning, keeps none.

        Args:
            megabytes: that are kept at most.

        Raises:
            ConfigError: for a negative number.
        """
        if not megabytes >= 0:
            raise ConfigError(f"megabytes is {megabytes}: give 0 or more")
        self.method.keep_weights(megabytes)

    def longest_text(self) -> int | None:
        """Ids, special tokens included, that a text may have; None without a limit.

        It is what the tokenizer says, and not more than the backbone's table of positions has room for, less the
        positions that the method takes for itself.
        """
        limits = [self.most_positions, None if self.tokenizer is None else longest_input(self.tokenizer)]
        known = [limit for limit in limits if limit is not None]
        return min(known) - self.method.extra_positions if known else None

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings of the backbone."""
        return cast(nn.Module, self.backbone.get_input_embeddings())

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
        return nullcontext(), self.method.holder.use(condition)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Every module is initialised where it is made."""


def _take(backbone: PreTrainedModel, *, acting: bool) -> None:
    """Mark a backbone in which a method acts: another model over it would meet that method's hooks."""
    if getattr(backbone, "_attribune_taken", False):
        raise ConfigError(
            "this backbone belongs to another AttributeModel, whose method acts inside it: load the weights again, or "
            "pass copy.deepcopy of a backbone that no model has had"
        )
    backbone._attribune_taken = acting


def schema_slots(schema: Schema) -> tuple[Slots, ...]:
    """What the layers need to know of a schema: where each attribute stands and how many ids it has."""
    return tuple(Slots(name=a.name, start=a.start, count=a.slots, size=a.size) for a in schema.attributes)
