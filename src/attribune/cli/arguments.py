"""Arguments that several verbs have, said in the same words."""

from __future__ import annotations

import argparse

__all__ = ["add_places", "add_run", "add_table"]


def add_run(parser: argparse.ArgumentParser, *, rest: str = "") -> None:
    """Add RUN, a finished run; ``rest`` follows in its help."""
    parser.add_argument("run_folder", metavar="RUN", help=f"folder that `attribune train` wrote{rest}")


def add_table(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add DATA, a table."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?" if optional else None,
        help="CSV, TSV, JSONL or Parquet file, or a name on the hub",
    )


def add_places(parser: argparse.ArgumentParser, *, encoding: bool = True) -> None:
    """Add where the backbone is now, and with `encoding` how the table is encoded."""
    parser.add_argument("--backbone", metavar="NAME_OR_DIR", help="where the backbone's weights are now")
    if encoding:
        parser.add_argument("--encoding", help="of the table; found out unless given")
