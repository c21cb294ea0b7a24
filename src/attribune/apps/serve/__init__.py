"""Serving: predictions of one or several runs over HTTP, with one copy of the backbone that they share."""

from attribune.apps.serve.app import create_app
from attribune.apps.serve.models import RunLoader, ServedModel, load_models, named_runs
from attribune.apps.serve.server import serve
from attribune.apps.serve.settings import ServeSettings

__all__ = [
    "RunLoader",
    "ServeSettings",
    "ServedModel",
    "create_app",
    "load_models",
    "named_runs",
    "serve",
]
