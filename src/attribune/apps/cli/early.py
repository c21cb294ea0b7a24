"""What the words of a command alone tell to be wrong: refused before the libraries of models are loaded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attribune.core.wording import did_you_mean
from attribune.data.file_options import FORMATS
from attribune.errors import ConfigError, ModelFolderError

_RUNS = ("run_folder", "run_a", "others", "runs", "init_attributes", "continue_from")
_TABLES = ("data", "validation", "test", "check")
_WRITES_A_TABLE = ("predict", "generate")
_WRITES_A_PAGE = ("explain", "ablate", "report")


def refuse_early(options: argparse.Namespace) -> None:
    """Refuse runs and tables that are not there, and outputs that cannot be written.

    Raises:
        ModelFolderError: for a run.
        DataError: for a table.
        ConfigError: for an output.
    """
    for run in _given(options, _RUNS):
        name, _, folder = run.rpartition("=") if options.verb == "serve" else ("", "", run)
        if name or not run.startswith("="):  # of serve, which says how to write a name
            _require_run(folder if not Path(run).exists() else run)
    for table in _given(options, _TABLES):
        if not Path(table).exists():
            _require_table(table)
    output = getattr(options, "output", None)
    if output is not None and Path(output).suffix and options.verb in (*_WRITES_A_TABLE, *_WRITES_A_PAGE):
        _require_place(options, Path(output))


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[str]:
    """Yield what is given for these arguments, one or several."""
    for name in names:
        given: Any = getattr(options, name, None)
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str):
                yield one


def _require_run(run: str) -> None:
    path = Path(run)
    if path.exists():
        return
    beside = [one.name for one in path.parent.iterdir() if one.is_dir()] if path.parent.is_dir() else []
    near = did_you_mean(path.name, beside)
    raise ModelFolderError(f"{run}: there is no such folder{near}: name one that `attribune train` wrote")


def _require_table(table: str) -> None:
    from attribune.data.text_files import COMPRESSED, no_such_file

    # What has no such ending may be a name on the hub.
    if table.lower().endswith((*(f".{name}" for name in FORMATS), *COMPRESSED)):
        raise no_such_file(Path(table))


def _require_place(options: argparse.Namespace, output: Path) -> None:
    if options.verb in _WRITES_A_TABLE:
        from attribune.data.writing import check_output

        check_output(output, escape_formulas=getattr(options, "escape_formulas", False))
    if not output.parent.is_dir():
        raise ConfigError(f"{output} cannot be written: there is no folder {output.parent}; create it, or name another")
