"""The settings of methods: frozen dataclasses that check themselves, come back from JSON, and build the module."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from attribune.errors import ConfigError

if TYPE_CHECKING:
    from attribune.methods.base import Method
    from attribune.methods.host import Host
    from attribune.placement import Placement

__all__ = [
    "AttributeMethodConfig",
    "MethodConfig",
    "Point",
    "VectorMethodConfig",
    "check_between",
    "check_positive",
]

Point = Literal["embed", "sites", "encode", "pool", "classify"]


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
