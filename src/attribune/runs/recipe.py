"""Recipes: all settings of a training run, read from YAML and from flags, and saved with every run."""

from __future__ import annotations

from typing import Self

import yaml
from pydantic import model_validator

from attribune.core.door import as_argument
from attribune.errors import ConfigError
from attribune.methods import check_reads_descriptions
from attribune.methods.history import History
from attribune.runs.recipe_checks import check_backbone, check_history, check_task
from attribune.runs.recipe_fields import RecipeFields

__all__ = ["RECIPE_END", "Recipe"]

RECIPE_END = "...\n"


class Recipe(RecipeFields):
    """One training run: settings that fit each other."""

    @model_validator(mode="after")
    def _fitting_task(self) -> Self:
        check_task(self)
        return self

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
                f"method {self.method['name']!r} needs attributes: name their columns with "
                f"{as_argument('data.attributes')}, or choose method 'none'"
            )
        if not self.is_baseline and isinstance(history := self.method_config(), History):
            check_history(self, history)
        return self

    @model_validator(mode="after")
    def _fitting_values(self) -> Self:
        if not self.is_baseline:
            check_reads_descriptions(self.method_config(), list(self.data.values))
        return self

    @model_validator(mode="after")
    def _fitting_backbone(self) -> Self:
        check_backbone(self)
        return self

    def to_yaml(self) -> str:
        """Return the whole recipe, defaults included, as YAML; the end marker shows that it is complete."""
        tree = self.model_dump(mode="json")
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, explicit_end=True)
