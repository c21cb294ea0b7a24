"""Removal of values from a run: their vectors and names, the predictions of their rows, and checkpoints.

Weights that all values share were also learned from these rows. They do not change: this is no unlearning.

What the files that the package wrote have of a value is known by their fields, without a search. Vocabularies, tables
of vectors, records and stored predictions lose the value. The other fields are not about the attribute, so that a value
such as ``1``, ``text`` or ``true`` stands in them by chance; those that people wrote (texts, their words, paths of
tables) may name the person all the same, and are `texts_of_run`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save

from attribune.core.arguments import checked_arguments
from attribune.core.checksums import CHECKSUMS, check_files
from attribune.core.door import as_call
from attribune.core.files import read_json
from attribune.core.wording import counted, printable
from attribune.data.memory import memories
from attribune.data.tables import read_table
from attribune.errors import AttribuneError, ConfigError, DataError, ModelFolderError
from attribune.models.auto import baseline_in, load_baseline
from attribune.models.baselines import files_of_baselines
from attribune.models.blend import Blend
from attribune.models.folder import CARD, CONFIG, SCHEMA, TENSORS
from attribune.runs.card import has_own_card, shown_tables
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.schema import Schema
from attribune.schema.columns import PATH, canonical, column_batches
from attribune.schema.schema import Revision, check_listed
from attribune.tasks import task_from_dict
from attribune.values.record import ENROLMENTS, Change, Record, enrolments, replace_with, revise_run
from attribune.values.traces import MarkedExport, Wanted, drop_rows, marked_exports, marked_rows, search_files

_TOKENIZER = "tokenizer.json"
_WITHOUT_CHECKSUMS = (  # what a model's folder of a release without checksums has, beside a baseline's files
    *(CONFIG, SCHEMA, TENSORS, _TOKENIZER, "added_tokens.json", "chat_template.jinja", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "special_tokens_map.json", "tokenizer.model", "tokenizer_config.json"),
    *("vocab.json", "vocab.txt", *files_of_baselines()),
)
_OF_TRAINING = ("tensorboard/**/events.out.tfevents.*", "trials/*/*.json", "trials/word_vectors.json", ".lock.holder")


def files_of_run(folder: RunFolder, recipe: Recipe) -> set[Path]:
    """Return the files of a run that are known, there or not; those of the runs beside it are not among them.

    Known are the names that the package gives its files. Of the model's files these are the ones with a checksum; a log
    is known if it has numbers alone, and a card if no one has changed it.
    """
    files = {folder.plan_file, folder.summary_file, folder.rows, folder.outcome, folder.bake_off}
    files |= {file for part in ("validation", "test") for file in (folder.predictions(part), folder.logits(part))}
    files |= {path for pattern in _OF_TRAINING for path in folder.path.glob(pattern)}
    files |= {folder.path / CHECKSUMS, *(folder.model / name for name in (CHECKSUMS, ENROLMENTS))}
    files |= {folder.model / CARD} if has_own_card(folder, recipe) else set()
    checksums = folder.model / CHECKSUMS
    names = read_json(checksums, what="file of checksums")["files"] if checksums.is_file() else _WITHOUT_CHECKSUMS
    try:
        folder.read_log()
    except ModelFolderError:
        return files | {folder.model / name for name in names}
    return files | {folder.log} | {folder.model / name for name in names}


def texts_of_run(folder: RunFolder, recipe: Recipe) -> Iterator[tuple[Path, str, str]]:
    """Yield the texts in the files of a run that people wrote: the file, what the texts are, and a line for each."""
    model = folder.model
    yield folder.plan_file, "paths", "\n".join(_paths(recipe))
    if (model / CONFIG).is_file():
        yield model / CONFIG, "path of the backbone", recipe.backbone.name
    if (model / CARD).is_file():
        names = [*shown_tables(recipe).values(), Path(recipe.backbone.name).name]
        yield model / CARD, "names of tables and of the backbone", "\n".join(names)
    if folder.is_finished:
        yield folder.summary_file, "notes", "\n".join(folder.read_results().notes)
    if (kind := baseline_in(model)) is not None:
        settings = read_json(model / kind.file, what="baseline")
        words = [word for field in kind.words for word in settings.get(field) or ()]
        yield model / kind.file, "words of the training texts", "\n".join(map(str, words))
    if (blend := model / Blend.files[0]).is_file():
        words = read_json(blend, what="simple part of the model")["words"]
        yield blend, "words of the training texts", "\n".join(words)
    yield from _words_of_tokenizer(model / _TOKENIZER, recipe)
    for kind_of_rows in memories():
        for path, rows in kind_of_rows.written_texts(model):
            yield path, "texts of other rows", rows
    for part in ("validation", "test"):
        if recipe.task_input.writes and folder.predictions(part).is_file():
            columns = pq.read_table(folder.predictions(part)).to_pydict().values()
            texts = [text for column in columns for text in column if isinstance(text, str)]
            yield folder.predictions(part), "texts of other rows", "\n".join(texts)


def texts_of_export(export: MarkedExport, recipe: Recipe) -> Iterator[tuple[Path, str, str]]:
    """Yield the texts in the files of an export from a run, as `texts_of_run` does."""
    for file in export.files:
        if file.name == _TOKENIZER:
            yield from _words_of_tokenizer(file, recipe)
        elif file.name in (CONFIG, CARD, "adapter_config.json"):
            yield file, "path of the backbone", recipe.backbone.name


def _words_of_tokenizer(path: Path, recipe: Recipe) -> Iterator[tuple[Path, str, str]]:
    if not recipe.backbone.is_pretrained and path.is_file():
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        yield path, "words of the training texts", "\n".join(tokenizer["model"]["vocab"])


def _paths(recipe: Recipe) -> Iterator[str]:
    data, backbone = recipe.data, recipe.backbone
    tables = [data.train, data.validation, data.test, *(one.table for one in data.values.values())]
    others = [backbone.name, backbone.word_vectors, recipe.transfer and recipe.transfer.run]
    return (path for path in (*tables, *others) if path)


Replace: TypeAlias = Callable[[RunFolder, Change, Record], None]


@dataclass(kw_only=True, repr=False)
class Forgotten:
    """The result of `forget`, printed in sentences.

    Attributes:
        models: folders of the models that had the values.
        predictions: number of stored predictions that were removed.
        checkpoints: folders of checkpoints that were removed.
        notes: what could not be done.
        places: files that still contain a value, exports for it, and files with its name.
        undecided: files of which it cannot be told, or that were not searched, with the reason and the cure.
        mentions: files of the run and its exports with texts, words or paths that name a value; notes say more.
    """

    models: list[str] = field(default_factory=list)
    predictions: int = 0
    checkpoints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """What is left to do, in sentences with the cure; nothing where the values are gone."""
        if not self.places:
            return list(self.undecided)
        places = ", ".join(self.places)
        found = f"the value is still found in {places}: look whether it means the same there, and remove it"
        return [found, *self.undecided]

    def done(self) -> list[str]:
        """Return what was removed, and the notes, in sentences."""
        return [
            *(f"{folder}: the name, and what was learned of it, removed from the model" for folder in self.models),
            *([f"{counted(self.predictions, 'row')} of stored predictions removed"] if self.predictions else []),
            *(f"{folder}: removed" for folder in self.checkpoints),
            *self.notes,
        ]

    def __repr__(self) -> str:
        return "\n".join(map(printable, [*self.done(), *self.faults]))


@checked_arguments
def forget(
    run: str | Path,
    attribute: str,
    value: Any,
    *,
    backbone: str | Path | None = None,
    replace: Replace | None = None,
) -> Forgotten:
    """Remove values of an attribute from a run and from those trained beside it; the same as ``attribune forget``.

        forget("runs/stars", "user", ["u17", "u18"]).faults  # what is left to do

    Each model is replaced in one step. What a network predicts for other values does not change; simple models beside
    it forget the words of the value's rows alone, too. After an interruption the same call completes the removal.

    Args:
        run: folder of a finished run.
        value: one value, or a list of several, as the table has them.
        backbone: new location of the backbone's weights, if they were moved.
        replace: replaces the model of a folder, given the change of its schema and the record of added values; by
            default it is loaded.

    Raises:
        ConfigError: for an attribute without a vocabulary, or values that are nowhere in the run.
        ModelFolderError: for a run that is not finished, or a model that cannot be read or written.
    """
    texts = [_text(one) for one in ([value] if isinstance(value, str) or not isinstance(value, Iterable) else value)]
    if not texts:
        raise ConfigError("no value is given to forget: name at least one")
    folder = RunFolder.of(run)
    folder.read_recipe()

    with folder.held():
        return _forget(folder, attribute, texts, replace or partial(revise_run, backbone=backbone))


def _forget(run: RunFolder, attribute: str, texts: Sequence[str], replace: Replace) -> Forgotten:
    done = Forgotten()
    folders = [run, *run.comparisons]
    for folder in folders:  # before anything is changed
        folder.check()
        folder.require_finished()
        folder.recover_model()
        check_files(folder.model)
    texts = _with_levels_below(folders, attribute, texts)
    for folder in folders:
        recipe = folder.read_recipe()
        _forget_in_model(folder, attribute, texts, done, replace)
        done.predictions += _forget_rows(folder, recipe, attribute, texts, done)
        if folder.checkpoints.exists():
            shutil.rmtree(folder.checkpoints)
            done.checkpoints.append(str(folder.checkpoints))
    places = _search(run, folders, attribute, texts, done)
    if not (done.models or done.predictions or places):
        # Raises the error for unknown values.
        Revision.removing(Schema([folders[0].read_schema()[attribute]]), {attribute: tuple(texts)})
    for page in (folder.page for folder in folders if folder.page.exists()):  # pages show values and rows
        if done.models or done.predictions or page in places:
            page.unlink()
            places.discard(page)
            done.notes.append(f"{page} was removed: {as_call('report')} writes it anew")
    done.places = sorted(map(str, places))
    return done


def _with_levels_below(folders: Sequence[RunFolder], attribute: str, texts: Sequence[str]) -> list[str]:
    """Return the values, and those that are below them in a hierarchy of any folder."""
    found = dict.fromkeys(texts)
    for schema in (folder.read_schema() for folder in folders):
        if attribute in schema.names:
            found |= dict.fromkeys(schema[attribute].with_levels_below(texts))
    return list(found)


def _names_in_tables(folder: RunFolder, attribute: str, texts: Sequence[str]) -> list[str]:
    """Return the values as tables may name them: of a hierarchy also the lowest level, which has a column to itself."""
    schema = folder.read_schema()
    if attribute not in schema.nested:
        return list(texts)
    return list(dict.fromkeys([*texts, *(text.rpartition(PATH)[2] for text in texts)]))


def _search(
    run: RunFolder, folders: Sequence[RunFolder], attribute: str, texts: Sequence[str], done: Forgotten
) -> set[Path]:
    """Return what still has a value: exports by their marks, and foreign files, which are searched."""
    wanted, exports = Wanted(_names_in_tables(run, attribute, texts)), list(marked_exports(run.path))
    recipes = [folder.read_recipe() for folder in folders]
    written = [texts_of_run(folder, recipe) for folder, recipe in zip(folders, recipes, strict=True)]
    written += [texts_of_export(export, recipes[0]) for export in exports if not export.has(attribute, texts)]
    for path, what, content in chain(*written):
        if wanted.is_in(content, any_case=True):
            done.mentions.append(str(path))
            done.notes.append(f"{path} names it in its {what}, which stay: only a training without them lacks them")
    known = {file for pair in zip(folders, recipes, strict=True) for file in files_of_run(*pair)}
    known |= {file for export in exports for file in export.files}
    searched = search_files(wanted, run.path, known=known)
    done.undecided += [
        f"{path} is not searched, since {reason}: look whether it has the value, and remove it or move it elsewhere"
        for path, reason in sorted(searched.unsearched.items())
    ]
    having = [export.path for export in exports if export.has(attribute, texts)]
    done.notes += [f"{path} is an export with its vectors: remove it, and export again" for path in having]
    return {*searched.places, *having}


def _text(value: str) -> str:
    text = canonical(value)
    if text is None:
        raise ConfigError(f"{value!r} means that there is no value: name a value of the vocabulary")
    return text


def _forget_in_model(
    folder: RunFolder, attribute: str, values: Sequence[str], done: Forgotten, replace: Replace
) -> None:
    schema = folder.read_schema()
    if attribute not in schema.names and folder.path.parent.name == "compare":
        return  # a method without attributes
    check_listed(schema[attribute])
    removed = {attribute: tuple(value for value in values if value in schema[attribute].values)}
    if not removed[attribute]:
        return
    if (baseline := load_baseline(folder.model)) is not None:
        replace_with(folder, baseline.revised(Revision.removing(schema, removed)), [])
    else:
        added = [
            [value for value in step if value.attribute != attribute or value.value not in values]
            for step in enrolments(folder.path)
        ]
        replace(folder, lambda schema: Revision.removing(schema, removed), [step for step in added if step])
    done.models.append(str(folder.path))
    if schema[attribute].column in folder.read_recipe().written:
        done.notes.append(
            f"{folder.path} reads values as they are written: a text with the name is read as one with any unknown name"
        )


def _forget_rows(folder: RunFolder, recipe: Recipe, attribute: str, values: Sequence[str], done: Forgotten) -> int:
    """Remove the predictions of the rows that have a value; returns their number."""
    removed = 0
    task = task_from_dict(folder.read_results().task)
    for part in ("validation", "test"):
        path, logits = folder.predictions(part), folder.logits(part)
        if not path.is_file():
            continue
        arrays, table = task.codec.unpacked(load_file(str(logits))), pq.read_table(path)
        positions = marked_rows(arrays, attribute, values)
        if positions is None:
            source = getattr(recipe.data, part) or recipe.data.train
            try:
                rows = _rows_with(source, table, recipe, attribute, values)
                positions = np.flatnonzero(np.isin(arrays["rows"], rows))
            except (AttribuneError, OSError) as error:
                done.undecided.append(
                    f"{path} and {logits.name} have the scores of all rows, and which are the value's "
                    f"cannot be told ({error}): remove both files, or train again"
                )
                continue
        if not len(positions) and np.array_equal(table["row"].to_numpy(), arrays["rows"]):
            continue
        arrays = drop_rows(arrays, positions)
        # By number: an interruption may have left one of the two files without the rows already.
        others = np.isin(table["row"].to_numpy(), arrays["rows"])
        removed += int((~others).sum())
        sink = pa.BufferOutputStream()
        pq.write_table(table.filter(pa.array(others)), sink)
        folder.write_predictions(part, table=sink.getvalue().to_pybytes(), logits=save(task.codec.packed(arrays)))
    return removed


def _rows_with(
    source: str, predictions: pa.Table, recipe: Recipe, attribute: str, values: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows of a table with one of the values, for runs of releases that stored no marks.

    Raises:
        DataError: for a table whose labels are not those of the predictions: its rows have other numbers now.
    """
    table, rows = read_table(source, **recipe.data.reading), predictions["row"].to_numpy()
    for column in recipe.label_columns:
        labels = predictions[f"true_{column}"].to_pylist()
        if len(rows) and (rows.max() >= len(table) or list(table.select(rows)[column]) != labels):
            raise DataError(f"{source} was changed since: its labels are not those of the predictions")
    spec = next(kind for kind in recipe.data.kinds() if kind.name == attribute)
    missing = frozenset(text for text in map(canonical, recipe.data.missing) if text is not None)
    numbers = [np.zeros(0, dtype=np.int64)]
    for first, columns in column_batches(table, [attribute]):
        cells = spec.read(columns[attribute], missing=missing, first_row=first)
        wanted = np.array([text in values for text in cells.texts], dtype=bool)
        numbers.append(cells.rows[wanted[cells.codes]] + first - 1)
    return np.unique(np.concatenate(numbers))
