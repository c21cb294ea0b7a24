"""What the verbs share: how one is added, and arguments that several have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from attribune.apps.cli.parser import VerbParser
from attribune.core.flags import FLAGS, argument_of, as_flag
from attribune.data.file_options import FileOptions
from attribune.errors import ConfigError

Run = Callable[[argparse.Namespace], None]

SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
"""Options of a flag that takes several words, and may be repeated."""
_SHARED: dict[str, dict[str, Any]] = {
    "run_folder": {"metavar": "RUN", "help": "folder that `attribune train` wrote, or its model"},
    "data": {"metavar": "DATA", "help": "CSV, JSON, Parquet, Arrow or Excel file, - for stdin, or a name on the hub"},
    "labelled_data": {
        "dest": "data",
        "nargs": "?",
        "metavar": "DATA",
        "help": "labelled rows: a table, - for stdin, or a name on the hub (default: the run's own test rows)",
    },
    "--backbone": {"metavar": "NAME_OR_DIR", "help": "where the backbone's weights are now (default: as recorded)"},
    "--quantise": {"choices": ("int8",), "help": "compute in int8 on CPUs: faster, and close to float32"},
    "--attribute": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "value for every text; repeat the name for several values",
    },
    "--json": {"action": "store_true", "help": "write JSON to stdout"},
}
"""Arguments that several verbs have, with their options."""


def add_verb(
    verbs: Any,
    name: str,
    doc: str | None,
    *,
    run: Run | None = None,
    after_interrupt: str | Callable[[argparse.Namespace], str] = "",
) -> VerbParser:
    """Add a verb, or an action of a verb, and return its parser.

    Args:
        doc: its help in paragraphs: one sentence for the list of verbs; then, for a help page of its own, a description
            and examples, each on a line of its own.
        run: None for a verb that has actions.
        after_interrupt: what follows "interrupted" after Ctrl-C, with options in braces, or a function of the options.
    """
    summary, *rest = (doc or "").strip().split("\n\n", 2)
    description, examples = (*rest, None, None)[:2]
    parser: VerbParser = verbs.add_parser(
        name,
        help=_lower_first(summary.rstrip(".")),
        description=" ".join(description.split()) if description else None,
        epilog=_lower_first(examples) if examples else None,
    )
    if run is not None:
        parser.set_defaults(run=run, after_interrupt=after_interrupt)
    return parser


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def add_shared(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add arguments that several verbs have; `changes` override their options."""
    for name in names:
        options = _SHARED[name] | changes
        parser.add_argument(options.pop("dest", name), **options)


def add_setting(parser: argparse._ActionsContainer, path: str) -> None:
    """Add the flag that a setting has in a training, and its opposite where it has one."""
    flag, argument = FLAGS[path], argument_of(path)
    if flag.default is False:
        words: dict[str, Any] = {"action": "store_true", "default": None}
    else:
        words = {"type": flag.type, "metavar": flag.metavar, **(SEVERAL if flag.several else {})}
    name = flag.flag or as_flag(argument)
    if flag.off is not None:
        parser = parser.add_mutually_exclusive_group()
    parser.add_argument(name, dest=argument, help=flag.help, **words)
    if flag.off is not None:
        opposite: dict[str, Any] = {"action": "store_const", "const": flag.off}
        opposite["help"] = f"the same as {name} {flag.off}"
        parser.add_argument(f"--no-{name.removeprefix('--')}", dest=argument, **opposite)


def add_reading(parser: argparse._ActionsContainer, *, has_rows: bool = True) -> None:
    """Add the flags that say how files are read; without ``--rows`` to a verb that has such a flag of its own."""
    flags = {flag: words for flag, words in FileOptions.flags().items() if has_rows or flag != "--rows"}
    names = [parser.add_argument(flag, **words).dest for flag, words in flags.items()]
    parser.set_defaults(reading=names)


def reading_of(options: argparse.Namespace) -> FileOptions:
    """Return how files are read, as these flags say."""
    given = {name: getattr(options, name) for name in options.reading}
    if given["quoting"] is not None:
        given["quoting"] = given["quoting"] == "double"
    return FileOptions(**given)


def table_of(options: argparse.Namespace, flag: str = "data") -> Any:
    """Return DATA, or the table of a flag, with how it is read if any of these flags is given.

    Raises:
        ConfigError: if they are given, and no table.
    """
    table, reading = getattr(options, flag), reading_of(options)
    if (given := list(reading.words())) and table is None:
        name = "DATA" if flag == "data" else f"--{flag}"
        raise ConfigError(
            f"{given[0]} says how a table is read, and there is none: add {name}, or leave {given[0]} out"
        )
    if not given:
        return table
    from attribune.data.tables import TableFile

    return TableFile(table, reading)


def paths_by_name(words: Sequence[str], *, form: str, flag: str = "") -> dict[str, str]:
    """Read words such as ``user=users.csv``: a path by name.

    Args:
        words: to read.
        form: of a word, with an example.
        flag: whose words they are, with a space; empty for a positional argument.

    Raises:
        ConfigError: for a word of another form, or two paths of a name.
    """
    paths: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise ConfigError(f"{flag}{word}: write {form}")
        if name in paths:
            raise ConfigError(f"{flag}{word}: {name} has {paths[name]} already: name one")
        paths[name] = path
    return paths


def attribute_values(words: Sequence[str]) -> dict[str, Any]:
    """Read the words of ``--attribute`` such as ``user=u17``: a value by attribute, or a list of values."""
    values: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"--attribute {word}: write NAME=VALUE, such as user=u17")
        values.setdefault(name, []).append(value)
    return {name: listed[0] if len(listed) == 1 else listed for name, listed in values.items()}
