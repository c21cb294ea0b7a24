"""The site of the documentation: it builds without a warning, holds every page, and fetches nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attribune import Injector

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

for name in ("material", "mkdocstrings", "math_core"):
    pytest.importorskip(name, reason=f"{name} is not installed: pip install 'attribune[docs]'")

ROOT = Path(__file__).parents[2]
FETCHED = r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*?\bhref=[\"']?(?:https?:)?//"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
    return folder


def test_every_page_is_there_and_nothing_else(site: Path) -> None:
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).with_suffix(".html").as_posix() for page in docs.glob("**/*.md")}
    added = {"404.html", "changelog.html"}
    assert {page.relative_to(site).as_posix() for page in site.glob("**/*.html")} == pages | added
    assert not list(site.glob("**/*.py"))


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert re.search(FETCHED, '<link href="https://fonts.googleapis.com/css">')
    for page in site.glob("**/*.html"):
        assert re.findall(FETCHED, page.read_text(encoding="utf-8")) == [], page.name
    for style in site.glob("**/*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_tables_lists_and_code_are_rendered(site: Path) -> None:
    """Readers of the site see no Markdown: what one dialect takes for a table or a list, the other must too."""
    for page in site.glob("**/*.html"):
        article = re.search(r"<article.*?</article>", page.read_text(encoding="utf-8"), re.DOTALL)
        if article is None:
            continue
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", article[0], flags=re.DOTALL)
        paragraphs = re.findall(r"<p>(.*?)</p>", text, re.DOTALL)
        for paragraph in paragraphs:
            assert "```" not in paragraph, page.name
            assert not re.search(r"^\s*(\||- |\d+\. |#+ )", paragraph, re.MULTILINE), f"{page.name}: {paragraph}"


def test_equations_are_rendered(site: Path) -> None:
    sources = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "methods").glob("*.md")}
    for name, source in sources.items():
        page = (site / "methods" / f"{name}.html").read_text(encoding="utf-8")
        assert page.count("<math ") == source.count("```math"), name
    assert "```math" in sources["injector"]


def test_the_api_pages_describe_public_names_with_types_and_defaults(site: Path) -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html")}
    assert 'id="attribune.train"' in pages["runs"]
    assert 'id="attribune.AttributeClassifier.fit"' in pages["estimators"], "an inherited method"
    assert 'id="attribune.functional.injector.phm_weight"' in pages["functional"]
    injector = re.sub(r"<[^>]+>", "", pages["methods"].partition('id="attribune.Injector"')[2])
    assert f"bottleneck: int = {Injector().bottleneck}," in injector, "a field of pydantic"
