"""Readers of texts that several people judge: a row for each judgement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from attribune_lab.datasets.row_log import (
    PARTS,
    Row,
    RowLog,
    Rows,
    SplitName,
    cell_text,
    read_csv,
    read_csv_or_parquet,
    read_json_object,
    whole_number,
)

_TURNS = ("prev_agent", "prev_user", "agent", "user")


def _as_they_are(answers: Any) -> Any:
    """Return answers that are listed with what a row says for each: the same."""
    return {answer: answer for answer in answers} if isinstance(answers, list) else answers


@dataclass(frozen=True, kw_only=True)
class LeWiDi:
    """Texts with the answers of every annotator, of Learning with Disagreements.

    Args:
        pair: the fields of ``text`` that are the two texts of a pair; otherwise it is one text.
        dialogue: whether that text is a dialogue of four turns.
        label: name of the column of answers.
        answers: the answers that there are, and what a row says for each; or what it says as well.
        several: names of the columns that say, for each answer, whether the annotator gave it: who may give several.
        group: name of the column for the annotators' groups, which ``other_info`` lists as it lists annotators.
        described: columns by the fields of ``other_info`` that they hold; ``lang`` is a field of the item itself.
    """

    pair: tuple[str, str] | None = None
    dialogue: bool = False
    label: str = ""
    answers: Annotated[Mapping[str, str], BeforeValidator(_as_they_are)]
    several: tuple[str, ...] = ()
    group: str | None = None
    described: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield a row for each annotator of each item."""
        parts: dict[str, SplitName] = {"train": "train", "dev": "validation", "test": "test"}
        for role, part in parts.items():
            for place, item in read_json_object(files[role], role=role, log=log, what="item"):
                for row in self._rows(place, item, log):
                    if log.writable(place, row):
                        yield part, row

    def _rows(self, place: str, item: Mapping[str, Any], log: RowLog) -> Iterator[Row]:
        texts = self._texts(item.get("text"))
        if not all(text.strip() for text in texts):
            log.leave_out("no text")
            return
        other = item.get("other_info")
        other = other if isinstance(other, dict) else {}
        said = {key: item.get("lang") if key == "lang" else other.get(key) for key in self.described}
        given = {name: cell_text(said[key]) for key, name in self.described.items()}
        judged = _judgements(item)
        if judged is None:
            found = (
                f"annotators {str(item.get('annotators'))[:40]!r}, annotations {str(item.get('annotations'))[:40]!r}"
            )
            log.broken(place, "not one annotation for each annotator", found=found)
            return
        groups = _listed(next((other[key] for key in ("annotators group", "Annotators group") if key in other), None))
        if self.group is not None and len(groups) != len(judged):
            log.broken(place, "not one group for each annotator", found=f"{len(groups)} and {len(judged)}")
            return
        row = dict(zip(("text", "text_pair"), (text.strip() for text in texts), strict=False))
        for number, (annotator, answer) in enumerate(judged):
            if (label := self._label(place, answer, log)) is not None:
                about = {"annotator": annotator, **given}
                yield row | label | about | ({} if self.group is None else {self.group: groups[number]})

    def _label(self, place: str, answer: str, log: RowLog) -> Row | None:
        """Return the columns of an answer; None for one that is broken or left out."""
        said = [part.strip() for part in answer.split(",")] if self.several else [answer.strip().removesuffix(".0")]
        if not any(said):
            log.leave_out("no answer")
        elif strange := [part for part in said if part not in self.answers]:
            reason = f"the annotation is none of {', '.join(self.answers)}"
            log.broken(place, reason, found=repr(strange[0][:30]))
        elif self.several:
            return {name: "yes" if name in said else "no" for name in self.several}
        else:
            return {self.label: self.answers[said[0]]}
        return None

    def _texts(self, value: Any) -> tuple[str, ...]:
        """Return the text of an item, or both texts of a pair; empty strings for what is not there."""
        if self.pair is not None:
            fields = value if isinstance(value, dict) else {}
            return tuple(cell_text(fields.get(name)) for name in self.pair)
        if self.dialogue:
            return (_dialogue(value),)
        return (value if isinstance(value, str) else "",)


def _judgements(item: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Annotators and their answers: two lists divided by commas in 2023, an object in 2025; None if they do not fit."""
    given = item.get("annotations")
    if isinstance(given, dict):
        return [(str(name).strip(), cell_text(answer)) for name, answer in given.items()] or None
    annotators, answers = _listed(item.get("annotators")), _listed(given)
    if not annotators or len(annotators) != len(answers) or not all(annotators):
        return None
    return list(zip(annotators, answers, strict=True))


def _listed(value: Any) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) and value.strip() else []


def _dialogue(value: Any) -> str:
    """A dialogue as lines; the field is JSON in a string."""
    try:
        turns = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return ""
    if not isinstance(turns, dict) or not cell_text(turns.get("user")):
        return ""
    lines = [f"{name.removeprefix('prev_')}: {cell_text(turns[name])}" for name in _TURNS if turns.get(name)]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Tid8:
    """Judgements of TID-8.

    Args:
        label: name of the column of answers.
        answers: those that there are; none where the source could not be asked.
        apart: a column that holds the annotator once more, by which rows are split.
    """

    label: str
    answers: tuple[str, ...] = ()
    apart: str | None = None

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the judgements; training rows have no part where the files do not say which rows validate."""
        is_given = "validation" in files
        needs = ("question", "annotator_id", "answer")
        for part in (part for part in PARTS if part in files):
            for place, cells in read_csv_or_parquet(files[part], role=part, log=log, needs=needs):
                row = self._row(place, cells, log)
                if row is not None and log.writable(place, row):
                    yield part if is_given or part == "test" else None, row

    def _row(self, place: str, cells: Mapping[str, str], log: RowLog) -> Row | None:
        text = "\n".join(filter(None, (line.strip() for line in cells["question"].split("</s>"))))
        annotator, answer = cells["annotator_id"].strip(), cells["answer"].strip()
        if log.leave_out_if({"no text": not text, "no annotator": not annotator, "no answer": not answer}):
            return None
        if self.answers and answer not in self.answers:
            log.broken(place, f"the answer is none of {', '.join(self.answers)}", found=repr(answer[:30]))
            return None
        row = {"text": text, self.label: answer, "annotator": annotator}
        return row if self.apart is None else row | {self.apart: annotator}


_PREFERENCES = {"a1": "first", "a2": "second", "equal": "tie"}


def ukpconvarg1(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the judgements of UKPConvArg1, each with both arguments."""
    rows = read_csv(files["arguments"], role="arguments", log=log, needs=("topic", "argument_id", "text"))
    texts = {(row["topic"], row["argument_id"]): row["text"].strip() for _, row in rows}
    needs = ("topic", "a1", "a2", "turkerid", "label")
    for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
        topic, judge, label = row["topic"], row["turkerid"].strip(), row["label"].strip()
        pair = [texts.get((topic, row[name])) for name in ("a1", "a2")]
        if None in pair:
            log.broken(place, "an argument is not among those of its topic", found=f"{row['a1']}, {row['a2']}")
        elif label not in _PREFERENCES:
            log.broken(place, f"the label is none of {', '.join(_PREFERENCES)}", found=repr(label[:30]))
        elif not all(pair) or not judge:
            log.leave_out("no text" if judge else "no judge")
        elif pair[0] == pair[1]:
            log.leave_out("the same text twice")
        else:
            judged = {"text": pair[0], "text_pair": pair[1], "preferred": _PREFERENCES[label], "judge": judge}
            yield None, judged | {"topic": topic, "debate": topic.partition("_")[0]}


@dataclass(frozen=True, kw_only=True)
class StudEmo:
    """Judgements of StudEmo.

    Args:
        label: the column of the judgement.
        lowest, highest: the whole numbers between which it is.
    """

    label: str
    lowest: int
    highest: int

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the judgements, each with its text."""
        rows = read_csv(files["texts"], role="texts", log=log, needs=("text_id", "text"))
        texts = {row["text_id"].strip(): row["text"].strip() for _, row in rows}
        needs = ("text_id", "annotator_id", self.label)
        levels = tuple(map(str, range(self.lowest, self.highest + 1)))
        for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
            level = row[self.label].strip().removesuffix(".0")
            text = texts.get(row["text_id"].strip())
            if text is None:
                log.broken(place, "there is no text of this text_id", found=repr(row["text_id"][:30]))
            elif level not in levels:
                reason = f"the {self.label} is not a whole number from {levels[0]} to {levels[-1]}"
                log.broken(place, reason, found=repr(level[:30]))
            elif not text:
                log.leave_out("no text")
            else:
                annotator = row["annotator_id"].strip().removesuffix(".0")
                yield None, {"text": text, self.label: level, "annotator": annotator}


_JUDGES = range(1, 6)


def politeness(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the five judgements of each request of the Stanford Politeness Corpus."""
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
                    log.broken(place, "the score is not a whole number from 1 to 25", found=repr(given[:30]))
                else:
                    community = row["Community"].strip()
                    judged = {"text": row["Request"].strip(), "score": str(score), "judge": judge}
                    yield None, judged | {"community": community}


_ABOUT = ("gender", "race", "age", "occupation", "education")
_UNSAID = "prefer not to disclose"


def popquorn(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the judgements of POPQUORN, each with what its annotator said of themselves."""
    needs = ("user_id", "text", "offensiveness", *_ABOUT)
    for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
        answer, user = (row[name].strip().removesuffix(".0") for name in ("offensiveness", "user_id"))
        text = row["text"].strip()
        if not text or not user:
            log.leave_out("no text" if user else "no annotator")
        elif answer not in tuple("12345"):
            log.broken(place, "the offensiveness is not a whole number from 1 to 5", found=repr(answer[:30]))
        else:
            about = {name: row[name].strip() for name in _ABOUT}
            about = {name: "" if value.casefold() == _UNSAID else value for name, value in about.items()}
            yield None, {"text": text, "offensiveness": answer, "annotator": user, **about}
