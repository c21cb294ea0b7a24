"""``attribune playground``: a page in the browser to try a run."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attribune.cli.arguments import add_places, add_run
from attribune.errors import ConfigError

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune playground runs/stars
  attribune playground runs/stars --port 7861"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "playground",
        help="try a run in the browser: texts, values, and what the values change",
        description="Opens a page for this machine alone: the prediction of a text with and without each attribute, "
        "two values side by side, a map of the values' vectors coloured by their mean label, and a search for values. "
        "Nothing is loaded from elsewhere and nothing is sent away.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    parser.add_argument("--port", type=int, default=7860, metavar="N", help="0 takes a free one (default: 7860)")
    add_places(parser, encoding=False)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    if find_spec("gradio") is None:
        raise ConfigError("attribune playground needs gradio: pip install 'attribune[playground]'")
    if not 0 <= options.port < 2**16:
        raise ConfigError(f"--port {options.port}: give a number from 0 to 65,535")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.playground.page import launch
    from attribune.playground.session import Session

    quiet_libraries()
    reporter = ConsoleReporter()
    session = Session.open(options.run_folder, backbone=options.backbone)
    for note in session.notes:
        reporter.note(note)
    title = f"Attribune: {Path(options.run_folder).resolve().name}"
    page, address = launch(session, title=title, port=options.port)
    reporter.note(f"the playground is at {address}; Ctrl-C stops")
    page.block_thread()
