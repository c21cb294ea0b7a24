"""Readers, one for each kind of input, and the table by which a model finds its own.

A reader is chosen once, from the task and the method; what depends on the backbone it is told (`Reading`).
"""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name

from attribune.core.door import as_argument
from attribune.data.readers.base import Reader
from attribune.data.readers.in_text import InTextReader
from attribune.data.readers.prompts import PromptEncoder
from attribune.data.readers.text import CandidateEncoder, TextEncoder
from attribune.data.readers.tokens import PassageEncoder, WordEncoder
from attribune.methods.config import MethodConfig
from attribune.tasks.base import Task
from attribune.tasks.capabilities import WRITTEN, require

__all__ = ["READERS", "reader_of"]

READERS: dict[str, type[Reader]] = {
    reader.name: reader for reader in (TextEncoder, CandidateEncoder, WordEncoder, PassageEncoder, PromptEncoder)
}
"""The readers by the names of what they read."""


def reader_of(task: Task | type[Task], method: MethodConfig, *, written: Collection[str] = ()) -> type[Reader]:
    """Return the reader of a model: that of the task's input, unless the method has one, or values are written.

    Args:
        written: the attributes whose values are written in front of a text.

    Raises:
        ConfigError: for a task that does not read one text.
    """
    if written:
        require(task, WRITTEN, argument=as_argument("data.written"))
        return InTextReader
    reader: type[Reader] = resolve_name(method.reader) if method.reader else READERS[task.input.name]
    return reader
