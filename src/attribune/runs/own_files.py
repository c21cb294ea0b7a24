"""The files of a run that the package wrote: what they have of a value is known by their fields, without a search.

`forget` takes the value out of vocabularies, tables of vectors, records and stored predictions. The other fields are
not about the attribute, so that a value such as ``1``, ``text`` or ``true`` stands in them by chance; those that people
wrote (texts, their words, paths of tables) may name the person all the same, and are `texts_of_run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from attribune.core.checksums import CHECKSUMS
from attribune.core.files import read_json
from attribune.errors import ModelFolderError
from attribune.models.folder import CARD, CONFIG, SCHEMA, TENSORS
from attribune.runs.card import has_own_card, shown_tables
from attribune.runs.enrol import ENROLMENTS
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.value_marks import MarkedExport

__all__ = ["files_of_run", "texts_of_export", "texts_of_run"]

_TOKENIZER = "tokenizer.json"
_WITHOUT_CHECKSUMS = (  # what a model's folder of a release without checksums has, beside a baseline's files
    *(CONFIG, SCHEMA, TENSORS, _TOKENIZER, "added_tokens.json", "chat_template.jinja", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "special_tokens_map.json", "tokenizer.model", "tokenizer_config.json"),
    *("vocab.json", "vocab.txt", "linear.json", "linear.safetensors", "automl.json", "automl.safetensors"),
)
_WORDS = {"linear.json": ("words",), "automl.json": ("words", "features")}  # the words of texts that a baseline counts
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
    for name, fields in _WORDS.items():
        if (model / name).is_file():
            settings = read_json(model / name, what="baseline")
            words = [word for field in fields for word in settings.get(field) or ()]
            yield model / name, "words of the training texts", "\n".join(map(str, words))
    yield from _words_of_tokenizer(model / _TOKENIZER, recipe)
    if (history := model / "history.parquet").is_file():
        yield history, "texts of other rows", "\n".join(map(str, pq.read_table(history, columns=["text"])["text"]))
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
