"""What is known of a data set: where it comes from, what its files must hold, what the papers say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune.benchmark.rows import RowLog

__all__ = ["Card", "Folds", "Given", "Part", "Read", "Row", "Shuffled", "SourceFile", "Split"]

Part = Literal["train", "validation", "test"]
Row: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[Mapping[str, Path], RowLog], Iterator[tuple[Part | None, Row]]]
"""Reads the files, by role, and gives each row that is kept with its part, where the files say which."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file that the source publishes.

    Args:
        role: by which the reader asks for it.
        names: what it may be called, paths inside the folder; compressed with gzip or bzip2, it may end so.
        rows: how many rows the whole file has, where that is published; None where it is not.
    """

    role: str
    names: tuple[str, ...]
    rows: int | None = None

    def find(self, folder: Path) -> Path | None:
        """The file in a folder, plain or compressed; None where there is none."""
        candidates = (folder / f"{name}{packed}" for name in self.names for packed in ("", ".gz", ".bz2"))
        return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True)
class Given:
    """The files say which row is in which part."""


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """Validation and test take so many rows each, but a tenth at most, or such a share, at random; the rest trains.

    Args:
        rows: of validation, and of test.
        share: of all rows, in place of `rows`.
        seed: the papers do not publish theirs; 0 is ours.
        whole_texts: whether rows with the same text stay in one part, which the papers do not say of theirs.
    """

    rows: int | None = None
    share: float | None = None
    seed: int = 0
    whole_texts: bool = False

    def parts(self, texts: Sequence[int]) -> npt.NDArray[np.int8]:
        """The part of each row: 0 train, 1 validation, 2 test.

        Args:
            texts: a number for each row, the same for rows with the same text.
        """
        groups = np.unique(np.asarray(texts), return_inverse=True)[1] if self.whole_texts else np.arange(len(texts))
        wanted = int(len(groups) * self.share) if self.share is not None else int(self.rows or 0)
        wanted = min(wanted, max(1, len(groups) // 10))
        sizes = np.bincount(groups)
        order = np.random.default_rng(self.seed).permutation(len(sizes))
        filled = np.cumsum(sizes[order])
        part = np.zeros(len(sizes), dtype=np.int8)
        part[order[filled <= wanted]] = 2
        part[order[(filled > wanted) & (filled <= 2 * wanted)]] = 1
        return part[groups]


@dataclass(frozen=True, kw_only=True)
class Folds:
    """Cross-validation: every row gets the number of the fold that tests on it."""

    number: int = 10
    seed: int = 0

    def folds(self, rows: int) -> npt.NDArray[np.int8]:
        """The fold of each row."""
        fold = np.empty(rows, dtype=np.int8)
        for number, chosen in enumerate(
            np.array_split(np.random.default_rng(self.seed).permutation(rows), self.number)
        ):
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
        obtain: how one gets the files.
        terms: under which they are given.
        citation: of the paper that introduced it.
        files: what must be there.
        read: gives the rows.
        split: how the rows are shared out.
        attributes: as a recipe has them, in the paper's order.
        labels: columns that are predicted.
        task: as a recipe has it.
        classes: how many.
        metric: of the papers' tables.
        window: of the papers.
        recipe: the preset with the paper's settings.
        preparation: what is filtered and changed, in words.
        published: figures of the papers' tables of statistics.
        divergence: Kullback-Leibler divergences of the papers, by attribute.
        notes: what a reader should know.
    """

    name: str
    title: str
    source: str
    obtain: str
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
        """The attributes' names."""
        return tuple(str(attribute["name"]) for attribute in self.attributes)
