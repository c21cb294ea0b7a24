"""The paths that change what a service knows: new values are learned from rows, and values are forgotten."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from datasets import Dataset
from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, SkipValidation, StrictStr

from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.models import ServedModel, compute
from attribune.apps.serve.requests import (
    ModelRequest,
    Refused,
    Row,
    Scalar,
    as_name,
    attribute_names,
    check_rows,
    checked,
    choose_model,
    parse_body,
    printable,
    read_row,
    read_text,
    shown,
)
from attribune.apps.serve.service import AbandonedError, Service
from attribune.apps.serve.settings import ServeSettings
from attribune.core.files import writing
from attribune.core.job_folder import HeldError
from attribune.errors import AttribuneError, ConfigError, DataError
from attribune.schema import FittedAttribute
from attribune.schema.schema import check_listed
from attribune.values.forget import Forgotten
from attribune.values.live_run import Compute, LearnedValue, LiveRun

_PATH = b"/v1/values/"
_LONGEST = 1_000  # characters of a new value
_STEPS = (".", "..")  # which clients take for steps in a path, also when encoded
Result = TypeVar("Result")
_Waiting = tuple[LearnedValue, Future[None]]


class LabelledRow(Row):
    """A text with its label, and the attributes that it has beside the new value."""

    label: Scalar | list[Scalar] | dict[str, Scalar] = Field(description="Label of the text.")


class EnrolRequest(ModelRequest):
    """A new value of an attribute, and rows from which it is learned."""

    attribute: StrictStr = Field(description="The attribute that has the value.")
    value: Scalar = Field(description="The new value; the model must not know it.")
    rows: SkipValidation[list[LabelledRow]] = Field(description="Texts of this value with their labels.")


class EnrolAnswer(BaseModel):
    """A value that the model knows from now on."""

    model: str
    attribute: str
    value: str
    rows: int
    loss_before: float = Field(description="Mean loss of the rows with the value unknown.")
    loss_after: float = Field(
        description="Mean loss of the rows with the value known; new rows will have a higher loss."
    )
    seconds: float = Field(description="Seconds that learning took.")
    stored: bool = Field(description="Whether the run's folder has it.")


class RemoveAnswer(BaseModel):
    """A value that the model knew."""

    model: str
    attribute: str
    value: str
    models: int = Field(
        description="Number of models that had it: the run's, and those trained with it for comparison."
    )
    predictions: int = Field(description="Number of stored predictions of its rows that were removed.")
    checkpoints: int = Field(description="Number of checkpoint folders that were removed.")
    notes: list[str]
    remaining: list[str] = Field(description="Files of the run that still contain it, or may contain it.")


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """A request for a new value.

    Attributes:
        value: as the vocabulary will have it.
        columns: of the rows, by name, with the labels.
    """

    model: ServedModel
    attribute: str
    value: str
    columns: Mapping[str, list[Any]]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.columns.values())))

    def learn(self, *, pause: Callable[[], None]) -> LearnedValue:
        """Learn the value from the rows; see `LiveRun.learn`."""
        rows = Dataset.from_dict(dict(self.columns))
        return live_run(self.model).learn(self.attribute, self.value, rows, pause=pause)


def live_run(model: ServedModel) -> LiveRun:
    """Return the run of a model in memory.

    Raises:
        Refused: for a model whose values stay as they are.
    """
    if model.live is None:
        raise Refused(422, "model", f"the values of model {model.name!r} cannot change: {printable(model.fixed)}")
    return model.live


def read_enrolment(
    body: bytes, content_type: str, models: Mapping[str, ServedModel], settings: ServeSettings
) -> Enrolment:
    """Read the body of a request for a new value, as `read_request` reads one for predictions.

    Raises:
        Refused: naming the field, the value seen and the cure.
    """
    request = checked(EnrolRequest, parse_body(body, content_type), "", attributes=attribute_names(models))
    model = choose_model(models, request.model)
    live = live_run(model)
    if live.refusal is not None:
        raise Refused(422, "model", f"model {model.name!r} learns no values: {printable(live.refusal)}")
    attribute = _attribute(request.attribute, model, status=422)
    text, value = check_new_value(request.value, attribute, model)
    check_rows(request.rows, settings)
    (column_of_labels,) = live.recipe.label_columns
    columns: dict[str, list[Any]] = {name: [] for name in (*model.predictor.columns, column_of_labels)}
    for number, given in enumerate(request.rows):
        label = given.pop("label", None) if isinstance(given, dict) else None
        read = _row_with_value(given, f"rows[{number}].", attribute, text, model, settings)
        read[column_of_labels] = check_label(label, number, model)
        for name, column in columns.items():
            column.append(read.get(name))
    return Enrolment(model=model, attribute=attribute.name, value=value, columns=columns)


def _attribute(name: str, model: ServedModel, *, status: int) -> FittedAttribute:
    """Return an attribute whose values are a list."""
    found = next((attribute for attribute in model.attributes if attribute.name == name), None)
    if found is None:
        listed = ", ".join(one.name for one in model.attributes) or "none"
        raise Refused(status, "attribute", f"model {model.name!r} has no attribute {shown(name)!r}: it has {listed}")
    if found.name != found.column:
        reason = f"it is a part of {found.column!r}, whose values come with dates: add them with `attribune enrol`"
        raise Refused(422, "attribute", reason)
    try:
        check_listed(found)
    except ConfigError as error:
        raise Refused.because_of(error, 422, "attribute") from None
    return found


def check_new_value(given: Any, attribute: FittedAttribute, model: ServedModel) -> tuple[str, str]:
    """Return a value as a cell has it, and as the vocabulary will have it."""
    text = read_text(given, "value")
    if text is None or model.predictor.schema.means_missing(text):
        raise Refused(422, "value", "it means that there is no value: give another name")
    if text in _STEPS:
        reason = f"{text!r} could not be named in a path, to forget it again: use another value, or `attribune enrol`"
        raise Refused(422, "value", reason)
    separator = attribute.spec.separator
    if separator is not None and separator in text:
        raise Refused(
            422, "value", f"{shown(text)!r} has {separator!r} in it, which separates values: use a value without it"
        )
    if len(text) > _LONGEST:
        raise Refused(
            422, "value", f"{len(text):,} characters, but a value has {_LONGEST:,} at most: give a shorter one"
        )
    try:
        unknown = attribute.unknown(pa.array([attribute.spec.cell(text)]), missing=frozenset())[0]
    except DataError as error:
        raise Refused.because_of(error, 422, "value") from None
    if not unknown:
        reason = (
            f"attribute {attribute.name!r} has the value {shown(text)!r} already: forget it before you learn it again"
        )
        raise Refused(409, "value", reason)
    if attribute.spec.is_nested and len(unknown) > 1:
        raise Refused(422, "value", f"{shown(unknown[0])!r}, a level above, is new, too: add it first")
    return text, unknown[-1]


def _row_with_value(
    given: Any, prefix: str, attribute: FittedAttribute, text: str, model: ServedModel, settings: ServeSettings
) -> dict[str, Any]:
    """Read a row without its label, and give it the new value."""
    name, several = attribute.name, attribute.spec.takes_several
    read = read_row(given, prefix, model, settings)
    if read.get(name) is not None and not several:
        raise Refused(
            422, f"{prefix}attributes.{as_name(name)}", f"every row has the new value of {name!r}: leave it out"
        )
    if all(read_text(read.get(column), f"{prefix}text") is None for column in model.predictor.text_input.names):
        raise Refused(422, f"{prefix}text", "it is blank: give a text, or leave the row out")
    read[name] = [text, *(read.get(name) or ())] if several else text  # the first have their slots
    return read


def check_label(given: Any, number: int, model: ServedModel) -> Any:
    """Check the label of a row by itself; returns it as a cell of a column of one type."""
    task, field = model.predictor.task, f"rows[{number}].label"
    given = _cell(given, field, takes_shares=any(one.codec.has_shares for one in task.codec.choices))
    try:
        is_there = bool(task.encode_labels([[given]], first_row=number + 1)[1][0])
        unseen = task.unseen_labels([[given]])
    except AttribuneError as error:
        raise Refused.because_of(error, 422, field) from None
    if not is_there:
        raise Refused(422, field, "there is no label: give one, or leave the row out")
    if unseen:
        known = ", ".join(map(str, getattr(task, "class_names", ())))
        cure = f"give one of {shown(known)}" if known else "give one of those"
        raise Refused(422, field, f"{shown(next(iter(unseen)))!r} is not a label of the training rows: {cure}")
    return given


def _cell(given: Any, field: str, *, takes_shares: bool) -> Any:
    if isinstance(given, dict) and not takes_shares:
        raise Refused(422, field, "an object, but the labels of this model are not shares: give one label")
    parts = [*given, *given.values()] if isinstance(given, dict) else given if isinstance(given, list) else [given]
    if any(isinstance(part, dict | list) for part in parts):
        raise Refused(422, field, "it contains lists or objects: give texts or numbers")
    texts = [read_text(part, field) for part in parts]
    return given if isinstance(given, dict) else texts if isinstance(given, list) else texts[0]


def read_removal(path: bytes, name: str | None, models: Mapping[str, ServedModel]) -> tuple[ServedModel, str, str]:
    """Read the path of a request that takes a value away: the model, the attribute and the value.

    Args:
        path: as it was sent, in which a slash within a name is ``%2F``.
        name: of the model.

    Raises:
        Refused: for a path that cannot be read, or a model or an attribute that is not there.
    """
    model = choose_model(models, name)
    live_run(model)
    parts = path.partition(_PATH)[2].split(b"/")
    if len(parts) != 2:
        raise Refused(422, "path", "it is not /v1/values/ATTRIBUTE/VALUE: write a slash in a name as %2F")
    try:
        attribute, given = (unquote(part.decode("ascii"), errors="strict") for part in parts)
    except UnicodeDecodeError:
        raise Refused(422, "path", "it is not percent-encoded UTF-8: encode the names") from None
    value = read_text(given, "value")
    if value is None:
        raise Refused(422, "value", "it is empty: name a value")
    return model, _attribute(attribute, model, status=404).name, value


class ValueWriter:
    """Adds values to served runs, and takes them away: in the folder first, then in memory between two batches.

    Args:
        batcher: on whose thread the models are.
    """

    def __init__(self, models: Iterable[ServedModel], batcher: Batcher) -> None:
        self._batcher, self._models = batcher, [model for model in models if model.live is not None]
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-writer")
        self._waiting: dict[ServedModel, list[_Waiting]] = {}
        self._changed = threading.Lock()

    def open(self) -> None:
        """Let the models learn values between two batches."""
        self._compute_by(self._between_batches)

    def add(self, model: ServedModel, learned: LearnedValue) -> Future[None]:
        """Add a value that was learned; the future ends when it is in the folder and in memory, or has the error."""
        future = Future[None]()
        with self._changed:
            self._waiting.setdefault(model, []).append((learned, future))
        self._thread.submit(self._write, model)
        return future

    def remove(self, model: ServedModel, attribute: str, value: str) -> Future[Forgotten]:
        """Take a value away; the future has what was removed, or the error."""
        return self._thread.submit(_changing, model, partial(live_run(model).remove, attribute, value))

    def close(self) -> None:
        """Write what waits."""
        self._thread.shutdown()
        self._compute_by(compute)

    def _compute_by(self, caller: Compute) -> None:
        for model in self._models:
            live_run(model).compute = caller

    def _between_batches(self, function: Callable[[], Result], /) -> Result:
        return self._batcher.call(function).result()

    def _write(self, model: ServedModel) -> None:
        """Write all values of a model that wait; one that came with others may have been written with them."""
        with self._changed:
            waiting = self._waiting.pop(model, [])
        group: dict[tuple[str, str], _Waiting] = {}
        for learned, future in waiting:
            if not future.set_running_or_notify_cancel():
                continue
            attribute, value = learned.enrolled.attribute, learned.enrolled.value
            if (attribute, value) in group or value in model.predictor.schema[attribute].values:
                future.set_exception(
                    ConfigError(f"attribute {attribute!r} already has the value {value!r}: another request added it")
                )
            else:
                group[attribute, value] = learned, future
        if not group:
            return
        try:
            _changing(model, partial(live_run(model).add, [learned for learned, _ in group.values()]))
        except Exception as error:
            for _, future in group.values():
                future.set_exception(error)
        else:
            for _, future in group.values():
                future.set_result(None)


def _changing(model: ServedModel, change: Callable[[], Result]) -> Result:
    """Change the folder of a model that is served."""
    with writing(f"{model.source} cannot be written"):
        return change()


class ValuePaths:
    """The handlers of the paths; `writer` is opened before the first request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.writer = ValueWriter(service.models.values(), service.batcher)
        self._adding: set[tuple[str, str, str]] = set()

    async def enrol(self, request: Request) -> Response:
        """Learn a new value of an attribute from its rows with labels.

        From the answer on every prediction knows it, also after the service was started again: it is stored with the
        run. Predictions for other values do not change.
        """
        self._check_open()
        return JSONResponse(await self._service.answer(request, self._enrol(request)))

    async def remove(
        self,
        request: Request,
        attribute: str,
        value: str,
        model: Annotated[
            str | None, Query(description="Name of the model; required if the service has several.")
        ] = None,
    ) -> Response:
        """Forget a value of an attribute: its vectors, its name, and what the run has stored of its rows.

        Names are percent-encoded, a slash as %2F. Weights that all values share stay as they are.
        """
        self._check_open()
        path = request.scope.get("raw_path") or request.url.path.encode()
        return JSONResponse(await self._service.answer(request, self._remove(path.partition(b"?")[0], model)))

    def _check_open(self) -> None:
        if not self._service.settings.enrol:
            raise Refused(403, "path", "this service changes no run: start it with `attribune serve --enrol`")

    async def _enrol(self, request: Request) -> dict[str, Any]:
        asked = await self._service.read(request, read_enrolment)
        key = (asked.model.name, asked.attribute, asked.value)
        if key in self._adding:
            raise Refused(409, "value", "another request is adding it now: try again later")
        self._adding.add(key)
        abandoned = threading.Event()
        try:
            learn = partial(asked.learn, pause=partial(self._give_way, abandoned))
            learned = await asyncio.wrap_future(self._service.batcher.call(learn, rows=asked.rows))
            await asyncio.wrap_future(self.writer.add(asked.model, learned))
        finally:
            abandoned.set()
            self._adding.discard(key)
        self._service.metrics.enrolments.labels(asked.model.name).inc()
        return {"model": asked.model.name, **asdict(learned.enrolled), "seconds": learned.seconds, "stored": True}

    def _give_way(self, abandoned: threading.Event) -> None:
        """Answer those who wait, between two batches of what is learned."""
        if abandoned.is_set():
            raise AbandonedError
        self._service.batcher.give_way()

    async def _remove(self, path: bytes, name: str | None) -> dict[str, Any]:
        model, attribute, value = read_removal(path, name, self._service.models)
        folder = live_run(model).folder.path
        for other in self._service.models.values():
            if folder in Path(other.source).resolve().parents and other is not model:
                reason = f"model {other.name!r}, which was trained beside it, is served too, and would know the value: "
                raise Refused(409, "model", f"{reason}stop the service, and use `attribune forget`")
        try:
            done = await asyncio.wrap_future(self.writer.remove(model, attribute, value))
        except HeldError:
            raise
        except ConfigError as error:
            raise Refused.because_of(error, 404, "value") from None
        self._service.metrics.removals.labels(model.name).inc()
        places = [str(Path(place).relative_to(folder)) for place in done.places]
        return {
            "model": model.name,
            "attribute": attribute,
            "value": value,
            "models": len(done.models),
            "predictions": done.predictions,
            "checkpoints": len(done.checkpoints),
            "notes": done.notes,
            "remaining": [*places, *done.undecided],
        }
