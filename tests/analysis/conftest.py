"""The commands in this process."""

from commands import attribune, fails  # noqa: F401  fixtures
