"""The tables of ten_tables.md, made from benchmarks/results/ten_tables.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from statistics import fmean
from typing import Any

from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.metric import metric_info
from pages.cells import between, measured, table

_REFERENCE, _DEFAULT = "linear", "default"
_ALONE, _FEW_ROWS = "alone", (300, 1_000, 3_000)
_FEW, _EPOCHS = 600, "epochs"
_USUAL = "10 epochs"  # what the default is of so few rows
_COMPARED_WITH = {
    "five folds": "folds by the loss",
    "folds at twice the rate": "five folds",
    "mean of last weights": "five folds",
}
_LATER = ("airlines", "disasters", "chatbots", "recipes")  # measured when nearly all defaults had been chosen
_SETTINGS = (_DEFAULT, "injector", "adapter", "plora", "in-text", "written", "boosting", "autogluon")


@cache
def _cells() -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    """What each seed found, by table and setting, of tables whose reference is there."""
    seeds: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for key, found in measured("ten_tables")["cells"].items():
        name, setting, _ = key.split(", ")
        seeds.setdefault(name, {}).setdefault(setting, []).append(found)
    rows = {name: row for name, row in seeds.items() if _REFERENCE in row}
    return dict(sorted(rows.items(), key=lambda item: item[1][_REFERENCE][0]["rows"]["train"]))


def _settings() -> list[str]:
    return [name for name in _SETTINGS if any(name in row for row in _cells().values())]


def _gap(name: str, mine: str, theirs: str, metric: str) -> PairedResult | None:
    """The difference of two settings on a table, over the test rows of all seeds; None where it was not measured."""
    found = measured("ten_tables")["differences"].get(f"{name}: {mine} less {theirs}")
    return None if found is None else PairedResult.from_record(found[metric])


def _shown(gap: PairedResult, metric: str) -> str:
    """A difference in the units of the metric, in bold where it is shown."""
    info = metric_info(metric)
    text = between(gap.difference, gap.low, gap.high, scale=info.scale, places=1 if info.is_share else 3, sign="+")
    return f"**{text}**" if gap.shows_difference else text


def _cell(name: str, mine: str, theirs: str, metric: str) -> str:
    """A difference, with a mark where it is of one seed alone."""
    return _marked(measured("ten_tables")["differences"].get(f"{name}: {mine} less {theirs}"), metric)


def _marked(found: Mapping[str, Any] | None, metric: str) -> str:
    if found is None:
        return ""
    text = _shown(PairedResult.from_record(found[metric]), metric)
    return f"{text} ¹" if len(found["seeds"]) == 1 else text


def _differences(kind: str) -> list[str]:
    """What each setting changes to the reference, in a kind of metric."""
    rows = []
    for name, row in _cells().items():
        first = row[_REFERENCE][0]
        metric, info = first[kind], metric_info(first[kind])
        mean = fmean(one["test"][metric] for one in row[_REFERENCE])
        value = f"{mean * info.scale:.{1 if info.is_share else 3}f}"
        cells = [_cell(name, one, _REFERENCE, metric) for one in _settings()]
        title = f"{name} ({len(row[_REFERENCE])}){' ²' if name in _LATER else ''}"
        rows.append([title, f"{first['rows']['train']:,}", info.words, value, *cells])
    return table(["table (seeds)", "training rows", "metric", _REFERENCE, *_settings()], rows, words=(0, 2))


def proper() -> list[str]:
    """The proper score, in which less is better."""
    return _differences("proper")


def main() -> list[str]:
    """What people ask for: accuracy, or the explained variance."""
    return _differences("main")


def rivals() -> list[str]:
    """The default against each other setting, by the proper score."""
    others = [one for one in _settings() if one not in (_DEFAULT, "injector")]
    rows = []
    for name, row in _cells().items():
        metric = row[_REFERENCE][0]["proper"]
        cells = [_cell(name, _DEFAULT, other, metric) for other in others]
        rows += [[name, metric_info(metric).words, *cells]] if any(cells) else []
    return table(["table", "metric", *others], rows, words=(0, 1))


def seconds() -> list[str]:
    """How long the trainings took, with the scoring of validation and test rows."""
    names = [_REFERENCE, *(one for one in _settings() if one != "injector")]

    def mean(found: Sequence[Mapping[str, Any]]) -> str:
        return f"{fmean(one['seconds'] for one in found):,.0f}" if found else ""

    rows = [[name, *(mean(row.get(one, [])) for one in names)] for name, row in _cells().items()]
    return table(["table", *names], rows)


def _mean_share(gaps: Mapping[str, PairedResult], proper: Mapping[str, str]) -> str:
    """The mean of differences as shares of the scores of the reference, in words."""
    scores = {name: fmean(one["test"][proper[name]] for one in _cells()[name][_REFERENCE]) for name in gaps}
    share = fmean(gap.difference / scores[name] for name, gap in gaps.items())
    return f"{100 * abs(share):.0f} % {'lower' if share < 0 else 'higher'}"


def few_rows() -> list[str]:
    """What options change of the log loss of a network that few rows train, and how it is without them."""
    lines, trials = [], {number: measured(f"few_rows_{number}") for number in _FEW_ROWS}
    tables = list(dict.fromkeys(key.split(", ")[0] for found in trials.values() for key in found["cells"]))
    for number, found in trials.items():
        cells = [(*key.split(", "), cell["test"]["log_loss"]) for key, cell in found["cells"].items()]
        alone = [[loss for name, setting, _, loss in cells if (name, setting) == (one, _ALONE)] for one in tables]
        lines.append([f"**{number:,} rows**", *(f"{fmean(losses):.3f}" if losses else "" for losses in alone)])
        for setting in dict.fromkeys(setting for _, setting, _, _ in cells if setting != _ALONE):
            usual = _ALONE if number > _FEW or setting.endswith(_EPOCHS) else _USUAL
            usual = _COMPARED_WITH.get(setting, usual)
            gaps = [found["differences"].get(f"{name}: {setting} less {usual}") for name in tables]
            title = setting if usual == _ALONE else f"{setting}, less {usual}"
            if any(gaps):
                lines.append([title, *(_marked(gap, "log_loss") for gap in gaps)])
    return table(["", *tables], lines)


def takeaways() -> list[str]:
    """How often the default is shown better or worse than what people would use instead."""
    lines = []
    proper = {name: row[_REFERENCE][0]["proper"] for name, row in _cells().items()}
    for other, is_later in product((_REFERENCE, "boosting", "autogluon", "adapter", "plora"), (False, True)):
        each = {name: _gap(name, _DEFAULT, other, one) for name, one in proper.items() if (name in _LATER) == is_later}
        gaps = {name: gap for name, gap in each.items() if gap is not None}
        shown = [gap.difference for gap in gaps.values() if gap.shows_difference]
        better = sum(difference < 0 for difference in shown)
        which = "later tables (²)" if is_later else "tables"
        if gaps:
            lines.append(
                f"- Of {len(gaps)} {which}, the default of `train` is shown to have a lower proper score (log loss or "
                f"RMSE) than `{other}` on {better}, and a higher one on {len(shown) - better}; on average it is "
                f"{_mean_share(gaps, proper)}."
            )
    return lines


TABLES = {
    "ten_tables.md": {
        "takeaways": takeaways,
        "proper": proper,
        "main": main,
        "rivals": rivals,
        "seconds": seconds,
        "few rows": few_rows,
    }
}
