"""The kinds of input: what of a row a task reads, as one object that every layer asks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from attribune.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ComparedTexts",
    "QuestionAndContext",
    "ScoredTokens",
    "SingleText",
    "TaskInput",
    "WordList",
    "WrittenText",
]


class _OfTexts(Protocol):
    """What is asked of a task here."""

    kind: ClassVar[str]

    @property
    def candidates(self) -> int:
        """How many texts of a row are read."""


class TaskInput:
    """What of a row a task reads; one for each kind of input.

    ``name`` is that under which its reader is found (`attribune.data.readers`), and ``does`` what its tasks do where
    others score a whole text, in the words of messages; ``scores``
    says what has a vector of its own that the head reads.
    """

    name: ClassVar[str]
    does: ClassVar[str] = "scores whole texts"
    scores: ClassVar[Literal["texts", "tokens"]] = "texts"

    def single_texts(self, inputs: dict[str, Tensor], task: _OfTexts) -> tuple[dict[str, Tensor], int]:
        """Return what the backbone reads, (B C, T), and how many texts C a row has.

        Args:
            inputs: ``input_ids``, mask and types of a batch.

        Raises:
            DataError: for a batch of other texts.
        """
        return inputs, 1

    def exactly(self, device: str) -> AbstractContextManager[object]:
        """Return the context in which documents are scored; by default in the precision of the pass."""
        return nullcontext()


class SingleText(TaskInput):
    """One text, or a pair that is read together."""

    name = "text"


class ComparedTexts(TaskInput):
    """Several texts of a row, each read for itself."""

    name = "compared"
    does = "compares texts"

    def single_texts(self, inputs: dict[str, Tensor], task: _OfTexts) -> tuple[dict[str, Tensor], int]:
        """Return the texts of the rows, one after the other."""
        shape, count = inputs["input_ids"].shape, task.candidates
        if len(shape) != 3 or shape[1] != count:
            raise DataError(
                f"input_ids have the shape {tuple(shape)}, but the task {task.kind!r} compares {count} texts of each "
                "row: make batches with model.collator()"
            )
        return {name: x.flatten(0, 1) for name, x in inputs.items()}, count

    def exactly(self, device: str) -> AbstractContextManager[object]:
        """Return a context without autocast: what is compared differs by little, which rounding to bf16 would lose."""
        import torch

        return torch.autocast(device, enabled=False)


class ScoredTokens(TaskInput):
    """A text whose tokens are scored, in windows; the parent of those that say how it is given."""

    does = "scores tokens"
    scores = "tokens"


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
