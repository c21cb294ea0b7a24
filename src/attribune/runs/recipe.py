"""Recipes: all settings of a training run, read from YAML and from flags, and saved with every run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from attribune.core.config import ONE_OR_SEVERAL, PATH_AS_TEXT, Settings, described, setting
from attribune.core.flags import FLAGS, USUAL_LENGTH, as_flag
from attribune.core.wording import did_you_mean_or
from attribune.data.clusters import AUTO, ROWS, ClusterSettings
from attribune.data.file_options import FileOptions
from attribune.data.text_files import STDIN
from attribune.data.texts import TextInput
from attribune.data.windows import Head, Truncation, Window, parse_window
from attribune.errors import ConfigError
from attribune.methods import DEFAULT_METHOD, METHODS
from attribune.models.baselines import BaselineConfig
from attribune.runs.learner import BackboneRecipe, BaselineLearner, Learner, MethodLearner, read_method
from attribune.runs.settings_tree import written_out
from attribune.schema import MISSING, canonical
from attribune.schema.columns import require_once
from attribune.schema.description_kinds import field_from_dict, field_to_dict
from attribune.schema.kinds import KINDS, Kind, kind_settings, read_kind
from attribune.schema.times import check_date_format
from attribune.tasks import TASKS, Task
from attribune.tasks.inputs import InputSettings, TaskInput

RECIPE_END = "...\n"


Name = Annotated[str, PATH_AS_TEXT, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], ONE_OR_SEVERAL]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the range of NumPy


class SplitRecipe(Settings):
    """How rows are split when no validation or test file is given.

    Rows with the same text always stay in one part, unless a split by group has ``shared_texts``.
    """

    before: ClassVar[Mapping[str, Any]] = {"folds": 0}

    by: Literal["random", "group", "time", "both"] = described(
        "random",
        "`random`, `group` (all rows with one value of the column stay together), `time` (the earliest "
        "rows train, the latest test) or `both` (validation and test have other texts and other values)",
    )
    column: str | None = described(None, "column with the groups or times")
    date_format: str | None = described(
        None,
        "format of the times: `iso`, `day-first`, `month-first`, or `strptime` format codes; detected by "
        "default where it is clear",
    )
    shared_texts: bool = described(False, "when splitting by group: whether a text may occur in several parts")
    fractions: tuple[float, float, float] = described((0.8, 0.1, 0.1), "shares of training, validation and test rows")
    seed: Seed = described(FLAGS["training.seed"].default, "seed of the shuffling")
    folds: int | None = setting(
        "data.split.folds",
        "by default 5 for 200 to 999 rows of one table, a frozen backbone and labels that linear models can learn",
        ge=0,
    )

    @field_validator("date_format")
    @classmethod
    def _known_format(cls, value: str | None) -> str | None:
        if value is not None:
            check_date_format(value)
        return value

    @model_validator(mode="after")
    def _folds_at_random(self) -> Self:
        if self.folds == 1:
            raise ConfigError("folds is 1: give 2 or more, or 0 for none")
        if self.folds and self.by in ("time", "both"):
            raise ConfigError(f"folds with a split by {self.by!r}: split at random or by group, or leave folds out")
        return self


class ValuesRecipe(Settings):
    """A table that describes the values of an attribute, with a row for each."""

    table: Name = described(..., "a file")
    key: Name | None = described(None, "column with the values; by default the attribute's name")
    fields: tuple[dict[str, Any], ...] = described(
        (),
        "names of the columns to read and their kinds (`categorical`, `multi_label`, `number`, `vector`, "
        "`text`); by default all columns, with kinds inferred from their cells",
    )
    own_vectors: bool = described(True, "whether a value has a vector besides its description")

    @field_validator("fields", mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        items = [{"name": item} if isinstance(item, str) else item for item in value]
        return tuple(field_to_dict(field_from_dict(item)) for item in items)


def _as_values(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


def _reading(option: str) -> Any:
    """Return the field of an option with which tables are read."""
    return described(None, FileOptions.flags()[as_flag(option)]["help"])


class DataRecipe(Settings):
    """Where the rows are, which columns are read, and how. A table named ``-`` is the standard input."""

    before: ClassVar[Mapping[str, Any]] = {"share_window": False}

    train: Name = setting("data.train")
    validation: Name | None = setting("data.validation", "by default split off from `data.train`")
    test: Name | None = setting(
        "data.test", "by default split off from `data.train`, unless `data.validation` is given"
    )
    text: Annotated[tuple[Name, ...], Field(min_length=1), ONE_OR_SEVERAL] = setting(
        "data.text", "for the task `generation`, the response"
    )
    text_pair: Names = setting("data.text_pair", "for the tasks `preference` and `similarity`, the second text")
    text_negative: Names = setting("data.text_negative")
    truncation: Truncation = described(
        "longest_first", "which of two texts is truncated: `longest_first`, `only_first` or `only_second`"
    )
    label: Names = setting(
        "data.label",
        "for `spans`, the answers, their start positions and whether there is no answer; none for `generation`, nor "
        "for a `preference` in which the first text is always the preferred one, or a `similarity` of pairs or "
        "triplets",
    )
    weight: Name | None = setting("data.weight", "scores weigh all rows the same")
    prompt: Names = setting("data.prompt", "for the tasks `generation` and `preference`")
    chat: bool = setting("data.chat")
    attributes: tuple[dict[str, Any], ...] = setting("data.attributes", "see below")
    values: dict[Name, Annotated[ValuesRecipe, BeforeValidator(_as_values)]] = setting(
        "data.values", "for each attribute `table`, `key`, `fields` and `own_vectors`"
    )
    encoding: str | None = _reading("encoding")
    delimiter: str | None = _reading("delimiter")
    quoting: bool | None = _reading("quoting")
    decimal: str | None = _reading("decimal")
    columns: Names | None = _reading("columns")
    file_format: str | None = _reading("file_format")
    rows: int | None = _reading("rows")
    missing: tuple[str, ...] = setting("data.missing", default=MISSING)
    split: SplitRecipe = SplitRecipe()
    window: str = described("head", "how long texts are truncated or chunked")
    max_length: int | None = setting("data.max_length", "special tokens count", ge=4)
    text_separator: str = described("\n", "separator between joined text columns, and between prompt and text")
    share_window: bool = described(
        True,
        "of several text columns that are too long together, keep the short ones whole and as much of each of the "
        "others; `false` cuts the end of the joined text",
    )
    written: Names = setting("data.written", "for methods that read attributes; `in-text` writes all by itself")
    shuffled: bool = setting("data.shuffled", "any gain that remains is not due to them")
    bad_labels: Literal["error", "drop"] = described(
        "error",
        "what to do with rows whose label is outside the scale (not a number where one is needed, or not "
        "one of the given classes): `error` or `drop`",
    )
    partial_labels: bool = described(
        False,
        "also train on rows that have only some of several labels; you must then give validation and test "
        "tables, with all labels",
    )

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
        require_once([kind.name for kind in kinds], what="attribute")
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

    @field_validator("written")
    @classmethod
    def _written_attributes(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known = [kind.name for kind in map(_kind_from_dict, info.data.get("attributes", ()))]
        for name in value:
            if name not in known:
                rest = did_you_mean_or(name, known, f"its attributes are {', '.join(known) or 'none'}")
                raise ConfigError(f"{name!r} is not an attribute, so its values cannot be written{rest}")
        return value

    @field_validator("text", "text_pair", "text_negative", "label", "prompt", "written")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        require_once(value)
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
        if self.split.folds and (self.validation or self.test):
            raise ConfigError("folds are made of all rows, so validation and test rows are not read: leave one out")
        return self

    @property
    def reading(self) -> dict[str, Any]:
        """How tables are read, as arguments of `read_table`."""
        return {**FileOptions.of(self).given()}

    def kinds(self) -> tuple[Kind, ...]:
        """The attributes, as the schema takes them."""
        return tuple(_kind_from_dict(item) for item in self.attributes)

    @property
    def parsed_window(self) -> Window:
        """The window, with its sizes."""
        return parse_window(self.window, max_length=self.max_length or USUAL_LENGTH)

    def text_input(self) -> TextInput:
        """The text columns, how they are joined and fitted."""
        return TextInput(
            self.text,
            separator=self.text_separator,
            window=self.parsed_window,
            prompt=self.prompt,
            chat=self.chat,
            pair=self.text_pair,
            truncation=self.truncation,
            negative=self.text_negative,
            shares_window=self.share_window and len(self.text) > 1,
            written=self.written,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of all texts but the prompt."""
        return (*self.text, *self.text_pair, *self.text_negative)


OptimizerName = Literal["adamw", "adam", "adadelta", "sgd"]
_OPTIMIZER_OPTIONS: dict[str, tuple[str, ...]] = {
    "adamw": ("beta1", "beta2", "eps"),
    "adam": ("beta1", "beta2", "eps"),
    "adadelta": ("rho", "eps"),
    "sgd": ("momentum",),
}


_EPOCHS, _FEWEST_STEPS = 5, 100


class TrainingRecipe(Settings):
    """Optimisation: by default AdamW with linear warm-up and decay."""

    removed: ClassVar[Mapping[str, str]] = {
        "set_encoders": "`attribune enrol` learns new values without an encoder, and as well; leave it out"
    }
    before: ClassVar[Mapping[str, Any]] = {"calibration": False, "blend": "never", "epochs": float(_EPOCHS)}

    epochs: float | None = setting(
        "training.epochs", f"by default {_EPOCHS}, or as many as make {_FEWEST_STEPS} steps of few rows", gt=0
    )
    steps: int | None = described(None, "maximum number of steps, instead of epochs", ge=1)
    batch_size: int = setting("training.batch_size", ge=1, lt=2**31)
    learning_rate: float = setting("training.learning_rate", "the highest, after the warm-up", gt=0, le=1_000)
    backbone_learning_rate: float | None = described(
        None,
        "learning rate of the backbone; by default 5e-5 if any of its pretrained matrices learn, otherwise "
        "`training.learning_rate`",
        gt=0,
        le=1_000,
    )
    optimizer: OptimizerName = described("adamw", "or `adam`, `adadelta`, `sgd`")
    optimizer_options: dict[str, float] = described(
        {}, "in PyTorch's terms: `beta1`, `beta2`, `eps`; `rho`, `eps`; `momentum`"
    )
    schedule: Literal["linear", "constant"] = described("linear", "or `constant`, after the warm-up")
    warmup: float = described(
        0.1,
        "share of the steps in which the learning rate rises; it then falls linearly or stays constant "
        "(`training.schedule`)",
        ge=0,
        lt=1,
    )
    weight_decay: float = described(
        0.01,
        "weight decay of matrices; vectors do not decay. With an optimizer other than `adamw`, it is an L2 "
        "penalty in the loss, and tables of attributes and words do not decay",
        ge=0,
    )
    max_grad_norm: float = described(1.0, "gradients are clipped to this norm", ge=0)
    max_head_norm: float | None = described(
        None,
        "maximum norm of the weights of each class in the classifier; larger weights are rescaled after "
        "each step (Kim 2014)",
        gt=0,
    )
    gradient_accumulation: int = described(1, "batches per step", ge=1, lt=2**31)
    gradient_checkpointing: bool = described(False, "use less memory, but more time")
    precision: Literal["auto", "float32", "bf16"] = described(
        "auto", "`float32` or `bf16`; `auto` uses the faster one on this device; a run's recipe has the one used"
    )
    table_updates: Literal["auto", "all", "rows"] = described(
        "auto",
        "rows of the attribute tables that a step updates: `all`, or `rows` (only those of the batch, with "
        "`adamw`); `auto` uses `rows` from 2^24 numbers",
    )
    evaluate_every: Literal["epoch"] | int = described(
        "epoch", "`epoch`, or the number of steps between evaluations and checkpoints"
    )
    select_by: Name = described(
        AUTO,
        "what selects the saved weights on the validation rows, and the penalty of linear models: `loss`, "
        "`main_metric`, or a metric of the task; `last` keeps the last ones; `auto` is the loss, which changes while "
        "an accuracy still stands, for the similarity of pairs and triplets the main metric, and with "
        "[folds](data.md#folds) `last` where probabilities are calibrated",
    )
    calibration: bool = described(
        True,
        "divide the logits of predictions by a temperature that fits the validation rows best, for the probabilities "
        "of classes",
    )
    blend: Literal["auto", "always", "never"] = setting("training.blend")
    surface: bool = described(
        False,
        "the linear model of words also reads how texts look (length, capitals, digits, symbols and marks), where that "
        "is better on the validation rows",
    )
    patience: int = described(3, "early stopping: number of evaluations in a row without a better model", ge=1)
    seed: Seed = setting("training.seed", "that of the split alone is `data.split.seed`")
    report_to: Names = setting("training.report_to")

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

    def epochs_of(self, rows: int) -> float:
        """Return the most epochs of a training on so many rows."""
        if self.epochs is not None:
            return self.epochs
        return float(max(_EPOCHS, math.ceil(_FEWEST_STEPS / self.steps_per_epoch(rows))))

    def steps_per_epoch(self, rows: int) -> int:
        """Return how many steps one pass over so many rows takes."""
        return max(1, math.ceil(math.ceil(rows / self.batch_size) / self.gradient_accumulation))

    @field_validator("evaluate_every", mode="before")
    @classmethod
    def _epoch_or_steps(cls, value: Any) -> Any:
        if value != "epoch" and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            raise ConfigError(f"it is {value!r}: write epoch, or a number of steps of at least 1")
        return value


class EvaluationRecipe(Settings):
    """What the bootstrap draws: rows, or whole clusters of rows that are not independent.

    A run's folder then has a hash of each scored row's text and judge.
    """

    cluster: str | Annotated[tuple[Name, ...], Field(min_length=1, max_length=2)] = described(
        AUTO,
        "what is resampled for intervals: `rows`, `text`, a column, or two of these, such as `[text, "
        "judge]`; `auto` resamples texts and their judges if several rows share a text, and otherwise the one "
        "column, such as that of speakers, with twenty or more values that repeat",
    )
    judges: Names = described(
        (),
        "for `auto`: columns that may name the judge or speaker; if rows share texts, the first that distinguishes the "
        "rows of a text is taken; by default the categorical attributes whose values are not hashed",
    )

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
    """Values learned by another run, used instead of initial values."""

    run: str = setting("transfer.run")
    renamed: ClassVar[Mapping[str, str]] = {"everything": "full_model"}

    frozen: bool = described(
        True,
        "whether these parameters stay as they are, and values that the run does not know stay unknown; "
        "otherwise such values are added",
    )
    full_model: bool = described(
        False,
        "load everything that the run learned, its classes included, and train it further, as a run that is continued",
    )

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


class Recipe(Settings):
    """One training run: settings that fit each other.

    `method` has the method's ``name`` and options, `task` the task's ``kind`` and options.
    """

    data: DataRecipe
    method: dict[str, Any] = Field(default_factory=lambda: METHODS[DEFAULT_METHOD]().to_dict())
    task: dict[str, Any] = Field(default_factory=dict)
    backbone: BackboneRecipe = BackboneRecipe()
    training: TrainingRecipe = TrainingRecipe()
    evaluation: EvaluationRecipe = EvaluationRecipe()
    transfer: TransferRecipe | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, settings: Any) -> Any:
        return written_out(settings) if isinstance(settings, dict) else settings

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: dict[str, Any]) -> dict[str, Any]:
        return read_method({"name": DEFAULT_METHOD, **value}).to_dict()

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: dict[str, Any]) -> dict[str, Any]:
        if (kind := value.get("kind")) not in (None, *TASKS):
            listed = ", ".join(TASKS)
            raise ConfigError(f"unknown task {kind!r}{did_you_mean_or(str(kind), TASKS, f'choose one of {listed}')}")
        return value

    def cluster_settings(self) -> ClusterSettings:
        """How the clusters of scored rows are found."""
        # The marks of clusters would tell the values that a salt hides.
        known = [kind.name for kind in self.data.kinds() if kind.lists_values and not kind.takes_several]
        return ClusterSettings(
            cluster=self.evaluation.cluster,
            texts=self.data.texts,
            judges=self.evaluation.judges or tuple(known),
        )

    @property
    def missing_labels(self) -> tuple[str, ...]:
        """The texts that mean no label; the name of a class never does.

        Unless the recipe says otherwise, these are those of attributes, and where labels are numbers a few more.
        """
        lists = [self.task.get(option) for option in ("classes", "labels", "ties")]
        named = {canonical(name) for names in lists if isinstance(names, list | tuple) for name in names}
        usual = dict.fromkeys((*self.data.missing, *self.task_class.no_label))
        return tuple(text for text in self.task.get("missing", usual) if text not in named)

    @property
    def attribute_names(self) -> list[str]:
        """The names of the attributes."""
        return [str(attribute["name"]) for attribute in self.data.attributes]

    @property
    def attribute_columns(self) -> list[str]:
        """The columns of the attributes: their names, but for those of hierarchies."""
        return list(dict.fromkeys(column for kind in self.data.kinds() for column in kind.columns))

    @property
    def written(self) -> tuple[str, ...]:
        """The attributes whose values are written in front of a text."""
        return self.learner.written(self.attribute_names, self.data.written)

    @property
    def task_kind(self) -> str:
        """The task: as named, else ``aspects`` for several label columns and ``classification`` for one."""
        return str(self.task.get("kind") or ("aspects" if len(self.data.label) > 1 else "classification"))

    @property
    def task_options(self) -> dict[str, Any]:
        """The options with which the task is fitted."""
        options: dict[str, Any] = {name: value for name, value in self.task.items() if name != "kind"}
        options["missing"] = self.missing_labels
        return options | self.task_input.options(self.input_settings)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are predicted: the labels, with the texts that they are about, or the generated text."""
        return self.task_input.label_columns(self.input_settings)

    @property
    def task_class(self) -> type[Task]:
        """The task that is fitted."""
        return TASKS[self.task_kind]

    @property
    def task_input(self) -> TaskInput:
        """What of a row the task reads."""
        return self.task_class.input

    @property
    def input_settings(self) -> InputSettings:
        """What `task_input` asks for."""
        data, backbone, learner = self.data, self.backbone, self.learner
        window = data.parsed_window
        return InputSettings(
            text=data.text,
            pair=data.text_pair,
            negative=data.text_negative,
            prompt=data.prompt,
            chat=data.chat,
            label=data.label,
            partial_labels=data.partial_labels,
            attributes=tuple(self.attribute_names),
            attribute_columns=tuple(self.attribute_columns),
            written=data.written,
            window=data.window,
            is_head=isinstance(window, Head),
            is_chunked=window.chunk is not None,
            options=self.task,
            method=learner.method,
            method_name=learner.name,
            backbone=backbone.name,
            is_pretrained=backbone.is_pretrained,
            added_tokens=backbone.added_tokens,
            pooling=backbone.pooling,
            head_size=backbone.head_size,
            batch_size=self.training.batch_size,
        )

    @property
    def learner(self) -> Learner:
        """What learns: a method in the backbone, or a baseline."""
        options = read_method(self.method)
        if isinstance(options, BaselineConfig):
            return BaselineLearner(options=options, backbone=self.backbone)
        return MethodLearner(
            options=options,
            backbone=self.backbone,
            learning_rate=self.training.learning_rate,
            own_rate=self.training.backbone_learning_rate,
        )

    @model_validator(mode="after")
    def _fitting_task(self) -> Self:
        self.task_input.check(self.input_settings, task=self.task_kind)
        if both := sorted({*self.data.text}.intersection(self.data.text_pair)):
            raise ConfigError(f"column {', '.join(both)} is in both texts of the pair: name it once")
        if both := sorted({*self.data.text, *self.data.text_pair}.intersection(self.data.text_negative)):
            raise ConfigError(f"column {', '.join(both)} is the negative and also another text: name it once")
        return self

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if both := sorted({*self.data.texts, *self.data.prompt, *self.attribute_columns}.intersection(self.data.label)):
            raise ConfigError(
                f"column {', '.join(both)} is the label and also a text or an attribute: the model would read "
                "the answer; name it as the label only"
            )
        if self.data.weight in (*self.data.label, *self.data.texts, *self.data.prompt):
            raise ConfigError(
                f"column {self.data.weight} is the weight and also a text or the label: name a column of numbers that "
                "say how much each row counts, or leave weight out"
            )
        if self.data.shuffled and not (self.learner.reads_attributes and self.data.attributes):
            raise ConfigError(
                f"method {self.method['name']!r} reads no attributes here, so there is nothing to shuffle: leave "
                "shuffled out, or name attributes and a method that reads them"
            )
        both = [name for name in sorted(self.attribute_columns) if name in (*self.data.texts, self.data.weight)]
        if self.data.shuffled and both:
            what = "the weight" if both[0] == self.data.weight else "a text"
            raise ConfigError(f"column {', '.join(both)} is {what} and an attribute: it cannot be shuffled as one only")
        if self.transfer is not None and not self.learner.can_take_over(full_model=self.transfer.full_model):
            raise ConfigError(
                f"method {self.method['name']!r} has no attribute parameters to take over: leave transfer out, or use "
                "the method of that run"
            )
        self.learner.check(self.input_settings, task=self.task_class, described=list(self.data.values))
        return self

    def to_yaml(self) -> str:
        """Return the whole recipe, defaults included, as YAML; the end marker shows that it is complete."""
        tree = self.model_dump(mode="json")
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, explicit_end=True)
