"""Export of a run: whole, or for fixed values of its attributes."""

from __future__ import annotations

import copy
import errno
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from attribune.core.arguments import checked_arguments
from attribune.core.arrays import IntArray
from attribune.core.checksums import checksum_of
from attribune.core.door import as_argument
from attribune.core.files import clear_drafts, draft_of, move_into_place, replace_file, writing
from attribune.data.file_options import Reading
from attribune.data.tables import with_reading
from attribune.errors import ConfigError, ModelFolderError
from attribune.export import graph
from attribune.export.check import Rows, largest_difference, random_rows, table_rows
from attribune.export.graph import ScoreFunction
from attribune.export.peft_folder import HEAD, has_peft_form, load_peft, write_peft
from attribune.methods import Plain
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.models.auto import load_model
from attribune.models.base import ConditionedModel
from attribune.models.config import AttributeConfig
from attribune.models.folder import ModelFolder
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor, Quantisation, check_quantisation
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.schema import Schema
from attribune.schema.columns import canonical
from attribune.schema.schema import assigned_ids, assignments_text
from attribune.tasks.capabilities import EXPORT, GRAPH, INT8, require
from attribune.values.traces import EXPORT_MARKS, export_marks

ExportFormat = Literal["adapter", "onnx", "torch"]
_ENDINGS: dict[str, str] = {"adapter": "", "onnx": ".onnx", "torch": ".pt2"}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The file or folder that was written, and its check.

    Args:
        rows: number of rows with which it was checked.
        from_table: whether these come from a table; otherwise they were drawn at random.
        difference: the largest between a logit of the run and of the export; of a probability where it is in int8.
        quantise: ``int8``, or None for float32.
    """

    path: Path
    description: str
    rows: int
    from_table: bool
    difference: float
    quantise: Quantisation | None = None


@checked_arguments
def export(
    run: str | Path,
    output: str | Path | None = None,
    *,
    kind: ExportFormat = "adapter",
    assignments: Mapping[str, Sequence[str]] | None = None,
    check: Any = None,
    backbone: str | Path | None = None,
    quantise: Quantisation | None = None,
    **reading: Unpack[Reading],
) -> Exported:
    """Export a run's model for other programs; the export is checked against the run before it is written.

    Args:
        output: folder to write for ``adapter``, else the file, which replaces an earlier one; ``exported`` in the run's
            folder, with the format's suffix, by default.
        kind: ``adapter``: a folder without attributes, for fixed values, that this library loads, or of the peft
            library if the method then is LoRA or prompt tuning; ``onnx`` and ``torch``: a graph, of the whole model
            or for fixed values, that onnxruntime or `torch.export.load` loads.
        assignments: values to fix, by attribute; attributes that are not named count as missing. None leaves
            the attributes an input.
        check: a table (anything `read_table` takes); its first 200 rows check the export. Random rows by default.
        backbone: new location of the backbone's weights, if they were moved.
        quantise: ``int8`` rounds the weights of ``onnx``, for a task with probabilities.
        **reading: how the file of `check` is read, as in `read_table`.

    Raises:
        AttribuneError: for values that are not known, a model that has no such form, with the reason, or an export
            whose logits differ by more than 1e-4; in int8, whose probabilities differ by more than 0.05.
    """
    if kind not in _ENDINGS:
        raise ConfigError(f"unknown format {kind!r}: choose {', '.join(_ENDINGS)}")
    if kind == "onnx":
        graph.check_packages()
    if check_quantisation(quantise) is not None and kind != "onnx":
        raise ConfigError(
            f"{as_argument('quantise', quantise)} is for {as_argument('kind', 'onnx')}, and this is {kind}: leave one "
            "of them out"
        )
    check = with_reading(check, reading, argument="check")
    path = _output_path(Path(run), output, kind)
    source = _Source.load(run, assignments=assignments, backbone=backbone)
    task = source.predictor.task
    if kind != "adapter":
        require(task, GRAPH, argument=as_argument("kind", kind), run=run, cure=as_argument("kind", "adapter"))
    if quantise is not None:
        require(task, INT8, argument=as_argument("quantise", quantise))
    if check is None:
        rows = random_rows(source.model, source.predictor, ids=source.ids)
    else:
        rows = table_rows(source.predictor, check, ids=source.ids)
    if kind == "adapter":
        description, difference = _export_folder(source, path, rows)
    else:
        description, difference = _export_graph(source, path, rows, kind=kind, quantise=quantise)
    if source.predictor.blend is not None:
        description += ", of the network alone: predictions of the run also count simple models beside it"
    return Exported(
        path=path,
        description=description,
        rows=len(rows.encoded),
        from_table=rows.from_table,
        difference=difference,
        quantise=quantise,
    )


def _output_path(run: Path, output: str | Path | None, kind: str) -> Path:
    if output is None:
        RunFolder.of(run).refuse_links()
    path = run / f"exported{_ENDINGS[kind]}" if output is None else Path(output)
    if kind == "adapter" and (path.is_file() or (path.is_dir() and any(path.iterdir()))):
        raise ConfigError(f"{path} already exists: choose another output, or remove it first")
    if kind != "adapter" and (path.is_dir() or path.suffix != _ENDINGS[kind]):
        raise ConfigError(
            f"{path} is not the name of a file of {as_argument('kind', kind)}: end it in {_ENDINGS[kind]}"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist: create it, or choose another output")
    return path


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A run, and the fixed values with their ids (slots,); None where they are an input."""

    model: ConditionedModel
    predictor: Predictor
    assignments: Mapping[str, Sequence[str]] | None
    ids: IntArray | None
    backbone: str | Path | None

    @classmethod
    def load(
        cls, run: str | Path, *, assignments: Mapping[str, Sequence[str]] | None, backbone: str | Path | None
    ) -> Self:
        recipe, predictor = load_run(run, backbone=backbone)
        refusal = f"method {recipe.method['name']!r} has no backbone: only neural models are exported"
        model: ConditionedModel = predictor.model.neural(refusal)
        require(predictor.task, EXPORT)
        if model.memory is not None:
            raise ConfigError(
                f"method {model.method_config.name!r} reads rows that are stored with the model, which no other "
                "program puts in front of a text: train another method for an export"
            )
        if model.written:
            raise ConfigError(
                f"method {model.method_config.name!r} writes values in front of a text, which no other program does "
                f"by itself (those of {', '.join(model.written)}): serve the run, or train a model for the export that "
                "writes none"
            )
        if assignments and not predictor.reads_attributes:
            raise ConfigError(
                f"method {model.method_config.name!r} reads no attributes: leave {as_argument('assignments')} out"
            )
        predictor.use("cpu")
        fixed = assignments is not None and predictor.reads_attributes
        ids = assigned_ids(predictor.schema, assignments or {}) if fixed else None
        if ids is not None:
            _clear_other_vectors(model, ids)
        return cls(model=model, predictor=predictor, assignments=assignments, ids=ids, backbone=backbone)

    @property
    def id_tensor(self) -> torch.Tensor | None:
        """The fixed ids (slots,), or None."""
        return None if self.ids is None else torch.from_numpy(self.ids)

    def merge(self) -> MergedMethod:
        """Merge the method; ConfigError with the reason where it cannot be merged."""
        hidden = torch.zeros(sum(slots.count for slots in self.model.slots), dtype=torch.int64)
        return merge_model(self.model, hidden if self.id_tensor is None else self.id_tensor)

    @property
    def values(self) -> dict[str, list[str]]:
        """The values whose vectors the export has, by attribute."""
        if self.ids is not None:
            given = (self.assignments or {}).items()
            return {name: [canonical(value) or value for value in values] for name, values in given}
        listed = [attribute for attribute in self.model.schema if attribute.spec.lists_values]
        return {attribute.name: list(attribute.values) for attribute in listed if self.predictor.reads_attributes}

    @property
    def assignments_text(self) -> str:
        """The fixed values in words."""
        return assignments_text(self.assignments or {})


def _clear_other_vectors(model: ConditionedModel, ids: IntArray) -> None:
    """Set the vectors of all values to zero that are not fixed: they are other people's, and stay with the run."""
    for name, attribute in model.values.owners().items():
        parameter = model.get_parameter(name)
        own = torch.from_numpy(np.union1d(ids[model.schema[attribute].columns], [0]))
        vectors = torch.zeros_like(parameter)
        vectors[own] = parameter.detach()[own]
        parameter.data = vectors
    for described, attribute in model.values.described():
        own = torch.from_numpy(np.union1d(ids[model.schema[attribute].columns], [0]))
        features = torch.zeros_like(described.features)
        features[own] = described.features[own]
        described.features = features


def _export_folder(source: _Source, path: Path, rows: Rows) -> tuple[str, float]:
    if source.ids is None and source.predictor.reads_attributes:
        raise ConfigError(
            f"{as_argument('kind', 'adapter')} is for fixed values: name those of attributes such as "
            f"{source.predictor.schema.names[0]!r} with {as_argument('assignments')}"
        )
    clear_drafts(path.parent, name=path.name)
    draft = draft_of(path)
    try:
        with _writing(path):
            description, score = _write_folder(source, draft)
            files = {file.name: checksum_of(file) for file in draft.iterdir() if file.is_file()}
            (draft / EXPORT_MARKS).write_text(export_marks(source.values, files), encoding="utf-8")
            difference = largest_difference(source.model, rows, score)
            if path.is_dir():
                path.rmdir()
            move_into_place(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return description, difference


def _write_folder(source: _Source, folder: Path) -> tuple[str, ScoreFunction]:
    """Write the folder, and return its description and what scores batches by it."""
    try:
        merged = source.merge()
        if has_peft_form(source.model, merged):
            folder.mkdir(parents=True)
            kind = write_peft(source.model, merged, folder)
            return f"{kind} for {source.assignments_text}, which peft loads", _peft_scorer(source, folder)
        model = merged_model(source.model, merged)
    except ConfigError as error:
        other = "" if source.model.head is None else "; the formats torch and onnx need no such form"
        raise ConfigError(f"{as_argument('kind', 'adapter')}: {error}{other}") from error
    model.save_pretrained(folder)
    loaded = load_model(folder, backbone=source.backbone)
    description = f"a model of method {merged.config.name!r} without attributes for {source.assignments_text}"
    return description, lambda batch: loaded.calibrated(_logits(loaded, batch))


def _logits(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(**{name: x for name, x in batch.items() if name != "attribute_ids"}).logits
    return logits


def _peft_scorer(source: _Source, folder: Path) -> ScoreFunction:
    from safetensors.torch import load_file

    config: AttributeConfig = source.model.config
    original = ModelFolder(folder).read_backbone(config, name=source.backbone, dtype=torch.float32)
    adapted = load_peft(folder, original)
    if not (folder / HEAD).is_file():
        adapted.eval()
        return lambda batch: _logits(adapted, batch)[:, -batch["labels"].shape[1] :]
    backbone = adapted.get_base_model()
    plain = AttributeConfig.from_dict({**config.to_dict(), "method": Plain().to_dict(), "learned": None})
    model = AttributeModel(plain, schema=Schema([]), backbone=backbone).eval()
    model.head.load_state_dict(load_file(str(folder / HEAD)))
    return lambda batch: _logits(model, batch)


def _export_graph(
    source: _Source, path: Path, rows: Rows, *, kind: ExportFormat, quantise: Quantisation | None
) -> tuple[str, float]:
    model, ids, description = _model_of_graph(source)
    program = graph.make_program(model, source.model.batch(rows.encoded.take(slice(4))), ids=ids)
    metadata = {
        "task": json.dumps(source.predictor.task.to_dict()),
        "attributes": ", ".join(model.schema.names),
        "for": "" if source.assignments is None else source.assignments_text,
        EXPORT_MARKS: export_marks(source.values),
    }
    if kind == "onnx":
        data = graph.onnx_bytes(model, program, metadata=metadata)
        data = data if quantise is None else graph.onnx_in_int8(data)
        score = graph.onnx_scorer(data)
    else:
        data = graph.torch_bytes(program, metadata=metadata)
        score = graph.torch_scorer(data)
    difference = largest_difference(source.model, rows, score, rounded=quantise is not None)
    with _writing(path):
        replace_file(path, data)
    return description, difference


def _model_of_graph(source: _Source) -> tuple[ConditionedModel, torch.Tensor | None, str]:
    """Choose what becomes the graph: a model, the ids to fix in it or None, and a description."""
    if source.ids is None:
        reads = source.predictor.reads_attributes
        inputs = "with attribute_ids as an input" if reads else "which reads no attributes"
        return source.model, None, f"the whole model, {inputs}"
    try:
        return merged_model(source.model, source.merge()), None, f"a model for {source.assignments_text}"
    except ConfigError as error:
        description = f"the whole model with the ids of {source.assignments_text} inside ({error})"
        return source.model, source.id_tensor, description


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    with writing(f"the export cannot be written to {path}"):
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise ModelFolderError(
                f"another process has written to {path} in the meantime, and what it wrote stays: choose another output"
            ) from error


def merge_model(model: ConditionedModel, ids: Tensor) -> MergedMethod:
    """Merge a model's method for rows that all have the same values.

    Args:
        model: in evaluation mode.
        ids: (slots,), of the values.

    Raises:
        ConfigError: saying why no model without attributes gives the same predictions.
    """
    with torch.no_grad():
        condition = model.method.condition(ids.unsqueeze(0), 1)
        target = MergeTarget(backbone=model.stack, head=model.head)
        merged = model.method.merge(model.method_config, condition, target)
        if model.link is None or not model.link.attributes:
            return merged
        if "classify" in merged.config.points:
            raise ConfigError(
                f"method {merged.config.name!r} computes logits in its own way, without a place for personal ones"
            )
        link, scale = model.link.merge(cast(AttributeModel, model).linked_vectors(condition))
        return replace(merged, link=link, head_scale=scale)


def merged_model(model: ConditionedModel, merged: MergedMethod) -> ConditionedModel:
    """Make the model of a method merged from `model`: copies of all weights, an empty schema and the same task.

    Raises:
        ConfigError: where weights of the backbone cannot hold what the values do.
    """
    tensors = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("method.")}
    changed = {f"{model.stack_name}.{name}": tensor for name, tensor in merged.backbone_tensors(model.stack).items()}
    tensors |= changed | {f"method.{name}": tensor for name, tensor in merged.tensors.items()}
    if merged.head is not None:
        tensors["head.weight"] = merged.head
    if merged.head_scale is not None:
        tensors |= {name: merged.head_scale * tensors[name] for name in ("head.weight", "head.bias")}
    if merged.link:
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith("link.")}
        tensors = others | {f"link.{name}": tensor for name, tensor in merged.link.items()}
    config = copy.deepcopy(model.config)
    config.method = merged.config.to_dict()
    config.task = model.task.without_attributes().to_dict()
    config.learned = sorted(changed)  # the model adds those that were trained
    result = type(model)(config, schema=Schema([]), tokenizer=model.tokenizer)
    result.load_state_dict({name: tensor.detach().clone() for name, tensor in tensors.items()}, assign=True)
    result.eval()
    return result
