"""PolMed: what messages of US politicians are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Folds, SourceFile, categorical, table_1
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["POLMED"]

_COLUMNS = {"label": "politician", "source": "source", "audience": "audience", "bias": "bias"}


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    needs = ("text", "message", *_COLUMNS)
    for place, row in read_csv(files["messages"], role="messages", log=log, needs=needs, encoding="latin-1"):
        text, message = row["text"].strip(), row["message"].strip()
        if not text or not message:
            log.broken(place, "no text or no message type", GET_AGAIN)
            continue
        yield None, {"text": text, "message": message} | {ours: row[name].strip() for name, ours in _COLUMNS.items()}


POLMED = Card(
    name="polmed",
    title="PolMed",
    source="Figure Eight (CrowdFlower), Data for Everyone: Political Social Media Posts",
    obtain=(
        "Get political_social_media.csv (data set 'Political Social Media Posts', 5,000 rows) from the Data for "
        "Everyone library or one of its mirrors, such as the data set of that name on Kaggle."
    ),
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="Published for everyone by CrowdFlower; the mirrors name CC BY 4.0 or no licence.",
    citation=(
        "Kim, Amplayo, Lee, Sung, Seo and Hwang 2019, Categorical Metadata Representation for Customized Text "
        "Classification, TACL"
    ),
    files=(
        SourceFile(
            role="messages",
            names=("political_social_media.csv", "polmed/political_social_media.csv", "Political-media-DFE.csv"),
            rows=5_000,
            sha256="ba090bb7179fcbdd9dd20c414f6e3540203953b74481ec08ddcfe1b316267c33",
        ),
    ),
    read=_read,
    split=Folds(number=10),
    attributes=categorical(*_COLUMNS.values()),
    labels=("message",),
    task={"kind": "classification"},
    classes=9,
    metric="accuracy",
    window="head",
    preparation="Nothing is filtered. Ten folds, drawn with seed 0; each tests once, the next one validates.",
    published=table_1(train=4_500, test=500, words=(38, 62), values=500, sparse=63.8),
    # The paper's table has other names for the rows; its figures belong to these attributes.
    divergence={
        "random": 2.195,
        "majority": 1.851,
        "politician": 3.640,
        "source": 1.844,
        "audience": 1.790,
        "bias": 1.728,
        "all": 1.770,
        "best subset": 1.726,
    },
    notes=(
        "Audience and bias are judgements of the annotators who also judged the message type. The paper's accuracies "
        "in its table 2 are all multiples of 1/495: they come from one test set of 495 rows, not from ten folds."
    ),
)
