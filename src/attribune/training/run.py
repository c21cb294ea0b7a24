"""A whole run: data, training, baselines, comparisons, results; every step can be interrupted and goes on."""

from __future__ import annotations

import hashlib
import io
import logging
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
from safetensors.numpy import save
from transformers import PreTrainedTokenizerBase

from attribune.backbone import load_tokenizer
from attribune.conditioned import ConditionedModel
from attribune.data.writing import prediction_array
from attribune.errors import AttribuneError, ConfigError
from attribune.evaluation.results import Scored, compare, results_of
from attribune.generation.model import AttributeGenerator
from attribune.json_file import read_json, write_json
from attribune.loading import load_model
from attribune.methods.linear import LinearModel, choose_c
from attribune.model import AttributeModel
from attribune.prediction import Predictor
from attribune.recipe import Recipe
from attribune.schema.columns import column_batches
from attribune.training.card import run_card
from attribune.training.folder import RunFolder, predictor_of
from attribune.training.preparation import Part, Prepared, encode_part, prepare, shuffled
from attribune.training.processes import from_main, is_main
from attribune.training.progress import Reporter
from attribune.training.trackers import check_trackers
from attribune.training.trainer import fit_model, resolve_precision
from attribune.transfer import AttributeSource

__all__ = ["SHUFFLED", "rows_digest", "train"]

SHUFFLED = "shuffled"
"""Among the methods to compare with: the same method on shuffled attributes."""

_log = logging.getLogger(__name__)

Array = npt.NDArray[Any]
_BASELINE_ROWS = 200_000  # more would take longer than the model and teach a linear one little
_PACKAGES = ("attribune", "torch", "transformers", "datasets", "scikit-learn")


def train(
    recipe: Recipe,
    output: str | Path,
    *,
    others: Sequence[str] = (),
    baselines: bool = True,
    resume: bool = False,
    tables: Mapping[str, Any] | None = None,
    reporter: Reporter | None = None,
    profile: bool = False,
) -> dict[str, Any]:
    """Train, evaluate and save; the same as ``attribune train``.

    Several processes, as `torchrun` starts them, train together with the same losses as one; they all read the data.
    The first one does the rest: it fits baselines, scores, writes the run's folder and tells the reporter.

    Args:
        recipe: what to do.
        output: folder of the run; see `RunFolder` for what it will hold.
        others: methods to train with the same recipe, rows and budget, and to compare with; ``shuffled`` is the same
            method on shuffled attributes.
        baselines: whether to fit the cheap baselines and the majority class beside the model.
        resume: go on with an interrupted run in the folder.
        tables: in place of the recipe's files, ``train``, ``validation`` and ``test`` as anything `read_table` takes.
        reporter: is told what happens.
        profile: look at a few steps, and write a trace and a summary of where their time went to ``profile``.

    Returns:
        What ``metrics.json`` holds.

    Raises:
        AttribuneError: with one message that names the thing, the value seen and the cure.
    """
    reporter = reporter if reporter is not None and is_main() else Reporter()
    _check_others(recipe, others)
    check_trackers(recipe)
    folder = RunFolder(Path(output))
    new = from_main(lambda: not folder.recipe.is_file())
    recipe = from_main(lambda: folder.begin(_resolved(recipe) if new else recipe, resume=resume))
    others = list(dict.fromkeys([*others, *from_main(folder.compared)]))
    results = from_main(lambda: folder.read_results() if folder.is_finished else None)
    if results is not None and set(from_main(folder.compared)).issuperset(others):
        reporter.note(f"{folder.path} is finished already; nothing to do")
        return results
    try:
        done = _train(recipe, folder, tables, reporter, others=others, baselines=baselines, profile=profile)
        return from_main(lambda: done)
    except AttribuneError:
        if new and is_main():
            folder.discard()
        raise


def _train(
    recipe: Recipe,
    folder: RunFolder,
    tables: Mapping[str, Any] | None,
    reporter: Reporter,
    *,
    others: Sequence[str],
    baselines: bool,
    profile: bool,
) -> dict[str, Any]:
    if not recipe.is_baseline:
        # A wrong name shows before a long table is read.
        load_tokenizer(recipe.backbone.name, revision=recipe.backbone.revision)
    began = time.perf_counter()
    prepared = prepare(recipe, tables)
    _log.info("rows read, split and counted in %.1f s", time.perf_counter() - began)
    if recipe.data.shuffled:
        prepared = _shuffled(prepared, recipe)
    for note in prepared.notes:
        reporter.note(note)
    from_main(lambda: _check_same_rows(folder, prepared, recipe))
    scored, record = _train_one(recipe, folder, prepared, reporter, profile=profile)
    for name in others:
        reporter.note(f"training {name} for comparison")
        other_recipe = _with_method(recipe, name)
        other_folder = RunFolder(folder.path / "compare" / name)
        from_main(partial(other_folder.begin, other_recipe, resume=True))
        shuffle = other_recipe.data.shuffled and not recipe.data.shuffled
        rows = _shuffled(prepared, recipe) if shuffle else prepared
        other, other_record = _train_one(other_recipe, other_folder, rows, reporter)
        if is_main():
            _write_results(other_folder, other_recipe, prepared, other, other_record)
            scored.append(other[0])
    if not is_main():
        return {}
    if baselines and not recipe.writes:
        scored += _baselines(recipe, prepared, reporter, leave_out={recipe.method["name"], *others})
    return _write_results(folder, recipe, prepared, scored, record)


def _resolved(recipe: Recipe) -> Recipe:
    precision = resolve_precision(recipe.training.precision)
    training = recipe.training.model_copy(update={"precision": precision})
    return recipe.model_copy(update={"training": training})


def _shuffled(prepared: Prepared, recipe: Recipe) -> Prepared:
    return shuffled(prepared, seed=recipe.training.seed)


def _with_method(recipe: Recipe, name: str) -> Recipe:
    if name == SHUFFLED:
        settings = recipe.model_dump()
        settings["data"]["shuffled"] = True
        return Recipe.from_dict(settings, source="the recipe with shuffled attributes")
    settings = {**recipe.model_dump(), "method": {"name": name}, "transfer": None}
    if recipe.data.shuffled and not _reads(recipe, name):
        settings["data"] = {**settings["data"], "shuffled": False}
    return Recipe.from_dict(settings, source=f"the recipe with method {name}")


def _reads(recipe: Recipe, name: str) -> bool:
    plain = {**recipe.model_dump(), "method": {"name": name}, "transfer": None}
    plain["data"] = {**plain["data"], "shuffled": False}
    return Recipe.from_dict(plain, source=f"the recipe with method {name}").reads_attributes


def _check_others(recipe: Recipe, others: Sequence[str]) -> None:
    """Refuse a wrong method before anything is trained."""
    for name in others:
        _with_method(recipe, name)
        if name == recipe.method["name"] or (name == SHUFFLED and recipe.data.shuffled):
            raise ConfigError(f"--compare {name}: this is the method that is trained anyway; name another one")
    if len(set(others)) < len(others):
        raise ConfigError(f"--compare {' '.join(others)}: name every method once")


def rows_digest(prepared: Prepared, recipe: Recipe) -> str:
    """A checksum of the texts, labels and attributes of all parts."""
    digest = hashlib.blake2b(digest_size=16)
    columns = list(dict.fromkeys([*recipe.data.text_input().names, *recipe.data.label, *prepared.schema.names]))
    for name, part in prepared.parts.items():
        digest.update(name.encode() + part.rows.tobytes())
        for _, batch in column_batches(part.table, columns):
            digest.update(repr([array.to_pylist() for array in batch.values()]).encode())
    return digest.hexdigest()


def _check_same_rows(folder: RunFolder, prepared: Prepared, recipe: Recipe) -> None:
    """Refuse to go on with other rows than those with which the run was begun."""
    mark = {"digest": rows_digest(prepared, recipe)}
    if not folder.rows.is_file():
        write_json(folder.rows, mark, what="mark of the rows")
    elif read_json(folder.rows, what="mark of the rows") != mark:
        raise ConfigError(
            f"the data are not those with which {folder.path} was begun (texts, labels or attributes differ): "
            "restore the files, or choose another output folder"
        )


def _train_one(
    recipe: Recipe, folder: RunFolder, prepared: Prepared, reporter: Reporter, *, profile: bool = False
) -> tuple[list[Scored], dict[str, Any]]:
    """Train one method, or load it where that is done, and score it with and without its attributes.

    Baselines are fitted, and scores made, in the main process alone.
    """
    if not recipe.is_baseline and not from_main(folder.outcome.is_file):
        _fit_neural(recipe, folder, prepared, reporter, profile=profile)
    if not is_main():
        return [], {}
    predictor, record = (_baseline_run if recipe.is_baseline else _neural_run)(recipe, folder, prepared)
    name = recipe.method["name"] + (", attributes shuffled" if recipe.data.shuffled else "")
    scored = [_score(name, predictor, prepared, recipe, folder=folder)]
    if len(predictor.schema) and recipe.reads_attributes:
        scored.append(_score(f"{name}, attributes hidden", predictor, prepared, recipe, hide_attributes=True))
    return scored, record


def _fit_neural(recipe: Recipe, folder: RunFolder, prepared: Prepared, reporter: Reporter, *, profile: bool) -> None:
    """Train, and save the model."""
    transformers.set_seed(recipe.training.seed)
    tokenizer = load_tokenizer(recipe.backbone.name, revision=recipe.backbone.revision)
    model = _build(recipe, prepared, tokenizer)
    if recipe.transfer is not None:
        source, taken = AttributeSource.load(recipe.transfer.run), recipe.transfer
        source.give_to(model, frozen=taken.frozen, everything=taken.everything)
    said = len(prepared.notes)
    encoded = {name: encode_part(name, prepared, recipe, model) for name in ("train", "validation")}
    for note in prepared.notes[said:]:
        reporter.note(note)
    outcome = fit_model(
        model,
        train=encoded["train"],
        validation=encoded["validation"],
        recipe=recipe,
        folder=folder,
        reporter=reporter,
        resume=True,
        profile=profile,
    )
    if is_main():
        model.save_pretrained(folder.model)
        folder.write_outcome({**outcome.to_dict(), "parameters": asdict(model.sizes())})


def _build(recipe: Recipe, prepared: Prepared, tokenizer: PreTrainedTokenizerBase) -> ConditionedModel:
    """The untrained model."""
    settings: dict[str, Any] = {
        "method": recipe.method_config(),
        "tuning": recipe.tuning,
        "attention_dropout": recipe.backbone.attention_dropout,
        "revision": recipe.backbone.revision,
        "tokenizer": tokenizer,
        "text_input": recipe.data.text_input(),
        "task": prepared.task,
    }
    if recipe.writes:
        return AttributeGenerator.build(recipe.backbone.name, prepared.schema, **settings)
    settings |= {"pooling": recipe.backbone.pooling, "dropout": recipe.backbone.dropout}
    return AttributeModel.build(recipe.backbone.name, prepared.schema, **settings)


def _neural_run(recipe: Recipe, folder: RunFolder, prepared: Prepared) -> tuple[Predictor, dict[str, Any]]:
    model = load_model(folder.model)
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
    return predictor_of(recipe, model), read_json(folder.outcome, what="training record")


def _baseline_run(recipe: Recipe, folder: RunFolder, prepared: Prepared) -> tuple[Predictor, dict[str, Any]]:
    if folder.outcome.is_file():
        linear = LinearModel.load(folder.model)
    else:
        started = time.perf_counter()
        linear = _fit_linear(recipe, prepared, with_text=recipe.method["name"] == "linear")
        linear.save(folder.model)
        folder.write_outcome({"C": linear.C, "seconds": time.perf_counter() - started})
    size = int(linear.weight.size + linear.bias.size)
    counted = {"total": size, "trained": size, "stored": size, "stored_bytes": 4 * size, "outputs": linear.task.outputs}
    counted |= {"encoder": 0, "injected": 0}
    record = {**read_json(folder.outcome, what="training record"), "parameters": counted}
    return predictor_of(recipe, linear), record


def _fit_linear(recipe: Recipe, prepared: Prepared, *, with_text: bool) -> LinearModel:
    """Fit a baseline on at most `_BASELINE_ROWS` training rows, its regularisation chosen on the validation rows."""
    texts, ids, labels = {}, {}, {}
    for name in ("train", "validation"):
        table, labels[name] = prepared.parts[name].table, prepared.parts[name].labels
        if len(table) > _BASELINE_ROWS:
            chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:_BASELINE_ROWS])
            table, labels[name] = table.select(chosen), labels[name][chosen]
        texts[name] = recipe.data.text_input().read(table) if with_text else None
        ids[name] = prepared.schema.encode(table)[0] if len(prepared.schema) else np.zeros((len(table), 0), np.int64)
    model, _ = choose_c(
        texts["train"],
        ids["train"],
        schema=prepared.schema,
        labels=labels["train"],
        task=prepared.task,
        validation_texts=texts["validation"],
        validation_ids=ids["validation"],
        validation_labels=labels["validation"],
    )
    return model


def _score(
    name: str,
    predictor: Predictor,
    prepared: Prepared,
    recipe: Recipe,
    *,
    folder: RunFolder | None = None,
    hide_attributes: bool = False,
) -> Scored:
    """Metrics on validation and test rows; with a folder, the predictions are written there."""
    metrics = {}
    began = time.perf_counter()
    for part_name, part in prepared.parts.items():
        if part_name == "train":
            continue
        logits, _ = predictor.logits(part.table, hide_attributes=hide_attributes)
        metrics[part_name] = prepared.task.metrics(logits, part.labels)
        if folder is not None:
            _write_predictions(folder, part_name, part, prepared, logits, label_columns=recipe.label_columns)
    _log.info("%s: validation and test rows scored in %.1f s", name, time.perf_counter() - began)
    return Scored(name=name, metrics=metrics)


def _write_predictions(
    folder: RunFolder, name: str, part: Part, prepared: Prepared, logits: Array, *, label_columns: Sequence[str]
) -> None:
    """Rows, labels, predictions and probabilities for people, and the logits for later comparisons."""
    decoded = prepared.task.decode(logits).columns()
    decoded = {key: prediction_array(value) for key, value in decoded.items()}
    true = {f"true_{name}": list(part.table[name]) for name in label_columns}
    table = pa.table({"row": part.rows, **true, **decoded})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    arrays = {"rows": part.rows, "labels": part.labels, "logits": logits}
    folder.write_predictions(
        name, table=sink.getvalue(), logits=save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
    )


def _baselines(recipe: Recipe, prepared: Prepared, reporter: Reporter, *, leave_out: set[str]) -> list[Scored]:
    """The cheap baselines and the majority class."""
    scored = []
    for method, with_text in (("linear", True), ("attributes-only", False)):
        if method in leave_out or not (with_text or len(prepared.schema)):
            continue
        rows = len(prepared.parts["train"].rows)
        some = f" on {_BASELINE_ROWS:,} of {rows:,} rows" if rows > _BASELINE_ROWS else ""
        reporter.note(f"fitting the baseline {method}{some}")
        linear = _fit_linear(recipe, prepared, with_text=with_text)
        scored.append(_score(method, predictor_of(recipe, linear), prepared, recipe))
    train_labels = prepared.parts["train"].labels
    majority = {
        name: prepared.task.majority(train_labels, part.labels)
        for name, part in prepared.parts.items()
        if name != "train"
    }
    return [*scored, Scored(name="majority", metrics=majority)]


def _write_results(
    folder: RunFolder, recipe: Recipe, prepared: Prepared, scored: Sequence[Scored], record: dict[str, Any]
) -> dict[str, Any]:
    """Write the card, and metrics.json, the sign of a finished run."""
    decisive = "test" if "test" in prepared.parts else "validation"
    results = {
        "method": recipe.method["name"],
        "task": prepared.task.to_dict(),
        "main_metric": prepared.task.main_metric,
        "rows": {name: len(part.rows) for name, part in prepared.parts.items()},
        "results": results_of(scored),
        "comparisons": compare(scored, prepared.task, part=decisive),
        "training": record,
        "notes": prepared.notes,
        "environment": {
            "versions": {name: metadata.version(name) for name in _PACKAGES},
            "python": platform.python_version(),
            "machine": platform.machine(),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "threads": torch.get_num_threads(),
            "precision": recipe.training.precision,
        },
    }
    folder.write_card(run_card(recipe, prepared.schema, results))
    write_json(folder.metrics, results, what="results", indent=1)
    return results
