"""TID-8: eight sets of judgements with inherent disagreement, each in two splits (Deng et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Given, Hashed, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv, read_parquet

__all__ = ["TID8"]

_NEEDS = ("question", "annotator_id", "answer")
_BETWEEN = "</s>"  # between the parts of a text
_PARTS: tuple[SplitName, ...] = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class _Set:
    """What differs from one set to another.

    Args:
        file: what the names of its folders begin with.
        title: of its tables.
        label: name of the column of answers.
        answers: those that there are; none where the source could not be asked.
        count: of answers.
        validated: whether the files of the split of judgements say which rows validate.
        terms, citation: of the card, and of the set's own paper.
    """

    file: str
    title: str
    label: str
    answers: tuple[str, ...] = ()
    count: int
    validated: bool = False
    rows: Mapping[SplitName, int]
    terms: str
    citation: str


def _read(
    form: _Set, apart: str | None, files: Mapping[str, Path], log: RowLog
) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield the judgements; `apart` names a column that holds the annotator once more, by which rows are split."""
    is_given = "validation" in files
    for part in (part for part in _PARTS if part in files):
        read = read_parquet if files[part].suffix == ".parquet" else read_csv
        for place, cells in read(files[part], role=part, log=log, needs=_NEEDS):
            text = "\n".join(filter(None, (line.strip() for line in cells["question"].split(_BETWEEN))))
            annotator, answer = cells["annotator_id"].strip(), cells["answer"].strip()
            if log.leave_out_if({"no text": not text, "no annotator": not annotator, "no answer": not answer}):
                continue
            if form.answers and answer not in form.answers:
                reason = f"the answer is none of {', '.join(form.answers)}"
                log.broken(place, reason, GET_AGAIN, found=repr(answer[:30]))
                continue
            row = {"text": text, form.label: answer, "annotator": annotator}
            row |= {} if apart is None else {apart: annotator}
            if log.writable(place, row):
                yield part if is_given or part == "test" else None, row


_SPLITS = {
    "ann": "Judgements are split for each annotator, so that a text may be in several parts, with other annotators",
    "atr": "Annotators are split: those of the test rows are in no other part",
}


def _card(form: _Set, split: str) -> Card:
    validated = form.validated and split == "ann"
    parts = _PARTS if validated else ("train", "test")
    folder = f"{form.file}-{split}"
    apart = "person" if split == "atr" else None
    ordered = form.label == "certainty"
    held = "texts" if apart is None else "annotators"
    chosen = "" if validated else f"; a tenth of the training {held} validates, by a hash"
    known = "the answers are those of its card" if ordered else "the answers are those of the authors' scripts"
    return Card(
        name=f"tid8-{form.file.replace('_', '-')}{'-annotators' if apart else ''}",
        title=f"TID-8, {form.title}{', new annotators' if apart else ''}",
        source="Deng et al. 2023, on the hub of Hugging Face (MichiganNLP/TID-8)",
        obtain=(
            f"Get {', '.join(f'{folder}/{part}/0000.parquet' for part in parts)} of "
            "https://huggingface.co/datasets/MichiganNLP/TID-8, branch refs/convert/parquet."
        ),
        revision="huggingface.co/datasets/MichiganNLP/TID-8 at 4a3915e56d4fa85a7faa630fc113237cca0bca30",
        licence=NOT_STATED,
        terms=form.terms,
        citation=f"{form.citation}; Deng et al. 2023, You Are What You Annotate, Findings of EMNLP",
        files=tuple(
            SourceFile(
                role=part,
                names=tuple(f"{folder}/{name}" for name in (f"{part}/0000.parquet", f"{part}.parquet", f"{part}.csv")),
                rows=form.rows.get(part) if split == "ann" else None,
            )
            for part in parts
        ),
        read=partial(_read, form, apart),
        split=Given() if validated else Hashed(test=0, group=apart),
        attributes=categorical("annotator"),
        labels=(form.label,),
        task={"kind": "ordinal"} if ordered else _task(form),
        classes=form.count,
        metric="rmse" if ordered else "accuracy",
        window="head",
        recipe=None,
        preparation=(
            f"Each judgement is a row. {_SPLITS[split]}{chosen}. Parts of a text that `</s>` divides are its lines."
        ),
        notes=(
            "The files were not at hand. Columns and folders are those of the page on the hub; "
            + (known if form.answers else "what the answers are called was not to be seen, and any is accepted")
            + "."
        ),
    )


def _task(form: _Set) -> dict[str, Any]:
    return {"kind": "classification", **({"classes": [*form.answers]} if form.answers else {})}


_SETS = (
    _Set(
        file="commitmentbank",
        title="CommitmentBank",
        label="certainty",
        answers=tuple(str(number) for number in range(-3, 4)),
        count=7,
        rows={"train": 7_816, "test": 3_729},
        terms="English texts with an embedded clause, and how certain its speaker is of it.",
        citation="de Marneffe, Simons and Tonhauser 2019, The CommitmentBank, Sinn und Bedeutung",
    ),
    _Set(
        file="friends_qia",
        title="Friends QIA",
        label="meaning",
        count=5,
        validated=True,
        rows={},
        terms="Questions and indirect answers of a television series, and what the answer means.",
        citation='Damgaard, Toborek, Eriksen and Plank 2021, "I\'ll be there for you", CODI',
    ),
    _Set(
        file="goemotions",
        title="GoEmotions",
        label="emotion",
        answers=("positive", "ambiguous", "negative", "neutral"),
        count=4,
        rows={},
        terms="English comments of Reddit; emotions in four groups, of judgements with one group alone.",
        citation="Demszky et al. 2020, GoEmotions: A Dataset of Fine-Grained Emotions, ACL",
    ),
    _Set(
        file="hs_brexit",
        title="HS-Brexit",
        label="hateful",
        answers=("hate_speech", "not_hate_speech"),
        count=2,
        validated=True,
        rows={},
        terms="English tweets on Brexit; offensive in part. `hs-brexit` has them with the groups of the annotators.",
        citation="Akhtar, Basile and Patti 2021, Whose Opinions Matter?, arXiv",
    ),
    _Set(
        file="humor",
        title="Humour",
        label="funnier",
        answers=("A", "B", "X"),
        count=3,
        rows={},
        terms="Pairs of English puns, and which is funnier, X for neither.",
        citation="Simpson, Do Dinh, Miller and Gurevych 2019, Predicting Humorousness and Metaphor Novelty, ACL",
    ),
    _Set(
        file="md-agreement",
        title="MD-Agreement",
        label="offensive",
        answers=("offensive_speech", "not_offensive_speech"),
        count=2,
        validated=True,
        rows={},
        terms="English tweets; offensive in part. `md-agreement` has them with their domains.",
        citation="Leonardelli et al. 2021, Agreeing to Disagree, EMNLP",
    ),
    _Set(
        file="pejorative",
        title="pejorative words",
        label="usage",
        answers=("pejorative", "non-pejorative", "undecided"),
        count=3,
        rows={},
        terms="English tweets; offensive in part.",
        citation="Dinu, Iordache, Uban and Zampieri 2021, A Computational Exploration of Pejorative Language, Findings",
    ),
    _Set(
        file="sentiment",
        title="sentiment by age",
        label="sentiment",
        count=5,
        rows={},
        terms="English sentences on age and ageing, judged by adults of 50 years and more.",
        citation="Díaz, Johnson, Lazar, Piper and Gergle 2018, Addressing Age-Related Bias in Sentiment Analysis, CHI",
    ),
)

TID8: tuple[Card, ...] = tuple(_card(form, split) for form in _SETS for split in _SPLITS)
