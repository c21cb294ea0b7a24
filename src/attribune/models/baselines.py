"""The options of the methods that act in no backbone, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from attribune.core.config import ONE_OR_SEVERAL, Settings
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError

__all__ = [
    "BASELINES",
    "AttributesOnly",
    "AutoML",
    "BaselineConfig",
    "Heads",
    "Intercept",
    "Linear",
    "baseline_from_dict",
]


class BaselineConfig(Settings):
    """The options of a method that acts in no backbone.

    `name` is its name, `reads_text` whether it reads the text, `reads_vectors` whether it does by the vectors of a
    frozen backbone, `stored_texts` what a saved model has of the training texts, as a sentence for its card, and
    `times` the column by which rows are ordered, if any.
    """

    name: ClassVar[str]
    reads_text: ClassVar[bool] = True
    reads_vectors: ClassVar[bool] = False
    stored_texts: ClassVar[str] = ""
    times: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with the name, from which `baseline_from_dict` restores the options."""
        return {"name": self.name, **self.model_dump(mode="json")}


class Linear(BaselineConfig):
    """Logistic or ridge regression on TF-IDF of words and word pairs and on one column per attribute value."""

    name = "linear"
    stored_texts = "The words of the training texts, all but the rarest, are in `linear.json` in plain text."


class AttributesOnly(BaselineConfig):
    """As `linear`, without the text."""

    name = "attributes-only"
    reads_text = False


class Intercept(BaselineConfig):
    """Logistic or ridge regression on the vectors of a frozen backbone, with a shrunken intercept for each value.

    A random-intercept model (Laird and Ware 1982): how far values differ is chosen on the validation rows.
    """

    name = "intercept"
    reads_vectors = True


class Heads(BaselineConfig):
    """As `intercept`, and each value has weights of its own, which are shrunk towards those of all."""

    name = "heads"
    reads_vectors = True


class AutoML(BaselineConfig):
    """The best of many small networks over word vectors, by a search on the validation rows (Houlsby et al. 2019).

    Args:
        trials: networks that are trained.
        minutes: time after which no other is begun, and the one in hand ends with its next check; None for no limit.
        word_vectors: files of pretrained word vectors, among which the search chooses, as GloVe, word2vec and fastText
            publish them; without any, word vectors are trained from random ones.
    """

    name = "automl"

    trials: int = Field(default=30, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    word_vectors: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = ()

    @field_validator("word_vectors")
    @classmethod
    def _names_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Check that files have different names, by which records of trials refer to them."""
        names = [Path(file).name for file in value]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two files of word vectors are named {twice[0]!r}: rename one")
        return value


BASELINES: dict[str, type[BaselineConfig]] = {
    config.name: config for config in (Linear, AttributesOnly, Intercept, Heads, AutoML)
}
"""The methods that act in no backbone by name."""


def baseline_from_dict(settings: dict[str, Any]) -> BaselineConfig:
    """Return the options of a baseline; ConfigError for one that it does not have."""
    config, options = BASELINES[settings["name"]], {key: value for key, value in settings.items() if key != "name"}
    if unknown := sorted(set(options) - set(config.model_fields)):
        known = ", ".join(config.model_fields) or "none"
        rest = did_you_mean_or(unknown[0], config.model_fields, f"it has {known}")
        raise ConfigError(f"method {config.name!r} has no option {', '.join(unknown)}{rest}")
    return config.from_dict(options, source=f"method {config.name!r}")
