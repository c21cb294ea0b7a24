"""The check of pages finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest

BAD = "<!doctype html><html lang=en><title>x</title><main><h1>x</h1>{}</main>"


@pytest.mark.slow
@pytest.mark.exhaustive
@browser.needs_browser
@pytest.mark.parametrize(
    ("part", "rule"),
    [
        ("<p style='color:#ccc;background:#fff'>pale</p>", "color-contrast"),
        ("<img src='data:,'>", "image-alt"),
        ("<input>", "label"),
        ("<div style='width:2000px'>wide</div>", "it is 2"),
    ],
)
def test_a_bad_page_is_found(part: str, rule: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(BAD.format(part), encoding="utf-8")
    found = browser.page_findings(page, tmp_path / "profiles")
    assert any(rule in one for one in found)
