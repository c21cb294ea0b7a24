"""Saving and loading of neural models: only learned tensors are stored, the backbone is loaded again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, cast

import torch
from huggingface_hub import HfApi
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribune.backbones.load_options import LoadOptions
from attribune.backbones.loading import stack_path
from attribune.backbones.placement import Placement
from attribune.backbones.sharing import SharedBackbones
from attribune.backbones.sites import find_layers
from attribune.data.histories import Histories
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods.attribute_method import meta_tables
from attribune.methods.history import History
from attribune.models import files as saving
from attribune.models.config import AttributeConfig
from attribune.models.known_values import KnownValues
from attribune.models.loading_arguments import check_foreign, device_of, dtype_of, with_outputs
from attribune.models.sizes import Sizes
from attribune.models.snapshot import ModelSnapshot
from attribune.models.text_vectors import TextVectors
from attribune.models.value_tables import ValueTables
from attribune.schema import Schema
from attribune.schema.revision import Revision

__all__ = ["StoredModel"]


class StoredModel(ValueTables):
    """A backbone with a method: which parameters are trained and stored. Subclasses set the attributes.

    A method that reads histories has ``histories``, perhaps ``text_vectors`` by which similar texts are found, and
    ``moved_backbone``, the new location of the weights that compute them. ``quantised`` says to what the
    backbone's weights are rounded; None where they are not.
    """

    config_class = AttributeConfig
    is_generative: ClassVar[bool] = False

    tokenizer: PreTrainedTokenizerBase | None
    backbone: PreTrainedModel
    placement: Placement
    histories: Histories | None = None
    text_vectors: TextVectors | None = None
    moved_backbone: str | Path | None = None
    quantised: str | None = None

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or to evaluation; ConfigError for training a quantised model."""
        if mode and self.quantised is not None:
            raise ConfigError(
                f"the weights are rounded to {self.quantised} and cannot be trained: train the model from which "
                "this was made"
            )
        return cast(Self, super().train(mode))

    @property
    def stack(self) -> PreTrainedModel:
        """The part of the backbone whose layers have the sites: for models that write text, the layers that write."""
        return cast(PreTrainedModel, self.get_submodule(self.stack_name))

    @property
    def stack_name(self) -> str:
        """The name of `stack` in the model."""
        return f"backbone.{stack_path(self.backbone, is_generative=self.is_generative)}".rstrip(".")

    def learned_names(self) -> list[str]:
        """Return the names of the stored tensors: those trained when the model was built, or later, and those now."""
        before, later = set(self.config.learned or ()), "set_encoders."
        named = self.named_parameters()
        return [name for name, p in named if p.requires_grad or name in before or name.startswith(later)]

    def sizes(self) -> Sizes:
        """Count the parameters."""
        parameters = dict(self.named_parameters())
        trained = {name: p for name, p in parameters.items() if p.requires_grad}
        stored = [parameters[name] for name in self.learned_names()]
        path = self.stack_name
        layers = tuple(f"{path}.{name}." for name in find_layers(self.stack, self.placement))
        encoder = [p for name, p in parameters.items() if name.startswith(layers) and "lora_" not in name]
        tables, inserted = self.attribute_tables(), (*layers, "method.")
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
        known = self.known_values() if known is None else known
        tensors = {**self.state_dict(), **known.tables} if state_dict is None else state_dict
        self.config.learned = self.learned_names()
        self.config.architectures = [type(self).__name__]
        return ModelSnapshot(
            tensors={name: tensors[name] for name in self.config.learned},
            config=self.config,
            schema=known.schema,
            tokenizer=self.tokenizer,
            sizes=self.sizes(),
            histories=self.histories,
        )

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
        files = saving.find_model(pretrained_model_name_or_path, revision=revision, options=options)
        stored, tensors = saving.read_model(files, verify=verify)
        config = with_outputs(stored if config is None else config, others)
        dtype = dtype_of(dtype, tensors)
        model = cls._restored(files, config, tensors, backbone=backbone, dtype=dtype, shared=shared)
        return cast(Self, model.to(device))

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
        model.use_values(model.known_values().revised(revision))
        if model.histories is not None:
            model.histories = model.histories.revised(revision)
        return model

    @classmethod
    def _restored(
        cls,
        files: saving.ModelFiles,
        config: AttributeConfig,
        tensors: dict[str, Tensor],
        *,
        backbone: str | Path | None,
        dtype: torch.dtype,
        shared: SharedBackbones | None = None,
    ) -> Self:
        """Build a model from the contents of its files."""
        schema = Schema.load(files.schema)
        loaded = saving.restore_backbone(
            config, files.folder, name=backbone, dtype=dtype, shared=shared, options=files.options
        )
        # The tokenizer has the special tokens that a window leaves room for, by which a backbone chooses its attention.
        tokenizer = saving.read_tokenizer(files, shared=shared)
        with meta_tables():
            model = cls(config, schema=schema, backbone=loaded, tokenizer=tokenizer)
        if shared is not None:
            for name in tensors:  # loading into the backbone must not overwrite weights that other models share
                parameter = model.get_parameter(name)
                parameter.data = parameter.data.clone()
        model.load_state_dict(tensors | model.load_tables(tensors))
        if isinstance(model.method_config, History):
            model.histories = Histories.load(files.folder, model.method_config, schema)
            model.moved_backbone = backbone
        return cast(Self, model.eval())
