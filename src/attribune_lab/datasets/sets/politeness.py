"""The Stanford Politeness Corpus: how polite single people find requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv, whole_number

__all__ = ["POLITENESS"]

_JUDGES = range(1, 6)


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    needs = ("Community", "Request", *(f"{name}{number}" for name in ("Score", "TurkId") for number in _JUDGES))
    for role, path in files.items():
        for place, row in read_csv(path, role=role, log=log, needs=needs):
            if not row["Request"].strip():
                log.leave_out("no text")
                continue
            for number in _JUDGES:
                given, judge = row[f"Score{number}"].strip(), row[f"TurkId{number}"].strip()
                score = whole_number(given, low=1, high=25)
                if not given or not judge:
                    log.leave_out("no judgement")
                elif score is None:
                    log.broken(place, "the score is not a whole number from 1 to 25", GET_AGAIN, found=repr(given[:30]))
                else:
                    community = row["Community"].strip()
                    judged = {"text": row["Request"].strip(), "score": str(score), "judge": judge}
                    yield None, judged | {"community": community}


POLITENESS = Card(
    name="politeness",
    title="Politeness of requests",
    source="Danescu-Niculescu-Mizil et al. 2013, Stanford Politeness Corpus",
    obtain="Get wikipedia.annotated.csv and stack-exchange.annotated.csv of the corpus.",
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="Requests of Wikipedia's and Stack Exchange's users; may not be redistributed.",
    citation="Danescu-Niculescu-Mizil et al. 2013, A Computational Approach to Politeness, ACL",
    files=(
        SourceFile(
            role="wikipedia",
            names=("wikipedia.annotated.csv", "politeness/wikipedia.annotated.csv"),
            rows=4_353,
            sha256="8eedc1e09b044341d9a43943c72a2ab37add29cf0a0e7629aaec76fbbdc6a8ef",
        ),
        SourceFile(
            role="stack-exchange",
            names=("stack-exchange.annotated.csv", "politeness/stack-exchange.annotated.csv"),
            rows=6_603,
            sha256="97c642c062d3c4702ef34a0954afab9b6ba520baed7d99b043339d7878076b5c",
        ),
    ),
    read=_read,
    split=Shuffled(share=0.1, whole_texts=True),
    attributes=categorical("judge", "community"),
    labels=("score",),
    task={"kind": "regression"},
    classes=0,
    metric="r2",
    window="head",
    recipe=None,
    preparation="Each of five judgements of a request is a row; those of one text stay in one part.",
)
