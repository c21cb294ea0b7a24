"""Cards of data sets: their source, what their files must hold, and the figures of the papers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune_lab.datasets.row_log import RowLog, Rows

NOT_STATED = "not stated by the source"
"""What a card says where its source names no licence, or tells no version of its files from another."""

Read: TypeAlias = Callable[[Mapping[str, Path], RowLog], Rows]
"""Reads the files, by role, and yields each row of the set with its part, where the files say which.

A row has the columns ``text``, ``text_pair`` for pairs, ``prompt`` for texts that answer one, the labels, the
attributes that the files have, and the column by which a split groups rows.
"""


def packed(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield where a file of one of these names may be, plain or compressed."""
    return (folder / f"{name}{ending}" for name in names for ending in ("", ".gz", ".bz2"))


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that the source publishes.

    Args:
        role: the name by which the reader asks for it.
        names: possible paths inside the folder, without the ending of a compressed file, .gz or .bz2.
        rows: number of rows of the whole file; None if it is not published.
        other_rows: numbers of rows of other versions of the file that are whole, too.
        optional: whether a set is complete without it.
        folder: whether it may be a folder with a file for each row.
        sha256: checksum of the whole unpacked file with which the reader was tested; None if only parts were available.
            A mirror may have the same rows in other bytes, so no file is refused for it.
    """

    role: str
    names: tuple[str, ...]
    rows: int | None = None
    other_rows: tuple[int, ...] = ()
    optional: bool = False
    folder: bool = False
    sha256: str | None = None

    def find(self, folder: Path) -> Path | None:
        """Return the file in a folder, plain or compressed; None where there is none."""
        candidates = packed(folder, self.names)
        return next((path for path in candidates if path.is_file() or (self.folder and path.is_dir())), None)


@dataclass(frozen=True)
class Split(ABC):
    """How the rows of a set become parts."""

    @property
    def fold_count(self) -> int:
        """Number of folds of a cross-validation; 0 for parts."""
        return 0

    @abstractmethod
    def text(self, *, pair: bool) -> str:
        """Return it in words, for a set of pairs of texts or of texts."""

    @abstractmethod
    def parts(self, given: Sequence[int], texts: Sequence[int], hashes: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return the part of each row: 0 train, 1 validation, 2 test.

        Args:
            given: part of each row by the files, -1 for none.
            texts: a number for the text of each row, the same for equal texts.
            hashes: of 64 bits, of the text of each row, or of its group.
        """


@dataclass(frozen=True)
class Given(Split):
    """The files say which row is in which part."""

    def text(self, *, pair: bool) -> str:
        """Return it in words."""
        return "as published"

    def parts(self, given: Sequence[int], texts: Sequence[int], hashes: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return the part of each row."""
        return np.asarray(given, dtype=np.int8)


@dataclass(frozen=True, kw_only=True)
class Shuffled(Split):
    """Validation and test take a number or a share of the rows each, at random, at most a tenth; the rest trains.

    Args:
        rows: number of validation rows, and of test rows.
        share: share of all rows, instead of `rows`.
        seed: the papers do not publish theirs.
        whole_texts: whether rows with the same text stay in one part; the papers do not say.
    """

    rows: int | None = None
    share: float | None = None
    seed: int = 0
    whole_texts: bool = False

    def text(self, *, pair: bool) -> str:
        """Return it in words."""
        size = f"{self.rows:,} rows" if self.share is None else f"{100 * self.share:g} % of the rows"
        grouped = "; equal texts stay together" if self.whole_texts else ""
        return f"at random, seed {self.seed}: {size} each for validation and test{grouped}"

    def parts(self, given: Sequence[int], texts: Sequence[int], hashes: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return the part of each row."""
        groups = np.unique(np.asarray(texts), return_inverse=True)[1] if self.whole_texts else np.arange(len(texts))
        part_size = int(len(groups) * self.share) if self.share is not None else int(self.rows or 0)
        part_size = min(part_size, max(1, len(groups) // 10))
        sizes = np.bincount(groups)
        order = np.random.default_rng(self.seed).permutation(len(sizes))
        cumulative = np.cumsum(sizes[order])
        part = np.zeros(len(sizes), dtype=np.int8)
        part[order[cumulative <= part_size]] = 2
        part[order[(cumulative > part_size) & (cumulative <= 2 * part_size)]] = 1
        return part[groups]


@dataclass(frozen=True, kw_only=True)
class Folds(Split):
    """Cross-validation: every row has the number of the fold that tests on it."""

    number: int = 10
    seed: int = 0

    @property
    def fold_count(self) -> int:
        """Number of folds."""
        return self.number

    def text(self, *, pair: bool) -> str:
        """Return it in words."""
        return f"{self.number} folds, seed {self.seed}"

    def parts(self, given: Sequence[int], texts: Sequence[int], hashes: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return 0 for each row: all are in one file."""
        return np.zeros(len(given), dtype=np.int8)

    def folds(self, rows: int) -> npt.NDArray[np.int8]:
        """Return the fold of each row."""
        fold = np.empty(rows, dtype=np.int8)
        order = np.random.default_rng(self.seed).permutation(rows)
        for number, chosen in enumerate(np.array_split(order, self.number)):
            fold[chosen] = number
        return fold


@dataclass(frozen=True, kw_only=True)
class Hashed(Split):
    """A hash of the texts decides, so that equal texts share a part, whatever other rows there are.

    Args:
        validation: share of the rows without a part that validates.
        test: share of them that tests; 0 where the files say which rows do.
        group: name of the column that is hashed instead of the texts.
    """

    validation: float = 0.1
    test: float = 0.1
    group: str | None = None

    def text(self, *, pair: bool) -> str:
        """Return it in words."""
        of = f"the {self.group}" if self.group else "the texts" if pair else "the text"
        share = f"{100 * self.validation:g} % of the rows"
        size = f"{share} each for validation and test" if self.test else f"{share} for validation; test as published"
        return f"by a hash of {of}: {size}"

    def parts(self, given: Sequence[int], texts: Sequence[int], hashes: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return the part of each row: that of the files, where they say one."""
        place = np.asarray(hashes, dtype=np.uint64) / 2.0**64
        drawn = np.where(place < self.test, 2, np.where(place < self.test + self.validation, 1, 0))
        parts = np.asarray(given, dtype=np.int8)
        return np.where(parts < 0, drawn, parts).astype(np.int8)


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set.

    Args:
        name: on the command line; `title` is the one in tables.
        source: who published it, and where; `obtain` says how to get the files.
        revision: version of the source that the card describes: an archive, a commit, or `NOT_STATED`.
        licence: its name, or `NOT_STATED`; `terms` of use are in words.
        citation: the paper that introduced the set.
        attributes: as a recipe has them, in the paper's order; so is `task`. There may be none.
        values: by attribute, the columns of rows that describe its values, which become a table of their own.
        labels: columns that are predicted.
        classes: number of classes; 0 for numbers, and for answers that are parts of the text.
        pair: whether a row has a second text, the column ``text_pair``.
        prompt: whether a row has what its texts answer, the column ``prompt``.
        metric: the one of the papers' tables; so is `window`.
        recipe: name of the preset with the paper's settings.
        preparation: what is filtered and changed, in words.
        published: figures of the papers' tables of statistics.
        divergence: Kullback-Leibler divergences of the papers, by attribute.
    """

    name: str
    title: str
    source: str
    obtain: str
    revision: str
    licence: str
    terms: str
    citation: str
    files: tuple[SourceFile, ...]
    read: Read = field(repr=False)
    split: Split
    attributes: tuple[Mapping[str, Any], ...]
    labels: tuple[str, ...]
    task: Mapping[str, Any]
    classes: int
    metric: str
    preparation: str
    pair: bool = False
    prompt: bool = False
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: str = "head+tail:250+250"
    recipe: str | None = "injectors-2022"
    published: Mapping[str, int | float] = field(default_factory=dict)
    divergence: Mapping[str, int | float] = field(default_factory=dict)
    notes: str = ""

    def names(self) -> tuple[str, ...]:
        """Return the attributes' names."""
        return tuple(str(attribute["name"]) for attribute in self.attributes)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of a row's texts."""
        return (*(["prompt"] if self.prompt else []), "text", *(["text_pair"] if self.pair else []))

    @property
    def classes_text(self) -> str:
        """The number of classes as tables write it."""
        if not self.classes:
            return "answers" if self.task["kind"] == "spans" else "numbers"
        return f"{self.classes}" if len(self.labels) == 1 else f"{len(self.labels)} x {self.classes}"
