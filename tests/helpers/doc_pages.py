"""The pages of the documentation as blocks of code that run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attribune.apps.cli import main
from attribune.backbones.int8 import has_int8

ROOT = Path(__file__).parents[2]
RUN = ("python", "bash", "sh")
IN_INT8 = r'(predict|evaluate|generate|serve) .*--quantise int8|quantise="int8"'
"""What processors without instructions for int8 refuse."""


class Block(NamedTuple):
    line: int
    language: str
    code: str


def blocks_of(text: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(text[: match.start()].count("\n") + 2, match[1], match[2]) for match in found]


def run_block(block: Block, *, page: str, namespace: dict[str, Any]) -> None:
    if block.language == "python":
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, page, "exec", dont_inherit=True), namespace)
        return
    if block.language == "sh":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where `attribune` is
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code], check=True, timeout=120, env=os.environ | {"PATH": path}
        )
        return
    for number, line in enumerate(block.code.replace("\\\n", "").splitlines(), start=block.line):
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "attribune", f"{page}, line {number}: mark what is no attribune command as console"
            assert main(words[1:]) == 0, f"{page}, line {number}: {line}"


def run_page(page: Path, *, replacing: Mapping[str, str] | None = None) -> None:
    """Run the blocks of a page, one after the other, with one set of Python variables.

    Blocks that this processor has no instructions for are passed over.

    Args:
        replacing: what runs in place of what the page shows, such as fewer rows; everything named must be there.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    for shown, run in (replacing or {}).items():
        assert shown in text, f"{page.name} does not have {shown!r}"
        text = text.replace(shown, run)
    for block in blocks_of(text):
        if block.language in RUN and (has_int8() or not re.search(IN_INT8, block.code)):
            run_block(block, page=page.name, namespace=namespace)
