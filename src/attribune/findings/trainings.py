"""The sentences of the rows of a training: what was read, left out and never learned."""

from __future__ import annotations

import json

from attribune.core.door import as_argument
from attribune.core.wording import counted, listed_counts
from attribune.findings.sentences import Sentences, Values

_SHOWN_CLASSES, _EXAMPLES = 20, 5


def if_labels() -> str:
    """Return what to do if words that count as no label are labels."""
    return (
        "these words count as no label; if one of them is a label, name the words that are none, without it, as in "
        f"{as_argument('task.missing', [''])}"
    )


def _out_of_fold(values: Values) -> str:
    """Each row is scored by the model of a fold."""
    said = (
        f"each of the {values['rows']:,} rows is scored by a model that has not read it, one of {values['folds']} that "
        "are trained for that; the model that is saved learns from all rows but a tenth, which validates, and is "
        "probably a little better"
    )
    cure = as_argument("data.split.folds", 0)
    return f"{said}. To train one model, and score a tenth of the rows: {cure}" if values["is_chosen"] else said


def _rows_read(values: Values) -> str:
    """How many rows were read, and from where."""
    limit = "" if values["limit"] is None else f", at most its first {values['limit']:,}"
    return f"{counted(values['rows'], 'row')} read from {values['source']}{limit}"


def _without_label(values: Values) -> str:
    """Rows without a label are left out."""
    words = f": {values['words']}; {if_labels()}" if values["words"] else ""
    return f"{counted(values['rows'], 'row')} without a label left out{words}"


def outside_scale(values: Values) -> str:
    """Return how many rows have a label outside the scale of the task."""
    return f"{values['rows']:,} of {values['of']:,} rows have a label outside the scale of the task {values['task']!r}"


def _outside_scale(values: Values) -> str:
    """Rows with a label outside the scale of the task are left out."""
    return f"{outside_scale(values)}, and are left out: {values['listed']}"


def _class_counts(values: Values) -> str:
    """How many training rows each class has."""
    rows = values["rows"]
    if len(rows) > _SHOWN_CLASSES:
        return f"{len(rows):,} classes, of {min(rows.values()):,} to {max(rows.values()):,} rows"
    return f"rows of each class: {listed_counts(rows, most=_SHOWN_CLASSES)}"


def _hardly_learned(values: Values) -> str:
    """Classes have too few training rows to be learned."""
    rows = values["rows"]
    return (
        f"{counted(len(rows), 'class', 'classes')} with fewer than {values['least']} rows "
        f"({listed_counts(rows, most=_SHOWN_CLASSES)}), which a model can hardly learn: add rows, or join classes"
    )


def _absent_classes(values: Values) -> str:
    """Rows on which a model is scored lack classes."""
    classes = values["classes"]
    listed = ", ".join(map(repr, classes[:_EXAMPLES])) + (", ..." if len(classes) > _EXAMPLES else "")
    return f"no row of {counted(len(classes), 'class', 'classes')} ({listed}), about which its figures say nothing"


def _not_learned(values: Values) -> str:
    """Training rows have labels that are no class of the run that is trained further."""
    return f"{_have_a_label(values)} is none of its classes and is not learned: {_labels(values)}"


def _not_in_training(values: Values) -> str:
    """Rows on which a model is scored have labels that no training row has."""
    about = "no model can predict it, which counts as wrong"
    return f"{_have_a_label(values)} no training row has: {_labels(values)}; {about}"


def _have_a_label(values: Values) -> str:
    return f"{counted(values['rows'], 'row has', 'rows have')} a label that"


def _labels(values: Values) -> str:
    examples = values["examples"]
    more = f", and {values['labels'] - len(examples):,} others" if values["labels"] > len(examples) else ""
    return ", ".join(f"{label!r} ({count:,})" for label, count in examples.items()) + more


def _trained_before(values: Values) -> str:
    """Rows on which a model is scored were training rows of the run that is trained further."""
    return (
        f"{counted(values['rows'], 'row has', 'rows have')} a text on which {values['run']} was trained, which this "
        "training continues: its figures are too high"
    )


def _values_dropped(values: Values) -> str:
    """Rows have more values of an attribute than are kept."""
    cure = {"kind": values["kind"], "name": values["name"], "separator": values["separator"]}
    listed = ", ".join(f"{key}: {json.dumps(value)}" for key, value in cure.items() if value is not None)
    return (
        f"attribute {values['name']!r}: {values['dropped']:,} values dropped, since a row keeps at most "
        f"{values['slots']:,}: raise its max_per_row in data.attributes, as in "
        f"{{{listed}, max_per_row: {2 * values['slots']}}}"
    )


def _tags_without_form(values: Values) -> str:
    """Tags keep the others from being counted as entities."""
    examples = values["examples"]
    shown = ", ".join(f"{tag!r} ({count:,} words)" for tag, count in examples.items())
    more = f", and {values['tags'] - len(examples):,} others" if values["tags"] > len(examples) else ""
    return (
        f"the tags {shown}{more} have no form such as O, B-PER or I-PER, so all are scored word by word, and "
        "the accuracy selects the weights in place of the F1 of entities: correct them, or set "
        "task.scheme=conll, which takes each word with one of them for an entity"
    )


SENTENCES: Sentences = {
    "rows-read": _rows_read,
    "left-out-without-text": "{rows:# row} without a text left out",
    "left-out-without-label": _without_label,
    "left-out-outside-scale": _outside_scale,
    "left-out-weight-zero": "{rows:# row} of weight 0 left out",
    "no-test-rows": "no test rows: a validation file was given without a test file, so only validation is scored",
    "texts-of-training": "{texts:,} of its texts are also among the training texts: its figures are too high",
    "trained-before": _trained_before,
    "class-counts": _class_counts,
    "hardly-learned-classes": _hardly_learned,
    "absent-classes": _absent_classes,
    "labels-not-learned": _not_learned,
    "labels-not-in-training": _not_in_training,
    "tags-without-form": _tags_without_form,
    "values-dropped": _values_dropped,
    "scored-out-of-fold": _out_of_fold,
    "window-lengthened": "{longer:.0%} of the texts are longer than {usual} tokens, so up to {size} are read of each, "
    "which takes about {cost:.1f} times as long, and more memory: set max_length to read another number",
    "values-unread": "{count:,} of {values:,} values of {attribute} have words that the tokenizer of the backbone does "
    "not know, and that are read alike: choose another backbone or method",
    "answers-not-in-window": "{answers:,} of {rows:,} answers are whole in no window of {window}, and learned as if "
    "there were none: raise max_length",
}
