"""The folder of a saved model: its card and its other files, how they are written, and read with every file checked."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from attribune.backbones.loading import (
    AS_STORED,
    LoadOptions,
    build_backbone,
    check_counts,
    check_fingerprint,
    check_quantised_tuning,
)
from attribune.backbones.sharing import SharedBackbones, load_with_fingerprint
from attribune.core.checksums import CHECKSUMS, check_files, checksum_of, write_checksums
from attribune.core.config import checked_record
from attribune.core.door import as_argument
from attribune.core.files import clear_drafts, draft_of, move_into_place, read_json, replace_file
from attribune.core.logs import show_note
from attribune.core.wording import one_line
from attribune.data.memory import Memory, memory_files
from attribune.errors import ModelFolderError
from attribune.methods import method_from_dict
from attribune.metrics.tables import markdown_cell
from attribune.models.baselines import files_of_baselines
from attribune.models.blend import Blend
from attribune.models.config import SET_ENCODERS, AttributeConfig, SavedSettings
from attribune.models.sizes import Sizes
from attribune.schema import Schema
from attribune.tasks import Task, task_from_dict

_SENSITIVE = re.compile(
    r"(?i)(?<![a-z])(age|aged|birth|born|gender|sex|race|racial|ethnic|religio|faith|politic|party|national|citizen|"
    r"origin|native|disab|health|diagnos|orientation|sexual|income|salary|marital|caste)"
)


def model_card(config: AttributeConfig, schema: Schema, sizes: Sizes, blend: Blend | None) -> str:
    """Render the card of a saved model; it names the attributes and counts their values, but lists none."""
    base, task = public_name(config.backbone), task_from_dict(config.task or {})
    method = method_from_dict(config.method or {})
    return render_card(
        "models/templates/model_card.md.j2",
        base=base,
        method=method.name,
        stored_texts=[text for text in (method.stored_texts, blend and blend.stored_texts) if text],
        backbone=base or (Path(config.backbone).name if config.backbone else "a backbone built in memory"),
        task=task,
        pooling=config.pooling if task.input.scores == "texts" else None,
        outputs=task.outputs if task.head.outputs else None,
        config=config,
        schema=schema,
        sizes=sizes,
    )


def render_card(
    template: str,
    *,
    base: str | None,
    method: str,
    task: Task | type[Task],
    name: str | None = None,
    metrics: Sequence[EvalResult] = (),
    **facts: Any,
) -> str:
    """Render a card from a template.

    Args:
        template: its path in the package.
        base: the backbone's name on the hub, where it has one.
        method: name of the method, which becomes a tag.
        name: the model's name, shown on the hub beside the metrics.
        facts: variables of the template beside `method`, `task` and `head`.
    """
    head = ModelCardData(
        library_name="attribune",
        base_model=base,
        pipeline_tag=task.pipeline,
        tags=["attribune", method, task.pipeline],
        model_name=name if metrics else None,
        eval_results=list(metrics) or None,
    )
    return _templates().get_template(template).render(head=head.to_yaml(), method=method, task=task, **facts)


def public_name(backbone: str | None) -> str | None:
    """Return a backbone's name on the hub; None for a local folder, whose path means nothing to others."""
    # A path may also reveal what should stay private.
    is_local = not backbone or Path(backbone).is_absolute() or Path(backbone).exists()
    return None if is_local else backbone


def _in_code(text: object) -> str:
    """Return a text for the inside of a code span, which a backtick or an empty line would end."""
    return one_line(str(text)).replace("`", "'")


def code_spans(names: Sequence[str]) -> str:
    """Write the names of columns as code, with commas between them."""
    return ", ".join(f"`{_in_code(name)}`" for name in names)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("attribune", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "cell": lambda text: markdown_cell(one_line(text)).replace("<", "&lt;"),
        "code": code_spans,
        "in_code": _in_code,
        "sensitive": lambda names: [name for name in names if _SENSITIVE.search(name)],
        "comma": lambda number, places=None: f"{number:,}" if places is None else f"{number:,.{places}f}",
        "example": lambda columns, cell: json.dumps(dict.fromkeys(columns, cell), ensure_ascii=False),
    }
    return templates


_log = logging.getLogger(__name__)

CONFIG = "config.json"
SCHEMA = "schema.json"
TENSORS = "model.safetensors"
CARD = "README.md"
OLD_MODEL = ".model.old"
"""Where a run has its model for the moment in which a changed one takes its place."""


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a saved model, or the files of one on the hub.

    Args:
        path: where the files are.
        hub_name: of a model on the hub, with its branch, tag or commit.
        options: how its backbone is loaded.
    """

    path: Path
    hub_name: str | None = None
    revision: str | None = None
    options: LoadOptions = AS_STORED

    @property
    def schema(self) -> Path:
        """The file of the attributes; see `Schema.files_beside`."""
        return self.path / SCHEMA

    @classmethod
    def find(cls, name: str | Path, *, revision: str | None = None, options: LoadOptions = AS_STORED) -> Self:
        """Find the files of a model in a folder, or get them from the hub.

        Raises:
            ModelFolderError: naming the file that is missing and those that are there.
        """
        folder = Path(name)
        if folder.is_dir():
            if not (folder / CONFIG).is_file():
                inside = (folder / "model", folder / OLD_MODEL)
                folder = next((one for one in inside if (one / CONFIG).is_file()), folder)
            for file in (CONFIG, SCHEMA, TENSORS):
                if not (folder / file).is_file():
                    names = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "nothing"
                    raise ModelFolderError(f"{folder} has no {file} (it has: {names}): give a folder of a saved model")
            return cls(folder, options=options)
        if folder.exists() or folder.is_absolute() or str(name).count("/") > 1:
            raise ModelFolderError(f"{name} is not a folder: give the folder of a saved model or a name on the hub")
        get = partial(cached_file, str(name), revision=revision, **options.of_hub(name))
        try:
            paths = {file: Path(str(get(file))) for file in (CONFIG, SCHEMA, TENSORS)}
            for file in Schema.files_beside(paths[SCHEMA]):
                get(file)
            for file in (CHECKSUMS, *Blend.files, *memory_files()):
                get(file, _raise_exceptions_for_missing_entries=False)
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            raise ModelFolderError(
                f"{name} is neither a folder here nor a model that the hub gives ({reason})"
            ) from error
        return cls(paths[CONFIG].parent, hub_name=str(name), revision=revision, options=options)

    def read_config(self) -> AttributeConfig:
        """Read the configuration.

        Raises:
            ModelFolderError: for a truncated or foreign file, naming it.
        """
        file = self.path / CONFIG
        settings = read_json(file, what="configuration")
        kind = settings.get("model_type") if isinstance(settings, dict) else type(settings).__name__
        if kind != AttributeConfig.model_type:
            raise ModelFolderError(
                f"{file} describes a model of type {kind!r}, not one of this library: give a folder that "
                "AttributeModel.save_pretrained wrote"
            )
        checked_record(settings, SavedSettings, source=file, what="configuration", strict=True)
        check_counts(settings, source=file)
        check_counts(settings["text_config"], source=file)
        try:
            config: AttributeConfig = AttributeConfig.from_dict(settings)
        except Exception as error:  # settings of another type lead to errors of many types
            raise ModelFolderError(f"{file} cannot be used ({error}): copy the folder again") from error
        return config

    def read(self, *, verify: bool = True) -> tuple[AttributeConfig, dict[str, Tensor]]:
        """Read configuration and tensors.

        Args:
            verify: compare all files of the model with their checksums.

        Raises:
            ModelFolderError: for a truncated, changed or foreign file, naming it.
        """
        if verify:
            check_files(self.path)
        config = self.read_config()
        try:
            tensors = load_file(str(self.path / TENSORS))
        except (SafetensorError, OSError) as error:
            raise ModelFolderError(
                f"{self.path / TENSORS} is truncated or foreign ({error}): copy the folder again"
            ) from error
        if encoders := [name for name in tensors if name.startswith(SET_ENCODERS)]:
            tensors = {name: tensor for name, tensor in tensors.items() if name not in encoders}
            show_note(
                f"{self.path} has encoders of new values, which are not used any more: new values are learned as the "
                "most probable ones of their rows"
            )
        if set(tensors) != set(config.learned or ()):
            odd = sorted(set(tensors) ^ set(config.learned or ()))
            raise ModelFolderError(
                f"{self.path / TENSORS} does not hold the tensors that {CONFIG} lists ({len(odd)} differ, such as "
                f"{odd[0]}): the files come from two different saves; copy the folder again"
            )
        return config, tensors

    def read_backbone(
        self,
        config: AttributeConfig,
        *,
        name: str | Path | None,
        dtype: torch.dtype,
        shared: SharedBackbones | None = None,
    ) -> PreTrainedModel:
        """Load the backbone of a saved model; one that was fully trained is only built, since its tensors are stored.

        Args:
            name: location of the weights, if not that of the configuration.
            shared: cache that provides the backbone instead of a copy of its own.

        Raises:
            ModelFolderError: when the weights are not those of training.
            ConfigError: when they cannot be loaded.
        """
        if self.options.quantization_config is not None:
            check_quantised_tuning(config.tuning or "")
        if config.tuning == "full" and name is None:
            config.text_config._attn_implementation = self.options.attn_implementation
            return build_backbone(config.text_config, architecture=config.architecture).to(dtype)
        source = str(name or config.backbone or "")
        if not source:
            raise ModelFolderError(
                f"{self.path} does not say which backbone it was trained on, since that was built in memory: "
                f"give its weights with {as_argument('backbone', 'FOLDER')}"
            )
        revision = config.revision if name is None else None
        load = load_with_fingerprint if shared is None else shared.load
        backbone, mark = load(
            source, revision=revision, architecture=config.architecture, dtype=dtype, options=self.options
        )
        for key in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size"):
            ours, theirs = (getattr(owner, key, None) for owner in (config.text_config, backbone.config))
            if ours != theirs:
                raise ModelFolderError(
                    f"{self.path} was trained on a backbone with {key} {ours}, but {source!r} has {theirs}: give the "
                    f"original weights with {as_argument('backbone', 'FOLDER')}"
                )
        if config.backbone_fingerprint:
            check_fingerprint(mark, config.backbone_fingerprint, name=source, folder=self.path)
        return backbone

    def read_tokenizer(self, *, shared: SharedBackbones | None = None) -> PreTrainedTokenizerBase | None:
        """Load the tokenizer saved beside a model; None when there is none.

        Args:
            shared: cache that provides one tokenizer for all models whose tokenizers have the same self.
        """
        if shared is None or self.hub_name is not None:
            return self._loaded_tokenizer()
        own = {
            CONFIG,
            SCHEMA,
            TENSORS,
            CARD,
            CHECKSUMS,
            *Blend.files,
            *memory_files(),
            *Schema.files_beside(self.schema),
        }
        theirs = sorted(path for path in self.path.iterdir() if path.is_file() and path.name not in own)
        key = tuple((path.name, checksum_of(path)["xxh3_128"]) for path in theirs)
        if key not in shared.tokenizers:
            shared.tokenizers[key] = self._loaded_tokenizer()
        return shared.tokenizers[key]

    def _loaded_tokenizer(self) -> PreTrainedTokenizerBase | None:
        if self.hub_name is not None:
            try:
                return AutoTokenizer.from_pretrained(
                    self.hub_name,
                    revision=self.revision,
                    trust_remote_code=False,
                    **self.options.of_hub(self.hub_name),
                )
            except OSError:
                return None
        if not (self.path / "tokenizer_config.json").is_file():
            return None
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(self.path), trust_remote_code=False)
        except Exception as error:  # tokenizers raises errors of many types, Exception itself among them
            reason = " ".join(str(error).split())
            raise ModelFolderError(
                f"the tokenizer in {self.path} cannot be read ({reason}): copy the folder again"
            ) from error
        return tokenizer


@dataclass(frozen=True, kw_only=True)
class ModelSnapshot:
    """What is saved of a model, as it was at one time: it can be written while the model changes.

    Args:
        tensors: those learned, by name.
    """

    tensors: Mapping[str, Tensor]
    config: AttributeConfig
    schema: Schema
    tokenizer: PreTrainedTokenizerBase | None
    sizes: Sizes
    memory: Memory | None = None
    blend: Blend | None = None

    def save_pretrained(self, folder: Path, /) -> None:
        """Write the folder that `ConditionedModel.from_pretrained` reads.

        Each file except the tokenizer's is replaced in one step, the checksums last.

        Raises:
            ModelFolderError: when the folder cannot be written, with the system's reason.
        """
        partial = draft_of(folder / TENSORS)
        names = {CONFIG, SCHEMA, TENSORS}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            clear_drafts(folder)
            replace_file(folder / CONFIG, self.config.to_json_string().encode())
            self.schema.save(folder / SCHEMA)
            replace_file(folder / CARD, model_card(self.config, self.schema, self.sizes, self.blend).encode())
            if self.memory is not None:
                names |= {*self.memory.save(folder)}
            if self.blend is not None:
                names |= {*self.blend.save(folder)}
            if self.tokenizer is not None:
                written = map(Path, self.tokenizer.save_pretrained(str(folder)))
                names |= {file.name for file in written if file.is_file()}
            save_file(
                {k: v.detach().contiguous() for k, v in self.tensors.items()}, str(partial), metadata={"format": "pt"}
            )
            shutil.copymode(folder / CONFIG, partial)  # safetensors writes files that only the owner can read
            move_into_place(partial, folder / TENSORS)
            write_checksums(folder, {*names, *Schema.files_beside(folder / SCHEMA)})
            # Of an earlier save; by those of a baseline, the folder would still be taken for one.
            for name in (*files_of_baselines(), *Blend.files):
                if name not in names:
                    (folder / name).unlink(missing_ok=True)
            _log.info("%d learned tensors written to %s", len(self.tensors), folder)
        except (OSError, SafetensorError) as error:
            raise ModelFolderError(
                f"the model could not be written to {folder}: {error}. Free space or choose a folder you may write to; "
                "what was saved there before is still whole"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
