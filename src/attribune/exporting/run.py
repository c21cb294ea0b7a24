"""Export of a run: whole, or for given values of its attributes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from attribune import saving
from attribune.configuration import AttributeConfig
from attribune.errors import ConfigError, ModelFolderError
from attribune.exporting import graph
from attribune.exporting.check import Rows, largest_difference, rows_at_random, rows_of
from attribune.exporting.fixing import fixed_form, plain_model
from attribune.exporting.graph import Scorer
from attribune.exporting.peft_folder import HEAD, load_peft, write_peft
from attribune.json_file import draft_of, replace_file
from attribune.methods import Plain
from attribune.methods.fixed import Fixed
from attribune.model import AttributeModel
from attribune.prediction import Predictor
from attribune.schema import Schema
from attribune.schema.given import given_ids, given_text
from attribune.training.folder import load_run

__all__ = ["ExportFormat", "Exported", "export"]

ExportFormat = Literal["adapter", "onnx", "torch"]
_ENDINGS: dict[str, str] = {"adapter": "", "onnx": ".onnx", "torch": ".pt2"}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written.

    Args:
        path: file or folder.
        what: in words.
        rows: with which it was checked.
        real: whether these come from a table, and not from chance.
        difference: the largest between a logit of the run and of the export.
    """

    path: Path
    what: str
    rows: int
    real: bool
    difference: float


def export(
    run: str | Path,
    output: str | Path | None = None,
    *,
    kind: ExportFormat = "adapter",
    given: Mapping[str, Sequence[str]] | None = None,
    check: Any = None,
    backbone: str | None = None,
    encoding: str | None = None,
) -> Exported:
    """Write a run's model for others, and check that it gives the same logits; one that does not is not written.

    Args:
        run: folder of a finished run.
        output: what is written: a folder for ``adapter``, else a file, which replaces an earlier one; ``exported`` in
            the run's folder, with the format's ending, unless given.
        kind: ``adapter``: a folder without attributes, for fixed values, that this library loads, or of the peft
            library where the method is LoRA then; ``onnx`` and ``torch``: a graph, of the whole model or for fixed
            values, that onnxruntime or `torch.export.load` loads.
        given: attribute to its values, which are fixed; attributes that are not named are missing. None leaves the
            attributes an input.
        check: a table (anything `read_table` takes) with whose first 200 rows the export is checked; rows at random
            unless given.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the table.

    Raises:
        AttribuneError: for values that are not known, a model that has no such form, with the reason, or an export
            whose logits differ by more than 1e-4.
    """
    if kind not in _ENDINGS:
        raise ConfigError(f"unknown format {kind!r}: choose {', '.join(_ENDINGS)}")
    if kind == "onnx":
        graph.check_packages()
    path = _place(Path(run), output, kind)
    source = _Source.load(run, given=given, backbone=backbone)
    if check is None:
        rows = rows_at_random(source.predictor, given=source.ids)
    else:
        rows = rows_of(source.predictor, check, given=source.ids, encoding=encoding)
    if kind == "adapter":
        return _export_folder(source, path, rows)
    return _export_graph(source, path, rows, kind=kind)


def _place(run: Path, output: str | Path | None, kind: str) -> Path:
    path = run / f"exported{_ENDINGS[kind]}" if output is None else Path(output)
    if kind == "adapter" and (path.is_file() or (path.is_dir() and any(path.iterdir()))):
        raise ConfigError(f"{path} is there already: choose another output, or remove it first")
    if kind != "adapter" and (path.is_dir() or path.suffix != _ENDINGS[kind]):
        raise ConfigError(f"{path} is not the name of a file of --format {kind}: end it in {_ENDINGS[kind]}")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} is not there: make it, or choose another output")
    return path


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A run, and the values that are fixed: None where they are an input."""

    model: AttributeModel
    predictor: Predictor
    given: Mapping[str, Sequence[str]] | None
    ids: npt.NDArray[np.int64] | None
    backbone: str | None

    @classmethod
    def load(cls, run: str | Path, *, given: Mapping[str, Sequence[str]] | None, backbone: str | None) -> _Source:
        recipe, predictor = load_run(run, backbone=backbone)
        model = predictor.model
        if not isinstance(model, AttributeModel):
            raise ConfigError(f"method {recipe.method['name']!r} is a linear model: only neural models are exported")
        if given and not predictor.reads_attributes:
            raise ConfigError(f"method {model.method_config.name!r} reads no attributes: leave --for out")
        predictor.use("cpu")
        ids = given_ids(predictor.schema, given) if given is not None and predictor.reads_attributes else None
        return cls(model=model, predictor=predictor, given=given, ids=ids, backbone=backbone)

    @property
    def values(self) -> torch.Tensor | None:
        """The fixed ids (slots,)."""
        return None if self.ids is None else torch.from_numpy(self.ids)

    def fixed(self) -> Fixed:
        """What is left of the method; ConfigError with the reason where it has no such form."""
        slots = sum(slots.count for slots in self.model.slots)
        return fixed_form(self.model, torch.zeros(slots, dtype=torch.int64) if self.values is None else self.values)


def _export_folder(source: _Source, path: Path, rows: Rows) -> Exported:
    if source.ids is None and source.predictor.reads_attributes:
        raise ConfigError(
            "--format adapter is for fixed values: give them with --for, such as --for "
            f"{source.predictor.schema.names[0]}=VALUE, or --for alone for texts of which nothing is known"
        )
    draft = draft_of(path)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        what, score = _write_folder(source, draft)
        difference = largest_difference(source.predictor, rows, score)
        if path.is_dir():
            path.rmdir()
        os.replace(draft, path)
    except OSError as error:
        raise ModelFolderError(
            f"the export cannot be written to {path} ({error.strerror or error}): make room, or choose another output"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Exported(path=path, what=what, rows=len(rows.ready), real=rows.real, difference=difference)


def _write_folder(source: _Source, folder: Path) -> tuple[str, Scorer]:
    """Write the folder; returns what it is, and what scores batches by it."""
    values = given_text(source.given or {})
    try:
        fixed = source.fixed()
        if fixed.low_rank:
            folder.mkdir(parents=True)
            write_peft(source.model, fixed, folder)
            return f"LoRA with biases for {values}, which peft loads", _peft_scorer(source, folder)
        plain = plain_model(source.model, fixed)
    except ConfigError as error:
        raise ConfigError(f"--format adapter: {error}; --format torch and --format onnx need no such form") from error
    plain.save_pretrained(folder)
    loaded = AttributeModel.from_pretrained(folder, backbone=source.backbone)
    what = f"a model of method {fixed.config.name!r} without attributes for {values}"
    return what, lambda batch: _logits(loaded, batch)


def _logits(model: AttributeModel, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(batch["input_ids"], batch["attention_mask"]).logits
    return found


def _peft_scorer(source: _Source, folder: Path) -> Callable[[Mapping[str, torch.Tensor]], torch.Tensor]:
    from safetensors.torch import load_file

    config: AttributeConfig = source.model.config
    fresh = saving.restore_backbone(config, folder, name=source.backbone, dtype=torch.float32)
    plain = AttributeConfig.from_dict({**config.to_dict(), "method": Plain().to_dict(), "learned": None})
    model = AttributeModel(plain, schema=Schema([]), backbone=load_peft(folder, fresh)).eval()
    model.head.load_state_dict(load_file(str(folder / HEAD)))
    return lambda batch: _logits(model, batch)


def _export_graph(source: _Source, path: Path, rows: Rows, *, kind: ExportFormat) -> Exported:
    model, ids, what = source.model, source.values, "the whole model, with attribute_ids as an input"
    if ids is not None:
        values = given_text(source.given or {})
        try:
            model, ids, what = plain_model(source.model, source.fixed()), None, f"a model for {values}"
        except ConfigError as error:
            what = f"the whole model with the ids of {values} inside ({error})"
    elif not source.predictor.reads_attributes:
        what = "the whole model, which reads no attributes"
    example = source.predictor.batch(rows.ready.picked(slice(4)))
    program = graph.make_program(model, example, ids=ids)
    given = "" if source.given is None else given_text(source.given)
    note = {
        "task": json.dumps(source.predictor.task.to_dict()),
        "attributes": ", ".join(model.schema.names),
        "for": given,
    }
    if kind == "onnx":
        data = graph.onnx_bytes(model, program, note=note)
        score = graph.onnx_scorer(data)
    else:
        data = graph.torch_bytes(program, note=note)
        score = graph.torch_scorer(data)
    difference = largest_difference(source.predictor, rows, score)
    try:
        replace_file(path, data)
    except OSError as error:
        raise ModelFolderError(
            f"the export cannot be written to {path} ({error.strerror or error}): make room, or choose another output"
        ) from error
    return Exported(path=path, what=what, rows=len(rows.ready), real=rows.real, difference=difference)
