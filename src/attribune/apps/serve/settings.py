"""The limits and the keys of a service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field

from attribune.core.config import Settings
from attribune.core.hosts import LOOPBACK, is_loopback
from attribune.errors import ConfigError

KEYS = "ATTRIBUNE_SERVE_KEYS"
"""The environment variable with the keys that callers may send, separated by commas."""
VALUE_KEYS = "ATTRIBUNE_SERVE_VALUE_KEYS"
"""The environment variable with the keys of those who may add and forget values, separated by commas."""
_MIN_KEY_LENGTH = 16


class ServeSettings(Settings):
    """The limits of a service.

    Args:
        max_rows: maximum number of texts per request.
        max_text_length: maximum number of characters per text.
        max_body_mb: maximum size of a request's body, in MiB.
        max_new_tokens: maximum number of tokens written per text.
        max_queue_size: maximum number of texts that wait for a model; a request that exceeds it gets 429.
        max_connections: maximum number of requests answered at once, one per connection; more get 503. Half as many
            connections, 16 at least, may be open besides; beyond that those are closed that have waited longest for
            their callers.
        timeout: seconds that a request may take: its head, its body, the answer, and the reading of that.
        enrol: whether requests may add values to the runs, and remove them.
        hide_unknown: whether answers leave out which values a model does not know, and examples the values it knows.
        access_log: whether each request is logged, with its path as the service declares it: values are not in it.
        allowed_hosts: names that requests may have in their Host header, such as ``example.org`` or
            ``*.example.org``; any if empty.
    """

    what: ClassVar[str] = "the service"

    max_rows: int = Field(default=256, ge=1)
    max_text_length: int = Field(default=100_000, ge=1)
    max_body_mb: float = Field(default=8, gt=0)
    max_new_tokens: int = Field(default=1024, ge=1)
    max_queue_size: int = Field(default=2048, ge=1)
    max_connections: int = Field(default=512, ge=1)
    timeout: float = Field(default=30, gt=0)
    enrol: bool = False
    hide_unknown: bool = False
    access_log: bool = False
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of a service, of which callers send one as a bearer token.

    Args:
        callers: for predictions and all else that reads; none is required if empty.
        values: to add and forget values. If empty, nobody may where keys of callers are required, and everybody where
            none are.
    """

    callers: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @classmethod
    def of_environment(cls, host: str, *, enrol: bool) -> Self:
        """Read the keys of the environment, which a host that other machines can reach needs.

        Args:
            enrol: whether values may be added and forgotten at all.

        Raises:
            ConfigError: for a host beyond this machine without keys, for keys that are needed to change values and are
                missing, or those of all callers, or for a key that is easily guessed.
        """
        callers = _keys_of(KEYS)
        if not callers and not is_loopback(host):
            raise ConfigError(
                f"--host {host} can be reached from other machines: set {KEYS} to one or several keys, separated by "
                "commas, that callers must send; or listen on 127.0.0.1"
            )
        values = _keys_of(VALUE_KEYS)
        if enrol and callers and not values:
            raise ConfigError(
                f"--enrol lets requests add values to the runs and delete them for good, which the keys of {KEYS} do "
                f"not allow: set {VALUE_KEYS} to one or several other keys for those who may; or leave --enrol out"
            )
        if enrol and set(values).intersection(callers):
            raise ConfigError(
                f"a key of {VALUE_KEYS} is also one of {KEYS}, so that every caller could delete values: use another "
                "one"
            )
        return cls(callers=callers, values=values)


def _keys_of(variable: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in os.environ.get(variable, "").split(",") if key.strip())
    for number, key in enumerate(keys, start=1):
        if len(key) < _MIN_KEY_LENGTH or not key.isascii():
            raise ConfigError(
                f"key {number} of {variable} has {len(key)} characters: use {_MIN_KEY_LENGTH} or more of ASCII, such "
                "as `openssl rand -hex 16` prints"
            )
    return keys


def hosts_for(host: str, allowed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names that requests may ask for: those allowed, else on this machine its own, elsewhere any.

    A page that someone here visits reaches this machine by a name of its own (DNS rebinding). Other machines need keys,
    which such a page does not have.
    """
    return allowed or ((*LOOPBACK, host) if is_loopback(host) else ())
