"""What a model holds of the values of attributes: tables of their vectors, and what maps descriptions to vectors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attribune.errors import ConfigError, ModelFolderError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import SiteModule
from attribune.methods.config import MethodConfig
from attribune.methods.descriptions import DescribedValues
from attribune.models.attribute_vectors import AttributeVectors
from attribune.models.known_values import KnownValues
from attribune.schema import Schema
from attribune.schema.slots import Slots

__all__ = ["ValueTables"]


class ValueTables(PreTrainedModel):
    """A model whose methods have vectors of values: which they are, and how other values are taken over."""

    schema: Schema
    slots: tuple[Slots, ...]
    method_config: MethodConfig

    def attribute_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that read attributes, by name: those of the method without its task adapters."""
        readers, others = list[str](), list[str]()
        for name, module in self.named_modules():
            if isinstance(module, AttributeMethod):
                readers.append(f"{name}.")
            elif isinstance(module, SiteModule):
                (readers if module.reads_attributes else others).append(f"{name}.")
        named = self.named_parameters()
        return {name: p for name, p in named if name.startswith(tuple(readers)) and not name.startswith(tuple(others))}

    def _attribute_methods(self) -> list[AttributeMethod]:
        return [module for module in self.modules() if isinstance(module, AttributeMethod)]

    def rows_of_values(self) -> dict[str, str]:
        """Return the names of the parameters with one row per id of an attribute, and the attribute of each."""
        owners = {id(p): name for method in self._attribute_methods() for p, name in method.rows_of_values()}
        return {name: owners[id(p)] for name, p in self.named_parameters() if id(p) in owners}

    def known_values(self) -> KnownValues:
        """Return what depends on the values that the model knows; the tables are its own, not copies."""
        owners = self.rows_of_values()
        tables = {name: self.get_parameter(name).detach() for name in owners}
        return KnownValues(schema=self.schema, tables=tables, owners=owners)

    def use_values(self, known: KnownValues, *, adds: bool = False) -> None:
        """Know other values from now on.

        Args:
            adds: whether all values known before keep their ids and vectors, so that weights cached for them stay.
        """
        methods = self._attribute_methods()
        with ExitStack() as caches:
            for method in methods if adds else ():
                caches.enter_context(method.cache_kept())
            for name, table in known.tables.items():
                self.get_parameter(name).data = table
        for method in () if adds else methods:
            method.clear_caches()
        self.schema, self.slots = known.schema, known.schema.layout
        for method in methods:
            method.use_slots(self.slots)

    def described_values(self) -> list[tuple[DescribedValues, str]]:
        """Return what maps descriptions of values to vectors, and the attribute of each."""
        return [pair for method in self._attribute_methods() for pair in method.described_values()]

    def value_vectors(self, attribute: str, *, count: int) -> npt.NDArray[np.float64]:
        """Return what was learned of the first `count` values of an attribute, (count, numbers).

        These are their own vectors, and those that their descriptions give.
        """
        tables = [self.get_parameter(name) for name, of in self.rows_of_values().items() if of == attribute]
        said = [one for one, of in self.described_values() if of == attribute]
        vectors = [table.detach()[1 : count + 1].flatten(1) for table in tables]
        with torch.no_grad():
            vectors += [one(torch.arange(1, count + 1, device=one.features.device)) for one in said]
        return np.concatenate([x.double().cpu().numpy() for x in vectors], axis=1) if vectors else np.zeros((count, 0))

    def attribute_vectors(self, attribute: str) -> AttributeVectors:
        """Return the vectors of an attribute's values by value, which can be set.

            model.attribute_vectors("user")["u17"]

        Raises:
            ConfigError: for an attribute that the model does not have, or whose values have no vectors of their own.
        """
        fitted = self.schema[attribute]
        tables = [self.get_parameter(name) for name, of in self.rows_of_values().items() if of == attribute]
        if not tables or not fitted.spec.lists_values:
            raise ConfigError(
                f"the values of {attribute!r} have no vectors of their own under the method "
                f"{self.method_config.name!r}: name an attribute whose values are listed, of a method with tables"
            )
        return AttributeVectors(fitted, tables)

    def attribute_tables(self) -> set[str]:
        """Return the names of the tables with one vector per value."""
        tables = {id(p) for method in self._attribute_methods() for p in method.tables}
        return {name for name, p in self.named_parameters() if id(p) in tables}

    def load_tables(self, tensors: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
        """Replace the attribute tables by tensors that are memory-mapped from a file; returns the new parameters."""
        parameters = {}
        for name in self.attribute_tables():
            table, tensor = self.get_parameter(name), tensors[name]
            if tensor.shape != table.shape:
                raise ModelFolderError(
                    f"the table {name} has shape {tuple(tensor.shape)}, but the schema needs {tuple(table.shape)}: the "
                    "files come from two different saves; copy the folder again"
                )
            owner, _, attribute = name.rpartition(".")
            parameters[name] = nn.Parameter(tensor.to(table.dtype))
            setattr(self.get_submodule(owner), attribute, parameters[name])
        return parameters
