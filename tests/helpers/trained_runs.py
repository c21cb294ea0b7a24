"""Trained runs, their tables and backbones, which many tests read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import small_runs
import torch
from made_once import MadeOnce
from safetensors.torch import load_file, save_file

from attribune.apps.cli import main
from attribune.core.checksums import CHECKSUMS

ROWS = small_runs.reviews(90, seed=3)
"""What runs are trained on where a test has no rows of its own."""


class TrainedRuns(MadeOnce):
    """Runs of short trainings, their tables and their backbones."""

    def __call__(
        self,
        method: str = "injector",
        *more: str,
        rows: Sequence[Mapping[str, Any]] = ROWS,
        backbone: str = "bert",
    ) -> Path:
        """The finished run of a short training with a method.

        Args:
            more: words that are added to the command.
            backbone: the family of the tiny backbone.
        """
        words = small_runs.train_command(self.table(rows), "", backbone=self.backbone(backbone), method=method)
        return self.trained([*words, *more])

    def trained(self, words: Sequence[str]) -> Path:
        """The finished run of any ``attribune train``; what follows ``--output`` among its words is put in here."""
        words = list(words)
        place = words.index("--output") + 1

        def make(folder: Path) -> None:
            torch.manual_seed(17)  # a run is the same whichever test asks for it first
            assert main([*words[:place], str(folder), *words[place + 1 :]]) == 0

        return self.once("run", [*words[:place], *words[place + 1 :]], make)

    def table(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """A CSV file with rows."""
        rows = [dict(row) for row in rows]
        place = self.once("table", rows, lambda folder: small_runs.write_csv(_made(folder) / "data.csv", rows))
        return place / "data.csv"

    def backbone(self, family: str = "bert", *, is_generative: bool = False) -> Path:
        """A tiny backbone with a word-level tokenizer."""

        def make(folder: Path) -> None:
            small_runs.save_backbone(folder, model_type=family, is_generative=is_generative)

        return self.once("backbone", [family, is_generative], make)


def randomised(runs: TrainedRuns, run: Path, *, size: float) -> Path:
    """A copy of a run whose method has random weights: a short training moves few."""

    def make(folder: Path) -> None:
        file = runs.copy(run, folder) / "model" / "model.safetensors"
        chance, tensors = torch.Generator().manual_seed(6), load_file(str(file))
        for name, tensor in tensors.items():
            if name.startswith("method."):
                tensor.copy_(size * torch.randn(tensor.shape, generator=chance))
        save_file(tensors, str(file), metadata={"format": "pt"})
        file.with_name(CHECKSUMS).unlink()

    return runs.once("randomised-run", [str(run), size], make)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
