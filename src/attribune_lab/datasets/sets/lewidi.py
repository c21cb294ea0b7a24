"""Learning with Disagreements: texts with the answer of every annotator (LeWiDi 2023 and 2025)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Given, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_json_object

__all__ = ["LEWIDI"]

_PARTS: dict[str, SplitName] = {"train": "train", "dev": "validation", "test": "test"}
_COMMITS = {2023: "37ed47e84d3709a3eb08c67dd3c65d0f934e2b9c", 2025: "b036070ff2d6cf000966a94f8b6f4773e61d9571"}
_TURNS = ("prev_agent", "prev_user", "agent", "user")

Texts = Callable[[Any], "tuple[str, ...]"]
"""The text of an item, or both texts of a pair; empty strings for what is not there."""


@dataclass(frozen=True, kw_only=True)
class _Format:
    """What differs from one set to another.

    Args:
        texts: reads the field ``text``.
        label: name of the column of answers.
        answers: the answers that there are, and what a row says for each.
        several: names of the columns that say, for each answer, whether the annotator gave it: who may give several.
        group: name of the column for the annotators' groups, which ``other_info`` lists as it lists annotators.
        described: columns by the fields of ``other_info`` that they hold; ``lang`` is a field of the item itself.
    """

    texts: Texts
    label: str = ""
    answers: Mapping[str, str]
    several: tuple[str, ...] = ()
    group: str | None = None
    described: Mapping[str, str]


def _read(form: _Format, files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for role, part in _PARTS.items():
        for place, item in read_json_object(files[role], role=role, log=log, what="item"):
            for row in _rows(place, item, form, log):
                if log.writable(place, row):
                    yield part, row


def _rows(place: str, item: Mapping[str, Any], form: _Format, log: RowLog) -> Iterator[Row]:
    """One row for each annotator of an item."""
    texts = form.texts(item.get("text"))
    if not all(text.strip() for text in texts):
        log.leave_out("no text")
        return
    other = item.get("other_info")
    other = other if isinstance(other, dict) else {}
    given = {name: _cell(item.get("lang") if key == "lang" else other.get(key)) for key, name in form.described.items()}
    judged = _judgements(item)
    if judged is None:
        found = f"annotators {str(item.get('annotators'))[:40]!r}, annotations {str(item.get('annotations'))[:40]!r}"
        log.broken(place, "not one annotation for each annotator", GET_AGAIN, found=found)
        return
    groups = _listed(next((other[key] for key in ("annotators group", "Annotators group") if key in other), None))
    if form.group is not None and len(groups) != len(judged):
        log.broken(place, "not one group for each annotator", GET_AGAIN, found=f"{len(groups)} and {len(judged)}")
        return
    for number, (annotator, answer) in enumerate(judged):
        said = [part.strip() for part in answer.split(",")] if form.several else [_whole(answer)]
        if not any(said):
            log.leave_out("no answer")
        elif strange := [part for part in said if part not in form.answers]:
            reason = f"the annotation is none of {', '.join(form.answers)}"
            log.broken(place, reason, GET_AGAIN, found=repr(strange[0][:30]))
        else:
            row = dict(zip(("text", "text_pair"), (text.strip() for text in texts), strict=False))
            row |= {name: "yes" if name in said else "no" for name in form.several}
            row |= {} if form.several else {form.label: form.answers[said[0]]}
            row |= {"annotator": annotator, **given}
            yield row if form.group is None else row | {form.group: groups[number]}


def _judgements(item: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Annotators and their answers: two lists divided by commas in 2023, an object in 2025; None if they do not fit."""
    given = item.get("annotations")
    if isinstance(given, dict):
        return [(str(name).strip(), _cell(answer)) for name, answer in given.items()] or None
    annotators, answers = _listed(item.get("annotators")), _listed(given)
    if not annotators or len(annotators) != len(answers) or not all(annotators):
        return None
    return list(zip(annotators, answers, strict=True))


def _listed(value: Any) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) and value.strip() else []


def _cell(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _whole(answer: str) -> str:
    """An answer without the decimals of a whole number."""
    return answer.strip().removesuffix(".0")


def _plain(value: Any) -> tuple[str, ...]:
    return (value if isinstance(value, str) else "",)


def _pair(first: str, second: str, value: Any) -> tuple[str, ...]:
    fields = value if isinstance(value, dict) else {}
    return _cell(fields.get(first)), _cell(fields.get(second))


def _turns(value: Any) -> tuple[str, ...]:
    """A dialogue as lines; the field is JSON in a string."""
    try:
        turns = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return ("",)
    if not isinstance(turns, dict) or not _cell(turns.get("user")):
        return ("",)
    return ("\n".join(f"{name.removeprefix('prev_')}: {_cell(turns.get(name))}" for name in _TURNS if turns.get(name)),)


def _card(form: _Format, *, edition: int, file: str, rows: tuple[int, ...], **texts: Any) -> Card:
    sums = texts.pop("sha256", (None,) * len(_PARTS))
    names = [f"{file}_{part}.json" for part in _PARTS]
    folders = ("", f"{file}_dataset/", f"LeWiDi_3-2025/{file}/", f"{file}/", f"lewidi/{file}_dataset/", "lewidi/")
    return Card(
        source=f"Learning with Disagreements {edition} (le-wi-di.github.io)",
        obtain=f"Get {', '.join(names)} from github.com/Le-Wi-Di/le-wi-di.github.io.",
        revision=f"github.com/Le-Wi-Di/le-wi-di.github.io at {_COMMITS[edition]}",
        files=tuple(
            SourceFile(role=part, names=tuple(f"{folder}{name}" for folder in folders), rows=count, sha256=checksum)
            for part, name, count, checksum in zip(_PARTS, names, rows, sums, strict=True)
        ),
        read=partial(_read, form),
        split=Given(),
        attributes=categorical("annotator", *form.described.values(), *([form.group] if form.group else [])),
        labels=form.several or (form.label,),
        window="head",
        recipe=None,
        **texts,
    )


_TASK = {"kind": "classification", "classes": ["no", "yes"], "positive": "yes"}
_YES_NO = {"0": "no", "1": "yes"}
_EVERY = "Each annotator's answer is a row; the files say which texts validate and which test."
_TASK_2023 = "Leonardelli et al. 2023, SemEval-2023 Task 11: Learning with Disagreements (LeWiDi), SemEval"
_TASK_2025 = "Leonardelli et al. 2025, LeWiDi-2025 at NLPerspectives, NLPerspectives"

LEWIDI: tuple[Card, ...] = (
    _card(
        _Format(texts=_plain, label="hateful", answers=_YES_NO, group="group", described={}),
        edition=2023,
        name="hs-brexit",
        title="HS-Brexit",
        file="HS-Brexit",
        rows=(784, 168, 168),
        sha256=(
            "d204d83c7b1a73f037b3aff36aac61357c08a96f96292a37ac7655eb562d81fb",
            "77c17f95985cbb6db47ffcda637e717a9074f2660e15b5c0c1f9006f50da60a7",
            "24e5e1615818ff6e3b96e50245cfe10636ef8ec0ea51f2c2a60acb68858fd195",
        ),
        licence=NOT_STATED,
        terms="English tweets on Brexit; offensive in part.",
        citation=f"Akhtar, Basile and Patti 2021, Whose Opinions Matter?, arXiv; {_TASK_2023}",
        task=_TASK,
        classes=2,
        metric="f1",
        preparation=f"{_EVERY} `group`: three annotators are Muslim immigrants in the UK, three are not.",
    ),
    _card(
        _Format(
            texts=_turns,
            label="abusive",
            answers={"1": "no", "0": "no", "-1": "yes", "-2": "yes", "-3": "yes"},
            described={"bot": "bot"},
        ),
        edition=2023,
        name="convabuse",
        title="ConvAbuse",
        file="ConvAbuse",
        rows=(2_398, 812, 840),
        sha256=(
            "f68d9c1e234afaf7e582103daac4e0f362da6418be3ff38e6cce76cfa3b674fc",
            "d95f9e740b07076e070ed47a8e010894d7cdbacb3246c89a000c26a17c61a04e",
            "4a88c6cf2530eb3610bd1e9e7291916ad7fdaedc01dca4e68bcc3e846310afd9",
        ),
        licence="CC BY 4.0",
        terms="Dialogues of people with two conversational agents; offensive in part.",
        citation=f"Cercas Curry, Abercrombie and Rieser 2021, ConvAbuse, EMNLP; {_TASK_2023}",
        task=_TASK,
        classes=2,
        metric="f1",
        preparation=f"{_EVERY} The text is the dialogue of four turns, a line each. Severities below 0 are abusive.",
    ),
    _card(
        _Format(texts=_plain, label="offensive", answers=_YES_NO, described={"domain": "domain"}),
        edition=2023,
        name="md-agreement",
        title="MD-Agreement",
        file="MD-Agreement",
        rows=(6_592, 1_104, 3_057),
        licence=NOT_STATED,
        terms="English tweets; offensive in part.",
        citation=f"Leonardelli et al. 2021, Agreeing to Disagree, EMNLP; {_TASK_2023}",
        task=_TASK,
        classes=2,
        metric="f1",
        preparation=_EVERY,
    ),
    _card(
        _Format(texts=_plain, label="misogynistic", answers=_YES_NO, group="group", described={}),
        edition=2023,
        name="armis",
        title="ArMIS",
        file="ArMIS",
        rows=(657, 141, 145),
        licence=NOT_STATED,
        terms="Arabic tweets; offensive in part.",
        citation=f"Almanea and Poesio 2022, ArMIS, LREC; {_TASK_2023}",
        task=_TASK,
        classes=2,
        metric="f1",
        preparation=f"{_EVERY} `group`: a moderate woman, a liberal woman, a conservative man.",
    ),
    _card(
        _Format(
            texts=partial(_pair, "context", "response"),
            label="sarcasm",
            answers={str(number): str(number) for number in range(1, 7)},
            described={},
        ),
        edition=2025,
        name="csc",
        title="Conversational Sarcasm Corpus",
        file="CSC",
        rows=(5_628, 704, 704),
        licence=NOT_STATED,
        terms="For research; see the page of the shared task.",
        citation=f"Jang and Frassinelli 2024, Generalizable Sarcasm Detection, NAACL; {_TASK_2025}",
        task={"kind": "rating"},
        classes=6,
        metric="rmse",
        pair=True,
        preparation=f"{_EVERY} `text` is the situation, `text_pair` the response.",
    ),
    _card(
        _Format(
            texts=partial(_pair, "post", "reply"),
            label="ironic",
            answers=_YES_NO,
            described={"lang": "language", "language_variety": "variety", "source": "source"},
        ),
        edition=2025,
        name="multipico",
        title="MultiPICo",
        file="MP",
        rows=(12_017, 3_005, 3_756),
        licence=NOT_STATED,
        terms="Posts of Reddit and X in nine languages; see the page of the shared task.",
        citation=f"Casola et al. 2024, MultiPICo, ACL; {_TASK_2025}",
        task=_TASK,
        classes=2,
        metric="f1",
        pair=True,
        preparation=f"{_EVERY} `text` is the post, `text_pair` the reply.",
    ),
    _card(
        _Format(
            texts=partial(_pair, "Question1", "Question2"),
            label="score",
            answers={str(number): str(number) for number in range(-5, 6)},
            described={},
        ),
        edition=2025,
        name="paraphrase",
        title="Paraphrase (LeWiDi)",
        file="Paraphrase",
        rows=(400, 50, 50),
        licence=NOT_STATED,
        terms="Questions of Quora; see the page of the shared task.",
        citation=_TASK_2025,
        task={"kind": "rating"},
        classes=11,
        metric="rmse",
        pair=True,
        preparation=_EVERY,
    ),
    _card(
        _Format(
            texts=partial(_pair, "context", "statement"),
            answers={name: name for name in ("entailment", "neutral", "contradiction")},
            several=("entailment", "neutral", "contradiction"),
            described={},
        ),
        edition=2025,
        name="varierr-nli",
        title="VariErr NLI",
        file="VariErrNLI",
        rows=(388, 50, 62),
        licence=NOT_STATED,
        terms="Pairs of MultiNLI; see the page of the shared task.",
        citation=f"Weber-Genzel et al. 2024, VariErr NLI, ACL; {_TASK_2025}",
        task={"kind": "aspects", "names": ["entailment", "neutral", "contradiction"]},
        classes=2,
        metric="mean_accuracy",
        pair=True,
        preparation=f"{_EVERY} An annotator may give several answers: each is a column of yes and no.",
    ),
)
"""Four sets of 2023 and four of 2025."""
