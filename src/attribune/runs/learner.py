"""What learns in a run: a method in a backbone, or a baseline without one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from attribune.backbones.added_tokens import AddedTokens
from attribune.backbones.families import placement_for
from attribune.backbones.placement import Pooling
from attribune.backbones.tuning import Tuning
from attribune.backbones.untrained import UNTRAINED
from attribune.core.config import PATH_AS_TEXT, Settings, described, setting
from attribune.core.door import as_argument
from attribune.core.plugins import absent_plugins
from attribune.core.wording import did_you_mean_or
from attribune.data.readers import reader_of
from attribune.errors import ConfigError
from attribune.methods import METHODS, MethodConfig, check_reads_descriptions, check_written, method_from_dict
from attribune.models.baselines import BASELINES, BaselineConfig, baseline_from_dict
from attribune.models.chunk_encoders import chunk_encoder_from_dict
from attribune.models.config import DROPOUT, Dropout, HeadSize
from attribune.tasks import Task
from attribune.tasks.inputs import InputSettings


class BackboneRecipe(Settings):
    """The backbone and how it is tuned. Empty fields take the default of the method or of the family."""

    name: Annotated[str, PATH_AS_TEXT] = setting("backbone.name")
    revision: str | None = described(None, "branch, tag or commit on the hub")
    tuning: str | None = setting("backbone.tuning")
    pooling: Pooling | None = described(
        None, "`first`, `mean`, `last` or `max`; by default the pooling with which the weights were trained"
    )
    dropout: Dropout = described(DROPOUT, "dropout on the document vector before the classifier")
    head_size: HeadSize | None = described(
        None,
        "size of a tanh layer between the document vector and the classifier; by default there is none",
        le=100_000,
    )
    chunk_encoder: dict[str, Any] | str | None = described(
        None,
        "how the vectors of chunks are combined: `robert`, `tobert`, `hibert`, or a tree of its settings; "
        "by default their mean",
    )
    attention_dropout: Dropout | Literal["auto"] | None = described(
        "auto",
        "dropout on the backbone's attention weights in training: a number, or null for the pretrained value; `auto` "
        "is the pretrained value, or 0 on a frozen backbone, which is faster and needs less memory",
    )
    options: dict[str, Any] = described({}, "of backbones without pretraining")
    word_vectors: str | None = described(None, "file of initial word vectors for such a backbone")
    added_tokens: AddedTokens = described(
        "refuse",
        "`train` adds trainable embeddings for tokens that were added to the tokenizer; not for models that write text",
    )

    @property
    def is_pretrained(self) -> bool:
        """Whether there are pretrained weights; a backbone over word vectors begins without."""
        return self.name not in UNTRAINED

    @model_validator(mode="after")
    def _fitting_kind(self) -> Self:
        if (missing := absent_plugins("networks").get(self.name)) is not None:
            raise ConfigError(f"the backbone {self.name!r} {missing}")
        if self.is_pretrained and (self.options or self.word_vectors):
            what = "options" if self.options else "word_vectors"
            raise ConfigError(f"{what} are for backbones without pretraining ({', '.join(UNTRAINED)}): leave it out")
        chosen = {
            "tuning": self.tuning not in (None, "full"),
            "revision": self.revision is not None,
            "attention_dropout": self.attention_dropout not in (None, "auto"),
            "added_tokens": self.added_tokens != "refuse",
        }
        if not self.is_pretrained and any(chosen.values()):
            what = next(name for name, is_chosen in chosen.items() if is_chosen)
            raise ConfigError(f"{what} is not for the backbone {self.name!r}, which is not pretrained: leave it out")
        if not self.is_pretrained:
            UNTRAINED[self.name].from_dict(self.options, source="backbone.options")
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


def read_method(settings: dict[str, Any]) -> MethodConfig | BaselineConfig:
    """Return the options of a method or of a baseline; ConfigError for an unknown name, which lists both."""
    name = settings["name"]
    if isinstance(name, str) and name in BASELINES:
        return baseline_from_dict(settings)
    if isinstance(name, str) and "+" not in name and name not in METHODS:
        if (missing := (absent_plugins("methods") | absent_plugins("baselines")).get(name)) is not None:
            raise ConfigError(f"the method {name!r} {missing}")
        known = (*METHODS, *BASELINES)
        rest = did_you_mean_or(name, known, f"choose one of {', '.join(known)}, or a sum")
        raise ConfigError(f"unknown method {name!r}{rest}")
    return method_from_dict(settings)


@dataclass(frozen=True, kw_only=True)
class Learner(ABC):
    """What learns in a run.

    ``has_settings`` says whether other settings of the training could be tried; a baseline chooses its own.

    Args:
        options: of the method or of the baseline.
        backbone: the one that the recipe names, whether it is read or not.
    """

    has_settings: ClassVar[bool]
    options: MethodConfig | BaselineConfig
    backbone: BackboneRecipe

    @property
    def name(self) -> str:
        """The name of the method or of the baseline."""
        return self.options.name

    @property
    def method(self) -> MethodConfig | None:
        """The options of a method; None for a baseline."""
        return self.options if isinstance(self.options, MethodConfig) else None

    @property
    def baseline(self) -> BaselineConfig | None:
        """The options of a baseline; None for a method."""
        return self.options if isinstance(self.options, BaselineConfig) else None

    @property
    def tuning(self) -> str | None:
        """Which parameters of the backbone are trained; None without one."""
        return None

    @property
    def rates(self) -> Mapping[str, float]:
        """The peak learning rates, by their names in a recipe; empty without any."""
        return {}

    @property
    def times(self) -> tuple[str, ...]:
        """The column by which rows are ordered, if any."""
        return self.options.times

    @property
    @abstractmethod
    def read_backbone(self) -> str | None:
        """The name of the backbone whose states are read; None without one."""

    @property
    def tuned_backbone(self) -> str | None:
        """The name of the backbone in which something is learned; None without one."""
        return self.read_backbone if self.tuning is not None else None

    @property
    @abstractmethod
    def needs_attributes(self) -> bool:
        """Whether there must be attributes."""

    @property
    def reads_attributes(self) -> bool:
        """Whether predictions depend on the attributes, where there are any."""
        return self.needs_attributes

    @property
    def writes_values(self) -> bool:
        """Whether values are read as they are written, so that nothing is stored for one."""
        return self.method is not None and self.method.writes_values

    def written(self, attributes: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        """Return those attributes whose values are written in front of a text; see `MethodConfig.written`."""
        return () if self.method is None else self.method.written(attributes, chosen)

    @property
    def takes_written(self) -> bool:
        """Whether attributes can be chosen whose values are written in front of a text."""
        return self.method is not None and self.method.written_refusal is None

    @abstractmethod
    def can_take_over(self, *, full_model: bool) -> bool:
        """Whether it can begin with the attribute parameters of another run, or with its full model."""

    @abstractmethod
    def backbone_words(self, shown: str) -> str:
        """Say in a card what becomes of the backbone, whose name is shown so."""

    def check(self, settings: InputSettings, *, task: type[Task], described: Sequence[str]) -> None:
        """Refuse attributes, rows or a backbone that cannot be read.

        Args:
            described: the attributes whose values are described.

        Raises:
            ConfigError: naming the method, the setting and the cure.
        """
        if self.needs_attributes and not settings.attributes:
            raise ConfigError(
                f"method {self.name!r} needs attributes: name their columns with {as_argument('data.attributes')}, or "
                "choose method 'none'"
            )


@dataclass(frozen=True, kw_only=True)
class BaselineLearner(Learner):
    """A baseline, which acts in no backbone, though it may read one."""

    has_settings = False
    options: BaselineConfig

    @property
    def needs_attributes(self) -> bool:
        """Whether it reads nothing else."""
        return not self.options.reads_text

    @property
    def reads_attributes(self) -> bool:
        """All baselines do."""
        return True

    @property
    def read_backbone(self) -> str | None:
        """The frozen backbone whose vectors are read, if any."""
        return self.backbone.name if self.options.reads_vectors else None

    def can_take_over(self, *, full_model: bool) -> bool:
        """It cannot: it has no such parameters."""
        return False

    def backbone_words(self, shown: str) -> str:
        """Say whether there is a frozen one."""
        return f"{shown} (frozen)" if self.options.reads_vectors else "no backbone"

    def check(self, settings: InputSettings, *, task: type[Task], described: Sequence[str]) -> None:
        """Refuse settings of the backbone, and of its texts, that do nothing."""
        super().check(settings, task=task, described=described)
        if settings.written:
            raise ConfigError(
                f"written is {', '.join(settings.written)}, and method {self.name!r} is a baseline, which reads no "
                f"values in front of a text: leave {as_argument('data.written')} out, or choose another method"
            )
        if self.options.reads_vectors and not self.backbone.is_pretrained:
            raise ConfigError(
                f"method {self.name!r} reads the vectors of a pretrained backbone, and {self.backbone.name!r} is not "
                "pretrained: choose a pretrained one"
            )
        if self.backbone.added_tokens != "refuse":
            raise ConfigError(
                f"backbone.added_tokens is {self.backbone.added_tokens}, which method {self.name!r} does not have: "
                "add embeddings with transformers (resize_token_embeddings), or leave it out"
            )


@dataclass(frozen=True, kw_only=True)
class MethodLearner(Learner):
    """A method in a backbone.

    Args:
        learning_rate: of new parameters.
        own_rate: of the backbone, where one is given.
    """

    has_settings = True
    options: MethodConfig
    learning_rate: float
    own_rate: float | None

    @property
    def needs_attributes(self) -> bool:
        """Whether the method reads attributes."""
        return self.options.uses_attributes

    @property
    def tuning(self) -> str:
        """Which parameters of the backbone are trained."""
        if not self.backbone.is_pretrained:
            return "full"
        return self.backbone.tuning or self.options.default_tuning

    @property
    def rates(self) -> Mapping[str, float]:
        """The peak learning rates of new parameters and of the backbone."""
        rate = self.own_rate
        if rate is None:
            is_delicate = self.backbone.is_pretrained and Tuning.parse(self.tuning).pretrained_matrices
            rate = 5e-5 if is_delicate else self.learning_rate
        return {"learning_rate": self.learning_rate, "backbone_learning_rate": rate}

    @property
    def read_backbone(self) -> str:
        """The name of the backbone."""
        return self.backbone.name

    def can_take_over(self, *, full_model: bool) -> bool:
        """Whether the full model is taken over, or there are attribute parameters."""
        return full_model or (self.needs_attributes and not self.writes_values)

    def backbone_words(self, shown: str) -> str:
        """Say what of it is trained."""
        return f"{shown} (tuning `{self.tuning}`)"

    def check(self, settings: InputSettings, *, task: type[Task], described: Sequence[str]) -> None:
        """Refuse attributes, descriptions, histories and a backbone that the method cannot read."""
        super().check(settings, task=task, described=described)
        check_written(self.options, settings.written)
        reader = reader_of(task, self.options, written=self.written(settings.attributes, settings.written))
        if (refusal := reader.refusal(settings)) is not None:
            raise ConfigError(refusal)
        check_reads_descriptions(self.options, described)
        if not self.backbone.is_pretrained:
            self._check_words(settings, task)

    def _check_words(self, settings: InputSettings, task: type[Task]) -> None:
        """Refuse a backbone without pretraining that the method or the task cannot read."""
        method, name = self.options, self.backbone.name
        placement = placement_for(UNTRAINED[name].model_type)
        if (refusal := method.refusal(placement) or method.attribute_refusal(settings.attributes)) is not None:
            raise ConfigError(refusal)
        needed = task.input.needs_token_states
        if placement.states != "token" and (needed or settings.is_chunked):
            what = f"the task {task.kind!r} {needed}" if needed else "chunks are cut by words"
            raise ConfigError(f"{what}, and the backbone {name!r} has a state for each {placement.states}")
        for option, value in method.word_options(name, attributes=len(settings.attributes)).items():
            if (given := self.backbone.options.get(option, value)) != value:
                raise ConfigError(
                    f"backbone.options.{option} is {given}, but the method {method.name!r} needs {value} for the "
                    f"attributes {', '.join(settings.attributes)}: leave it out"
                )
