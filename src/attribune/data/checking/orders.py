"""Classes in an order that their names tell: ranges of numbers, school grades, and the words of usual scales."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

__all__ = ["ordered_classes"]

_NUMBER = r"(\d[\d.,']*)"
_SIGN = r"\s*[%$€£k+]?\s*"
_RANGE = re.compile(
    rf"[$€£]?\s*{_NUMBER}{_SIGN}(?:-|\u2013|to|bis)\s*[$€£]?\s*{_NUMBER}{_SIGN}(?:[^\W\d]+)?", re.IGNORECASE
)
_BELOW = re.compile(
    rf"(?:<=?|under|below|less than|up to|unter|bis)\s*[$€£]?\s*{_NUMBER}{_SIGN}(?:[^\W\d]+)?", re.IGNORECASE
)
_ABOVE = re.compile(
    rf"(?:>=?|over|above|more than|at least|über|ab)\s*[$€£]?\s*{_NUMBER}{_SIGN}(?:[^\W\d]+)?|[$€£]?\s*{_NUMBER}{_SIGN}"
    r"(?:\+|or more|and over)(?:\s*[^\W\d]+)?",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[,.'](?=\d{3}(\D|$))")
_GRADE = re.compile(r"([A-F])([+-]?)")
_LADDERS = (
    "never|hardly ever|almost never|rarely|seldom|occasionally|sometimes|regularly|often|frequently|usually|mostly|"
    "very often|almost always|always",
    "none|trivial|very low|low|minor|mild|small|medium|moderate|normal|major|large|high|severe|very high|urgent|"
    "critical|blocker|extreme|highest",
    "terrible|awful|very poor|poor|weak|fair|okay|average|decent|good|very good|great|excellent|outstanding|perfect",
    "not|not at all|a little|slightly|somewhat|moderately|fairly|quite|quite a bit|a lot|very|very much|extremely|"
    "completely",
    "nie|fast nie|selten|gelegentlich|manchmal|häufig|oft|meistens|fast immer|immer",
    "mangelhaft|ausreichend|befriedigend|gut|sehr gut",
)
"""Words from the lowest to the highest."""
_POLES = (
    "disagree|agree",
    "dissatisfied|satisfied",
    "unsatisfied|satisfied",
    "unlikely|likely",
    "unhappy|happy",
    "unhelpful|helpful",
    "unimportant|important",
    "negative|positive",
    "bad|good",
    "poor|good",
    "worse|better",
    "weak|strong",
    "difficult|easy",
    "schlecht|gut",
    "unzufrieden|zufrieden",
    "stimme nicht zu|stimme zu",
)
"""The two ends of a scale, which words make stronger or weaker, and between which there may be one for neither."""
_STRONG = (
    "strongly",
    "very",
    "extremely",
    "completely",
    "totally",
    "definitely",
    "much",
    "highly",
    "sehr",
    "stark",
    "voll",
)
_WEAK = ("slightly", "somewhat", "rather", "a little", "mildly", "eher", "etwas")
_NEITHER = re.compile(r"(neither|neutral|undecided|mixed|unsure|ok|okay|average|same|weder|teils|so-so)\b.*")


def ordered_classes(names: Iterable[str]) -> list[str] | None:
    """Return classes from the lowest to the highest, where the names of at least three tell it; else None."""
    plain = {name: " ".join(re.sub(r"[_\s]+", " ", name.casefold()).split()) for name in names}
    if len(plain) < 3:
        return None
    last = {words.rpartition(" ")[2] for words in plain.values()}
    if len(last) == 1 and all(" " in words for words in plain.values()):  # not at all offensive, very offensive
        plain = {name: words.rpartition(" ")[0] for name, words in plain.items()}
    keys: list[Callable[[str], float | None]] = [_of_range, _of_grade]
    keys += [_of_ladder(ladder.split("|")) for ladder in _LADDERS]
    keys += [_between(*poles.split("|")) for poles in _POLES]
    for key in keys:
        if key is _of_grade and not any(name[1:] in ("+", "-") for name in plain):  # A, B and C may be answers
            continue
        places = {name: key(name if key is _of_grade else words) for name, words in plain.items()}
        found = {name: place for name, place in places.items() if place is not None}
        if len(found) == len(plain) == len(set(found.values())):
            return sorted(found, key=found.__getitem__)
    return None


def _of_range(text: str) -> float | None:
    for pattern, beyond in ((_RANGE, 0.0), (_BELOW, -0.5), (_ABOVE, 0.5)):
        if (match := pattern.fullmatch(text)) is not None:
            number = _THOUSANDS.sub("", next(filter(None, match.groups()))).replace(",", ".").rstrip(".")
            return float(number) + beyond if number.count(".") < 2 else None
    return None


def _of_grade(text: str) -> float | None:
    match = _GRADE.fullmatch(text)
    return None if match is None else -3.0 * ord(match[1]) + {"+": 1, "": 0, "-": -1}[match[2]]


def _of_ladder(steps: list[str]) -> Callable[[str], float | None]:
    return lambda text: float(steps.index(text)) if text in steps else None


def _between(low: str, high: str) -> Callable[[str], float | None]:
    def place(text: str) -> float | None:
        if _NEITHER.fullmatch(text):
            return 0.0
        for pole, sign in ((low, -1.0), (high, 1.0)):
            if text == pole:
                return 2 * sign
            if text.endswith(f" {pole}"):
                word = text.removesuffix(f" {pole}")
                return 3 * sign if word in _STRONG else sign if word in _WEAK else None
        return None

    return place
