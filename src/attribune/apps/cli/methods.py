"""List the methods, and the options of one.

List what --method can be: name, where the method acts, what of the backbone is trained by default.

Examples:
  attribune methods
  attribune methods injector
"""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import show

__all__ = ["add_parser"]

_BASELINE = "a baseline without a backbone"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "methods", __doc__, run=_run)
    parser.add_argument("name", nargs="?", metavar="METHOD", help="show this method and its options")


def _run(options: argparse.Namespace) -> None:
    from attribune.methods import METHODS, Combined, method_from_dict
    from attribune.runs.recipe import BASELINES

    if options.name in BASELINES:
        show(f"{options.name}: {_BASELINE}, without options")
        return
    if options.name is not None:
        settings = method_from_dict({"name": options.name})
        parts = settings.parts if isinstance(settings, Combined) else (settings,)
        for part in parts:
            prefix = "method" if len(parts) == 1 else f"method.{part.name}"
            lines = [(inspect.getdoc(type(part)) or "").replace("``", "`"), ""]
            lines += [f"--set {prefix}.{name}={_default(field)}" for name, field in type(part).model_fields.items()]
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


def _default(field: Any) -> str:
    """The default as one would write it after ``--set``."""
    import yaml

    return "..." if field.is_required() else yaml.safe_dump(field.default).splitlines()[0]


def _first_line(method: type) -> str:
    """The first sentence of the class's description."""
    paragraph = (inspect.getdoc(method) or "").split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())
