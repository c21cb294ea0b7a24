"""Every verb that writes, stopped at any step: the same command then comes to the same end.

``ATTRIBUNE_ATTACKS=50 pytest tests/hostile/test_kills.py`` stops each verb at fifty of its changes of files, or at all
that it has, and gives it fifty times too little of something.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import ATTACKS, VERBS, Attacks
from troubles import CANNOT_MOUNT, Limits, SmallDisk, Trouble

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=VERBS)
def attacks(request: pytest.FixtureRequest, attacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Attacks:
    return Attacks(request.param, attacked, tmp_path_factory.mktemp("attacks"))


def moments(attacks: Attacks) -> list[int]:
    """The changes before which a verb is stopped: some, or all that it has."""
    return random.Random(0).sample(range(1, attacks.end.changes + 1), min(ATTACKS, attacks.end.changes))


def skip_where_others_do(attacks: Attacks, kind: int) -> None:
    """In the suite each verb meets one of these troubles; with more attacks, all of them."""
    if ATTACKS == 1 and [*VERBS].index(attacks.name) % 4 != kind:
        pytest.skip("ATTRIBUNE_ATTACKS=2 tries each trouble with each verb")


def goes_on(attacks: Attacks, *what: object, told: bool = False, same_end: bool = True) -> None:
    """The same command again; what was stopped after its last step may say that there is nothing more to do."""
    assert attacks.run(attacks.again) in (0, 1), (what, attacks.log.read_text())
    attacks.check(*what, told=told, same_end=same_end)


def test_a_killed_verb_comes_to_the_same_end(attacks: Attacks) -> None:
    for at in moments(attacks):
        attacks.begin()
        assert attacks.run(attacks.words, attacks.fault(at)) == -9
        goes_on(attacks, at)


def test_a_verb_that_is_killed_again_comes_to_the_same_end(attacks: Attacks) -> None:
    skip_where_others_do(attacks, 0)
    chance = random.Random(1)
    for _ in range(max(1, ATTACKS // 2)):
        first, second = (chance.randint(1, attacks.end.changes) for _ in range(2))
        attacks.begin()
        assert attacks.run(attacks.words, attacks.fault(first)) == -9
        assert attacks.run(attacks.again, attacks.fault(second)) in (-9, 0, 1)  # there may be less to do now
        goes_on(attacks, first, second)


def test_a_verb_without_room_on_the_disk_says_so(attacks: Attacks) -> None:
    skip_where_others_do(attacks, 1)
    for at in moments(attacks):
        attacks.begin()
        code = attacks.run(attacks.words, attacks.fault(at, "full"))
        refuses(attacks, code, f"full at {at}")


def test_a_verb_on_a_small_disk_says_so(attacks: Attacks) -> None:
    skip_where_others_do(attacks, 2)
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
    if code == -signal.SIGABRT and "memory allocation of" in log:  # how a library written in Rust ends without memory
        goes_on(attacks, what, same_end=same_end)
        return
    assert code in (0, 1), (what, code, log)
    assert len(re.findall(r"(?m)^attribune [\w ]+: error: ", log)) == code, (what, log)
    goes_on(attacks, what, told=code == 1, same_end=same_end)


LIMITS: dict[str, Callable[[random.Random], Trouble]] = {
    "memory": lambda chance: Limits(memory=chance.randrange(300 << 20)),
    "descriptors": lambda chance: Limits(descriptors=chance.randrange(12)),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_a_verb_that_lacks_something_says_so(kind: str, attacks: Attacks) -> None:
    skip_where_others_do(attacks, 3)
    chance = random.Random(kind)
    for _ in range(max(1, ATTACKS // 2)):
        attacks.begin()
        trouble = LIMITS[kind](chance)
        # A trial that failed for its size is one of the results of a search.
        refuses(attacks, attacks.run(attacks.words, trouble), str(trouble), same_end=attacks.words[0] != "search")
