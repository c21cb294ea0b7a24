"""The page of errors shows the messages that the commands print."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from doc_pages import ROOT, blocks_of
from small_runs import reviews, write_csv

from attribune.apps.cli import main

PAGE = ROOT / "docs" / "troubleshooting.md"
TRAIN = "train reviews.csv --text text --label stars --attributes user --epochs 1 --no-baselines --output runs/stars"


@pytest.fixture
def broken_files(tables: Path) -> None:
    """The files of the page, and a run that is whole and one that is not."""
    text = (tables / "reviews.csv").read_text(encoding="utf-8")
    (tables / "semicolons.csv").write_text(re.sub(r",(?! )", ";", text), encoding="utf-8")
    (tables / "broken.csv").write_text(
        'text,stars,user\n"Good, really",good,u1\nBad, really,bad,u2\n', encoding="utf-8"
    )
    (tables / "latin.csv").write_bytes("text,stars,user\nA café,good,u1\n".encode("latin-1"))
    write_csv(tables / "few.csv", [{"text": row["text"], "stars": row["stars"], "user": "u1"} for row in reviews(2)])
    dates = [f"0{1 + number % 9}/0{1 + number // 9}/2024" for number in range(60)]
    rows = zip(reviews(60), dates, strict=True)
    write_csv(
        tables / "dates.csv", [{"text": r["text"], "stars": r["stars"], "user": "u1", "date": d} for r, d in rows]
    )
    write_csv(tables / "texts.csv", [{"text": row["text"]} for row in reviews(3)])
    assert main(TRAIN.split()) == 0
    shutil.copytree("runs/stars", "runs/damaged")
    Path("runs/damaged/model/schema.json").write_text("{}", encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
def test_messages_are_those_of_the_page(broken_files: None, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [block.code for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.language == "console"]
    assert len(shown) > 12
    for block in shown:
        command, _, message = block.partition("\n")
        capsys.readouterr()
        assert main(shlex.split(command.removeprefix("$ attribune "))) == 1, command
        printed = "".join(capsys.readouterr())
        assert message.strip() in printed, f"{command}\n{printed}"
