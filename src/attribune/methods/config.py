"""The settings of a method: checked when they are made, written to JSON and read from it, and building its module."""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError
from torch import nn

from attribune.backbones.placement import Placement
from attribune.core.config import Settings
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError
from attribune.methods.host import Host

Point = Literal["text", "embed", "sites", "encode", "pool", "classify"]
Probability = Annotated[float, Field(ge=0, lt=1)]
_OPTION = re.compile(r"^    (\w+): .*(?:\n {8}.*)*", re.MULTILINE)


def _described_options(method: type) -> dict[str, str]:
    """Return the descriptions of options in a class docstring, by name."""
    return {match[1]: match[0] for match in _OPTION.finditer(inspect.cleandoc(method.__doc__ or ""))}


class MethodConfig(Settings):
    """Settings of a method; see the subclasses.

    ``name`` is the word for ``--method``, ``points`` says where the method acts, ``weighs_states`` whether all that it
    does is to weigh the states of a text, ``default_tuning`` what of the backbone learns by default, ``stands_alone``
    whether it cannot be added to other methods, ``reads_descriptions`` whether its vectors of values may be described,
    ``writes_values`` whether values are read as they are written, so that nothing is stored for one,
    ``has_classifiers`` whether it learns by classifiers of its own, ``reads_chunks`` whether texts may be read chunk by
    chunk, and ``stored_texts`` what a saved model has of the training texts, as a sentence for its card.
    Three are references, as ``module:name``, which are loaded when they are needed: ``reader`` to its `Reader` where it
    reads more than the task does, ``memory`` to the `attribune.data.memory.Memory` of training rows that a model keeps,
    and ``further_training`` to the function that trains further, in one process, what was trained for all rows.
    The docstring of a subclass describes its own options, as ``Args:`` at its end; the descriptions of inherited ones
    are appended.

    Raises:
        ConfigError: naming every option that is unknown or has an invalid value.
    """

    model_config = ConfigDict(strict=True)  # the text "off" would count as true

    name: ClassVar[str]
    points: ClassVar[tuple[Point, ...]] = ("sites",)
    weighs_states: ClassVar[bool] = False
    default_tuning: ClassVar[str] = "frozen"
    uses_attributes: ClassVar[bool] = False
    stands_alone: ClassVar[bool] = False
    reads_descriptions: ClassVar[bool] = False
    writes_values: ClassVar[bool] = False
    has_classifiers: ClassVar[bool] = False
    reader: ClassVar[str] = ""
    memory: ClassVar[str] = ""
    reads_chunks: ClassVar[bool] = True
    further_training: ClassVar[str] = ""
    stored_texts: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Append the descriptions of inherited options to the docstring."""
        if cls.__doc__ is None:
            return
        own = _described_options(cls)
        inherited = ChainMap(*map(_described_options, cls.__mro__[1:]))
        lines = [inherited[option] for option in cls.model_fields if option in inherited and option not in own]
        if lines:
            header = [] if own else ["", "Args:"]
            cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__), *header, *lines])

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise ConfigError(_describe(type(self), options, error)) from None

    def build(self, host: Host) -> nn.Module:
        """Build the module, a `Method`."""
        raise NotImplementedError(type(self).__name__)

    def build_within(self, host: Host) -> nn.Module:
        """Build the module for the layers in which the settings let it act."""
        return self.build(host)

    @property
    def feed_forward_option(self) -> str | None:
        """The option by which it acts on `up_proj` and `down_proj`, as a user gives it; None where it does not."""
        return None

    @property
    def is_trained_alone(self) -> bool:
        """Whether it is trained in one process, since each of several would see a part of what it needs."""
        return bool(self.further_training)

    def refusal(self, placement: Placement) -> str | None:
        """Return why the method cannot act in a family, with the cure; None if it can."""
        if "sites" in self.points and not placement.has_sites:
            return (
                f"{self.name}: it acts inside Transformer layers, but {placement.family} have none: choose a method "
                "that acts on the last states or the document vector, such as upa, or another backbone"
            )
        if placement.experts is not None and (option := self.feed_forward_option) is not None:
            return (
                f"{self.name}: {option} acts on the maps of the feed-forward sub-layer, but {placement.family} have "
                "experts in their place: choose another value, or another backbone"
            )
        if self.weighs_states and placement.states == "text":
            return (
                f"{self.name}: it weights the states of a text, but {placement.family} have only one: choose another "
                "method or another backbone"
            )
        return None

    def attribute_refusal(self, names: Sequence[str]) -> str | None:
        """Return why the method cannot read these attributes, with the cure; None if it can."""
        return None

    @property
    def times(self) -> tuple[str, ...]:
        """The column by which rows are ordered, if any."""
        return ()

    @property
    def written_refusal(self) -> str | None:
        """Why no attributes can be chosen whose values are written in front of a text; None if they can."""
        if self.writes_values:
            return "writes the values of all attributes"
        if not self.uses_attributes:
            return "reads no attributes"
        return "puts rows of its own in front of a text" if self.reader else None

    @property
    def written_dropout(self) -> float:
        """Probability that a written attribute is left out of a training row: that with which it is hidden."""
        return float(getattr(self, "attribute_dropout", 0.0))

    def written(self, attributes: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        """Return those attributes of a model whose values are written in front of its texts.

        Args:
            attributes: all that it has.
            chosen: those that are written whatever the method does.
        """
        if self.writes_values:
            return tuple(attributes)
        return () if self.written_refusal else tuple(name for name in attributes if name in chosen)

    def word_options(self, backbone: str, *, attributes: int) -> dict[str, Any]:
        """Return the options that the method needs of a backbone without pretraining, for a number of attributes."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return name and options as plain values."""
        return {"name": self.name, **self.model_dump()}

    @classmethod
    def from_dict(cls, settings: Any, *, source: str | None = None, saved: bool = False) -> Self:
        """Read options from a dictionary without the name; its arguments are those of `Settings.from_dict`."""
        return cls(**{str(option): value for option, value in settings.items()})


class LayerMethodConfig(MethodConfig):
    """Settings of methods that act in the layers alone, or in those from one on (Rücklé et al. 2021, AdapterDrop).

    Args:
        first_layer: the first layer in which the method acts, from 0; what is below it is computed once for all rows of
            a batch that share a text.
    """

    first_layer: NonNegativeInt = 0

    def build_within(self, host: Host) -> nn.Module:
        """Build the module for the sites of the layers from the first on; ConfigError for one that is not there."""
        if self.first_layer >= max(1, len(host.layers)):
            raise ConfigError(
                f"{self.name}: first_layer is {self.first_layer}, but the backbone has the layers 0 to "
                f"{len(host.layers) - 1}, those that share their weights counting once: choose one of them"
            )
        return self.build(replace(host, sites=tuple(site for site in host.sites if site.layer >= self.first_layer)))


class AttributeMethodConfig(MethodConfig):
    """Settings of all methods that read attributes.

    Args:
        attribute_dropout: probability of hiding an attribute of a row in training.
    """

    uses_attributes: ClassVar[bool] = True
    reads_descriptions: ClassVar[bool] = True

    attribute_dropout: Probability = 0.2


class VectorMethodConfig(AttributeMethodConfig):
    """Settings of methods whose vectors have any size and random initial values.

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
        rest = did_you_mean_or(unknown[0], method.model_fields, f"its options: {known}")
        lines.append(f"method {method.name!r} has no option {', '.join(unknown)}{rest}")
    return "; ".join(lines)


def _describe_option(method: type[MethodConfig], options: dict[str, Any], item: Any) -> str:
    option, context = str(item["loc"][0]), item.get("ctx", {})
    field, choices = method.model_fields[option], get_args(method.model_fields[option].annotation)
    start = f"{option} is {options.get(option)!r}"
    if field.description is not None:
        return f"{start}: give {field.description}"
    if item["type"] == "literal_error":
        return f"{start}: choose {' or '.join(map(repr, choices))}"
    if item["type"] in _CURES:
        return f"{start}: {_CURES[item['type']]}{', or null for the default' if type(None) in choices else ''}"
    bounds = [f"{word} {limit}" for key, word in _BOUNDS.items() if (limit := _bound(field, key, context)) is not None]
    return f"{start}, it must be {' and '.join(bounds)}"


def _bound(field: Any, key: str, context: dict[str, Any]) -> Any:
    """Return a limit of an option, whichever of its limits was broken."""
    return next((getattr(limit, key) for limit in field.metadata if hasattr(limit, key)), context.get(key))
