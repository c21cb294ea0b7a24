"""Values without a vocabulary: each is hashed to one of a fixed number of ids, optionally with a salt."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribune.core.hashing import text_digest, text_number
from attribune.errors import ConfigError
from attribune.schema.kinds import ENVIRONMENT, Categorical, MultiLabel

__all__ = ["hashed_ids", "salt_check"]


def hashed_ids(spec: Categorical | MultiLabel, texts: Sequence[str], *, check: str | None) -> npt.NDArray[np.int64]:
    """Hash each text to 1..buckets, the same on every machine.

    Raises:
        ConfigError: when the salt is not in the environment, or does not agree with `check`.
    """
    key = _key(spec)
    if check is not None and salt_check(spec) != check:
        raise ConfigError(
            f"attribute {spec.name!r}: the salt in {spec.salt} is not the one of training, so every id would be wrong: "
            "set the same value"
        )
    return np.array([text_number(text, key=key) % spec.buckets + 1 for text in texts], dtype=np.int64)


def salt_check(spec: Categorical | MultiLabel) -> str | None:
    """Return a value that recognises a salt from the environment; None for any other salt."""
    if spec.salt is None or not spec.salt.startswith(ENVIRONMENT):
        return None
    return text_digest("attribune", key=_key(spec), person=b"check").hex()


def _key(spec: Categorical | MultiLabel) -> bytes:
    salt = spec.salt or ""
    if salt.startswith(ENVIRONMENT):
        variable = salt.removeprefix(ENVIRONMENT)
        salt = os.environ.get(variable, "")
        if not salt:
            raise ConfigError(
                f"attribute {spec.name!r}: the environment variable {variable!r} with the salt is not set: "
                "set it to the value used in training"
            )
    return text_digest(salt, size=64) if salt else b""
