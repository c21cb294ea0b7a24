"""The papers' statistics of a data set: sizes, words, values, and how well attributes predict the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.arrays import Array
from attribune_lab.datasets.prepared import PreparedSet
from attribune_lab.datasets.row_log import PARTS, words

SMOOTHING = 2e-5
"""Added to every class of both distributions; with it the divergences of a uniform guess are the paper's to 1e-3."""
_RARE = 10
_ROUNDED = 0.05  # what the papers print as 0.0
_SPREADS, _SHARE = 2.0, 0.1  # within which a figure agrees with a published one


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a set, over its folds.

    Args:
        value: mean over the folds.
        spread: standard deviation over the folds; None for a set without folds.
        published: the paper's figure; None if it gives none.
    """

    name: str
    value: float
    spread: float | None = None
    published: float | None = None

    def agrees(self) -> bool | None:
        """Whether it is within two spreads of the published figure, or a tenth of it; None without a published one."""
        if self.published is None:
            return None
        gap = abs(self.value - self.published)
        near = _SHARE * abs(self.published) if self.published else _ROUNDED
        return gap <= near or (self.spread is not None and gap <= _SPREADS * self.spread)


def describe_set(prepared: PreparedSet, *, published: dict[str, float] | None = None) -> list[Figure]:
    """Compute the papers' figures: rows, words, classes, values, how many of these are rare or never trained on.

    Words are counted over all rows, marks of punctuation among them, and in both texts of a pair; so are characters
    (Houlsby et al. 2019, table 3). A value is rare with fewer than ten training rows
    (Amplayo, Yoo and Lee 2022, table 1), cold without any (table 7); rows to a user are in Zhang et al. 2024,
    table 5.

    Args:
        published: the papers' figures by the names used here.
    """
    return _over_folds(prepared, lambda parts: _figures(prepared, parts), published or {})


def divergences(
    prepared: PreparedSet, *, published: dict[str, float] | None = None, smoothing: float = SMOOTHING
) -> list[Figure]:
    """Compute how far the attributes' prediction is from the classes of held-out rows (table 6, equation 12).

    For each held-out row (validation; test where the paper has no validation rows, as with folds), the divergence
    ``KL(p || q)`` of its own class, p, from q, the classes of the training rows that have the row's value: ``random``
    takes the same share for each class, ``majority`` the classes of all training rows, ``all`` the mean over the
    attributes. Several values of an attribute are averaged, as are several labels; ``majority`` stands for a value
    without training rows. Without attributes there is no ``all``; a label that is no class has no divergence.

    Args:
        published: the paper's figures by attribute.
        smoothing: added to every class of both distributions.
    """

    def guesses(predicted: dict[str, Array]) -> Iterator[tuple[str, Array]]:
        majority = predicted["majority"]
        yield "random", np.full_like(majority, 1 / majority.shape[1])
        yield from predicted.items()
        if by_attribute := [shares for name, shares in predicted.items() if name != "majority"]:
            yield "all", np.mean(by_attribute, axis=0)

    if not prepared.has_classes:
        return []
    return _over_folds(prepared, lambda parts: _divergences(prepared, parts, guesses, smoothing), published or {})


def best_subset(
    prepared: PreparedSet, *, published: float | None = None, smoothing: float = SMOOTHING
) -> tuple[tuple[str, ...], Figure] | None:
    """Return the attributes whose mean has the lowest divergence (appendix A.2), and that divergence.

    None for a set without attributes, or whose label is no class.
    """
    names = [str(attribute["name"]) for attribute in prepared.manifest["attributes"]]
    if not names or not prepared.has_classes:
        return None
    subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]

    def guesses(predicted: dict[str, Array]) -> Iterator[tuple[str, Array]]:
        for subset in subsets:
            yield "+".join(subset), np.mean([predicted[name] for name in subset], axis=0)

    figures = _over_folds(prepared, lambda parts: _divergences(prepared, parts, guesses, smoothing), {})
    best = min(figures, key=lambda figure: figure.value)
    return tuple(best.name.split("+")), replace(best, name=f"best subset: {best.name}", published=published)


def class_divergence(p: Array, q: Array, smoothing: float = SMOOTHING) -> Array:
    """Return ``sum_c p_c log(p_c / q_c)`` of each row, both distributions (n, C) smoothed and summing to 1."""
    p, q = ((share + smoothing) / (1 + smoothing * share.shape[-1]) for share in (p, q))
    return np.asarray((p * np.log(p / q)).sum(axis=-1))


def values_of(column: pa.ChunkedArray) -> tuple[Array, Array]:
    """Return every value with its row, (rows, values) of the same length; missing and empty values are left out."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(column.type):
        rows, flat = pc.list_parent_indices(column), pc.list_flatten(column)
    else:
        rows, flat = pa.array(np.arange(len(column))), column
    filled = pc.fill_null(pc.not_equal(flat, ""), False)
    return rows.filter(filled).to_numpy(), np.asarray(flat.filter(filled).to_pylist(), dtype=object)


def _over_folds(
    prepared: PreparedSet, figures: Callable[[dict[str, pa.Table]], dict[str, float]], published: dict[str, float]
) -> list[Figure]:
    folds = pd.DataFrame([figures(parts) for parts in _all_folds(prepared)])
    return [
        Figure(
            name=str(name),
            value=float(np.mean(values)),
            spread=float(np.std(values, ddof=1)) if len(values) > 1 else None,
            published=published.get(str(name)),
        )
        for name, values in folds.items()
    ]


def _all_folds(prepared: PreparedSet) -> Iterator[dict[str, pa.Table]]:
    """Yield the parts of each fold; training takes the validation rows too, as a paper without validation rows does."""
    for fold in range(max(1, prepared.folds)):
        parts = {str(name): table for name, table in prepared.parts(fold).items()}
        if prepared.folds:
            parts["train"] = pa.concat_tables([parts["train"], parts.pop("validation")])
        yield parts


def _figures(prepared: PreparedSet, parts: dict[str, pa.Table]) -> dict[str, float]:
    texts = [
        row
        for table in parts.values()
        for row in zip(*(table[name].to_pylist() for name in prepared.texts), strict=True)
    ]
    lengths = np.array([sum(map(words, row)) for row in texts])
    figures: dict[str, float] = {part: len(parts[part]) for part in PARTS if part in parts}
    figures |= {"words": float(lengths.mean()), "words_sd": float(lengths.std()), "words_most": float(lengths.max())}
    figures["characters"] = float(np.mean([sum(map(len, row)) for row in texts]))
    if prepared.has_classes:
        figures["classes"] = max(len(pc.unique(parts["train"][label])) for label in prepared.manifest["labels"])
    total = rare = cold = held_out = 0
    all_rows = sum(map(len, parts.values()))
    for attribute in prepared.manifest["attributes"]:
        name = str(attribute["name"])
        counts = _counts(parts["train"][name])
        elsewhere = {value for part, table in parts.items() if part != "train" for value in _counts(table[name])}
        total += len(counts)
        rare += sum(count < _RARE for count in counts.values())
        held_out += len(elsewhere)
        cold += len(elsewhere - counts.keys())
        figures[f"values of {name}"] = len(counts)
        figures[f"rows per {name}"] = all_rows / max(1, len(counts.keys() | elsewhere))
    if prepared.manifest["attributes"]:
        figures |= {"values": total, "sparse": 100 * rare / max(1, total), "cold": 100 * cold / max(1, held_out)}
    return figures


def _counts(column: pa.ChunkedArray) -> Counter[str]:
    """Count the rows of each value; a value that stands twice in a row counts once."""
    rows, values = values_of(column)
    return Counter(value for _, value in set(zip(rows.tolist(), values.tolist(), strict=True)))


def _divergences(
    prepared: PreparedSet,
    parts: dict[str, pa.Table],
    guesses: Callable[[dict[str, Array]], Iterable[tuple[str, Array]]],
    smoothing: float,
) -> dict[str, float]:
    """Return the divergence of each guess, a name and classes (n, C) made of the predictions; the mean over labels."""
    held_out = parts["test" if prepared.folds else "validation"]
    by_label = []
    for label in prepared.manifest["labels"]:
        p, predicted = _distributions(prepared, parts["train"], held_out, label)
        by_label.append({name: class_divergence(p, q, smoothing).mean() for name, q in guesses(predicted)})
    return {name: float(np.mean([values[name] for values in by_label])) for name in by_label[0]}


def _distributions(
    prepared: PreparedSet, train: pa.Table, held_out: pa.Table, label: str
) -> tuple[Array, dict[str, Array]]:
    """Return one-hot classes of the held-out rows (n, C), and the predictions of ``majority`` and each attribute."""
    names = sorted({*train[label].to_pylist(), *held_out[label].to_pylist()})
    ids = {name: index for index, name in enumerate(names)}
    truth = np.array([ids[name] for name in train[label].to_pylist()])
    p = np.eye(len(names))[[ids[name] for name in held_out[label].to_pylist()]]
    prior = np.bincount(truth, minlength=len(names)) / len(truth)
    predicted = {"majority": np.tile(prior, (len(p), 1))}
    for attribute in prepared.manifest["attributes"]:
        column = str(attribute["name"])
        predicted[column] = _by_value(train[column], truth, held_out[column], prior, rows=len(p))
    return p, predicted


def _by_value(train: pa.ChunkedArray, truth: Array, held_out: pa.ChunkedArray, prior: Array, *, rows: int) -> Array:
    """Return the classes of the training rows that have a held-out row's value (n, C): equation 12."""
    train_rows, train_values = values_of(train)
    held_rows, held_values = values_of(held_out)
    ids, vocabulary = pd.factorize(train_values)
    counts = np.zeros((len(vocabulary) + 1, len(prior)))
    np.add.at(counts, (ids, truth[train_rows]), 1)
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0, counts / np.maximum(totals, 1), prior)  # the last row: values without training rows
    held_ids = pd.Index(vocabulary).get_indexer(held_values)  # -1, the last row, for other values
    sums, value_counts = np.zeros((rows, len(prior))), np.zeros((rows, 1))
    np.add.at(sums, held_rows, shares[held_ids])
    np.add.at(value_counts, held_rows, 1)
    return np.where(value_counts > 0, sums / np.maximum(value_counts, 1), prior)
