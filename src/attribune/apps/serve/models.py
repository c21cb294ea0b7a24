"""The models of a service: loaded over shared weights, kept apart from their files, and asked together."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
from torch import Tensor, nn

from attribune.backbones.sharing import SharedBackbones
from attribune.core.device import default_device
from attribune.data.writing import finite
from attribune.errors import AttribuneError, ConfigError, ModelFolderError
from attribune.models.predictor import Predictor, Quantisation
from attribune.models.predictor_group import PredictorGroup
from attribune.models.writer import Writer
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_predictor
from attribune.schema.attributes import FittedAttribute
from attribune.tasks.capabilities import GENERATE, can
from attribune.values.live_run import LiveRun

Result = TypeVar("Result")
# Models are loaded and predict on one thread. OpenMP keeps a team of threads for every thread that computes. With a
# second team there are more threads than cores, and libgomp then lets those that wait for each other sleep instead of
# spin: models that had been loaded, and had predicted once, on the main thread lost a third of their throughput.
_NAME = "attribune-model"
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix=_NAME)
_LARGEST_COPY = 1 << 28  # bytes of a tensor; larger ones, such as tables of millions of values, stay in their files
_SUFFIXES = (".safetensors", ".arrow")
_LISTS_FILES = hasattr(psutil.Process, "memory_maps")  # not on macOS
Columns = Mapping[str, Sequence[Any]]


def start(function: Callable[[], Result]) -> Future[Result]:
    """Schedule a function on the thread, after those scheduled before."""
    return _THREAD.submit(function)


def compute(function: Callable[[], Result]) -> Result:
    """Call a function on the thread and wait for its result."""
    return function() if threading.current_thread().name.startswith(_NAME) else start(function).result()


def copy_into_memory(models: Sequence[nn.Module]) -> None:
    """Copy the tensors of models, which the system otherwise reads from their files when they are needed.

    Tensors that are shared between models stay shared. Large ones are not copied, where `MappedFiles` can watch them.
    """
    copies: dict[tuple[object, ...], Tensor] = {}
    originals = []  # as long as they are there, no copy gets the address of one
    for model in models:
        for tensor in (*model.parameters(), *model.buffers()):
            # A packed int8 weight has no address: it was made in memory, and reads from no file.
            if tensor.device.type != "cpu" or tensor.is_mkldnn or (_LISTS_FILES and tensor.nbytes > _LARGEST_COPY):
                continue
            original = tensor.data
            if _place(original) not in copies:
                originals.append(original)
                copy = original.clone()
                copies[_place(original)] = copies[_place(copy)] = copy
            tensor.data = copies[_place(original)]


def _place(tensor: Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


@dataclass(frozen=True)
class MappedFiles:
    """Files from which the system reads while a process runs, and what they were when it began.

    Args:
        stamps: by path, which file it was, and its size and the time of its last change.
        places: where in memory they are.
    """

    stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    places: frozenset[str] = frozenset()

    @classmethod
    def of_this_process(cls, *, apart_from: Self | None = None) -> Self:
        """Find the files of models that this process has mapped, apart from what it had mapped before.

        A file that it maps anew is found, also where a model that is there already reads from it.
        """
        known = apart_from.places if apart_from else frozenset()
        new = {one.addr: one.path for one in _maps() if one.addr not in known}
        return cls({path: _stamp_of(path) for path in sorted(set(new.values()))}, frozenset(new))

    def changed(self) -> list[str]:
        """Return the files that were written to since.

        A file that was removed or renamed, or in whose place there is another, is still what the process reads.
        """
        now = {path: _stamp_of(path) for path in self.stamps}
        return [
            path
            for path, stamp in self.stamps.items()
            if stamp and (found := now[path]) and found[:2] == stamp[:2] and found != stamp
        ]


def _maps() -> list[Any]:
    """Return where this process has mapped files of models."""
    maps = psutil.Process().memory_maps(grouped=False) if _LISTS_FILES else []
    return [one for one in maps if one.path.endswith(_SUFFIXES)]


def _stamp_of(path: str) -> tuple[int, ...] | None:
    """Return which file is at a path, by its first two numbers, and its size and last change; None without one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Answer(NamedTuple):
    """The prediction for one text.

    Attributes:
        output: prediction and probabilities, by the column names of `attribune predict`.
        unknown: values that the model does not know, by attribute.
        missing: attributes without a value.
    """

    output: dict[str, Any]
    unknown: dict[str, list[str]]
    missing: list[str]

    def shown(self, *, hide_unknown: bool) -> dict[str, Any]:
        """Return what a caller sees of it."""
        return {"output": self.output} if hide_unknown else {"output": self.output, "unknown": self.unknown}


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedModel:
    """A model under the name by which requests choose it.

    Args:
        group: the predictors of all models of the service.
        source: its folder.
        files: those from which the system reads the model while it is served.
        live: its run, if values can be added and taken away.
        fixed: why they cannot.
        writer: generates texts, with a run of the task ``generation``.
    """

    name: str
    group: PredictorGroup
    source: str
    files: MappedFiles = field(default_factory=MappedFiles)
    live: LiveRun | None = None
    fixed: str = "it was loaded without `enrol`"
    writer: Writer | None = None

    @property
    def predictor(self) -> Predictor:
        """Its own predictor."""
        return self.group[self.name]

    def shares_batches_with(self, other: ServedModel) -> bool:
        """Return whether rows of two models can be in one batch."""
        return other.group is self.group and other.name in self.group.together_with(self.name)

    @property
    def attributes(self) -> tuple[FittedAttribute, ...]:
        """The attributes that the model reads."""
        return tuple(self.predictor.schema) if self.predictor.reads_attributes else ()

    @property
    def inputs(self) -> dict[str, FittedAttribute]:
        """What a request may give, by name: attributes, and of a column with several of them the first."""
        found: dict[str, FittedAttribute] = {}
        for attribute in self.attributes:
            found.setdefault(attribute.column, attribute)
        return found

    def check_files(self) -> None:
        """Raise ModelFolderError when a file was written to from which the model is read."""
        if changed := self.files.changed():
            raise ModelFolderError(
                f"model {self.name!r} cannot answer: {changed[0]} was written to while the model is read from it. Have "
                "the runs loaded again (SIGHUP), and replace the folder of a served model as a "
                "whole, by renaming, or serve a copy"
            )

    def answer(self, columns: Columns) -> list[Answer]:
        """Predict rows, given as columns of texts and attributes; errors as in `answer_together`."""
        return self.answer_together({self: columns})[self]

    @staticmethod
    def answer_together(rows: Mapping[ServedModel, Columns]) -> dict[ServedModel, list[Answer]]:
        """Predict rows of models that share batches, or of one, given as columns of texts and attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
            ModelFolderError: when a file was written to from which a model is read.
        """
        for model in rows:
            model.check_files()
        encoded = {model.name: model.predictor.encode_rows(columns) for model, columns in rows.items()}
        scores = next(iter(rows)).group.score(encoded)
        return {model: model._answers(columns, scores[model.name]) for model, columns in rows.items()}

    def _answers(self, columns: Columns, scores: npt.NDArray[np.float32]) -> list[Answer]:
        """Return an answer for each row, with what is not known of its attributes."""
        lists = {name: finite(values) for name, values in self.predictor.task.decode(scores).columns().items()}
        rows = range(len(next(iter(columns.values()))))
        return self.answers_of([{name: values[row] for name, values in lists.items()} for row in rows], columns)

    def answers_of(self, outputs: Sequence[Mapping[str, Any]], columns: Columns) -> list[Answer]:
        """Return the answers to rows whose outputs are known, with what is not known of their attributes."""
        names = list(self.inputs)
        unknown = self.predictor.schema.unknown(columns) if names else {}
        return [
            Answer(
                output=dict(output),
                unknown={name: values[row] for name, values in unknown.items() if values[row]},
                missing=[name for name in names if columns[name][row] is None],
            )
            for row, output in enumerate(outputs)
        ]

    def summary(self) -> str:
        """Return a line with its name, task, folder and attributes."""
        reads = ", ".join(self.inputs) or "no attributes"
        return f"{self.name}: {self.predictor.task.kind} from {self.source}, reads {reads}"

    def check(self) -> None:
        """Predict an empty text, so that errors show before the first request.

        Raises:
            AttribuneError: whatever a prediction raises.
        """
        for attribute in self.attributes:
            if attribute.spec.unseen == "hash":
                attribute.encode(pa.array([None], pa.string()), missing=frozenset())  # needs the salt
        self.answer({name: [None] for name in self.predictor.columns})

    def describe(self) -> dict[str, Any]:
        """Describe the model for callers, as plain JSON values."""
        predictor = self.predictor
        sample = predictor.task.decode(predictor.task.empty_scores(0))
        return {
            "name": self.name,
            "task": predictor.task.kind,
            **predictor.model.describe(precision=predictor.precision),
            "text": list(predictor.text_input.names),
            "attributes": [_describe_input(name, attribute) for name, attribute in self.inputs.items()],
            "output": list(sample.columns()),
        }


def _describe_input(name: str, attribute: FittedAttribute) -> dict[str, Any]:
    """Describe what a request may give under a name: an attribute, or a date, from which several are read."""
    spec = attribute.spec
    return {
        "name": name,
        "kind": "date" if spec.is_date else spec.kind,
        "values": None if spec.is_date else attribute.size - 1,
        "several": spec.takes_several,
        "unseen": spec.unseen,
    }


def load_models(runs: Sequence[str], **options: Any) -> dict[str, ServedModel]:
    """Load runs for a service, on the thread that will predict; those with the same backbone share its weights.

    Args:
        runs: folders of runs or of saved models, or ``NAME=FOLDER``; the name is by default that of the folder.
        options: those of `RunLoader`.

    Raises:
        ConfigError: for two runs of one name, or without a run; or for a run that is there twice, or another dtype,
            where values can be added.
        ModelFolderError: for a folder that is no run, or whose model is missing or damaged.
    """
    return RunLoader(sources=named_runs(runs), **options).load()


def named_runs(runs: Sequence[str]) -> dict[str, str]:
    """Return the folder of each run by its name; ConfigError for two of one name, or none at all."""
    if not runs:
        raise ConfigError("there is no run to serve: name a folder that `attribune train` wrote")
    sources: dict[str, str] = {}
    for run in runs:
        name, source = _parse_run(run)
        if name in sources:
            raise ConfigError(f"two runs are named {name!r}: give them names, as in NAME=FOLDER")
        sources[name] = source
    return sources


@dataclass(frozen=True, kw_only=True)
class RunLoader:
    """Loads runs for a service, and loads them again; those with the same backbone share its weights.

    Args:
        sources: folder of each run or saved model, by its name in requests; `named_runs` reads them.
        backbone: where the backbones' weights are, if no longer where they were.
        dtype: of the backbones' weights, ``float32`` or ``bfloat16``.
        enrol: whether values can be added and taken away.
        quantise: ``int8`` computes in int8, on CPUs; see `attribune.models.predictor.quantised`.

    Raises:
        ConfigError: for settings that do not go together.
    """

    sources: Mapping[str, str]
    backbone: str | Path | None = None
    dtype: str = "float32"
    enrol: bool = False
    quantise: Quantisation | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"--dtype {self.dtype}: choose float32 or bfloat16")
        if self.enrol and self.dtype != "float32":
            raise ConfigError(
                f"--dtype {self.dtype} with --enrol: weights are stored again with new values, so leave it out"
            )
        if self.enrol and self.quantise is not None:
            raise ConfigError(
                f"--quantise {self.quantise} with --enrol: values are learned in float32, so leave one of them out"
            )

    def load(self) -> dict[str, ServedModel]:
        """Load the runs on the thread that will predict; AttribuneError for one that cannot be."""
        return compute(self._load)

    def load_beside(self) -> dict[str, ServedModel]:
        """Load the runs while others predict: on a thread of its own, whose OpenMP team ends with it."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-loader") as thread:
            return thread.submit(self._load).result()

    def _load(self) -> dict[str, ServedModel]:
        before = MappedFiles.of_this_process()
        folders = {name: RunFolder(Path(source).resolve()) for name, source in self.sources.items() if self.enrol}
        for folder in folders.values():
            folder.complete_model()
        marks = {name: folder.model_mark for name, folder in folders.items()}
        if len({folder.path for folder in folders.values()}) < len(folders):
            raise ConfigError("--enrol with one run under two names: only one of them would learn; give it once")
        group = self._group()
        writers = {name: Writer.of(one) for name, one in group.items() if can(one.task, GENERATE)}
        copy_into_memory(group.networks())
        gc.collect()  # nothing may hold what has been copied
        files = MappedFiles.of_this_process(apart_from=before)
        models = {
            name: ServedModel(name=name, group=group, source=source, files=files, writer=writers.get(name))
            for name, source in self.sources.items()
        }
        for name, folder in folders.items():
            models[name] = self._with_run(models[name], folder, marks[name])
        for served in models.values():
            served.check()
        return models

    def _group(self) -> PredictorGroup:
        """Load the predictors of runs over shared weights, which nothing else holds then."""
        shared = SharedBackbones(default_device())
        options: Any = {"backbone": self.backbone, "dtype": self.dtype, "quantise": self.quantise}
        predictors = {name: load_predictor(source, shared=shared, **options) for name, source in self.sources.items()}
        return PredictorGroup(predictors, shared=shared)

    def _with_run(self, model: ServedModel, folder: RunFolder, mark: Any) -> ServedModel:
        """Return a model with its run in memory, or with the reason why its values cannot change."""
        if not folder.is_begun:
            return replace(model, fixed=f"{model.source} is a model without its run: serve the folder of the run")
        try:
            live = LiveRun(folder.path, folder.read_recipe(), model.predictor, mark=mark, backbone=self.backbone)
        except AttribuneError as error:
            return replace(model, fixed=str(error))
        return replace(model, live=live)


def _parse_run(run: str) -> tuple[str, str]:
    name, equals, source = run.partition("=")
    if equals and not Path(run).exists():
        if not name or not source:
            raise ConfigError(f"{run!r}: write NAME=FOLDER, or the folder alone")
        return name, source
    return Path(run).resolve().name, run
