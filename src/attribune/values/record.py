"""The record of the values that were added to a run since its training, and how its model is replaced with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from attribune.core.checksums import CheckedFiles, check_files
from attribune.core.config import read_record
from attribune.core.files import replace_file, write_json
from attribune.models.auto import Scorer, revised_model
from attribune.models.folder import CARD, ModelSnapshot
from attribune.runs.card import has_own_card, run_card
from attribune.runs.folder import RunFolder
from attribune.schema import Schema
from attribune.schema.schema import Revision

ENROLMENTS = "enrolments.json"
"""The file in a model's folder that lists the values added after training."""


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A value that was added.

    Args:
        rows: number of rows from which it was learned.
        loss_before: mean loss of the network on these rows with the value unknown, or known by its description alone;
            None without rows.
        loss_after: the same with the value known; new rows will have a higher one.
    """

    attribute: str
    value: str
    rows: int
    loss_before: float | None
    loss_after: float | None


Change: TypeAlias = Callable[[Schema], Revision]
Record: TypeAlias = Sequence[Sequence[Enrolled]]


def enrolments(run: str | Path) -> list[list[Enrolled]]:
    """Return the values added to a run since its training, a list for each `enrol`.

    Raises:
        ModelFolderError: for a record that is damaged.
    """
    folder = RunFolder.of(run)
    path = folder.model / ENROLMENTS

    def read() -> list[list[Enrolled]]:
        check_files(folder.model, {ENROLMENTS})
        return read_record(path, list[list[Enrolled]], what="record of added values") if path.is_file() else []

    return folder.read_from_model(read)


def replace_with(folder: RunFolder, model: Scorer | ModelSnapshot, record: Record) -> None:
    """Replace a run's model by a revised one, with the run's card and the record of added values.

    A card that someone has changed stays as it is.

    Raises:
        ModelFolderError: when it cannot be written; the earlier model is still complete.
    """

    def save(draft: Path) -> None:
        model.save_pretrained(draft)
        recipe = folder.read_recipe()
        if not has_own_card(folder, recipe):
            replace_file(draft / CARD, (folder.model / CARD).read_bytes())
        elif folder.is_finished:
            replace_file(draft / CARD, run_card(recipe, model.schema, folder.read_results()).encode())
        if record:
            steps = [[asdict(value) for value in step] for step in record]
            write_json(draft / ENROLMENTS, steps, what="record of added values")
            CheckedFiles(draft).add([ENROLMENTS])

    folder.replace_model(save)


def revise_run(folder: RunFolder, change: Change, record: Record, *, backbone: str | Path | None = None) -> None:
    """Load a run's model with a changed schema, and replace the model by it; see `replace_with`."""
    replace_with(folder, revised_model(folder.model, change, backbone=backbone), record)


def schema_of_training(folder: RunFolder) -> Schema:
    """Return a run's schema without the values that were added since its training.

    Raises:
        ModelFolderError: for a model or a record that is damaged.
    """
    added = [value for step in enrolments(folder.path) for value in step]
    return without(folder.read_schema(), added).schema


def without(schema: Schema, added: Sequence[Enrolled]) -> Revision:
    """Remove values that were added after the training."""
    values: dict[str, tuple[str, ...]] = {}
    for one in added:
        values[one.attribute] = (*values.get(one.attribute, ()), one.value)
    return Revision.removing(schema, values, count_rows=False)
