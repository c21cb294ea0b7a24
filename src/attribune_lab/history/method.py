"""``history``: earlier rows of the same value in front of the text, each with its label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, PositiveInt

from attribune.backbones.placement import Placement
from attribune.errors import ConfigError
from attribune.methods.base import Method
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.schema import Categorical, Schema


class History(AttributeMethodConfig):
    """The plain backbone reads training rows of the row's value in front of its text, each as "text → label".

    A baseline that learns nothing for a value: its rows are stored with the model, texts and labels, and read again
    for each prediction. Rows with the same text as the one that is scored are never among them. The backbone is
    fine-tuned by default.

    Args:
        attribute: the attribute whose values have histories; by default the first categorical one, or the first of all.
        k: maximum number of rows of the value that are read, the nearest right in front of the text.
        time: a column of times, numbers or ISO dates: the k rows before the row's own time are read, or the last ones
            of all where it has none; null for the k most similar by the cosine of their sentence vectors.
        tokens: maximum number of tokens of the history, in addition to `data.max_length`; each earlier row, with its
            label, is cut to ``tokens / k`` of them.
        separator: text after each earlier row.
        attribute_dropout: probability that a training row is read without its history, drawn once for each row.
    """

    name: ClassVar[str] = "history"
    points: ClassVar[tuple[Point, ...]] = ("text",)
    default_tuning: ClassVar[str] = "full"
    stored_texts: ClassVar[str] = (
        "The texts and labels of the training rows are in `history.parquet` in plain text, and are read for each "
        "prediction."
    )
    stands_alone: ClassVar[bool] = True
    reads_descriptions: ClassVar[bool] = False
    reader: ClassVar[str] = "attribune_lab.history.reader:HistoryEncoder"
    memory: ClassVar[str] = "attribune_lab.history.rows:Histories"
    reads_chunks: ClassVar[bool] = False

    attribute: str | None = Field(default=None, description="the name of an attribute, or null for the default")
    k: PositiveInt = 5
    time: str | None = Field(default=None, description="the name of a column, or null for similar texts")
    tokens: PositiveInt = 128
    separator: str = Field(default="; ", description="a text")

    def refusal(self, placement: Placement) -> str | None:
        """Return why a family cannot read a history; None if it can."""
        if placement.states == "token":
            return super().refusal(placement)
        return (
            f"history: backbones of type {' or '.join(placement.model_types)} read the sentences of one text, and "
            "would count other texts among them: choose another backbone"
        )

    def attribute_refusal(self, names: Sequence[str]) -> str | None:
        """Return why there can be no histories of these attributes; None if there can."""
        if not names:
            return "history: the schema has no attribute; name at least one, or use a method that reads none"
        if self.attribute in (None, *names):
            return None
        return f"history: attribute is {self.attribute!r}, which is none of the attributes {', '.join(names)}: name one"

    @property
    def times(self) -> tuple[str, ...]:
        """The column of times, if there is one."""
        return () if self.time is None else (self.time,)

    def attribute_of(self, schema: Schema) -> str:
        """Return the name of the attribute whose values have histories."""
        if self.attribute is not None:
            return self.attribute
        return next((one.name for one in schema if isinstance(one.spec, Categorical)), schema.names[0])

    def build(self, host: Host) -> Method:
        """Build a method without sites, which leaves room for the history."""
        if (refusal := self.attribute_refusal([slots.name for slots in host.slots])) is not None:
            raise ConfigError(refusal)
        return _HistoryMethod(self)


class _HistoryMethod(Method):
    def __init__(self, config: History) -> None:
        super().__init__()
        self.extra_inputs = config.tokens
