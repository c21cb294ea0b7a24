"""The nested JSON of SQuAD 1.1 and 2.0 as rows: articles of paragraphs, which have a context and questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attribune.errors import DataError

__all__ = ["is_squad", "squad_rows"]

_CURE = "get the file again, or write one object a line with question, context and answers"


def is_squad(item: object) -> bool:
    """Whether an object is a file of SQuAD: its ``data`` is a list of articles with paragraphs."""
    data = item.get("data") if isinstance(item, dict) else None
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "paragraphs" in data[0]


def squad_rows(item: Mapping[str, Any], *, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the questions: place for messages, and ``id``, ``title``, ``context``, ``question``, ``answers``.

    ``answers`` are as datasets has them: a list of texts and one of their starts. A file of version 2.0 also has
    ``is_impossible``, and no answers where it is true.

    Raises:
        DataError: naming article, paragraph and question of what is not as in SQuAD.
    """
    for article_place, article in _entries(item, "data", source, "article"):
        for place, paragraph in _entries(article, "paragraphs", article_place, "paragraph"):
            context = _text(paragraph, "context", place)
            for where, entry in _entries(paragraph, "qas", place, "question"):
                row = {"id": entry.get("id"), "title": article.get("title"), "context": context}
                yield where, row | {"question": _text(entry, "question", where)} | _answers(entry, where)


def _entries(item: Mapping[str, Any], name: str, place: str, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a list, with their places."""
    entries = item.get(name)
    if not isinstance(entries, list):
        raise DataError(f"{place}: {name!r} is not a list: {_CURE}")
    for number, entry in enumerate(entries, start=1):
        where = f"{place}, {kind} {number}"
        if not isinstance(entry, dict):
            raise DataError(f"{where}: {str(entry)[:40]!r} is not an object: {_CURE}")
        yield where, entry


def _text(item: Mapping[str, Any], name: str, place: str) -> str:
    text = item.get(name)
    if not isinstance(text, str):
        raise DataError(f"{place}: {name!r} is {str(text)[:40]!r}, not text: {_CURE}")
    return text


def _answers(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    answers = [answer for _, answer in _entries({"answers": [], **entry}, "answers", place, "answer")]
    texts = [_text(answer, "text", place) for answer in answers]
    columns: dict[str, Any] = {
        "answers": {"text": texts, "answer_start": [answer.get("answer_start") for answer in answers]}
    }
    if (flag := entry.get("is_impossible")) is not None:
        columns["is_impossible"] = flag
    return columns
