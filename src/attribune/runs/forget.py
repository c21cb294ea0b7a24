"""A value is taken out of a run: its vector and its name, its rows' predictions, and what training left behind.

Weights that all values share were learned from its rows too. They stay as they are: this is no unlearning.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save

from attribune.data.tables import read_table
from attribune.errors import AttribuneError, ConfigError, ModelFolderError
from attribune.models.linear import LinearModel
from attribune.runs.enrol import enrolments, replace_with
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.value_search import files_with_value
from attribune.schema import Schema
from attribune.schema.attributes import FittedAttribute, read_cells
from attribune.schema.columns import canonical, column_batches
from attribune.schema.revision import Revision, check_listed

__all__ = ["Forgotten", "forget"]


@dataclass(kw_only=True)
class Forgotten:
    """What `forget` did.

    Attributes:
        models: folders of the models that had the values.
        predictions: rows of stored predictions that were theirs.
        checkpoints: folders of checkpoints that were removed.
        notes: what could not be done.
        places: files in which a value is still found.
    """

    models: list[str] = field(default_factory=list)
    predictions: int = 0
    checkpoints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


def forget(run: str | Path, attribute: str, values: Sequence[str], *, backbone: str | None = None) -> Forgotten:
    """Take values of an attribute out of a run, and out of those that were trained beside it for comparison.

    Each model is replaced in one step. Of the others' predictions none changes. After an interruption the same call
    does what is left.

    Args:
        run: folder of a finished run.
        backbone: where the backbone's weights are, if no longer where they were.

    Raises:
        ConfigError: for an attribute without a list of values, or values that are nowhere in the run.
        ModelFolderError: for a run that is not finished, or a model that cannot be read or written.
    """
    texts = [_text(value) for value in values]
    if not texts:
        raise ConfigError("no value is given to forget: name at least one")
    done = Forgotten()
    folders = [RunFolder(Path(run)), *map(RunFolder, sorted(Path(run).glob("compare/*/")))]
    for folder in folders:
        recipe = folder.read_recipe()
        folder.recover_model()
        if not folder.outcome.is_file():
            raise ModelFolderError(
                f"{folder.path} is an interrupted run, whose checkpoints have every value: finish it with `attribune "
                "train --resume` first, or remove it"
            )
        _forget_in_model(folder, recipe, attribute, texts, done, backbone=backbone)
        done.predictions += _forget_rows(folder, recipe, attribute, texts, done.notes)
        if folder.checkpoints.exists():
            shutil.rmtree(folder.checkpoints)
            done.checkpoints.append(str(folder.checkpoints))
    places = {place for text in texts for place in files_with_value(text, Path(run))}
    if not (done.models or done.predictions or places):
        schema = folders[0].read_schema()
        _check_there(schema[attribute], texts)
    for page in (folder.page for folder in folders if folder.page.exists()):  # of values, and of rows now gone
        if done.models or done.predictions or page in places:
            page.unlink()
            places.discard(page)
            done.notes.append(f"{page} was removed: `attribune report` writes it anew")
    done.places = sorted(map(str, places))
    return done


def _text(value: str) -> str:
    text = canonical(value)
    if text is None:
        raise ConfigError(f"{value!r} stands for no value: name one of the vocabulary")
    return text


def _check_there(attribute: FittedAttribute, values: Sequence[str]) -> None:
    Revision.removing(Schema([attribute]), {attribute.name: tuple(values)})


def _forget_in_model(
    folder: RunFolder, recipe: Recipe, attribute: str, values: Sequence[str], done: Forgotten, *, backbone: str | None
) -> None:
    schema = folder.read_schema()
    if attribute not in schema.names and folder.path.parent.name == "compare":
        return  # a method without attributes
    check_listed(schema[attribute])
    gone = {attribute: tuple(value for value in values if value in schema[attribute].values)}
    if not gone[attribute]:
        return

    def change(schema: Schema) -> Revision:
        return Revision.removing(schema, gone)

    if recipe.is_baseline:
        folder.replace_model(LinearModel.load(folder.model).revised(change(schema)).save)
    else:
        added = [
            [value for value in step if (value["attribute"], value["value"]) not in {(attribute, v) for v in values}]
            for step in enrolments(folder.path)
        ]
        model = folder.revised_model(change, backbone=backbone)
        replace_with(folder, model, [step for step in added if step])
    done.models.append(str(folder.path))


def _forget_rows(folder: RunFolder, recipe: Recipe, attribute: str, values: Sequence[str], notes: list[str]) -> int:
    """Remove the predictions of the rows that have a value; returns their number."""
    removed = 0
    for part in ("validation", "test"):
        path = folder.predictions(part)
        if not path.is_file():
            continue
        source = getattr(recipe.data, part) or recipe.data.train
        try:
            rows = _rows_with(source, recipe, attribute, values)
        except (AttribuneError, OSError) as error:
            notes.append(
                f"{path} has the predictions of all rows, and which are the value's cannot be told ({error}): restore "
                "the table and run this again, or remove the file"
            )
            continue
        table = pq.read_table(path)
        kept = ~np.isin(table["row"].to_numpy(), rows)
        if kept.all():
            continue
        removed += int((~kept).sum())
        sink = pa.BufferOutputStream()
        pq.write_table(table.filter(pa.array(kept)), sink)
        arrays = load_file(str(folder.logits(part)))
        mine = ~np.isin(arrays["rows"], rows)
        logits = save({name: np.ascontiguousarray(array[mine]) for name, array in arrays.items()})
        folder.write_predictions(part, table=sink.getvalue().to_pybytes(), logits=logits)
    return removed


def _rows_with(source: str, recipe: Recipe, attribute: str, values: Sequence[str]) -> npt.NDArray[np.int64]:
    """Numbers of the rows of a table that have one of the values."""
    table = read_table(source, encoding=recipe.data.encoding)
    spec = next(kind for kind in recipe.data.kinds() if kind.name == attribute)
    missing = frozenset(text for text in map(canonical, recipe.data.missing) if text is not None)
    found = []
    for first, columns in column_batches(table, [attribute]):
        cells = read_cells(spec, columns[attribute], missing=missing, first_row=first)
        wanted = np.isin(np.array(cells.texts, dtype=object), list(values)) if cells.texts else np.zeros(0, dtype=bool)
        found.append(cells.rows[wanted[cells.codes]] + first - 1)
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
