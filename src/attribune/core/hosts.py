"""What the doors of the service and of the playground have in common: the names of hosts, and bodies read once.

A page of another site reaches a local service by a name of its own.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]  # of ASGI

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADER = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether an address, or localhost, can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str | None:
    """Return the name or address in a Host header, in lower case and without port; None for a header of other form."""
    match = _HEADER.fullmatch(header.lower())
    return None if match is None else (match[1] or match[2]).removesuffix(".")


def is_allowed(header: str, allowed: Sequence[str]) -> bool:
    """Whether a Host header names one of the allowed hosts; ``*`` allows all, ``*.example.org`` all names below it."""
    name = host_name(header)
    if name is None:
        return "*" in allowed
    names = [one.lower() for one in allowed]
    return any(name == one or (one.startswith("*") and name.endswith(one[1:])) for one in names)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that has been read already, then what follows it."""
    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return receive_again
