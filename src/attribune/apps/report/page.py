"""The frame of every page: one file, nothing loaded from elsewhere, read on paper, on a screen and on a telephone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from attribune.core.files import replace_file, writing

_THEME = {
    "#1f2933": "ink",
    "#000000": "ink",
    "#9aa5b1": "grey",
    "#ffffff": "paper",
    "#e4e7eb": "line",
    "#1864ab": "blue",
    "#d9480f": "orange",
    "#2b8a3e": "green",
    "#862e9c": "violet",
    "#5c940d": "lime",
    "#0b7285": "cyan",
}
"""The colours of `plots`, and the variables of ``style.css`` that replace them, so that they follow the reader's."""
_NARROW, _FEW = 4, 2  # columns of a small table, and sentences beside it
_COLOUR = re.compile("|".join(_THEME))
_NUMBERED_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')  # of parts of a drawing, which every drawing has


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing as SVG text, and a caption that says what it shows."""

    svg: str
    caption: str

    @property
    def drawing(self) -> Markup:
        """The drawing in the colours of the page; its caption is what is read out in its place."""
        text = _NUMBERED_ID.sub("", self.svg).replace('role="img"', 'aria-hidden="true"', 1)
        return Markup(_COLOUR.sub(lambda found: f"var(--{_THEME[found[0]]}, {found[0]})", text))


@dataclass(frozen=True, kw_only=True)
class QuestionAndAnswer:
    """A question about a run with its answer.

    Args:
        answer: in a word or two, as a label; empty if there is none.
        tone: whether the answer is good or bad news, for the colour of its label.
        sentences: the answer with its figures.
    """

    question: str
    answer: str = ""
    tone: str = ""
    sentences: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Example:
    """A text with what is known of it, by name."""

    text: str
    facts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MarkedText:
    """A text of which each word has a weight, from -1 to 1, that shades it."""

    title: str
    words: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page: findings, drawings and a table, with notes on how to read it.

    Args:
        undecided: sentences that show no difference; they are folded away.
        table: lines of cells, the head first, or HTML.
        notes: how to read the section.
    """

    title: str
    answers: Sequence[QuestionAndAnswer] = ()
    sentences: Sequence[str] = ()
    undecided: Sequence[str] = ()
    marked_texts: Sequence[MarkedText] = ()
    figures: Sequence[Figure] = ()
    table: Sequence[Sequence[str]] | Markup = ()
    examples: Sequence[Example] = ()
    notes: Sequence[str] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether it is one drawing or one small table, of which two fit side by side on a wide screen."""
        if self.answers or self.marked_texts or self.examples or isinstance(self.table, Markup):
            return False
        if self.undecided or len(self.sentences) > _FEW:
            return False
        return len(self.figures) + bool(self.table) == 1 and all(len(line) <= _NARROW for line in self.table)


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What a page is about.

    Args:
        kind: of the page.
        headline: what it shows, in a sentence or two.
        facts: where the figures come from, by name.
    """

    title: str
    kind: str
    headline: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def render_page(heading: Heading, sections: Iterable[Section], *, notes: Sequence[str] = ()) -> str:
    """Render a page with its plots inside; the notes come last."""
    parts = list(sections)
    placed = list(zip(_anchors(parts), _halves(parts), parts, strict=True))
    return _template().render(heading=heading, parts=placed, notes=notes)


def _halves(sections: Sequence[Section]) -> list[bool]:
    """Return whether each section is beside another narrow one: the next, or the one before."""
    halves: list[bool] = []
    for number, section in enumerate(sections):
        is_pair = section.is_narrow and number + 1 < len(sections) and sections[number + 1].is_narrow
        if len(halves) == number:
            halves += [True, True] if is_pair else [False]
    return halves


def shown_time(finished: str) -> str:
    """Return a time such as ``2026-11-25T22:14:03Z`` as a reader has it, to the minute."""
    return re.sub(r":\d\dZ$", " UTC", finished).replace("T", ", ", 1)


def _anchors(sections: Sequence[Section]) -> list[str]:
    """Return a different name for each section, which a link can have."""
    anchors: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "part"
        anchors.append(f"{name}-{number}" if name in (*anchors, "content") else name)
    return anchors


def write_page(path: str | Path, page: str) -> Path:
    """Write a page and return its path.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    with writing(f"the page cannot be written to {path}"):
        replace_file(Path(path), page.encode())
    return Path(path)


def _with_code(sentence: str) -> Markup:
    """Return a sentence as HTML, with what is between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.loader = PackageLoader("attribune.apps.report")
    environment.filters["with_code"] = _with_code
    return environment.get_template("page.html.j2")
