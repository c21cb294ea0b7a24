"""The configuration of an `AttributeModel`, and the arguments of transformers with which it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BaseModel, Field, create_model
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from attribune.backbones.added_tokens import is_added
from attribune.backbones.architecture import ENCODER, LANGUAGE_MODEL, Architecture
from attribune.core.config import short_repr
from attribune.core.device import check_device, named_device
from attribune.core.wording import closest
from attribune.data.windows import Truncation
from attribune.errors import ConfigError
from attribune.tasks import TASKS, Task
from attribune.tasks.inputs import WrittenText

DROPOUT = 0.2
"""On the vector of a document."""
Dropout = Annotated[float, Field(ge=0, lt=1)]
HeadSize = Annotated[int, Field(ge=1)]
TYPICAL_PRIOR_WEIGHT = 0.2
"""Of the prior of new values: the geometric mean of what was learned for six attributes of four data sets."""
SET_ENCODERS = "set_encoders."
"""How the names of tensors begin that earlier versions stored, encoders of new values, and that are not read."""


def architecture_of(task: type[Task]) -> Architecture:
    """Return which part of a pretrained model a task needs."""
    return LANGUAGE_MODEL if task.input.name == WrittenText.name else ENCODER  # whose states a head scores


class AttributeConfig(PreTrainedConfig):
    """Everything needed to rebuild an `AttributeModel`, except its schema and its learned tensors.

    Args:
        text_config: the configuration of the backbone.
        backbone: hub name or folder of the backbone.
        revision: branch, tag or commit of the backbone on the hub.
        backbone_fingerprint: checksum of the backbone's weights.
        tuning: which parameters of the backbone are trained.
        pooling: ``first``, ``mean``, ``last`` or ``max``.
        dropout: dropout on the pooled vector.
        head_size: P, the size of a layer ``tanh(W_1 d + b_1)`` before the head; None for none.
        chunk_encoder: settings of what joins the vectors of chunks; None for their mean.
        chunk: ids that the backbone reads at once; longer texts are cut. None reads all at once.
        text_input: columns, separator and window of the texts, where they are known.
        precision: ``float32`` or ``bf16``, in which the model was trained; None where it is not known.
        added_tokens: number of tokens of the tokenizer whose embeddings are trained beside those of the backbone.
        learned: names of the stored tensors.
        value_priors: weight of the prior of new values of each attribute, where it was learned.
        calibration_temperature: the number by which logits are divided for probabilities, where it was fitted; the
            logits of a forward pass are not.
        generation: for models that write text, the non-default settings of `GenerationConfig`.
    """

    model_type = "attribune"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values", "encoder_last_hidden_state"]

    text_config: Any = None
    backbone: str | None = None
    revision: str | None = None
    backbone_fingerprint: str | None = None
    method: dict[str, Any] | None = None
    task: dict[str, Any] | None = None
    tuning: str | None = None
    pooling: str | None = None
    dropout: Dropout = DROPOUT
    head_size: HeadSize | None = None
    chunk: Annotated[int | None, Field(ge=1)] = None
    chunk_encoder: dict[str, Any] | None = None
    text_input: dict[str, Any] | None = None
    precision: Literal["float32", "bf16"] | None = None
    added_tokens: Annotated[int, Field(ge=0)] = 0
    learned: list[str] | None = None
    value_priors: dict[str, float] | None = None
    calibration_temperature: Annotated[float | None, Field(gt=0)] = None
    generation: dict[str, Any] | None = None

    def prior_weight(self, attribute: str) -> float:
        """Return the weight of the prior of an attribute's new values; a typical one where none was learned."""
        return (self.value_priors or {}).get(attribute, TYPICAL_PRIOR_WEIGHT)

    def __post_init__(self, **kwargs: Any) -> None:
        if isinstance(self.text_config, dict):
            settings = dict(self.text_config)
            self.text_config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        kwargs.pop("set_encoders", None)
        self.learned = self.learned and [name for name in self.learned if not name.startswith(SET_ENCODERS)]
        super().__post_init__(**kwargs)

    @property
    def architecture(self) -> Architecture:
        """Which part of a pretrained model the backbone is; an encoder where there is no such task."""
        kind = TASKS.get((self.task or {}).get("kind", ""))
        return ENCODER if kind is None else architecture_of(kind)


class _SavedBackbone(BaseModel):
    """Numbers with which a backbone can be built, but not run."""

    model_type: str
    num_attention_heads: int = Field(default=1, ge=1)
    chunk_size_feed_forward: int = Field(default=0, ge=0)
    output_hidden_states: bool = False
    output_attentions: bool = False


class _SavedTextInput(BaseModel):
    columns: list[str]
    separator: str
    window: str | None
    prompt: list[str] = []
    chat: bool = False
    pair: list[str] = []
    truncation: Truncation = "longest_first"
    negative: list[str] = []
    shares_window: bool = False
    written: list[str] = []


def _own_fields() -> dict[str, Any]:
    """Return the types and defaults of the fields that `AttributeConfig` has beside those of transformers."""
    types = get_annotations(AttributeConfig, eval_str=True)
    fields = {name: kind for name, kind in types.items() if name != "keys_to_ignore_at_inference"}
    return {name: (kind, getattr(AttributeConfig, name)) for name, kind in fields.items()}


SavedSettings: type[BaseModel] = create_model(
    "SavedSettings",
    **_own_fields()
    | {
        "text_config": (_SavedBackbone, ...),
        "text_input": (_SavedTextInput | None, None),
        "learned": (list[str], ...),
    },
)
"""What ``config.json`` must hold of `AttributeConfig`; the fields of transformers beside them are its own affair."""

AutoConfig.register(AttributeConfig.model_type, AttributeConfig, exist_ok=True)


_PASSED_BY_TRANSFORMERS = ("_commit_hash", "_from_auto", "_from_pipeline", "adapter_kwargs", "code_revision")
_SPREAD = "the layers of a model are not spread over several devices: leave it out"
_REFUSED = {
    "trust_remote_code": "no code is ever run from the folder of a model: leave it out",
    "torch_dtype": "its name is dtype now",
    "force_download": "delete the files that are stored, or give revision",
    "proxies": "set the environment variable HTTPS_PROXY",
    "subfolder": "give the folder itself, or upload it as a repository of its own",
    "max_memory": _SPREAD,
    "offload_folder": _SPREAD,
    "state_dict": "build the model and give them to load_state_dict",
    "ignore_mismatched_sizes": "all tensors must fit: leave it out",
    "load_in_4bit": "give quantization_config=BitsAndBytesConfig(load_in_4bit=True)",
    "load_in_8bit": "give quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
}
_OUTPUTS = ("output_hidden_states", "output_attentions", "return_dict")
_KNOWN = (
    "attn_implementation",
    "backbone",
    "cache_dir",
    "config",
    "device_map",
    "dtype",
    "local_files_only",
    "quantization_config",
    "revision",
    "token",
    "verify",
)


def with_outputs(config: AttributeConfig, given: Mapping[str, Any]) -> AttributeConfig:
    """Return a configuration with what a model returns besides its logits, where that is given."""
    for name in _OUTPUTS:
        if name in given:
            setattr(config, name, bool(given[name]))
    return config


def check_foreign(given: Mapping[str, Any]) -> None:
    """Refuse further arguments of `from_pretrained`, each with its reason; what transformers adds by itself passes."""
    for name, value in given.items():
        if name in (*_PASSED_BY_TRANSFORMERS, *_OUTPUTS) or (name in _REFUSED and not value):
            continue
        if name in _REFUSED:
            raise ConfigError(f"{name} is {short_repr(value)}: {_REFUSED[name]}")
        close = closest(name, (*_KNOWN, *_OUTPUTS))
        hint = f"; did you mean {close}?" if close else f": it takes {', '.join((*_KNOWN, *_OUTPUTS))}"
        raise ConfigError(f"from_pretrained has no argument {name!r:.80}{hint}")


def dtype_of(dtype: torch.dtype | str, tensors: Mapping[str, Tensor]) -> torch.dtype:
    """Return a type of numbers by its name; ``auto`` is that in which weights of the backbone are stored, if any are.

    Args:
        tensors: those stored.
    """
    if dtype == "auto":
        own = (x.dtype for name, x in tensors.items() if name.startswith("backbone.") and not is_added(name))
        return next(own, torch.float32)
    result = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(result, torch.dtype) or not result.is_floating_point:
        raise ConfigError(f"dtype is {dtype!r}: choose float32, bfloat16, float16 or auto")
    return result


def device_of(device_map: torch.device | str | int | Mapping[str, Any] | None) -> torch.device:
    """Return the device of a whole model; ``auto`` is a GPU if there is one."""
    if isinstance(device_map, str) and device_map == "auto":
        return named_device(None)
    name = device_map[""] if isinstance(device_map, Mapping) and list(device_map) == [""] else device_map
    if isinstance(name, int):
        name = f"cuda:{name}"  # PyTorch takes a number for a GPU only where there is one
    try:
        device = torch.device("cpu" if name is None else name)  # type: ignore[arg-type]
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device_map is {device_map!r}: give auto or one device, such as 'cpu' or 'cuda:0'; the layers of a model "
            "are not spread over several"
        ) from error
    check_device(device, "device_map")
    return device
