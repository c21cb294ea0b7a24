"""The table of report.md: the codes of findings."""

from __future__ import annotations

import re

from attribune.findings import meanings
from pages.cells import table


def codes() -> list[str]:
    """Each code with what it means."""
    cells = [[f"`{code}`", text.replace("{", "`").replace("}", "`")] for code, text in _plain().items()]
    return table(["code", "meaning"], cells, words=range(2))


def _plain() -> dict[str, str]:
    """The meanings without how values are formatted."""
    return {code: re.sub(r"\{(\w+)[!:][^}]*\}", r"{\1}", text) for code, text in meanings().items()}


TABLES = {"report.md": {"findings": codes}}
