"""List the methods, and the options of one.

List what --method can be: name, where the method acts, what of the backbone is trained by default.

Examples:
  attribune methods
  attribune methods injector
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import show

if TYPE_CHECKING:
    from attribune.methods import MethodConfig
    from attribune.models.baselines import BaselineConfig

__all__ = ["add_parser"]


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "methods", __doc__, run=_run)
    parser.add_argument("name", nargs="?", metavar="METHOD", help="show this method and its options")


def _run(options: argparse.Namespace) -> None:
    from attribune.methods import METHODS
    from attribune.models.baselines import BASELINES

    if options.name is not None:
        _show_options([BASELINES[options.name]] if options.name in BASELINES else _parts(options.name))
        return
    width = max(len(name) for name in (*METHODS, *BASELINES))
    for name, config in METHODS.items():
        acts = ", ".join(config.points) or "nowhere"
        reads = "" if config.uses_attributes else "; reads no attributes"
        show(f"{name:{width}}  {_first_line(config)}")
        show(f"{'':{width}}  acts at: {acts}; backbone: {config.default_tuning}{reads}")
    for name, baseline in BASELINES.items():
        show(f"{name:{width}}  {_first_line(baseline)}")
        show(f"{'':{width}}  a baseline without a backbone")
    show("\nMethods can be added up where they do not act at the same point: --method a+b")


def _parts(name: str) -> list[type[MethodConfig]]:
    """Return the settings of a method, or of those that a sum consists of."""
    from attribune.methods import Combined, method_from_dict

    settings = method_from_dict({"name": name})
    return [type(part) for part in settings.parts] if isinstance(settings, Combined) else [type(settings)]


def _show_options(parts: Sequence[type[MethodConfig] | type[BaselineConfig]]) -> None:
    """Show what methods do, and their options with the defaults."""
    for part in parts:
        prefix = "method" if len(parts) == 1 else f"method.{part.name}"
        lines = [(inspect.getdoc(part) or "").replace("``", "`"), ""]
        lines += [f"--set {prefix}.{name}={_default(field)}" for name, field in part.model_fields.items()]
        show("\n".join(lines).rstrip() + ("\n" if part is not parts[-1] else ""))


def _default(field: Any) -> str:
    """The default as one would write it after ``--set``."""
    import yaml

    return "..." if field.is_required() else yaml.safe_dump(field.default, default_flow_style=True).splitlines()[0]


def _first_line(method: type) -> str:
    """The first sentence of the class's description."""
    paragraph = (inspect.getdoc(method) or "").split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())
