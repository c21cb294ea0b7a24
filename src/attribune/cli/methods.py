"""``attribune methods``: the methods there are, and their options."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import MISSING, Field, fields
from typing import Any

__all__ = ["add_parser"]

_BASELINE = "a baseline without a backbone"
_EXAMPLES = """examples:
  attribune methods
  attribune methods injector"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "methods",
        help="the methods there are, and their options",
        description="What --method can be: name, where the method acts, what of the backbone learns by default.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="METHOD", help="show this method and its options")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.output import show
    from attribune.methods import METHODS, Combined, method_from_dict
    from attribune.recipe import BASELINES

    if options.name in BASELINES:
        show(f"{options.name}: {_BASELINE}, without options")
        return
    if options.name is not None:
        settings = method_from_dict({"name": options.name})
        parts = settings.parts if isinstance(settings, Combined) else (settings,)
        for part in parts:
            prefix = "method" if len(parts) == 1 else f"method.{part.name}"
            lines = [(inspect.getdoc(type(part)) or "").replace("``", "`"), ""]
            lines += [f"--set {prefix}.{field.name}={_default(field)}" for field in fields(type(part))]
            show("\n".join(lines).rstrip() + ("\n" if part is not parts[-1] else ""))
        return
    width = max(len(name) for name in (*METHODS, *BASELINES))
    for name, config in METHODS.items():
        acts = ", ".join(config.points) or "nowhere"
        reads = "" if config.uses_attributes else "; reads no attributes"
        show(f"{name:{width}}  {_first_line(config)}")
        show(f"{'':{width}}  acts at: {acts}; backbone: {config.default_tuning}{reads}")
    for name in BASELINES:
        show(f"{name:{width}}  {_BASELINE}")
    show("\nMethods can be added up where they do not act at the same point: --method a+b")


def _default(field: Field[Any]) -> str:
    """The default as one would write it after ``--set``."""
    import yaml

    return "..." if field.default is MISSING else yaml.safe_dump(field.default).splitlines()[0]


def _first_line(method: type) -> str:
    """The first sentence of the class's description."""
    paragraph = (inspect.getdoc(method) or "").split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())
