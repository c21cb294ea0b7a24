"""The commands in this process."""

from commands import attribune  # noqa: F401  a fixture
