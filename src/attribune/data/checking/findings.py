"""What makes attributes useless or figures too good: unique and constant attributes, leakage of the label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc

from attribune.core.arrays import BoolArray, DoubleArray, IntArray
from attribune.data.checking.judgements import known_pairs, told_share
from attribune.data.checking.profiles import Codes, ColumnProfile, joint_codes, number_codes
from attribune.data.checking.whole_numbers import row_numbers
from attribune.findings import Finding

_NEARLY_ALL = 0.95
_SURE = 0.99  # share of rows whose value tells the label
_MOST_COMMON = 0.9  # above this share of one label, any column seems to tell it
_LEAST_ROWS = 20
_CHANCE = 1e-3
_FEWEST_BLOCKS = 8
_LONGER_THAN_TURNS = 3  # rows of the longest block: each second row may be that of one of two speakers
_REGULAR = 0.5  # deviation of the rows of blocks, as a part of their mean; it is near 1 for cells at random places
_ROWS_EACH = 10  # for each column of a sum, which fits fewer by chance
_LEAST_REPEATED = 0.5  # share of rows that share the numbers of all columns: of few rows, some agree by chance
_MOST_ROWS = 10_000  # whose numbers are looked at together
_MOST_NAMES = 200  # of classes that are looked for in texts
_ROUNDED = r"^\d(\.\d+)?[eE]\+?\d{2,}$"
_FIELDS = r"""(?s)^\{["'].*\}$"""  # objects, as JSON or Python writes them
_WITHOUT_SPACES = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")  # Thai, Japanese and Chinese


def attribute_finding(name: str, codes: Codes, *, may_be_unique: bool = False) -> Finding | None:
    """Say why a column cannot help as an attribute; None for one that may.

    Args:
        may_be_unique: whether values of a single row help as well, such as numbers and values that are described.
    """
    rows, present = len(codes.codes), int(codes.counts.sum())
    if not present:
        return Finding("column-without-values", {"column": name})
    share = 1 - present / rows
    if share > _NEARLY_ALL:
        return Finding("column-mostly-missing", {"column": name, "share": share})
    if len(codes.values) == 1:
        return Finding("column-with-one-value", {"column": name, "value": codes.values[0].as_py()})
    if pc.all(pc.match_substring_regex(codes.values, _FIELDS)).as_py():
        return Finding("column-of-fields", {"column": name, "value": codes.values[0].as_py()})
    if not may_be_unique and present >= _LEAST_ROWS and codes.once >= _NEARLY_ALL * present:
        return Finding("column-of-unique-values", {"column": name, "once": codes.once, "values": len(codes.values)})
    return None


def damage_finding(column: ColumnProfile) -> Finding | None:
    """Say what a spreadsheet has done to a column; None where nothing is seen."""
    merged = _merged_finding(column.name, column.codes)
    return merged or (_lost_digits_finding(column.name, column.codes) if column.kind == "number" else None)


def _merged_finding(name: str, codes: Codes) -> Finding | None:
    """Say that a column has values at the beginning of blocks of rows alone, as merged cells of a spreadsheet are read.

    The first row has one, and the blocks are more alike in length, or fewer of them of a single row, than empty cells
    at random places would make them.
    """
    filled = np.flatnonzero(codes.codes >= 0)
    blocks, rows = len(filled), len(codes.codes)
    if blocks < _FEWEST_BLOCKS or filled[0] or 2 * blocks > rows or len(codes.values) < 2:
        return None
    lengths = np.diff(filled)
    if lengths.max() < _LONGER_THAN_TURNS:
        return None
    by_chance = blocks * (blocks - 1) / rows  # blocks of a single row
    is_regular = lengths.std() < _REGULAR * lengths.mean()
    if not is_regular and ((lengths == 1).sum() > by_chance / 5 or by_chance < 5):
        return None
    return Finding("merged-cells", {"column": name, "filled": blocks, "rows": rows})


def _lost_digits_finding(name: str, codes: Codes) -> Finding | None:
    """Say that long numbers, such as ids, have the exponents with which spreadsheets write them."""
    rounded = pc.match_substring_regex(codes.values, _ROUNDED).to_numpy(zero_copy_only=False)
    if 2 * codes.counts[rounded].sum() <= codes.counts.sum():
        return None
    return Finding("lost-digits", {"column": name, "example": codes.values.to_pylist()[int(rounded.argmax())]})


def leak_finding(name: str, codes: Codes, label: Codes, *, guessed: str = "") -> Finding | None:
    """Say that a column tells the label; None where it does not.

    A column tells the label where rows that share a value share the label, far above what the labels' frequencies
    explain, or rows that share a label share the value; values of a single row say nothing.

    Args:
        codes: of the column, and `label` those of the labels.
        guessed: the column of the label, if this is a guess: of two that tell each other, the other may be the label.
    """
    values, labels = known_pairs(codes.codes, label.codes)
    if len(values) < _LEAST_ROWS or len(label.values) < 2:
        return None
    share = float((_same_text(codes, label)[values] == labels).mean())
    if share >= _SURE:
        return Finding("column-is-label", {"column": name, "share": share})
    if (only := presence_finding(name, codes, label)) is not None:
        return only
    told = _told_share(labels, values)
    if told is None or told < _SURE:
        copied = _told_share(values, labels)
        if copied is None or copied < _SURE:
            return None
        return Finding("label-tells-column", {"column": name, "share": copied})
    back = _told_share(values, labels) if guessed else None
    if back is not None and back >= _SURE:
        return Finding("columns-say-the-same", {"label": guessed, "column": name})
    return Finding("column-tells-label", {"column": name, "share": told, "is_guess": bool(guessed)})


def together_finding(
    columns: Mapping[str, ColumnProfile], label: ColumnProfile, texts: IntArray | None
) -> Finding | None:
    """Say that numbers together tell the label, as those of single raters tell their mean, or votes the majority.

    They do where nearly all rows that share the numbers of all share the label, or where a weighted sum of them is the
    label, or rounds to it.

    Args:
        columns: of numbers, by name, at least one; `label` what is learned.
        texts: (n,) number of the text of each row, -1 for none; of the rows of a text one alone counts.

    Returns:
        the finding with the columns that are needed for it; None where they do not.
    """
    names, rows = list(columns), _rows_with_all(columns.values(), label, texts)
    labels = label.codes.codes[rows]
    if len(rows) < max(_LEAST_ROWS, _ROWS_EACH * len(names)) or np.bincount(labels).max() > _MOST_COMMON * len(labels):
        return None
    values = [columns[name].codes.codes[rows] for name in names]
    numbers = np.stack([row_numbers(columns[name].codes)[rows] for name in names], axis=1)
    targets = row_numbers(number_codes(label.codes))[rows]

    def told(chosen: Sequence[int]) -> float:
        joint = joint_codes([values[one] for one in chosen])
        is_repeated = np.bincount(joint)[joint] > 1
        shared = _told_share(labels, joint) if is_repeated.mean() >= _LEAST_REPEATED else None
        return max(shared or 0.0, _share_of_sums(numbers[:, chosen], targets))

    places = list(range(len(names)))
    share = told(places)
    if share < _SURE:
        return None
    needed = set[int]()
    for order in (places, places[::-1]):  # of votes, all but any one tell the majority
        rest = places
        for place in order:
            others = [one for one in rest if one != place]
            if others and told(others) >= _SURE:
                rest = others
        needed.update(rest)
    return Finding("columns-tell-label", {"columns": [names[one] for one in sorted(needed)], "share": share})


def _rows_with_all(columns: Iterable[ColumnProfile], label: ColumnProfile, texts: IntArray | None) -> IntArray:
    """Return rows (n,) with all values and a label, one of each text, and at most some thousand."""
    known = np.all([one.codes.codes >= 0 for one in (*columns, label)], axis=0)
    rows = np.flatnonzero(known)
    if texts is not None:
        rows = rows[np.unique(texts[rows], return_index=True)[1]]
    if len(rows) > _MOST_ROWS:
        rows = np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False)
    return rows


def _share_of_sums(numbers: DoubleArray, targets: DoubleArray) -> float:
    """Return the share of rows whose target (n,) is next to the sum of numbers (n, k) by the best weights."""
    known = np.isfinite(targets) & np.isfinite(numbers).all(1)
    if known.sum() < _LEAST_ROWS or np.ptp(targets[known]) == 0:
        return 0.0
    wanted = _scaled(targets[known])
    table = np.column_stack([_scaled(numbers[known]), np.ones(len(wanted))])
    sums = table @ np.linalg.lstsq(table, wanted, rcond=None)[0]
    distinct = np.unique(wanted)
    nearest = distinct[np.searchsorted((distinct[1:] + distinct[:-1]) / 2, sums)]
    return float((np.abs(nearest - wanted) <= (1 - _SURE) * wanted.std()).mean())


def _scaled(numbers: DoubleArray) -> DoubleArray:
    """Return numbers of any size as parts of the largest, each column of its own."""
    scaled: DoubleArray = numbers / np.maximum(np.abs(numbers).max(0), np.finfo(np.float64).tiny)
    return scaled


def presence_finding(name: str, codes: Codes, label: Codes) -> Finding | None:
    """Say that having a value in a column, whatever it is, tells the label; None where it does not."""
    labels = label.codes[(codes.codes >= 0) & (label.codes >= 0)]
    if len(labels) < _LEAST_ROWS or label.counts.max() / label.counts.sum() >= _MOST_COMMON:
        return None
    most, by_chance = np.bincount(labels), (label.counts.max() / label.counts.sum()) ** len(labels)
    if most.max() < _SURE * len(labels) or by_chance > _CHANCE:
        return None
    return Finding("column-only-with-label", {"column": name, "label": label.values[int(most.argmax())].as_py()})


def written_finding(texts: Codes, label: Codes) -> Finding | None:
    """Say that texts have their label written in them; None where others have it as often, or hardly any has it."""
    names = [str(value).casefold() for value in label.values.to_pylist()]
    is_long = np.array([len(name) >= (2 if _WITHOUT_SPACES.search(name) else 3) for name in names] + [False])
    rows = np.flatnonzero((texts.codes >= 0) & is_long[label.codes])
    if len(names) > _MOST_NAMES or len(rows) < _LEAST_ROWS or len(np.unique(label.codes[rows])) < 2:
        return None
    rows = np.random.default_rng(0).choice(rows, min(len(rows), _LEAST_ROWS * 50), replace=False)
    patterns = [
        re.compile(re.escape(name) if _WITHOUT_SPACES.search(name) else rf"(?<!\w){re.escape(name)}(?!\w)")
        for name in names
    ]
    found = [str(texts.values[int(code)].as_py()).casefold() for code in texts.codes[rows]]

    def share_with(labels: IntArray) -> float:
        return float(np.mean([patterns[one].search(text) is not None for one, text in zip(labels, found, strict=True)]))

    labels = label.codes[rows]
    own, of_others = share_with(labels), share_with(np.roll(labels, 1))
    is_told = own >= _NEARLY_ALL and of_others <= _MOST_COMMON
    return Finding("label-in-text", {"share": own}) if is_told else None


def _told_share(labels: IntArray, values: IntArray) -> float | None:
    """Return the share of rows (n,) whose label is the usual one of their value, of values in several rows.

    None where these are too few rows, or nearly all have one label.
    """
    repeated = np.bincount(values)[values] > 1
    values, labels = values[repeated], labels[repeated]
    if len(values) < max(_LEAST_ROWS, len(repeated) / 10) or np.bincount(labels).max() > _MOST_COMMON * len(labels):
        return None
    return told_share(labels, values)


def _same_text(codes: Codes, label: Codes) -> IntArray:
    """Return the number of the label with the same text for each value, -2 where there is none."""
    found = pc.index_in(codes.values, value_set=label.values).fill_null(-2)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def shared_rows(texts: IntArray, labels: IntArray, is_train: BoolArray) -> tuple[int, int]:
    """Count the other rows whose text is in training, and those of them whose label is there with it.

    Args:
        texts: (rows,) numbers of the texts, and `labels` those of the labels.
        is_train: (rows,) whether a row is of the training part.
    """
    pairs = joint_codes([texts, labels])
    shared, same = (int(np.isin(codes[~is_train], codes[is_train]).sum()) for codes in (texts, pairs))
    return shared, same
