"""Requests that succeed, made from the attributes and the task of the models that are served."""

from __future__ import annotations

from typing import Any

from attribune.apps.serve.bodies import Refused
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import read_row
from attribune.apps.serve.settings import ServeSettings
from attribune.apps.serve.value_requests import check_label, check_new_value
from attribune.schema import FittedAttribute, MultiLabel, Numeric

__all__ = ["chat_example", "completion_example", "enrolment_example", "prediction_example"]

_TEXT = "A joy from start to end."
_NEW = "a new one"


def prediction_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    """Return a text with attributes of a model, each with its most frequent value, unless those are hidden."""
    names = model.predictor.text_input.names
    text: Any = _TEXT if len(names) == 1 else dict.fromkeys(names, _TEXT)
    return {"text": text, "attributes": _attributes(model, settings)}


def completion_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a prompt with attributes; None for a model that writes no text."""
    example = chat_example(model, settings)
    return None if example is None else {"prompt": example.pop("messages")[0]["content"], **example}


def chat_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a message with attributes; None for a model that writes no text."""
    if model.writer is None:
        return None
    messages = [{"role": "user", "content": "A joy"}]
    return {"messages": messages, "attributes": _attributes(model, settings), "max_tokens": 8}


def enrolment_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a new value of an attribute with a labelled text; None for a model that learns none."""
    attribute = next((one for one in model.attributes if one.spec.lists_values), None)
    if model.live is None or model.live.refusal is not None or attribute is None:
        return None
    row = prediction_example(model, settings)
    row["attributes"].pop(attribute.name, None)
    label = next((label for label in _labels(model) if _is_label(label, model)), None)
    if label is None or not _is_new(attribute, model):
        return None
    return {"attribute": attribute.name, "value": _NEW, "rows": [{**row, "label": label}]}


def _attributes(model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    attributes = [one for one in model.attributes if isinstance(one.spec, Numeric) or not settings.hide_unknown]
    values = {attribute.name: _value(attribute) for attribute in attributes}
    return {
        name: value for name, value in values.items() if value is not None and _is_read(name, value, model, settings)
    }


def _value(attribute: FittedAttribute) -> Any:
    """Return the most frequent value of an attribute; None where none is listed."""
    if isinstance(attribute.spec, Numeric):
        return attribute.edges[0] if attribute.edges else 0.0
    if not len(attribute.values):
        return None
    value = attribute.values[int(attribute.counts[1:].argmax())]
    return [value] if isinstance(attribute.spec, MultiLabel) else value


def _is_read(name: str, value: Any, model: ServedModel, settings: ServeSettings) -> bool:
    """Whether a value means itself; those of other kinds may be derived from what a caller writes."""
    try:
        read_row({"text": {}, "attributes": {name: value}}, "", model, settings)
    except Refused:
        return False
    return True


def _labels(model: ServedModel) -> list[Any]:
    """Return what may be a label: a class, several, or what is predicted when all scores are 0."""
    task = model.predictor.task
    classes: Any = getattr(task, "class_names", ())
    predicted = task.decode(task.empty_scores(1)).columns().get("prediction", [None])[0]
    return [*classes[:1], [*classes[:1]], *([predicted] if isinstance(predicted, str | float | int) else []), 1.0]


def _is_label(label: Any, model: ServedModel) -> bool:
    try:
        check_label(label, 0, model)
    except Refused:
        return False
    return True


def _is_new(attribute: FittedAttribute, model: ServedModel) -> bool:
    try:
        check_new_value(_NEW, attribute, model)
    except Refused:
        return False
    return True
