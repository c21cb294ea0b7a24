"""Rows that are not independent of each other: the judgements of one text, or of one person.

Intervals over rows are too narrow for them, so that a bootstrap draws whole clusters (`Metric.clusters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune.core.arguments import as_list
from attribune.core.hashing import text_digest, text_numbers
from attribune.data.texts import text_digests
from attribune.errors import DataError
from attribune.metrics.metric import Metric
from attribune.schema.columns import Table, canonical, column_batches, column_names

__all__ = [
    "AUTO",
    "ROWS",
    "TEXT",
    "ClusterSettings",
    "Clusters",
    "clustered",
    "clusters_note",
    "find_clusters",
    "packed_clusters",
    "unpacked_clusters",
    "what_is_drawn",
]

Clusters: TypeAlias = Mapping[str, npt.NDArray[np.uint64]]
"""For each kind, ``text`` or the name of a column, a hash of each row (n,) that is equal for rows of one cluster."""

_START = "clusters."
AUTO, ROWS, TEXT = "auto", "rows", "text"
_SHARED = 0.1  # of the rows share their text with another one, or there are no clusters
_APART = 0.95  # of the judgements of texts that several people judge have a judge of their own


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How the clusters of rows are found.

    Args:
        cluster: see `find_clusters`.
        texts: columns of the text.
        judges: columns with one value a row that may say who judged a text, for ``auto``.
    """

    cluster: str | tuple[str, ...]
    texts: tuple[str, ...]
    judges: tuple[str, ...]


def find_clusters(table: Table, settings: ClusterSettings, *, parts: Sequence[Table] = ()) -> Clusters:
    """Find the clusters of a table's rows.

    ``rows`` finds none; ``text``, the name of a column, or two of these are taken as they are; ``auto`` finds the
    texts, if a tenth of the rows share theirs with another row, and the first of the judges' columns that tells the
    rows of a text apart, if its values stand in several rows.

    Args:
        parts: of the whole table, this one among them, where `table` is only a part of it: whether rows share their
            texts is a property of the whole, and a few repeated texts are many in a small part.

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
    if not shared.any() or len(np.unique(text)) < 2:
        return {}
    everywhere = [shared] if not parts else [_is_shared(_hashes(part, texts)) for part in parts]
    if sum(one.sum() for one in everywhere) < _SHARED * sum(map(len, everywhere)):
        return {}
    for name in (name for name in judges if name in column_names(table)):
        value = _values(table, name)
        pairs = np.unique(np.stack([text[shared], value[shared]]), axis=1).shape[1]
        values = len(np.unique(value))
        if pairs >= _APART * shared.sum() and 2 <= values <= len(value) / 2:
            return {TEXT: text, name: value}
    return {TEXT: text}


def _is_shared(text: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return (n,) whether another row has the same text."""
    _, which, counts = np.unique(text, return_inverse=True, return_counts=True)
    return np.asarray(counts[which.reshape(-1)] > 1)


def _hashes(table: Table, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    digests = (digest or text_digest(f"row {row}") for row, digest in enumerate(text_digests(table, names)))
    return np.frombuffer(b"".join(digest[:8] for digest in digests), dtype=np.uint64)


def _values(table: Table, name: str) -> npt.NDArray[np.uint64]:
    known: list[str] = []
    for _, columns in column_batches(table, [name]):
        for cell in columns[name].to_pylist():
            value = repr(cell) if isinstance(cell, list | dict) else canonical(cell)
            known.append(f"row {len(known)}" if value is None else f"value {value}")
    return text_numbers(known)


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


def packed_clusters(clusters: Clusters) -> dict[str, npt.NDArray[Any]]:
    """Return the clusters as arrays of a file with other ones."""
    return {f"{_START}{name}": kind for name, kind in clusters.items()}


def unpacked_clusters(arrays: Mapping[str, npt.NDArray[Any]]) -> Clusters:
    """Return the clusters among the arrays of a file; none in those of earlier versions."""
    return {name.removeprefix(_START): array for name, array in arrays.items() if name.startswith(_START)}
