"""Run experiments and show their results.

Train every method on every data set and fold, cell by cell. Finished cells are never run again.

Examples:
  attribune data prepare polmed --source downloads
  attribune benchmark plan --preset main --sets polmed
  attribune benchmark run --preset main --sets polmed --output bench/main
  attribune benchmark new --data mine.csv --text review --label stars --attributes user product --output mine.yaml
  attribune benchmark run mine.yaml --output bench/mine --workers 2
  attribune benchmark status bench/mine
  attribune benchmark table bench/mine --format latex
  attribune benchmark table bench/mine --json mine.json
  attribune benchmark report bench/mine
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import open_console, show
from attribune.core.wording import counted
from attribune.errors import ConfigError

if TYPE_CHECKING:
    from attribune_lab.benchmark.experiment import Cell, Experiment
    from attribune_lab.benchmark.tables import Summary


_LISTED_CELLS = 20
_PROBE = 20


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    actions = add_verb(verbs, "benchmark", __doc__).add_verbs(dest="action", metavar="ACTION")
    _add_run(actions)
    _add_plan(actions)
    _add_new(actions)
    status = add_verb(actions, "status", "show finished and remaining cells, and the time left", run=_status)
    table = add_verb(actions, "table", "print tables, from the result files alone", run=_table)
    page = "write an HTML page with plots and findings, from the result files alone"
    report = add_verb(actions, "report", page, run=_report)
    for action, also in ((status, ""), (table, ", or a record that --json wrote"), (report, "")):
        action.add_argument("folder", metavar="DIR", help=f"folder of the benchmark{also}")
    table.add_argument("--format", default="markdown", metavar="FORMAT", help="markdown, latex, csv or html")
    table.add_argument("--split", choices=("test", "validation"), help="rows to show (default: test, or the record's)")
    table.add_argument("--json", metavar="FILE", help="write a record of the tables to a file, and print its path")
    report.add_argument("--output", metavar="FILE", help="HTML file to write (default: report.html in the folder)")
    for action in (table, report):
        action.add_argument(
            "--reference", metavar="SETTING", help="compare with this setting (default: the experiment's)"
        )


def _add_run(actions: Any) -> None:
    after = "; finished cells are kept: run the same command again to continue in {output}"
    parser = add_verb(actions, "run", "run the missing cells", run=_run, after_interrupt=after)
    _add_choice(parser)
    add = parser.add_argument
    add("--output", metavar="DIR", required=True, help="folder of the benchmark, new or to be resumed")
    add("--results", metavar="DIR", help="small files of finished cells, which are not trained; others are added")
    add("--workers", type=int, default=1, metavar="N", help="trainings in parallel (default: 1)")


def _add_plan(actions: Any) -> None:
    """What a run takes, before it begins."""
    parser = add_verb(actions, "plan", "count cells and steps, and estimate the time by short trainings", run=_plan)
    _add_choice(parser)
    probe = f"steps of each short training, 0 for none (default: {_PROBE})"
    parser.add_argument("--probe", type=int, default=_PROBE, metavar="N", help=probe)


def _add_choice(parser: Any) -> None:
    """Which cells of which experiment."""
    add = parser.add_argument
    add("recipe", nargs="?", metavar="RECIPE", help="YAML file of the experiment")
    add("--preset", metavar="NAME", help="an experiment of the library, instead of RECIPE")
    add("--small", action="store_true", help="the preset with fewer rows, steps and settings, for two cores")
    add("--sets", nargs="+", metavar="NAME", default=[], help="only these data sets")
    add("--settings", nargs="+", metavar="NAME", default=[], help="only these settings")
    add("--seeds", nargs="+", type=int, metavar="N", default=[], help="only these folds or seeds")
    add("--steps", type=int, metavar="N", help="steps of every training, instead of the experiment's steps and epochs")


def _add_new(actions: Any) -> None:
    add = add_verb(actions, "new", "write an experiment for your own table", run=_new).add_argument
    add("--data", metavar="TABLE", required=True, help="CSV, TSV, JSONL or Parquet file")
    add("--text", nargs="+", metavar="COLUMN", required=True, help="text columns")
    add("--text-pair", nargs="+", metavar="COLUMN", default=[], help="columns of a second text")
    add("--label", nargs="+", metavar="COLUMN", required=True, help="label columns")
    add("--attributes", nargs="+", metavar="COLUMN", default=[], help="columns with one value")
    add("--multi-label", nargs="+", metavar="COLUMN[:SEPARATOR]", default=[], help="columns with several values")
    add("--values", nargs="+", metavar="COLUMN=FILE", default=[], help="tables that describe values of attributes")
    add("--task", metavar="KIND", help="classification, rating, regression or aspects (default: inferred)")
    add("--seeds", type=int, default=2, metavar="N", help="number of splits and trainings per setting (default: 2)")
    add("--steps", type=int, default=250, metavar="N", help="steps per training (default: 250)")
    add("--output", metavar="FILE", required=True, help="YAML file to write")


def _read_experiment(options: argparse.Namespace) -> Experiment | None:
    """Read RECIPE or --preset, with --steps; None where the folder's own experiment is to be resumed."""
    from attribune_lab.benchmark.experiment import Experiment, read_experiment

    if options.recipe is not None and options.preset is not None:
        raise ConfigError(f"RECIPE {options.recipe} and --preset {options.preset} cannot be combined: pass one of them")
    if options.small and options.preset is None:
        raise ConfigError("--small is for an experiment of the library: name it with --preset")
    if options.steps is not None and options.steps < 1:
        raise ConfigError(f"--steps {options.steps}: give at least 1")
    if options.preset is not None:
        experiment = read_experiment(options.preset, small=options.small)
    elif options.recipe is not None:
        experiment = Experiment.read(options.recipe)
    elif options.steps is None:
        return None
    else:
        raise ConfigError("--steps changes an experiment: name its RECIPE or --preset")
    return experiment if options.steps is None else experiment.with_steps(options.steps)


def _run(options: argparse.Namespace) -> None:
    from attribune_lab.benchmark.cell_files import CellFiles
    from attribune_lab.benchmark.engines import Processes
    from attribune_lab.benchmark.results import BenchmarkFolder, status_of
    from attribune_lab.benchmark.runner import check_experiment, run_cells

    if options.workers < 1:
        raise ConfigError(f"--workers {options.workers}: give at least 1")
    console = open_console()
    folder = BenchmarkFolder(Path(options.output))
    experiment = _read_experiment(options) or folder.experiment()
    chosen = _chosen(experiment, options)
    check_experiment(chosen)
    folder.begin(experiment)

    kept = None if options.results is None else CellFiles(Path(options.results))
    for cell in [] if kept is None else kept.exchange(folder, chosen):
        console.note(f"{cell.path}: the file in {options.results} is of other settings or data; it is trained again")

    def progress() -> str:
        return status_of(folder, chosen).text(workers=options.workers)

    def note_cell(cell: Cell, state: str) -> None:
        if kept is not None and folder.is_done(cell):
            kept.write(folder, chosen, cell)
        console.note(f"{cell.path}: {state}" + (f"; {progress()}" if state == "done" else ""))

    console.note(f"{folder.path}: {progress()}")
    engine = Processes(folder, workers=options.workers, show=options.workers == 1)
    run_cells(chosen, folder, engine, tell=note_cell)
    console.note(f"{folder.path}: {progress()}")
    if left := status_of(folder, chosen).left:
        raise ConfigError(
            f"{counted(len(left), 'cell is', 'cells are')} not done, the first being {left[0].path}: see the "
            "messages above, fix the cause and run the same command again"
        )
    show(str(folder.path))


def _chosen(experiment: Experiment, options: argparse.Namespace) -> Experiment:
    return experiment.only(sets=options.sets, settings=options.settings, folds=options.seeds)


def _plan(options: argparse.Namespace) -> None:
    from attribune_lab.benchmark.plan import check_probe, make_plan, with_paces

    experiment = _read_experiment(options)
    if experiment is None:
        raise ConfigError("there is nothing to plan: name a RECIPE or a --preset")
    console = open_console()
    plan = make_plan(_chosen(experiment, options))
    if options.probe and len(plan.missing) < len(plan.experiment.sets):
        check_probe(options.probe)
        try:
            plan = with_paces(plan, options.probe, tell=lambda cell, word: console.note(f"{cell.path}: {word}"))
        except ConfigError as error:  # such as a backbone that is not there yet
            console.note(f"no step was tried, so the time is unknown: {error}")
    show(plan.text())


def _new(options: argparse.Namespace) -> None:
    from attribune.apps.cli.recipe_flags import attribute_list, value_files
    from attribune.core.progress import ConsoleReporter
    from attribune_lab.benchmark.experiment import own_experiment

    output = Path(options.output)
    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output {output}: give the name of a YAML file, such as {output.with_suffix('.yaml')}")
    if output.exists():
        raise ConfigError(f"{output} already exists: choose another name, or remove it")
    experiment = own_experiment(
        options.data,
        text=options.text,
        text_pair=options.text_pair,
        label=options.label,
        attributes=attribute_list(options),
        values=value_files(options.values),
        task=options.task,
        seeds=options.seeds,
        steps=options.steps,
    )
    output.write_text(experiment.to_yaml(), encoding="utf-8")
    ConsoleReporter().note(f"run it with: attribune benchmark run {output} --output {output.with_suffix('')}")
    show(str(output))


def _status(options: argparse.Namespace) -> None:
    from attribune_lab.benchmark.results import BenchmarkFolder, status_of

    status = status_of(BenchmarkFolder(Path(options.folder)))
    lines = [status.text(), *(f"left: {cell.path}" for cell in status.left[:_LISTED_CELLS])]
    if len(status.left) > _LISTED_CELLS:
        lines.append(f"and {len(status.left) - _LISTED_CELLS} more")
    show("\n".join(lines))


def _table(options: argparse.Namespace) -> None:
    from attribune_lab.benchmark.rendering import render

    summary = _summary(Path(options.folder), options.split, options.reference)
    if not summary.tables:
        raise ConfigError(
            f"{options.folder}: no cell is done yet: run `attribune benchmark run --output {options.folder}`"
        )
    if options.json is None:
        show(render(summary.tables, options.format, overall=summary.overall))
    else:
        summary.write(options.json)
        show(options.json)


def _summary(path: Path, split: Literal["test", "validation"] | None, reference: str | None) -> Summary:
    """Summarize a benchmark's folder, or read a record."""
    from attribune_lab.benchmark.results import BenchmarkFolder
    from attribune_lab.benchmark.tables import Summary, summarize

    if not path.is_file():
        return summarize(BenchmarkFolder(path), part=split or "test", reference=reference)
    summary = Summary.read(path)
    if split not in (None, summary.part):
        raise ConfigError(
            f"{path} is a record of {summary.part} rows, --split asks for {split} rows: make another record of the "
            f"benchmark's folder with `attribune benchmark table DIR --split {split} --json FILE`"
        )
    if reference not in (None, summary.experiment.first):
        raise ConfigError(
            f"{path} is a record of differences to {summary.experiment.first}, --reference asks for {reference}: make "
            f"another record of the benchmark's folder with `attribune benchmark table DIR --reference {reference!r} "
            "--json FILE`"
        )
    return summary


def _report(options: argparse.Namespace) -> None:
    from attribune.apps.report.page import write_page
    from attribune_lab.benchmark.page import benchmark_page
    from attribune_lab.benchmark.results import BenchmarkFolder

    folder = BenchmarkFolder(Path(options.folder))
    if not options.output:
        folder.refuse_links()
    page = benchmark_page(folder, reference=options.reference)
    show(str(write_page(options.output or folder.path / "report.html", page)))
