"""Trainings that are interrupted after a checkpoint and go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attribune.apps.cli import main
from attribune.models.auto import load_model
from attribune.training.trainer import AttributeTrainer


def assert_resumes_exactly(command: Callable[[Path], list[str]], folder: Path) -> None:
    """A training that is interrupted after its first checkpoint ends with the weights of one that is not.

    Args:
        command: the words of the training into a folder.
        folder: where both runs are written.
    """
    saved, whole, cut = AttributeTrainer._save_checkpoint, folder / "whole", folder / "cut"

    def interrupted(self: Any, *given: Any, **more: Any) -> None:
        saved(self, *given, **more)
        raise KeyboardInterrupt

    assert main(command(whole)) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttributeTrainer, "_save_checkpoint", interrupted)
        assert main(command(cut)) == 130
    assert list(cut.glob("checkpoints/*/trainer_state.json"))
    assert main([*command(cut), "--resume"]) == 0
    one, other = (load_model(path).state_dict() for path in (whole, cut))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
