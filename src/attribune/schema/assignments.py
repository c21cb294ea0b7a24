"""Values that a user gives by hand, such as ``user=u17``, as the ids of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError, DataError
from attribune.schema.attributes import SEARCHABLE, FittedAttribute, NoNumberError
from attribune.schema.kinds import MultiLabel
from attribune.schema.schema import Schema

__all__ = ["assigned_ids", "assignments_text", "parse_assignments"]


def parse_assignments(words: Sequence[str]) -> dict[str, list[str]]:
    """Read ``user=u17`` and the like: attribute to its values, in the order of the words.

    Raises:
        ConfigError: for a word without a name, an equals sign or a value.
    """
    assignments: dict[str, list[str]] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise ConfigError(f"{word!r} does not name a value: write it as user=u17, and leave out what is not known")
        assignments.setdefault(name.strip(), []).append(value)
    return assignments


def assignments_text(assignments: Mapping[str, Sequence[str]]) -> str:
    """Write values as a user does."""
    return " ".join(f"{name}={value}" for name, values in assignments.items() for value in values) or "no attributes"


def assigned_ids(schema: Schema, assignments: Mapping[str, Sequence[str]]) -> npt.NDArray[np.int64]:
    """Return the ids (slots,) of a row that has these values and no others.

    Args:
        assignments: attribute to its values; only a multi-label attribute has several.

    Raises:
        ConfigError: for an unknown attribute or value, with the closest known ones, or too many values.
    """
    for name in assignments:
        if name not in schema.names:
            raise ConfigError(
                f"the model has no attribute {name!r}{did_you_mean(name, schema.names, most=3)} (attributes: "
                f"{', '.join(schema.names) or 'none'})"
            )
    columns = {attribute.name: _column(attribute, assignments.get(attribute.name, ())) for attribute in schema}
    try:
        ids, report = schema.encode(columns)
    except NoNumberError as error:
        raise error.of_one_value() from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    for name, values in assignments.items():
        counts, attribute = report.attributes[name], schema[name]
        if counts.unseen:
            known = attribute.values
            new = next((value for value in values if value.strip() not in known), values[0])
            hint = did_you_mean(new, known, most=3) if len(known) <= SEARCHABLE else ""
            cure = hint or ": correct it, or leave it out"
            raise ConfigError(f"attribute {name!r} has no value {new!r} in training{cure}")
        if counts.missing:
            raise ConfigError(f"attribute {name!r}: {values[0]!r} means that there is no value: leave it out")
        if counts.dropped:
            raise ConfigError(f"attribute {name!r} has room for {attribute.slots} values, but {len(values)} are given")
    return ids[0] if len(schema) else np.zeros(0, dtype=np.int64)


def _column(attribute: FittedAttribute, values: Sequence[str]) -> pa.Array:
    if isinstance(attribute.spec, MultiLabel):
        return pa.array([list(values)], type=pa.list_(pa.string()))
    if len(values) > 1:
        raise ConfigError(f"attribute {attribute.name!r} has one value for each row, but {len(values)} are given")
    return pa.array([values[0] if values else None], type=pa.string())
