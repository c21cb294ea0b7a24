"""Sets beyond the benchmark that are easy to get: quotes of critics, reviews of a shop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune.benchmark.cards import Card, Part, Row, Shuffled, SourceFile
from attribune.benchmark.rows import GET_AGAIN, RowLog, read_csv, read_reviews

__all__ = ["AMAZON", "CRITICS"]


def _read_critics(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[Part | None, Row]]:
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
    terms="Quotes of critics, gathered for teaching; may not be redistributed.",
    citation="Harvard CS109 Data Science, 2013, homework 3",
    files=(SourceFile(role="quotes", names=("critics.csv", "rt_critics/critics.csv"), rows=27_669),),
    read=_read_critics,
    split=Shuffled(share=0.1, whole_texts=True),
    attributes=tuple({"kind": "categorical", "name": name} for name in ("critic", "title", "publication")),
    labels=("fresh",),
    task={"kind": "classification"},
    classes=2,
    metric="accuracy",
    window="head",
    recipe=None,
    preparation="Rows without a quote or a verdict are left out; a quote that repeats stays in one part.",
)


def _read_amazon(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[Part | None, Row]]:
    columns = {"text": "reviewText", "rating": "overall", "user": "reviewerID", "product": "asin"}
    return read_reviews(files["reviews"], log, lowest=1, columns=columns)


AMAZON = Card(
    name="amazon-instruments",
    title="Amazon musical instruments, 5-core",
    source="Julian McAuley, UC San Diego: Amazon product data",
    obtain="Get Musical_instruments_reviews.csv, the 5-core reviews as CSV (on Kaggle: eswarchandt).",
    terms="Gathered for research.",
    citation="He and McAuley 2016, Ups and Downs: Modeling the Visual Evolution of Fashion Trends, WWW",
    files=(
        SourceFile(
            role="reviews",
            names=("Musical_instruments_reviews.csv", "amazon_musical_instruments/Musical_instruments_reviews.csv"),
            rows=10_261,
        ),
    ),
    read=_read_amazon,
    split=Shuffled(share=0.1, whole_texts=True),
    attributes=({"kind": "categorical", "name": "user"}, {"kind": "categorical", "name": "product"}),
    labels=("rating",),
    task={"kind": "rating"},
    classes=5,
    metric="accuracy",
    window="head",
    recipe=None,
    preparation="Reviews without a text are left out.",
)
