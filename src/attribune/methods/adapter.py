"""``adapter``: bottlenecks in a frozen backbone (Houlsby et al. 2019), without attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attribune import functional
from attribune.condition import Condition
from attribune.methods.base import Bottleneck, Method
from attribune.methods.host import Host
from attribune.methods.settings import MethodConfig, check_positive

__all__ = ["Adapter", "AdapterSite"]


@dataclass(frozen=True, kw_only=True)
class Adapter(MethodConfig):
    """Two adapters per layer: ``h + f(h W_down + b_down) W_up + b_up`` (Houlsby et al. 2019, section 2.1).

    One stands behind the attention and one behind the feed-forward sub-layer, each before the residual addition; the
    layers' norms learn too, as in the paper, unless another tuning is chosen.

    Args:
        bottleneck: A, the inner size.
        initial_scale: standard deviation of the initial weights; small, so that training starts near the identity.
    """

    name: ClassVar[str] = "adapter"
    default_tuning: ClassVar[str] = "layernorm"

    bottleneck: int = 64
    initial_scale: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, bottleneck=self.bottleneck, initial_scale=self.initial_scale)

    def build(self, host: Host) -> Method:
        """One adapter per site."""
        method = Method()
        for site in host.at("attention", "feed_forward"):
            method.add_site(site, AdapterSite(hidden=host.hidden, bottleneck=self.bottleneck, scale=self.initial_scale))
        return method


class AdapterSite(Bottleneck):
    """One adapter at one site."""

    def forward(self, hidden: Tensor, condition: Condition | None = None) -> Tensor:
        """Change (B, T, H) to (B, T, H); the condition is not read."""
        return functional.adapter(hidden, self.W_down, self.b_down, self.W_up, self.b_up)
