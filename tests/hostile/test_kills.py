"""Every verb that writes, killed before a change of a file: the same command then comes to the same end.

``ATTRIBUNE_ATTACKS=50 pytest tests/hostile/test_kills.py`` kills each verb at fifty of its changes, or at all that it
has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks import ATTACKS, VERBS, Attacks, contents

pytestmark = pytest.mark.slow


def moments(changes: int) -> Iterator[int]:
    """The changes before which a verb is killed: some, or all that it has."""
    return iter(random.Random(changes).sample(range(1, changes + 1), min(ATTACKS, changes)))


@pytest.mark.parametrize("name", VERBS)
def test_a_killed_verb_comes_to_the_same_end(name: str, attacked: Path, tmp_path: Path) -> None:
    attacks = Attacks(VERBS[name], attacked, tmp_path)
    expected, changes = attacks.undisturbed()
    for at in moments(changes):
        attacks.begin()
        assert attacks.run(attacks.words, attacks.fault(at)) == -9
        # What was killed after its last step says that there is nothing more to do.
        assert attacks.run(attacks.again) in (0, 1), (at, attacks.log.read_text())
        found = contents(attacks.place)
        differing = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        assert not differing, (at, differing, attacks.log.read_text())
        assert "Traceback" not in attacks.log.read_text()
