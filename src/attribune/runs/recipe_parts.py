"""The parts of a recipe: rows, backbone, optimisation, and what is taken from another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from attribune.backbones.added_tokens import AddedTokens
from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.backbones.placement import Pooling
from attribune.backbones.tuning import Tuning
from attribune.backbones.word_options import WORD_MODELS
from attribune.core.config import Settings
from attribune.data.clusters import AUTO, ROWS
from attribune.data.file_options import FileOptions
from attribune.data.standard_input import STDIN
from attribune.data.text_pairs import Truncation
from attribune.data.texts import TextInput
from attribune.data.times import check_date_format
from attribune.data.windows import parse_window
from attribune.errors import ConfigError
from attribune.models.chunk_encoders import chunk_encoder_from_dict
from attribune.schema import MISSING
from attribune.schema.description_kinds import field_from_dict, field_to_dict
from attribune.schema.kinds import KINDS, Kind, kind_settings, read_kind

__all__ = [
    "BackboneRecipe",
    "DataRecipe",
    "EvaluationRecipe",
    "Names",
    "SplitRecipe",
    "TrainingRecipe",
    "TransferRecipe",
    "ValuesRecipe",
]


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the range of NumPy


class SplitRecipe(Settings):
    """How rows are split when no validation or test file is given.

    ``by`` is ``random``, ``group`` (all rows with one value of `column` stay together), ``time`` (the earliest rows
    train, the latest test) or ``both`` (validation and test have other texts and other values of `column`). Rows with
    the same text always stay in one part, unless a split by group has ``shared_texts``. ``date_format`` is the format
    of the times if it cannot be detected: ``iso``, ``day-first``, ``month-first``, or one for Python's ``strptime``.
    """

    by: Literal["random", "group", "time", "both"] = "random"
    column: str | None = None
    date_format: str | None = None
    shared_texts: bool = False
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    seed: Seed = 0

    @field_validator("date_format")
    @classmethod
    def _known_format(cls, value: str | None) -> str | None:
        if value is not None:
            check_date_format(value)
        return value


class ValuesRecipe(Settings):
    """A table that describes the values of an attribute, with a row for each.

    ``table`` is a file, ``key`` the column with the values, by default the attribute's name. ``fields`` names the
    columns to read and their kinds (``categorical``, ``multi_label``, ``number``, ``vector``, ``text``), by
    default all columns, with kinds inferred from their cells. With ``own_vectors: false``, a value has no vector
    besides its description.
    """

    table: Name
    key: Name | None = None
    fields: tuple[dict[str, Any], ...] = ()
    own_vectors: bool = True

    @field_validator("fields", mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        items = [{"name": item} if isinstance(item, str) else item for item in value]
        return tuple(field_to_dict(field_from_dict(item)) for item in items)


def _as_values(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


class DataRecipe(Settings):
    """Where the rows are and which columns are read.

    ``shuffled`` is a control: in every split the attributes are shuffled over the rows, so that any remaining gain is
    not due to the attributes. ``partial_labels`` trains on rows that have some of several labels; validation and test
    files are then required and have all labels. ``bad_labels`` decides what happens to rows whose label is outside the
    scale: not a number where one is needed, or not one of the given classes. ``weight`` names a column of the
    training rows with the weight of each in the loss; scores weigh all rows the same. For the task
    ``generation`` the text is the response and there is no label; ``prompt`` names the columns that are read before
    it, which ``chat`` puts into the tokenizer's chat template. ``values`` describes the values of attributes, by a
    table for each. A table named ``-`` is the standard input. ``encoding``, ``delimiter``, ``quoting`` and
    ``file_format`` set how files are read if this cannot be detected, ``columns`` names the columns of tables without a
    header row, and ``rows`` is the maximum number of rows to read of each table.
    """

    train: Name
    validation: Name | None = None
    test: Name | None = None
    text: Annotated[tuple[Name, ...], Field(min_length=1), BeforeValidator(_as_tuple)]
    text_pair: Names = ()
    text_negative: Names = ()
    truncation: Truncation = "longest_first"
    label: Names = ()
    weight: Name | None = None
    prompt: Names = ()
    chat: bool = False
    attributes: tuple[dict[str, Any], ...] = ()
    values: dict[Name, Annotated[ValuesRecipe, BeforeValidator(_as_values)]] = Field(default={})
    encoding: str | None = None
    delimiter: str | None = None
    quoting: bool | None = None
    decimal: str | None = None
    columns: Names | None = None
    file_format: str | None = None
    rows: int | None = None
    missing: tuple[str, ...] = MISSING
    split: SplitRecipe = SplitRecipe()
    window: str = "head"
    max_length: int = Field(default=256, ge=4)
    text_separator: str = "\n"
    shuffled: bool = False
    bad_labels: Literal["error", "drop"] = "error"
    partial_labels: bool = False

    @field_validator("attributes", mode="before")
    @classmethod
    def _as_settings(cls, value: Any) -> Any:
        """Take the names of columns, and kinds of attributes, as settings."""
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(kind_settings(item) if isinstance(item, str | Kind) else item for item in items)

    @field_validator("attributes")
    @classmethod
    def _known_kinds(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        kinds = tuple(_kind_from_dict(item) for item in value)
        names = [kind.name for kind in kinds]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"attribute {', '.join(twice)} is named twice: name every column once")
        return tuple(map(kind_settings, kinds))

    @field_validator("values")
    @classmethod
    def _of_attributes(cls, value: dict[str, ValuesRecipe], info: ValidationInfo) -> dict[str, ValuesRecipe]:
        kinds = {kind.name: kind for kind in map(_kind_from_dict, info.data.get("attributes", ()))}
        for name in value:
            if name not in kinds:
                known = ", ".join(kinds) or "none"
                raise ConfigError(
                    f"{name!r} is not an attribute, so its values cannot be described (attributes: {known})"
                )
        return value

    @field_validator("text", "text_pair", "text_negative", "label", "prompt")
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

    @model_validator(mode="after")
    def _readable_tables(self) -> Self:
        FileOptions.of(self)
        if [self.train, self.validation, self.test].count(STDIN) > 1:
            raise ConfigError(f"two tables are named {STDIN!r}, the standard input: name a file in place of one")
        return self

    @property
    def reading(self) -> dict[str, Any]:
        """How tables are read, as arguments of `read_table`."""
        return {**FileOptions.of(self).given()}

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
            negative=self.text_negative,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of all texts but the prompt."""
        return (*self.text, *self.text_pair, *self.text_negative)


class BackboneRecipe(Settings):
    """The pretrained weights and how they are tuned. Empty fields take the default of the method or of the family.

    ``dropout`` applies to the document vector, ``head_size`` is the size of a tanh layer between it and the classifier
    (by default there is none), ``chunk_encoder`` joins the vectors of chunks (``robert``, ``tobert``, or settings; by
    default their mean), ``attention_dropout`` to the attention weights of the backbone. With an
    ``attention_dropout`` of 0, training on a CPU can use the fused attention, which is much faster for long texts.

    With ``added_tokens`` ``train``, tokens that were added to the tokenizer and have no embeddings get some, which
    learn with every tuning; by default they are refused.

    The names ``cnn``, ``tang-cnn``, ``bilstm``, ``bilstm-cnn`` and ``hierarchical`` are backbones without
    pretraining, trained in full: ``options`` are those of their configurations, ``word_vectors`` a file of
    pretrained word vectors to begin with.
    """

    name: str = DEFAULT_BACKBONE
    revision: str | None = None
    tuning: str | None = None
    pooling: Pooling | None = None
    dropout: float = Field(default=0.2, ge=0, lt=1)
    head_size: int | None = Field(default=None, ge=1, le=100_000)
    chunk_encoder: dict[str, Any] | str | None = None
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    options: dict[str, Any] = Field(default={})
    word_vectors: str | None = None
    added_tokens: AddedTokens = "refuse"

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
            "added_tokens": self.added_tokens != "refuse",
        }
        if not self.is_pretrained and any(chosen.values()):
            what = next(name for name, is_chosen in chosen.items() if is_chosen)
            raise ConfigError(f"{what} is not for the backbone {self.name!r}, which is not pretrained: leave it out")
        if not self.is_pretrained:
            WORD_MODELS[self.name].from_dict(self.options, source="backbone.options")
        return self

    @field_validator("chunk_encoder")
    @classmethod
    def _readable_chunk_encoder(cls, value: Any) -> Any:
        return None if value is None else chunk_encoder_from_dict(value).model_dump()

    @field_validator("tuning")
    @classmethod
    def _readable_tuning(cls, value: str | None) -> str | None:
        if value is not None:
            Tuning.parse(value)
        return value


OptimizerName = Literal["adamw", "adam", "adadelta", "sgd"]
_OPTIMIZER_OPTIONS: dict[str, tuple[str, ...]] = {
    "adamw": ("beta1", "beta2", "eps"),
    "adam": ("beta1", "beta2", "eps"),
    "adadelta": ("rho", "eps"),
    "sgd": ("momentum",),
}


class TrainingRecipe(Settings):
    """Optimisation: by default AdamW with linear warm-up and decay.

    ``steps`` replaces ``epochs`` if given. ``learning_rate`` is that of the new parameters, the method and the head;
    ``backbone_learning_rate`` defaults to 5e-5 if pretrained matrices are trained, and to ``learning_rate`` if only
    norms or biases are. ``evaluate_every`` is ``epoch`` or a number of steps, after which the model is evaluated on the
    validation rows and a checkpoint is written. The best model by ``select_by`` is kept, and training stops after
    `patience` evaluations without a better one. ``select_by`` is ``loss``, ``main_metric``, the name of a metric, or
    ``auto``: the loss, a proper score, which changes while an accuracy still stands; for the similarity of pairs and
    triplets the main metric. It also chooses the penalty of linear models. ``precision: auto`` is bf16 where the
    hardware supports it; the run's recipe has the
    resolved value. ``table_updates`` says which rows of the attribute tables a step updates: ``all``; ``rows``, those
    of the batch's values; or ``auto``, which is ``rows`` for tables of 2**24 numbers or more; see `RowAdamW`.
    ``optimizer`` may also be ``adam``, ``adadelta`` or ``sgd``, with ``optimizer_options`` in PyTorch's terms
    (``beta1``, ``beta2``, ``eps``; ``rho``, ``eps``; ``momentum``); ``schedule`` may be ``constant`` after the warm-up.
    For these, ``weight_decay`` is an L2 term of the loss, without attribute tables and word vectors. ``max_head_norm``
    is the maximum norm of the weights of a class in the classifier, to which a step scales them down.
    ``set_encoders`` also trains an encoder that turns the rows of a new value into its vector.
    ``report_to`` names experiment trackers, as in transformers, such as ``tensorboard``.
    """

    epochs: float = Field(default=5, gt=0)
    steps: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=32, ge=1, lt=2**31)
    learning_rate: float = Field(default=5e-4, gt=0, le=1_000)
    backbone_learning_rate: float | None = Field(default=None, gt=0, le=1_000)
    optimizer: OptimizerName = "adamw"
    optimizer_options: dict[str, float] = Field(default={})
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = Field(default=0.1, ge=0, lt=1)
    weight_decay: float = Field(default=0.01, ge=0)
    max_grad_norm: float = Field(default=1.0, ge=0)
    max_head_norm: float | None = Field(default=None, gt=0)
    gradient_accumulation: int = Field(default=1, ge=1, lt=2**31)
    gradient_checkpointing: bool = False
    precision: Literal["auto", "float32", "bf16"] = "auto"
    table_updates: Literal["auto", "all", "rows"] = "auto"
    evaluate_every: Literal["epoch"] | int = "epoch"
    select_by: Name = AUTO
    patience: int = Field(default=3, ge=1)
    set_encoders: bool = False
    seed: Seed = 0
    report_to: Names = ()

    @model_validator(mode="after")
    def _fitting_optimizer(self) -> Self:
        known = _OPTIMIZER_OPTIONS[self.optimizer]
        if unknown := sorted(set(self.optimizer_options) - set(known)):
            raise ConfigError(f"{self.optimizer} has no option {', '.join(unknown)}: it has {', '.join(known)}")
        for name, value in self.optimizer_options.items():
            if not (0 < value <= 1 if name == "eps" else 0 <= value < 1):
                raise ConfigError(f"optimizer_options: {name} is {value}: give a number from 0 to 1")
        if self.table_updates == "rows" and self.optimizer != "adamw":
            raise ConfigError(f"table_updates rows is for adamw, and optimizer is {self.optimizer}: leave one out")
        return self

    @field_validator("evaluate_every", mode="before")
    @classmethod
    def _epoch_or_steps(cls, value: Any) -> Any:
        if value != "epoch" and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            raise ConfigError(f"it is {value!r}: write epoch, or a number of steps of at least 1")
        return value


class EvaluationRecipe(Settings):
    """What the bootstrap draws: rows, or whole clusters of rows that are not independent.

    ``cluster`` is ``rows``, ``text``, the name of a column, or two of these, such as ``[text, judge]``; ``auto`` takes
    the texts if several rows share one, and their judges: the first of the columns ``judges`` that distinguishes the
    rows of a text, by default among the categorical attributes whose values are not hashed. A run's folder then has a
    hash of each scored row's text and judge.
    """

    cluster: str | Annotated[tuple[Name, ...], Field(min_length=1, max_length=2)] = AUTO
    judges: Names = ()

    @field_validator("cluster")
    @classmethod
    def _known(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = value if isinstance(value, tuple) else (value,)
        if not all(names) or len(set(names)) < len(names):
            raise ConfigError(f"evaluation.cluster is {value!r}: name one kind of clusters, or two different ones")
        if isinstance(value, tuple) and (words := {AUTO, ROWS}.intersection(value)):
            raise ConfigError(f"evaluation.cluster is {value!r}: {min(words)!r} cannot be combined; or name columns")
        return value


class TransferRecipe(Settings):
    """Values learned by another run, used instead of initial values.

    ``run`` is the folder of the run or the model. Attribute parameters are loaded from it; with ``frozen`` they are not
    trained, and values that the run does not know stay unknown; otherwise such values are added. With ``full_model``
    everything is loaded, including the classes, and training continues with other rows.
    """

    run: str
    renamed: ClassVar[Mapping[str, str]] = {"everything": "full_model"}

    frozen: bool = True
    full_model: bool = False

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.full_model and self.frozen:
            raise ConfigError(
                "full_model trains the whole model of the run further: set frozen to false, or leave full_model out"
            )
        return self


def _kind_from_dict(settings: dict[str, Any]) -> Kind:
    kind: Kind = read_kind(settings, KINDS, what="attribute")
    return kind
