"""A model for methods to act in, without a backbone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attribune.backbones.sites import Site
from attribune.methods import Host
from attribune.methods.condition import Slots


def make_host(*, hidden: int, slots: Sequence[Slots], sites: int = 2, outputs: int = 2, **facts: Any) -> Host:
    """A host with a number of sites, by turns behind attention and feed-forward sub-layers."""
    places = [
        Site(layer=i // 2, kind=("attention", "feed_forward")[i % 2], path=str(i), inputs=hidden, features=hidden)
        for i in range(sites)
    ]
    return Host(hidden=hidden, outputs=outputs, slots=slots, sites=places, **facts)
