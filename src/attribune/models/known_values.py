"""What of a model depends on the values that it knows: its schema, and the tables with a row for each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribune.schema import Schema
from attribune.schema.revision import Revision

__all__ = ["KnownValues"]


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
