"""``python -m attribune``, the same as the command ``attribune``."""

from attribune.apps.cli import run

run()
