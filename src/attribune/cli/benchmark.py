"""``attribune benchmark``: experiments over data sets, methods and folds, and what came of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.cli.output import show

if TYPE_CHECKING:
    from attribune.benchmark.engines import Engine
    from attribune.benchmark.experiment import Cell, Experiment
    from attribune.benchmark.results import BenchmarkFolder

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune data prepare polmed --source downloads
  attribune benchmark run --preset main --sets polmed --output bench/main
  attribune benchmark new --data mine.csv --text review --label stars --attributes user product --output mine.yaml
  attribune benchmark run mine.yaml --output bench/mine --workers 2
  attribune benchmark status bench/mine
  attribune benchmark table bench/mine --format latex
  attribune benchmark report bench/mine"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "benchmark",
        help="run experiments and read what came of them: run, new, status, table, report",
        description="Train every method on every data set and fold, cell by cell; what is done is never done again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run the cells that are missing")
    run.add_argument("recipe", nargs="?", metavar="RECIPE", help="YAML file of the experiment")
    run.add_argument("--preset", metavar="NAME", help="an experiment that comes with the library, in place of RECIPE")
    run.add_argument("--sets", nargs="+", metavar="NAME", help="only these sets of the experiment")
    run.add_argument("--output", metavar="DIR", required=True, help="folder of the benchmark, also one begun before")
    run.add_argument("--workers", type=int, default=1, metavar="N", help="trainings at a time, in processes; 1")
    run.add_argument(
        "--engine",
        choices=("processes", "ray"),
        default="processes",
        help="processes on this machine, or Ray: the cluster of RAY_ADDRESS, else this machine",
    )
    run.set_defaults(run=_run, after_interrupt=_after_interrupt)
    new = actions.add_parser("new", help="write an experiment for a table of your own")
    new.add_argument("--data", metavar="TABLE", required=True, help="CSV, TSV, JSONL or Parquet file")
    new.add_argument("--text", nargs="+", metavar="COLUMN", required=True, help="text columns")
    new.add_argument("--label", nargs="+", metavar="COLUMN", required=True, help="what is predicted")
    new.add_argument("--attributes", nargs="+", metavar="COLUMN", default=[], help="columns with one value")
    new.add_argument("--multi-label", nargs="+", metavar="COLUMN[:SEPARATOR]", default=[], help="with several values")
    new.add_argument(
        "--task", metavar="KIND", help="classification, rating, regression or aspects; found out unless given"
    )
    new.add_argument("--seeds", type=int, default=2, metavar="N", help="splits and trainings of each setting; 2")
    new.add_argument("--steps", type=int, default=250, metavar="N", help="of every training; 250")
    new.add_argument("--output", metavar="FILE", required=True, help="YAML file to write")
    new.set_defaults(run=_new, after_interrupt=lambda _: "")
    status = actions.add_parser("status", help="what is done, what is left, how long that may take")
    status.add_argument("folder", metavar="DIR")
    status.set_defaults(run=_status, after_interrupt=lambda _: "")
    table = actions.add_parser("table", help="tables from the result files alone")
    table.add_argument("folder", metavar="DIR")
    table.add_argument("--format", default="markdown", metavar="FORMAT", help="markdown, latex, csv or html")
    table.add_argument("--part", choices=("test", "validation"), default="test", help="whose rows; test")
    table.set_defaults(run=_table, after_interrupt=lambda _: "")
    report = actions.add_parser("report", help="one HTML page with plots and findings, from the result files alone")
    report.add_argument("folder", metavar="DIR")
    report.add_argument("--output", metavar="FILE", help="report.html in the folder unless given")
    report.set_defaults(run=_report, after_interrupt=lambda _: "")


def _after_interrupt(options: argparse.Namespace) -> str:
    return f"; finished cells are kept: the same command goes on in {options.output}"


def _experiment(options: argparse.Namespace) -> Experiment | None:
    """The experiment that is asked for; None where the folder's own is to go on."""
    from attribune.benchmark.experiment import Experiment
    from attribune.benchmark.presets import read_experiment
    from attribune.errors import ConfigError

    if options.recipe is not None and options.preset is not None:
        raise ConfigError(f"both RECIPE {options.recipe} and --preset {options.preset} are given: give one of them")
    if options.preset is not None:
        return read_experiment(options.preset)
    return None if options.recipe is None else Experiment.read(options.recipe)


def _run(options: argparse.Namespace) -> None:
    from attribune.benchmark.results import BenchmarkFolder
    from attribune.benchmark.runner import check_experiment, run_cells
    from attribune.benchmark.status import status_of
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.errors import ConfigError

    if options.workers < 1:
        raise ConfigError(f"--workers {options.workers}: give at least 1")
    quiet_libraries()
    folder = BenchmarkFolder(Path(options.output))
    experiment = _experiment(options)
    if experiment is None:
        experiment = folder.experiment()
    sets = tuple(options.sets or (plan.name for plan in experiment.sets))
    check_experiment(experiment.on(sets))
    folder.begin(experiment)
    reporter = ConsoleReporter()
    reporter.note(f"{folder.path}: {status_of(folder, sets).text(workers=options.workers)}")
    engine = _engine(options, folder)

    def told(cell: Cell, word: str) -> None:
        ended = f"; {status_of(folder, sets).text(workers=options.workers)}" if word == "done" else ""
        reporter.note(f"{cell.path}: {word}{ended}")

    run_cells(folder.experiment().on(sets), folder, engine, tell=told)
    status = status_of(folder, sets)
    reporter.note(f"{folder.path}: {status.text(workers=options.workers)}")
    if status.left:
        raise ConfigError(
            f"{len(status.left)} cells are not done, the first being {status.left[0].path}: see the messages above, "
            "mend the cause and run the same command again"
        )
    show(str(folder.path))


def _engine(options: argparse.Namespace, folder: BenchmarkFolder) -> Engine:
    from attribune.benchmark.engines import Processes, RayCluster

    if options.engine == "ray":
        return RayCluster(folder, workers=options.workers)
    return Processes(folder, workers=options.workers, show=options.workers == 1)


def _new(options: argparse.Namespace) -> None:
    from attribune.benchmark.presets import own_experiment
    from attribune.cli.console import ConsoleReporter
    from attribune.cli.train import attribute_list
    from attribune.errors import ConfigError

    output = Path(options.output)
    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output {output}: give the name of a YAML file, such as {output.with_suffix('.yaml')}")
    if output.exists():
        raise ConfigError(f"{output} is there already: choose another name, or remove it")
    experiment = own_experiment(
        options.data,
        text=options.text,
        label=options.label,
        attributes=attribute_list(options.attributes, options.multi_label, ()),
        task=options.task,
        seeds=options.seeds,
        steps=options.steps,
    )
    output.write_text(experiment.to_yaml(), encoding="utf-8")
    ConsoleReporter().note(f"run it with: attribune benchmark run {output} --output {output.with_suffix('')}")
    show(str(output))


def _status(options: argparse.Namespace) -> None:
    from attribune.benchmark.results import BenchmarkFolder
    from attribune.benchmark.status import status_of

    status = status_of(BenchmarkFolder(Path(options.folder)))
    lines = [status.text(), *(f"left: {cell.path}" for cell in status.left[:20])]
    if len(status.left) > len(lines) - 1:
        lines.append(f"and {len(status.left) - 20} more")
    show("\n".join(lines))


def _table(options: argparse.Namespace) -> None:
    from attribune.benchmark.rendering import render
    from attribune.benchmark.results import BenchmarkFolder
    from attribune.benchmark.tables import benchmark_tables
    from attribune.errors import ConfigError

    tables = benchmark_tables(BenchmarkFolder(Path(options.folder)), part=options.part)
    if not tables:
        raise ConfigError(
            f"{options.folder}: no cell is done yet: run `attribune benchmark run --output {options.folder}`"
        )
    show(render(tables, options.format))


def _report(options: argparse.Namespace) -> None:
    from attribune.benchmark.results import BenchmarkFolder
    from attribune.report.benchmark import write_report

    show(str(write_report(BenchmarkFolder(Path(options.folder)), options.output)))
