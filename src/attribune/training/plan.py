"""A recipe resolved into the arguments of the steps of a training, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from attribune.core.device import resolve_precision
from attribune.data.clusters import ClusterSettings
from attribune.data.texts import TextInput
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.runs.learner import BackboneRecipe, Learner, MethodLearner
from attribune.runs.recipe import DataRecipe, Recipe, TrainingRecipe, TransferRecipe
from attribune.schema.kinds import Kind
from attribune.tasks import Task
from attribune.tasks.base import AUTO, LAST
from attribune.tasks.capabilities import CALIBRATION, LINEAR, can

SHUFFLED = "shuffled"
"""Among the methods to compare with: the same method on shuffled attributes."""
IDS, DESCRIPTIONS = "ids", "descriptions"
"""The same method with values that are not described, or have no vectors beside what their descriptions say."""
_NAMES = {IDS: ", ids alone", DESCRIPTIONS: ", descriptions alone"}


@dataclass(frozen=True, kw_only=True)
class DataPlan:
    """Which rows are read, and what is predicted; the same for all methods that are compared.

    Attributes:
        source: tables, splits and encoding.
        text: text columns and window.
        attributes: the kinds that the schema is fitted with.
        task: the task that is fitted, with `task_options`.
        label_columns: of which labels are made.
        true_columns: what a model predicts, as it stands beside its predictions.
        transfer: the run whose schema and classes are used.
        seed: of the shuffling of attributes.
        clusters: how rows that are not independent are found.
        encoder: the backbone, which encodes texts that describe values, and all texts for a frozen one.
        times: the column by which a method orders rows, if any.
    """

    source: DataRecipe
    text: TextInput
    attributes: tuple[Kind, ...]
    label_columns: tuple[str, ...]
    true_columns: tuple[str, ...]
    task: type[Task]
    task_options: Mapping[str, Any]
    transfer: TransferRecipe | None
    seed: int
    clusters: ClusterSettings
    encoder: BackboneRecipe
    times: tuple[str, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """Resolve the data and the task of a recipe."""
        return cls(
            source=recipe.data,
            text=recipe.data.text_input(),
            attributes=recipe.data.kinds(),
            label_columns=recipe.label_columns,
            true_columns=recipe.task_input.answers(recipe.input_settings),
            task=recipe.task_class,
            task_options=recipe.task_options,
            transfer=recipe.transfer,
            seed=recipe.training.seed,
            clusters=recipe.cluster_settings(),
            encoder=recipe.backbone,
            times=recipe.learner.times,
        )

    @property
    def continued(self) -> str | None:
        """The run that is trained further, if one is."""
        return self.transfer.run if self.transfer is not None and self.transfer.full_model else None

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        attributes = (column for kind in self.attributes for column in kind.columns)
        texts = (*self.text.names, *self.source.text_negative)
        return list(dict.fromkeys([*texts, *self.source.label, *attributes, *self.times]))


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """One training.

    Attributes:
        recipe: as written into the run's folder and onto its card.
        learner: the method in a backbone, or the baseline.
        data: rows and task.
        training: optimisation, with resolved learning rates.
        compared_as: its name among the methods to compare with.
        blends: whether simple models may count beside the network.
        is_candidate: whether its model is not kept, as it serves the choice of a method or scores a fold: it learns no
            priors of new values, and is not scored with its attributes hidden.
    """

    recipe: Recipe
    learner: Learner
    data: DataPlan
    training: TrainingRecipe
    compared_as: str | None = None
    is_candidate: bool = False
    blends: bool = False

    @classmethod
    def of(cls, recipe: Recipe, compared_as: str | None = None) -> Self:
        """Resolve a recipe."""
        learner = recipe.learner
        return cls(
            recipe=recipe,
            learner=learner,
            data=DataPlan.of(recipe),
            training=recipe.training.model_copy(update=learner.rates),
            compared_as=compared_as,
        )

    @property
    def model(self) -> MethodLearner | None:
        """The method in a backbone that is trained; None for a baseline."""
        return self.learner if isinstance(self.learner, MethodLearner) else None

    def with_max_length(self, size: int) -> Self:
        """Return the plan with another number of tokens that are read of a text."""
        data = self.recipe.data.model_copy(update={"max_length": size})
        changed = type(self).of(self.recipe.model_copy(update={"data": data}), self.compared_as)
        return replace(changed, is_candidate=self.is_candidate, blends=self.blends)

    def as_trained(self) -> Self:
        """Return the plan of a model to which nothing is fitted after its training."""
        return replace(self, blends=False, training=self.training.model_copy(update={"calibration": False}))

    def cross_validated(self, task: Task) -> Self:
        """Return the plan of a run on folds, whose temperature is fitted on all rows: the last weights are kept.

        The loss of few validation rows rises early, where a network grows too sure, while its answers still get better.
        """
        if self.training.select_by != AUTO or not (self.training.calibration and can(task, CALIBRATION)):
            return self
        return replace(self, training=self.training.model_copy(update={"select_by": LAST}))

    @property
    def hides_attributes(self) -> bool:
        """Whether the model is also scored with its attributes hidden, if it has some."""
        return self.learner.reads_attributes and not self.is_candidate

    @property
    def may_choose_folds(self) -> bool:
        """Whether few rows are divided into folds without being asked for: where that costs little."""
        is_cheap = self.model is None or self.model.tuning == "frozen"
        return is_cheap and can(self.data.task, LINEAR) and not (self.is_candidate or self.data.transfer)

    @property
    def wants_blend(self) -> bool:
        """Whether simple models count beside the network even where they are not shown to help."""
        return self.blends and self.training.blend == "always"

    @property
    def is_shuffled(self) -> bool:
        """Whether the attributes are shuffled over the rows."""
        return self.data.source.shuffled

    @property
    def name(self) -> str:
        """The name in tables."""
        name = f"{self.learner.name}, attributes shuffled" if self.is_shuffled else self.learner.name
        return name + _NAMES.get(self.compared_as or "", "")


def settled(recipe: Recipe) -> Recipe:
    """Return the recipe with what depends on machine and working folder: its precision, and a backbone's whole path."""
    precision, backbone = resolve_precision(recipe.training.precision), Path(recipe.backbone.name)
    name = str(backbone.absolute()) if backbone.is_dir() else recipe.backbone.name
    changes = {
        "training": recipe.training.model_copy(update={"precision": precision}),
        "backbone": recipe.backbone.model_copy(update={"name": name}),
    }
    return recipe.model_copy(update=changes)


def comparison_recipes(recipe: Recipe, names: Sequence[str]) -> dict[str, Recipe]:
    """Return the recipes of the methods to compare with, which differ from a recipe only in the method.

    Args:
        names: of methods; `SHUFFLED` is the same method on shuffled attributes, `IDS` and `DESCRIPTIONS` are the same
            with one of the two parts of values that are described.

    Raises:
        ConfigError: for a method that is unknown, does not fit the recipe, or is that of the recipe.
    """
    if len(set(names)) < len(names):
        raise ConfigError(f"compare {', '.join(names)}: name every method once")
    recipes = {}
    for name in names:
        recipes[name] = _with_method(recipe, name)
        if name == recipe.method["name"] or recipes[name] == recipe:
            raise ConfigError(f"compare {name}: this is the method that is trained anyway; name another one")
    return recipes


def _with_method(recipe: Recipe, name: str) -> Recipe:
    """Change the method; attributes stay shuffled if the new method reads them, and written if it lets them be."""
    settings = recipe.model_dump()
    if name == SHUFFLED:
        settings["data"]["shuffled"] = True
        return Recipe.from_dict(settings, source="the recipe with shuffled attributes")
    if name in _NAMES:
        if recipe.transfer is not None:
            raise ConfigError(f"compare {name}: the run that is continued has the descriptions: leave it out")
        if not recipe.data.values:
            raise ConfigError(
                f"compare {name}: no values are described: describe them in tables (values), or leave it out"
            )
        described = settings["data"]["values"].items()
        settings["data"]["values"] = {
            attribute: {**values, "own_vectors": False} for attribute, values in described if name == DESCRIPTIONS
        }
        return Recipe.from_dict(settings, source=f"the recipe with {name} alone")
    settings |= {"method": {"name": name}, "transfer": None}
    settings["data"] |= {"shuffled": False, "written": ()}
    if name in METHODS and not METHODS[name].reads_descriptions and METHODS[name].uses_attributes:
        settings["data"]["values"] = {}
    other = Recipe.from_dict(settings, source=f"the recipe with method {name}")
    kept = {
        "shuffled": recipe.data.shuffled and other.learner.reads_attributes,
        "written": recipe.data.written if other.learner.takes_written else (),
    }
    return other.model_copy(update={"data": other.data.model_copy(update=kept)})
