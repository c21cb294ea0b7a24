"""The options of the baseline ``automl``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from attribune.core.config import ONE_OR_SEVERAL
from attribune.errors import ConfigError
from attribune.models.baselines import BaselineConfig


class AutoML(BaselineConfig):
    """The best of many small networks over word vectors, by a search on the validation rows (Houlsby et al. 2019).

    Args:
        trials: number of networks that are trained; ``--trials`` sets it as well.
        minutes: time after which no other is begun, and the current one ends with its next check; null for no limit;
            ``--minutes`` sets it as well.
        word_vectors: files of pretrained word vectors, among which the search chooses, as GloVe, word2vec and fastText
            publish them; without any, word vectors are trained from random ones; ``--word-vectors`` sets it as well.
    """

    name = "automl"
    is_cheap = False
    model = "attribune_lab.automl.model:AutoMLModel"
    trainer = "attribune_lab.automl.search:train_automl"
    file = "automl.json"
    words = ("words", "features")

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
