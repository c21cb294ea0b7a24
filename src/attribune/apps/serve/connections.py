"""Connections that are closed when they are slow, and make room for those that ask."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

_MAX_AHEAD = 1 << 21  # bytes of the requests that a caller sends before it has the answer to the last one


class Connection(H11Protocol):
    """A connection that waits for its caller for a limited time, and no longer than there is room.

    It is closed when the head of a request has not come within the time since the connection was made, or since the
    last answer; and when the caller does not read what it is sent. The time of the body and of the answer is the
    application's.

    Args:
        timeout: seconds.
        limit: connections open at once. Beyond it those that wait for their callers are closed, from the one that has
            waited longest.
    """

    def __init__(self, *args: Any, timeout: float, limit: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timeout, self._limit = timeout, limit
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0  # when it began to wait

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, in the place of others if need be."""
        super().connection_made(transport)
        self._wait()
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self and one.is_waiting]
        others.sort(key=lambda one: one._since)
        for one in others[: max(0, len(self.connections) - self._limit)]:
            one._close()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        if len(self.conn.trailing_data[0]) > _MAX_AHEAD:
            self._close()
        if self._is_asking and not self.flow.write_paused:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, if it is not there yet."""
        super().on_response_complete()
        if not self._is_asking:
            self._wait()

    def pause_writing(self) -> None:
        """Begin to wait until the caller reads."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        if self._is_asking:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._stop_timer()

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for its caller, to ask or to send the rest of a body."""
        flushed = not self.transport.get_write_buffer_size()
        return flushed and (not self._is_asking or self.cycle.more_body)

    @property
    def _is_asking(self) -> bool:
        """Whether the head of a request has come, and not yet all of its answer gone."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._stop_timer()
        self._since = time.monotonic()
        self._timer = self.loop.call_later(self._timeout, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self.connections.discard(self)
        self.transport.abort()
