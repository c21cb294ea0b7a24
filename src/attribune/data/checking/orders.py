"""Classes in an order that their names tell: ranges of numbers, school grades, and the words of usual scales."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

_NUMBER = r" ?[$€£]? ?(\d[\d.,']*k?) ?[%$€£]?"
_RANGE = re.compile(
    r"(?P<below><=?|under|below|less than|up to|unter)?(?P<over>>=?|over|above|more than|at least|über|ab)?"
    rf"{_NUMBER}(?P<to> ?(?:-|\u2013|to|bis){_NUMBER})?(?P<more> ?(?:\+|or more|and over))?(?: ?[^\W\d]+)?"
)
_THOUSANDS = re.compile(r"[,.'](?=\d{3}(\D|$))")
_GRADE = re.compile(r"([a-f])([+-]?)")
_LADDERS = (
    "never|hardly ever|almost never|rarely|seldom|occasionally|sometimes|regularly|often|frequently|usually|mostly|"
    "very often|almost always|always",
    "none|trivial|very low|low|minor|mild|small|medium|moderate|normal|major|large|high|severe|very high|urgent|"
    "critical|blocker|extreme|highest",
    "terrible|awful|very poor|poor|weak|fair|okay|average|decent|good|very good|great|excellent|outstanding|perfect",
    "not|not at all|a little|slightly|somewhat|moderately|fairly|quite|quite a bit|a lot|very|very much|extremely|"
    "completely",
    "nie|fast nie|selten|gelegentlich|manchmal|häufig|oft|meistens|fast immer|immer",
    "sehr gering|gering|niedrig|leicht|mittel|hoch|schwer|sehr hoch",
    "mangelhaft|ausreichend|befriedigend|gut|sehr gut",
    "jamais|rarement|parfois|souvent|toujours",
    "nunca|casi nunca|rara vez|a veces|a menudo|casi siempre|siempre",
)
"""Words from the lowest to the highest."""
_POLES = (
    *("disagree|agree", "dissatisfied|satisfied", "unsatisfied|satisfied", "unlikely|likely", "unhappy|happy"),
    *("unhelpful|helpful", "unimportant|important", "negative|positive", "bad|good", "poor|good", "worse|better"),
    *("weak|strong", "difficult|easy", "schlecht|gut", "unzufrieden|zufrieden", "stimme nicht zu|stimme zu"),
)
"""The two ends of a scale, which words make stronger or weaker, and between which there may be one for neither."""
_STRONG = "strongly|very|extremely|completely|totally|definitely|much|highly|sehr|stark|voll".split("|")  # noqa: SIM905
_WEAK = "slightly|somewhat|rather|a little|mildly|eher|etwas".split("|")  # noqa: SIM905
_NEITHER = re.compile(r"(neither|neutral|undecided|mixed|unsure|ok|okay|average|same|weder|teils|so-so)\b.*")


def ordered_classes(names: Iterable[str]) -> list[str] | None:
    """Return classes from the lowest to the highest, where the names of at least three tell it; else None."""
    plain = {name: " ".join(re.sub(r"[_\s]+", " ", name.casefold()).split()) for name in names}
    if len(plain) < 3:
        return None
    last = {words.rpartition(" ")[2] for words in plain.values()}
    if len(last) == 1 and all(" " in words for words in plain.values()):  # not at all offensive, very offensive
        plain = {name: words.rpartition(" ")[0] for name, words in plain.items()}
    are_grades = any(words[1:] in ("+", "-") for words in plain.values())  # A, B and C alone may be answers
    keys: list[Callable[[str], float | None]] = [_of_range, *([_of_grade] if are_grades else [])]
    keys += [partial(_on_ladder, ladder.split("|")) for ladder in _LADDERS]
    keys += [partial(_between, *poles.split("|")) for poles in _POLES]
    for key in keys:
        places = {name: key(words) for name, words in plain.items()}
        found = {name: place for name, place in places.items() if place is not None}
        if len(found) == len(plain) == len(set(found.values())):
            return sorted(found, key=found.__getitem__)
    return None


def _of_range(text: str) -> float | None:
    match = _RANGE.fullmatch(text)
    if match is None or not any(match[part] for part in ("below", "over", "to", "more")):
        return None
    number = _THOUSANDS.sub("", match[3].removesuffix("k")).replace(",", ".").rstrip(".")
    beyond = 0.5 * bool(match["over"] or match["more"]) - 0.5 * bool(match["below"])
    return float(number) * (1000 if match[3].endswith("k") else 1) + beyond if number.count(".") < 2 else None


def _of_grade(text: str) -> float | None:
    match = _GRADE.fullmatch(text)
    return None if match is None else -3.0 * ord(match[1]) + {"+": 1, "": 0, "-": -1}[match[2]]


def _on_ladder(steps: list[str], text: str) -> float | None:
    return float(steps.index(text)) if text in steps else None


def _between(low: str, high: str, text: str) -> float | None:
    if _NEITHER.fullmatch(text):
        return 0.0
    for pole, sign in ((low, -1.0), (high, 1.0)):
        if text == pole:
            return 2 * sign
        word = text.removesuffix(f" {pole}")
        if word != text:
            return 3 * sign if word in _STRONG else sign if word in _WEAK else None
    return None
