"""The frame of every page: one file, nothing loaded from elsewhere, read on paper, on a screen and on a telephone."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from attribune.errors import ModelFolderError
from attribune.json_file import replace_file

__all__ = ["figure", "page", "section", "table", "write_page"]


def page(title: str, body: str) -> str:
    """The whole page around a body of HTML."""
    return _PAGE.format(title=html.escape(title), body=body)


def write_page(path: str | Path, text: str) -> Path:
    """Write a page; returns where it is.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    try:
        replace_file(Path(path), text.encode())
    except OSError as error:
        raise ModelFolderError(
            f"the page cannot be written to {path} ({error.strerror or error}): choose a folder that is there and that "
            "you may write to"
        ) from error
    return Path(path)


def section(
    title: str, sentences: Sequence[str], *, drawing: str = "", lines: Sequence[Sequence[str]] = (), note: str = ""
) -> str:
    """A part of a page: its title, what it says, a drawing, a table and how to read it."""
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    listed = f"<ul class=answers>{said}</ul>" if said else ""
    noted = f"<p class=note>{html.escape(note)}</p>" if note else ""
    parts = [f"<h2>{html.escape(title)}</h2>", listed, drawing, table(lines) if lines else "", noted]
    return "\n".join(part for part in parts if part)


def figure(svg: str, caption: str) -> str:
    """A drawing with what it shows."""
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first being the head, as HTML."""
    head, *rest = ([html.escape(cell) for cell in line] for line in lines)
    rows = [
        f'<tr><th scope="row">{first}</th>'
        + "".join(f'<td data-of="{of}">{cell}</td>' for of, cell in zip(head[1:], cells, strict=True))
        + "</tr>"
        for first, *cells in rest
    ]
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table>"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 0 auto; max-width: 60rem;
  padding: 1rem; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; }}
h2 {{ font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid #cbd2d9; padding-top: 1rem; }}
figure {{ margin: 1.5rem 0; }}
figure svg {{ width: 100%; height: auto; max-width: 36rem; display: block; }}
figcaption, .note {{ color: #52606d; font-size: .9rem; max-width: 44rem; }}
.answers li {{ margin: .4rem 0; max-width: 46rem; }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .5rem; text-align: right; border-bottom: 1px solid #e4e7eb; }}
th[scope=row], thead th:first-child {{ text-align: left; position: sticky; left: 0; background: #fff;
  font-weight: 400; }}
.interval {{ white-space: nowrap; color: #52606d; }}
tr.best th {{ font-weight: 700; }}
tr.worse th {{ font-style: italic; }}
tr.second th {{ text-decoration: underline; }}
@media (max-width: 46rem) {{
  table, tbody, tr, td, th[scope=row] {{ display: block; position: static; white-space: normal; text-align: left; }}
  thead {{ display: none; }}
  tr {{ border-bottom: 1px solid #9aa5b1; padding: .4rem 0; }}
  th[scope=row], td {{ border: 0; padding: .1rem 0; }}
  td:empty {{ display: none; }}
  td::before {{ content: attr(data-of) ": "; color: #52606d; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
