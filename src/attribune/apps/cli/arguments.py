"""What the verbs share: how one is added, arguments that several have, and flags that have been renamed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from attribune.core.deprecation import warn_renamed

__all__ = [
    "add_backbone",
    "add_encoding",
    "add_json",
    "add_renamed_flag",
    "add_run",
    "add_table",
    "add_verb",
    "warn_of_renamed_flags",
]

Run = Callable[[argparse.Namespace], None]


def add_verb(
    verbs: Any,
    name: str,
    *,
    help: str,  # noqa: A002 - as argparse calls it
    description: str | None = None,
    examples: str | None = None,
    run: Run | None = None,
    after_interrupt: str | Callable[[argparse.Namespace], str] = "",
) -> argparse.ArgumentParser:
    """Add a verb, or an action of a verb, and return its parser.

    Args:
        verbs: what ``add_subparsers`` returned.
        name: as it is typed.
        help: its line in the list of verbs.
        description: the first paragraph of its own help.
        examples: the last paragraph of its own help, printed as it is.
        run: what it does; None for a verb that has actions.
        after_interrupt: what "interrupted" is followed by after Ctrl-C.
    """
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter,
    )
    if run is not None:
        after = (lambda _: after_interrupt) if isinstance(after_interrupt, str) else after_interrupt
        parser.set_defaults(run=run, after_interrupt=after)
    return parser


def add_run(parser: argparse.ArgumentParser, *, suffix: str = "") -> None:
    """Add RUN, a finished run; the suffix ends its help."""
    parser.add_argument("run_folder", metavar="RUN", help=f"folder that `attribune train` wrote{suffix}")


def add_table(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add DATA, a table."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?" if optional else None,
        help="CSV, TSV, JSONL or Parquet file, or a name on the hub",
    )


def add_backbone(parser: argparse.ArgumentParser) -> None:
    """Add where the backbone's weights are now."""
    parser.add_argument("--backbone", metavar="NAME_OR_DIR", help="where the backbone's weights are now")


def add_encoding(parser: argparse.ArgumentParser) -> None:
    """Add the encoding of the table."""
    parser.add_argument("--encoding", help="encoding of the table; detected unless given")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the choice of JSON in place of text."""
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")


def add_renamed_flag(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Accept a flag by its old name as well, for one release: hidden, and with a warning.

    Args:
        parser: that has the flag.
        old: such as ``--recipe``.
        new: such as ``--preset``.
    """
    parser.add_argument(old, action=_RenamedFlag, renamed=parser._option_string_actions[new])


class _RenamedFlag(argparse.Action):
    """Does what another flag does, and notes that it was given by its old name."""

    def __init__(self, option_strings: list[str], dest: str, *, renamed: argparse.Action, **_: Any) -> None:
        super().__init__(
            option_strings,
            dest=renamed.dest,
            nargs=renamed.nargs,
            type=renamed.type,  # type: ignore[arg-type] # typeshed reads more than it takes
            choices=renamed.choices,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
        self._renamed = renamed

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        self._renamed(parser, namespace, values, option_string)
        namespace.renamed_flags = [
            *getattr(namespace, "renamed_flags", ()),
            (option_string, self._renamed.option_strings[-1]),
        ]


def warn_of_renamed_flags(options: argparse.Namespace) -> None:
    """Warn of every flag that was given by its old name."""
    for old, new in getattr(options, "renamed_flags", ()):
        warn_renamed(old, new)
