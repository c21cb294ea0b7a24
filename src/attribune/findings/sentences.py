"""What the sentences of findings are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]
"""The figures and names of a finding."""

Sentences = dict[str, str | Callable[[Values], str]]
"""By code: a sentence with the names of its values, or what makes it of them."""
