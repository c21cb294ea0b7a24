"""`AttributeModel`: a backbone, a method acting in it, and a head, behaving as any transformers model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, cast

import torch
from huggingface_hub import HfApi
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from attribune import functional, saving
from attribune.backbone import build_backbone, fingerprint, load_backbone, pooling_of
from attribune.chunks import cut_chunks, without_empty_rows
from attribune.condition import Condition, Slots, check_attribute_ids
from attribune.configuration import AttributeConfig, Sizes
from attribune.data.texts import TextInput
from attribune.data.windows import longest_input
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.methods import DEFAULT_METHOD, METHODS, Host, MethodConfig, method_from_dict
from attribune.methods.base import AttributeMethod, SiteModule, tables_later
from attribune.placement import Pooling, find_layers, first_position, most_positions, placement_for
from attribune.schema import Schema
from attribune.tasks import Task, task_from_dict
from attribune.tuning import tune_backbone

__all__ = ["AttributeModel"]

_POOLINGS: dict[Pooling, Callable[[Tensor, Tensor], Tensor]] = {
    "first": functional.first_token,
    "mean": functional.mean_tokens,
    "last": functional.last_token,
}


class AttributeModel(PreTrainedModel):
    """A pretrained backbone conditioned on the attributes of each text.

    Make one with `build`, or with `from_pretrained` from a folder that `save_pretrained` wrote.

    Args:
        config: the configuration.
        schema: the attributes.
        backbone: the loaded backbone; without it one with random weights is built from ``config.text_config``.
        tokenizer: saved beside the model when there is one.
    """

    config_class = AttributeConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = False
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
        self.schema = schema
        self.tokenizer = tokenizer
        self.task: Task = task_from_dict(config.task or {})
        self.text_input = None if config.text_input is None else TextInput.from_dict(config.text_input)
        self.slots = schema_slots(schema)
        self.backbone = build_backbone(config.text_config) if backbone is None else backbone
        self.method_config = method_from_dict(config.method or {})
        _take(self.backbone, acting="sites" in self.method_config.points or "lora" in (config.tuning or ""))
        host = Host.of(self.backbone, outputs=self.task.outputs, slots=self.slots)
        self.method = self.method_config.build(host)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(host.hidden, host.outputs)
        placement = placement_for(config.text_config.model_type)
        self.first_position = first_position(self.backbone, placement)
        self.most_positions = most_positions(self.backbone, placement)
        tune_backbone(self.backbone, placement, config.tuning or "")
        self.method.install(self.backbone)
        if config.pooling not in _POOLINGS:
            raise ConfigError(f"unknown pooling {config.pooling!r}: choose one of {', '.join(_POOLINGS)}")
        self.pool = _POOLINGS[config.pooling]
        # Everything is initialised where it is made: the redraw of post_init would undo the initial values.
        for module in self.modules():
            module._is_hf_initialized = True
        self.post_init()
        config.learned = self.learned_names()

    @classmethod
    def build(
        cls,
        backbone: str | PreTrainedModel,
        schema: Schema,
        *,
        task: Task,
        method: MethodConfig | None = None,
        tuning: str | None = None,
        pooling: Pooling | None = None,
        dropout: float = 0.2,
        attention_dropout: float | None = None,
        revision: str | None = None,
        dtype: torch.dtype = torch.float32,
        tokenizer: PreTrainedTokenizerBase | None = None,
        text_input: TextInput | None = None,
        chunk: int | None = None,
    ) -> Self:
        """Make an untrained model over pretrained weights.

        Args:
            backbone: a hub name, a folder, or a loaded backbone, whose pooler, not being used, is taken away.
            schema: the attributes, fitted on training rows.
            task: what is predicted.
            method: settings of the method; those of the default one unless given.
            tuning: what of the backbone learns, as `attribune.tuning.Tuning.parse` reads it; the method's own default
                unless given.
            pooling: the document vector; that for which the weights were trained unless given.
            dropout: on the pooled vector before the head.
            attention_dropout: in training, of a backbone that is loaded by name; that of the pretrained weights unless
                given. With 0 training on long texts is much faster, see `docs/performance.md`.
            revision: branch, tag or commit of the backbone on the hub.
            dtype: of a backbone that is loaded by name; method and head are always float32.
            tokenizer: saved beside the model when given.
            text_input: which columns are the text, saved with the model when given; `Predictor` then needs no more.
            chunk: ids that the backbone reads at once: longer texts are cut into chunks, each a row of its batch with
                positions from 0. That of the window of `text_input` unless given; None reads a text at once.

        Raises:
            ConfigError: for settings that do not fit each other or the backbone.
        """
        method = METHODS[DEFAULT_METHOD]() if method is None else method
        if isinstance(backbone, str):
            name, loaded = backbone, load_backbone(backbone, revision=revision, attention_dropout=attention_dropout)
        else:
            name, loaded = backbone.config._name_or_path, backbone
            if placement_for(loaded.config.model_type).pooler:
                loaded.pooler = None
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout is {dropout}: it must be at least 0 and below 1")
        if pooling is None:
            placement = placement_for(loaded.config.model_type)
            pooling = pooling_of(name, placement, revision=revision) if name else placement.pooling
        config = AttributeConfig(
            text_config=loaded.config,
            backbone=name,
            revision=revision,
            backbone_fingerprint=fingerprint(loaded),
            id2label=dict(enumerate(getattr(task, "class_names", ()))) or None,
            method=method.to_dict(),
            task=task.to_dict(),
            tuning=tuning or method.default_tuning,
            pooling=pooling,
            dropout=dropout,
            chunk=_chunk_of(chunk, text_input),
            text_input=None if text_input is None else text_input.to_dict(),
        )
        if isinstance(backbone, str):
            loaded.to(dtype)
        return cls(config, schema=schema, backbone=loaded, tokenizer=tokenizer)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        attribute_ids: Tensor | None = None,
        labels: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> SequenceClassifierOutput:
        """Logits, and the task's loss when there are labels; as a tuple with ``return_dict=False``.

        Args:
            input_ids: (B, T).
            attention_mask: (B, T), 1 for real tokens; all real when left out.
            attribute_ids: (B, slots), from ``schema.encode``; required by methods that use attributes.
            labels: (B,) or (B, n), as the task encodes them.
            token_type_ids: (B, T), for backbones that take them; those of a single text are all zero.

        Raises:
            DataError: for attribute_ids that are missing, of the wrong shape or out of range.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        self._check_length(input_ids.shape[1])
        condition = self._condition(attribute_ids, rows=input_ids.shape[0])
        hidden, attention_mask = self._states(input_ids, attention_mask, token_type_ids, condition)
        hidden = self.method.encode(hidden, attention_mask, condition)
        document = self.dropout(self.method.pool(hidden, attention_mask, condition, self._pool))
        logits = self.method.classify(document.to(self.head.weight.dtype), condition, self.head).float()
        loss = None if labels is None else self.task.loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _check_length(self, length: int) -> None:
        limit = None if self.most_positions is None else self.most_positions - self.method.extra_positions
        if limit is None or min(length, self.config.chunk or length) <= limit:
            return
        if self.config.chunk is None:
            raise DataError(
                f"a text of {length} ids is longer than the {limit} that the backbone takes: encode with a shorter "
                "window, or build the model with chunk= or a text_input whose window is chunks"
            )
        raise DataError(f"chunks of {self.config.chunk} ids are longer than the {limit} that the backbone takes")

    def _states(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None, condition: Condition
    ) -> tuple[Tensor, Tensor]:
        """The backbone's last states (B, T, H) of the text's tokens, and their mask; T is a multiple of the chunk."""
        rows = input_ids.shape[0]  # and not its len(), which an export would take for a constant
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        if self.config.chunk is not None or self.method.pads_right:
            T = input_ids.shape[1]
            inputs = cut_chunks(inputs, min(T, self.config.chunk or T))
            condition = condition.over_chunks(inputs["input_ids"].shape[0] // rows)
        real = inputs["attention_mask"]
        embedded = self.method.embed(inputs["input_ids"], real, condition, self.get_input_embeddings())
        if embedded is not None:
            inputs = {name: embedded.spread(x) for name, x in inputs.items() if name == "token_type_ids"}
            inputs |= {"inputs_embeds": embedded.states, "attention_mask": embedded.attention_mask}
            if self.first_position is not None:
                inputs["position_ids"] = embedded.positions(real, first=self.first_position)
        condition = condition.reading(real if embedded is None else embedded.spread(real))
        if condition.chunks > 1:
            inputs["attention_mask"] = without_empty_rows(inputs["attention_mask"])
        with self.method.holder.use(condition):
            hidden = self.backbone(**inputs).last_hidden_state
        hidden = hidden if embedded is None else embedded.text_states(hidden)
        return hidden.reshape(rows, -1, hidden.shape[-1]), real.reshape(rows, -1)

    def _pool(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """The document vectors (B, H): those of the chunks, averaged over the chunks that have a real token."""
        chunk = self.config.chunk
        if chunk is None or hidden.shape[1] <= chunk:
            return self.pool(hidden, attention_mask)
        B, T, H = hidden.shape
        mask = attention_mask.view(-1, chunk)
        pooled = self.pool(hidden.view(-1, chunk, H), mask).view(B, T // chunk, H)
        return functional.mean_tokens(pooled, mask.any(dim=1).view(B, -1))

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

    def learned_names(self) -> list[str]:
        """Names of the tensors that are stored: all that learned when the model was built, and all that learn now."""
        before = set(self.config.learned or ())
        return [name for name, p in self.named_parameters() if p.requires_grad or name in before]

    def sizes(self) -> Sizes:
        """Count the parameters."""
        parameters = dict(self.named_parameters())
        stored = [parameters[name] for name in self.learned_names()]
        layers = tuple(
            f"backbone.{name}."
            for name in find_layers(self.backbone, placement_for(self.config.text_config.model_type))
        )
        tables = self.attribute_tables()
        return Sizes(
            total=sum(p.numel() for p in parameters.values()),
            trained=sum(p.numel() for p in parameters.values() if p.requires_grad),
            stored=sum(p.numel() for p in stored),
            stored_bytes=sum(p.numel() * p.element_size() for p in stored),
            outputs=self.task.outputs,
            encoder=sum(p.numel() for name, p in parameters.items() if name.startswith(layers) and "lora_" not in name),
            injected=sum(
                p.numel()
                for name, p in parameters.items()
                if p.requires_grad and name.startswith((*layers, "method.")) and name not in tables
            ),
        )

    def attribute_parameters(self) -> dict[str, nn.Parameter]:
        """What reads attributes, by name: the method without its task adapters, nothing of backbone and head."""
        modules = dict(self.named_modules())
        readers = tuple(f"{name}." for name, module in modules.items() if isinstance(module, AttributeMethod))
        others = tuple(
            f"{name}."
            for name, module in modules.items()
            if isinstance(module, SiteModule) and not module.reads_attributes
        )
        return {
            name: p for name, p in self.named_parameters() if name.startswith(readers) and not name.startswith(others)
        }

    def attribute_tables(self) -> set[str]:
        """Names of the tables with a vector for each value."""
        tables = {id(p) for module in self.modules() if isinstance(module, AttributeMethod) for p in module.tables}
        return {name for name, p in self.named_parameters() if id(p) in tables}

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

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load exactly the learned tensors, or exactly all.

        Raises:
            ModelFolderError: for any other set of names, or a tensor of another shape, naming them.
        """
        learned, given = set(self.learned_names()), set(state_dict)
        if given not in (learned, set(self.state_dict())):
            missing, foreign = sorted(learned - given), sorted(given - set(self.state_dict()))
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
            save_directory: made when it is missing; files of an earlier save are replaced, each in one step.
            is_main_process: of several processes only the main one writes.
            state_dict: tensors to write instead of the model's own, as the stock Trainer passes them.
            push_to_hub: upload the folder afterwards.
            kwargs: of ``push_to_hub``.

        Raises:
            ModelFolderError: when the folder cannot be written.
        """
        if not is_main_process:
            return
        tensors = self.state_dict() if state_dict is None else state_dict
        self.config.learned = self.learned_names()
        self.config.architectures = [type(self).__name__]
        saving.write_model(
            Path(save_directory),
            tensors={name: tensors[name] for name in self.config.learned},
            config=self.config,
            schema=self.schema,
            tokenizer=self.tokenizer,
            sizes=self.sizes(),
        )
        if push_to_hub:
            self.push_to_hub(kwargs.pop("repo_id", Path(save_directory).name), **kwargs)

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
        """Upload the folder that `save_pretrained` writes, its model card included.

        Args:
            repo_id: name on the hub; the repository is made when it is missing.
            commit_message: of the upload.
            commit_description: of the upload.
            private: whether a new repository is private.
            token: of the hub; the one that is logged in unless given.
            revision: branch.
            create_pr: open a pull request instead of committing.

        Returns:
            The address of the commit.
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
        backbone: str | None = None,
        revision: str | None = None,
        dtype: torch.dtype | str = torch.float32,
        device_map: torch.device | str | None = None,
    ) -> Self:
        """Load a model that `save_pretrained` wrote, ready for evaluation.

        Args:
            pretrained_model_name_or_path: a folder, or a name on the hub.
            backbone: where the backbone's weights are, if no longer where they were.
            revision: branch, tag or commit of the model on the hub.
            dtype: of the backbone's weights, or its name, such as "bfloat16".
            device_map: the one device on which the model is put, such as "cuda"; the CPU unless given.

        Raises:
            ModelFolderError: for a missing, truncated or foreign file, or another backbone than in training.
            ConfigError: when the backbone cannot be loaded.
        """
        dtype, device = _dtype_of(dtype), _device_of(device_map)
        files = saving.find_model(pretrained_model_name_or_path, revision=revision)
        config, tensors = saving.read_model(files)
        loaded = saving.restore_backbone(config, tensors, files.folder, name=backbone, dtype=dtype)
        with tables_later():
            model = cls(config, schema=Schema.load(files.schema), backbone=loaded)
        model.load_state_dict(tensors | model._give_tables(tensors))
        model.tokenizer = saving.read_tokenizer(files)
        return cast(Self, model.eval().to(device))

    def _give_tables(self, tensors: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
        """Make the attribute tables of tensors, which are mapped from a file and not read; returns them."""
        given = {}
        for name in self.attribute_tables():
            table, found = self.get_parameter(name), tensors[name]
            if found.shape != table.shape:
                raise ModelFolderError(
                    f"the table {name} has shape {tuple(found.shape)}, but the schema needs {tuple(table.shape)}: the "
                    "files come from two different saves; copy the folder again"
                )
            owner, _, place = name.rpartition(".")
            given[name] = nn.Parameter(found.to(table.dtype))
            setattr(self.get_submodule(owner), place, given[name])
        return given


def _dtype_of(dtype: torch.dtype | str) -> torch.dtype:
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError(f"dtype is {dtype!r}: choose float32, bfloat16 or float16")
    return found


def _device_of(device_map: torch.device | str | None) -> torch.device:
    try:
        return torch.device("cpu" if device_map is None else device_map)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device_map is {device_map!r}: give one device, such as 'cpu' or 'cuda:0'; the layers of a model are not "
            "spread over several"
        ) from error


def _take(backbone: PreTrainedModel, *, acting: bool) -> None:
    """Mark a backbone in which a method acts: another model over it would meet that method's hooks."""
    if getattr(backbone, "_attribune_taken", False):
        raise ConfigError(
            "this backbone belongs to another AttributeModel, whose method acts inside it: load the weights again, or "
            "pass copy.deepcopy of a backbone that no model has had"
        )
    backbone._attribune_taken = acting


def _chunk_of(chunk: int | None, text_input: TextInput | None) -> int | None:
    if chunk is None and text_input is not None and text_input.window is not None:
        chunk = text_input.window.chunk
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk is {chunk}: it must be at least 1, or None to read a text at once")
    return chunk


def schema_slots(schema: Schema) -> tuple[Slots, ...]:
    """What the layers need to know of a schema: where each attribute stands and how many ids it has."""
    return tuple(Slots(name=a.name, start=a.start, count=a.slots, size=a.size) for a in schema.attributes)
