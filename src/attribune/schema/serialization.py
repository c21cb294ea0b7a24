"""A schema as plain JSON values, and as a JSON file with its long vocabularies beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attribune.core.arrays import IntArray
from attribune.core.files import read_json, replace_file, write_json, writing
from attribune.errors import ModelFolderError
from attribune.schema.attributes import FittedAttribute, bin_names
from attribune.schema.description_kinds import FittedField, ValueDescriptions, field_from_dict, field_to_dict
from attribune.schema.kinds import (
    KINDS,
    PART_KINDS,
    Kind,
    VocabularyKind,
    checked_missing,
    checked_names,
)
from attribune.schema.vocabulary import Vocabulary

_FORMAT = "attribune-schema"
_VERSION = 1
_LISTED = 100_000  # values in the JSON file itself
_VALUES = ".values"  # in the name of a file of more
_FEATURES = ".features"  # in the name of a file of descriptions
_BESIDE = (f"{_VALUES}-*.arrow", f"{_FEATURES}-*.safetensors")


def attributes_to_dict(attributes: Sequence[FittedAttribute], missing: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of a schema as plain JSON values, and the texts that mean no value."""
    return _as_dict(map(_attribute_to_dict, attributes), missing)


def attributes_from_dict(data: Any, *, folder: Path | None = None) -> tuple[list[FittedAttribute], tuple[str, ...]]:
    """Return the attributes and the texts that mean no value; see `Schema.from_dict`."""
    if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
        raise ModelFolderError(f"not a schema: 'format' must be {_FORMAT!r}")
    if data.get("version") != _VERSION:
        raise ModelFolderError(
            f"schema version {data.get('version')!r}, but this release reads version {_VERSION}: use the release "
            "that wrote it"
        )
    try:
        missing = checked_missing(data["missing"])
        attributes = [_attribute_from_dict(entry, folder) for entry in data["attributes"]]
        checked_names([attribute.spec for attribute in attributes])
    except KeyError as error:
        raise ModelFolderError(f"the schema lacks {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFolderError(f"the schema contradicts itself: {error}") from error
    return attributes, missing


def write_attributes(path: Path, attributes: Sequence[FittedAttribute], missing: Sequence[str]) -> None:
    """Write a schema file, and a file beside it for each vocabulary of more than 100,000 values.

    Raises:
        ModelFolderError: when a file cannot be written; what was there before is still whole.
    """
    before = [file for kind in _BESIDE for file in path.parent.glob(f"{path.stem}{kind}")]
    write_json(path, _as_dict((_saved_attribute(attribute, path) for attribute in attributes), missing), what="schema")
    used = files_beside(path)
    for file in before:
        if file.name not in used:
            file.unlink(missing_ok=True)


def files_beside(path: str | Path) -> list[str]:
    """Return the names of the files that belong to a schema file: those of long vocabularies and of descriptions."""
    data = read_json(path, what="schema")
    entries = data.get("attributes") if isinstance(data, Mapping) else None
    entries = [entry for entry in entries or () if isinstance(entry, Mapping)]
    descriptions = [entry.get("description") for entry in entries]
    names = [
        *(entry.get("values_file") for entry in entries),
        *(about.get("features_file") for about in descriptions if isinstance(about, Mapping)),
    ]
    return [name for name in names if isinstance(name, str)]


def _as_dict(attributes: Iterable[dict[str, Any]], missing: Sequence[str]) -> dict[str, Any]:
    return {"format": _FORMAT, "version": _VERSION, "missing": list(missing), "attributes": list(attributes)}


def _attribute_to_dict(attribute: FittedAttribute) -> dict[str, Any]:
    return {
        "kind": attribute.spec.kind,
        "spec": asdict(attribute.spec),
        "slots": attribute.slots,
        "values": list(attribute.values) if attribute.spec.lists_values else [],
        "counts": attribute.counts.tolist(),
        "edges": list(attribute.edges),
        "check": attribute.check,
        **({} if attribute.description is None else {"description": _description_to_dict(attribute.description)}),
    }


def _description_to_dict(description: ValueDescriptions) -> dict[str, Any]:
    listed = [
        {
            "spec": field_to_dict(one.spec),
            "categories": list(one.categories),
            "slots": one.slots,
            "mean": one.mean.tolist(),
            "scale": one.scale.tolist(),
        }
        for one in description.fields
    ]
    return {"own_vectors": description.own_vectors, "fields": listed, "features": description.features.tolist()}


def _saved_attribute(attribute: FittedAttribute, path: Path) -> dict[str, Any]:
    """Do as `_attribute_to_dict`, but write descriptions, and a long list of values, to files beside the schema's."""
    short, beside = replace(attribute, description=None), dict[str, Any]()
    failure = f"cannot be written to {path.parent}"
    if len(attribute.values) > _LISTED and not attribute.spec.is_numeric:
        with writing(f"the {len(attribute.values):,} values of attribute {attribute.name!r} {failure}"):
            file = attribute.values.write(path.parent, f"{path.stem}{_VALUES}", counts=attribute.counts[1:])
        short = replace(short, values=Vocabulary(), counts=attribute.counts[:1])
        beside["values_file"] = file.name
    if (description := attribute.description) is not None:
        file = path.parent / f"{path.stem}{_FEATURES}-{description.digest()}.safetensors"
        with writing(f"the descriptions of the values of {attribute.name!r} {failure}"):
            replace_file(file, save({"features": np.ascontiguousarray(description.features)}))
        about = _description_to_dict(replace(description, features=description.features[:0]))
        beside["description"] = {**about, "features_file": file.name}
    return {**_attribute_to_dict(short), **beside}


@contextmanager
def _file_beside(entry: Mapping[str, Any], key: str, folder: Path | None, *, what: str) -> Iterator[Path]:
    """Give the file that an entry names; a ValueError says what is in it when it is none, or cannot be read."""
    name = entry[key]
    if folder is None or not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"{key} {name!r} is not a file beside the schema's")
    named = what.format(folder / name)
    try:
        yield folder / name
    except OSError as error:
        raise ValueError(f"{named} cannot be read ({error.strerror or error})") from error
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{named} are truncated or foreign ({error})") from error


def _attribute_from_dict(entry: Mapping[str, Any], folder: Path | None) -> FittedAttribute:
    """Build one attribute; anything wrong is a ValueError, TypeError or KeyError."""
    kinds = KINDS | PART_KINDS
    if entry["kind"] not in kinds:
        raise ValueError(f"unknown kind of attribute {entry['kind']!r}")
    spec = kinds[entry["kind"]](**entry["spec"])
    edges = tuple(float(edge) for edge in entry["edges"])
    if "values_file" in entry:
        with _file_beside(entry, "values_file", folder, what="its values, {},") as file:
            values, counts = Vocabulary.read(file)
        counts = np.concatenate([np.array(entry["counts"], dtype=np.int64), counts])
    else:
        listed = bin_names(list(edges)) if spec.is_numeric else entry["values"]
        if not isinstance(listed, list | tuple) or not all(isinstance(value, str) and value for value in listed):
            raise ValueError(f"attribute {spec.name!r} has a value that is empty or not text")
        values, counts = Vocabulary(listed), np.array(entry["counts"], dtype=np.int64)
    size = 1 + (spec.buckets if spec.unseen == "hash" else len(values))
    _check_parts(spec, values=values, counts=counts, edges=edges, size=size)
    slots = entry["slots"]
    if not isinstance(slots, int) or not 1 <= slots <= spec.max_per_row:
        raise ValueError(f"attribute {spec.name!r} has {slots!r} slots, not 1 to {spec.max_per_row}")
    description = entry.get("description")
    return FittedAttribute(
        spec=spec,
        slots=slots,
        values=values,
        counts=counts,
        edges=edges,
        check=entry["check"],
        description=None if description is None else _description_from_dict(description, size, folder),
    )


def _description_from_dict(about: Mapping[str, Any], size: int, folder: Path | None) -> ValueDescriptions:
    """Build the descriptions of the values of `size` ids; anything wrong is a ValueError, TypeError or KeyError."""
    fields = []
    for entry in about["fields"]:
        spec = field_from_dict(entry["spec"])
        mean, scale = (np.array(entry[name], dtype=np.float32) for name in ("mean", "scale"))
        figures = (*mean, *scale)
        if mean.ndim != 1 or mean.shape != scale.shape or not np.isfinite(figures).all() or (scale <= 0).any():
            raise ValueError(f"column {spec.name!r} has a mean or scale that is not a list of numbers")
        categories, slots = Vocabulary(entry["categories"]), entry["slots"]
        most = spec.max_per_row if isinstance(spec, VocabularyKind) else 0
        if not isinstance(slots, int) or not min(most, 1) <= slots <= most or bool(categories) != bool(most):
            raise ValueError(f"column {spec.name!r} of kind {spec.kind} has {slots!r} slots")
        if categories.repeated() is not None:
            raise ValueError(f"column {spec.name!r} lists {categories.repeated()!r} twice")
        fields.append(FittedField(spec=spec, categories=categories, slots=slots, mean=mean, scale=scale))
    if not isinstance(about["own_vectors"], bool):
        raise ValueError(f"own_vectors is {about['own_vectors']!r}")
    if "features_file" in about:
        with _file_beside(about, "features_file", folder, what="the descriptions {}") as file:
            features = load(file.read_bytes())["features"]
    else:
        features = about["features"]
    features = np.array(features, dtype=np.float32)
    width = sum(one.width for one in fields)
    if features.shape != (size, width) or not np.isfinite(features).all():
        raise ValueError(f"the descriptions have shape {features.shape} for {size} ids and {width} features")
    return ValueDescriptions(fields=tuple(fields), features=features, own_vectors=about["own_vectors"])


def _check_parts(spec: Kind, *, values: Vocabulary, counts: IntArray, edges: tuple[float, ...], size: int) -> None:
    if counts.shape != (size,) or (counts < 0).any():
        raise ValueError(f"attribute {spec.name!r} has counts of shape {counts.shape} for {size} ids, or negative ones")
    if (twice := values.repeated()) is not None:
        raise ValueError(f"attribute {spec.name!r} lists {twice!r} twice")
    if (size == 1 and spec.is_numeric) or (values and size != len(values) + 1):
        raise ValueError(f"attribute {spec.name!r} lists {len(values)} values for {size} ids")
    ascending = all(low < high for low, high in pairwise(edges))
    if not np.isfinite(edges).all() or not ascending or (edges and not spec.is_numeric):
        raise ValueError(f"attribute {spec.name!r} has edges that are not ascending numbers of a Numeric: {edges[:5]}")
