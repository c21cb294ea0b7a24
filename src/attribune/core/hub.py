"""Whether the hub can be reached: asked once, where its client would try again for half a minute."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

from huggingface_hub import constants

__all__ = ["hub_is_reachable"]

_SECONDS = 3.0
_reached: set[tuple[str, int]] = set()


def hub_is_reachable() -> bool:
    """Return whether the host of the hub answers; True behind a proxy, which is not asked."""
    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    if {address.scheme, "all"}.intersection(getproxies()):
        return True
    host = address.hostname or "", address.port or (80 if address.scheme == "http" else 443)
    if host not in _reached:
        try:
            socket.create_connection(host, timeout=_SECONDS).close()
        except OSError:
            return False
        _reached.add(host)
    return True
