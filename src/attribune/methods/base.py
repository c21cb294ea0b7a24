"""What every method is: settings (a frozen dataclass) that build a module, and the module that acts at the points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from attribune.condition import Condition, ConditionHolder, Slots, Values, drop_attributes
from attribune.errors import ConfigError
from attribune.placement import Placement, Site, SiteKind, find_layers, find_sites, placement_for

__all__ = [
    "AttributeMethod",
    "AttributeMethodConfig",
    "Bottleneck",
    "Embedded",
    "Host",
    "Method",
    "MethodConfig",
    "Point",
    "SiteModule",
    "VectorMethod",
    "VectorMethodConfig",
    "check_between",
    "check_positive",
    "truncated_normal_",
]

Point = Literal["embed", "sites", "encode", "pool", "classify"]
Pool = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a method has to know of the model that it will act in.

    Args:
        hidden: H, the backbone's hidden size.
        outputs: L, the size of the head.
        slots: the attributes, in schema order.
        sites: every place inside the layers where a module can act.
        heads: of the backbone's attention.
        embedding: E, the size of the token embeddings.
        layers: names of the layers, in the order in which they run.
        placement: the row of the backbone's family.
        backbone: for methods whose initial values come from its weights.
    """

    hidden: int
    outputs: int
    slots: Sequence[Slots]
    sites: Sequence[Site] = ()
    heads: int = 1
    embedding: int = 0
    layers: tuple[str, ...] = ()
    placement: Placement | None = None
    backbone: nn.Module | None = field(default=None, repr=False)

    @classmethod
    def of(cls, backbone: Any, *, outputs: int, slots: Sequence[Slots]) -> Self:
        """Describe a loaded backbone.

        Raises:
            ConfigError: for a family that the placement table lacks, or one laid out otherwise than it says.
        """
        placement = placement_for(backbone.config.model_type)
        return cls(
            hidden=backbone.config.hidden_size,
            outputs=outputs,
            slots=slots,
            sites=find_sites(backbone, placement, get_args(SiteKind)),
            heads=backbone.config.num_attention_heads,
            embedding=backbone.get_input_embeddings().embedding_dim,
            layers=tuple(find_layers(backbone, placement)),
            placement=placement,
            backbone=backbone,
        )

    def at(self, *kinds: SiteKind) -> tuple[Site, ...]:
        """The sites of these kinds, in the order in which they run."""
        return tuple(site for site in self.sites if site.kind in kinds)

    def weight(self, site: Site) -> Tensor:
        """The backbone's weight (inputs, features) at the site of a linear map; the caller's to read, not to change."""
        assert self.backbone is not None
        module = self.backbone.get_submodule(site.path)
        weight = cast(Tensor, module.weight)
        weight = weight.T if isinstance(module, nn.Linear) else weight
        return weight if site.start is None else weight[:, site.start : site.start + site.features]

    def bias(self, site: Site) -> Tensor | None:
        """The backbone's bias (features,) at the site of a linear map that is not fused; None where it has none."""
        assert self.backbone is not None
        return cast(Tensor | None, getattr(self.backbone.get_submodule(site.path), "bias", None))


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Settings of a method; see the subclasses.

    ``name`` is the word for ``--method``, ``points`` says where the method acts, ``default_tuning`` what of the
    backbone learns unless told otherwise.
    """

    name: ClassVar[str]
    points: ClassVar[tuple[Point, ...]] = ("sites",)
    default_tuning: ClassVar[str] = "frozen"
    uses_attributes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse options of a wrong type: the text "off" would count as true."""
        hints = get_type_hints(type(self))
        for option in (item.name for item in fields(self)):
            kind, value = hints[option], getattr(self, option)
            if kind in _ACCEPTED:
                _check_type(self.name, option, value, kind)
            elif get_origin(kind) is Literal and value not in get_args(kind):
                choices = " or ".join(map(repr, get_args(kind)))
                raise ConfigError(f"{self.name}: {option} is {value!r}: choose {choices}")

    def build(self, host: Host) -> Method:
        """Make the module."""
        raise NotImplementedError(type(self).__name__)

    def refusal(self, placement: Placement) -> str | None:
        """Why the method cannot act in a family, with the cure; None where it can."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, as JSON can hold them."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """Settings from a dictionary without the name.

        Raises:
            ConfigError: listing every unknown option and those there are.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            options = ", ".join(known) if known else "none"
            raise ConfigError(f"method {cls.name!r} has no option {', '.join(unknown)}; its options: {options}")
        return cls(**settings)


@dataclass(frozen=True, kw_only=True)
class AttributeMethodConfig(MethodConfig):
    """Settings that all methods have that read attributes.

    Args:
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
    """

    uses_attributes: ClassVar[bool] = True

    attribute_dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between(self.name, 0, 1, attribute_dropout=self.attribute_dropout)


@dataclass(frozen=True, kw_only=True)
class VectorMethodConfig(AttributeMethodConfig):
    """Settings of methods whose vectors may have any size and start at random.

    Args:
        vector_size: Z, the size of the attributes' vectors.
        initial_vector: standard deviation of the initial vectors.
    """

    vector_size: int = 64
    initial_vector: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, vector_size=self.vector_size, initial_vector=self.initial_vector)


_ACCEPTED: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    int | None: ((int, NoneType), "a whole number, or null for the default"),
    float: ((int, float), "a number"),
}


class Embedded(NamedTuple):
    """What a method at the embed point puts into the backbone in place of the text's ids.

    Attributes:
        states: (B, S, E), embeddings.
        attention_mask: (B, S).
        places: (B, T), where each token of the text stands in the S positions.
    """

    states: Tensor
    attention_mask: Tensor
    places: Tensor

    def text_states(self, hidden: Tensor) -> Tensor:
        """The states (B, T, H) of the text's own tokens, of those (B, S, H) of all positions."""
        return hidden.gather(1, self.places.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))

    def positions(self, attention_mask: Tensor, *, first: int) -> Tensor:
        """Positions (B, S) counted from `first` over the text's real tokens (B, T) and all that the method put in."""
        taken = self.spread(attention_mask) + 1 - self.spread(torch.ones_like(attention_mask))
        return taken.cumsum(dim=1) * taken + first - 1

    def spread(self, values: Tensor) -> Tensor:
        """Values (B, T) of the text's tokens at their places among all positions (B, S), 0 elsewhere."""
        return values.new_zeros(self.attention_mask.shape).scatter(1, self.places, values)


class SiteModule(nn.Module):
    """A module that acts at one site: ``forward(output, condition)`` changes what the backbone's module there made."""

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        """Change the output; overridden where the module's own parameters or its input are needed too.

        Args:
            module: of the backbone, whose output this is.
            inputs: its positional inputs.
            output: (B, T, features).
            condition: the attributes of the batch.
        """
        return cast(Tensor, self(output, condition))


class Method(nn.Module):
    """The module of a method, living beside the backbone and acting at its points.

    Inside the backbone it acts by forward hooks: subclasses call `add_site`. Around it they override `embed`, `encode`,
    `pool` or `classify`. ``extra_positions`` says how many positions of the backbone they need beside the text's.
    """

    extra_positions: int = 0

    def __init__(self) -> None:
        super().__init__()
        self.holder = ConditionHolder()
        self.places: list[Site] = []
        self.sites = nn.ModuleList()
        self._read: dict[str, Tensor] = {}

    def condition(self, attribute_ids: Tensor | None, rows: int, draw: Tensor | None = None) -> Condition:
        """What the sites will read.

        Args:
            attribute_ids: (B, slots); not read by methods without attributes.
            rows: B.
            draw: (B, attributes), the random numbers of the attribute dropout; made when they are needed.
        """
        return Condition(rows=rows)

    def embed(
        self, input_ids: Tensor, attention_mask: Tensor, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        """What goes into the backbone in place of the ids (B, T); None where these go in themselves."""
        return None

    def encode(self, hidden: Tensor, attention_mask: Tensor, condition: Condition) -> Tensor:
        """The states (B, T, H) made of the backbone's last ones; these themselves unless overridden."""
        return hidden

    def pool(self, hidden: Tensor, attention_mask: Tensor, condition: Condition, default: Pool) -> Tensor:
        """The document vector (B, H) of the last states (B, T, H); the model's own pooling unless overridden."""
        return default(hidden, attention_mask)

    def classify(self, document: Tensor, condition: Condition, head: nn.Linear) -> Tensor:
        """The logits (B, L) of the document vectors (B, H); the plain head unless overridden."""
        return cast(Tensor, head(document))

    def add_site(self, site: Site, module: nn.Module) -> None:
        """Let a module act at a site, from `install` on."""
        self.places.append(site)
        self.sites.append(module)

    def install(self, backbone: nn.Module) -> None:
        """Hook the site modules to the backbone. Must come before compilation and DDP, and after LoRA is added."""
        # A partial of a bound method survives deepcopy and pickle, a closure does not.
        for index, site in enumerate(self.places):
            backbone.get_submodule(site.path).register_forward_hook(partial(self._at_site, index))
        for path in {site.relative for site in self.places if site.relative is not None}:
            module = backbone.get_submodule(path)
            module.register_forward_pre_hook(partial(self._remember, path))
            module.register_forward_hook(partial(self._forget, path))

    def _at_site(self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        site, condition = self.places[index], self.holder.current
        if site.relative is not None and args[0] is not self._read[site.relative]:
            return output  # the call on relative positions
        if output.dim() != 3 or output.shape[0] != condition.rows:
            raise RuntimeError(
                f"site {index} saw a tensor of shape {tuple(output.shape)} in a batch of {condition.rows} rows: the "
                "backbone splits or folds its batch, which methods with sites cannot follow"
            )
        if site.start is None:
            return self._changed(index, module, args, output)
        end = site.start + site.features
        changed = self._changed(index, module, args, output[..., site.start : end])
        return torch.cat([output[..., : site.start], changed, output[..., end:]], dim=-1)

    def _changed(self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        act = cast(SiteModule, self.sites[index]).act
        changed = act(module, args, self.in_own_precision(output), self.holder.current)
        return changed.to(output.dtype)

    def _remember(self, path: str, _module: nn.Module, args: tuple[Any, ...]) -> None:
        self._read[path] = args[0]

    def _forget(self, path: str, _module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        del self._read[path]

    def in_own_precision(self, states: Tensor) -> Tensor:
        """States of the backbone in the precision of the method's parameters, which autocast takes care of itself."""
        if torch.is_autocast_enabled(states.device.type):
            return states
        return states.to(next(self.parameters()).dtype)


class AttributeMethod(Method):
    """A method that reads attributes: one table of vectors (size, Z) for each.

    Id 0 adds nothing; where ``learns_unknown`` is set, it is a learned vector like every other, which stands for an
    attribute without a value and which attribute dropout trains.

    Args:
        config: the settings.
        host: the model.
        sizes: Z of each attribute; none for methods that read ids without vectors.
        initial: fills a table with its initial values, in place.

    Raises:
        ConfigError: for a schema without attributes.
    """

    learns_unknown: ClassVar[bool] = False

    def __init__(
        self,
        config: AttributeMethodConfig,
        host: Host,
        *,
        sizes: Sequence[int] | None = None,
        initial: Callable[[Tensor], Any] = nn.init.zeros_,
    ) -> None:
        super().__init__()
        if not host.slots:
            raise ConfigError(
                f"{config.name}: the schema has no attribute; name at least one, or use a method that reads none"
            )
        self.slots = tuple(host.slots)
        self.attribute_dropout = config.attribute_dropout
        self.tables = nn.ParameterList()
        for attribute, size in () if sizes is None else zip(self.slots, sizes, strict=True):
            table = nn.Parameter(torch.empty(attribute.size, size))
            with torch.no_grad():
                initial(table)
                if not self.learns_unknown:
                    table[0] = 0
            self.tables.append(table)

    def condition(self, attribute_ids: Tensor | None, rows: int, draw: Tensor | None = None) -> Condition:
        """The distinct values of the batch, after attribute dropout in training."""
        assert attribute_ids is not None
        if self.training and self.attribute_dropout > 0:
            attribute_ids = drop_attributes(attribute_ids, self.slots, self.attribute_dropout, draw)
        values = tuple(
            Values.collect(slots.of(attribute_ids), table, unknown=self.learns_unknown)
            for slots, table in zip(self.slots, self.tables, strict=bool(self.tables))
        )
        return Condition(rows=rows, ids=attribute_ids, values=values)


class VectorMethod(AttributeMethod):
    """A method whose vectors have one size, Z, and start as N(0, s²)."""

    def __init__(self, config: VectorMethodConfig, host: Host) -> None:
        super().__init__(
            config,
            host,
            sizes=[config.vector_size] * len(host.slots),
            initial=partial(nn.init.normal_, std=config.initial_vector),
        )


class Bottleneck(SiteModule):
    """The parameters of one adapter: down (H, A), up (A, H), both with bias.

    Args:
        hidden: H.
        bottleneck: A.
        scale: standard deviation of the initial weights, truncated at two of them (Houlsby 2019, section 2.1).
    """

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


def _check_type(method: str, option: str, value: Any, kind: Any) -> None:
    accepted, cure = _ACCEPTED[kind]
    number: Any = value
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{method}: {option} is {value!r}: give {cure}")
    if kind is float and not math.isfinite(number):
        raise ConfigError(f"{method}: {option} is {value}: give a finite number")


def check_positive(method: str, **values: float | None) -> None:
    """Refuse settings that must be above zero; None is a default that is found later.

    Raises:
        ConfigError: naming the first that is not.
    """
    for option, value in values.items():
        if value is not None and value <= 0:
            raise ConfigError(f"{method}: {option} is {value}, it must be above 0")


def check_between(method: str, low: float, high: float, **values: float) -> None:
    """Refuse settings outside a range that excludes its upper end.

    Raises:
        ConfigError: naming the first that is not in it.
    """
    for option, value in values.items():
        if not low <= value < high:
            raise ConfigError(f"{method}: {option} is {value}, it must be at least {low} and below {high}")
