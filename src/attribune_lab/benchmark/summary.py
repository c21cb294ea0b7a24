"""The record of a benchmark: its tables and trainings in one small file, without the scores of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from attribune.core.config import Settings
from attribune.core.files import replace_file
from attribune.errors import ConfigError
from attribune_lab.benchmark.experiment import Experiment
from attribune_lab.benchmark.overall import Overall, overall_table
from attribune_lab.benchmark.results import BenchmarkFolder
from attribune_lab.benchmark.tables import SetTable, benchmark_tables

__all__ = ["Summary", "Training", "readable_json", "summarize"]

_WIDTH = 120


class Training(Settings):
    """One training of a benchmark.

    Args:
        cell: path of set, setting and fold, as in the folder.
        learning_rate: None for a baseline, as is `backbone_learning_rate`.
        seconds: including reading and scoring.
        peak_mb: peak of the resident memory, if known.
        finished: time in UTC.
    """

    cell: str
    learning_rate: float | None = None
    backbone_learning_rate: float | None = None
    seconds: float
    peak_mb: float | None = None
    finished: str


class Summary(Settings):
    """A benchmark as its tables show it.

    Args:
        part: whose rows are scored.
        tables: one for each set with a cell that is done.
        trainings: of all cells that are done, trials included.
        overall: the table of all sets, if there are several.
        environments: their distinct machines and versions.
    """

    what: ClassVar[str] = "the record of a benchmark"
    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be undefined on some rows

    experiment: Experiment
    part: Literal["test", "validation"]
    tables: tuple[SetTable, ...]
    trainings: tuple[Training, ...]
    environments: tuple[dict[str, Any], ...]
    overall: Overall | None = None

    @classmethod
    def read(cls, path: str | Path) -> Summary:
        """Read the file that `write` wrote; ConfigError for another file."""
        try:
            tree = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{path} is not {cls.what} ({error}): give a file that `attribune benchmark table` wrote as "
                "JSON, or the folder of a benchmark"
            ) from error
        return cls.from_dict(tree, source=str(path))

    def write(self, path: str | Path) -> None:
        """Write one JSON file."""
        tree = self.model_dump(mode="json", exclude_defaults=True)
        replace_file(Path(path), f"{readable_json(tree)}\n".encode())


def summarize(
    folder: BenchmarkFolder, *, part: Literal["test", "validation"] = "test", reference: str | None = None
) -> Summary:
    """Make the record of a folder, of the tables that `benchmark_tables` makes; it raises what that raises."""
    experiment = folder.experiment().compared_with(reference)
    trainings, environments = [], []
    for result in folder.results(experiment):
        known = {name: getattr(result.record, name) for name in Training.model_fields if name != "cell"}
        trainings.append(Training(cell=result.cell.path, **known))
        environment = result.record.environment
        if environment is not None and environment not in environments:
            environments.append(environment)
    tables = tuple(benchmark_tables(folder, part=part, reference=reference))
    return Summary(
        experiment=experiment,
        part=part,
        tables=tables,
        overall=overall_table(tables, part=part),
        trainings=tuple(trainings),
        environments=tuple(environments),
    )


def readable_json(tree: Any, indent: int = 0) -> str:
    """Return JSON in which every object and list that fits on a line has one line."""
    flat = json.dumps(tree, ensure_ascii=False)
    if indent + len(flat) < _WIDTH or not isinstance(tree, dict | list):
        return flat
    if isinstance(tree, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {readable_json(tree[key], indent + 1)}" for key in tree]
        first, last = "{}"
    else:
        parts = [readable_json(one, indent + 1) for one in tree]
        first, last = "[]"
    pad = "\n" + " " * (indent + 1)
    return f"{first}{pad}{f',{pad}'.join(parts)}\n{' ' * indent}{last}"
