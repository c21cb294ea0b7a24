"""The names by which a service is asked: a page of another site reaches a local service by a name of its own."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

__all__ = ["LOOPBACK", "host_name", "is_allowed", "is_loopback"]

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
