"""Metrics of texts that several people judged: the distribution of their answers, and single judges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.core.arrays import Array
from attribune.core.wording import counted
from attribune.data.clusters import TEXT, Clusters
from attribune.data.texts import text_digests
from attribune.errors import ConfigError, DataError
from attribune.metrics.distributions import distribution_metrics, judge_metrics, shares
from attribune.metrics.metric import Metric
from attribune.schema.columns import canonical, column_batches, require_columns
from attribune.tasks import Task
from attribune.tasks.labels import label_texts

__all__ = ["JUDGEMENTS", "AnswerShares", "answer_shares", "judgement_metrics"]

JUDGEMENTS = "judgements"
"""The column with the number of judgements of a text."""


@dataclass(frozen=True, kw_only=True)
class AnswerShares:
    """The texts of a table of judgements.

    Attributes:
        first: (T,) the first row of each text, from 0, in the order of the table.
        shares: the shares of its answers, as JSON.
        counts: (T,) its judgements.
        shared: the other columns, in which all rows of a text say the same.
        dropped: those in which they do not.
        no_text: rows left out because they have no text.
        no_label: rows left out because they have no answer.
    """

    first: npt.NDArray[np.int64]
    shares: list[str]
    counts: npt.NDArray[np.int64]
    shared: tuple[str, ...]
    dropped: tuple[str, ...]
    no_text: int
    no_label: int

    def table(self, judgements: datasets.Dataset, *, text: Sequence[str], label: str) -> pa.Table:
        """Return a row for each text: its columns, the shared ones, the shares of answers and their number."""
        kept = judgements.select_columns([*text, *self.shared]).select(self.first).with_format("arrow")[:]
        return kept.append_column(label, [self.shares]).append_column(JUDGEMENTS, [self.counts])

    def lines(self) -> list[str]:
        """Say in short lines what was made of the rows."""
        several = int((self.counts > 1).sum())
        lines = [
            f"{self.counts.sum():,} judgements of {len(self.counts):,} texts, {several:,} of which have more than one"
        ]
        reasons = {"a text": self.no_text, "an answer": self.no_label}
        lines += [f"{counted(count, 'row')} without {reason} left out" for reason, count in reasons.items() if count]
        if self.dropped:
            lines.append(f"columns dropped, in which the rows of a text differ: {', '.join(self.dropped)}")
        return lines


def answer_shares(
    table: datasets.Dataset, *, text: Sequence[str], label: str, missing: Collection[str], source: str = "the table"
) -> AnswerShares:
    """Find the texts of a table of judgements, and the share of each answer among the judgements of a text.

    Args:
        text: columns of the text; rows with the same one, trimmed, are judgements of it.
        label: column of the answers.
        missing: texts that mean no answer.

    Raises:
        DataError: for a missing column, or when no row has a text and an answer.
        ConfigError: for a column that has the name of the number of judgements.
    """
    require_columns(table.column_names, [*text, label], source=source)
    if JUDGEMENTS in table.column_names:
        raise ConfigError(
            f"{source} has a column {JUDGEMENTS!r}, which is to hold the number of judgements of a text: rename it"
        )
    answers = label_texts(list(table[label]), missing=missing)
    digests = text_digests(table, text)
    used = np.array(
        [digest is not None and answer is not None for digest, answer in zip(digests, answers, strict=True)]
    )
    rows = np.flatnonzero(used)
    if not len(rows):
        raise DataError(
            f"{source}: none of its {len(table):,} rows has both a text in {', '.join(text)} and an answer in {label}: "
            "check the column names and the strings that mean missing"
        )
    numbers: dict[bytes | None, int] = {}
    which = np.array([numbers.setdefault(digests[row], len(numbers)) for row in rows])
    first = rows[np.unique(which, return_index=True)[1]]
    found = [Counter[str]() for _ in numbers]
    for number, row in zip(which.tolist(), rows.tolist(), strict=True):
        found[number][str(answers[row])] += 1
    others = [name for name in table.column_names if name not in (*text, label)]
    shared = [name for name in others if _is_shared(table, name, rows, first[which])]
    return AnswerShares(
        first=first,
        shares=[_as_json(counts) for counts in found],
        counts=np.array([counts.total() for counts in found]),
        shared=tuple(shared),
        dropped=tuple(name for name in others if name not in shared),
        no_text=sum(digest is None for digest in digests),
        no_label=sum(digest is not None and answer is None for digest, answer in zip(digests, answers, strict=True)),
    )


def _is_shared(table: datasets.Dataset, name: str, rows: npt.NDArray[np.int64], first: npt.NDArray[np.int64]) -> bool:
    """Whether the cells of a column are the same in these rows as in the first ones of their texts."""
    cells = [
        repr(cell) if isinstance(cell, list | dict) else canonical(cell)
        for _, columns in column_batches(table, [name])
        for cell in columns[name].to_pylist()
    ]
    return all(cells[row] == cells[start] for row, start in zip(rows.tolist(), first.tolist(), strict=True))


def _as_json(counts: Counter[str]) -> str:
    shares = {answer: count / counts.total() for answer, count in sorted(counts.items())}
    return json.dumps(shares, ensure_ascii=False)


def judgement_metrics(task: Task, logits: Array, labels: Array, clusters: Clusters) -> dict[str, Metric]:
    """Return the metrics of texts with several judgements; none where there are none, or no answer of several.

    What is predicted of a text is the mean over its judgements of the probabilities, each for its judge. Answers that
    no training row has are left out.

    Args:
        logits: (n, outputs).
        labels: (n,) of single answers; others have no such metrics.
        clusters: of the rows; those of texts, and of judges if there are any.
    """
    is_single = TEXT in clusters and np.ndim(labels) == 1
    probabilities = task.codec.answers(logits) if is_single else None
    if probabilities is None:
        return {}
    _, texts, counts = np.unique(clusters[TEXT], return_inverse=True, return_counts=True)
    texts = texts.reshape(-1)
    used = (counts[texts] > 1) & (labels >= 0)
    if not used.any():
        return {}
    probabilities, labels = probabilities[used], labels[used]
    _, texts = np.unique(texts[used], return_inverse=True)
    texts = texts.reshape(-1)
    sums = np.zeros((int(texts.max()) + 1, probabilities.shape[1]))
    np.add.at(sums, texts, probabilities)
    predicted = sums / np.bincount(texts)[:, None]
    true, positions = shares(labels, texts, answers=probabilities.shape[1]), task.codec.positions
    guesses = probabilities.argmax(axis=1)
    if positions is None:
        name, errors = "error_rate", (guesses != labels).astype(np.float64)
    else:
        steps = np.abs(positions[guesses] - positions[labels]) / np.diff(positions).mean()
        name, errors = "absolute_distance", steps / len(positions)
    judges = next((kind[used] for which, kind in clusters.items() if which != TEXT), None)
    return distribution_metrics(true, predicted, positions=positions) | judge_metrics(
        errors, texts=texts, judges=judges, name=name
    )
