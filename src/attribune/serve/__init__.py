"""Serving: predictions of one or several runs over HTTP, with one copy of the backbone that they share."""

from attribune.serve.app import create_app
from attribune.serve.models import ServedModel, load_models
from attribune.serve.server import serve
from attribune.serve.settings import ServeSettings

__all__ = ["ServeSettings", "ServedModel", "create_app", "load_models", "serve"]
