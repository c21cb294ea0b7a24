"""Findings: every code that is used has a sentence, and every sentence is used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import attribune
from attribune.findings import CODES, Finding, meanings, said

SENTENCES = Path(attribune.__file__).parent / "findings"
SOURCES = sorted(Path(attribune.__file__).parent.rglob("*.py"))
CODE = re.compile(r'"([a-z]+(?:-[a-z]+)+)"')
MADE = re.compile(r'\bFinding(?:\.of)?\(\s*"([^"]+)"')


def test_every_code_has_a_sentence_and_every_sentence_is_used() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES if path.parent != SENTENCES}
    assert {code for text in texts.values() for code in MADE.findall(text)} <= set(CODES)
    named = {code for text in texts.values() for code in CODE.findall(text)}
    assert set(CODES) <= named, "sentences that nothing says"


def test_a_code_without_a_sentence_is_an_error() -> None:
    with pytest.raises(KeyError, match="no-such-code"):
        said(Finding("no-such-code"))


def test_every_code_has_a_meaning() -> None:
    assert list(meanings()) == list(CODES)
    assert all(text and text != "None" for text in meanings().values())


def test_a_finding_is_said_from_what_a_file_has_of_it() -> None:
    finding = Finding.of("leave-out", attributes=["user", "film"])
    read = json.loads(json.dumps(finding.to_dict()))
    assert read == {
        "code": "leave-out",
        "values": {"attributes": ["user", "film"]},
        "text": "What to do first: leave out user, film, and train again.",
    }
    assert Finding(read["code"], read["values"]).text == read["text"]
