"""List the methods, and the options of one.

List the values of --method, with where each method acts and which part of the backbone is trained by default; or show
one method with its settings. With --all, the list has the methods that are there to reproduce the literature, too.

Examples:
  attribune methods
  attribune methods --all
  attribune methods injector
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import show, wrapped, wrapped_table

if TYPE_CHECKING:
    from attribune.methods import MethodConfig
    from attribune.models.baselines import BaselineConfig


_ARGUMENT = re.compile(r" {4}(\w+): (.*)")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "methods", __doc__, run=_run)
    parser.add_argument("--all", action="store_true", help="list those that reproduce the literature, too")
    parser.add_argument("name", nargs="?", metavar="METHOD", help="show this method and its options")


def _run(options: argparse.Namespace) -> None:
    from attribune.core.plugins import bundled_plugins
    from attribune.methods import METHODS
    from attribune.methods.recommended import RECOMMENDED
    from attribune.models.baselines import BASELINES

    if options.name is not None:
        _show_options([BASELINES[options.name]] if options.name in BASELINES else _parts(options.name))
        return
    lines = [["method", "acts at", "backbone", "what it does"]]
    others = {} if options.all else bundled_plugins("methods") | bundled_plugins("baselines")
    for name, config in METHODS.items():
        if name in others:
            continue
        note = "" if config.uses_attributes else " Reads no attributes."
        lines.append([name, ", ".join(config.points) or "-", config.default_tuning, f"{_first_line(config)}{note}"])
    lines += [
        [name, "baseline", "-", _first_line(baseline)] for name, baseline in BASELINES.items() if name not in others
    ]
    show(wrapped_table(lines))
    if others:
        known = ", ".join(name for name in others if name in METHODS or name in BASELINES)
        show("\n" + wrapped(f"`attribune methods --all` lists those that reproduce the literature, too: {known}."))
    show("\nWhich one?")
    show(wrapped_table([["--method", "use it when"], *RECOMMENDED]))
    show("\n" + wrapped("Methods can be added up where they do not act at the same point: --method a+b."))
    show(wrapped("`attribune methods METHOD` shows the settings of one."))


def _parts(name: str) -> list[type[MethodConfig]]:
    """Return the settings of a method, or of those that a sum consists of."""
    from attribune.methods import Combined, method_from_dict

    settings = method_from_dict({"name": name})
    return [type(part) for part in settings.parts] if isinstance(settings, Combined) else [type(settings)]


class Described(NamedTuple):
    """What settings say of themselves.

    Args:
        text: paragraphs on what the method does.
        facts: where it acts, what learns, and whether attributes are read; none for a baseline.
        options: name, default and meaning of each.
    """

    text: str
    facts: list[tuple[str, str]]
    options: list[tuple[str, str, str]]


def described(part: type[MethodConfig] | type[BaselineConfig]) -> Described:
    """Return what the settings of a method or baseline say of themselves."""
    from attribune.models.baselines import BaselineConfig

    text, meanings = _paragraphs_and_meanings(part)
    facts = []
    if not issubclass(part, BaselineConfig):
        reads = "read" if part.uses_attributes else "not read"
        acts = ", ".join(part.points) or "nowhere"
        facts = [("acts at", acts), ("backbone", f"{part.default_tuning} by default"), ("attributes", reads)]
    options = [(name, _default(field), meanings.get(name, "")) for name, field in part.model_fields.items()]
    return Described(text, facts, options)


def meanings_of(settings: type) -> dict[str, str]:
    """Return what each option means, as a class, those that it is of, or its method `fit` say under ``Args:``."""
    classes = [base for base in reversed(settings.__mro__) if vars(base).get("__doc__")]
    places = [*classes, *filter(None, [getattr(settings, "fit", None)])]
    meanings = [one for place in places for one in _paragraphs_and_meanings(place)[1].items()]
    return {name: words for name, words in meanings if not words.startswith("see `")}


def _paragraphs_and_meanings(settings: Any) -> tuple[str, dict[str, str]]:
    """Read a docstring: what stands above ``Args:``, and what it says of each."""
    text, _, arguments = (inspect.getdoc(settings) or "").replace("``", "`").partition("\nArgs:\n")
    meanings: dict[str, str] = {}
    for line in arguments.split("\n\n")[0].splitlines():
        if match := _ARGUMENT.match(line):
            name = match[1]
            meanings[name] = match[2]
        else:
            meanings[name] += f" {line.strip()}"
    return text.strip(), meanings


def _show_options(parts: Sequence[type[MethodConfig] | type[BaselineConfig]]) -> None:
    blocks = []
    for part in parts:
        prefix = "method" if len(parts) == 1 else f"method.{part.name}"
        text, facts, options = described(part)
        blocks.append(wrapped(text))
        if facts:
            blocks.append(wrapped_table(facts, has_head=False))
        if options:
            lines = [(f"{prefix}.{name}={default}", meaning) for name, default, meaning in options]
            blocks.append(wrapped_table([("--set, with the default", "meaning"), *lines]))
    show("\n\n".join(blocks))


def _default(field: Any) -> str:
    """The default as one would write it after ``--set``."""
    import yaml

    return "..." if field.is_required() else yaml.safe_dump(field.default, default_flow_style=True).splitlines()[0]


def _first_line(method: type) -> str:
    paragraph = (inspect.getdoc(method) or "").split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())
