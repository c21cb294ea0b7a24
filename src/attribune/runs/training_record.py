"""Records of a run, as ``training.json`` and ``metrics.json`` have them, that of the training first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from attribune.findings import Finding
from attribune.models.sizes import Sizes
from attribune.tasks.base import LAST


class SavedRecord(BaseModel):
    """A part of the results of a run; fields that another version wrote are preserved."""

    model_config = ConfigDict(frozen=True, extra="allow")


class VerdictPart(SavedRecord):
    """A part of a verdict, whose first finding is its answer."""

    def findings(self) -> Iterator[Finding]:
        """Yield what the part shows."""
        raise NotImplementedError

    def sentences(self) -> list[str]:
        """Return the findings in sentences."""
        return [finding.text for finding in self.findings()]

    @property
    def headline(self) -> str:
        """The answer without figures."""
        return next(self.findings()).headline


class TrainingRecord(SavedRecord):
    """How the training went; linear baselines have `C`, `boosting` `trees`, others the fields about steps.

    Args:
        C: inverse of the regularisation.
        trials: networks that were compared, of which the one that was best has these steps.
        best_trial: its number, from 1.
        network: its settings.
        trees: settings of boosted trees.
        epochs: passes over the training rows.
        best_step: the step whose weights the model has.
        selected_by: the metric by which that step was chosen, ``loss``, or ``last``; None for the main metric, as in
            early files.
        best_value: its value on the validation rows; None for ``last``.
        checks: evaluations on the validation rows; None in early files.
        seconds: time spent in training, in that of all trials, without interruptions.
        finished: when it ended, in coordinated universal time as ISO 8601 has it; None in early files.
        stopped_early: whether the patience ran out.
        temperature: by which logits are divided for calibrated probabilities; None where none was fitted.
        blend: the weights of the network and of simple models beside it; None without them.
        no_blend: why there is none, ``reason`` and ``detail``, where one was asked for.
        padding_share: of the tokens of the training batches, 0 to 1; None in early files.
    """

    C: float | None = None
    trials: int | None = None
    best_trial: int | None = None
    network: dict[str, Any] | None = None
    trees: dict[str, Any] | None = None
    steps: int = 0
    epochs: float = 0.0
    best_step: int = 0
    selected_by: str | None = None
    best_value: float | None = None
    checks: int | None = None
    seconds: float
    finished: str | None = None
    stopped_early: bool = False
    temperature: float | None = None
    blend: dict[str, float] | None = None
    no_blend: dict[str, str] | None = None
    padding_share: float | None = None
    parameters: Sizes

    @property
    def keeps_last(self) -> bool:
        """Whether the model has the weights of the last step, whatever the checks said."""
        return self.selected_by == LAST
