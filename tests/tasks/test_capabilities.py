"""Every task answers every verb, those of other packages by what they read."""

from __future__ import annotations

from typing import Any

import pytest
from every_task import LABELS

from attribune.errors import ConfigError
from attribune.tasks import TASKS, Classification, Regression, Task, fit_task
from attribune.tasks.capabilities import EXPLAIN, PANEL, PROCESSES, VERBS, Verb, can, require, why_not
from attribune.tasks.inputs import ComparedTexts, ScoredTokens, TaskInput, WrittenText

NAMED = {"run": "runs/stars", "argument": "quantise='int8'", "cure": "another", "count": 2}


def made(kind: str) -> Task:
    columns, options = LABELS[kind]
    return fit_task(kind, columns, **options)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("kind", TASKS)
def test_every_task_answers_every_verb(kind: str, verb: Verb) -> None:
    task = made(kind)
    reason = why_not(task, verb, **NAMED)
    assert can(task, verb) == (reason is None)
    assert reason is None or (reason and "{" not in reason)
    assert can(TASKS[kind], verb) or not can(task, verb)  # a class knows what its input refuses


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_some_task_can_and_some_cannot(verb: Verb) -> None:
    assert len({can(made(kind), verb) for kind in TASKS}) == 2


@pytest.mark.parametrize("read", [ComparedTexts, ScoredTokens, WrittenText])
def test_a_task_of_another_package_is_answered_by_its_input(read: type[TaskInput]) -> None:
    class Foreign(Regression):
        kind = "foreign"
        input = read()

    expected = {verb.name: read in verb.refuses for verb in VERBS}
    assert {verb.name: not can(Foreign, verb) for verb in VERBS} == expected
    assert not can(Foreign(), EXPLAIN) or read is WrittenText


SEVERAL = Classification(classes=("a", "b"), multi_label=True)


@pytest.mark.parametrize(
    ("task", "verb", "named", "message"),
    [
        (made("tags"), EXPLAIN, {"what": "weighing words"}, "weighing words is for tasks .* and 'tags' scores tokens:"),
        (TASKS["spans"], PROCESSES, {"count": 2}, "the task 'spans' is trained in one process, and there are 2: "),
        (SEVERAL, PANEL, {}, "a panel is for .* this is 'classification' with several labels per row: predict"),
    ],
)
def test_a_refusal_names_the_task(task: Task | type[Task], verb: Verb, named: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require(task, verb, **named)
