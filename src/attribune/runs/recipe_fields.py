"""The settings of a training run, and what follows from them."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from attribune.backbones.tuning import Tuning
from attribune.core.config import Settings
from attribune.core.wording import did_you_mean_or
from attribune.data.clusters import ClusterSettings
from attribune.errors import ConfigError
from attribune.methods import DEFAULT_METHOD, METHODS, MethodConfig, method_from_dict
from attribune.methods.history import History
from attribune.models.baselines import BASELINES, BaselineConfig, baseline_from_dict
from attribune.runs.recipe_parts import BackboneRecipe, DataRecipe, EvaluationRecipe, TrainingRecipe, TransferRecipe
from attribune.runs.settings_tree import written_out
from attribune.schema import Categorical, canonical
from attribune.tasks import TASKS, Similarity
from attribune.tasks.similarity import Form

__all__ = ["RecipeFields"]


class RecipeFields(Settings):
    """Settings; `method` has the method's ``name`` and options, `task` the task's ``kind`` and options."""

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
        value = {"name": DEFAULT_METHOD, **value}
        name = value["name"]
        is_baseline = isinstance(name, str) and name in BASELINES
        return baseline_from_dict(value).to_dict() if is_baseline else _method(value).to_dict()

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: dict[str, Any]) -> dict[str, Any]:
        if (kind := value.get("kind")) not in (None, *TASKS):
            listed = ", ".join(TASKS)
            raise ConfigError(f"unknown task {kind!r}{did_you_mean_or(str(kind), TASKS, f'choose one of {listed}')}")
        return value

    @property
    def similarity(self) -> Similarity:
        """The task ``similarity`` with the attributes of each text."""
        named = {name: self.task[name] for name in ("text_attributes", "pair_attributes") if name in self.task}
        return Similarity(form=self.form, **named)

    @property
    def form(self) -> Form:
        """What the rows of the task ``similarity`` have."""
        return "triplets" if self.data.text_negative else "scores" if self.data.label else "pairs"

    def cluster_settings(self) -> ClusterSettings:
        """How the clusters of scored rows are found."""
        # The marks of clusters would tell the values that a salt hides.
        known = [kind.name for kind in self.data.kinds() if isinstance(kind, Categorical) and kind.lists_values]
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
        usual = dict.fromkeys((*self.data.missing, *TASKS[self.task_kind].no_label))
        return tuple(text for text in self.task.get("missing", usual) if text not in named)

    @property
    def attribute_names(self) -> list[str]:
        """The columns of the attributes."""
        return [str(attribute["name"]) for attribute in self.data.attributes]

    @property
    def task_kind(self) -> str:
        """The task: as named, else ``aspects`` for several label columns and ``classification`` for one."""
        return str(self.task.get("kind") or ("aspects" if len(self.data.label) > 1 else "classification"))

    @property
    def task_options(self) -> dict[str, Any]:
        """The options with which the task is fitted."""
        options: dict[str, Any] = {name: value for name, value in self.task.items() if name != "kind"}
        options["missing"] = self.missing_labels
        if self.task_kind == "aspects":
            options.setdefault("names", self.data.label)
        if self.task_kind == "similarity":
            options["form"] = self.form
        return options

    @property
    def is_generative(self) -> bool:
        """Whether the model writes text."""
        return self.task_kind == "generation"

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are predicted: the labels, with the texts that they are about, or the generated text."""
        if self.task_kind == "similarity":
            return (*self.data.label, *self.data.texts, *self.similarity.label_attributes)
        if self.compares:
            return (*self.data.label, *self.data.texts)
        if self.reads_tokens:
            return (*self.data.label, *(self.data.text_pair or self.data.text))
        return self.data.text if self.is_generative else self.data.label

    @property
    def compares(self) -> bool:
        """Whether the task compares texts of a row."""
        return TASKS[self.task_kind].compares

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
    def times(self) -> tuple[str, ...]:
        """The column by which the method orders rows, if it does."""
        method = None if self.is_baseline else self.method_config()
        return (method.time,) if isinstance(method, History) and method.time is not None else ()

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


def _method(settings: dict[str, Any]) -> MethodConfig:
    """The method's settings; the message for an unknown name lists the baselines too."""
    name = settings["name"]
    if isinstance(name, str) and "+" not in name and name not in METHODS:
        known = (*METHODS, *BASELINES)
        rest = did_you_mean_or(name, known, f"choose one of {', '.join(known)}, or a sum")
        raise ConfigError(f"unknown method {name!r}{rest}")
    return method_from_dict(settings)
