"""Several processes that were started to train one model, as by `torchrun`."""

from __future__ import annotations

import os
import time

from attribune.errors import ConfigError

_LAST_WORDS = 30  # seconds, in which the first process says why all end


def process_count() -> int:
    """Return the number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_number() -> int:
    """Return the rank of this process."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this is the process that writes, scores and communicates with the user."""
    return process_number() == 0


def let_main_speak() -> None:
    """Wait in other processes than the first, whose end would be that of the first before it has said why all end."""
    if not is_main():
        time.sleep(_LAST_WORDS)


def refuse_processes(what: str) -> None:
    """Raise a ConfigError if there are several processes, where each would do all the work."""
    if process_count() > 1:
        let_main_speak()
        raise ConfigError(
            f"{what} was started in {process_count()} processes, which would all do the same: "
            f"start one, without WORLD_SIZE in its environment"
        )
