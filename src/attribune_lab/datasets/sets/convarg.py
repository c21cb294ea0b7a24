"""UKPConvArg1: which of two arguments single people find more convincing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Hashed, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["UKPCONVARG1"]

_ANSWERS = {"a1": "first", "a2": "second", "equal": "tie"}


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    rows = read_csv(files["arguments"], role="arguments", log=log, needs=("topic", "argument_id", "text"))
    texts = {(row["topic"], row["argument_id"]): row["text"].strip() for _, row in rows}
    needs = ("topic", "a1", "a2", "turkerid", "label")
    for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
        topic, judge, label = row["topic"], row["turkerid"].strip(), row["label"].strip()
        pair = [texts.get((topic, row[name])) for name in ("a1", "a2")]
        if None in pair:
            log.broken(
                place, "an argument is not among those of its topic", GET_AGAIN, found=f"{row['a1']}, {row['a2']}"
            )
        elif label not in _ANSWERS:
            log.broken(place, f"the label is none of {', '.join(_ANSWERS)}", GET_AGAIN, found=repr(label[:30]))
        elif not all(pair) or not judge:
            log.leave_out("no text" if judge else "no judge")
        elif pair[0] == pair[1]:
            log.leave_out("the same text twice")
        else:
            judged = {"text": pair[0], "text_pair": pair[1], "preferred": _ANSWERS[label], "judge": judge}
            yield None, judged | {"topic": topic, "debate": topic.partition("_")[0]}


UKPCONVARG1 = Card(
    name="ukpconvarg1",
    title="UKPConvArg1, convincing arguments",
    source="UKP Lab, TU Darmstadt, of debates on createdebate.com and convinceme.net",
    obtain=(
        "Get data/argument_data/UKPConvArgCrowd-new-CSV-copy of UKPLab/tacl2018-preference-convincing, and write its "
        "files as two tables: ukpconvarg1_crowd.csv (topic, a1, a2, turkerid, label) and ukpconvarg1_arguments.csv "
        "(topic, argument_id, text)."
    ),
    revision=NOT_STATED,
    licence="CC BY 4.0",
    terms="May be used and shared with attribution.",
    citation=(
        "Habernal and Gurevych 2016, Which argument is more convincing? Analyzing and predicting convincingness of Web "
        "arguments using bidirectional LSTM, ACL"
    ),
    files=(
        SourceFile(
            role="arguments",
            names=("ukpconvarg1_arguments.csv", "preferences/ukpconvarg1_arguments.csv"),
            rows=1_052,
            sha256="98c6affdc00590ce15384f8cfdfa482e3d96a1b18de59d62f238c8b5116a0b2e",
        ),
        SourceFile(
            role="judgements",
            names=("ukpconvarg1_crowd.csv", "preferences/ukpconvarg1_crowd.csv"),
            rows=84_445,
            sha256="2be40b55ddae49bd423d2cbfec545528f51804511e8542a4b974466f4ef752bc",
        ),
    ),
    read=_read,
    split=Hashed(group="debate"),
    attributes=categorical("judge", "topic"),
    labels=("preferred",),
    task={"kind": "preference"},
    classes=3,
    metric="accuracy",
    pair=True,
    window="head",
    recipe=None,
    preparation=(
        "Every judgement is a row: `text` and `text_pair` are two arguments of one side of a debate, `preferred` is "
        "first, second or tie. Both sides of a debate are in one part, since arguments recur in many pairs."
    ),
    notes="Topics of validation and test are new to a model: with the attribute judge alone, it learns of judges.",
)
