"""The page that documents a service: Swagger UI without a network, light and dark, with names for screen readers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi_offline import FastAPIOffline
from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["documented_app"]

_ASSETS = "/static-offline-docs"  # of fastapi_offline
_TEMPLATES = Environment(
    loader=PackageLoader("attribune.apps.serve"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def documented_app(**options: Any) -> FastAPI:
    """Make an application with its page at ``/docs``; options are those of FastAPI."""
    app = FastAPIOffline(docs_url=None, **options)

    async def page(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        text = _TEMPLATES.get_template("docs.html.j2").render(
            title=app.title, assets=f"{root}{_ASSETS}", description=f"{root}{app.openapi_url}"
        )
        return HTMLResponse(text)

    app.get("/docs", include_in_schema=False)(page)
    return app
