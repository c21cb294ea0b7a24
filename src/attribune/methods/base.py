"""What every method is: settings (a frozen dataclass) that build a module, and the module that acts at the sites."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self, get_type_hints

import torch
from torch import Tensor, nn

from attribune.backbone import Tuning
from attribune.condition import Condition, ConditionHolder, Slots, Values, drop_attributes
from attribune.errors import ConfigError
from attribune.placement import Site

__all__ = ["Bottleneck", "Method", "MethodConfig", "check_between", "check_positive", "truncated_normal_"]


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

    def build(self, *, hidden: int, sites: int, slots: Sequence[Slots]) -> Method:
        """Make the module.

        Args:
            hidden: H, the backbone's hidden size.
            sites: number of sites.
            slots: the attributes, in schema order.
        """
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


_ACCEPTED: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


class Method(nn.Module):
    """The module of a method, living beside the backbone and acting in it by forward hooks at its sites.

    Subclasses fill ``sites`` with one module per site, called as ``site(hidden, condition)`` with hidden states of
    shape (B, T, H), and, if they use attributes, ``tables`` with one parameter (size, Z) per attribute.

    Args:
        slots: the attributes, in schema order.
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
    """

    def __init__(self, *, slots: Sequence[Slots] = (), attribute_dropout: float = 0.0) -> None:
        super().__init__()
        self.slots = tuple(slots)
        self.attribute_dropout = attribute_dropout
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
        hidden = output
        if not torch.is_autocast_enabled(output.device.type):
            hidden = output.to(next(self.parameters()).dtype)
        changed: Tensor = self.sites[index](hidden, condition)
        return changed.to(output.dtype)


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


def _check_type(method: str, option: str, value: Any, kind: type) -> None:
    accepted, cure = _ACCEPTED[kind]
    number: Any = value
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{method}: {option} is {value!r}: give {cure}")
    if kind is float and not math.isfinite(number):
        raise ConfigError(f"{method}: {option} is {value}: give a finite number")


def check_positive(method: str, **values: float) -> None:
    """Refuse settings that must be above zero.

    Raises:
        ConfigError: naming the first that is not.
    """
    for option, value in values.items():
        if value <= 0:
            raise ConfigError(f"{method}: {option} is {value}, it must be above 0")


def check_between(method: str, low: float, high: float, **values: float) -> None:
    """Refuse settings outside a range that excludes its upper end.

    Raises:
        ConfigError: naming the first that is not in it.
    """
    for option, value in values.items():
        if not low <= value < high:
            raise ConfigError(f"{method}: {option} is {value}, it must be at least {low} and below {high}")
