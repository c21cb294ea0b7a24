"""Hides the lab from a process and from those that it starts, where this folder is on ``PYTHONPATH``."""

import sys

sys.modules["attribune_lab"] = None  # type: ignore[assignment]
