"""Rotten Tomatoes critics: whether a critic likes a film, by a quote of the review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["CRITICS"]


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    needs = ("critic", "fresh", "publication", "quote", "title")
    for place, row in read_csv(files["quotes"], role="quotes", log=log, needs=needs):
        verdict = row["fresh"].strip()
        if verdict not in ("fresh", "rotten", "none", ""):
            log.broken(place, "the verdict is not fresh, rotten or none", GET_AGAIN, found=repr(verdict[:30]))
        elif verdict in ("none", ""):
            log.leave_out("no verdict")
        elif not row["quote"].strip():
            log.leave_out("no quote")
        else:
            names = ("critic", "title", "publication")
            yield None, {"text": row["quote"].strip(), "fresh": verdict} | {name: row[name].strip() for name in names}


CRITICS = Card(
    name="critics",
    title="Rotten Tomatoes critics",
    source="Rotten Tomatoes, gathered for the course CS109 of Harvard (github.com/bfeeny/CS109-HW3)",
    obtain="Get critics.csv of the homework 3 of CS109, 2013.",
    revision="github.com/bfeeny/CS109-HW3 at d07c733f29c55fcddd226fb613f3660e1b199294",
    licence=NOT_STATED,
    terms="Quotes of critics, gathered for teaching; may not be redistributed.",
    citation="Harvard CS109 Data Science, 2013, homework 3",
    files=(
        SourceFile(
            role="quotes",
            names=("critics.csv", "rt_critics/critics.csv"),
            rows=27_669,
            sha256="d90205c77cc3ad9572afda8941eb8f3cbe11b0c19c416c0b8a3143b534417d79",
        ),
    ),
    read=_read,
    split=Shuffled(share=0.1, whole_texts=True),
    attributes=categorical("critic", "title", "publication"),
    labels=("fresh",),
    task={"kind": "classification"},
    classes=2,
    metric="accuracy",
    window="head",
    recipe=None,
    preparation="Rows without a quote or a verdict are left out; a quote that repeats stays in one part.",
)
