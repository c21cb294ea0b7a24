"""Checkpoints of an interrupted training."""

from __future__ import annotations

import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers import TrainerState

__all__ = ["last_checkpoint", "read_state"]

_WEIGHTS, _STATES = "model.safetensors", ("optimizer.pt", "scheduler.pt")
_RANDOM = "rng_state*.pth"  # one of each process


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; one that an interruption truncated does not count."""
    newest_first = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in newest_first if _is_whole(path)), None)


def read_state(checkpoint: Path) -> TrainerState | None:
    """Return the Trainer's state in a checkpoint; None where it is missing or damaged."""
    try:
        return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError, TypeError):
        return None


def _is_whole(checkpoint: Path) -> bool:
    # trainer_state.json is written last; the other files are checked as well, since a copy may be truncated.
    try:
        with safe_open(checkpoint / _WEIGHTS, framework="pt"):
            pass
    except (OSError, SafetensorError):
        return False
    random = list(checkpoint.glob(_RANDOM))
    states = [*(checkpoint / name for name in _STATES), *random]
    return bool(random) and all(map(zipfile.is_zipfile, states)) and read_state(checkpoint) is not None
