"""Findings as data, and the one sentence for each of them.

A terminal, a page, a file and Python say the same of a finding, since all of them ask `said`.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attribune.core.wording import counted
from attribune.findings import tables, trainings, verdicts
from attribune.findings.sentences import Sentences, Values
from attribune.metrics.metric import metric_info


@dataclass(frozen=True)
class Finding:
    """Something that was found, for programs and, by `text`, for people.

    Args:
        code: a short name that stays the same, one of `CODES`.
        values: the figures and names of the finding, as JSON has them.
    """

    code: str
    values: Values = field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **values: Any) -> Finding:
        """Make a finding of values, of which numpy's numbers become Python's."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        return cls(code, plain)

    def of_part(self, part: str) -> Finding:
        """Return the finding as one of a part, such as ``train``, which its sentence names first."""
        inner = self.values.get("part")
        return Finding(self.code, {**self.values, "part": part if inner is None else f"{part}: {inner}"})

    @property
    def text(self) -> str:
        """The finding in a sentence, see `said`."""
        return said(self)

    def __str__(self) -> str:
        return self.text

    @property
    def headline(self) -> str:
        """The answer of a finding of a verdict without figures; empty for others."""
        return _WORDS.format(verdicts.HEADLINES.get(self.code, ""), **self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return ``code``, ``values`` and ``text``."""
        return {"code": self.code, "values": dict(self.values), "text": self.text}


def said(finding: Finding) -> str:
    """Return a finding in a sentence, in which settings and calls are those of where the user stands.

    Raises:
        KeyError: for a code that is none of `CODES`.
    """
    sentence, part = _SENTENCES[finding.code], finding.values.get("part")
    text = _WORDS.format(sentence, **finding.values) if isinstance(sentence, str) else sentence(finding.values)
    return text if part is None else f"{part}: {text}"


def meanings() -> dict[str, str]:
    """Return what each code means: its sentence with the names of its values, or what the sentence says."""
    said = {
        code: sentence if isinstance(sentence, str) else str(sentence.__doc__).partition("\n")[0].rstrip(".")
        for code, sentence in _SENTENCES.items()
    }
    return {**said, **_SAID_ELSEWHERE}


class _Words(string.Formatter):
    """Formats ``{rows:# row}`` as a number of rows, ``{names:list}`` with commas and ``{names:quoted}`` in quotes."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as its specification wants it, which may be any that Python knows as well."""
        if format_spec.startswith("# "):
            return counted(value, format_spec[2:])
        if format_spec in ("list", "quoted"):
            return ", ".join(map(repr if format_spec == "quoted" else str, value))
        if format_spec == "metric":
            return metric_info(value).words
        return str(super().format_field(value, format_spec))


_WORDS = _Words()


_SAID_ELSEWHERE = {
    "split-counts": "How many rows each part has, and how many were left out when the table was split",
    "attribute-counts": "How many values an attribute has, and how many cells are empty, unknown or trimmed",
    "label-note": "What the task changed in labels, or cannot use",
    "texts-cut": "How many texts are longer than the window",
    "intervals-over": "Rows are not independent, and intervals are over what they share",
}
"""The meanings of findings whose text a report or a task has written."""

_SENTENCES: Sentences = {
    **verdicts.SENTENCES,
    **tables.SENTENCES,
    **trainings.SENTENCES,
    **dict.fromkeys(_SAID_ELSEWHERE, "{text}"),
}

CODES = tuple(_SENTENCES)
"""The codes of findings."""
