"""`PredictorGroup`: several runs over one copy of each backbone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from attribune.backbones.sharing import SharedBackbones
from attribune.core.device import named_device
from attribune.core.process import keep_freed_memory
from attribune.data.batching import batches_by_length
from attribune.data.readers.base import EncodedRows
from attribune.errors import ConfigError
from attribune.models.auto import load_saved, named_runs
from attribune.models.predictor import Predictor, Quantisation, quantised
from attribune.models.row_inputs import RowInput
from attribune.models.shared_pass import SharedPass, shared_passes


class PredictorGroup(Mapping[str, Predictor]):
    """Predictors by name; those over one backbone score their rows in the same batches.

    Where modules of the backbone have the pretrained weights in all models, they run once for the rows of a batch; what
    a model has learned acts on its own rows. Models that cannot share a batch (`refusals`) score their rows alone.

    Args:
        shared: the backbones over which the models were loaded.
    """

    def __init__(self, predictors: Mapping[str, Predictor], *, shared: SharedBackbones) -> None:
        self._predictors = dict(predictors)
        refusals = {name: one.model.batch_refusal() for name, one in predictors.items()}
        self.refusals = {name: reason for name, reason in refusals.items() if reason is not None}
        alike: dict[tuple[str, bool], dict[str, Any]] = {}
        for name, one in predictors.items():
            if name not in self.refusals:
                kind = (one.precision, one.model.quantised is not None)
                alike.setdefault(kind, {})[name] = one.model
        self._passes: list[tuple[SharedPass, list[str]]] = []
        for (_, int8), models in sorted(alike.items(), key=lambda item: item[0]):
            self._passes += shared_passes(models, shared, int8=int8)

    @classmethod
    def from_pretrained(
        cls,
        runs: Mapping[str, str | Path] | Sequence[str | Path],
        *,
        backbone: str | Path | None = None,
        batch_size: int = 64,
        precision: str | None = None,
        device: str | None = None,
        verify: bool = True,
        quantise: Quantisation | None = None,
    ) -> Self:
        """Load several runs over one copy of each backbone, which scores rows of different runs in the same batches.

        Args:
            runs: folders of runs or of their models, or names on the hub, by the name of each; without names, that of
                the folder is taken.

        Other arguments and errors are those of `Predictor.from_pretrained`.

        Raises:
            ConfigError: for two runs of one name, or none.
        """
        keep_freed_memory()
        named = named_runs(runs)
        shared = SharedBackbones(str(named_device(device)))
        predictors = {
            name: Predictor(
                quantised(load_saved(run, backbone=backbone, shared=shared, verify=verify), quantise, shared=shared),
                batch_size=batch_size,
                precision=precision,
                device=str(shared.device),
            )
            for name, run in named.items()
        }
        return cls(predictors, shared=shared)

    def __getitem__(self, name: str) -> Predictor:
        return self._predictors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._predictors)

    def __len__(self) -> int:
        return len(self._predictors)

    def networks(self) -> list[nn.Module]:
        """Return the modules that have tensors: neural models, and the backbones through which they go together."""
        models = [model for one in self.values() for model in one.model.networks()]
        return [*models, *(together.trunk for together, _ in self._passes)]

    def together_with(self, name: str) -> list[str]:
        """Return the names of the predictors whose rows can be in one batch with those of a predictor, itself too."""
        return next((names for _, names in self._passes if name in names), [name])

    def predict(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return the predictions for rows of some of the predictors, by name, each as `Predictor.predict` does."""
        if unknown := [name for name in rows if name not in self]:
            raise ConfigError(f"there is no run {unknown[0]!r}: choose from {', '.join(self)}")
        given = {name: RowInput.read(table, self[name].row_names, {}) for name, table in rows.items()}
        scores = self.score({name: self[name].encode_rows(one.columns) for name, one in given.items()})
        return {name: given[name].shaped(self[name].task.decode(own).columns()) for name, own in scores.items()}

    def score(self, rows: Mapping[str, EncodedRows]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the logits (n, outputs) of encoded rows of some of the predictors, by name."""
        scores: dict[str, npt.NDArray[np.float32]] = {}
        for together, names in self._passes:
            asked = [name for name in names if name in rows]
            if len(asked) > 1:
                scores |= self._score_together(together, names, {name: rows[name] for name in asked})
        return {name: scores[name] if name in scores else self[name].score(own) for name, own in rows.items()}

    def _score_together(
        self, together: SharedPass, names: Sequence[str], rows: Mapping[str, EncodedRows]
    ) -> dict[str, npt.NDArray[np.float32]]:
        given, rows = rows, {name: own.pieces().rows for name, own in rows.items()}
        scores = {name: np.zeros((len(own), self[name].task.outputs), dtype=np.float32) for name, own in rows.items()}
        lengths = np.concatenate([own.lengths for own in rows.values()])
        starts = np.cumsum([0, *map(len, rows.values())])
        size, first = min(self[name].batch_size for name in rows), self[next(iter(rows))]
        for batch in batches_by_length(lengths, size=size, device=first.device):
            parts = {
                name: np.sort(batch[(start <= batch) & (batch < start + len(own))]) - start
                for (name, own), start in zip(rows.items(), starts, strict=False)
            }
            inputs = {
                number: model.batch(rows[name].take(parts[name]))
                for number, (name, model) in enumerate(zip(names, together.models, strict=True))
                if len(parts.get(name, ()))
            }
            with ExitStack() as stack:
                for name in names:  # in one order, so that two threads never wait for each other
                    stack.enter_context(self[name].held())
                stack.enter_context(torch.inference_mode())
                stack.enter_context(first.autocast())
                logits = together.logits(inputs)
            for name, part in parts.items():
                if len(part):
                    number = names.index(name)
                    scores[name][part] = together.models[number].calibrated(logits[number]).cpu().numpy()
        return {name: self[name].blended(own, given[name]) for name, own in scores.items()}
