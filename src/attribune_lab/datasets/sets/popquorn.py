"""POPQUORN: how offensive comments are, to people of whom gender, race, age, occupation and education are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["POPQUORN_OFFENSIVENESS"]

_ANSWERS = tuple("12345")
_ABOUT = ("gender", "race", "age", "occupation", "education")
_UNSAID = "prefer not to disclose"


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    needs = ("user_id", "text", "offensiveness", *_ABOUT)
    for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
        answer, user = (row[name].strip().removesuffix(".0") for name in ("offensiveness", "user_id"))
        text = row["text"].strip()
        if not text or not user:
            log.leave_out("no text" if user else "no annotator")
        elif answer not in _ANSWERS:
            log.broken(place, "the offensiveness is not a whole number from 1 to 5", GET_AGAIN, found=repr(answer[:30]))
        else:
            about = {name: row[name].strip() for name in _ABOUT}
            about = {name: "" if value.casefold() == _UNSAID else value for name, value in about.items()}
            yield None, {"text": text, "offensiveness": answer, "annotator": user, **about}


POPQUORN_OFFENSIVENESS = Card(
    name="popquorn-offensiveness",
    title="POPQUORN, offensiveness",
    source="Jiaxin Pei and David Jurgens, University of Michigan",
    obtain="Get dataset/offensiveness/raw_data.csv of https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset.",
    revision="https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset at c329119e878037654f6aa59b319aae6e996585bb",
    licence=NOT_STATED,
    terms="Comments of Reddit, and what paid annotators said of themselves: nobody may be identified.",
    citation=(
        "Pei and Jurgens 2023, When Do Annotator Demographics Matter? Measuring the Influence of Annotator "
        "Demographics with the POPQUORN Dataset, LAW-XVII"
    ),
    files=(SourceFile(role="judgements", names=("raw_data.csv", "offensiveness/raw_data.csv")),),
    read=_read,
    split=Shuffled(share=0.1, whole_texts=True),
    attributes=categorical("annotator"),
    values={"annotator": _ABOUT},
    labels=("offensiveness",),
    task={"kind": "ordinal"},
    classes=5,
    metric="rmse",
    window="head",
    recipe=None,
    preparation=(
        "Each judgement is a row; those of one text stay in one part. What is known of the annotators is a table of "
        "its own, in which what they preferred not to disclose is empty."
    ),
)
