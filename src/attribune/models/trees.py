"""Boosted regression trees as arrays, which are stored and read without scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from attribune.core.arrays import Array, DoubleArray

_CELLS = 2_000_000  # rows times trees that are walked at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """Trees whose values are added up to logits.

    A row starts at the root of a tree and goes left where its feature is at most the threshold, or where it is missing
    and missing ones go left. Leaves are their own children.

    Shapes: N nodes of all trees, T trees, O outputs.

    Args:
        baseline: (O,) float64, the logits without any tree.
        roots: (T,) int32, nodes.
        outputs: (T,) int32, to which of the logits each tree adds.
        feature: (N,) int32, the column that a node looks at.
        threshold: (N,) float64.
        missing_left: (N,) bool.
        left: (N,) int32, nodes.
        right: (N,) int32, nodes.
        value: (N,) float64, what a leaf adds.
    """

    baseline: Array
    roots: Array
    outputs: Array
    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    right: Array
    value: Array

    @classmethod
    def of_nodes(cls, baseline: DoubleArray, trees: Iterable[tuple[int, Array]]) -> Self:
        """Make one of the trees of scikit-learn's HistGradientBoosting models.

        Args:
            trees: for each the number of its logit, and its nodes, as the structured array of a `TreePredictor`.
        """
        parts: dict[str, list[Array]] = {field.name: [] for field in fields(cls) if field.name != "baseline"}
        start = 0
        for output, nodes in trees:
            own, is_leaf = start + np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
            parts["roots"].append(np.array([start]))
            parts["outputs"].append(np.array([output]))
            parts["feature"].append(np.where(is_leaf, 0, nodes["feature_idx"]))
            parts["threshold"].append(np.where(is_leaf, 0.0, nodes["num_threshold"]))
            parts["missing_left"].append(nodes["missing_go_to_left"].astype(bool))
            parts["left"].append(np.where(is_leaf, own, start + nodes["left"]))
            parts["right"].append(np.where(is_leaf, own, start + nodes["right"]))
            parts["value"].append(nodes["value"])
            start += len(nodes)
        kinds = {"threshold": np.float64, "value": np.float64, "missing_left": np.bool_}
        joined = {name: np.concatenate([np.zeros(0), *part]) for name, part in parts.items()}
        return cls(baseline=baseline, **{name: part.astype(kinds.get(name, np.int32)) for name, part in joined.items()})

    def logits(self, features: DoubleArray) -> DoubleArray:
        """Return the logits (n, O) of rows with features (n, F), NaN where one is missing."""
        found = np.tile(self.baseline, (len(features), 1))
        size = max(1, _CELLS // max(1, len(self.roots)))
        columns = [np.flatnonzero(self.outputs == output) for output in range(len(self.baseline))]
        for start in range(0, len(features), size):
            rows = slice(start, start + size)
            values = self.value[self._leaves(features[rows])]
            for output, trees in enumerate(columns):
                found[rows, output] += values[:, trees].sum(axis=1)
        return found

    def _leaves(self, features: DoubleArray) -> Array:
        """Return the leaf (n, T) of each row in each tree."""
        rows = np.arange(len(features))[:, None]
        nodes = np.tile(self.roots, (len(features), 1))
        while True:
            seen = features[rows, self.feature[nodes]]
            goes_left = (seen <= self.threshold[nodes]) | (np.isnan(seen) & self.missing_left[nodes])
            below = np.where(goes_left, self.left[nodes], self.right[nodes])
            if (below == nodes).all():
                return nodes
            nodes = below

    def tensors(self) -> dict[str, Array]:
        """Return the arrays by name, from which `from_tensors` restores the trees."""
        return {f"trees.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], *, width: int) -> Self:
        """Restore what `tensors` returned.

        Args:
            width: number of features F.

        Raises:
            KeyError: for an array that is not there.
            ValueError: for arrays of different lengths, or a node, a feature or a logit that does not exist.
        """
        arrays: dict[str, Any] = {field.name: tensors[f"trees.{field.name}"] for field in fields(cls)}
        forest = cls(**arrays)
        N = len(forest.value)
        lengths = {len(arrays[name]) for name in ("feature", "threshold", "missing_left", "left", "right", "value")}
        if len(lengths) > 1 or len(forest.roots) != len(forest.outputs):
            raise ValueError("trees of arrays of different lengths")
        limits = {"roots": N, "outputs": len(forest.baseline), "feature": width, "left": N, "right": N}
        for name, limit in limits.items():
            if ((arrays[name] < 0) | (arrays[name] >= limit)).any():
                raise ValueError(f"trees whose {name} is not from 0 to {limit - 1}")
        if (np.minimum(forest.left, forest.right) < np.arange(N)).any():  # a row would go round for ever
            raise ValueError("trees with a node before its parent")
        return forest
