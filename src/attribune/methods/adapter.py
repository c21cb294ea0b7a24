"""``adapter``: bottlenecks in a frozen backbone (Houlsby et al. 2019), without attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.methods.base import Bottleneck, Method, SiteModule, truncated_normal_
from attribune.methods.host import Host
from attribune.methods.settings import MethodConfig, check_positive
from attribune.placement import SiteKind

__all__ = ["Adapter", "AdapterSite"]

_READS: dict[SiteKind, SiteKind] = {"attention": "query", "feed_forward": "inner"}
_ACTIVATIONS: dict[str, functional.Activation] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh,
}


@dataclass(frozen=True, kw_only=True)
class Adapter(MethodConfig):
    """Two adapters per layer: ``h + f(h W_down + b_down) W_up + b_up`` (Houlsby et al. 2019, section 2.1).

    One stands behind the attention and one behind the feed-forward sub-layer, each before the residual addition; the
    layers' norms learn too, as in the paper, unless another tuning is chosen. The options from `sites` on are
    the extensions of section 3.6, which the paper found no better.

    Args:
        bottleneck: A, the inner size.
        initial_scale: standard deviation of the initial weights; small, so that training starts near the identity.
        stacked: adapters in a row, one reading what the other made; an Injector for fixed values is that.
        sites: behind which sub-layers: ``attention``, ``feed_forward`` or ``both``.
        joined: ``serial``, behind the sub-layer; ``parallel``, reading what the sub-layer reads and added to what it
            makes; ``multiplied``, the same with ``h (1 + d(x))``.
        inner_norm: whether a LayerNorm stands between the down projection and the activation.
        layers: maps in front of the up projection: the down projection and ``layers - 1`` from A to A, each followed by
            the activation; their initial standard deviation is ``1 / sqrt(A)``.
        activation: f.
    """

    name: ClassVar[str] = "adapter"
    default_tuning: ClassVar[str] = "layernorm"

    bottleneck: int = 64
    initial_scale: float = 0.01
    stacked: int = 1
    sites: Literal["both", "attention", "feed_forward"] = "both"
    joined: Literal["serial", "parallel", "multiplied"] = "serial"
    inner_norm: bool = False
    layers: int = 1
    activation: Literal["gelu", "relu", "silu", "tanh"] = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, bottleneck=self.bottleneck, initial_scale=self.initial_scale)
        check_positive(self.name, stacked=self.stacked, layers=self.layers)

    def build(self, host: Host) -> Method:
        """One adapter per site."""
        method = Method()
        kinds: tuple[SiteKind, ...] = ("attention", "feed_forward") if self.sites == "both" else (self.sites,)
        for kind in kinds:
            sources = {site.layer: site for site in reversed(host.at(_READS[kind]))}
            for site in (site for site in host.at(kind) for _ in range(self.stacked)):
                source = None
                if self.joined != "serial":
                    source = _Source()
                    method.add_site(replace(sources[site.layer], start=None), source)
                method.add_site(site, AdapterSite(self, hidden=host.hidden, source=source))
        return method


class AdapterSite(Bottleneck):
    """One adapter at one site.

    Args:
        config: the settings.
        hidden: H.
        source: what keeps the sub-layer's input, for adapters beside it.
    """

    reads_attributes: ClassVar[bool] = False

    def __init__(self, config: Adapter, *, hidden: int, source: _Source | None = None) -> None:
        A = config.bottleneck
        super().__init__(hidden=hidden, bottleneck=A, scale=config.initial_scale)
        self.source = source
        self.multiplied = config.joined == "multiplied"
        self.activation = _ACTIVATIONS[config.activation]
        self.inner = nn.ParameterList()
        for _ in range(config.layers - 1):
            self.inner += [truncated_normal_(nn.Parameter(torch.empty(A, A)), A**-0.5), nn.Parameter(torch.zeros(A))]
        self.norm = nn.LayerNorm(A) if config.inner_norm else None

    def forward(self, hidden: Tensor, condition: Condition | None = None) -> Tensor:
        """Change (B, T, H) to (B, T, H); the condition is not read."""
        projections = (self.W_down, self.b_down, self.W_up, self.b_up)
        norm = None if self.norm is None else (self.norm.weight, self.norm.bias)
        inner = list(zip(self.inner[::2], self.inner[1::2], strict=True))
        if self.source is None:
            return functional.adapter(hidden, *projections, self.activation, norm=norm, inner=inner)
        delta = functional.bottleneck(self.source.take(), *projections, self.activation, norm=norm, inner=inner)
        return functional.parallel_adapter(hidden, delta, multiply=self.multiplied)


class _Source(SiteModule):
    """Keeps what a sub-layer's first map reads until the adapter beside the sub-layer takes it."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: Tensor | None = None

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        """Keep the input (B, T, H), leave the output."""
        self._kept = inputs[0].to(output.dtype)
        return output

    def take(self) -> Tensor:
        """The input, which is forgotten here."""
        kept, self._kept = self._kept, None
        assert kept is not None
        return kept
