"""Rows that are not independent of each other: the judgements of one text, or of one person; and what they say of it.

Intervals over rows are too narrow for them, so that a bootstrap draws whole clusters (`Metric.clusters`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.arguments import as_list
from attribune.core.arrays import Array, BoolArray, IntArray
from attribune.core.hashing import text_digest, text_numbers
from attribune.core.wording import counted
from attribune.data.id_lists import numbered
from attribune.data.texts import text_digests
from attribune.errors import ConfigError, DataError
from attribune.metrics.distributions import distribution_distances, judge_metrics, shares
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric
from attribune.schema.columns import Table, canonical, column_batches, column_names, require_columns
from attribune.tasks import Task
from attribune.tasks.labels import label_texts

Clusters: TypeAlias = Mapping[str, npt.NDArray[np.uint64]]
"""For each kind, ``text`` or the name of a column, a hash of each row (n,) that is equal for rows of one cluster."""

_START = "clusters."
AUTO, ROWS, TEXT = "auto", "rows", "text"
_SHARED = 0.1  # of the rows share their text with another one, or there are no clusters
_APART = 0.95  # of the judgements of texts that several people judge have a judge of their own
_SPEAKERS = 20  # values, or a column is taken for one of categories, all of which the rows have


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How the clusters of rows are found.

    Args:
        cluster: see `find_clusters`.
        texts: columns of the text.
        judges: columns with one value a row that may say who judged or wrote a text, for ``auto``.
    """

    cluster: str | tuple[str, ...]
    texts: tuple[str, ...]
    judges: tuple[str, ...]


def find_clusters(table: Table, settings: ClusterSettings, *, parts: Sequence[Table] = ()) -> Clusters:
    """Find the clusters of a table's rows.

    ``rows`` finds none; ``text``, the name of a column, or two of these are taken as they are; ``auto`` finds the
    texts, if a tenth of the rows share theirs with another row, and the first of the judges' columns that tells the
    rows of a text apart, if its values stand in several rows. Where texts are not shared, it finds the values of the
    one judges' column, such as that of speakers, that has twenty values or more and half as many as rows or fewer;
    none where several have, such as those of users and products, since neither alone would be enough.

    Args:
        parts: of the whole table, this one among them, where `table` is only a part of it: whether rows share their
            texts or speakers is a property of the whole, and a few repeated texts are many in a small part.

    Returns:
        At most two kinds. A row without a value is a cluster of its own.

    Raises:
        DataError: for a column that the table lacks.
    """
    cluster, texts = settings.cluster, settings.texts
    if cluster == ROWS:
        return {}
    if cluster == AUTO:
        return _judgements(table, texts, settings.judges, parts)
    names = as_list(cluster)
    known = column_names(table)
    if missing := [name for name in names if name not in (TEXT, *known)]:
        raise DataError(
            f"evaluation.cluster names the column {missing[0]!r}, which the rows do not have: choose from "
            f"{', '.join(dict.fromkeys([TEXT, *known]))}"
        )
    return {name: _hashes(table, texts) if name == TEXT else _values(table, name) for name in names}


def _judgements(table: Table, texts: Sequence[str], judges: Sequence[str], parts: Sequence[Table]) -> Clusters:
    text = _hashes(table, texts)
    shared = _is_shared(text)
    judges = [name for name in judges if name in column_names(table)]
    everywhere = [shared] if not parts else [_is_shared(_hashes(part, texts)) for part in parts]
    if sum(one.sum() for one in everywhere) < _SHARED * sum(map(len, everywhere)):
        speakers = [name for name in judges if _has_speakers(parts or [table], name)]
        return {name: _values(table, name) for name in speakers} if len(speakers) == 1 else {}
    if not shared.any() or len(np.unique(text)) < 2:
        return {}
    for name in judges:
        value = _values(table, name)
        pairs = np.unique(np.stack([text[shared], value[shared]]), axis=1).shape[1]
        values = len(np.unique(value))
        if pairs >= _APART * shared.sum() and 2 <= values <= len(value) / 2:
            return {TEXT: text, name: value}
    return {TEXT: text}


def _has_speakers(parts: Sequence[Table], name: str) -> bool:
    """Whether a column has enough values for one of speakers, each in two rows in the mean."""
    known, rows = set[Any](), 0
    for part in parts:
        for _, columns in column_batches(part, [name]):
            cells = columns[name]
            if pa.types.is_nested(cells.type):
                return False
            known.update(pc.unique(cells.drop_null()).to_pylist())
            rows += len(cells) - cells.null_count
    return _SPEAKERS <= len(known) <= rows / 2


def _is_shared(text: npt.NDArray[np.uint64]) -> BoolArray:
    """Return (n,) whether another row has the same text."""
    _, which, counts = np.unique(text, return_inverse=True, return_counts=True)
    return np.asarray(counts[which] > 1)


def _hashes(table: Table, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    digests = (digest or text_digest(f"row {row}") for row, digest in enumerate(text_digests(table, names)))
    return np.frombuffer(b"".join(digest[:8] for digest in digests), dtype=np.uint64)


def _values(table: Table, name: str) -> npt.NDArray[np.uint64]:
    cells = enumerate(_cells(table, name))
    return text_numbers(f"row {row}" if value is None else f"value {value}" for row, value in cells)


def _cells(table: Table, name: str) -> list[str | None]:
    """Return the cells of a column as texts by which they are compared."""
    return [
        repr(cell) if isinstance(cell, list | dict) else canonical(cell)
        for _, columns in column_batches(table, [name])
        for cell in columns[name].to_pylist()
    ]


def clustered(metrics: Mapping[str, Metric], clusters: Clusters) -> dict[str, Metric]:
    """Return metrics whose rows are in clusters; a metric over anything else than these rows stays as it is.

    Kinds are in the order of their names, since the bootstrap draws one after the other, and files do not keep another.
    """
    kinds = tuple(kind for _, kind in sorted(clusters.items()))
    return {
        name: replace(metric, clusters=kinds) if all(len(metric) == len(kind) for kind in kinds) else metric
        for name, metric in metrics.items()
    }


def clusters_note(clusters: Clusters) -> str | None:
    """Say what intervals are over; None for rows."""
    if not clusters:
        return None
    listed = " and ".join(f"{len(np.unique(kind)):,} {_words(name)}" for name, kind in clusters.items())
    rows = len(next(iter(clusters.values())))
    return f"{rows:,} rows are of {listed}, and not independent: intervals are over these"


def what_is_drawn(names: Iterable[str]) -> str:
    """What intervals are over, in words: rows, or the kinds of clusters."""
    return " and ".join(map(_words, names)) or "rows"


def _words(name: str) -> str:
    return "texts" if name == TEXT else f"values of {name}"


def packed_clusters(clusters: Clusters) -> dict[str, Array]:
    """Return the clusters as arrays of a file with other ones."""
    return {f"{_START}{name}": kind for name, kind in clusters.items()}


def unpacked_clusters(arrays: Mapping[str, Array]) -> Clusters:
    """Return the clusters among the arrays of a file; none in those of earlier versions."""
    return {name.removeprefix(_START): array for name, array in arrays.items() if name.startswith(_START)}


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

    first: IntArray
    shares: list[str]
    counts: IntArray
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
    has_text, has_answer = (np.array([one is not None for one in column], dtype=bool) for column in (digests, answers))
    rows = np.flatnonzero(has_text & has_answer)
    if not len(rows):
        raise DataError(
            f"{source}: none of its {len(table):,} rows has both a text in {', '.join(text)} and an answer in {label}: "
            "check the column names and the strings that mean missing"
        )
    which = numbered((digests[row] for row in rows), count=len(rows))
    first = rows[np.unique(which, return_index=True)[1]]
    found = [Counter[str]() for _ in first]
    for number, row in zip(which.tolist(), rows.tolist(), strict=True):
        found[number][str(answers[row])] += 1
    others = [name for name in table.column_names if name not in (*text, label)]
    shared = [name for name in others if _has_same_cells(table, name, rows, first[which])]
    of_texts = [{one: count / counts.total() for one, count in sorted(counts.items())} for counts in found]
    return AnswerShares(
        first=first,
        shares=[json.dumps(one, ensure_ascii=False) for one in of_texts],
        counts=np.array([counts.total() for counts in found]),
        shared=tuple(shared),
        dropped=tuple(name for name in others if name not in shared),
        no_text=int((~has_text).sum()),
        no_label=int((has_text & ~has_answer).sum()),
    )


def _has_same_cells(table: datasets.Dataset, name: str, rows: IntArray, first: IntArray) -> bool:
    """Whether the cells of a column are the same in these rows as in the first ones of their texts."""
    cells = _cells(table, name)
    return all(cells[row] == cells[start] for row, start in zip(rows.tolist(), first.tolist(), strict=True))


def judgement_metrics(task: Task, logits: Array, labels: Array, clusters: Clusters) -> dict[str, Metric]:
    """Return the metrics of texts with several judgements; none where there are none, or no answer of several.

    What is predicted of a text is the mean over its judgements of the probabilities, each for its judge. Answers that
    no training row has are left out. Distances and errors of several aspects are means over the aspects.

    Source: the metrics of LeWiDi 2025 (Leonardelli et al. 2025), of several aspects the multi-label Manhattan distance
    ``1/N Σ_i 1/L Σ_j Σ_k |p_ijk - t_ijk|`` and the error rate ``1/N Σ_i 1/L Σ_j 1/a Σ_k |t_ijk - p_ijk|``.

    Args:
        logits: (n, outputs).
        labels: (n,) of single answers, or (n, aspects); others have no such metrics.
        clusters: of the rows; those of texts, and of judges if there are any.
    """
    questions = _questions(task, logits, labels) if TEXT in clusters else []
    if not questions:
        return {}
    _, texts, counts = np.unique(clusters[TEXT], return_inverse=True, return_counts=True)
    used = (counts[texts] > 1) & np.logical_and.reduce([question.labels >= 0 for question in questions])
    if not used.any():
        return {}
    texts = np.unique(texts[used], return_inverse=True)[1]
    is_ordered = all(question.positions is not None for question in questions)
    distances, errors = zip(
        *(question.distances(used, texts, is_ordered=is_ordered) for question in questions), strict=True
    )
    judges = next((kind[used] for which, kind in clusters.items() if which != TEXT), None)
    found = {name: mean_of(name, np.mean([of[name] for of in distances], axis=0)) for name in distances[0]}
    name = "absolute_distance" if is_ordered else "error_rate"
    return found | judge_metrics(np.mean(errors, axis=0), texts=texts, judges=judges, name=name)


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A question of which each judgement has one answer.

    Args:
        probabilities: (n, K).
        labels: (n,) numbers of answers.
        positions: (K,) numbers of ordered answers.
    """

    probabilities: Array
    labels: Array
    positions: Array | None

    def distances(self, used: Array, texts: Array, *, is_ordered: bool) -> tuple[dict[str, Array], Array]:
        """Return how far what is predicted of each text is from what its judges say, and the error of each judgement.

        Args:
            used: (n,) which rows count.
            texts: numbers of the texts of these rows.
            is_ordered: whether errors are distances between the answers' numbers.
        """
        probabilities, labels = self.probabilities[used], self.labels[used]
        sums = np.zeros((int(texts.max()) + 1, probabilities.shape[1]))
        np.add.at(sums, texts, probabilities)
        predicted = sums / np.bincount(texts)[:, None]
        true, positions = shares(labels, texts, answers=probabilities.shape[1]), self.positions if is_ordered else None
        guesses = probabilities.argmax(axis=1)
        if positions is None:
            errors = (guesses != labels).astype(np.float64)
        else:
            errors = np.abs(positions[guesses] - positions[labels]) / np.diff(positions).mean() / len(positions)
        return distribution_distances(true, predicted, positions=positions), errors


def _questions(task: Task, logits: Array, labels: Array) -> list[_Question]:
    """Return the question of a task, or that of each aspect; none where rows may have several answers to one."""
    if np.ndim(labels) == 1:
        given = [(task.codec, logits, labels)]
    else:
        aspects = [choice for choice in task.codec.choices if choice.column is not None]
        given = [(choice.codec, choice.scores(logits), choice.labels(labels)) for choice in aspects]
    answered = [(codec.answers(scores), true, codec.positions) for codec, scores, true in given]
    return [
        _Question(probabilities=probabilities, labels=true, positions=positions)
        for probabilities, true, positions in answered
        if probabilities is not None
    ]
