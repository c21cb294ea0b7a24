"""The kinds of input: what of a row a task reads, as one object that every layer asks."""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ComparedTexts",
    "QuestionAndContext",
    "ScoredTokens",
    "SingleText",
    "TaskInput",
    "WordList",
    "WrittenText",
]


class TaskInput:
    """What of a row a task reads; one for each kind of input.

    ``name`` is that under which its reader is found (`attribune.data.readers`), and ``does`` what its tasks do where
    others score a whole text, in the words of messages.
    """

    name: ClassVar[str]
    does: ClassVar[str] = "scores whole texts"


class SingleText(TaskInput):
    """One text, or a pair that is read together."""

    name = "text"


class ComparedTexts(TaskInput):
    """Several texts of a row, each read for itself."""

    name = "compared"
    does = "compares texts"


class ScoredTokens(TaskInput):
    """A text whose tokens are scored, in windows; the parent of those that say how it is given."""

    does = "scores tokens"


class WordList(ScoredTokens):
    """A list of words, each of which is scored."""

    name = "words"


class QuestionAndContext(ScoredTokens):
    """A question, and a context whose tokens are scored."""

    name = "passage"


class WrittenText(TaskInput):
    """A text that the model writes, perhaps after a prompt."""

    name = "written"
    does = "writes text"
