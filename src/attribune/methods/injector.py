"""``injector``: adapters whose down projections are generated from the attributes (Amplayo, Yoo and Lee 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, model_validator
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.placement import SiteKind
from attribune.core.device import is_recorded, product_dtype
from attribune.errors import ConfigError
from attribune.functional.factored import LARGEST_POWER, PRODUCT_DTYPES, FactoredAdapter, cast_adapters
from attribune.methods.adapter import Adapter, AdapterSite, Bottleneck
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Method, SiteModule
from attribune.methods.condition import Condition, Generated, Values
from attribune.methods.config import LayerMethodConfig, MethodConfig
from attribune.methods.generators import (
    Generator,
    GeneratorSettings,
    TableFactors,
    build_generator,
    check_memory,
    factors_of_sites,
)
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget, own_tensors
from attribune.methods.plan import Plan, PlannedRows
from attribune.methods.shapes import AttributeIds, DropoutDraw, States

_KINDS: tuple[SiteKind, ...] = ("attention", "feed_forward")


class Injector(LayerMethodConfig, GeneratorSettings):
    """Adapters whose weights and biases are generated from the attributes (Amplayo, Yoo and Lee 2022).

    At both sites of every layer: a task adapter, then one attribute adapter per attribute, in schema order.
    ``h_j = h_{j-1} + f(h_{j-1} W_{z_j} + b_{z_j}) W_up + b_up`` with ``b = sum_k G z_k + c`` and
    ``W = sum_k g(z_k) + C`` (eq. 1-11). Every switch of the paper's table 3 is an option.

    Args:
        bottleneck: A.
        hypercomplex: O, for `phm`; the hidden size must be divisible by its square.
        vector_size: Z, the size of the attributes' vectors (the paper: the hidden size).
        bias_injection: whether b depends on the attribute.
        weight_injection: whether W depends on the attribute.
        task_adapter: whether a plain adapter comes first.
        aggregation: of several values of an attribute: ``post`` sums the generated biases and weights, ``pre`` the
            vectors.
        arrangement: ``sequential``, where an adapter changes what the one before it has returned, as in the paper;
            ``parallel``, where all adapters of a site read the same states, ``h + sum_j f(h W_j + b_j) U_j + c``, as
            one adapter of their widths together.
        low_rank: whether the generated matrices come from outer products; if not, from a full map S_o of z:
            ``tanh(S_o ⊗ A_o)``.
        phm: whether they are sums of Kronecker products; if not, ``tanh((sigma z) s^T)``, transposed, or, without
            `low_rank` as well, one full linear map.
        initial_scale: standard deviation of the initial C, W_down and W_up.
        initial_vector: standard deviation of the initial vectors. Small, so that a value seen in few rows stays close
            to the unknown one.
        initial_projection: standard deviation of the initial G and sigma. Large, so that small changes of a vector
            matter.
        initial_weight: standard deviation of the generated weights when ``sigma z`` is of size one.
    """

    name: ClassVar[str] = "injector"

    bias_injection: bool = True
    weight_injection: bool = True
    task_adapter: bool = True
    aggregation: Literal["post", "pre"] = "post"
    arrangement: Literal["sequential", "parallel"] = "sequential"
    initial_scale: PositiveFloat = 0.01

    @model_validator(mode="after")
    def _reads_attributes(self) -> Self:
        if not (self.bias_injection or self.weight_injection):
            raise ConfigError(
                "injector: with neither bias_injection nor weight_injection no attribute is read; "
                "turn one on, or use a method that reads no attributes"
            )
        return self

    def build(self, host: Host) -> Method:
        """Build one site module per site and one table of vectors per attribute, shared by all sites."""
        if self.weight_injection:
            check_memory(self, hidden=host.hidden, copies=len(host.at(*_KINDS)) * len(host.slots))
        return InjectorMethod(self, host)


class InjectorMethod(VectorMethod):
    """The module of `Injector`."""

    def __init__(self, config: Injector, host: Host) -> None:
        super().__init__(config, host)
        for number, site in enumerate(host.at(*_KINDS)):
            self.add_site(site, InjectorSite(config, number, hidden=host.hidden, attributes=len(host.slots)))

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        """Collect the distinct values of the batch, with the factors of their weights."""
        condition = super().condition(attribute_ids, rows, draw)
        values = tuple(self._with_factors(number, values) for number, values in enumerate(condition.values))
        return replace(condition, values=values)

    def plan(self) -> Plan | None:
        """Return the plan of weights from factors; None where they have none."""
        sites = [cast(InjectorSite, site) for site in self.sites]
        if not sites:
            return None
        adapters = [[cast(AttributeAdapter, site.attributes[m]) for site in sites] for m in range(len(self.tables))]
        factors = [
            TableFactors.of([adapter.g for adapter in own], table)
            for own, table in zip(adapters, self.tables, strict=True)
        ]
        found = [one for one in factors if one is not None]
        return _InjectorPlan(sites, adapters, found) if len(found) == len(factors) else None

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into plain adapters at each site, stacked if sequential, with the weights generated from the values."""
        tensors: dict[str, Tensor] = {}
        width = stacked = 0
        sites = [
            cast(InjectorSite, module)
            for kind in _KINDS
            for site, module in zip(self.acts_at, self.sites, strict=True)
            if site.kind == kind
        ]
        for number, adapter in enumerate(adapter for site in sites for adapter in site.merge(condition)):
            tensors |= {f"sites.{number}.{name}": tensor for name, tensor in adapter.items()}
            width, stacked = adapter["b_down"].numel(), (number + 1) // len(sites)
        first = cast(Injector, config).first_layer
        return MergedMethod(config=Adapter(bottleneck=width, stacked=stacked, first_layer=first), tensors=tensors)

    def _with_factors(self, number: int, values: Values) -> Values:
        """Return the values with what all sites generate from them, where that has factors."""
        adapters = [cast(AttributeAdapter, cast(InjectorSite, site).attributes[number]) for site in self.sites]
        if not adapters or is_recorded():
            return values
        is_summed = self.slots[number].count == 1 or adapters[0].pre_aggregation  # each row has one vector, or none
        return replace(values, generated=_generated_at(adapters, values, is_summed=is_summed))


class InjectorSite(SiteModule):
    """Task adapter and attribute adapters at one site."""

    def __init__(self, config: Injector, number: int, *, hidden: int, attributes: int) -> None:
        super().__init__()
        self.is_parallel = config.arrangement == "parallel"
        task = Adapter(bottleneck=config.bottleneck, initial_scale=config.initial_scale)
        self.task = AdapterSite(task, hidden=hidden) if config.task_adapter else None
        self.attributes = nn.ModuleList(AttributeAdapter(config, number, hidden=hidden) for _ in range(attributes))

    def forward(self, hidden: States, condition: Condition) -> States:
        """Apply the adapters, one after the other or all to the same states."""
        if all(values.generated is not None for values in condition.values):
            return functional.factored_adapters(hidden, self._factored(condition))
        if self.is_parallel:
            return self._side_by_side(hidden, condition)
        if self.task is not None:
            hidden = self.task(hidden)
        for adapter, values in zip(self.attributes, condition.values, strict=True):
            hidden = adapter(hidden, values)
        return hidden

    def _side_by_side(self, hidden: States, condition: Condition) -> States:
        """Apply all adapters to the same states, each with its own product down and all with one up."""
        task = [] if self.task is None else [(hidden @ self.task.W_down, self.task.b_down)]
        downs = [adapter.down(hidden, values) for adapter, values in self._of_attributes(condition)]
        projected, biases = zip(*task, *downs, strict=True)
        W_up, b_up = self._up()
        return functional.projected_adapter(hidden, torch.cat(projected, dim=-1), _joined_rows(biases), W_up, b_up)

    def _factored(self, condition: Condition) -> list[FactoredAdapter]:
        """Return the adapters from factors; if parallel, as one."""
        task = self.task
        plain = [] if task is None else [FactoredAdapter([], task.W_down, task.b_down, task.W_up, task.b_up)]
        adapters = [*plain, *(adapter.from_factors(values) for adapter, values in self._of_attributes(condition))]
        if not self.is_parallel:
            return adapters
        factors = [pair for one in adapters for pair in one.factors]
        W_down, b = torch.cat([one.C for one in adapters], dim=1), _joined_rows([one.b for one in adapters])
        return [FactoredAdapter(factors, W_down, b, *self._up())]

    def _up(self) -> tuple[Float[Tensor, "NA H"], Float[Tensor, " H"]]:
        """Return the up projections of all adapters one below the other, and the sum of their biases."""
        adapters = self.adapters()
        b_up = torch.stack([adapter.b_up for adapter in adapters]).sum(dim=0)
        return torch.cat([adapter.W_up for adapter in adapters]), b_up

    def adapters(self) -> list[Bottleneck]:
        """Return the task adapter, if there is one, and those of the attributes."""
        task = [] if self.task is None else [self.task]
        return [*task, *cast(Iterable[AttributeAdapter], self.attributes)]

    def _of_attributes(self, condition: Condition) -> Iterator[tuple[AttributeAdapter, Values]]:
        return zip(cast(Iterable[AttributeAdapter], self.attributes), condition.values, strict=True)

    def merge(self, condition: Condition) -> list[dict[str, Tensor]]:
        """Return the tensors of each plain adapter in order, for the values of the only row of the condition."""
        task = [] if self.task is None else [own_tensors(self.task)]
        adapters = [*task, *(adapter.merge(values) for adapter, values in self._of_attributes(condition))]
        if not self.is_parallel:
            return adapters
        W_up, b_up = self._up()
        W_down, b_down = (torch.cat([one[name] for one in adapters], dim=-1) for name in ("W_down", "b_down"))
        return [{"W_down": W_down, "b_down": b_down, "W_up": W_up.detach(), "b_up": b_up.detach()}]


class AttributeAdapter(Bottleneck):
    """The adapter of one attribute at one site (Injectors eq. 2-5, 10-11); W_down is C_weight, b_down c_bias."""

    def __init__(self, config: Injector, number: int, *, hidden: int) -> None:
        super().__init__(hidden=hidden, bottleneck=config.bottleneck, scale=config.initial_scale)
        self.number = number  # of the site
        self.pre_aggregation = config.aggregation == "pre"
        self.G: nn.Parameter | None = None
        if config.bias_injection:
            self.G = nn.Parameter(torch.randn(config.bottleneck, config.vector_size) * config.initial_projection)
        self.g: Generator | None = build_generator(config, hidden=hidden) if config.weight_injection else None

    def forward(self, hidden: States, values: Values) -> States:
        """Adapt each row's states to its own values."""
        if values.generated is not None:
            return functional.factored_adapters(hidden, [self.from_factors(values)])
        return functional.projected_adapter(hidden, *self.down(hidden, values), self.W_up, self.b_up)

    def from_factors(self, values: Values) -> FactoredAdapter:
        """Return the adapter whose weight has factors."""
        left, right, b = cast(Generated, values.generated).at(self.number)
        return FactoredAdapter([(left, right)], self.W_down, b, self.W_up, self.b_up)

    def down(self, hidden: States, values: Values) -> tuple[Float[Tensor, "B T A"], Tensor]:
        """Return the product of the states with the rows' weights, and the rows' biases."""
        b, W = self._of_rows(values.vectors, values.membership)
        dtype = product_dtype(hidden)  # the weights are generated in float32 at least
        return hidden.to(dtype) @ W.to(dtype), b

    def merge(self, values: Values) -> dict[str, Tensor]:
        """Return the tensors of the equivalent plain adapter for the values of the only row."""
        b, W = self._of_rows(values.vectors, values.membership)
        down = {"W_down": W.reshape(self.W_down.shape), "b_down": b.reshape(self.b_down.shape)}
        return down | {"W_up": self.W_up.detach(), "b_up": self.b_up.detach()}

    def _of_rows(self, z: Float[Tensor, "U Z"], membership: Float[Tensor, "B U"]) -> tuple[Tensor, Tensor]:
        """Return bias (B, A) and weight (B, H, A) of each row, or the shared ones."""
        if self.pre_aggregation:  # one vector per row, the sum of those of its values
            z = _summed(z, membership)
            membership = torch.eye(z.shape[0], dtype=z.dtype, device=z.device)
        b = self.b_down if self.G is None else functional.attribute_bias(z, membership, self.G, self.b_down)
        W = self.W_down if self.g is None else functional.attribute_weight(self.g(z, membership), self.W_down)
        return b, W


def _summed(z: Float[Tensor, "U Z"], membership: Float[Tensor, "B U"]) -> Float[Tensor, "B Z"]:
    """Return the sum of the vectors of each row's values, in their precision whatever autocast says."""
    with torch.autocast(z.device.type, enabled=False):
        return membership @ z


def _joined_rows(biases: Sequence[Tensor]) -> Float[Tensor, "B NA"] | Float[Tensor, " NA"]:
    """Join biases that belong to rows (B, A) and such that all rows share (A,)."""
    if len(biases) == 1:
        return biases[0]
    rows = next((len(b) for b in biases if b.dim() == 2), None)
    return torch.cat([b if rows is None else b.expand(rows, -1) for b in biases], dim=-1)


def _generated_at(adapters: Sequence[AttributeAdapter], values: Values, *, is_summed: bool) -> Generated | None:
    """Return what the adapters of all sites generate from the values of their attribute; None if not by factors.

    Args:
        is_summed: whether a row's weight comes from the sum of the vectors of its values.
    """
    z, membership = values.vectors, values.membership
    sums = _summed(z, membership) if is_summed else z
    factors = factors_of_sites([adapter.g for adapter in adapters], sums, None if is_summed else membership)
    if factors is None:
        return None
    b = torch.stack([adapter.b_down for adapter in adapters])
    if adapters[0].G is not None:
        G = torch.cat([cast(Tensor, adapter.G) for adapter in adapters])
        with torch.autocast(z.device.type, enabled=False):
            of_rows = functional.attribute_bias(z, membership, G, b.flatten())
        b = of_rows.view(len(membership), *b.shape).transpose(0, 1)
    left, right = factors
    return Generated(left.unbind(), right.unbind(), b.unbind())  # one gradient for all sites


class _Operands(NamedTuple):
    """What all rows share of an adapter, or of several side by side.

    Attributes:
        C: (H, A).
        W_up: (A, H).
        b_up: (H,).
        biases: of the task adapter, if it is among them.
        rights: the right factors (K, H) of attributes, by their numbers.
    """

    C: Tensor
    W_up: Tensor
    b_up: Tensor
    biases: Sequence[Tensor]
    rights: Mapping[int, Tensor]


class _InjectorPlan(Plan):
    """Weights and biases of all sites come from one product of the vectors of each attribute."""

    def __init__(
        self,
        sites: Sequence[InjectorSite],
        adapters: Sequence[Sequence[AttributeAdapter]],
        factors: Sequence[TableFactors],
    ) -> None:
        super().__init__()
        self.sites, self.factors = sites, factors
        self.most_rows = LARGEST_POWER // max(
            sum(cast(Tensor, cast(Generator, one.g).sigma)[..., 0].numel() for one in own) for own in adapters
        )
        self._biases = [_bias_maps(own) for own in adapters]

    def serves(self, vectors: Sequence[Float[Tensor, "n Z"]]) -> bool:
        """Return whether the powers are enough for further values."""
        return all(factors.are_enough(own) for factors, own in zip(self.factors, vectors, strict=True))

    def pack(self, dtype: torch.dtype) -> list[list[_Operands]]:
        """Return of each site the operands of its adapters that are the same for all rows."""
        return [self._operands(number, site, dtype) for number, site in enumerate(self.sites)]

    def _operands(self, number: int, site: InjectorSite, dtype: torch.dtype) -> list[_Operands]:
        """Return the operands of a site's adapters, those that are side by side as one."""
        each = site.adapters()
        first = len(each) - len(self.factors)  # the task adapter comes before those of the attributes
        found = []
        for places in [range(len(each))] if site.is_parallel else [[place] for place in range(len(each))]:
            group = [each[place] for place in places]
            C, W_up = torch.cat([one.W_down for one in group], dim=1), torch.cat([one.W_up for one in group])
            b_up = torch.stack([one.b_up for one in group]).sum(dim=0)
            own = [one.b_down for place, one in zip(places, group, strict=True) if place < first]
            rights = {place - first: self.factors[place - first].right[number] for place in places if place >= first}
            C, W_up, b_up = (x.detach().to(dtype) for x in (C, W_up, b_up))
            biases = [b.detach().to(dtype) for b in own]
            found.append(_Operands(C, W_up, b_up, biases, {m: right.to(dtype) for m, right in rights.items()}))
        return found

    def terms(self, vectors: Sequence[Float[Tensor, "B _"]], dtype: torch.dtype) -> list[tuple[Any, Any]]:
        """Return the left factors and the biases of each attribute, of each site."""
        found = []
        for z, factors, (G, c) in zip(vectors, self.factors, self._biases, strict=True):
            left = factors.left(z).to(dtype)
            of_rows = c.expand(len(z), *c.shape) if G is None else torch.addmm(c.flatten(), z, G).view(-1, *c.shape)
            found.append((left.unbind(), of_rows.to(dtype).unbind(1)))
        return found

    def act(self, index: int, rows: PlannedRows, inputs: tuple[Any, ...], output: States) -> Tensor:
        """Apply the adapters of a site."""
        dtype = output.dtype if output.dtype in PRODUCT_DTYPES else torch.float32
        terms, operands = rows.terms(dtype), []
        for C, W_up, b_up, biases, rights in self.packed(dtype)[index]:
            b = _joined_rows([*biases, *(terms[m][1][index] for m in rights)])
            factors = [x for m, right in rights.items() for x in (terms[m][0][index], right)]
            operands.append([C, b, W_up, b_up, *factors])
        return cast_adapters(output, operands).to(output.dtype)


def _bias_maps(adapters: Sequence[AttributeAdapter]) -> tuple[Float[Tensor, "Z SA"] | None, Float[Tensor, "S A"]]:
    """Return the maps of a vector to the biases of all sites, and what all rows share of these."""
    c = torch.stack([one.b_down for one in adapters])
    if adapters[0].G is None:
        return None, c
    return torch.cat([cast(Tensor, one.G) for one in adapters]).T.contiguous(), c
