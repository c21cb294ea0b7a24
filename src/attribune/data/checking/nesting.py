"""Columns of a table that are nested, as each city lies in one state, or say the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attribune.data.checking.judgements import known_pairs, told_share
from attribune.data.checking.profiles import Codes, joint_codes
from attribune.findings import Finding
from attribune.schema.columns import PATH

_LEAST_SHARE = 0.98  # of the rows, whose lower value has the upper one that it mostly has
_LEAST_EACH = 2  # lower values of an upper one, on average
_LEAST_ROWS = 20  # whose lower value has another row: that a value of a single row has one other value says nothing
_MOST_LEFT = 0.1  # of the rows that the most common upper value gets wrong, those that the lower one gets wrong
_LOOKED_AT = 100_000  # rows
_NEARLY_ALL = 0.95


def said_by_others(columns: Mapping[str, Codes]) -> dict[str, str]:
    """Return the columns that say nothing more than another one, each with that other.

    The value of the other tells theirs in every row, and nearly each of their values stands for one of it. Of two that
    say exactly the same, the first is kept.
    """
    sizes = {name: len(np.unique(codes.codes)) for name, codes in columns.items()}
    kept: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(columns, key=lambda one: -sizes[one]):
        similar = (other for other in kept if sizes[name] >= _NEARLY_ALL * sizes[other])
        teller = next((other for other in similar if _tells(columns[other], columns[name], sizes[other])), None)
        if teller is None:
            kept.append(name)
        else:
            found[name] = teller
    return found


def _tells(finer: Codes, coarser: Codes, size: int) -> bool:
    """Whether rows that share one of so many values of a column share the value of another, or have none."""
    return int(joint_codes([finer.codes, coarser.codes]).max()) + 1 == size


def nesting_findings(columns: Mapping[str, Codes]) -> list[Finding]:
    """Say which columns are nested, each chain of them once, with the columns of one chain from the upper to the lower.

    Of several columns in which one is nested, the chain goes on with the one of most values.
    """
    parents: dict[str, str] = {}
    shares: dict[str, float] = {}
    by_size = sorted(columns, key=lambda name: -len(columns[name].values))
    for name in by_size:
        for other in by_size:
            share = _share_within(columns[name], columns[other]) if other != name else None
            if share is not None:
                parents[name], shares[name] = other, share
                break
    lowest = [name for name in parents if name not in parents.values()]
    return [_finding(name, columns, parents, shares) for name in lowest]


def _finding(
    name: str, columns: Mapping[str, Codes], parents: Mapping[str, str], shares: Mapping[str, float]
) -> Finding:
    chain = [name]
    while chain[0] in parents:
        chain.insert(0, parents[chain[0]])
    codes = np.stack([columns[one].codes for one in chain])
    rows = np.flatnonzero((codes >= 0).all(axis=0))
    paths, counts = np.unique(codes[:, rows], axis=1, return_counts=True)
    common = paths[:, np.argsort(-counts, kind="stable")[:2]].T
    examples = [
        PATH.join(str(columns[one].values[int(code)].as_py()) for one, code in zip(chain, path, strict=True))
        for path in common
    ]
    share = min(shares[one] for one in chain[1:])
    return Finding("nested-columns", {"columns": chain, "share": share, "examples": examples})


def _share_within(lower: Codes, upper: Codes) -> float | None:
    """Return the share of rows whose lower value has the upper one that it mostly has; None where it is not nested."""
    if len(upper.values) < 2 or len(lower.values) < _LEAST_EACH * len(upper.values):
        return None
    step = max(1, len(lower.codes) // _LOOKED_AT)
    children, tops = known_pairs(lower.codes[::step], upper.codes[::step])
    repeated = np.bincount(children, minlength=len(lower.values))[children] > 1
    children, tops = children[repeated], tops[repeated]
    if len(children) < _LEAST_ROWS:
        return None
    share, usual = told_share(tops, children), float(np.bincount(tops).max() / len(children))
    if share is None or share < _LEAST_SHARE or 1 - share > _MOST_LEFT * (1 - usual):
        return None
    return share if len(np.unique(children)) >= _LEAST_EACH * len(np.unique(tops)) else None
