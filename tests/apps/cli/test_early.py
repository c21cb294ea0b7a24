"""What the words of a command alone tell to be wrong is refused before a model is loaded."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Outcome

from attribune.apps.cli import build_parser
from attribune.apps.cli.early import refuse_early
from attribune.errors import AttribuneError

Run = Callable[..., Outcome]
NO_RUN = "there is no such folder; did you mean 'stars'?"
NO_TABLE = "there is no such file; did you mean"
NO_PLACE = "there is no folder none; create it, or name another"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stars").mkdir()
    (tmp_path / "new.csv").write_text("text\na\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("predict star new.csv --output o.csv", NO_RUN),
        ("evaluate star", NO_RUN),
        ("explain star", NO_RUN),
        ("ablate star", NO_RUN),
        ("enrol star new.csv", NO_RUN),
        ("forget star --attribute a --value b", NO_RUN),
        ("export star", NO_RUN),
        ("report star", NO_RUN),
        ("describe star", NO_RUN),
        ("compare stars star", NO_RUN),
        ("serve name=star", NO_RUN),
        ("playground star", NO_RUN),
        ("next star new.csv --for a=b", NO_RUN),
        ("generate star", NO_RUN),
        ("train new.csv --continue star --output r", NO_RUN),
        ("predict stars nwe.csv --output o.csv", NO_TABLE),
        ("predict stars new.csv nwe.csv --output o.csv", NO_TABLE),
        ("evaluate stars nwe.csv", NO_TABLE),
        ("train nwe.csv --output r", NO_TABLE),
        ("check new.csv --test nwe.csv", NO_TABLE),
        ("export stars --check nwe.csv", NO_TABLE),
        ("predict stars new.csv --output none/o.csv", NO_PLACE),
        ("explain stars --output none/o.html", NO_PLACE),
        ("report stars --output none/o.html", NO_PLACE),
        ("predict stars new.csv --output o.txt", "the ending '.txt' is not one of"),
        ("predict stars new.csv --output o.jsonl --escape-formulas", "only CSV and TSV"),
    ],
)
def test_what_is_not_there_is_refused(words: str, said: str, place: Path) -> None:
    with pytest.raises(AttribuneError) as error:
        refuse_early(build_parser().parse_args(words.split()))
    assert said in str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        "predict stars owner/name --output o.csv",
        "predict stars - --output parts",
        "train new.csv --output none/r.1",
        "serve name=stars",
        "check new.csv",
    ],
)
def test_what_may_be_there_is_left_to_the_verb(words: str, place: Path) -> None:
    refuse_early(build_parser().parse_args(words.split()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("predict stars new.csv", "no output is named"),
        ("predict stars --output o.csv", "there is nothing to predict"),
        ("predict stars --text a --attribute b", "--attribute b: write NAME=VALUE"),
        ("explain stars --as a=b", "other values (--as) need a row"),
        ("enrol stars", "no rows are given"),
        ("enrol stars new.csv --undo", "--undo removes the values"),
        ("next stars new.csv --for a=b --count 0", "--count 0: give at least 1"),
    ],
)
@pytest.mark.usefixtures("place")
def test_options_that_do_not_fit_are_refused_before_anything_is_read(words: str, said: str, attribune: Run) -> None:
    """The folder is empty: whatever reads it says so first."""
    code, _, error = attribune(*words.split())
    assert (code, said in error) == (1, True), error
    assert error.startswith(f"attribune {words.split()[0]}: error: ")


@pytest.mark.usefixtures("place")
def test_errors_of_an_action_begin_as_those_of_its_parser(attribune: Run) -> None:
    code, _, error = attribune("data", "judgements", "nwe.csv", "--output", "o.csv")
    assert (code, error.startswith("attribune data judgements: error: nwe.csv: there is no such file")) == (1, True)
    code, _, error = attribune("data", "judgements", "new.csv")
    assert (code, error.startswith("attribune data judgements: error: ")) == (2, True)


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "free some space, then run again"),
        (errno.EROFS, "use a disk that can be written to, then run again"),
        (errno.EACCES, "change the permissions, or choose another place, then run again"),
        (errno.EIO, "free some space, or choose a place that you may write to, then run again"),
    ],
)
def test_what_the_disk_lacks_has_a_cure_of_its_own(
    number: int, cure: str, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number), "runs/stars/.lock")

    monkeypatch.setattr("attribune.apps.cli.refuse_early", failing)
    message = fails("describe", "runs/stars")
    assert f"runs/stars/.lock: {os.strerror(number)}. Finished work is kept; {cure}" in message
