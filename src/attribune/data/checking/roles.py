"""Guesses of what each column is for, and of the task, from names and profiles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from attribune.core.arrays import DoubleArray, IntArray
from attribune.core.door import as_argument, as_call
from attribune.data.checking.findings import (
    attribute_finding,
    damage_finding,
    leak_finding,
    presence_finding,
    together_finding,
)
from attribune.data.checking.judgements import is_told_by, numbers_the_texts
from attribune.data.checking.nesting import said_by_others
from attribune.data.checking.orders import ordered_classes
from attribune.data.checking.profiles import ColumnProfile, are_stars, number_codes
from attribune.data.checking.whole_numbers import (
    LONG,
    NumberKind,
    explained_by_size,
    kind_of_fractions,
    kind_of_numbers,
    row_numbers,
)
from attribune.data.column_names import ColumnName
from attribune.data.text_files import UNNAMED
from attribune.findings import Finding
from attribune.schema.columns import NO_NUMBER
from attribune.tasks import TASKS
from attribune.tasks.labels import is_explained
from attribune.tasks.preference import SIDES, TIES

Role = Literal["text", "label", "attribute", "id", "time", "weight", "left out"]

# As sentence-transformers has them.
_COMPARED = {"text": "anchor", "text_pair": "positive", "text_negative": "negative"}
_PREFERRED = {"prompt": "prompt", "text": "chosen", "text_pair": "rejected"}  # as trl has them
_PARTS = frozenset("train training val valid validation dev development eval test testing".split())  # noqa: SIM905
_OF_ANSWER = re.compile(r"(?P<answer>.+)([:._ ]confidence|_gold)", re.IGNORECASE)
_OF_CLASSES = re.compile(
    r"(^|_)(class|category|topic|intent|klasse|kategorie|thema|classe|categorie|clase|categoria|tema|"
    r"категория|тема|类别|分类|分類)(_(id|index|code|number))?$"
)
_OR_OF_LABELS = re.compile(r"(^|_)(label|target)(_id)?$")  # which may also be ratings, if they begin with 1
_LIKE_A_DATE = re.compile(r"\d\D+\d")
_LOOKED_AT = 200  # values
_CHOICE = re.compile(r"winner|prefer|better|best|choice|chosen")
_ANSWERS = re.compile(r"response|answer|completion|output|reply|generation|summary|candidate|model|assistant")
_NO_PREFERENCE = re.compile(r"(tied?|draw|equal(ly)?|both|neither|same)\b", re.IGNORECASE)
_MOST_ANSWERS = 6  # to a question such as which of two texts is better
_WEIGHTS = ("weight", "weights", "sample_weight")
_NEARLY_ALL = 0.95
_MOST_ROWS = 0.9
_EXPLAINS_ALL = 0.9  # share of the variance of classes, which a threshold at the wrong place does not lose
_BESIDE = 2  # distance of a name that has the word for a label beside other words
_OF_A_MODEL = re.compile(r"(^|_)(scores?|overall|confidence)($|_)")  # or a judgement
_OF_ROWS = re.compile(r"(^|_)(average|avg|mean)(_|$)")  # the same for several rows
_ONE_OF_SEVERAL = re.compile(
    r"^(?!q|item|aspe[ck]t|[ck]riteri|dimension|frage|vraag|pregunta|pergunta|domanda|вопрос|问题|質問|문항).*\d|^.$"
)  # rater2 and A, not q2
_SHOWN = 5  # columns that may be the label, too
_FEW_VALUES = 20  # up to which numbers are categories
_MANY_CLASSES = 200
_MOST_JUDGES = 8  # rows of a short text; what more rows share, such as a title, names something
_MOST_ATTRIBUTES = 20  # that are proposed
_MOST_WORDS = 3.0  # of a value that may be a category
_FEWEST_TEXTS = 10  # that many people judge: fewer are classes, which may be sentences
_MOST_STAR_WORDS = 5.0  # 4 out of 5 stars
_SIGNS = r"[$€£¥%]|EUR|USD|GBP|CHF"
_WITH_SIGN = re.compile(rf"(?=.*({_SIGNS}))({_SIGNS})?\s?[+-]?\d[\d.,'\s]*({_SIGNS})?")
_FIELDS = "its cells hold several fields, or bytes: make a column of each field that tells something"
_LONG = 40  # characters of a text in a language without spaces


@dataclass(frozen=True, kw_only=True)
class RoleOf:
    """What a column is taken for.

    Attributes:
        kind: of an attribute: ``categorical``, ``multi_label`` or ``number``.
        separator: between the values of a cell.
        reason: why it is left out, or what in the values of a number says its kind, in a few words.
        finding: what is wrong with it, in a sentence with the cure.
    """

    role: Role
    kind: str = ""
    separator: str = ""
    reason: str = ""
    finding: Finding | None = None


@dataclass(frozen=True, kw_only=True)
class TaskGuess:
    """The task that labels look made for.

    Attributes:
        words: said of the labels.
        choices: the kinds to choose from, `kind` first; none where it is the default.
        options: of the task.
        texts: the columns of each argument of `train` for a text, of a task that compares texts.
        needs_label: whether the texts alone do not say it.
    """

    kind: str
    words: str
    choices: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs_label: bool = True


def left_out(reason: str = "see below", finding: Finding | None = None) -> RoleOf:
    """Return the role of a column that no training reads; without a reason the finding says it."""
    return RoleOf(role="left out", reason=reason, finding=finding)


NAMED_ASPECTS = TaskGuess(kind="aspects", words="each is one of its own", choices=("aspects",))
"""The task of several columns that are named as labels."""
ANSWER = left_out("an answer of the judges, as the label is")


def guess_compared(profiles: Sequence[ColumnProfile]) -> TaskGuess | None:
    """Return the task of columns that are named as texts to compare, of which the names say all that a label would.

    They are those of a similarity, anchors, positives and perhaps negatives; or the chosen and the rejected of two
    answers, perhaps to a prompt.
    """
    columns = {one.name.lower(): one.name for one in reversed(profiles) if one.kind not in ("list", "other")}
    for kind, known in (("similarity", _COMPARED), ("preference", _PREFERRED)):
        texts = {argument: [columns[name]] for argument, name in known.items() if name in columns}
        if {"text", "text_pair"} <= texts.keys():
            words = ", ".join(chain(*texts.values()))
            return TaskGuess(kind=kind, words=words, choices=(kind,), texts=texts, needs_label=False)
    return None


def guess_preference(texts: Sequence[str], label: ColumnProfile) -> TaskGuess | None:
    """Return the task of two texts whose names differ as ``answer_a`` and ``answer_b``, if the label prefers one.

    Further texts are the prompt.
    """
    pairs = [(one, other) for one in texts for other in texts if _are_sides(one, other)]
    if len(pairs) != 1 or label.values > _MOST_ANSWERS:
        return None
    says_so = _CHOICE.search(label.name.lower()) or (
        ColumnName(label.name).means("label") and _ANSWERS.search(pairs[0][0].lower())
    )
    if label.kind == "number" and not says_so:
        return None
    answers = label.codes.values.to_pylist()
    ties = [answer for answer in answers if _NO_PREFERENCE.match(answer)]
    sides = {answer.casefold(): answer for answer in answers if answer not in ties}
    named = [pair for pair in (*SIDES, ("0", "1"), pairs[0]) if {*sides} == {name.casefold() for name in pair}]
    if not named or len(sides) + len(ties) < len(answers):
        return None
    labels = [sides[name.casefold()] for name in named[0]]
    options = {} if tuple(labels) in SIDES else {"labels": labels}
    options |= {} if {*ties} <= {*TIES} else {"ties": ties}
    prompts = [name for name in texts if name not in pairs[0]]
    found = dict(zip(("prompt", "text", "text_pair"), (prompts, *([name] for name in pairs[0])), strict=True))
    words = "which of two texts is better"
    if labels == ["0", "1"]:
        words += ", 0 for the first and 1 for the second (if they mean the opposite, turn task.labels around)"
    return TaskGuess(kind="preference", words=words, choices=("preference",), options=options, texts=found)


def _are_sides(one: str, other: str) -> bool:
    words, others = ColumnName(one).plain.split("_"), ColumnName(other).plain.split("_")
    differing = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    return len(words) == len(others) and len(differing) == 1 and differing[0] in (*SIDES, ("0", "1"))


def guess_texts(profiles: Sequence[ColumnProfile]) -> list[str]:
    """Return the columns that look like texts; beside one of other texts in most rows, not what many rows share."""
    found = [one for one in profiles if _plain_role(one) is None and _is_text(one)]
    if any(one.values >= one.present / 2 for one in found):
        found = [one for one in found if one.values >= one.present / 5 or ColumnName(one.name).means("text")]
    return [one.name for one in found]


def guess_roles(
    profiles: Sequence[ColumnProfile],
    *,
    text: Sequence[str],
    groups: IntArray | None = None,
    judge: str | None = None,
    label: str | None = None,
    is_guessed: bool = True,
    is_labelled: bool = True,
) -> dict[str, RoleOf]:
    """Guess the role of each column, by name.

    Args:
        text: columns of texts, and `label` the one that is known to be the label.
        groups: (rows,) number of the text of each row, -1 for none.
        judge: the column of those who judge the texts, if there is one.
        is_guessed: whether the label is a guess, though one that is made before.
        is_labelled: whether there is a label.
    """
    answers = _answers(profiles)
    roles = _roles_without_label([one for one in profiles if one.name != label], text, groups, answers)
    rest = [one for one in profiles if one.name not in roles]
    candidates = _judgements(rest, groups, judge)
    chosen = label or (_label_among(candidates, answers) if is_labelled else None)
    if chosen is not None:
        is_known = label is not None or chosen in answers
        unusable = unusable_labels(one for one in profiles if one.name not in text)
        finding = None if is_known else _finding_of_guess(chosen, candidates, unusable)
        roles[chosen] = RoleOf(role="label", finding=finding)
    target = next((as_read(one, roles[chosen]) for one in profiles if one.name == chosen), None)
    further = [one.name for one in rest if chosen in answers and one.name in answers]
    if len(candidates) < len(rest):
        further += [one.name for one in candidates if one.values <= _FEW_VALUES]
    beside = [name for name in further if name not in roles]
    roles |= dict.fromkeys(beside, ANSWER)
    if target is not None:
        roles |= _present_with_label(profiles, roles, target)
    others = [one for one in rest if one.name not in roles]
    roles |= {one.name: _attribute_role(one, target, groups, is_guessed=is_guessed) for one in others}
    proposed = [one.name for one in rest if roles[one.name].role == "attribute"]
    roles |= dict.fromkeys(proposed[_MOST_ATTRIBUTES:], left_out("after many others"))
    categories = {one.name: one.spelled for one in others if roles[one.name].kind == "categorical"}
    for name, other in said_by_others(categories).items():
        roles[name] = left_out(finding=Finding("attribute-says-nothing-more", {"column": name, "other": other}))
    if target is not None:
        roles |= _told_together([one for one in others if roles[one.name].role == "attribute"], target, groups)
    return {one.name: roles[one.name] for one in profiles}


def _roles_without_label(
    profiles: Sequence[ColumnProfile],
    text: Sequence[str],
    groups: IntArray | None,
    answers: Mapping[str, Sequence[str]],
) -> dict[str, RoleOf]:
    """Return the roles that do not depend on which column is the label."""
    roles = {one.name: role for one in profiles if (role := _plain_role(one)) is not None}
    roles |= dict.fromkeys(text, RoleOf(role="text"))
    sure = {name: answer for answer, others in answers.items() for name in others}
    for one in profiles:
        if one.name in sure:
            roles[one.name] = left_out(f"tells of {sure[one.name]!r}, and is known with it")
        elif one.name not in roles and groups is not None and numbers_the_texts(one.codes.codes, groups):
            roles[one.name] = RoleOf(role="id", reason="numbers the texts")
    return roles


def _present_with_label(
    profiles: Sequence[ColumnProfile], roles: Mapping[str, RoleOf], label: ColumnProfile
) -> dict[str, RoleOf]:
    """Leave out times, and texts beside others, that only rows of one label have."""
    texts, times = (
        [one for one in profiles if one.name in roles and roles[one.name].role == role] for role in ("text", "time")
    )
    asked = [*times, *(texts if len(texts) > 1 else [])]
    found = {one.name: presence_finding(one.name, one.codes, label.codes) for one in asked}
    told = {name: left_out(finding=finding) for name, finding in found.items() if finding is not None}
    if all(one.name in told for one in texts):
        told = {name: role for name, role in told.items() if roles[name].role == "time"}
    return told


def unusable_labels(profiles: Iterable[ColumnProfile]) -> dict[str, str]:
    """Return the columns that are called a label and can be none, each with the reason in words."""
    found = {one.name: _unusable_words(one) for one in profiles if ColumnName(one.name).distance("label") < _BESIDE}
    return {name: words for name, words in found.items() if words}


def _unusable_words(one: ColumnProfile) -> str:
    if one.present == 0:
        return "has no value"
    if one.values == 1:
        return "has one value"
    if one.is_unique and one.kind != "list":
        return "has another value in each row"
    return "is empty in nearly all rows" if one.missing > _MOST_ROWS * one.rows else ""


def _finding_of_guess(label: str, candidates: Sequence[ColumnProfile], unusable: Mapping[str, str]) -> Finding | None:
    """Return what to say of a label that neither its name nor its values make one, or others as well."""
    chosen = next(one for one in candidates if one.name == label)
    is_named = ColumnName(label).means("label")
    names = {one.name: ColumnName(one.name) for one in candidates if 1 < one.values <= _FEW_VALUES}
    others = [name for name, words in names.items() if name != label and not words.means("group")]
    if _has_stars(chosen):
        return None
    if is_named:
        is_score = chosen.kind == "number" and _OF_A_MODEL.search(ColumnName(label).plain) is not None
        classes = {one.name for one in candidates if _may_be_classes(one)} if is_score else set()
        others = [name for name in others if name in classes and not names[name].means("label")]
        return Finding("other-labels", {"column": label, "others": others[:_SHOWN]}) if others else None
    because = "things" if ColumnName(label).means("group") else "scale" if _are_words_of_scale(chosen) else "few"
    values = {"column": label, "others": others[:_SHOWN], "unusable": unusable, "because": because}
    return Finding("label-is-a-guess", values)


def _may_be_classes(one: ColumnProfile) -> bool:
    """Whether nearly all rows have one of a few texts, or of two numbers, as of what people were asked for."""
    is_few = one.values <= _MOST_ANSWERS if one.kind == "text" else one.values == 2
    return is_few and one.present >= _NEARLY_ALL * one.rows


def _answers(profiles: Sequence[ColumnProfile]) -> dict[str, list[str]]:
    """Return the columns with answers of people, each with those that say how sure they are, or what was expected."""
    names = [one.name for one in profiles]
    found: dict[str, list[str]] = {}
    for name in names:
        of_answer = _OF_ANSWER.fullmatch(name)
        if of_answer is not None and of_answer["answer"] in names:
            found.setdefault(of_answer["answer"], []).append(name)
    return found


def _judgements(rest: Sequence[ColumnProfile], groups: IntArray | None, judge: str | None) -> Sequence[ColumnProfile]:
    """Return the columns that can be what a judge says of a text: not himself, nor what either of the two tells."""
    told_by = next((one.codes.codes for one in rest if one.name == judge), None)
    if told_by is None or groups is None:
        return rest
    return [
        one
        for one in rest
        if one.name != judge and not is_told_by(one.codes.codes, told_by) and not is_told_by(one.codes.codes, groups)
    ]


def _plain_role(one: ColumnProfile) -> RoleOf | None:
    """Return the role of a column that its form alone tells."""
    name = ColumnName(one.name)
    if one.name.startswith("_") and "." not in one.name and not _is_text(one):
        return left_out("is of the tool that wrote the table, as the first sign of its name says")
    if not name.means("label") and (damage := damage_finding(one)) is not None:
        return left_out(finding=damage)
    if one.kind == "other":
        return left_out("no row has a value" if one.present == 0 else _FIELDS)
    if 2 <= one.values <= len(_PARTS) and _PARTS.issuperset(text.casefold() for text in one.codes.values.to_pylist()):
        return left_out(finding=Finding("column-of-parts", {"column": one.name}))
    is_named_so = name.means("time") and not name.plain.endswith("version")  # such as createdVersion
    if one.kind == "time" or (is_named_so and _may_be_times(one)):
        return RoleOf(role="time")
    if one.kind == "number" and name.plain in _WEIGHTS and one.low >= 0 and not one.missing:
        return RoleOf(role="weight")
    is_index = one.name == UNNAMED and one.whole and one.values > one.present / 2
    if is_index or (one.is_unique and one.whole and one.high - one.low + 1 == one.values):
        return RoleOf(role="id", reason="numbers the rows")
    is_short = one.kind == "number" or one.words < _MOST_WORDS
    if one.is_unique and is_short and (name.means("id") or (one.kind == "text" and one.words < 1.1)):
        return RoleOf(role="id")
    is_long = one.low >= LONG or name.means("id") or one.name == UNNAMED
    if one.kind == "number" and one.whole and is_long and one.values >= _MOST_ROWS * one.present > 0:
        return RoleOf(role="id", reason="numbers nearly all rows")
    return None


def _may_be_times(one: ColumnProfile) -> bool:
    """Whether the values of a column that is called one of times can be some: short texts, and seconds since 1970."""
    if one.kind == "number":
        return one.low >= LONG
    texts = one.codes.values.slice(0, _LOOKED_AT).to_pylist()
    is_like_a_date = sum(_LIKE_A_DATE.search(text) is not None for text in texts) >= _NEARLY_ALL * len(texts)
    return one.kind == "text" and one.words < 2 * _MOST_WORDS and one.values > _FEW_VALUES and is_like_a_date


def _is_text(one: ColumnProfile) -> bool:
    if one.kind != "text" or one.separator is not None:
        return False
    is_long = one.words >= _MOST_WORDS + 1 or one.characters >= _LONG
    is_varied = one.values >= one.present / 2 or (one.words >= 2 * _MOST_WORDS and one.values >= _FEWEST_TEXTS)
    is_named = ColumnName(one.name).means("text") and one.words >= _MOST_WORDS
    is_named = is_named and one.values > max(2, one.present / _MOST_JUDGES)
    return (is_long and is_varied) or is_named


def _label_among(candidates: Sequence[ColumnProfile], answers: Collection[str]) -> str | None:
    """Return the column that is most like a label; None where none is.

    First one with stars, or with answers, or with the name of a label, next the last one with the fewest values of many
    rows. A column with the name of people or things is only taken if there is no other one.
    """
    kinds = ("text", "number", "list")
    usable = [
        one for one in candidates if one.kind in kinds and one.missing <= _MOST_ROWS * one.rows and one.values > 1
    ]
    names = {one.name: ColumnName(one.name) for one in usable}

    def order(one: ColumnProfile) -> tuple[Any, ...]:
        name = names[one.name]
        of_rows = _OF_ROWS.search(name.plain) is not None
        is_answer, distance = one.name in answers, name.distance("label")
        return not _has_stars(one), not is_answer, _is_mostly_empty(one), distance, of_rows, one.values

    for one in sorted(usable, key=order):
        is_named = names[one.name].distance("label") < 2 and (one.values <= one.present / 2 or one.kind == "list")
        if _is_mostly_empty(one) and not is_named:
            continue
        is_scale = one.kind == "number" or is_named or one.values <= max(_FEW_VALUES, one.present / 20)
        if is_scale and (_has_stars(one) or one.name in answers or names[one.name].means("label")):
            return one.name
    filled = [one for one in usable if one.kind != "list" and not _is_mostly_empty(one)]
    few = [one for one in filled if one.values <= _FEW_VALUES and one.present >= 3 * one.values]

    def likely(one: ColumnProfile) -> tuple[Any, ...]:
        return names[one.name].means("group"), not _are_words_of_scale(one), one.values

    found = min(reversed(few), key=likely, default=None)
    return None if found is None else found.name


def _is_mostly_empty(one: ColumnProfile) -> bool:
    return one.missing >= one.rows / 2


def _are_words_of_scale(one: ColumnProfile) -> bool:
    """Whether the values are answers such as ``rarely`` and ``often``; ranges, as those of ages, are none."""
    values = one.spelled.values.to_pylist()
    return not any(map(str.isdigit, "".join(values))) and ordered_classes(values) is not None


def _attribute_role(
    one: ColumnProfile, label: ColumnProfile | None, groups: IntArray | None, *, is_guessed: bool
) -> RoleOf:
    number = _number_kind(one, label, groups)
    kind = _attribute_kind(one) if number is None or number.kind != "number" else "number"
    codes = one.codes if kind == "number" else one.spelled
    signs = _finding_of_signs(one)
    problem = attribute_finding(one.name, codes, may_be_unique=kind in ("number", "multi_label"))
    if problem is not None:
        problem = signs or problem
    elif label is not None:
        problem = leak_finding(one.name, codes, label.codes, guessed=label.name if is_guessed else "")
        if problem is None and kind == "number" and (share := explained_by_size(codes, groups, label)) >= _EXPLAINS_ALL:
            problem = Finding("number-tells-label", {"column": one.name, "share": share})
    if problem is not None:
        return left_out(finding=problem)
    if kind is None:
        example = one.codes.values[0].as_py() if one.values else ""
        return left_out(f"nearly all values differ, such as {example!r:.40}")
    note = signs
    if note is None and is_guessed and label is not None and ColumnName(one.name).means("label"):
        note = Finding("named-as-label", {"column": one.name, "label": label.name})
    reason = "" if number is None else number.reason
    return RoleOf(role="attribute", kind=kind, separator=one.separator or "", reason=reason, finding=note)


def _told_together(
    attributes: Sequence[ColumnProfile], label: ColumnProfile, groups: IntArray | None
) -> dict[str, RoleOf]:
    """Leave out numbers that tell the label together."""
    usual = {one.name: one for one in attributes if one.kind == "number" and one.missing < one.rows / 2}
    finding = together_finding(usual, label, groups) if usual else None
    return {} if finding is None else dict.fromkeys(finding.values["columns"], left_out(finding=finding))


def _finding_of_signs(one: ColumnProfile) -> Finding | None:
    """Return what to say of amounts of money and percentages, which are no numbers as they stand."""
    texts = one.codes.values.to_pylist() if one.kind == "text" and one.characters < _LONG else []
    if not texts or sum(_WITH_SIGN.fullmatch(text) is not None for text in texts) < _NEARLY_ALL * len(texts):
        return None
    return Finding("numbers-with-signs", {"column": one.name, "example": texts[0]})


def _number_kind(one: ColumnProfile, label: ColumnProfile | None, groups: IntArray | None) -> NumberKind | None:
    """Return what numbers are taken for; None for other columns, and for few whole numbers, which are categories."""
    if one.kind != "number" or (one.whole and one.values <= _FEW_VALUES):
        return None
    return kind_of_numbers(one.name, one.codes, texts=groups, label=label)


def _attribute_kind(one: ColumnProfile) -> str | None:
    if one.kind == "list" or one.separator is not None:
        return None if ":" in one.name else "multi_label"
    return "categorical" if one.values <= max(2, one.present * 0.8) else None


def _has_stars(one: ColumnProfile) -> bool:
    """Whether the values are a judgement by themselves, such as ``4 stars``; ``20 %`` and ``2 - Berlin`` may not be."""
    values = one.spelled.values.to_pylist()
    return _reads_as_numbers(one) and not any("%" in text or is_explained(text) for text in values)


def _reads_as_numbers(one: ColumnProfile) -> bool:
    """Whether the labels are numbers with a unit, such as ``4 stars`` and ``80 %``."""
    is_short = one.words <= _MOST_STAR_WORDS and one.values <= _MANY_CLASSES
    return one.kind == "text" and is_short and are_stars(one.spelled)


def as_read(one: ColumnProfile, role: RoleOf) -> ColumnProfile:
    """Return a column with its values as a training reads them that takes it for what it is guessed to be."""
    if role.role == "label" and TASKS[guess_task(one).kind].no_label:  # a task whose labels are numbers
        return replace(one.read_as(number_codes(one.spelled)), kind="number")
    read = one.read_as(one.spelled) if role.role == "label" or role.kind == "categorical" else one
    is_class = role.role == "label" and read.kind == "number"  # such as 0 and 1
    return replace(read, kind="text", odd={}) if is_class else read


def _are_steps(numbers: DoubleArray) -> bool:
    """Whether ascending numbers may be those of a scale: whole ones near each other, or all at the same distance."""
    steps = np.diff(numbers)
    return bool((numbers == np.floor(numbers)).all() and (steps <= 2).all()) or np.allclose(steps, steps[0])


def guess_task(label: ColumnProfile, *, is_judged: bool = False) -> TaskGuess:
    """Guess the task from the labels, as they stand in the table.

    Args:
        is_judged: whether several people judge each text: then probabilities matter, and `rating` gives better ones.
    """
    if label.kind == "list" or label.separator is not None:
        separator = {"separator": label.separator} if label.separator else {}
        options = {"multi_label": True, **separator}
        return TaskGuess(kind="classification", words="several labels a row", options=options)
    has_stars = _reads_as_numbers(label)
    if label.kind != "number" and not has_stars:
        words = f"{label.values:,} classes"
        if label.values > _MANY_CLASSES:
            words += ", which are many: is this the label?"
        return TaskGuess(kind="classification", words=words)
    numbers = np.unique(number_codes(label.codes).numbers)
    numbers = numbers[np.isfinite(numbers)]
    if 3 <= len(numbers) <= _FEW_VALUES and _are_steps(numbers):
        kinds: tuple[str, ...] = ("rating", "ordinal") if is_judged else ("ordinal", "rating")
        example = next(text for text in label.codes.values.to_pylist() if text not in NO_NUMBER)
        read = f", read from texts such as {example!r}" if has_stars else ""
        name = "ratings"
        plain = ColumnName(label.name).plain
        has_codes = _OF_CLASSES.search(plain) or (numbers[0] == 0 and _OR_OF_LABELS.search(plain))
        if is_explained(example) or (has_codes and not has_stars):
            name, kinds = "codes of classes, or ratings,", ("classification", *kinds)
        return TaskGuess(kind=kinds[0], words=f"{name} from {numbers[0]:g} to {numbers[-1]:g}{read}", choices=kinds)
    words = f"numbers from {numbers[0]:g} to {numbers[-1]:g}"
    if len(numbers) < 3:
        return TaskGuess(kind="classification", words=f"{label.values} classes")
    if label.values > _FEW_VALUES:
        return TaskGuess(kind="regression", words=words, choices=("regression",))
    if _are_amounts(label):
        return TaskGuess(kind="regression", words=words, choices=("regression", "classification"))
    words = f"{label.values} classes, or {words}"
    return TaskGuess(kind="classification", words=words, choices=("classification", "regression"))


def is_one_hot(columns: Sequence[ColumnProfile]) -> bool:
    """Whether each row has a 1 in one of the columns, and 0 in the others."""
    numbers = [row_numbers(one.codes) for one in columns]
    return set(np.unique(numbers)) == {0, 1} and bool((np.sum(numbers, axis=0) == 1).all())


def guess_aspects(columns: Sequence[ColumnProfile], *, is_judged: bool = False) -> TaskGuess | None:
    """Return the task of columns that share their few values, where these are labels of their own.

    None for columns with the names of judges, such as ``rater2``, ``annotator_anna`` and ``A``, and for the classes of
    one label.

    Args:
        is_judged: whether a column says who judges, and so none has the answers of one judge.
    """
    names = [one.name for one in columns]
    are_judges = any(_ONE_OF_SEVERAL.search(name.lower()) or ColumnName(name).means("judge") for name in names)
    if are_judges or is_one_hot(columns):
        return None
    words = f"{NAMED_ASPECTS.words}; if one of them is the label, name it with {as_argument('data.label')}"
    if not is_judged:
        words += f"; if each has the answers of one judge, {as_call('read_judgements', judges=names)} first"
    return replace(NAMED_ASPECTS, words=words)


def _are_amounts(label: ColumnProfile) -> bool:
    """Whether few numbers, which are no scale, measure something: percentages and fractions, which versions are not."""
    has_percent = all("%" in text for text in label.codes.values.to_pylist() if text not in NO_NUMBER)
    numbers = number_codes(label.codes).numbers
    has_fractions = bool((numbers != np.floor(numbers))[np.isfinite(numbers)].any())
    return has_percent or (has_fractions and kind_of_fractions(label.name, label.codes).kind == "number")
