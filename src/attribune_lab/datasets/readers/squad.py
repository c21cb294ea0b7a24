"""The reader of SQuAD 1.1 and 2.0: questions about paragraphs of Wikipedia, answered by a part of the paragraph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune.errors import DataError
from attribune.tasks.spans import AnswerCells
from attribune_lab.datasets.row_log import Row, RowLog, Rows, read_json_lines, without_test_texts

_PARAGRAPHS = "paragraphs"
_CELLS = AnswerCells(missing=())


def squad(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the questions with their parts; training rows with the texts of test rows are left out."""
    yield from without_test_texts(_all_rows(files, log), log)


def _all_rows(files: Mapping[str, Path], log: RowLog) -> Rows:
    titles: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for role in ("test", "train", _PARAGRAPHS):
        for place, item in _questions(files[role], role, log) if role in files else ():
            if (row := _row(place, item, log)) is None:
                continue
            question, context = row["text"], row["text_pair"]
            if role == _PARAGRAPHS and (question, context) in seen:
                log.leave_out("questions that stand earlier in the files")
                continue
            seen.add((question, context))
            # A paragraph whose title is not said is of the article that has it, else an article of its own.
            row["title"] = titles.setdefault(context, str(item.get("title") or context))
            yield "test" if role == "test" else None, row


def _questions(path: Path, role: str, log: RowLog) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions of a file in the format of SQuAD, or with a paragraph and its questions a line."""
    for place, item in read_json_lines(path, role=role, log=log):
        if role != _PARAGRAPHS:
            yield place, item
            continue
        entries = item.get("qas")
        listed = entries if isinstance(entries, list) else [entries]
        log.read[role] += len(listed) - 1  # questions are counted
        for number, entry in enumerate(listed, start=1):
            known = entry if isinstance(entry, dict) else {}
            answers = {"text": [known.get("answer")]}
            question = {"question": known.get("question"), "context": item.get("context"), "answers": answers}
            yield f"{place}, question {number}", question


def _row(place: str, item: Mapping[str, Any], log: RowLog) -> Row | None:
    """Return a question with its answers as JSON; None for one that is broken or left out."""
    question, context, answers = (item.get(name) for name in ("question", "context", "answers"))
    if not (isinstance(question, str) and isinstance(context, str) and isinstance(answers, dict)):
        log.broken(place, "no question with a paragraph and answers")
        return None
    if not question.strip() or not context.strip():
        log.leave_out("questions without a text")
        return None
    texts = [text for text in answers["text"] if isinstance(text, str) and text]
    if "answer_start" not in answers and any(context.count(text) != 1 for text in texts):
        log.leave_out("questions whose answer is not in the paragraph exactly once, and without a place")
        return None
    try:
        found, moved = _CELLS.read([answers], context, row=1)
    except DataError:
        log.broken(place, "an answer is not in its paragraph", found=str(texts)[:60])
        return None
    log.remarks["answers that are not where the file says, and were found by their text"] += moved
    label = {"text": [answer.text for answer in found or ()], "answer_start": [one.start for one in found or ()]}
    row = {"text": question, "text_pair": context, "answers": json.dumps(label, ensure_ascii=False)}
    return row if log.writable(place, row) else None
