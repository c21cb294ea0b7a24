"""``none``: the backbone without a method, the reference for all others."""

from __future__ import annotations

from typing import ClassVar

from attribune.methods.base import Method
from attribune.methods.config import MethodConfig, Point
from attribune.methods.host import Host


class Plain(MethodConfig):
    """The plain backbone with its classifier; attributes are not read."""

    name: ClassVar[str] = "none"
    points: ClassVar[tuple[Point, ...]] = ()
    default_tuning: ClassVar[str] = "full"

    def build(self, host: Host) -> Method:
        """Build a method without sites."""
        return Method()
