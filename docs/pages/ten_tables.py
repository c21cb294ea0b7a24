"""The tables of ten_tables.md, made from benchmarks/results/ten_tables.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from attribune.metrics.metric import metric_info
from pages.cells import between, measured, table

_REFERENCE = "linear"
_SETTINGS = ("default", "injector", "adapter", "plora", "in-text", "written", "boosting", "autogluon")


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """What was measured of a setting on a table, with some seeds."""

    seeds: Sequence[Mapping[str, Any]]

    def mean(self, metric: str) -> float:
        return fmean(one["test"][metric] for one in self.seeds)

    @property
    def seconds(self) -> str:
        return f"{fmean(one['seconds'] for one in self.seeds):,.0f}"

    def difference(self, metric: str) -> tuple[float, float, float] | None:
        """The mean of the seeds' differences to the reference, and of the ends of their intervals."""
        found = [one["against"][metric] for one in self.seeds if "against" in one]
        if not found:
            return None
        difference, low, high = (fmean(one[name] for one in found) for name in ("difference", "low", "high"))
        return difference, low, high

    def shown(self, metric: str) -> str:
        """The difference in the units of the metric, in bold where it is shown."""
        gap = self.difference(metric)
        if gap is None:
            return ""
        info = metric_info(metric)
        text = between(*gap, scale=info.scale, places=1 if info.is_share else 3, sign="+")
        return f"**{text}**" if gap[1] > 0 or gap[2] < 0 else text


@cache
def _cells() -> dict[str, dict[str, _Cell]]:
    """The cells by table and setting, of tables whose reference is there."""
    seeds: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for key, found in measured("ten_tables")["cells"].items():
        name, setting, _ = key.split(", ")
        seeds.setdefault(name, {}).setdefault(setting, []).append(found)
    known = {name: row for name, row in seeds.items() if _REFERENCE in row}
    return {name: {one: _Cell(seeds=found) for one, found in row.items()} for name, row in known.items()}


def _settings() -> list[str]:
    return [name for name in _SETTINGS if any(name in row for row in _cells().values())]


def _differences(kind: str) -> list[str]:
    """What each setting changes to the reference, in a kind of metric."""
    rows = []
    for name, row in _cells().items():
        reference = row[_REFERENCE]
        first = reference.seeds[0]
        metric, info = first[kind], metric_info(first[kind])
        value = f"{reference.mean(metric) * info.scale:.{1 if info.is_share else 3}f}"
        cells = [row[one].shown(metric) if one in row else "" for one in _settings()]
        rows.append([f"{name} ({len(reference.seeds)})", f"{first['rows']['train']:,}", info.words, value, *cells])
    return table(["table (seeds)", "training rows", "metric", _REFERENCE, *_settings()], rows, words=(0, 2))


def proper() -> list[str]:
    """The proper score, in which less is better."""
    return _differences("proper")


def main() -> list[str]:
    """What people ask for: accuracy, or the explained variance."""
    return _differences("main")


def seconds() -> list[str]:
    """How long the trainings took, with the scoring of validation and test rows."""
    names = [_REFERENCE, *(one for one in _settings() if one != "injector")]
    rows = [[name, *(row[one].seconds if one in row else "" for one in names)] for name, row in _cells().items()]
    return table(["table", *names], rows)


def takeaways() -> list[str]:
    """How often the default is shown better or worse than the reference."""
    gaps = [
        gap
        for row in _cells().values()
        if "default" in row and (gap := row["default"].difference(row[_REFERENCE].seeds[0]["proper"])) is not None
    ]
    better, worse = sum(high < 0 for _, _, high in gaps), sum(low > 0 for _, low, _ in gaps)
    return [
        f"Of {len(gaps)} tables on which it was measured, the default of `train` is shown better than `{_REFERENCE}` "
        f"on {better} and worse on {worse}, by its proper score."
    ]


TABLES = {"ten_tables.md": {"takeaways": takeaways, "proper": proper, "main": main, "seconds": seconds}}
