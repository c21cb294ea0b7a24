"""Results as a console and a notebook show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from attribune.core.terminal import printable
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.tables import format_difference, text_cells

__all__ = ["Comparisons", "ResultDict", "html_blocks", "html_table"]


def html_table(cells: Sequence[Sequence[str]]) -> str:
    """Render lines of cells, the header first, as an HTML table."""
    head, *lines = (
        "".join(f"<{tag}>{escape(printable(cell))}</{tag}>" for cell in line)
        for tag, line in zip(["th", *["td"] * (len(cells) - 1)], cells, strict=True)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_blocks(blocks: Sequence[tuple[str, Sequence[Sequence[str]]]]) -> str:
    """Render tables with their captions, one below the other; a block without cells is its caption alone."""
    return "".join(
        f"<p>{escape(printable(caption))}</p>{html_table(cells) if cells else ''}" for caption, cells in blocks
    )


class ResultDict(dict[str, Any]):
    """Plain values of results, which are printed as a table.

    Args:
        text: how they are printed.
        html: how a notebook shows them.
    """

    def __init__(self, values: dict[str, Any], *, text: str, html: str) -> None:
        super().__init__(values)
        self._text, self._html = text, html

    def __reduce__(self) -> tuple[Any, ...]:
        return _result_dict, (dict(self), self._text, self._html)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def _result_dict(values: dict[str, Any], text: str, html: str) -> ResultDict:
    return ResultDict(values, text=text, html=html)


class Comparisons(list[dict[str, Any]]):
    """Records of compared metrics, which are printed as a table.

    Attributes:
        notes: what is worth knowing about the comparison; printed below the table.
    """

    def __init__(self, records: Iterable[dict[str, Any]] = (), *, notes: Sequence[str] = ()) -> None:
        super().__init__(records)
        self.notes = list(notes)

    def _cells(self) -> list[list[str]]:
        lines = [["metric", "part", "difference", "p"]]
        for pair in self:
            result = PairedResult(**{name: pair[name] for name in PairedResult.__dataclass_fields__ if name in pair})
            lines.append(
                [pair["metric"], pair["part"], format_difference(pair["metric"], result), f"{pair['p_value']:.4f}"]
            )
        return lines

    def _caption(self) -> str:
        return f"{self[0]['a']} minus {self[0]['b']}" if self else "nothing compared"

    def __repr__(self) -> str:
        return "\n".join([printable(self._caption()), text_cells(self._cells(), left=2), *map(printable, self.notes)])

    def _repr_html_(self) -> str:
        return html_blocks([(self._caption(), self._cells()), *((note, []) for note in self.notes)])
