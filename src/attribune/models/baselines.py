"""The options of the methods that act in no backbone, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from attribune.core.config import Settings
from attribune.core.plugins import load_plugins
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError


class BaselineConfig(Settings):
    """The options of a method that acts in no backbone.

    `name` is its name, `reads_text` whether it reads the text, `reads_vectors` whether it does by the vectors of a
    frozen backbone, `stored_texts` what a saved model has of the training texts, as a sentence for its card,
    `times` the column by which rows are ordered, if any, and `is_cheap` whether a verdict compares networks with it.

    `model` and `trainer` refer to the class of saved models, a `models.baseline_model.Baseline`, and to the function
    that trains or goes on, saves the model and returns fields of a `TrainingRecord`; they are loaded when they are
    needed, as options are read where there is no time for it. Saved models have their settings in `file`, beside it
    are their arrays, and `words` are the settings with words of the training texts.
    """

    name: ClassVar[str]
    model: ClassVar[str] = "attribune.models.linear:LinearModel"
    trainer: ClassVar[str]
    file: ClassVar[str] = "linear.json"
    words: ClassVar[tuple[str, ...]] = ("words",)
    reads_text: ClassVar[bool] = True
    reads_vectors: ClassVar[bool] = False
    stored_texts: ClassVar[str] = ""
    times: ClassVar[tuple[str, ...]] = ()
    is_cheap: ClassVar[bool] = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with the name, from which `baseline_from_dict` restores the options."""
        return {"name": self.name, **self.model_dump(mode="json")}


class Linear(BaselineConfig):
    """Logistic or ridge regression on TF-IDF of words and word pairs and on one column per attribute value."""

    name = "linear"
    trainer = "attribune.training.baselines:train_linear"
    stored_texts = "The words of the training texts, all but the rarest, are in `linear.json` in plain text."


class AttributesOnly(BaselineConfig):
    """As `linear`, without the text."""

    name = "attributes-only"
    trainer = "attribune.training.baselines:train_linear"
    reads_text = False


class Intercept(BaselineConfig):
    """Logistic or ridge regression on the vectors of a frozen backbone, with a shrunken intercept for each value.

    A random-intercept model (Laird and Ware 1982): how far values differ is chosen on the validation rows.
    """

    name = "intercept"
    trainer = "attribune.training.baselines:train_frozen"
    reads_vectors = True


class Heads(BaselineConfig):
    """As `intercept`, and each value has weights of its own, which are shrunk towards those of all."""

    name = "heads"
    trainer = "attribune.training.baselines:train_frozen"
    reads_vectors = True


class Boosting(BaselineConfig):
    """Gradient-boosted trees on words, on how the text looks, on numbers and on the mean labels of each value."""

    name = "boosting"
    model = "attribune.models.boosting:BoostingModel"
    trainer = "attribune.training.baselines:train_boosting"
    file = "boosting.json"
    stored_texts = "The words of the training texts, all but the rarest, are in `boosting.json` in plain text."
    is_cheap = False


BASELINES: dict[str, type[BaselineConfig]] = {
    config.name: config for config in (Linear, AttributesOnly, Intercept, Heads, Boosting)
}
"""The methods that act in no backbone by name."""
BASELINES |= load_plugins("baselines", BaselineConfig) | BASELINES  # a plugin replaces none of ours


def files_of_baselines() -> list[str]:
    """Return the names of the files by which a folder is taken for that of a baseline."""
    settings = dict.fromkeys(config.file for config in BASELINES.values())
    return [name for file in settings for name in (file, f"{Path(file).stem}.safetensors")]


def baseline_from_dict(settings: dict[str, Any]) -> BaselineConfig:
    """Return the options of a baseline; ConfigError for one that it does not have."""
    config, options = BASELINES[settings["name"]], {key: value for key, value in settings.items() if key != "name"}
    if unknown := sorted(set(options) - set(config.model_fields)):
        known = ", ".join(config.model_fields) or "none"
        rest = did_you_mean_or(unknown[0], config.model_fields, f"it has {known}")
        raise ConfigError(f"method {config.name!r} has no option {', '.join(unknown)}{rest}")
    return config.from_dict(options, source=f"method {config.name!r}")
