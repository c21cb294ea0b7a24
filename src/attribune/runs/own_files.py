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
from attribune.models.files import CARD, CONFIG, SCHEMA, TENSORS
from attribune.runs.enrol import ENROLMENTS
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe

__all__ = ["files_of_run", "texts_of_run"]

_TOKENIZER = "tokenizer.json"
_WITHOUT_CHECKSUMS = (  # what a model's folder of a release without checksums has, beside a baseline's files
    *(CONFIG, SCHEMA, TENSORS, _TOKENIZER, "added_tokens.json", "chat_template.jinja", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "special_tokens_map.json", "tokenizer.model", "tokenizer_config.json"),
    *("vocab.json", "vocab.txt", "linear.json", "linear.safetensors", "automl.json", "automl.safetensors"),
)
_WORDS = {"linear.json": ("words",), "automl.json": ("words", "features")}  # the words of texts that a baseline counts
_OF_TRAINING = ("tensorboard/**/events.out.tfevents.*", "trials/*/*.json", "trials/word_vectors.json", ".lock*")


def files_of_run(folder: RunFolder) -> set[Path]:
    """Return the files of a run that are known, there or not; those of the runs beside it are not among them.

    Known are the names that the package gives its files. Of the model's files these are the ones with a checksum; a log
    is known if it has numbers alone.
    """
    files = {folder.plan_file, folder.summary_file, folder.rows, folder.outcome, folder.bake_off}
    files |= {file for part in ("validation", "test") for file in (folder.predictions(part), folder.logits(part))}
    files |= {path for pattern in _OF_TRAINING for path in folder.path.glob(pattern)}
    files |= {folder.path / CHECKSUMS, *(folder.model / name for name in (CHECKSUMS, CARD, ENROLMENTS))}
    checksums = folder.model / CHECKSUMS
    names = read_json(checksums, what="file of checksums")["files"] if checksums.is_file() else _WITHOUT_CHECKSUMS
    try:
        folder.read_log()
    except ModelFolderError:
        return files | {folder.model / name for name in names}
    return files | {folder.log} | {folder.model / name for name in names}


def texts_of_run(folder: RunFolder, recipe: Recipe) -> Iterator[tuple[Path, str, str]]:
    """Yield the texts in the files of a run that people wrote: the file, what the texts are, and a line for each."""
    data, model = recipe.data, folder.model
    tables = [data.train, data.validation, data.test, *(one.table for one in data.values.values())]
    yield folder.plan_file, "paths of tables", "\n".join(map(str, filter(None, tables)))
    if folder.is_finished:
        yield folder.summary_file, "notes", "\n".join(folder.read_results().notes)
    for name, fields in _WORDS.items():
        if (model / name).is_file():
            settings = read_json(model / name, what="baseline")
            words = [word for field in fields for word in settings.get(field) or ()]
            yield model / name, "words of the training texts", "\n".join(map(str, words))
    if not recipe.is_baseline and not recipe.backbone.is_pretrained and (model / _TOKENIZER).is_file():
        tokenizer = json.loads((model / _TOKENIZER).read_text(encoding="utf-8"))
        yield model / _TOKENIZER, "words of the training texts", "\n".join(tokenizer["model"]["vocab"])
    if (history := model / "history.parquet").is_file():
        yield history, "texts of other rows", "\n".join(map(str, pq.read_table(history, columns=["text"])["text"]))
    for part in ("validation", "test"):
        if recipe.is_generative and folder.predictions(part).is_file():
            columns = pq.read_table(folder.predictions(part)).to_pydict().values()
            texts = [text for column in columns for text in column if isinstance(text, str)]
            yield folder.predictions(part), "texts of other rows", "\n".join(texts)
