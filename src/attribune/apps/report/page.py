"""The frame of every page: one file, nothing loaded from elsewhere, read on paper, on a screen and on a telephone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from attribune.core.files import replace_file
from attribune.errors import ModelFolderError

__all__ = ["Figure", "Section", "render_page", "write_page"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing as SVG text, and a caption that says what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page: findings, drawings and a table, with notes on how to read it.

    Args:
        table: lines of cells, the head first, or HTML.
    """

    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    table: Sequence[Sequence[str]] | Markup = ()
    notes: Sequence[str] = ()


def render_page(title: str, sections: Iterable[Section], *, introduction: str = "", notes: Sequence[str] = ()) -> str:
    """Render a page, with its plots inside; the introduction stands before the sections, the notes after them."""
    return _template().render(title=title, sections=list(sections), introduction=introduction, notes=notes)


def write_page(path: str | Path, page: str) -> Path:
    """Write a page and return its path.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    try:
        replace_file(Path(path), page.encode())
    except OSError as error:
        raise ModelFolderError(
            f"the page cannot be written to {path} ({error.strerror or error}): choose a folder that is there and that "
            "you may write to"
        ) from error
    return Path(path)


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.loader = PackageLoader("attribune.apps.report")
    return environment.get_template("page.html.j2")
