from __future__ import annotations

from commands import attribune, fails  # noqa: F401  fixtures
