"""Two verbs at once on one folder: one after the other, or the second is told who is at work; nothing is lost.

The first one pauses before a change of a file, and goes on when the second one has ended, or waits for the first.
``ATTRIBUNE_ATTACKS=100 pytest tests/hostile/test_pairs.py`` lets each pair meet at a hundred changes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import small_runs
from attacks import ATTACKS, Attacks, verbs
from lab_methods import HAS_LAB
from live_service import until
from tally import tell
from troubles import Pause

from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.values.record import enrolments

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

PAIRS = [
    ("enrol", "forget"),
    ("forget", "predict"),
    *(
        pytest.param(*pair, marks=pytest.mark.exhaustive)
        for pair in [("enrol", "enrol"), ("forget", "forget"), ("enrol", "predict")]
    ),
]
SAME = [
    "predict to a folder",
    *(["data prepare"] if HAS_LAB else []),
    *(
        pytest.param(name, marks=pytest.mark.exhaustive)
        for name in ["train", "train linear", "predict", "report", "search"]
    ),
]
# What the second of two says: that another is at work, or that nothing is left for it to do.
REASONS = ("another process", "have no new value", "has no value 'u3'", "has a finished run", "was started with")


def moments(attacks: Attacks) -> list[int]:
    """The changes before which the first one pauses: before it holds its folder, after that, and any more."""
    more = random.Random(attacks.name).choices(range(1, attacks.end.changes + 1), k=ATTACKS) if ATTACKS > 1 else []
    return [1, 8, *more]


def meet(attacks: Attacks, first: list[str], second: list[str], *, at: int) -> tuple[list[int | None], list[str]]:
    """Run the second command while the first one pauses; returns their exit codes and messages."""
    logs = [attacks.log.with_name(f"log-{number}.txt") for number in range(2)]
    for log in logs:
        log.write_text("")
    reached, waits, go = (small_runs.PROCESSES.Event() for _ in range(3))
    one = small_runs.Command(first, log=logs[0], trouble=Pause(str(attacks.place), at, reached, go))
    until(lambda: reached.is_set() or one.has_ended())
    # What reads a run opens its lock alone, and only to wait for who changes the run.
    lock = Pause(str(attacks.place / "run"), 1, waits, go)
    reads = second[0] == "predict"
    other = small_runs.Command(second, log=logs[1], trouble=lock if reads else None)
    until(lambda: waits.is_set() or other.has_ended())
    go.set()
    return [one.wait(), other.wait()], [log.read_text() for log in logs]


def check(codes: list[int | None], messages: list[str]) -> None:
    assert 0 in codes, messages
    for code, message in zip(codes, messages, strict=True):
        assert code in (0, 1), message
        assert "Traceback" not in message
        assert code == 0 or any(reason in message for reason in REASONS), message


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_verbs_on_one_run(first: str, second: str, attacked: Path, tmp_path: Path) -> None:
    attacks = Attacks(first, attacked, tmp_path)
    for at in moments(attacks):
        attacks.begin()
        codes, messages = meet(attacks, attacks.words, verbs(attacks.place)[second], at=at)
        check(codes, messages)
        run = RunFolder(attacks.place / "run")
        values = run.read_schema()["user"].values
        done = [name for name, code in zip((first, second), codes, strict=True) if code == 0]
        added = [value.value for step in enrolments(run.path) for value in step]
        is_new_again = "u3" in added  # to the second, when the first has forgotten it
        assert not is_new_again or done == [first, second]
        assert len(added) == (5 + is_new_again if "enrol" in done else 0)
        assert set(added) <= set(values)
        assert ("u3" in values) == (is_new_again or "forget" not in done)
        load_run(run.path)
        tell("survived" if codes == [0, 0] else "refused")


@pytest.mark.parametrize("name", SAME)
def test_the_same_verb_twice(name: str, attacked: Path, tmp_path: Path) -> None:
    attacks = Attacks(name, attacked, tmp_path)
    for at in moments(attacks):
        attacks.begin()
        check(*meet(attacks, attacks.words, attacks.words, at=at))
        attacks.check()


def test_who_is_at_work_is_said(attacked: Path, tmp_path: Path) -> None:
    attacks = Attacks("enrol", attacked, tmp_path)
    attacks.begin()
    run = RunFolder(attacks.place / "run")
    with run.held():
        assert attacks.run(attacks.words) == 1
    message = attacks.log.read_text()
    assert f"works in {run.path}: wait for it, or stop it" in message
    assert "another process (" in message
