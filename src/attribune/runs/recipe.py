"""Recipes: all settings of a training run, read from YAML and from flags, and saved with every run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, field_validator, model_validator

from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.backbones.placement import Pooling
from attribune.backbones.tuning import Tuning
from attribune.backbones.word_models import WORD_MODELS
from attribune.core.config import Settings
from attribune.data.text_pairs import Truncation
from attribune.data.texts import TextInput
from attribune.data.windows import Head, parse_window
from attribune.errors import ConfigError
from attribune.methods import DEFAULT_METHOD, METHODS, MethodConfig, check_reads_tokens, method_from_dict
from attribune.models.baselines import BASELINES, BaselineConfig, baseline_from_dict
from attribune.schema import MISSING
from attribune.schema.kinds import KINDS, Kind
from attribune.tasks import TASKS

__all__ = [
    "RECIPE_END",
    "BackboneRecipe",
    "DataRecipe",
    "Recipe",
    "SplitRecipe",
    "TrainingRecipe",
]

RECIPE_END = "...\n"


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the range of NumPy


class SplitRecipe(Settings):
    """How rows are split when no validation or test file is given.

    ``by`` is ``random``, ``group`` (all rows with one value of `column` stay together) or ``time`` (the earliest rows
    train, the latest test). Rows with the same text always stay in one part.
    """

    by: Literal["random", "group", "time"] = "random"
    column: str | None = None
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    seed: Seed = 0


class DataRecipe(Settings):
    """Where the rows are and which columns are read.

    ``shuffled`` is a control: in every split the attributes are shuffled over the rows, so that any remaining gain is
    not due to the attributes. ``partial_labels`` trains on rows that have some of several labels; validation and test
    files are then required and have all labels. For the task ``generation`` the text is the response, and there is no
    label; ``prompt`` names the columns that are read before it, which ``chat`` puts into the tokenizer's chat template.
    """

    train: Name
    validation: Name | None = None
    test: Name | None = None
    text: Annotated[tuple[Name, ...], Field(min_length=1), BeforeValidator(_as_tuple)]
    text_pair: Names = ()
    truncation: Truncation = "longest_first"
    label: Names = ()
    prompt: Names = ()
    chat: bool = False
    attributes: tuple[dict[str, Any], ...] = ()
    encoding: str | None = None
    missing: tuple[str, ...] = MISSING
    split: SplitRecipe = SplitRecipe()
    window: str = "head"
    max_length: int = Field(default=256, ge=4)
    text_separator: str = "\n"
    shuffled: bool = False
    partial_labels: bool = False

    @field_validator("attributes")
    @classmethod
    def _known_kinds(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        kinds = tuple(_kind_from_dict(item) for item in value)
        names = [kind.name for kind in kinds]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"attribute {', '.join(twice)} is named twice: name every column once")
        return tuple({"kind": kind.kind, **asdict(kind)} for kind in kinds)

    @field_validator("text", "text_pair", "label", "prompt")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({name for name in value if value.count(name) > 1}):
            raise ConfigError(f"column {', '.join(twice)} is named twice: name every column once")
        return value

    @field_validator("window")
    @classmethod
    def _readable_window(cls, value: str) -> str:
        parse_window(value, max_length=512)
        return value

    def kinds(self) -> tuple[Kind, ...]:
        """The attributes, as the schema takes them."""
        return tuple(_kind_from_dict(item) for item in self.attributes)

    def text_input(self) -> TextInput:
        """The text columns, how they are joined and fitted."""
        window = parse_window(self.window, max_length=self.max_length)
        return TextInput(
            self.text,
            separator=self.text_separator,
            window=window,
            prompt=self.prompt,
            chat=self.chat,
            pair=self.text_pair,
            truncation=self.truncation,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of both texts."""
        return (*self.text, *self.text_pair)


class BackboneRecipe(Settings):
    """The pretrained weights and how they are tuned. Empty fields take the default of the method or of the family.

    ``dropout`` applies to the document vector, ``attention_dropout`` to the attention weights of the backbone. With an
    ``attention_dropout`` of 0, training on a CPU can use the fused attention, which is much faster for long texts.

    The names ``cnn`` and ``bilstm`` are backbones without pretraining, trained in full: ``options`` are those of their
    configurations, ``word_vectors`` a file of pretrained word vectors to begin with.
    """

    name: str = DEFAULT_BACKBONE
    revision: str | None = None
    tuning: str | None = None
    pooling: Pooling | None = None
    dropout: float = Field(default=0.2, ge=0, lt=1)
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    options: dict[str, Any] = Field(default={})
    word_vectors: str | None = None

    @property
    def is_pretrained(self) -> bool:
        """Whether there are pretrained weights; a backbone over word vectors begins without."""
        return self.name not in WORD_MODELS

    @model_validator(mode="after")
    def _fitting_kind(self) -> Self:
        if self.is_pretrained and (self.options or self.word_vectors):
            what = "options" if self.options else "word_vectors"
            raise ConfigError(f"{what} are for backbones without pretraining ({', '.join(WORD_MODELS)}): leave it out")
        chosen = {
            "tuning": self.tuning not in (None, "full"),
            "revision": self.revision is not None,
            "attention_dropout": self.attention_dropout is not None,
        }
        if not self.is_pretrained and any(chosen.values()):
            what = next(name for name, is_chosen in chosen.items() if is_chosen)
            raise ConfigError(f"{what} is not for the backbone {self.name!r}, which is not pretrained: leave it out")
        return self

    @field_validator("tuning")
    @classmethod
    def _readable_tuning(cls, value: str | None) -> str | None:
        if value is not None:
            Tuning.parse(value)
        return value


class TrainingRecipe(Settings):
    """Optimisation: AdamW with linear warm-up and decay.

    ``steps`` replaces ``epochs`` if given. ``learning_rate`` is that of the new parameters, the method and the head;
    ``backbone_learning_rate`` defaults to 5e-5 if pretrained matrices are trained, and to ``learning_rate`` if only
    norms or biases are. ``evaluate_every`` is ``epoch`` or a number of steps, after which the model is evaluated on the
    validation rows and a checkpoint is written. Training stops after `patience` evaluations without an improvement; the
    best model is kept. ``precision`` at ``auto`` is bf16 where the hardware supports it; the run's recipe has the
    resolved value. ``table_updates`` says which rows of the attribute tables a step updates: ``all``; ``rows``, those
    of the batch's values; or ``auto``, which is ``rows`` for tables of 2**24 numbers or more; see `RowAdamW`.
    ``report_to`` names experiment trackers, as in transformers, such as ``tensorboard``.
    """

    epochs: float = Field(default=5, gt=0)
    steps: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=32, ge=1, lt=2**31)
    learning_rate: float = Field(default=5e-4, gt=0, le=1_000)
    backbone_learning_rate: float | None = Field(default=None, gt=0, le=1_000)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    weight_decay: float = Field(default=0.01, ge=0)
    max_grad_norm: float = Field(default=1.0, ge=0)
    gradient_accumulation: int = Field(default=1, ge=1, lt=2**31)
    gradient_checkpointing: bool = False
    precision: Literal["auto", "float32", "bf16"] = "auto"
    table_updates: Literal["auto", "all", "rows"] = "auto"
    evaluate_every: Literal["epoch"] | int = "epoch"
    patience: int = Field(default=3, ge=1)
    seed: Seed = 0
    report_to: Names = ()

    @field_validator("evaluate_every", mode="before")
    @classmethod
    def _epoch_or_steps(cls, value: Any) -> Any:
        if value != "epoch" and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            raise ConfigError(f"it is {value!r}: write epoch, or a number of steps of at least 1")
        return value


class TransferRecipe(Settings):
    """What a trained model has learned, to begin with in place of initial values.

    ``run`` is the folder of the run or the model. Attribute parameters are loaded from it; with ``frozen`` they are not
    trained, and values that the run does not know stay unknown, otherwise such values are added. With ``full_model``
    everything is loaded, the classes too, and training continues with other rows.
    """

    run: str
    renamed: ClassVar[Mapping[str, str]] = {"everything": "full_model"}

    frozen: bool = True
    full_model: bool = False

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.full_model and self.frozen:
            raise ConfigError("the full model of a run goes on learning: set frozen to false, or leave full_model out")
        return self


class Recipe(Settings):
    """One training run; `method` has the method's ``name`` and options, `task` the task's ``kind`` and options."""

    data: DataRecipe
    method: dict[str, Any] = Field(default_factory=lambda: METHODS[DEFAULT_METHOD]().to_dict())
    task: dict[str, Any] = Field(default_factory=dict)
    backbone: BackboneRecipe = BackboneRecipe()
    training: TrainingRecipe = TrainingRecipe()
    transfer: TransferRecipe | None = None

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: dict[str, Any]) -> dict[str, Any]:
        value = {"name": DEFAULT_METHOD, **value}
        name = value["name"]
        is_baseline = isinstance(name, str) and name in BASELINES
        return baseline_from_dict(value).to_dict() if is_baseline else _method(value).to_dict()

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: dict[str, Any]) -> dict[str, Any]:
        if (kind := value.get("kind")) not in (None, *TASKS):
            raise ConfigError(f"unknown task {kind!r}: choose one of {', '.join(TASKS)}")
        return value

    @model_validator(mode="after")
    def _fitting_task(self) -> Self:
        if self.is_generative:
            self._check_generation()
        elif not self.data.label:
            raise ConfigError(
                "no label column is named: name it with --label, or choose the task generation, which needs none"
            )
        elif self.data.prompt or self.data.chat:
            raise ConfigError(f"task {self.task_kind!r} reads no prompt: name its columns as text, and leave chat out")
        if self.reads_tokens:
            self._check_tokens()
        return self

    def _check_tokens(self) -> None:
        """Refuse settings that a task which scores tokens does not have."""
        if self.is_baseline:
            raise ConfigError(
                f"method {self.method['name']!r} scores no tokens, as the task {self.task_kind!r} does: choose one "
                "that acts in a backbone"
            )
        check_reads_tokens(self.method_config(), task=self.task_kind)
        if not isinstance(parse_window(self.data.window, max_length=self.data.max_length), Head):
            raise ConfigError(
                f"task {self.task_kind!r} reads a long text in windows of max_length tokens that overlap, not in "
                f"{self.data.window}: leave window out"
            )
        if self.backbone.pooling is not None:
            raise ConfigError(f"task {self.task_kind!r} has no document vector: leave backbone.pooling out")
        if self.data.partial_labels:
            raise ConfigError(f"task {self.task_kind!r} has one label for each row: leave partial_labels out")
        if TASKS[self.task_kind].reads_words:
            if len(self.data.text) > 1 or self.data.text_pair:
                raise ConfigError("task 'tags' reads one column of words: name one with --text, and no second text")
        elif len(self.data.text) != 1 or len(self.data.text_pair) != 1:
            raise ConfigError(
                f"task {self.task_kind!r} reads a question and a context: name one column of each, with --text and "
                "--text-pair"
            )

    def _check_generation(self) -> None:
        """Refuse settings that a model which writes text does not have."""
        if self.data.label or self.data.partial_labels:
            raise ConfigError("task 'generation' learns the text itself: leave label and partial_labels out")
        if self.data.text_pair:
            raise ConfigError("task 'generation' reads no pair of texts: name the second text with --prompt")
        if both := sorted({*self.data.prompt, *self.attribute_names}.intersection(self.data.text)):
            raise ConfigError(
                f"column {', '.join(both)} is the text that is written and also a prompt or an attribute: the model "
                "would read the answer; name it as the text only"
            )
        if self.data.chat and not self.data.prompt:
            raise ConfigError("a chat template needs a prompt: name its columns with --prompt, or leave chat out")
        if self.is_baseline:
            raise ConfigError(f"method {self.method['name']!r} writes no text: choose one that acts in a backbone")
        if self.backbone.pooling is not None:
            raise ConfigError("task 'generation' has no document vector: leave backbone.pooling out")

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if both := sorted({*self.data.text}.intersection(self.data.text_pair)):
            raise ConfigError(f"column {', '.join(both)} is in both texts of the pair: name it once")
        if len(self.data.label) > 1 and self.task_kind not in ("aspects", "spans"):
            raise ConfigError(
                f"task {self.task_kind!r} reads one label column, {len(self.data.label)} are named: name one, or "
                "choose the task aspects"
            )
        if both := sorted({*self.data.texts, *self.attribute_names}.intersection(self.data.label)):
            raise ConfigError(
                f"column {', '.join(both)} is the label and also a text or an attribute: the model would read "
                "the answer; name it as the label only"
            )
        if self.data.shuffled and not (self.reads_attributes and self.data.attributes):
            raise ConfigError(
                f"method {self.method['name']!r} reads no attributes here, so there is nothing to shuffle: leave "
                "shuffled out, or name attributes and a method that reads them"
            )
        both = sorted(set(self.attribute_names).intersection(self.data.texts))
        if self.data.shuffled and both:
            raise ConfigError(f"column {', '.join(both)} is a text and an attribute: it cannot be shuffled as one only")
        if self.transfer is not None and (self.is_baseline or not (self.needs_attributes or self.transfer.full_model)):
            raise ConfigError(
                f"method {self.method['name']!r} has no attribute parameters to take over: leave transfer out, or use "
                "the method of that run"
            )
        if self.needs_attributes and not self.data.attributes:
            raise ConfigError(f"method {self.method['name']!r} needs attributes: name their columns with --attributes")
        return self

    @property
    def attribute_names(self) -> list[str]:
        """The columns of the attributes."""
        return [str(attribute["name"]) for attribute in self.data.attributes]

    @property
    def task_kind(self) -> str:
        """The task: as named, else ``aspects`` for several label columns and ``classification`` for one."""
        return str(self.task.get("kind") or ("aspects" if len(self.data.label) > 1 else "classification"))

    @property
    def is_generative(self) -> bool:
        """Whether the model writes text."""
        return self.task_kind == "generation"

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are predicted: the labels, with the text whose tokens they are of, or the generated text."""
        if self.reads_tokens:
            return (*self.data.label, *(self.data.text_pair or self.data.text))
        return self.data.text if self.is_generative else self.data.label

    @property
    def reads_tokens(self) -> bool:
        """Whether the task scores tokens."""
        return TASKS[self.task_kind].reads_tokens

    @property
    def needs_attributes(self) -> bool:
        """Whether the method reads attributes."""
        baseline = self.baseline
        return self.method_config().uses_attributes if baseline is None else not baseline.reads_text

    @property
    def reads_attributes(self) -> bool:
        """Whether the method's predictions depend on the attributes."""
        return self.is_baseline or self.needs_attributes

    @property
    def is_baseline(self) -> bool:
        """Whether the method is one of the baselines, without a backbone."""
        return self.method["name"] in BASELINES

    @property
    def baseline(self) -> BaselineConfig | None:
        """The options of a baseline; None for a method with a backbone."""
        return baseline_from_dict(self.method) if self.is_baseline else None

    def method_config(self) -> MethodConfig:
        """The method's settings."""
        return method_from_dict(self.method)

    @property
    def tuning(self) -> str:
        """Which parameters of the backbone are trained."""
        if not self.backbone.is_pretrained:
            return "full"
        return self.backbone.tuning or self.method_config().default_tuning

    @property
    def backbone_learning_rate(self) -> float:
        """The peak learning rate of the backbone."""
        if self.training.backbone_learning_rate is not None:
            return self.training.backbone_learning_rate
        is_delicate = self.backbone.is_pretrained and Tuning.parse(self.tuning).pretrained_matrices
        return 5e-5 if is_delicate else self.training.learning_rate

    def to_yaml(self) -> str:
        """Return the whole recipe, defaults included, as YAML; the end marker shows that it is complete."""
        tree = self.model_dump(mode="json")
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, explicit_end=True)


def _kind_from_dict(settings: dict[str, Any]) -> Kind:
    options = dict(settings)
    kind = options.pop("kind", "categorical")
    if kind not in tuple(KINDS):
        raise ConfigError(f"unknown kind of attribute {kind!r}: choose one of {', '.join(KINDS)}")
    known = [field.name for field in fields(KINDS[kind])]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(
            f"attribute {options.get('name')!r} has no option {', '.join(unknown)}: as {kind} it has {', '.join(known)}"
        )
    if "name" not in options:
        raise ConfigError(f"an attribute of kind {kind} has no name: give the name of its column")
    try:
        return KINDS[kind](**options)
    except TypeError as error:
        raise ConfigError(f"attribute {options['name']!r} has a setting of the wrong type ({error})") from None


def _method(settings: dict[str, Any]) -> MethodConfig:
    """The method's settings; the message for an unknown name lists the baselines too."""
    name = settings["name"]
    if isinstance(name, str) and "+" not in name and name not in METHODS:
        known = (*METHODS, *BASELINES)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown method {name!r}: choose one of {', '.join(known)}, or a sum{hint}")
    return method_from_dict(settings)
