"""What the verbs write to stdout."""

from __future__ import annotations

import sys

__all__ = ["show"]


def show(text: str) -> None:
    """Write a result to stdout."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
