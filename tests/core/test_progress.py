"""What a reporter shows where no command shows it."""

from __future__ import annotations

import logging

import pytest

from attribune.core.logs import LOGGER
from attribune.core.progress import ProgressBar, Reporter


def test_the_bar_of_python_shows_notes_and_the_plain_reporter_none(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, level = list(logging.getLogger().handlers), LOGGER.level
    logging.getLogger().handlers = []  # those of pytest show the log
    try:
        Reporter().note("3 rows without a text left out")
        assert capsys.readouterr().err == ""
        ProgressBar().note("3 rows without a text left out")
        assert capsys.readouterr().err == "3 rows without a text left out\n"
        LOGGER.setLevel(logging.ERROR)
        ProgressBar().note("3 rows without a text left out")
        assert capsys.readouterr().err == ""
    finally:
        logging.getLogger().handlers = handlers
        LOGGER.setLevel(level)
