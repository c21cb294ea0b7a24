"""The limits of a service."""

from __future__ import annotations

import ipaddress
import os
from typing import ClassVar

from pydantic import Field

from attribune.errors import ConfigError
from attribune.settings import Settings

__all__ = ["KEYS", "ServeSettings", "keys_for"]

KEYS = "ATTRIBUNE_SERVE_KEYS"
"""The environment variable with the keys that callers may give, separated by commas."""
_SHORTEST_KEY = 16


class ServeSettings(Settings):
    """The limits of a service.

    Args:
        max_rows: texts in one request.
        max_text: characters of one text.
        max_body_mb: megabytes of the body of one request.
        queue_rows: texts that wait for the model; a request that would be more is answered with 429.
        connections: open at once; more are answered with 503.
        timeout: seconds that a request may take, sending its body included.
        cache_mb: megabytes of generated weights that are kept for the values seen last, of all models together.
    """

    what: ClassVar[str] = "the service"

    max_rows: int = Field(default=256, ge=1)
    max_text: int = Field(default=100_000, ge=1)
    max_body_mb: float = Field(default=8, gt=0)
    queue_rows: int = Field(default=2048, ge=1)
    connections: int = Field(default=512, ge=1)
    timeout: float = Field(default=30, gt=0)
    cache_mb: float = Field(default=256, ge=0)


def keys_for(host: str) -> tuple[str, ...]:
    """The keys of the environment, without which nothing but this machine may be listened to.

    Args:
        host: on which the service will listen.

    Raises:
        ConfigError: for a host beyond this machine without keys, or a key that is easily guessed.
    """
    keys = tuple(key.strip() for key in os.environ.get(KEYS, "").split(",") if key.strip())
    if not keys and not _is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached from other machines: set {KEYS} to one or several keys, separated by "
            "commas, that callers must send; or listen on 127.0.0.1"
        )
    for place, key in enumerate(keys, start=1):
        if len(key) < _SHORTEST_KEY or not key.isascii():
            raise ConfigError(
                f"key {place} of {KEYS} has {len(key)} characters: use {_SHORTEST_KEY} or more of ASCII, such as "
                "`openssl rand -hex 16` prints"
            )
    return keys


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
