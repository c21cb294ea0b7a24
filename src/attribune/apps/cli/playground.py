"""Try a run in the browser: texts, values, and what the values change.

Open a page that only this machine can reach. It shows the prediction for a text with and without each attribute, two
values side by side, a panel of all values, a map of the values' vectors coloured by their mean label, and a search for
values. Nothing is loaded from elsewhere and nothing is sent away.

Examples:
  attribune playground runs/stars
  attribune playground runs/stars --port 7861
"""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import open_console
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "playground", __doc__, run=_run)
    add_shared(parser, "run_folder")
    parser.add_argument("--port", type=int, default=7860, metavar="N", help="port; 0 takes a free one (default: 7860)")
    add_shared(parser, "--backbone")


def _run(options: argparse.Namespace) -> None:
    if find_spec("gradio") is None:
        raise ConfigError("attribune playground needs gradio: pip install 'attribune[playground]'")
    if not 0 <= options.port < 2**16:
        raise ConfigError(f"--port {options.port}: give a number from 0 to 65,535")
    for name in [name for name in os.environ if name.startswith("GRADIO_")]:
        del os.environ[name]  # settings of other pages: files to serve, a tunnel to this machine, another root
    os.environ["GRADIO_ANALYTICS_ENABLED"] = os.environ["GRADIO_RUN_HISTORY"] = "False"
    from attribune.apps.playground.page import launch
    from attribune.apps.playground.session import Session

    console = open_console()
    session = Session.open(options.run_folder, backbone=options.backbone)
    console.notes(session.notes)
    title = f"Attribune: {Path(options.run_folder).resolve().name}"
    page, address = launch(session, title=title, port=options.port)
    console.note(f"the playground is at {address}; press Ctrl-C to stop")
    try:
        while page.is_running:
            sleep(0.2)  # gradio's own waiting takes Ctrl-C for an end as it should be
    finally:
        page.close(verbose=False)
