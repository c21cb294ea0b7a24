"""The kinds of input: what of a row a task reads, as one object that every layer asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from attribune.core.door import as_argument
from attribune.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import Tensor

    from attribune.methods import MethodConfig

Names = tuple[str, ...]
Spans = Callable[[Sequence[str]], str]
"""Writes the names of columns as a card does."""


@dataclass(frozen=True, kw_only=True)
class InputSettings:
    """What a recipe says of the rows, and of the model that reads them.

    Attributes:
        text: the columns of the text; likewise `pair`, `negative` and `prompt`, and those of `label` and `attributes`.
        chat: whether prompts are put into a chat template.
        partial_labels: whether training rows may have some of several labels.
        written: the attributes that are chosen to be written in front of a text.
        window: which part of a long text is read; `is_head` whether it is the beginning alone, `is_chunked` whether
            the text is read in chunks.
        options: those of the task that are given.
        method: what acts in a backbone; None for a baseline.
        method_name: the name of the method or of the baseline.
        backbone: its name, and `is_pretrained` whether there are pretrained weights of it.
        added_tokens, pooling, head_size, batch_size: settings of the same names.
    """

    text: Names
    pair: Names = ()
    negative: Names = ()
    prompt: Names = ()
    chat: bool = False
    label: Names = ()
    partial_labels: bool = False
    attributes: Names = ()
    attribute_columns: Names = ()
    written: Names = ()
    window: str
    is_head: bool
    is_chunked: bool
    options: Mapping[str, Any]
    method: MethodConfig | None
    method_name: str
    backbone: str
    is_pretrained: bool
    added_tokens: str
    pooling: str | None
    head_size: int | None
    batch_size: int

    @property
    def texts(self) -> Names:
        """The columns of all texts but the prompt."""
        return (*self.text, *self.pair, *self.negative)

    def in_backbone(self, task: str, *, lacks: str) -> MethodConfig:
        """Return the method; ConfigError for a baseline, which `lacks` what the task needs."""
        if self.method is None:
            raise ConfigError(
                f"method {self.method_name!r} {lacks}, as the task {task!r} does: choose one that acts in a backbone"
            )
        return self.method


class _Texts(Protocol):
    """The columns of texts: `attribune.data.texts.TextInput`."""

    def read_all(self, table: Any, *, words: bool) -> list[str]:
        """Return all texts of each row in one."""


class TaskInput:
    """What of a row a task reads; one for each kind of input.

    ``name`` is that under which its reader is found (`attribune.data.readers`), and ``does`` what its tasks do where
    others score a whole text, in the words of messages; ``scores`` says what
    has a vector of its own that the head reads.

    ``reads_words`` says whether a text is a list of words, ``reads_negative`` whether there may be a text that fits
    less than the second, ``needs_every_text`` whether a row without one of its texts is of no use,
    ``needs_every_label`` the same of its labels, ``has_objects`` whether a label may be an object,
    ``has_several_labels`` whether there may be several columns of labels, ``writes`` whether predictions are texts, and
    ``needs_token_states`` what the task does that needs a state for each token of the backbone.
    """

    name: ClassVar[str]
    does: ClassVar[str] = "scores whole texts"
    scores: ClassVar[Literal["texts", "tokens"]] = "texts"
    reads_words: ClassVar[bool] = False
    reads_negative: ClassVar[bool] = False
    needs_every_text: ClassVar[bool] = False
    needs_every_label: ClassVar[bool] = True
    has_objects: ClassVar[bool] = False
    has_several_labels: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    needs_token_states: ClassVar[str] = ""

    def check(self, settings: InputSettings, *, task: str) -> None:
        """Refuse columns and settings that a task does not have, or that it lacks.

        Raises:
            ConfigError: naming the task, the setting and the cure.
        """
        if settings.negative and not self.reads_negative:
            raise ConfigError(f"task {task!r} reads no text_negative, as similarity does: leave it out")
        if len(settings.label) > 1 and not self.has_several_labels:
            raise ConfigError(
                f"task {task!r} reads one label column, {len(settings.label)} are named: name one, or choose the task "
                "aspects"
            )

    def check_method(self, method: MethodConfig, *, task: str) -> None:
        """Refuse a method that does not give what a task scores; by default none."""
        return

    def options(self, settings: InputSettings) -> dict[str, Any]:
        """Return the options of the task that follow from the columns."""
        return {}

    def answers(self, settings: InputSettings) -> Names:
        """Return the columns that a model predicts, as they stand beside its predictions."""
        return settings.label

    def label_columns(self, settings: InputSettings) -> Names:
        """Return the columns of which the labels are made: the answers, with the texts that they are about."""
        return self.answers(settings)

    def shown_columns(self, settings: InputSettings) -> dict[str, list[str]]:
        """Return the columns of prompt and label, as far as the task has them, for a description of the run."""
        prompt = {"prompt": list(settings.prompt)} if settings.prompt else {}
        return {**prompt, "label": list(settings.label)}

    def shown_texts(self, settings: InputSettings) -> Names:
        """Return the columns that a card names as the text."""
        return settings.text

    def prediction_words(self, settings: InputSettings, *, outputs: int, spans: Spans) -> str:
        """Say what is predicted of which columns, behind the name of the task."""
        return f"of {spans(self.answers(settings))}, {outputs} outputs"

    def label_words(self, settings: InputSettings, *, spans: Spans) -> str:
        """Say which columns are the label."""
        return spans(settings.label)

    def read_texts(self, text: _Texts, table: Any) -> list[str]:
        """Return all texts of each row of a table in one, those of words with spaces between them."""
        return text.read_all(table, words=self.reads_words)

    @staticmethod
    def _check_labelled(settings: InputSettings, task: str) -> None:
        if not settings.label:
            raise ConfigError(
                f"no label column is named: name it with {as_argument('data.label')}, or choose the task generation, "
                "which needs none"
            )
        if settings.prompt or settings.chat:
            raise ConfigError(f"task {task!r} reads no prompt: name its columns as text, and leave chat out")

    def single_texts(self, inputs: dict[str, Tensor], *, texts: int, task: str) -> tuple[dict[str, Tensor], int]:
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

    def check(self, settings: InputSettings, *, task: str) -> None:
        """Refuse rows without labels, and prompts."""
        self._check_labelled(settings, task)
        super().check(settings, task=task)


class ComparedTexts(TaskInput):
    """Several texts of a row, each read for itself."""

    name = "compared"
    does = "compares texts"
    needs_every_text = True

    def check(self, settings: InputSettings, *, task: str) -> None:
        """Refuse what a task does not have that compares texts."""
        self.check_method(settings.in_backbone(task, lacks="compares no texts"), task=task)
        self._check_texts(settings, task)
        if both := sorted({*settings.prompt, *settings.attribute_columns}.intersection(settings.texts)):
            raise ConfigError(
                f"column {', '.join(both)} is a text that is compared and also the prompt or an attribute: name it once"
            )
        if settings.chat or settings.partial_labels:
            what = "chat" if settings.chat else "partial_labels"
            raise ConfigError(f"task {task!r} has no {what}: leave it out")
        super().check(settings, task=task)

    def check_method(self, method: MethodConfig, *, task: str) -> None:
        """Refuse a method that reads other rows in front of a text."""
        from attribune.methods import check_compares  # here, since tasks are also used without torch

        check_compares(method, task=task)

    def _check_texts(self, settings: InputSettings, task: str) -> None:
        if len(settings.text) != 1 or len(settings.pair) != 1:
            raise ConfigError(
                f"task {task!r} compares two texts: name one column of each, with {as_argument('data.text')} and "
                f"{as_argument('data.text_pair')}, the preferred one first where there is no label, and what stands "
                f"before both with {as_argument('data.prompt')}"
            )

    def label_columns(self, settings: InputSettings) -> Names:
        """Return the labels, if there are any, and the texts."""
        return (*settings.label, *settings.texts)

    def shown_texts(self, settings: InputSettings) -> Names:
        """Return the prompt and the first two texts."""
        return (*settings.prompt, *settings.text, *settings.pair)

    def prediction_words(self, settings: InputSettings, *, outputs: int, spans: Spans) -> str:
        """Say which texts have a reward."""
        return f"between {spans(settings.texts)}, one reward for each"

    def label_words(self, settings: InputSettings, *, spans: Spans) -> str:
        """Say which column is the label, or what stands for it."""
        return spans(settings.label) if settings.label else "none, the first text is the preferred one"

    def single_texts(self, inputs: dict[str, Tensor], *, texts: int, task: str) -> tuple[dict[str, Tensor], int]:
        """Return the texts of the rows, one after the other."""
        shape = inputs["input_ids"].shape
        if len(shape) != 3 or shape[1] != texts:
            raise DataError(
                f"input_ids have the shape {tuple(shape)}, but the task {task!r} compares {texts} texts of each "
                "row: make batches with model.collator()"
            )
        return {name: x.flatten(0, 1) for name, x in inputs.items()}, texts

    def exactly(self, device: str) -> AbstractContextManager[object]:
        """Return a context without autocast: what is compared differs by little, which rounding to bf16 would lose."""
        import torch

        return torch.autocast(device, enabled=False)


class ScoredTokens(TaskInput):
    """A text whose tokens are scored, in windows; the parent of those that say how it is given."""

    does = "scores tokens"
    scores = "tokens"
    needs_every_label = False
    has_objects = True
    needs_token_states = "scores words"

    def check(self, settings: InputSettings, *, task: str) -> None:
        """Refuse what a task does not have that scores tokens."""
        self._check_labelled(settings, task)
        self.check_method(settings.in_backbone(task, lacks="scores no tokens"), task=task)
        if not settings.is_head:
            raise ConfigError(
                f"task {task!r} reads a long text in windows of max_length tokens that overlap, not in "
                f"{settings.window}: leave window out"
            )
        if settings.pooling is not None:
            raise ConfigError(f"task {task!r} has no document vector: leave backbone.pooling out")
        if settings.partial_labels:
            raise ConfigError(f"task {task!r} has one label for each row: leave partial_labels out")
        self._check_texts(settings, task)
        super().check(settings, task=task)

    def check_method(self, method: MethodConfig, *, task: str) -> None:
        """Refuse a method that acts at the whole text, or at its vector."""
        from attribune.methods import check_reads_tokens  # here, since tasks are also used without torch

        check_reads_tokens(method, task=task)

    def _check_texts(self, settings: InputSettings, task: str) -> None:
        """Check the number of columns."""

    def label_columns(self, settings: InputSettings) -> Names:
        """Return the labels and the text whose tokens they are about."""
        return (*settings.label, *(settings.pair or settings.text))


class WordList(ScoredTokens):
    """A list of words, each of which is scored."""

    name = "words"
    reads_words = True

    def _check_texts(self, settings: InputSettings, task: str) -> None:
        if len(settings.text) > 1 or settings.pair:
            raise ConfigError(
                f"task {task!r} reads one column of words: name one with {as_argument('data.text')}, and no second text"
            )


class QuestionAndContext(ScoredTokens):
    """A question, and a context whose tokens are scored."""

    name = "passage"
    has_several_labels = True

    def _check_texts(self, settings: InputSettings, task: str) -> None:
        if len(settings.text) != 1 or len(settings.pair) != 1:
            raise ConfigError(
                f"task {task!r} reads a question and a context: name one column of each, with "
                f"{as_argument('data.text')} and {as_argument('data.text_pair')}"
            )


class WrittenText(TaskInput):
    """A text that the model writes, perhaps after a prompt."""

    name = "written"
    does = "writes text"
    writes = True

    def check(self, settings: InputSettings, *, task: str) -> None:
        """Refuse what a model does not have that writes text."""
        if settings.label or settings.partial_labels:
            raise ConfigError(f"task {task!r} learns the text itself: leave label and partial_labels out")
        if settings.pair:
            raise ConfigError(
                f"task {task!r} reads no pair of texts: name the second text with {as_argument('data.prompt')}"
            )
        if both := sorted({*settings.prompt, *settings.attribute_columns}.intersection(settings.text)):
            raise ConfigError(
                f"column {', '.join(both)} is the text that is written and also a prompt or an attribute: the model "
                "would read the answer; name it as the text only"
            )
        if settings.chat and not settings.prompt:
            raise ConfigError(
                f"a chat template needs a prompt: name its columns with {as_argument('data.prompt')}, or leave chat out"
            )
        if settings.method is None or "text" in settings.method.points:
            raise ConfigError(f"method {settings.method_name!r} writes no text: choose one that acts in a backbone")
        if settings.pooling is not None:
            raise ConfigError(f"task {task!r} has no document vector: leave backbone.pooling out")
        if settings.added_tokens != "refuse":
            raise ConfigError(
                f"backbone.added_tokens is {settings.added_tokens}, which a model that writes text does not have: add "
                "embeddings with transformers (resize_token_embeddings), or leave it out"
            )
        if not settings.is_pretrained:
            raise ConfigError(f"the backbone {settings.backbone!r} writes no text: choose a language model")
        super().check(settings, task=task)

    def answers(self, settings: InputSettings) -> Names:
        """Return the columns of the text itself."""
        return settings.text

    def shown_columns(self, settings: InputSettings) -> dict[str, list[str]]:
        """Return the columns of the prompt; there is no label."""
        return {"prompt": list(settings.prompt)}

    def prediction_words(self, settings: InputSettings, *, outputs: int, spans: Spans) -> str:
        """Say which text is written."""
        return f"of {spans(settings.text)}"
