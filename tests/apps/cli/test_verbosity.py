"""What goes to stderr: by default, with flags, by the variable; the library itself says nothing."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import small_runs
import transformers
from commands import Outcome

from attribune import Recipe, train
from attribune.apps.cli import build_parser
from attribune.apps.cli.verbosity import level_of
from attribune.core.logs import EVENT, LOGGER, VARIABLE, logging_to_stderr
from attribune.core.progress import quiet_libraries
from attribune.errors import AttribuneWarning

Words = list[str]
Run = Callable[..., Outcome]
slow = pytest.mark.slow
warned = pytest.mark.filterwarnings("default::attribune.AttribuneWarning")


@pytest.fixture
def words(tmp_path: Path) -> Words:
    """A training with notes, and with a warning: a byte of the file is in no encoding."""
    rows = small_runs.reviews(60)
    data = small_runs.write_csv(tmp_path / "data.csv", rows)
    data.write_bytes(data.read_bytes().replace(b"text,", b"text\x81\xe9,", 1))
    words = small_runs.train_command(data, tmp_path / "run", backbone="unused", method="linear")
    return ["text\x81é" if word == "text" else word for word in words]


def leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of all verbs, and of their verbs."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [parser, *(leaf for action in below for verb in action.choices.values() for leaf in leaves(verb))]


def test_every_verb_has_the_flags() -> None:
    parsers = leaves(build_parser())
    assert len(parsers) > 20
    for parser in parsers:
        assert {"--verbose", "--quiet"} <= set(parser._option_string_actions), parser.prog


@pytest.mark.parametrize(
    ("given", "variable", "level"),
    [
        ([], None, logging.WARNING),
        (["-v"], None, logging.INFO),
        (["-vv"], None, logging.DEBUG),
        (["-q"], None, logging.ERROR),
        ([], "INFO", logging.INFO),
        ([], "", logging.WARNING),
        (["-q"], "debug", logging.ERROR),
        (["-v"], "error", logging.INFO),
    ],
)
@pytest.mark.parametrize("before_the_verb", [True, False])
def test_levels(
    given: Words, variable: str | None, level: int, before_the_verb: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    words = [*given, "methods", "none"] if before_the_verb else ["methods", "none", *given]
    assert level_of(build_parser().parse_args(words)) == level


def test_a_wrong_level_is_refused(monkeypatch: pytest.MonkeyPatch, fails: Callable[..., str]) -> None:
    monkeypatch.setenv(VARIABLE, "loud")
    assert "ATTRIBUNE_LOG is 'loud': set it to error, warning, info, debug" in fails("methods", "none")
    fails("methods", "none", "-v", "-q", code=2)


@slow
@warned
def test_quiet_leaves_results_and_errors(words: Words, attribune: Run) -> None:
    code, out, err = attribune(*words, "--quiet")
    assert (code, out.startswith("validation, 6 rows"), err) == (0, True, "")
    code, _, err = attribune(*words, "--quiet")
    assert (code, "has a finished run" in err) == (1, True)


@slow
@warned
def test_by_default_notes_and_warnings_show(words: Words, attribune: Run) -> None:
    code, _, err = attribune(*words)
    assert (code, err.startswith("warning: ")) == (0, True)
    assert ("\ntrain: 60 rows read from" in err, "info:" in err) == (True, False)


@slow
@warned
def test_verbose_says_what_is_done(words: Words, attribune: Run) -> None:
    code, _, err = attribune(*words, "-v")
    assert (code, err.count("60 rows read from"), "debug:" in err) == (0, 1, False)
    assert "info: attribune.training.train: rows read, split and counted in " in err
    assert (LOGGER.level, len(LOGGER.handlers)) == (logging.NOTSET, 1)


def test_libraries_are_one_step_quieter() -> None:
    before = transformers.utils.logging.get_verbosity()
    try:
        for level, theirs in ((10, 20), (20, 30), (30, 40), (40, 40)):
            with logging_to_stderr(level):
                quiet_libraries()
            assert transformers.utils.logging.get_verbosity() == theirs
            assert logging.getLogger("accelerate").level == theirs
    finally:
        transformers.utils.logging.set_verbosity(before)


def test_warnings_of_others_are_details(capsys: pytest.CaptureFixture[str]) -> None:
    for level in (logging.WARNING, logging.DEBUG):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with logging_to_stderr(level):
                warnings.warn("ours", AttribuneWarning, stacklevel=1)
                warnings.warn("theirs", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: ours\nwarning: ours\ndebug: attribune: UserWarning: theirs\n"


def test_events_are_said_each_time_and_errors_with_their_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(logging.WARNING):
        for _ in range(2):
            LOGGER.warning("a property of the table")
            LOGGER.warning("not reloaded", extra=EVENT)
        LOGGER.error("a request failed", exc_info=KeyError("why"), extra=EVENT)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == ["warning: a property of the table", *["warning: not reloaded"] * 2, "error: a request failed"]
    assert lines[-1] == "KeyError: 'why'"


def test_only_the_first_of_several_processes_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with logging_to_stderr(logging.DEBUG):
        LOGGER.warning("said by all")
    assert capsys.readouterr().err == ""


@slow
def test_in_python_the_notes_are_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_runs.write_csv(tmp_path / "data.csv", small_runs.reviews(60))
    columns = {"text": "text", "label": "stars", "attributes": [{"name": "user"}]}
    recipe = Recipe.from_dict({"data": {"train": str(data), **columns}, "method": {"name": "linear"}})
    with caplog.at_level(logging.INFO, logger="attribune"):
        train(recipe, tmp_path / "run")
    assert f"train: 60 rows read from {data}" in caplog.messages
    assert capsys.readouterr() == ("", "")


@slow
def test_the_library_prints_nothing_on_its_own() -> None:
    code = "import attribune, logging; logging.getLogger('attribune.data').warning('nobody listens')"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout + ended.stderr == ""
