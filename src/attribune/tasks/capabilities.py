"""What can be done with which task: every refusal "this task cannot do that" is a line of the table `VERBS`.

A verb is answered by the task's kind of input, `Task.input`, so that tasks of other packages have an answer too, and
where that does not decide, by the task itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attribune.errors import ConfigError
from attribune.tasks.base import Task
from attribune.tasks.inputs import ComparedTexts, ScoredTokens, SingleText, TaskInput, WrittenText
from attribune.tasks.regression import Regression


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Something that can be done with a task, with its model or with its rows.

    Messages are templates: ``{task}`` is the kind of the task, ``{does}`` what its input does, ``{what}`` that of the
    verb, ``{several}`` empty but for several labels per row, and others are given where the verb is asked for.

    Args:
        name: what the tables of the documentation call it.
        what: what messages call it.
        refuses: the kinds of input whose tasks cannot, with the message.
        needs: whether a task of another input can; by default all can.
        lacking: the message for a task that does not have what it `needs`.
    """

    name: str
    what: str = ""
    refuses: Mapping[type[TaskInput], str] = field(default_factory=dict)
    needs: Callable[[Task], bool] = lambda task: True
    lacking: str = ""


def can(task: Task | type[Task], verb: Verb) -> bool:
    """Whether the verb can be done with a task; of a class, whether its kind of input allows it."""
    return _template(task, verb) is None


def why_not(task: Task | type[Task], verb: Verb, **named: Any) -> str | None:
    """Return why the verb cannot be done with a task, None if it can.

    Args:
        named: what the message names beside the task.
    """
    template = _template(task, verb)
    if template is None:
        return None
    choices = () if isinstance(task, type) else task.codec.choices
    several = "" if all(choice.codec.has_one_class for choice in choices) else " with several labels per row"
    known = {"task": task.kind, "does": task.input.does, "what": verb.what, "several": several}
    return template.format(**(known | named))


def require(task: Task | type[Task], verb: Verb, **named: Any) -> None:
    """Raise a ConfigError if the verb cannot be done with a task; arguments as in `why_not`."""
    if (reason := why_not(task, verb, **named)) is not None:
        raise ConfigError(reason)


def _template(task: Task | type[Task], verb: Verb) -> str | None:
    for kind, words in verb.refuses.items():
        if isinstance(task.input, kind):
            return words
    return None if isinstance(task, type) or verb.needs(task) else verb.lacking


def _has_answers(task: Task) -> bool:
    """Whether a row has one answer of several, with probabilities, or one number."""
    return isinstance(task, Regression) or task.codec.answers(np.zeros((1, task.outputs))) is not None


def _is_linear(task: Task) -> bool:
    """Whether a linear model can be fitted to the labels."""
    return isinstance(task, Regression) or bool(task.codec.choices)


def _has_vectors(task: Task) -> bool:
    """Whether the model reads a text as one vector: of compared texts, whether it compares their vectors."""
    return not isinstance(task.input, ComparedTexts) or not task.head.outputs


_DOES = "the task {task!r} {does}"
_ONE_SCORE = (
    "{what} is for tasks with one score for a whole text, and {task!r} {does}: use `attribune evaluate`, `predict`, "
    "`report`, `ablate` or `serve`"
)
_ONE_ANSWER = (
    "{what} is for tasks with one answer of several, or a number, and this is {task!r}{several}: predict for each "
    "value alone"
)
_ONE_CELL = "the labels of the task {task!r} are more than one cell: use `attribune enrol`"
_VECTORS = "vectors are of whole texts, and the task {task!r} {does}: use Predictor.predict"
_NO_REWARD = "rewards are of texts of which one is preferred, and the task {task!r} {does}: use Predictor.predict"
_WHOLE = dict.fromkeys((ScoredTokens, ComparedTexts), _ONE_SCORE)

EXPLAIN = Verb(name="`attribune explain`", what="explain", refuses=_WHOLE)
PLAYGROUND = Verb(
    name="`attribune playground`",
    what="the playground",
    refuses={
        **_WHOLE,
        WrittenText: "{run} writes text, which the playground does not show: use `attribune generate`",
    },
)
PANEL = Verb(
    name="`attribune predict --panel`",
    what="a panel",
    refuses=dict.fromkeys((ScoredTokens, WrittenText), _ONE_ANSWER),
    needs=_has_answers,
    lacking=_ONE_ANSWER,
)
NEXT = replace(PANEL, name="`attribune next`", what="the next text")
GENERATE = Verb(
    name="`attribune generate`",
    refuses=dict.fromkeys(
        (SingleText, ComparedTexts, ScoredTokens), "{run} has the task {task!r}, which writes no text: use {cure}"
    ),
)
ENROL = Verb(
    name="`attribune enrol`",
    needs=lambda task: task.codec.has_row_losses,
    lacking="the task {task!r} learned from pairs, each beside the others of its batch, of which a new value has too "
    "few: train further with its rows{cure}",
)
LIVE = Verb(
    name="`attribune serve --enrol`",
    refuses=dict.fromkeys((ScoredTokens, ComparedTexts), _ONE_CELL),
    needs=lambda task: len(task.codec.choices) <= 1,
    lacking=_ONE_CELL,
)
EXPORT = Verb(name="`attribune export` to a folder", what="export", refuses=_WHOLE)
PEFT = Verb(
    name="`attribune export` to a folder that peft loads",
    what="export",
    refuses=_WHOLE,
    needs=lambda task: task.head.build_link() is None,
    lacking="the task {task!r} has cut points, which a folder of peft does not hold",
)
GRAPH = Verb(
    name="`attribune export --format onnx` or `torch`",
    what="export",
    refuses={
        **_WHOLE,
        WrittenText: "{argument} is for models with one score for a whole text, and {run} writes: choose {cure}",
    },
)
INT8 = Verb(
    name="`attribune export --quantise int8`",
    what="export",
    refuses=GRAPH.refuses,
    needs=lambda task: bool(task.answer_names),
    lacking="{argument} is checked by probabilities, and the task {task!r} has none: leave it out",
)
AUTO = Verb(
    name="`--method auto`",
    refuses=dict.fromkeys(
        (ScoredTokens, ComparedTexts, WrittenText), "the task {task!r} has no method 'auto': name a method"
    ),
)
LINEAR = Verb(
    name="the methods `linear`, `attributes-only`, `intercept`, `heads`, `boosting` and `automl`; ensembles with them",
    what="the linear baseline",
    needs=_is_linear,
    lacking="{what} cannot learn the task {task!r}: leave it out of the comparison, or choose another method",
)
MAJORITY = Verb(name="the baseline `majority` of a run", refuses={WrittenText: _DOES})
VALUE_PRIORS = Verb(
    name="a learned prior of new values",
    refuses=dict.fromkeys((ScoredTokens, WrittenText), _DOES),
    needs=lambda task: task.codec.has_row_losses,
    lacking="the loss of the task {task!r} is not one of single rows",
)
CALIBRATION = Verb(
    name="a temperature that calibrates the probabilities",
    refuses=dict.fromkeys((ScoredTokens, WrittenText), _DOES),
    needs=lambda task: bool(task.answer_names),
    lacking="the task {task!r} has no probabilities",
)
PROCESSES = Verb(
    name="training in several processes",
    refuses={ScoredTokens: "the task {task!r} is trained in one process, and there are {count}: start one"},
)
SHARED_BATCHES = Verb(
    name="batches that several models share",
    refuses={
        ScoredTokens: "it scores tokens, in windows of its own",
        ComparedTexts: "it compares texts",
        WrittenText: "it writes text",
    },
)
ENCODE = Verb(
    name="`Predictor.encode`",
    refuses=dict.fromkeys((ScoredTokens, WrittenText), _VECTORS),
    needs=_has_vectors,
    lacking=_VECTORS,
)
REWARD = Verb(
    name="`Predictor.reward`",
    refuses=dict.fromkeys((SingleText, ScoredTokens, WrittenText), _NO_REWARD),
    needs=lambda task: bool(task.head.outputs),
    lacking=_NO_REWARD,
)
WRITTEN = Verb(
    name="values that are written in front of a text",
    refuses=dict.fromkeys(
        (ScoredTokens, ComparedTexts, WrittenText),
        "values are written in front of one text, which is scored as a whole, and the task {task!r} {does}: leave "
        "{argument} out",
    ),
)
EMBEDDINGS = Verb(name="`inputs_embeds` in place of ids", refuses={ComparedTexts: _DOES})
PIPELINE = Verb(
    name="the pipeline of transformers",
    what="attribute-classification",
    needs=lambda task: [choice.name for choice in task.codec.choices] == [""],
    lacking="{what} is for tasks with classes, and this model's is {task!r}: use Predictor, whose predictions have "
    "every form",
)
VERBS = tuple(verb for verb in globals().values() if isinstance(verb, Verb))
"""All verbs above, in their order."""
