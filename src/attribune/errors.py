"""Errors and warnings of the package: each names the thing, the value seen and the cure."""

from __future__ import annotations

__all__ = ["AttribuneError", "AttribuneWarning", "ConfigError", "DataError", "ModelFolderError"]


class AttribuneError(ValueError):
    """Base of every error that a user can cure; the command line shows its message alone, without a traceback."""


class ConfigError(AttribuneError):
    """A wrong option, an unknown name, or settings that do not fit together."""


class DataError(AttribuneError):
    """A table, file, row or value that cannot be used as it is."""


class ModelFolderError(AttribuneError):
    """A run or model folder with a missing, truncated or foreign file."""


class AttribuneWarning(UserWarning):
    """Something was trimmed, dropped or replaced; the message counts it and names the cure."""
