"""Vectors of texts by the backbone of a model as it was before any training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.backbones.loading import check_fingerprint, load_tokenizer
from attribune.errors import ConfigError
from attribune.methods import Plain
from attribune.models.features import TextVectors
from attribune.schema import Schema
from attribune.tasks import Regression


class FrozenVectors:
    """Turns texts into vectors by a copy of a model's backbone without training, which is loaded when it is needed.

    Args:
        model: a `ConditionedModel`.
        backbone: new location of its backbone's weights, if they were moved.
    """

    def __init__(self, model: Any, *, backbone: str | Path | None = None) -> None:
        self._kind, self._config, self._backbone = type(model), model.config, backbone
        self._is_pretrained = bool(model.placement.is_pretrained)
        self._vectors: TextVectors | None = None
        self._device: Any = "cpu"

    def to(self, device: Any) -> None:
        """Compute on another device."""
        self._device = device
        if self._vectors is not None:
            self._vectors.to(device)

    def of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts, of length 1; errors are those of `load`."""
        return self.load().of_texts(texts)

    def load(self) -> TextVectors:
        """Return what computes the vectors.

        Raises:
            ConfigError: for a backbone without pretrained weights, or without a name.
            ModelFolderError: for other weights than those of the training.
        """
        if self._vectors is not None:
            return self._vectors
        config, moved = self._config, self._backbone
        name, revision = str(moved or config.backbone or ""), None if moved else config.revision
        if not name or not self._is_pretrained:
            raise ConfigError(
                "history: similar texts are found by a pretrained backbone, and this model has none that can be loaded "
                "by its name: choose one, or name a column of times (method.time)"
            )
        tokenizer = load_tokenizer(name, revision=revision)
        options: dict[str, Any] = {"task": Regression(), "method": Plain(), "tuning": "frozen"}
        if config.added_tokens:
            options |= {"tokenizer": tokenizer, "added_tokens": "train"}
        plain = self._kind.build(name, Schema([]), revision=revision, **options)
        plain.tokenizer = tokenizer
        expected = config.backbone_fingerprint
        check_fingerprint(plain.config.backbone_fingerprint, expected, name=name, folder=Path("the model"))
        self._vectors = TextVectors(plain)
        self._vectors.to(self._device)
        return self._vectors
