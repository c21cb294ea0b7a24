"""A reporter that keeps what is said."""

from __future__ import annotations

from attribune.core.progress import Reporter


class Notes(Reporter):
    """Keeps the notes as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)
