"""Two verbs at once on one folder: one after the other, or the second is told who is at work; nothing is lost.

``ATTRIBUNE_ATTACKS=100 pytest tests/hostile/test_pairs.py`` begins each pair a hundred times.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import small_runs
from attacks import ATTACKS, VERBS, Attacks
from tally import tell

from attribune.runs.enrol import enrolments
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

PAIRS = [("enrol", "enrol"), ("enrol", "forget"), ("forget", "forget"), ("forget", "predict"), ("enrol", "predict")]
SAME = ["train", "train linear", "predict", "predict to a folder", "report", "data prepare", "search"]
# What the second of two says: that another is at work, or that nothing is left for it to do.
REASONS = ("another process", "have no new value", "has no value 'u3'", "has a finished run", "was started with")


def together(attacks: Attacks, *words: list[str], delay: float) -> tuple[list[int | None], list[str]]:
    """Run commands at once; returns their exit codes and messages."""
    logs = [attacks.log.with_name(f"log-{number}.txt") for number in range(len(words))]
    commands = []
    for one, log in zip(words, logs, strict=True):
        log.write_text("")
        commands.append(small_runs.Command(one, log=log))
        time.sleep(delay)
    codes = [command.wait() for command in commands]
    return codes, [log.read_text() for log in logs]


def check(codes: list[int | None], messages: list[str]) -> None:
    assert 0 in codes, messages
    for code, message in zip(codes, messages, strict=True):
        assert code in (0, 1), message
        assert "Traceback" not in message
        assert code == 0 or any(reason in message for reason in REASONS), message


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[" and ".join(pair) for pair in PAIRS])
def test_two_verbs_on_one_run(first: str, second: str, attacked: Path, tmp_path: Path) -> None:
    chance = random.Random(first + second)
    attacks = Attacks(first, attacked, tmp_path)
    for _ in range(max(1, ATTACKS // 2)):
        attacks.begin()
        other = VERBS[second].words(attacks.place)
        codes, messages = together(attacks, attacks.words, other, delay=chance.choice([0, 0, 0.05, 0.2, 0.5]))
        check(codes, messages)
        run = RunFolder(attacks.place / "run")
        values = run.read_schema()["user"].values
        done = [name for name, code in zip((first, second), codes, strict=True) if code == 0]
        added = [value["value"] for step in enrolments(run.path) for value in step]
        assert len(added) == (5 if "enrol" in done else 0)
        assert set(added) <= set(values)
        assert ("u3" in values) == ("forget" not in done)
        load_run(run.path)
        tell("survived" if codes == [0, 0] else "refused")


@pytest.mark.parametrize("name", SAME)
def test_the_same_verb_twice(name: str, attacked: Path, tmp_path: Path) -> None:
    chance = random.Random(name)
    attacks = Attacks(name, attacked, tmp_path)
    for _ in range(max(1, ATTACKS // 2)):
        attacks.begin()
        check(*together(attacks, attacks.again, attacks.again, delay=chance.choice([0, 0, 0.05, 0.2, 0.5])))
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
