"""GOOD: whether a review of a book gives away the plot (Goodreads)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical, table_1
from attribune_lab.datasets.row_log import REVIEW_WORDS, Row, RowLog, SplitName, read_json_lines, whole_number, words

__all__ = ["GOOD"]


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for place, review in read_json_lines(files["reviews"], role="reviews", log=log):
        row = _row(place, review, log)
        identifier = str(review.get("review_id") or place)
        if row is not None and log.first("review", identifier, place) and log.writable(place, row):
            yield None, row


def _row(place: str, review: dict[str, Any], log: RowLog) -> Row | None:
    text = _text(review.get("review_sentences"))
    rating = whole_number(review.get("rating"), low=0, high=5)
    problems = {
        "has_spoiler": not isinstance(review.get("has_spoiler"), bool),
        "review_sentences": text is None,
        "rating": rating is None,
        "user_id": not review.get("user_id"),
        "book_id": not review.get("book_id"),
    }
    wrong = next((name for name, holds in problems.items() if holds), None)
    if wrong is not None:
        log.broken(
            place,
            f"{wrong} is missing or of another kind",
            "get goodreads_reviews_spoiler.json.gz again; the file with the ending _raw has other fields",
            found=repr(str(review.get(wrong))[:40]),
        )
        return None
    assert text is not None
    if words(text) not in REVIEW_WORDS:
        log.leave_out("less than 32 or more than 256 words")
        return None
    return {
        "text": text,
        "spoiler": "yes" if review["has_spoiler"] else "no",
        "user": str(review["user_id"]),
        "book": str(review["book_id"]),
        "rating": str(rating),
    }


def _text(sentences: Any) -> str | None:
    """Join sentences, pairs of a mark and a text in the file; None for anything else."""
    if not isinstance(sentences, list):
        return None
    parts = []
    for pair in sentences:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
            return None
        parts.append(pair[1].strip())
    return " ".join(part for part in parts if part)


GOOD = Card(
    name="good",
    title="GOOD",
    source="Mengting Wan and Julian McAuley, UC San Diego: Goodreads Book Graph",
    obtain=(
        "Download goodreads_reviews_spoiler.json.gz from the Goodreads page of the McAuley lab "
        "(https://cseweb.ucsd.edu/~jmcauley/datasets/goodreads.html)."
    ),
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="For academic use; may not be redistributed.",
    citation=(
        "Wan and McAuley 2018, Item Recommendation on Monotonic Behavior Chains, RecSys; Wan, Misra, Nakashole and "
        "McAuley 2019, Fine-Grained Spoiler Detection from Large-Scale Review Corpora, ACL"
    ),
    files=(SourceFile(role="reviews", names=("goodreads_reviews_spoiler.json",), rows=1_378_033),),
    read=_read,
    split=Shuffled(rows=10_000),
    attributes=categorical("user", "book", "rating"),
    labels=("spoiler",),
    task={"kind": "classification", "classes": ["no", "yes"], "class_weights": [0.5, 1.0], "positive": "yes"},
    classes=2,
    metric="f1",
    preparation="Reviews of less than 32 or more than 256 words are left out.",
    published=table_1(train=714_700, validation=10_000, test=10_000, words=(132, 72), values=43_800, sparse=34.4),
    divergence={"random": 0.693, "majority": 0.216, "user": 0.246, "book": 0.326, "rating": 0.215, "all": 0.215},
)
