"""The settings of a method: checked when they are made, written to JSON and read from it, and building its module."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError
from torch import nn

from attribune.backbones.placement import Placement
from attribune.core.config import Settings
from attribune.errors import ConfigError
from attribune.methods.host import Host

__all__ = ["AttributeMethodConfig", "MethodConfig", "Point", "Probability", "VectorMethodConfig"]

Point = Literal["embed", "sites", "encode", "pool", "classify"]
Probability = Annotated[float, Field(ge=0, lt=1)]


class MethodConfig(Settings):
    """Settings of a method; see the subclasses.

    ``name`` is the word for ``--method``, ``points`` says where the method acts, ``default_tuning`` what of the
    backbone learns unless told otherwise.

    Raises:
        ConfigError: naming every option that is unknown or has a value that it cannot have.
    """

    model_config = ConfigDict(strict=True)  # the text "off" would count as true

    name: ClassVar[str]
    points: ClassVar[tuple[Point, ...]] = ("sites",)
    default_tuning: ClassVar[str] = "frozen"
    uses_attributes: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise ConfigError(_describe(type(self), options, error)) from None

    def build(self, host: Host) -> nn.Module:
        """Build the module, a `Method`."""
        raise NotImplementedError(type(self).__name__)

    def refusal(self, placement: Placement) -> str | None:
        """Return why the method cannot act in a family, with the cure; None where it can."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return name and options, as JSON can hold them."""
        return {"name": self.name, **self.model_dump()}

    @classmethod
    def from_dict(cls, settings: Any, *, source: str | None = None, saved: bool = False) -> Self:
        """Read options from a dictionary without the name; its arguments are those of `Settings.from_dict`."""
        return cls(**{str(option): value for option, value in settings.items()})


class AttributeMethodConfig(MethodConfig):
    """Settings that all methods have that read attributes.

    Args:
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
    """

    uses_attributes: ClassVar[bool] = True

    attribute_dropout: Probability = 0.2


class VectorMethodConfig(AttributeMethodConfig):
    """Settings of methods whose vectors may have any size and start at random.

    Args:
        vector_size: Z, the size of the attributes' vectors.
        initial_vector: standard deviation of the initial vectors.
    """

    vector_size: PositiveInt = 64
    initial_vector: PositiveFloat = 0.02


_CURES = {
    "bool_type": "give true or false",
    "int_type": "give a whole number",
    "float_type": "give a number",
    "finite_number": "give a finite number",
}
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below"}


def _describe(method: type[MethodConfig], options: dict[str, Any], error: ValidationError) -> str:
    """Return one line that names every option that is wrong, its value and the cure."""
    items = error.errors()
    unknown = sorted(str(item["loc"][0]) for item in items if item["type"] == "extra_forbidden")
    wrong = dict.fromkeys(
        _describe_option(method, options, item) for item in items if item["loc"] and item["type"] != "extra_forbidden"
    )
    lines = [str(item["ctx"]["error"]) for item in items if not item["loc"]]  # checks of several options together
    if wrong:
        lines.append(f"{method.name}: {'; '.join(wrong)}")
    if unknown:
        known = ", ".join(method.model_fields) or "none"
        lines.append(f"method {method.name!r} has no option {', '.join(unknown)}; its options: {known}")
    return "; ".join(lines)


def _describe_option(method: type[MethodConfig], options: dict[str, Any], item: Any) -> str:
    option, context = str(item["loc"][0]), item.get("ctx", {})
    field, value = method.model_fields[option], options.get(option)
    if field.description is not None:
        return f"{option} is {value!r}: give {field.description}"
    if item["type"] == "literal_error":
        choices = " or ".join(map(repr, get_args(field.annotation)))
        return f"{option} is {value!r}: choose {choices}"
    if item["type"] in _CURES:
        default = ", or null for the default" if type(None) in get_args(field.annotation) else ""
        return f"{option} is {value!r}: {_CURES[item['type']]}{default}"
    bounds = [f"{word} {limit}" for key, word in _BOUNDS.items() if (limit := _bound(field, key, context)) is not None]
    return f"{option} is {value!r}, it must be {' and '.join(bounds)}"


def _bound(field: Any, key: str, context: dict[str, Any]) -> Any:
    """Return a limit of an option, whichever of its limits was broken."""
    return next((getattr(limit, key) for limit in field.metadata if hasattr(limit, key)), context.get(key))
