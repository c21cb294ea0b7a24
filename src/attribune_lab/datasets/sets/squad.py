"""SQuAD 1.1 and 2.0: questions about paragraphs of Wikipedia, answered by a part of the paragraph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune.errors import DataError
from attribune.tasks.answers import AnswerCells
from attribune_lab.datasets.card import Card, Hashed, SourceFile
from attribune_lab.datasets.duplicates import without_test_texts
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_json_lines

__all__ = ["SQUAD"]

_PARAGRAPHS = "paragraphs"
_CELLS = AnswerCells(missing=())


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_test_texts(_all_rows(files, log), log)


def _all_rows(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
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
        log.broken(place, "no question with a paragraph and answers", GET_AGAIN)
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
        log.broken(place, "an answer is not in its paragraph", GET_AGAIN, found=str(texts)[:60])
        return None
    log.remarks["answers that are not where the file says, and were found by their text"] += moved
    label = {"text": [answer.text for answer in found or ()], "answer_start": [one.start for one in found or ()]}
    row = {"text": question, "text_pair": context, "answers": json.dumps(label, ensure_ascii=False)}
    return row if log.writable(place, row) else None


def _card(*, name: str, version: str, train: SourceFile, test: SourceFile, **texts: Any) -> Card:
    more = SourceFile(role=_PARAGRAPHS, names=("train-800-paragraphs.jsonl",), optional=True)
    return Card(
        name=name,
        title=f"SQuAD {version}",
        source="SQuAD (rajpurkar.github.io/SQuAD-explorer)",
        obtain=(
            f"Get {train.names[0]} and {test.names[0]} (https://rajpurkar.github.io/SQuAD-explorer). The folder given "
            "is theirs."
        ),
        revision=f"version {version}",
        licence="CC BY-SA 4.0",
        terms="Paragraphs of Wikipedia, with attribution.",
        files=(train, test, more) if version == "1.1" else (train, test),
        read=_read,
        split=Hashed(validation=0.1, test=0.0, group="title"),
        attributes=(),
        labels=("answers",),
        task={"kind": "spans"},
        classes=0,
        metric="f1",
        pair=True,
        window="head",
        recipe="houlsby",
        preparation=(
            "`text` is the question, `text_pair` the paragraph, `answers` all true answers and where they begin, as "
            "JSON. SQuAD keeps its test rows: its development rows are the test part; a hash of the title draws a "
            "tenth of the articles for validation. Training rows with the texts of a test row are left out."
        ),
        **texts,
    )


SQUAD: tuple[Card, ...] = (
    _card(
        name="squad",
        version="1.1",
        train=SourceFile(role="train", names=("train-v1.1.json", "train-v1.1-first-11-articles.json"), rows=87_599),
        test=SourceFile(
            role="test",
            names=("dev-v1.1.json",),
            rows=10_570,
            sha256="95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        ),
        citation=(
            "Rajpurkar, Zhang, Lopyrev and Liang 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text, "
            "EMNLP"
        ),
        notes=(
            "QNLI is made of it: do not tune on the one and test on the other. A part of the training articles, and a "
            "file of paragraphs without places of answers, are taken with `partial`."
        ),
    ),
    _card(
        name="squad-v2",
        version="2.0",
        train=SourceFile(role="train", names=("train-v2.0.json",), rows=130_319),
        test=SourceFile(role="test", names=("dev-v2.0.json",), rows=11_873),
        citation="Rajpurkar, Jia and Liang 2018, Know What You Don't Know: Unanswerable Questions for SQuAD, ACL",
        notes="A third of the training questions and half of the development questions have no answer.",
    ),
)
"""Both versions of SQuAD."""
