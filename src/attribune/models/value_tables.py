"""What a model holds of the values of attributes: tables of their vectors, and what maps descriptions to vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from attribune.core.door import as_call
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import SiteModule
from attribune.methods.descriptions import DescribedValues
from attribune.schema import Schema
from attribune.schema.attributes import FittedAttribute
from attribune.schema.columns import canonical
from attribune.schema.schema import Revision


class AttributeVectors(Mapping[str, npt.NDArray[np.float64]]):
    """The vector (D,) of each value of an attribute, which can be set.

        vectors = model.attribute_vectors("user")
        vectors["u17"] = vectors["u3"]

    A vector has all that the model learned of the value alone: its rows of all tables, one behind the other. Values are
    compared as in tables, so that 17 and ``"17"`` are one; what their descriptions give is not among the vectors.

    Args:
        attribute: its values are those that the model knows now.
        tables: (ids, ...) each, the model's own; what is set is changed there, and `save_pretrained` writes it.
    """

    def __init__(self, attribute: FittedAttribute, tables: Sequence[nn.Parameter]) -> None:
        self.attribute, self._values, self._tables = attribute.name, attribute.values, tuple(tables)

    @property
    def size(self) -> int:
        """D, the number of numbers of a vector."""
        return sum(table[0].numel() for table in self._tables)

    def __repr__(self) -> str:
        return f"<vectors of {len(self):,} values of {self.attribute!r}, {self.size:,} numbers each>"

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, value: object) -> bool:
        return self._find(value) is not None

    def __getitem__(self, value: object) -> npt.NDArray[np.float64]:
        vectors = self._rows([self._id(value)])
        return vectors.reshape(-1)

    def get(self, value: object, default: Any = None) -> Any:
        """Return the vector of a value, or `default` for one that the model does not know."""
        found = self._find(value)
        return default if found is None else self._rows([found])[0]

    def __setitem__(self, value: object, vector: npt.ArrayLike) -> None:
        self._set(np.array([self._id(value)]), self._numbers([vector], what=f"the vector of {value!r:.80}"))

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each value, with the values as index and the numbers as columns 0 to D - 1."""
        return pd.DataFrame(self._rows(range(1, len(self) + 1)), index=pd.Index(list(self), name=self.attribute))

    def load(self, frame: pd.DataFrame) -> None:
        """Set the vectors of a DataFrame as `to_pandas` returns it, of all values or of some.

        Raises:
            DataError: for a value that the model does not know, or rows that are no vectors; then nothing is set.
        """
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"the vectors are {type(frame).__name__}: give a DataFrame, with the values as its index")
        ids = np.array([self._id(value) for value in frame.index], dtype=np.int64)
        if (repeated := pd.Series(ids).duplicated()).any():
            raise DataError(f"the value {frame.index[repeated][0]!r} has several rows: keep one")
        columns = [str(name) for name in frame.columns]
        places = [str(place) for place in range(self.size)]
        if columns != places and sorted(columns) == sorted(places):  # those of `to_pandas` in another order
            frame = frame.iloc[:, [columns.index(place) for place in places]]
        self._set(ids, self._numbers(frame, what="the DataFrame"))

    def _find(self, value: object) -> int | None:
        """Return the id of a value, None for one that is not known."""
        text = canonical(value)
        found = 0 if text is None else int(self._values.ids([text])[0])
        return found if found > 0 else None

    def _id(self, value: object) -> int:
        if (found := self._find(value)) is None:
            raise DataError(
                f"the model does not know the value {value!r:.80} of {self.attribute!r}: choose one of its "
                f"{len(self):,} values, or add it with {as_call('enrol')}"
            )
        return found

    def _rows(self, ids: Iterable[int]) -> npt.NDArray[np.float64]:
        """Return the vectors (n, D) of ids."""
        rows = [table.detach()[list(ids)].flatten(1) for table in self._tables]
        return np.asarray(torch.cat([part.double() for part in rows], dim=1).cpu().numpy())

    def _numbers(self, vectors: Any, *, what: str) -> npt.NDArray[np.float64]:
        try:
            numbers = np.array(vectors, dtype=np.float64, order="C")  # a copy, which torch can read
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{what} has something that is not a number ({error}): give {self.size} numbers for a value"
            ) from None
        if numbers.ndim != 2 or numbers.shape[1] != self.size or not np.isfinite(numbers).all():
            shape = numbers.shape[1:]
            raise DataError(f"{what} has the shape {shape}: give {self.size} finite numbers for a value")
        return numbers

    @torch.no_grad()
    def _set(self, ids: npt.NDArray[np.int64], numbers: npt.NDArray[np.float64]) -> None:
        """Set the vectors (n, D) of ids."""
        start, index = 0, torch.from_numpy(ids)
        for table in self._tables:
            width = table[0].numel()
            part = torch.from_numpy(numbers[:, start : start + width]).reshape(len(ids), *table.shape[1:])
            table[index.to(table.device)] = part.to(table.device, table.dtype)
            start += width


_SPREAD_VALUES = 10_000  # number of the most frequent values, from whose vectors the spread is computed


@dataclass(frozen=True, kw_only=True)
class KnownValues:
    """The values that a model knows.

    Attributes:
        tables: (ids, ...) each, by the name of the parameter.
        owners: the attribute of each table.
    """

    schema: Schema
    tables: Mapping[str, Tensor]
    owners: Mapping[str, str]

    def revised(self, revision: Revision) -> KnownValues:
        """Return these with values added or taken away; a new one starts with the vectors of unknown values."""
        tables = dict(self.tables)
        for name, attribute in self.owners.items():
            if attribute in revision.ids:
                ids = torch.from_numpy(revision.ids[attribute])
                tables[name] = tables[name][ids.to(tables[name].device)]
        return replace(self, schema=revision.schema, tables=tables)


class ValueTables:
    """The values of a model: which they are, what was learned of them, and how other values are taken over.

    Args:
        model: a `ConditionedModel`, of which this is a part.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that read attributes, by name: those of the method without its task adapters."""
        readers, others = list[str](), list[str]()
        for name, module in self._model.named_modules():
            if isinstance(module, AttributeMethod):
                readers.append(f"{name}.")
            elif isinstance(module, SiteModule):
                (readers if module.reads_attributes else others).append(f"{name}.")
        named = self._model.named_parameters()
        return {name: p for name, p in named if name.startswith(tuple(readers)) and not name.startswith(tuple(others))}

    def methods(self) -> list[AttributeMethod]:
        """Return the methods that read attributes: that of the model, or those that it combines."""
        return [module for module in self._model.modules() if isinstance(module, AttributeMethod)]

    def owners(self) -> dict[str, str]:
        """Return the names of the parameters with one row per id of an attribute, and the attribute of each."""
        owners = {id(p): name for method in self.methods() for p, name in method.rows_of_values()}
        return {name: owners[id(p)] for name, p in self._model.named_parameters() if id(p) in owners}

    def names(self, attribute: str) -> list[str]:
        """Return the names of the parameters that have a row for each value of an attribute."""
        return [name for name, owner in self.owners().items() if owner == attribute]

    def _tables_of(self, attribute: str) -> list[nn.Parameter]:
        return [self._model.get_parameter(name) for name in self.names(attribute)]

    def size(self, attribute: str) -> int:
        """Return D, the size of a value's vectors in all tables."""
        return sum(table[0].numel() for table in self._tables_of(attribute))

    def known(self) -> KnownValues:
        """Return what depends on the values that the model knows; the tables are its own, not copies."""
        owners = self.owners()
        tables = {name: self._model.get_parameter(name).detach() for name in owners}
        return KnownValues(schema=self._model.schema, tables=tables, owners=owners)

    def use(self, known: KnownValues, *, adds: bool = False) -> None:
        """Know other values from now on.

        Args:
            adds: whether all values known before keep their ids and vectors, so that plans may stay.
        """
        methods = self.methods()
        with ExitStack() as additions:
            for method in methods if adds else ():
                additions.enter_context(method.adding_values())
            for name, table in known.tables.items():
                self._model.get_parameter(name).data = table
        self._model.schema, self._model.slots = known.schema, known.schema.layout
        self._model.blend = self._model.blend_under(known.schema)
        for method in methods:
            method.use_slots(self._model.slots)

    def are_apart(self) -> bool:
        """Whether rows depend on the vectors of their own values alone, which are all in this process."""
        return not any(method.reads_whole_tables or method.shards for method in self.methods())

    def described(self) -> list[tuple[DescribedValues, str]]:
        """Return what maps descriptions of values to vectors, and the attribute of each."""
        return [pair for method in self.methods() for pair in method.described_values()]

    def vectors(self, attribute: str, *, count: int) -> npt.NDArray[np.float64]:
        """Return what was learned of the first `count` values of an attribute, (count, numbers).

        These are their own vectors, and those that their descriptions give.
        """
        tables = self._tables_of(attribute)
        said = [one for one, of in self.described() if of == attribute]
        vectors = [table.detach()[1 : count + 1].flatten(1) for table in tables]
        with torch.no_grad():
            vectors += [one(torch.arange(1, count + 1, device=one.features.device)) for one in said]
        return np.concatenate([x.double().cpu().numpy() for x in vectors], axis=1) if vectors else np.zeros((count, 0))

    def by_value(self, attribute: str) -> AttributeVectors:
        """Return the vectors of an attribute's values by value, which can be set.

        Raises:
            ConfigError: for an attribute that the model does not have, or whose values have no vectors of their own.
        """
        fitted = self._model.schema[attribute]
        tables = self._tables_of(attribute)
        if not tables or not fitted.spec.lists_values:
            raise ConfigError(
                f"the values of {attribute!r} have no vectors of their own under the method "
                f"{self._model.method_config.name!r}: name an attribute whose values are listed, of a method with "
                "tables"
            )
        return AttributeVectors(fitted, tables)

    def tables(self) -> set[str]:
        """Return the names of the tables with one vector per value."""
        tables = {id(p) for method in self.methods() for p in method.tables}
        return {name for name, p in self._model.named_parameters() if id(p) in tables}

    def load(self, tensors: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
        """Replace the attribute tables by tensors that are memory-mapped from a file; returns the new parameters."""
        parameters = {}
        for name in self.tables():
            table, tensor = self._model.get_parameter(name), tensors[name]
            if tensor.shape != table.shape:
                raise ModelFolderError(
                    f"the table {name} has shape {tuple(tensor.shape)}, but the schema needs {tuple(table.shape)}: the "
                    "files come from two different saves; copy the folder again"
                )
            owner, _, attribute = name.rpartition(".")
            parameters[name] = nn.Parameter(tensor.to(table.dtype))
            setattr(self._model.get_submodule(owner), attribute, parameters[name])
        return parameters


def value_spread(parameter: nn.Parameter, counts: npt.NDArray[np.int64]) -> Tensor:
    """Return how far the vectors of the most frequent values are from the unknown one, root mean squares (...).

    Args:
        parameter: (ids, ...), a row for each id.
        counts: (known ids,) training rows of each of the first ids; those without any are not learned.
    """
    rows = parameter.detach()
    learned = np.flatnonzero(counts[1:_SPREAD_VALUES] > 0) + 1
    change = rows[torch.from_numpy(learned).to(rows.device)] - rows[0]
    return change.square().sum(dim=0).div(max(len(learned), 1)).sqrt()
