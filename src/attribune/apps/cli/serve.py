r"""Serve predictions over HTTP.

Answer POST /v1/predict with the predictions of one or several runs; runs over one backbone share its weights. Runs of
the task generation write texts in the form of OpenAI's API. /docs describes the requests, /v1/models lists the models,
and /metrics has metrics for Prometheus. On SIGHUP the runs are loaded again; the old ones answer until that is done.

Examples:
  attribune serve runs/stars
  attribune serve runs/stars --enrol
  attribune serve stars=runs/stars verdict=runs/verdict --port 8000
  ATTRIBUNE_SERVE_KEYS=$(openssl rand -hex 16) attribune serve runs/stars --host 0.0.0.0
  curl localhost:8000/v1/predict -H 'content-type: application/json' \
    -d '{"text": "A joy from start to end.", "attributes": {"user": "u17"}}'
"""

from __future__ import annotations

import argparse
import signal
from importlib.util import find_spec
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import open_console
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "serve", __doc__, run=_run, after_interrupt="; all requests were answered")
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="run folder that `attribune train` wrote, or NAME=FOLDER")
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)")
    add("--port", type=int, default=8000, metavar="N", help="port; 0 takes a free one (default: 8000)")
    add("--backbone", metavar="NAME_OR_DIR", help="where the backbones' weights are now")
    add("--dtype", default="float32", help="dtype of the backbones' weights: float32, or bfloat16 for half the memory")
    add_shared(parser, "--quantise")
    add("--max-rows", type=int, metavar="N", help="maximum number of texts per request (default: 256)")
    add("--max-text-length", type=int, metavar="N", help="maximum number of characters per text (default: 100,000)")
    add("--max-body-mb", type=float, metavar="MB", help="maximum size of a request body (default: 8)")
    add("--max-new-tokens", type=int, metavar="N", help="maximum number of tokens written per text (default: 1,024)")
    add("--max-queue-size", type=int, metavar="N", help="maximum number of waiting texts (default: 2,048)")
    add("--max-connections", type=int, metavar="N", help="maximum number of requests answered at once (default: 512)")
    add("--timeout", type=float, metavar="SECONDS", help="maximum time per request (default: 30)")
    add("--enrol", action="store_true", default=None, help="let requests add values to the runs, and remove them")
    add(
        "--hide-unknown",
        action="store_true",
        default=None,
        help="leave out of answers which values a model does not know, and out of examples those that it knows",
    )
    add("--access-log", action="store_true", default=None, help="write a line for each request, without its content")
    add(
        "--allowed-hosts",
        nargs="+",
        metavar="NAME",
        help="host names that requests may use, such as example.org (default: on 127.0.0.1 its own names, else any)",
    )


def _run(options: argparse.Namespace) -> None:
    try:
        _serve(options)
    except KeyboardInterrupt:  # from here on the thread of the models alone is waited for
        from attribune.apps.serve.server import end_at_once

        signal.signal(signal.SIGINT, end_at_once)
        raise


def _serve(options: argparse.Namespace) -> None:
    if any(find_spec(name) is None for name in ("fastapi", "fastapi_offline", "uvicorn", "prometheus_client")):
        raise ConfigError("attribune serve needs packages of its own: pip install 'attribune[serve]'")
    from attribune.apps.serve import RunLoader, ServeSettings, named_runs, serve
    from attribune.apps.serve.settings import Keys

    if not 0 <= options.port < 2**16:
        raise ConfigError(f"--port {options.port}: give a number from 0 to 65,535")
    flags = {name: getattr(options, name) for name in ServeSettings.model_fields}
    settings = ServeSettings.from_dict({name: value for name, value in flags.items() if value is not None})
    Keys.of_environment(options.host, enrol=settings.enrol)  # before a large model is loaded
    console = open_console()
    loader = RunLoader(
        sources=named_runs(options.runs),
        backbone=options.backbone,
        dtype=options.dtype,
        quantise=options.quantise,
        enrol=settings.enrol,
    )
    serve(loader, host=options.host, port=options.port, settings=settings, say=console.note)
