"""What is known of a data set: where it comes from, what its files must hold, what the papers say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune.datasets.row_log import Row, RowLog, SplitName

__all__ = ["NOT_STATED", "Card", "Folds", "Given", "Read", "Shuffled", "SourceFile", "Split", "categorical", "table_1"]

NOT_STATED = "not stated by the source"
"""What a card says where its source names no licence, or tells no version of its files from another."""

Read: TypeAlias = Callable[[Mapping[str, Path], RowLog], Iterator[tuple[SplitName | None, Row]]]
"""Reads the files, by role, and yields each row of the set with its part, where the files say which."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that the source publishes.

    Args:
        role: by which the reader asks for it.
        names: what it may be called, paths inside the folder; compressed with gzip or bzip2, it may end so.
        rows: how many rows the whole file has, where that is published; None where it is not.
        sha256: of the whole file, unpacked, on which the reader was tried; None where only parts were at hand. A mirror
            may hold the same rows in other bytes, so that no file is refused for it.
    """

    role: str
    names: tuple[str, ...]
    rows: int | None = None
    sha256: str | None = None

    def find(self, folder: Path) -> Path | None:
        """Return the file in a folder, plain or compressed; None where there is none."""
        candidates = (folder / f"{name}{packed}" for name in self.names for packed in ("", ".gz", ".bz2"))
        return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True)
class Given:
    """The files say which row is in which part."""


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """Validation and test take a number or a share of the rows each, at random, at most a tenth; the rest trains.

    Args:
        rows: number of validation rows, and of test rows.
        share: of all rows, in place of `rows`.
        seed: the papers do not publish theirs; 0 is ours.
        whole_texts: whether rows with the same text stay in one part, which the papers do not say of theirs.
    """

    rows: int | None = None
    share: float | None = None
    seed: int = 0
    whole_texts: bool = False

    def parts(self, texts: Sequence[int]) -> npt.NDArray[np.int8]:
        """Return the part of each row: 0 train, 1 validation, 2 test.

        Args:
            texts: a number for each row, the same for rows with the same text.
        """
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
class Folds:
    """Cross-validation: every row has the number of the fold that tests on it."""

    number: int = 10
    seed: int = 0

    def folds(self, rows: int) -> npt.NDArray[np.int8]:
        """Return the fold of each row."""
        fold = np.empty(rows, dtype=np.int8)
        order = np.random.default_rng(self.seed).permutation(rows)
        for number, chosen in enumerate(np.array_split(order, self.number)):
            fold[chosen] = number
        return fold


Split: TypeAlias = Given | Shuffled | Folds


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set.

    Args:
        name: as commands take it.
        title: for tables.
        source: who published it, and where.
        obtain: how to get the files.
        revision: which version of the source the card describes: an archive, a commit, or `NOT_STATED`.
        licence: by its name, or `NOT_STATED`.
        terms: under which they are given, in words.
        citation: of the paper that introduced it.
        files: the files that `read` needs.
        read: yields the rows.
        split: how rows are assigned to parts.
        attributes: as a recipe has them, in the paper's order.
        labels: columns that are predicted.
        task: as a recipe has it.
        classes: number of classes.
        metric: the one of the papers' tables.
        window: the one of the papers.
        recipe: name of the preset with the paper's settings.
        preparation: what is filtered and changed, in words.
        published: figures of the papers' tables of statistics.
        divergence: Kullback-Leibler divergences of the papers, by attribute.
        notes: what a reader should know.
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
    window: str = "head+tail:250+250"
    recipe: str | None = "injectors-2022"
    published: Mapping[str, float] = field(default_factory=dict)
    divergence: Mapping[str, float] = field(default_factory=dict)
    notes: str = ""

    def names(self) -> tuple[str, ...]:
        """Return the attributes' names."""
        return tuple(str(attribute["name"]) for attribute in self.attributes)


def categorical(*names: str) -> tuple[Mapping[str, Any], ...]:
    """Return attributes with one value per row, as a recipe has them."""
    return tuple({"kind": "categorical", "name": name} for name in names)


def table_1(*, words: tuple[int, int], **figures: float) -> dict[str, float]:
    """Return a row of table 1 of Amplayo, Yoo and Lee 2022, of which `words` are mean and standard deviation."""
    return {**figures, "words": words[0], "words_sd": words[1]}
