"""``none``: the backbone without a method, the measure of all the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attribune.methods.base import Method
from attribune.methods.host import Host
from attribune.methods.settings import MethodConfig, Point

__all__ = ["Plain"]


@dataclass(frozen=True, kw_only=True)
class Plain(MethodConfig):
    """The plain backbone with its classifier; attributes are not read. Tuned in full unless told otherwise."""

    name: ClassVar[str] = "none"
    points: ClassVar[tuple[Point, ...]] = ()
    default_tuning: ClassVar[str] = "full"

    def build(self, host: Host) -> Method:
        """A method without sites."""
        return Method()
