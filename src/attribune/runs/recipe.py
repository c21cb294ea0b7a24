"""Recipes: all settings of a training run, read from YAML and from flags, and saved with every run."""

from __future__ import annotations

from typing import Any, Self

import yaml
from pydantic import Field, field_validator, model_validator

from attribune.backbones.families import placement_for
from attribune.backbones.tuning import Tuning
from attribune.backbones.word_options import WORD_MODELS
from attribune.core.config import Settings
from attribune.core.wording import did_you_mean
from attribune.data.clusters import ClusterSettings
from attribune.data.windows import Head, parse_window
from attribune.errors import ConfigError
from attribune.methods import (
    DEFAULT_METHOD,
    METHODS,
    MethodConfig,
    check_compares,
    check_gives_vectors,
    check_reads_descriptions,
    check_reads_tokens,
    method_from_dict,
)
from attribune.methods.history import History
from attribune.models.baselines import BASELINES, BaselineConfig, baseline_from_dict
from attribune.runs.recipe_parts import BackboneRecipe, DataRecipe, EvaluationRecipe, TrainingRecipe, TransferRecipe
from attribune.runs.settings_tree import written_out
from attribune.schema import Categorical, canonical
from attribune.tasks import TASKS, Similarity
from attribune.tasks.similarity import Form

__all__ = ["RECIPE_END", "Recipe"]

RECIPE_END = "...\n"


class Recipe(Settings):
    """One training run; `method` has the method's ``name`` and options, `task` the task's ``kind`` and options."""

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
            raise ConfigError(
                f"unknown task {kind!r}: choose one of {', '.join(TASKS)}{did_you_mean(str(kind), TASKS)}"
            )
        return value

    @model_validator(mode="after")
    def _fitting_task(self) -> Self:
        if self.is_generative:
            self._check_generation()
        elif self.compares:
            self._check_candidates()
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

    def _check_candidates(self) -> None:
        """Refuse settings that a task which compares texts does not have."""
        if self.is_baseline:
            raise ConfigError(
                f"method {self.method['name']!r} compares no texts, as the task {self.task_kind!r} does: choose one "
                "that acts in a backbone"
            )
        check_compares(self.method_config(), task=self.task_kind)
        if self.task_kind == "similarity":
            self._check_similarity()
        elif len(self.data.text) != 1 or len(self.data.text_pair) != 1:
            raise ConfigError(
                f"task {self.task_kind!r} compares two texts: name one column of each, with --text and --text-pair, "
                "the preferred one first where there is no label, and what stands before both with --prompt"
            )
        if both := sorted({*self.data.prompt, *self.attribute_names}.intersection(self.data.texts)):
            raise ConfigError(
                f"column {', '.join(both)} is a text that is compared and also the prompt or an attribute: name it once"
            )
        if self.data.chat or self.data.partial_labels:
            what = "chat" if self.data.chat else "partial_labels"
            raise ConfigError(f"task {self.task_kind!r} has no {what}: leave it out")

    def _check_similarity(self) -> None:
        """Refuse settings with which nothing is learned of the similarity of texts, or not what is meant."""
        if not self.data.text_pair:
            raise ConfigError(
                "task 'similarity' compares two texts: name the column of the second one with --text-pair, and with "
                "--label that of scores, or with --text-negative that of a text that fits less, if there is one"
            )
        if any(len(names) > 1 for names in (self.data.text, self.data.text_pair, self.data.text_negative)):
            raise ConfigError(
                "task 'similarity' compares one column with another: name one with --text, one with --text-pair and at "
                "most one with --text-negative, and join others beforehand"
            )
        if self.data.label and self.data.text_negative:
            raise ConfigError("task 'similarity' learns from scores or from triplets: leave label or text_negative out")
        if self.data.prompt:
            raise ConfigError("task 'similarity' reads no prompt: name its column with the text, and leave prompt out")
        if self.task.get("form", self.form) != self.form:
            raise ConfigError(
                f"task.form is {self.task['form']!r}, and the columns that are named make {self.form}: leave it out"
            )
        if self.form == "pairs" and self.training.batch_size < 2:
            raise ConfigError(
                "training.batch_size is 1, and pairs are learned from the other rows of a batch: give at least 2"
            )
        if self.backbone.head_size is not None:
            raise ConfigError("task 'similarity' has no head: leave backbone.head_size out")
        check_gives_vectors(self.method_config(), task=self.task_kind)
        self._similarity.check_attributes(self.attribute_names)

    @property
    def _similarity(self) -> Similarity:
        """The task ``similarity`` with the attributes of each text."""
        named = {name: self.task[name] for name in ("text_attributes", "pair_attributes") if name in self.task}
        return Similarity(form=self.form, **named)

    @property
    def form(self) -> Form:
        """What the rows of the task ``similarity`` have."""
        return "triplets" if self.data.text_negative else "scores" if self.data.label else "pairs"

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
        if self.is_baseline or "text" in self.method_config().points:
            raise ConfigError(f"method {self.method['name']!r} writes no text: choose one that acts in a backbone")
        if self.backbone.pooling is not None:
            raise ConfigError("task 'generation' has no document vector: leave backbone.pooling out")

    @model_validator(mode="after")
    def _fitting_texts(self) -> Self:
        if both := sorted({*self.data.text}.intersection(self.data.text_pair)):
            raise ConfigError(f"column {', '.join(both)} is in both texts of the pair: name it once")
        if self.data.text_negative and self.task_kind != "similarity":
            raise ConfigError(f"task {self.task_kind!r} reads no text_negative, as similarity does: leave it out")
        if both := sorted({*self.data.text, *self.data.text_pair}.intersection(self.data.text_negative)):
            raise ConfigError(f"column {', '.join(both)} is the negative and also another text: name it once")
        return self

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if len(self.data.label) > 1 and self.task_kind not in ("aspects", "spans"):
            raise ConfigError(
                f"task {self.task_kind!r} reads one label column, {len(self.data.label)} are named: name one, or "
                "choose the task aspects"
            )
        if both := sorted({*self.data.texts, *self.data.prompt, *self.attribute_names}.intersection(self.data.label)):
            raise ConfigError(
                f"column {', '.join(both)} is the label and also a text or an attribute: the model would read "
                "the answer; name it as the label only"
            )
        if self.data.weight in (*self.data.label, *self.data.texts, *self.data.prompt):
            raise ConfigError(
                f"column {self.data.weight} is the weight and also a text or the label: name a column of numbers that "
                "say how much each row counts, or leave weight out"
            )
        if self.data.shuffled and not (self.reads_attributes and self.data.attributes):
            raise ConfigError(
                f"method {self.method['name']!r} reads no attributes here, so there is nothing to shuffle: leave "
                "shuffled out, or name attributes and a method that reads them"
            )
        both = [name for name in sorted(self.attribute_names) if name in (*self.data.texts, self.data.weight)]
        if self.data.shuffled and both:
            what = "the weight" if both[0] == self.data.weight else "a text"
            raise ConfigError(f"column {', '.join(both)} is {what} and an attribute: it cannot be shuffled as one only")
        if self.transfer is not None and (self.is_baseline or not (self.needs_attributes or self.transfer.full_model)):
            raise ConfigError(
                f"method {self.method['name']!r} has no attribute parameters to take over: leave transfer out, or use "
                "the method of that run"
            )
        if self.needs_attributes and not self.data.attributes:
            raise ConfigError(
                f"method {self.method['name']!r} needs attributes: name their columns (attributes=[...] in Python, "
                "--attributes on the command line), or choose method 'none'"
            )
        if not self.is_baseline and isinstance(history := self.method_config(), History):
            self._check_history(history)
        return self

    @model_validator(mode="after")
    def _fitting_values(self) -> Self:
        if not self.is_baseline:
            check_reads_descriptions(self.method_config(), list(self.data.values))
        return self

    def _check_history(self, history: History) -> None:
        """Refuse settings with which no history can be read."""
        if (refusal := history.attribute_refusal(self.attribute_names)) is not None:
            raise ConfigError(refusal)
        if self.task.get("soft_labels"):
            raise ConfigError(
                "history puts labels in front of texts, but with soft_labels they are shares: leave soft_labels out"
            )
        if history.time in self.data.label:
            raise ConfigError(
                f"history: time is {history.time!r}, which is the label and would be read: name another column"
            )
        if history.time is None and not self.backbone.is_pretrained:
            raise ConfigError(
                f"history: similar texts are found by a pretrained backbone, but {self.backbone.name!r} is not "
                "pretrained: choose one that is, or name a column of times (method.time)"
            )
        if parse_window(self.data.window, max_length=self.data.max_length).chunk is not None:
            raise ConfigError(
                f"history: a text is read at once, behind its history, and the window is {self.data.window!r}: choose "
                "head or head+tail"
            )

    @model_validator(mode="after")
    def _fitting_backbone(self) -> Self:
        if self.baseline is not None and self.baseline.reads_vectors and not self.backbone.is_pretrained:
            raise ConfigError(
                f"method {self.method['name']!r} reads the vectors of a pretrained backbone, and "
                f"{self.backbone.name!r} is not pretrained: choose a pretrained one"
            )
        if self.backbone.is_pretrained or self.is_baseline:
            return self
        if self.is_generative:
            raise ConfigError(f"the backbone {self.backbone.name!r} writes no text: choose a language model")
        method, name = self.method_config(), self.backbone.name
        placement = placement_for(WORD_MODELS[name].model_type)
        if (refusal := method.refusal(placement) or method.attribute_refusal(self.attribute_names)) is not None:
            raise ConfigError(refusal)
        if placement.states != "token" and (self.reads_tokens or self.data.window.startswith("chunks")):
            what = f"the task {self.task_kind!r} scores words" if self.reads_tokens else "chunks are cut by words"
            raise ConfigError(f"{what}, and the backbone {name!r} has a state for each {placement.states}")
        for option, value in method.word_options(name, attributes=len(self.data.attributes)).items():
            if (given := self.backbone.options.get(option, value)) != value:
                raise ConfigError(
                    f"backbone.options.{option} is {given}, but the method {method.name!r} needs {value} for the "
                    f"attributes {', '.join(self.attribute_names)}: leave it out"
                )
        return self

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
        """The texts that mean no label; the name of a class never does."""
        lists = [self.task.get(option) for option in ("classes", "labels", "ties")]
        named = {canonical(name) for names in lists if isinstance(names, list | tuple) for name in names}
        return tuple(text for text in self.task.get("missing", self.data.missing) if text not in named)

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
        """The columns that are predicted: the labels, with the texts that they are about, or the generated text."""
        if self.task_kind == "similarity":
            return (*self.data.label, *self.data.texts, *self._similarity.label_attributes)
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

    def to_yaml(self) -> str:
        """Return the whole recipe, defaults included, as YAML; the end marker shows that it is complete."""
        tree = self.model_dump(mode="json")
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, explicit_end=True)


def _method(settings: dict[str, Any]) -> MethodConfig:
    """The method's settings; the message for an unknown name lists the baselines too."""
    name = settings["name"]
    if isinstance(name, str) and "+" not in name and name not in METHODS:
        known = (*METHODS, *BASELINES)
        hint = did_you_mean(name, known)
        raise ConfigError(f"unknown method {name!r}: choose one of {', '.join(known)}, or a sum{hint}")
    return method_from_dict(settings)
