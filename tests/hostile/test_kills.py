"""Every verb that writes, stopped at any step: the same command then comes to the same end.

``ATTRIBUNE_ATTACKS=50 pytest tests/hostile/test_kills.py`` stops each verb at fifty of its changes of files, or at all
that it has, and gives it fifty times too little of something.
"""

from __future__ import annotations

import functools
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import ATTACKS, VERBS, Attacks
from troubles import CANNOT_MOUNT, Limits, SmallDisk, Trouble

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

Begin = Callable[[str], Attacks]


@pytest.fixture(scope="module")
def verb(attacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Begin:
    """Factory: the attacks on a verb, whose undisturbed end they all know."""
    return functools.cache(lambda name: Attacks(name, attacked, tmp_path_factory.mktemp("attacks")))


def some_verbs(kind: int) -> list[str]:
    """The verbs that meet one kind of trouble: each verb one of four kinds; with more attacks, all of them."""
    return [name for place, name in enumerate(VERBS) if ATTACKS > 1 or place % 4 == kind]


def moments(attacks: Attacks) -> list[int]:
    """The changes before which a verb is stopped: some, or all that it has."""
    return random.Random(0).sample(range(1, attacks.end.changes + 1), min(ATTACKS, attacks.end.changes))


def goes_on(attacks: Attacks, *what: object, told: bool = False, same_end: bool = True) -> None:
    """The same command again; what was stopped after its last step may say that there is nothing more to do."""
    assert attacks.run(attacks.words) in (0, 1), (what, attacks.log.read_text())
    attacks.check(*what, told=told, same_end=same_end)


@pytest.mark.parametrize("name", VERBS)
def test_a_killed_verb_comes_to_the_same_end(name: str, verb: Begin) -> None:
    attacks = verb(name)
    for at in moments(attacks):
        attacks.begin()
        assert attacks.run(attacks.words, attacks.fault(at)) == -signal.SIGKILL
        goes_on(attacks, at)


@pytest.mark.parametrize("name", some_verbs(0))
def test_a_verb_that_is_killed_again_comes_to_the_same_end(name: str, verb: Begin) -> None:
    attacks, chance = verb(name), random.Random(1)
    for _ in range(max(1, ATTACKS // 2)):
        first, second = (chance.randint(1, attacks.end.changes) for _ in range(2))
        attacks.begin()
        assert attacks.run(attacks.words, attacks.fault(first)) == -signal.SIGKILL
        code = attacks.run(attacks.words, attacks.fault(second))
        assert code in (-signal.SIGKILL, 0, 1)  # there may be less to do now
        goes_on(attacks, first, second)


@pytest.mark.parametrize("name", some_verbs(1))
def test_a_verb_without_room_on_the_disk_says_so(name: str, verb: Begin) -> None:
    attacks = verb(name)
    for at in moments(attacks):
        attacks.begin()
        code = attacks.run(attacks.words, attacks.fault(at, "full"))
        refuses(attacks, code, f"full at {at}")


@pytest.mark.parametrize("name", some_verbs(2))
def test_a_verb_on_a_small_disk_says_so(name: str, verb: Begin) -> None:
    attacks = verb(name)
    chance, kept = random.Random(0), attacks.place.with_name("kept")
    for _ in range(ATTACKS):
        attacks.begin()
        free = chance.randrange(max(attacks.end.grown, 4096))
        code = attacks.run(attacks.words, SmallDisk(str(attacks.place), free=free, kept=str(kept)))
        if code == CANNOT_MOUNT:
            pytest.skip("a file system of its own needs Linux and the right to mount one")
        attacks.take(kept)
        refuses(attacks, code, f"{free} bytes free")


def refuses(attacks: Attacks, code: int | None, what: str, *, same_end: bool = True) -> None:
    """It ended with one message, or did without; with what it lacked, it comes to the same end."""
    log = attacks.log.read_text()
    assert code in (0, 1), (what, code, log)
    assert len(re.findall(r"(?m)^attribune [\w ]+: error: ", log)) == code, (what, log)
    goes_on(attacks, what, told=code == 1, same_end=same_end)


LIMITS: dict[str, Callable[[random.Random], Trouble]] = {
    "memory": lambda chance: Limits(memory=chance.randrange(300 << 20)),
    "descriptors": lambda chance: Limits(descriptors=chance.randrange(12)),
}


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("name", some_verbs(3))
def test_a_verb_that_lacks_something_says_so(name: str, kind: str, verb: Begin) -> None:
    attacks, chance = verb(name), random.Random(kind)
    same_end = attacks.words[0] != "search"  # a trial that failed for its size is one of the results of a search
    for _ in range(max(1, ATTACKS // 2)):
        attacks.begin()
        trouble = LIMITS[kind](chance)
        code = attacks.run(attacks.words, trouble)
        if kind == "memory" and was_ended_by_a_library(code, attacks.log.read_text()):
            goes_on(attacks, trouble, same_end=same_end)
        else:
            refuses(attacks, code, str(trouble), same_end=same_end)


def was_ended_by_a_library(code: int | None, log: str) -> bool:
    """Whether Python had no say: the C library, and some that are written in C++ or Rust, abort without memory."""
    return code is not None and (code < 0 or "libgomp: " in log)
