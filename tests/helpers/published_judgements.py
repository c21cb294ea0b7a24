"""Files of judged texts in the formats in which their sources publish them, written by the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

PARTS = ("train", "dev", "test")
OLD = {
    "hs-brexit": ("HS-Brexit", ("0", "1"), {"annotators group": "group1,group2"}),
    "convabuse": ("ConvAbuse", ("1", "-2"), {"bot": "CarbonBot"}),
    "md-agreement": ("MD-Agreement", ("0", "1"), {"domain": "BLM"}),
    "armis": ("ArMIS", ("0", "1"), {"annotators group": "Lib_Female,Cons_Male"}),
}
NEW = {
    "csc": ("CSC", ("1", "6"), ("context", "response")),
    "multipico": ("MP", ("0", "1"), ("post", "reply")),
    "paraphrase": ("Paraphrase", ("-5", "5"), ("Question1", "Question2")),
    "varierr-nli": ("VariErrNLI", ("entailment,neutral", "contradiction"), ("context", "statement")),
}
TID8 = {
    "tid8-commitmentbank": ("-3", "0", "2"),
    "tid8-friends-qia": ("1", "2", "4"),
    "tid8-goemotions": ("positive", "neutral"),
    "tid8-hs-brexit": ("hate_speech", "not_hate_speech"),
    "tid8-humor": ("A", "B", "X"),
    "tid8-md-agreement": ("offensive_speech", "not_offensive_speech"),
    "tid8-pejorative": ("pejorative", "undecided"),
    "tid8-sentiment": ("Neutral", "Very positive"),
}
TID8_VALIDATED = ("tid8-friends-qia", "tid8-hs-brexit", "tid8-md-agreement")
"""Those whose files say which rows validate, where judgements are split."""


def judged_request(number: int, **changes: Any) -> dict[str, Any]:
    """A row of the Stanford Politeness Corpus: five scores and who gave them."""
    scores = {f"Score{judge}": 1 + (number + judge) % 25 for judge in range(1, 6)}
    judges = {f"TurkId{judge}": f"A{(number + judge) % 7}" for judge in range(1, 6)}
    known = {"Community": "Wikipedia", "Id": number, "Request": f"Could you do {number}?", **scores, **judges}
    return known | {"Normalized Score": 0.5} | changes


def judged_item(name: str, number: int, **changes: Any) -> dict[str, Any]:
    """An item of LeWiDi with two annotators: in the format of 2023 two lists in strings, in that of 2025 an object."""
    known: dict[str, Any] = {"annotators": f"Ann{number % 3},Ann{3 + number % 2}", "lang": "en"}
    if name in OLD:
        _, answers, other = OLD[name]
        turns = {"prev_agent": "Hi.", "prev_user": "hi", "agent": "How are you?", "user": f"fine {number}"}
        text = json.dumps(turns) if name == "convabuse" else f"Message {number}"
        return known | {"text": text, "annotations": ",".join(answers), "other_info": other} | changes
    _, answers, fields = NEW[name]
    text = {field: f"{field} {number}" for field in fields}
    given = dict(zip(known["annotators"].split(","), answers, strict=True))
    other = {"source": "reddit", "level": 1.0, "language_variety": "au"}
    return known | {"text": text, "annotations": given, "other_info": other} | changes


def convarg_judgement(number: int, **changes: Any) -> dict[str, Any]:
    """A row of ukpconvarg1_crowd.csv: one of two arguments of a side of a debate."""
    known = {"topic": f"debate-{number}_{'yes' if number % 2 else 'no'}", "a1": "arg1", "a2": f"arg{2 + number}"}
    return known | {"turkerid": f"A{number % 5}", "label": ("a1", "a2", "equal")[number % 3]} | changes


def convarg_files(judgements: list[dict[str, Any]], csv_text: Callable[..., str]) -> dict[str, str]:
    """The files of UKPConvArg1, with the arguments of these judgements."""
    named = dict.fromkeys((row["topic"], row[side]) for row in judgements for side in ("a1", "a2"))
    arguments = [{"topic": topic, "argument_id": one, "text": f"{topic} says {one}."} for topic, one in named]
    return {"ukpconvarg1_crowd.csv": csv_text(judgements), "ukpconvarg1_arguments.csv": csv_text(arguments)}


def tid8_judgement(name: str, number: int, **changes: Any) -> dict[str, Any]:
    """A judgement of a set of TID-8, with the columns that all of them have at their ends."""
    answers = TID8[name.removesuffix("-annotators")]
    known = {"question": f"First {number}</s>Second {number}", "uid": number // 3, "id": number}
    answer = number % len(answers)
    return known | {"annotator_id": f"w{number % 7}", "answer": answers[answer], "answer_label": answer} | changes


def tid8_folder(name: str) -> str:
    """The folder of a set's files."""
    base = name.removesuffix("-annotators").removeprefix("tid8-")
    folder = base.replace("-", "_") if base in ("friends-qia", "hs-brexit") else base
    return f"{folder}-{'atr' if name.endswith('-annotators') else 'ann'}"


def tid8_files(name: str, rows: int, csv_text: Callable[..., str]) -> dict[str, str]:
    """The files of a set of TID-8 as CSV, in which nobody who is tested is trained on in the second split."""
    parts = ("train", "validation", "test") if name in TID8_VALIDATED else ("train", "test")
    files = {}
    for place, part in enumerate(parts):
        own = "new" if name.endswith("-annotators") and part == "test" else "w"
        judgements = [tid8_judgement(name, n, annotator_id=f"{own}{n % 31}") for n in range(place, rows, len(parts))]
        files[f"{tid8_folder(name)}/{part}.csv"] = csv_text(judgements)
    return files


def judged_files(name: str, rows: int, csv_text: Callable[..., str]) -> dict[str, str] | None:
    """Files of a set with so many judgements, by their names; None for sets that are not of judgements."""
    if name == "politeness":
        requests = [judged_request(number) for number in range(rows // 5)]
        return {
            f"{site}.annotated.csv": csv_text(requests[place::2])
            for place, site in enumerate(("wikipedia", "stack-exchange"))
        }
    if name.startswith("tid8-"):
        return tid8_files(name, rows, csv_text)
    if name == "ukpconvarg1":
        return convarg_files([convarg_judgement(number) for number in range(rows)], csv_text)
    if name not in OLD | NEW:
        return None
    file = (OLD | NEW)[name][0]
    items = {str(number): judged_item(name, number) for number in range(rows // 2)}
    return {f"{file}_{part}.json": json.dumps(dict(list(items.items())[place::3])) for place, part in enumerate(PARTS)}
