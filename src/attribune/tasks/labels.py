"""Labels in the cells of tables, as texts, numbers, lists or missing values, and their class ids."""

from __future__ import annotations

import numbers
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.arrays import Array, BoolArray
from attribune.core.config import short_repr
from attribune.core.door import as_argument
from attribune.core.wording import counted, shortened
from attribune.errors import ConfigError, DataError, RowError
from attribune.findings import Finding
from attribune.schema.columns import (
    LISTS,
    NO_NUMBER,
    as_array,
    as_written,
    canonical,
    list_cells,
    number_of,
    other_spellings,
)

__all__ = [
    "FEW_ROWS",
    "UNSEEN",
    "Flag",
    "MissingTexts",
    "OptionalFlag",
    "alike_values",
    "class_ids",
    "class_names",
    "compared_texts",
    "count_classes",
    "is_explained",
    "label_lists",
    "label_number",
    "label_numbers",
    "label_texts",
    "number_of",
    "odd_classes",
    "outside_of",
    "rare_classes",
    "require_columns",
    "require_flag",
    "same_text_note",
    "scales_of",
    "sorted_classes",
    "texts_differ",
]

UNSEEN = -100
"""Class id of a label that no training row has: ignored by the loss, an error in every metric."""

FEW_ROWS = 5
"""Rows from which on a class can be learned."""

_FILLED, _EMPTY = "\u2605\u2b50", "\u2606"  # stars
_SCORE = re.compile(
    rf"(?P<filled>[{_FILLED}]+)[{_EMPTY}]*|(?P<number>\d+([.,]\d+)?)(( ?/ ?| out of )(?P<best>\d+))?[ -]?"
    rf"(?P<unit>[{_FILLED}%]|stars?|sterne?|[ée]toiles?|estrellas?|estrelas?|stell[ae]|sterren|ster)?",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"(?P<number>\d{1,2})( ?[=:] ?| [-\u2013\u2014] ?|[-\u2013\u2014] )[^\W\d].*", re.DOTALL
)  # 4 - Agree
_LARGEST_LABEL = float(np.finfo(np.float32).max)
_EXAMPLES = 5  # of classes that are alike
_CODES = (9, 77, 88, 98, 99, 777, 888, 998, 999, 7777, 8888, 9999)  # for no answer, as surveys have them
_LONGEST_SCALE = 20  # steps
_WITHOUT_WIDTH = re.compile("[\u200b-\u200d\u2060\ufeff]")
_MOST_CLASSES = 1_000_000  # with a probability of each in every row

Column = Sequence[Any]


def require_columns(columns: Sequence[Column], names: Sequence[str], *, task: str) -> None:
    """Check that there is one label column for each of `names`, all of the same length."""
    if any(isinstance(column, str) or not hasattr(column, "__len__") for column in columns):
        raise ConfigError(f"the task {task!r} takes a list of label columns: give one as [labels]")
    if len(columns) != len(names):
        raise ConfigError(
            f"the task {task!r} takes {len(names)} label column(s) ({', '.join(names)}) and was given {len(columns)}:"
            " name exactly these"
        )
    if len(lengths := {len(column) for column in columns}) > 1:
        raise DataError(f"the label columns have different lengths ({sorted(lengths)}): give columns of the same rows")


def label_texts(
    column: Column, *, missing: Collection[str], known: Collection[str] = (), first_row: int = 1
) -> list[str | None]:
    """Return the text of each cell, None for a missing one, which a text in `known` never is; DataError for a list.

    A boolean is the one in `known` that is written in another way. `first_row` is the number of the first row, for
    messages.
    """
    names = frozenset(known)
    hidden = frozenset(missing) - names
    seen: dict[tuple[type, Any], str | None] = {}
    texts = []
    for row, value in enumerate(column, start=first_row):
        if isinstance(value, LISTS):
            raise RowError(
                "the label of ",
                row,
                f" is the list {shortened(str(value), 60)}: use the classification task with "
                f"{as_argument('task.multi_label', True)}",
            )
        # 1, 1.0 and True are one key for a dictionary, but not one text.
        key = (type(value), value)
        if key not in seen:
            text = canonical(value)
            if text is not None and text not in names:
                text = next((other for other in other_spellings(text) if other in names), text)
            seen[key] = None if text is None or text in hidden else text
        texts.append(seen[key])
    return texts


def compared_texts(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """Return the texts of each row, trimmed, one of each column; "" for a missing one."""

    def text(value: Any) -> str:
        if isinstance(value, LISTS):
            return " ".join(map(str, value))
        return as_written(value).strip()

    return [tuple(map(text, row)) for row in zip(*columns, strict=True)]


def texts_differ(texts: Sequence[str]) -> bool | None:
    """Whether the last two of `compared_texts` of a row differ; None where one of all is missing."""
    return texts[-1] != texts[-2] if all(texts) else None


def same_text_note(rows: int) -> list[str]:
    """Say how many rows are left out that have the same text twice; nothing where none is."""
    words = "row has the same text twice and is left out", "rows have the same text twice and are left out"
    return [counted(rows, *words)] if rows else []


def _missing_texts(missing: Any) -> tuple[str, ...]:
    """Return the texts that mean a missing label as a tuple; ConfigError for anything but a list of texts."""
    if not isinstance(missing, list | tuple) or not all(isinstance(text, str) for text in missing):
        raise ConfigError(f"missing is {missing!r}: give a list of texts, for example ['', 'NA']")
    return tuple(missing)


def require_flag(value: Any, *, name: str) -> None:
    """Check that an option is True or False, since the text "false" would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}: give true or false")


def _flag(value: Any, info: ValidationInfo) -> bool:
    require_flag(value, name=str(info.field_name))
    return bool(value)


def label_number(text: str) -> float | None:
    """Return the number of a label, also of ``4 stars``, signs of stars, ``4/5``, ``80 %`` or ``4 - Agree``."""
    if (number := number_of(text)) is not None:
        return number
    if (explained := _EXPLAINED.fullmatch(text)) is not None:
        return float(explained["number"])
    score = _score(text)
    if score is None or (score["number"] and not score["best"] and not score["unit"]):
        return None
    if not score["number"]:
        return float(len(score["filled"]))
    number = float(score["number"].replace(",", "."))
    return number if score["best"] is None or number <= float(score["best"]) else None


def is_explained(text: str) -> bool:
    """Whether a label is a number with what it means, such as ``4 - Agree``."""
    return _EXPLAINED.fullmatch(text) is not None


def scales_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the best number, and the first text with it, of labels such as ``4/5``, ``8 out of 10`` and ``★★★☆``.

    That of ``80 %`` is ``%``, and beside it that of fractions such as ``0.8`` is 1.
    """
    scales: dict[str, str] = {}
    fraction = ""
    for text in texts:
        if (score := _score(text)) is not None and (best := _best(score)) is not None:
            scales.setdefault(best, text)
        elif not fraction and 0 < (number_of(text) or 0) < 1:
            fraction = text
    return {**scales, "1": fraction} if fraction and "%" in scales else scales


def _best(score: re.Match[str]) -> str | None:
    """Return the best number of a score, where it says one."""
    signs = score["filled"] is not None and score[0].lstrip(_FILLED)
    if signs:
        return str(len(score[0]))
    return score["best"] or ("%" if score["unit"] == "%" else None)


def _score(text: str) -> re.Match[str] | None:
    return _SCORE.fullmatch(text.replace("\ufe0f", ""))


def label_numbers(column: Column, *, missing: Collection[str], first_row: int = 1) -> Array:
    """Return the cells as float64 (n,), NaN for missing ones.

    Raises:
        DataError: for anything but finite numbers of float32, or numbers of several scales, such as 4/5 and 8/10.
    """
    result = np.full(len(column), np.nan)
    if len(scales := scales_of(dict.fromkeys(value for value in column if isinstance(value, str)))) > 1:
        raise DataError(
            f"the labels are of several scales ({', '.join(map(repr, islice(scales.values(), 3)))}): write them as "
            "numbers of one scale"
        )
    for i, value in enumerate(column):
        text = canonical(value)
        if text is None or text in missing:
            continue
        exact = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
        number = number_of(str(float(value))) if exact else label_number(text)
        if number is None:
            raise RowError(
                "the label of ",
                first_row + i,
                f" is {text!r}, which is not a finite number: correct or empty the cell, name levels in their order "
                f"with {as_argument('task.classes', ['low', 'high'])}, or choose the classification task with "
                f"{as_argument('task.kind', 'classification')}",
            )
        if abs(number) > _LARGEST_LABEL:
            raise RowError(
                "the label of ",
                first_row + i,
                f" is {text!r}, and models compute with numbers up to {_LARGEST_LABEL:.1g}: correct or empty the cell, "
                "or give the labels in another unit",
            )
        result[i] = number
    return result


def label_lists(
    column: Column, *, missing: Collection[str], separator: str | None, known: Collection[str] = (), first_row: int = 1
) -> list[list[str] | None]:
    """Return the labels of each cell, None for a missing one; an empty list is a row without labels.

    A cell is a list, text that is split at `separator`, or without a separator text that spells a list, such as
    `["a", "b"]`; DataError for other text.
    """
    array = as_array(column, column="label", first_row=first_row)
    values = array.to_pylist()
    hidden = frozenset(missing) - frozenset(known)
    texts = label_texts([None if isinstance(value, list) else value for value in values], missing=hidden)
    for row, text in enumerate(texts, start=first_row):
        if separator is None and text is not None and not text.startswith("["):
            raise RowError(
                "the label of ",
                row,
                f" is {text!r}, not a list: give the separator between labels, for example with "
                f"{as_argument('task.separator', '|')}",
            )
    cells = list_cells(array, separator=separator, missing=hidden, column="label", first_row=first_row)
    result: list[list[str] | None] = [
        [] if isinstance(value, list) or text is not None else None for value, text in zip(values, texts, strict=True)
    ]
    for row, code in zip(cells.rows, cells.codes, strict=True):
        labels = result[row]
        if labels is not None:
            labels.append(cells.texts[code])
    return result


def _optional_flag(value: Any, info: ValidationInfo) -> bool | None:
    return None if value is None else _flag(value, info)


MissingTexts = Annotated[Sequence[str], BeforeValidator(_missing_texts)]
"""The texts that mean a missing label, of a list of them."""
Flag = Annotated[bool, BeforeValidator(_flag)]
"""True or False, no text."""
OptionalFlag = Annotated[bool | None, BeforeValidator(_optional_flag)]
"""The same, or None."""


def outside_of(
    column: Column, *, missing: Collection[str], known: Collection[str] | None, as_numbers: bool
) -> BoolArray:
    """Return (n,) whether a label is present and not known.

    Args:
        known: texts of labels; None where any number is known.
        as_numbers: whether labels are compared as numbers.
    """
    key = label_number if as_numbers else str
    inside = None if known is None else {key(text) for text in known}
    hidden = {*missing, ""} if as_numbers else {*missing, ""}.difference(known or ())

    def is_outside(text: str) -> bool:
        value = key(text)
        return value is None or (inside is not None and inside.isdisjoint((value, *other_spellings(text))))

    found: dict[tuple[type, Any], bool] = {}
    for value in column:
        if isinstance(value, Hashable) and (type(value), value) not in found:
            text = canonical(value) or ""
            found[type(value), value] = text not in hidden and is_outside(text)
    return np.array([isinstance(value, Hashable) and found[type(value), value] for value in column], dtype=bool)


def count_classes(ids: Array, names: Sequence[str]) -> dict[str, int]:
    """Count the rows of each class: of class ids (n,), or of 0 and 1 for each class (n, C or more)."""
    counts = ids[:, : len(names)].sum(axis=0) if ids.ndim == 2 else np.bincount(ids[ids >= 0], minlength=len(names))
    return dict(zip(names, counts.astype(int).tolist(), strict=True))


def rare_classes(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the classes with too few rows to be learned, with their numbers of rows."""
    return {name: count for name, count in counts.items() if count < FEW_ROWS}


def odd_classes(counts: Mapping[str, int]) -> list[Finding]:
    """Say which classes are one number, differ in capitals, spaces or the encoding of letters alone, or may be none."""
    return [*_alike_classes(counts), *_missing_codes(counts)]


def _missing_codes(counts: Mapping[str, int]) -> list[Finding]:
    """Say which class looks like a code for no label: one such as 99, far from the others, which follow one another."""
    numbers = {name: number_of(name) for name in counts}
    for name, number in numbers.items():
        if number is None or abs(number) not in _CODES:
            continue
        others = sorted({other for key, other in numbers.items() if key != name and other is not None})
        if not 1 < len(others) <= _LONGEST_SCALE:
            continue
        low, high = others[0], others[-1]
        if len(others) == high - low + 1 and not low - 1 <= number <= high + 1:
            values = {"label": name, "rows": counts[name], "low": f"{low:g}", "high": f"{high:g}"}
            return [Finding("label-code", values)]
    return []


def _alike_classes(counts: Mapping[str, int]) -> list[Finding]:
    numbers = {name: label_number(name) for name in counts if name not in NO_NUMBER}
    are_numbers = None not in numbers.values() and any(number_of(name) is None for name in numbers)  # such as stars
    are_numbers = are_numbers and len(scales_of(numbers)) < 2
    alike = alike_values(counts, numbers if are_numbers else {})
    found = {"groups": len(alike), "examples": alike[:_EXAMPLES], "are_numbers": are_numbers}
    return [Finding("alike-classes", found)] if alike else []


def alike_values(counts: Mapping[str, int], numbers: Mapping[str, float | None]) -> list[dict[str, int]]:
    """Return the groups of names that differ in capitals, spaces or the encoding of letters alone, with their rows.

    Args:
        numbers: of names that are compared by these.
    """
    groups: dict[Hashable, list[str]] = {}
    for name in counts:
        plain = "".join(_WITHOUT_WIDTH.sub("", unicodedata.normalize("NFKC", name)).casefold().split())
        groups.setdefault(numbers.get(name, plain), []).append(name)
    return [{name: counts[name] for name in names} for names in groups.values() if len(names) > 1]


def class_names(classes: Any, *, of: str, least: int = 2) -> tuple[str, ...]:
    """Return class names as text, from a list or their number; ConfigError for duplicates or fewer than `least`."""
    if isinstance(classes, int) and not isinstance(classes, bool):
        if classes > _MOST_CLASSES:
            raise ConfigError(f"{of} has {short_repr(classes)} classes: give at most {_MOST_CLASSES:,}")
        classes = range(classes)
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        raise ConfigError(f"the classes of {of} are {classes!r}: give their number, or a list of their names")
    names = tuple(canonical(value) or "" for value in classes)
    if len(names) < least:
        raise ConfigError(f"{of} has {len(names)} class(es) {list(names)}: at least {least} are needed")
    if "" in names:
        raise ConfigError(f"one of the classes of {of} is empty: {list(classes)!r}: give every class a name")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ConfigError(f"the classes of {of} name {repeated} more than once: give each class once")
    return names


def sorted_classes(texts: Iterable[str | None], *, of: str, least: int = 2) -> tuple[str, ...]:
    """Return distinct labels, sorted as numbers if all are numbers, else as text; DataError if fewer than `least`."""
    distinct = {text for text in texts if text is not None}
    if not distinct:
        raise DataError(f"{of} has no labelled training row: name the column that holds the labels")
    if len(distinct) < least:
        raise DataError(
            f"every labelled training row of {of} has the same label {min(distinct)!r}:"
            " nothing can be learned from one class; give rows of at least two"
        )
    values = {text: number_of(text) for text in distinct}
    if any(value is None for value in values.values()):
        return tuple(sorted(distinct))
    return tuple(sorted(distinct, key=lambda text: (values[text], text)))


def class_ids(texts: Sequence[str | None], classes: Sequence[str]) -> tuple[Array, Array]:
    """Return class ids int64 (n,), UNSEEN for a text that is no class, and a mask (n,), False for a missing text."""
    index = {name: i for i, name in enumerate(classes)}
    ids = np.array([UNSEEN if text is None else index.get(text, UNSEEN) for text in texts], dtype=np.int64)
    return ids, np.array([text is not None for text in texts], dtype=bool)
