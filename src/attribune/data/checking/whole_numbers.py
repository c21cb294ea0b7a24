"""Whether the whole numbers of a column are names, such as those of raters and shops, or amounts, such as ages.

Long numbers are names, unless the column is called an amount, and so are those of a column that is called one of ids.
Else three questions, each of the values alone, whatever the column is called and in whatever language:

1. Are amounts likely to be like this? Amounts are spread smoothly: neighbours are about as frequent, and no number far
   from all others recurs, unless it is a round one. Frequencies of names have nothing to do with their numbers.
2. Does nobody judge a text twice? Raters do not, but two raters of a text can have the same age.
3. What tells more of the label in rows that were not learned from: each number for itself, or its size?

Shapes: n rows, m distinct numbers, L numbers in the lattice from the lowest to the highest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attribune.core.arrays import BoolArray, DoubleArray, IntArray
from attribune.data.checking.judgements import never_twice
from attribune.data.checking.profiles import Codes, ColumnProfile
from attribune.data.column_names import ColumnName

_WINDOW = 10  # distinct numbers that follow each other
_FEW = 100  # distinct numbers, below which a scale can have favourite answers
_WIDEST = 200_000  # numbers of a lattice that are compared with their neighbours
_TRIED_ROWS = 5_000
_LARGEST = 2.0**53  # up to which floats count in steps of one
_FOLDS = 5
_VERSION_NAME = re.compile(r"(^|_)(versions?|release|firmware|semver)($|_)")
_LONG_VERSION = re.compile(r"\d+(\.\d+){2,}")  # 2.0.3
_THOUSANDS = re.compile(r"\d{1,3}(\.\d{3})+")
_SHORT_VERSION = re.compile(r"\d+(\.(0|[1-9]\d*))?")  # 1.10, and not 1.05
LONG = 1e8
"""Whole numbers from here on count nothing of a text."""
_AMOUNTS = re.compile(
    r"(^|_)(age|year|price|cost|income|salary|amount|count|num|n|number_of|score|ratings?|stars?|lat|latitude|lon|lng|"
    r"longitude|length|size|height|weight|width|duration|seconds|minutes|hours?|days?|percent|distance|temperature|words|"
    r"votes?|likes|total|followers|views|revenue|sales|budget|gross|population|"
    r"alter|anzahl|dauer|jahr|preis|edad|precio|cantidad|eta|prezzo|prix|duree|annee|idade|preco|leeftijd|prijs|aantal)($|_)"
)


@dataclass(frozen=True, kw_only=True)
class NumberKind:
    """What whole numbers are taken for.

    Attributes:
        kind: ``number`` or ``categorical``; "" where both are as likely.
        reason: what in the values says so, in a clause that follows a colon.
        is_sure: whether nothing else need be asked.
    """

    kind: str
    reason: str
    is_sure: bool = False


def row_numbers(codes: Codes) -> DoubleArray:
    """Return the number of each row (n,), NaN where it has none."""
    return np.append(codes.numbers, np.nan)[codes.codes]


def kind_of_numbers(name: str, codes: Codes, *, texts: IntArray | None, label: ColumnProfile | None) -> NumberKind:
    """Tell names from amounts.

    Args:
        name: the column, which decides only where the values leave it open.
        codes: its values.
        texts: (n,) number of the text of each row, -1 for none.
        label: the label, if there is one.
    """
    numbers = codes.numbers
    if np.any(numbers != np.floor(numbers), where=~np.isnan(numbers)):
        return kind_of_fractions(name, codes)
    if (numbers < 0).sum() > 1:  # one alone stands for a missing value
        return NumberKind(kind="number", reason="there are negative ones")
    is_amount = _AMOUNTS.search(ColumnName(name).plain) is not None
    if ColumnName(name).is_of_ids:
        return NumberKind(kind="categorical", reason="its name is that of ids")
    if len(numbers) and np.nanmin(numbers) >= LONG:
        return _kind_of_long(is_amount=is_amount)
    known = np.flatnonzero(np.abs(row_numbers(codes)) <= _LARGEST)  # not NaN, nor infinite
    rows = numbers[codes.codes[known]]
    groups = None if texts is None else texts[known]
    seen = None if groups is None else never_twice(np.unique(rows, return_inverse=True)[1], groups)
    if seen is not None:
        reason = f"rows of one text have the same number {seen[0]:,.0f} times, where amounts would {seen[1]:,.0f} times"
        return NumberKind(kind="categorical", reason=reason)
    shape = _shape_of(rows)
    if shape.is_sure:
        return shape
    tried = None if label is None else _tried(rows, groups, label, known)
    if tried is not None and not (shape.kind == "number" and tried.kind == "categorical" and not tried.is_sure):
        return tried
    if shape.kind:
        return shape
    if is_amount:
        return NumberKind(kind="number", reason="the values leave it open, and the name is that of an amount")
    return NumberKind(kind="categorical", reason="all are about as frequent, as numbers that somebody gave out")


def kind_of_fractions(name: str, codes: Codes) -> NumberKind:
    """Tell amounts from versions, of which 1.1 and 1.10 are two."""
    texts = codes.values.to_pylist()
    long = [text for text in texts if _LONG_VERSION.fullmatch(text) and not _THOUSANDS.fullmatch(text)]
    if long:
        return NumberKind(kind="categorical", reason=f"{long[0]!r} is a version")
    if _VERSION_NAME.search(ColumnName(name).plain) is not None:
        return NumberKind(kind="categorical", reason="its name is that of versions")
    spelled: dict[float, str] = {}
    for number, text in zip(codes.numbers.tolist(), texts, strict=True):
        other = spelled.setdefault(number, text)
        if other != text and all(map(_SHORT_VERSION.fullmatch, texts)):
            return NumberKind(kind="categorical", reason=f"{other!r} and {text!r} are two values, as versions are")
    return NumberKind(kind="number", reason="there are fractions")


def _kind_of_long(*, is_amount: bool) -> NumberKind:
    if is_amount:
        return NumberKind(kind="number", reason="its name is that of an amount")
    return NumberKind(kind="categorical", reason=f"all are {LONG:,.0f} or more, as ids are")


def _shape_of(rows: DoubleArray) -> NumberKind:
    """Compare the frequencies of the numbers (n,) with those of a smooth distribution."""
    values, counts = np.unique(rows.astype(np.int64), return_counts=True)
    if len(values) < 2 * _WINDOW:
        return NumberKind(kind="", reason="")
    step = np.gcd.reduce(np.diff(values))
    places = (values - values[0]) // step
    if _recur(places, counts):
        digits = np.sort(np.bincount((values if step == 1 else places) % 10, minlength=10))
        if digits[-2:].sum() > 0.5 * digits.sum():
            return NumberKind(kind="number", reason="mostly round ones recur", is_sure=True)
        far = values[np.argmax(counts)]
        reason = f"numbers far from each other recur, such as {far} in {counts.max():,} rows"
        return NumberKind(kind="categorical", reason=reason, is_sure=True)
    if places[-1] > _WIDEST:
        is_even = abs(np.median(places) / places[-1] - 0.5) < 0.1
        return NumberKind(kind="" if is_even else "number", reason="they are spread unevenly, and few recur")
    return _against_neighbours(values, places, counts, int(step))


def _recur(places: IntArray, counts: IntArray) -> bool:
    """Whether far fewer numbers are distinct than in a smooth distribution.

    In each window of distinct numbers that follow each other, r rows at random places among s numbers have
    s (1 - exp(-r / s)) distinct ones.
    """
    starts = np.arange(0, len(places) - _WINDOW + 1, _WINDOW)
    spans = np.maximum(places[starts + _WINDOW - 1] - places[starts] + 1, _WINDOW).astype(np.float64)
    sums = np.append(0, np.cumsum(counts))
    per_number = (sums[starts + _WINDOW] - sums[starts]) / spans
    empty = np.exp(-per_number)
    expected, seen = float((spans * (1 - empty)).sum()), float(_WINDOW * len(starts))
    error = float(np.sqrt((spans * empty * (1 - (1 + per_number) * empty)).sum()))
    is_sparse = len(places) < 0.02 * (places[-1] + 1)
    return expected > (1.05 if is_sparse else 1.3) * seen and expected - seen > 5 * error


def _against_neighbours(values: IntArray, places: IntArray, counts: IntArray, step: int) -> NumberKind:
    """Compare the frequency of each number with the mean of its four neighbours.

    The squared coefficient of variation around it, less what chance adds, is near 0 for a smooth distribution.
    Preferences for last digits, such as those of ages, are taken out before.
    """
    lattice = np.zeros(int(places[-1]) + 1)
    lattice[places] = counts
    around = np.pad(lattice, 2, mode="reflect")
    means = (around[:-4] + around[1:-3] + around[3:-1] + around[4:]) / 4
    if len(lattice) >= 6 * _WINDOW:
        digits = (np.arange(len(lattice)) + (values[0] if step == 1 else 0)) % 10
        found = np.bincount(digits, weights=lattice, minlength=10)
        means = means * (found / np.maximum(np.bincount(digits, weights=means, minlength=10), 1e-9))[digits]
    squares = max(float((means**2).sum()), 1e-9)
    chance = lattice + means / 4
    varies = float(((lattice - means) ** 2 - chance).sum()) / squares
    error = float(np.sqrt(2 * (chance**2).sum())) / squares
    if varies > 0.15 and varies > 4 * error:
        reason = f"how often a number occurs has nothing to do with its neighbours, such as {_peak(values, counts)}"
        return NumberKind(kind="categorical", reason=reason, is_sure=len(values) >= _FEW)
    parts = np.add.reduceat(lattice, np.linspace(0, len(lattice), 9)[:-1].astype(int))
    unevenness = parts.std() / parts.mean()
    if varies < 0.15 and unevenness > max(0.3, 3 / np.sqrt(parts.mean())):
        return NumberKind(kind="number", reason="neighbouring numbers are about as frequent, and all together uneven")
    return NumberKind(kind="", reason="")


def _peak(values: IntArray, counts: IntArray) -> str:
    """Name the most frequent number and one beside it, with their rows."""
    most = int(np.argmax(counts))
    beside = most - 1 if most else most + 1
    return f"{values[most]} in {counts[most]:,} rows and {values[beside]} in {counts[beside]:,}"


def explained_by_size(codes: Codes, texts: IntArray | None, label: ColumnProfile) -> float:
    """Return the share of the variance of classes that the size of numbers explains in rows not learned from.

    0 for a label that is a number itself, of which other numbers may well explain much.
    """
    if label.kind == "number":
        return 0.0
    numbers = row_numbers(codes)
    known = np.flatnonzero(~np.isnan(numbers))
    trial = _Trial.of(numbers[known], None if texts is None else texts[known], label, known)
    return 0.0 if trial is None else trial.explained_by(trial.errors_by_size())


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """Rows (n,) whose label is predicted by a number.

    Args:
        ranks: the places of the numbers among all.
        targets: (n, K) the label.
        fold: the part of the rows in which each is not learned from; all rows of a text are in one.
    """

    ranks: IntArray
    targets: DoubleArray
    fold: IntArray

    @classmethod
    def of(cls, rows: DoubleArray, texts: IntArray | None, label: ColumnProfile, known: IntArray) -> _Trial | None:
        """Draw at most some thousand rows that have a label; None where all of them have the same."""
        labelled = np.flatnonzero(label.codes.codes[known] >= 0)
        chance = np.random.default_rng(0)
        if len(labelled) > _TRIED_ROWS:
            labelled = np.sort(chance.choice(labelled, _TRIED_ROWS, replace=False))
        targets = _targets(label, label.codes.codes[known[labelled]])
        if targets is None:
            return None
        groups = np.arange(len(labelled)) if texts is None else _groups(texts[labelled])
        fold = chance.integers(0, _FOLDS, groups.max(initial=0) + 1)[groups]
        ranks = np.unique(rows[labelled], return_inverse=True)[1]
        trial = cls(ranks=ranks, targets=targets, fold=fold)
        return trial if trial.base.any() else None

    @cached_property
    def base(self) -> DoubleArray:
        """The errors (n,) of the mean of the rows that are learned from."""
        return self.errors(np.zeros_like(self.ranks))

    def explained_by(self, errors: DoubleArray) -> float:
        """Return the share of the variance that predictions with these errors explain."""
        return 1 - _mean(errors) / _mean(self.base)

    def errors(self, codes: IntArray) -> DoubleArray:
        """Return the squared error (n,) of the means of cells, shrunk to the mean of all, in folds not learned.

        The shrinkage, a number of rows, is the best of four on all folds.
        """
        targets, size = self.targets, int(codes.max()) + 1
        tried = {weight: np.zeros(len(codes)) for weight in (1.0, 5.0, 25.0, 125.0)}
        for learned, asked in self._folds():
            mean = targets[learned].mean(0)
            sums = np.zeros((size, targets.shape[1]))
            np.add.at(sums, codes[learned], targets[learned] - mean)
            counts = np.bincount(codes[learned], minlength=size)[:, None]
            for weight, errors in tried.items():
                predicted = mean + (sums / (counts + weight))[codes[asked]]
                errors[asked] = ((targets[asked] - predicted) ** 2).sum(1)
        return min(tried.values(), key=_mean)

    def errors_by_size(self) -> DoubleArray:
        """Return the squared error (n,) of a broken line over the share of rows below a number, in folds not learned.

        The number of its pieces is the best of three on all folds.
        """
        targets, rows = self.targets, np.bincount(self.ranks)
        below = ((np.cumsum(rows) - rows / 2) / len(targets))[self.ranks]
        tried = []
        for pieces in (1, 4, 8):
            near = np.clip(1 - np.abs(below[:, None] * pieces - np.arange(pieces + 1)), 0, None)
            errors = np.zeros(len(targets))
            for learned, asked in self._folds():
                mean = targets[learned].mean(0)
                products = near[learned].T @ near[learned] + np.eye(pieces + 1)
                heights = np.linalg.solve(products, near[learned].T @ (targets[learned] - mean))
                errors[asked] = ((targets[asked] - mean - near[asked] @ heights) ** 2).sum(1)
            tried.append(errors)
        return min(tried, key=_mean)

    def _folds(self) -> Iterator[tuple[BoolArray, BoolArray]]:
        """Yield the rows (n,) that are learned from and those that are asked for, where there are both."""
        for number in range(_FOLDS):
            learned, asked = self.fold != number, self.fold == number
            if learned.any() and asked.any():
                yield learned, asked


def _tried(rows: DoubleArray, texts: IntArray | None, label: ColumnProfile, known: IntArray) -> NumberKind | None:
    """Predict the label in rows that are not learned from, by each number for itself and by its size.

    Returns:
        the kind that is shown to explain more; amounts also where their size explains as much; None where neither
        explains anything. A category that is far ahead is sure.
    """
    trial = _Trial.of(rows, texts, label, known)
    if trial is None:
        return None
    base, own, size = trial.base, trial.errors(trial.ranks), trial.errors_by_size()
    shares = list(map(trial.explained_by, (own, size)))
    reason = (
        f"tried on {len(base):,} rows, each number for itself explains {max(shares[0], 0):.1%} of the label, and its "
        f"size {max(shares[1], 0):.1%}"
    )
    ahead = _z(size - own)
    if ahead > 2 and _z(base - own) > 2:
        return NumberKind(kind="categorical", reason=reason, is_sure=ahead > 3)
    if _z(base - size) > 2 and ahead < 1:
        return NumberKind(kind="number", reason=reason)
    return None


def _targets(label: ColumnProfile, codes: IntArray) -> DoubleArray | None:
    """Return the label as numbers (n, K): itself, or one column for each of its classes; None where it is constant."""
    if len(codes) < 2 * _FOLDS:
        return None
    if label.kind == "number":
        numbers = label.codes.numbers[codes]
        finite = np.where(np.isfinite(numbers), numbers, 0.0)[:, None]
        targets = finite / max(float(np.abs(finite).max()), np.finfo(np.float64).tiny)  # of any size
    else:
        common = np.argsort(-label.codes.counts, kind="stable")[:20]
        targets = (codes[:, None] == common[None, :]).astype(np.float64)
    return targets if targets.std(0).max() > 0 else None


def _groups(texts: IntArray) -> IntArray:
    """Number the texts of rows, each row without one for itself."""
    alone = np.where(texts < 0, texts.max(initial=0) + 1 + np.arange(len(texts)), texts)
    return np.asarray(np.unique(alone, return_inverse=True)[1], dtype=np.int64)


def _mean(errors: DoubleArray) -> float:
    return float(errors.mean())


def _z(differences: DoubleArray) -> float:
    """Return a mean in standard errors."""
    return _mean(differences) / max(float(differences.std() / np.sqrt(len(differences))), 1e-12)
