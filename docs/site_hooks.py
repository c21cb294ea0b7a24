"""What the site adds to the pages: rendered equations, and the changelog.

mkdocs calls the functions by name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from math_core import LatexToMathML
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_LATEX = LatexToMathML()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Render the blocks marked `math`, which GitHub renders as well, to MathML when the site is built."""
    fences = {"name": "math", "class": "math", "format": equation}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fences]}
    return config


def equation(source: str, *_: Any, **__: Any) -> str:
    """Return an equation in LaTeX as MathML, which browsers show without a script."""
    return f'<div class="math">{_LATEX.convert_with_local_state(source, displaystyle=True)}</div>'


def on_post_page(output: str, **_: Any) -> str:
    """Name the search for screen readers."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="search"')


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the changelog, which has its place beside the README."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    content = re.sub(r"\]\(docs/", "](", text)
    files.append(File.generated(config, "changelog.md", content=content))
    return files
