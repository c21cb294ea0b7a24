"""``adapter``: bottlenecks in a frozen backbone (Houlsby et al. 2019), without attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.placement import SiteKind
from attribune.methods.base import GroupedSites, Method, SiteModule, joined
from attribune.methods.condition import Condition
from attribune.methods.config import LayerMethodConfig
from attribune.methods.host import Host
from attribune.methods.shapes import States

_INPUTS: dict[SiteKind, SiteKind] = {"attention": "q_proj", "feed_forward": "up_proj"}
_MOMENTUM = 0.1  # by which each batch of the training moves the running averages
_ACTIVATIONS: dict[str, functional.Activation] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh,
}


class Adapter(LayerMethodConfig):
    """Two bottleneck adapters per layer, without attributes (Houlsby et al. 2019, section 2.1).

    An adapter is ``h + f(h W_down + b_down) W_up + b_up``. One follows the attention and one the feed-forward
    sub-layer, each before the residual addition; by default the layers' norms learn too, as in the paper. The options
    from `sites` on are the extensions of section 3.6, which the paper found no better.

    Args:
        bottleneck: A, the inner size.
        initial_scale: standard deviation of the initial weights, drawn from a normal distribution truncated at two
            standard deviations; small, so that training starts near the identity.
        stacked: number of adapters in sequence at each site, each of which reads the output of the one before; a merged
            Injector has several.
        sites: the sub-layers with adapters: ``attention``, ``feed_forward`` or ``both``.
        joined: ``serial``: after the sub-layer; ``parallel``: ``h + d(x)``, where d is the adapter without its residual
            and x the input of the sub-layer; ``multiplied``: ``h (1 + d(x))``.
        inner_norm: whether a LayerNorm comes between the down projection and the activation; ``batch``: a batch
            normalization, in training by the mean and the variance of the tokens of each batch, otherwise by their
            running averages.
        layers: maps before the up projection: the down projection and ``layers - 1`` from A to A, each followed by the
            activation; their initial standard deviation is ``1 / sqrt(A)``.
        activation: f: ``gelu``, ``relu``, ``silu`` or ``tanh``.
    """

    name: ClassVar[str] = "adapter"
    default_tuning: ClassVar[str] = "layernorm"

    bottleneck: PositiveInt = 64
    initial_scale: PositiveFloat = 0.01
    stacked: PositiveInt = 1
    sites: Literal["both", "attention", "feed_forward"] = "both"
    joined: Literal["serial", "parallel", "multiplied"] = "serial"
    inner_norm: bool | Literal["batch"] = Field(default=False, description="true, false or batch")
    layers: PositiveInt = 1
    activation: Literal["gelu", "relu", "silu", "tanh"] = "gelu"

    @property
    def feed_forward_option(self) -> str | None:
        """How the adapters are joined, where those beside the feed-forward sub-layer read its input."""
        return None if self.joined == "serial" or self.sites == "attention" else f"joined={self.joined}"

    @property
    def is_trained_alone(self) -> bool:
        """Whether a batch normalization needs whole batches."""
        return self.inner_norm == "batch"

    def build(self, host: Host) -> Method:
        """Build one adapter per site."""
        method = Method()
        kinds: tuple[SiteKind, ...] = ("attention", "feed_forward") if self.sites == "both" else (self.sites,)
        for kind in kinds:
            inputs = {site.layer: replace(site, start=None) for site in reversed(host.at(_INPUTS[kind]))}
            for site in (site for site in host.at(kind) for _ in range(self.stacked)):
                source = None if self.joined == "serial" else _Source()
                if source is not None:
                    method.add_site(inputs[site.layer], source)
                method.add_site(site, AdapterSite(self, hidden=host.hidden, source=source))
        return method


class Bottleneck(SiteModule):
    """The parameters of one adapter; weights start as truncated N(0, scale²) (Houlsby et al. 2019, section 2.1)."""

    def __init__(self, *, hidden: int, bottleneck: int, scale: float) -> None:
        super().__init__()
        self.W_down = truncated_normal_(nn.Parameter(torch.empty(hidden, bottleneck)), scale)
        self.b_down = nn.Parameter(torch.zeros(bottleneck))
        self.W_up = truncated_normal_(nn.Parameter(torch.empty(bottleneck, hidden)), scale)
        self.b_up = nn.Parameter(torch.zeros(hidden))


def truncated_normal_(parameter: nn.Parameter, std: float) -> nn.Parameter:
    """Fill in place with N(0, std²) truncated at two standard deviations."""
    nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)
    return parameter


class TokenBatchNorm(nn.Module):
    """A batch normalization over the tokens of a batch, `size` numbers each, without its padding."""

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, u: Float[Tensor, "... A"], condition: Condition | None = None) -> Float[Tensor, "... A"]:
        """Normalize by the moments of the batch in training, otherwise by their running averages."""
        if not self.training:
            return functional.batch_normalization(u, self.running_mean, self.running_variance, self.weight, self.bias)
        mean, variance, n = functional.batch_moments(u, None if condition is None else condition.token_mask)
        if condition is None or not condition.is_repeated:
            self._remember(mean, variance, n)
        return functional.batch_normalization(u, mean, variance, self.weight, self.bias)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, n: Tensor) -> None:
        """Move the running averages towards the mean of a batch of n tokens, and the variance that it estimates."""
        variance = variance * n / (n - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), _MOMENTUM)
        self.running_variance.lerp_(variance.to(self.running_variance.dtype), _MOMENTUM)


class AdapterSite(Bottleneck):
    """One adapter at one site; one beside the sub-layer gets the input of the sub-layer from `source`."""

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
        self.norm: TokenBatchNorm | nn.LayerNorm | None = None
        if config.inner_norm:
            self.norm = TokenBatchNorm(A) if config.inner_norm == "batch" else nn.LayerNorm(A)

    @classmethod
    def grouped(cls, modules: Sequence[Self]) -> GroupedSites | None:
        """Return the adapters for rows of several models; None unless they are plain ones of one size."""
        first = modules[0]
        is_plain = all(one.source is None and one.norm is None and not len(one.inner) for one in modules)
        is_alike = all(one.W_down.shape == first.W_down.shape and one.activation is first.activation for one in modules)
        return _GroupedAdapters(modules) if is_plain and is_alike else None

    def forward(self, hidden: Float[Tensor, "... H"], condition: Condition | None = None) -> Float[Tensor, "... H"]:
        """Adapt the states; of the condition, a batch normalization reads which tokens are padding."""
        projections = (self.W_down, self.b_down, self.W_up, self.b_up)
        norm = partial(self.norm, condition=condition) if isinstance(self.norm, TokenBatchNorm) else self.norm
        maps = list(self.inner) if len(self.inner) else []
        inner = list(zip(maps[::2], maps[1::2], strict=True))
        if self.source is None:
            return functional.adapter(hidden, *projections, self.activation, norm=norm, inner=inner)
        delta = functional.bottleneck(self.source.pop(), *projections, self.activation, norm=norm, inner=inner)
        return functional.parallel_adapter(hidden, delta, multiply=self.multiplied)


class _GroupedAdapters:
    """Adapters of several models at one site, whose parameters are parts of four tensors."""

    def __init__(self, sites: Sequence[AdapterSite]) -> None:
        self._parameters = [
            joined([getattr(site, name) for site in sites]) for name in ("W_down", "b_down", "W_up", "b_up")
        ]
        self._cast: list[Tensor] = self._parameters
        self._activation = sites[0].activation

    def __call__(self, states: States, groups: Sequence[tuple[int, slice]]) -> States:
        kind = states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self._parameters[0].dtype
        if self._cast[0].dtype != dtype:
            self._cast = [parameter.to(dtype) for parameter in self._parameters]
        with torch.autocast(kind, enabled=False):
            W_down, b_down, W_up, b_up = self._cast
            f = self._activation
            delta = functional.grouped_bottleneck(states.to(dtype), groups, W_down, b_down, W_up, b_up, f)
        return functional.parallel_adapter(states, delta).to(states.dtype)


class _Source(SiteModule):
    """Stores the input of a sub-layer until the adapter beside the sub-layer needs it."""

    def __init__(self) -> None:
        super().__init__()
        self._input: Tensor | None = None

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        self._input = inputs[0].to(output.dtype)
        return output

    def pop(self) -> States:
        """Return the input and release it."""
        states, self._input = self._input, None
        assert states is not None
        return states
