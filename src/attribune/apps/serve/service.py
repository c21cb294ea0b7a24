"""What the handlers of all paths share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings

__all__ = ["Service"]

Asked = TypeVar("Asked")
_LARGE_BODY = 1 << 16  # bytes; reading a smaller one takes the event loop a few milliseconds at most


@dataclass(frozen=True, kw_only=True)
class Service:
    """The models of a service, and what computes their answers.

    Args:
        reader: the thread that reads large bodies.
    """

    models: Mapping[str, ServedModel]
    settings: ServeSettings
    metrics: ServiceMetrics
    batcher: Batcher
    reader: Executor

    async def read(self, body: bytes, parse: Callable[[], Asked]) -> Asked:
        """Return what a body asks for; a large one is read on a thread, one at a time."""
        if len(body) < _LARGE_BODY:
            return parse()
        return await asyncio.get_running_loop().run_in_executor(self.reader, parse)
