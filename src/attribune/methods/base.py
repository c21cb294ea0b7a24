"""What every method is: settings (a frozen dataclass) that build a module, and the module that acts at the sites."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Self, cast, get_type_hints

import torch
from torch import Tensor, nn

from attribune.backbone import Tuning
from attribune.condition import Condition, ConditionHolder, Slots, Values, drop_attributes
from attribune.errors import ConfigError
from attribune.placement import Site

__all__ = [
    "AttributeMethod",
    "AttributeMethodConfig",
    "Bottleneck",
    "Host",
    "Method",
    "MethodConfig",
    "check_between",
    "check_positive",
    "truncated_normal_",
]

Pool = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a method has to know of the model that it will act in.

    Args:
        hidden: H, the backbone's hidden size.
        sites: number of sites.
        outputs: L, the size of the head.
        slots: the attributes, in schema order.
    """

    hidden: int
    sites: int
    outputs: int
    slots: Sequence[Slots]


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Settings of a method; see the subclasses.

    ``name`` is the word for ``--method``, ``default_tuning`` what of the backbone learns unless told otherwise.
    """

    name: ClassVar[str]
    default_tuning: ClassVar[Tuning] = "frozen"
    uses_attributes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse options of a wrong type: the text "off" would count as true."""
        for option, kind in get_type_hints(type(self)).items():
            if kind in _ACCEPTED:
                _check_type(self.name, option, getattr(self, option), kind)

    def build(self, host: Host) -> Method:
        """Make the module."""
        raise NotImplementedError(type(self).__name__)

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
        vector_size: Z, the size of the attributes' vectors.
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
        initial_vector: standard deviation of the initial vectors.
    """

    uses_attributes: ClassVar[bool] = True

    vector_size: int = 64
    attribute_dropout: float = 0.2
    initial_vector: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, vector_size=self.vector_size, initial_vector=self.initial_vector)
        check_between(self.name, 0, 1, attribute_dropout=self.attribute_dropout)


_ACCEPTED: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    int | None: ((int, NoneType), "a whole number, or null for the default"),
    float: ((int, float), "a number"),
}


class Method(nn.Module):
    """The module of a method, living beside the backbone and acting at its points.

    Inside the backbone it acts by forward hooks: subclasses fill ``sites`` with one module per site, called as
    ``site(hidden, condition)`` with hidden states of shape (B, T, H). Behind it they override `pool` or `classify`.
    """

    slots: tuple[Slots, ...] = ()
    attribute_dropout: float = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.holder = ConditionHolder()
        self.tables = nn.ParameterList()
        self.sites = nn.ModuleList()

    def condition(self, attribute_ids: Tensor | None, rows: int) -> Condition:
        """What the sites will read: the distinct values of the batch, after attribute dropout in training.

        Args:
            attribute_ids: (B, slots); not read by methods without attributes.
            rows: B.
        """
        if not self.tables or attribute_ids is None:
            return Condition(rows=rows, values=())
        if self.training and self.attribute_dropout > 0:
            attribute_ids = drop_attributes(attribute_ids, self.slots, self.attribute_dropout)
        return Condition(
            rows=rows,
            values=tuple(
                Values.collect(slots.of(attribute_ids), table)
                for slots, table in zip(self.slots, self.tables, strict=True)
            ),
        )

    def pool(self, hidden: Tensor, attention_mask: Tensor, condition: Condition, default: Pool) -> Tensor:
        """The document vector (B, H) of the last states (B, T, H); the model's own pooling unless overridden."""
        return default(hidden, attention_mask)

    def classify(self, document: Tensor, condition: Condition, head: nn.Linear) -> Tensor:
        """The logits (B, L) of the document vectors (B, H); the plain head unless overridden."""
        return cast(Tensor, head(document))

    def install(self, backbone: nn.Module, sites: Sequence[Site]) -> None:
        """Hook the site modules to the backbone. Must come before compilation, DDP and peft."""
        if not self.sites:
            return
        for index, site in enumerate(sites):
            # A partial of a bound method survives deepcopy and pickle, a closure does not.
            backbone.get_submodule(site.path).register_forward_hook(partial(self._at_site, index))

    def _at_site(self, index: int, _module: nn.Module, _args: tuple[Any, ...], output: Tensor) -> Tensor:
        condition = self.holder.current
        if output.dim() != 3 or output.shape[0] != condition.rows:
            raise RuntimeError(
                f"site {index} saw a tensor of shape {tuple(output.shape)} in a batch of {condition.rows} rows: the "
                "backbone splits or folds its batch, which methods with sites cannot follow"
            )
        changed: Tensor = self.sites[index](self.in_own_precision(output), condition)
        return changed.to(output.dtype)

    def in_own_precision(self, states: Tensor) -> Tensor:
        """States of the backbone in the precision of the method's parameters, which autocast takes care of itself."""
        if torch.is_autocast_enabled(states.device.type):
            return states
        return states.to(next(self.parameters()).dtype)


class AttributeMethod(Method):
    """A method that reads attributes: one table of vectors (size, Z) for each, in which id 0 starts at zero.

    Raises:
        ConfigError: for a schema without attributes.
    """

    def __init__(self, config: AttributeMethodConfig, host: Host) -> None:
        super().__init__()
        if not host.slots:
            raise ConfigError(
                f"{config.name}: the schema has no attribute; name at least one, or use the method 'adapter'"
            )
        self.slots = tuple(host.slots)
        self.attribute_dropout = config.attribute_dropout
        for attribute in self.slots:
            table = torch.randn(attribute.size, config.vector_size) * config.initial_vector
            table[0] = 0
            self.tables.append(nn.Parameter(table))


class Bottleneck(nn.Module):
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
