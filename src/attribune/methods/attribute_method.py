"""Methods that read attributes: a table of vectors for each, attribute dropout, and the look-up of a batch's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attribune.core.device import is_recorded
from attribune.errors import ConfigError
from attribune.methods.base import Method
from attribune.methods.condition import Condition, Values
from attribune.methods.config import MethodConfig, VectorMethodConfig
from attribune.methods.descriptions import DescribedValues
from attribune.methods.dropout import drop_attributes
from attribune.methods.host import Host
from attribune.methods.plan import Plan, PlannedRows, Watch
from attribune.methods.shapes import AttributeIds, DropoutDraw
from attribune.schema.attributes import Slots

if TYPE_CHECKING:
    from attribune.methods.row_shard import RowShard

_meta_tables: ContextVar[bool] = ContextVar("meta_tables", default=False)


@contextmanager
def meta_tables() -> Iterator[None]:
    """Build methods in this block with tables on the meta device, to be replaced when weights are loaded."""
    token = _meta_tables.set(True)
    try:
        yield
    finally:
        _meta_tables.reset(token)


def has_meta_tables() -> bool:
    """Whether methods are built with tables on the meta device just now."""
    return _meta_tables.get()


class AttributeMethod(Method):
    """A method that reads attributes: one table of vectors (size, Z) for each.

    The vector of id 0 is zero; with ``learns_unknown`` it is learned like all others, and attribute dropout trains it.
    With ``sparse_gradients`` the gradients of tables hold the rows of the batch only, which not every optimiser
    supports; a method that ``reads_whole_tables`` reads the vectors of all values for each row, and has dense ones.
    With ``shards`` each process holds a part of the rows of every table; see `attribune.training.sharding`.

    To the vector of a value in its table, its own, is added what its description says, `DescribedValues`. In training
    attribute dropout also hides each of the two parts alone: the vector of id 0 stands for that of the value, as it
    does where a value has no rows. Where values have no vectors of their own, that is the only row of the table.

    Args:
        sizes: Z of each attribute; None for methods that read ids without vectors.
        initial: fills a table with its initial values, in place.

    Raises:
        ConfigError: for a schema without attributes.
    """

    learns_unknown: ClassVar[bool] = False
    reads_whole_tables: ClassVar[bool] = False
    sparse_gradients: bool = False

    def __init__(
        self,
        config: MethodConfig,
        host: Host,
        *,
        sizes: Sequence[int] | None = None,
        initial: Callable[[Tensor], Any] = nn.init.zeros_,
    ) -> None:
        super().__init__()
        if not host.slots:
            raise ConfigError(
                f"{config.name}: the schema has no attribute; name at least one, or use a method that reads none"
            )
        self.slots = tuple(host.slots)
        self.shards: list[RowShard] = []
        self._packed: tuple[Watch, Plan | None] | None = None
        self._kept: Plan | None = None
        self.attribute_dropout: float = getattr(config, "attribute_dropout", 0.0)
        self.tables = nn.ParameterList()
        self.described = nn.ModuleDict()
        for number, (attribute, size) in enumerate(() if sizes is None else zip(self.slots, sizes, strict=True)):
            self.tables.append(self._new_table(attribute, size, initial))
            if attribute.description is not None:
                self.described[str(number)] = DescribedValues(attribute.description, attribute.counts, size)

    def _new_table(self, attribute: Slots, size: int, initial: Callable[[Tensor], Any]) -> nn.Parameter:
        rows = attribute.size if attribute.has_own_vectors else 1
        table = nn.Parameter(torch.empty(rows, size, device="meta" if _meta_tables.get() else None))
        with torch.no_grad():
            initial(table)
            if not self.learns_unknown:
                table[0] = 0
        return table

    def use_slots(self, slots: Sequence[Slots]) -> None:
        """Read the same attributes with other values; their tables are changed beside."""
        self.slots = tuple(slots)
        for number, described in self.described.items():
            attribute = self.slots[int(number)]
            assert attribute.description is not None
            cast(DescribedValues, described).use_values(attribute.description, attribute.counts)

    @contextmanager
    def adding_values(self) -> Iterator[None]:
        """Keep the plan over a change in which all known values keep their ids and vectors, if it serves the new ones.

        Whether a plan serves the values of a table is found by looking at all of them.
        """
        kept = None if self._packed is None or self._packed[0].sees_change() else self._packed[1]
        sizes = [len(table) for table in self.tables]
        yield
        added = [table.detach()[size:] for table, size in zip(self.tables, sizes, strict=True)]
        if kept is not None and kept.serves(added):
            self._packed = self._watch(), kept

    def rows_of_values(self) -> Iterator[tuple[nn.Parameter, str]]:
        """Yield each parameter with one row per id of an attribute, and the name of that attribute."""
        for slots, table in zip(self.slots, self.tables, strict=False):  # there may be no tables
            if slots.has_own_vectors:
                yield cast(nn.Parameter, table), slots.name

    def described_values(self) -> Iterator[tuple[DescribedValues, str]]:
        """Yield what maps descriptions to vectors, and the name of the attribute whose values are described."""
        for number, described in self.described.items():
            yield cast(DescribedValues, described), self.slots[int(number)].name

    @property
    def vector_sizes(self) -> dict[str, int]:
        """Z of each attribute; empty for a method without vectors."""
        return {slots.name: table.shape[1] for slots, table in zip(self.slots, self.tables, strict=False)}

    def look_up(self, number: int, ids: Int[Tensor, "..."]) -> Float[Tensor, "... Z"]:
        """Compute the vectors of ids of one attribute, numbered from 0."""
        if str(number) not in self.described:
            return self._own_vectors(number, ids)
        described = cast(DescribedValues, self.described[str(number)])
        own, said = described.own_ids[ids], ids
        if self.training and self.attribute_dropout > 0:
            own, said = (x * (torch.rand(x.shape, device=x.device) >= self.attribute_dropout) for x in (own, said))
        vectors = self._own_vectors(number, own)
        if not self.learns_unknown:  # the vector of id 0 stays zero
            vectors = vectors * (own != 0).unsqueeze(-1)
        return vectors + cast(Tensor, described(said))

    def vectors_of_all(self, number: int) -> Float[Tensor, "ids Z"]:
        """Compute the vectors of all ids of an attribute."""
        table = self.tables[number]
        if str(number) not in self.described:
            return cast(Tensor, table)
        return self.look_up(number, torch.arange(self.slots[number].size, device=table.device))

    def _own_vectors(self, number: int, ids: Int[Tensor, "..."]) -> Float[Tensor, "... Z"]:
        table = self.tables[number]
        if self.shards:
            return self.shards[number].look_up(ids.reshape(-1), table).view(*ids.shape, -1)
        # Compiled code cannot return a sparse gradient.
        sparse = self.sparse_gradients and not torch.compiler.is_compiling()
        return nn.functional.embedding(ids, table, sparse=sparse)

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        """Collect the distinct values of the batch, after attribute dropout in training."""
        assert attribute_ids is not None
        if self.training and self.attribute_dropout > 0:
            attribute_ids = drop_attributes(attribute_ids, self.slots, self.attribute_dropout, draw)
        values = tuple(
            Values.collect(slots.of(attribute_ids), partial(self.look_up, number), unknown=self.learns_unknown)
            for number, slots in enumerate(self.slots[: len(self.tables)])
        )
        return Condition(rows=rows, ids=attribute_ids, values=values)

    def plan(self) -> Plan | None:
        """Return the plan of passes without gradients; None if the method has none, or not for its parameters."""
        return None

    def planned(self, attribute_ids: AttributeIds, rows: int) -> Condition | None:
        """Return the condition of a pass by plan: of one value per attribute, which has a vector of its own."""
        is_traced = is_recorded()
        plan = self._kept if is_traced else self._plan_now()
        if plan is None or not (is_traced or plan.most_rows is None or rows <= plan.most_rows):
            return None
        ids = [slots.of(attribute_ids)[:, 0] for slots in self.slots]
        tables = [table.detach() for table in self.tables]  # an exporter may ask for gradients
        vectors = [nn.functional.embedding(one, table) for one, table in zip(ids, tables, strict=True)]
        return Condition(rows=rows, ids=attribute_ids, planned=PlannedRows(plan, vectors))

    def _plan_now(self) -> Plan | None:
        """Return the plan of the parameters as they are; None where there is none."""
        if not self._can_plan or any(slots.count > 1 for slots in self.slots):
            return None
        if self._packed is None or self._packed[0].sees_change():
            watch = self._watch()
            with torch.no_grad():
                # A row without a value has the vector of id 0, which is zero unless it is learned.
                is_zero = self.learns_unknown or not any(table[0].any() for table in self.tables)
                self._packed = watch, self.plan() if watch.is_possible and is_zero else None
        return self._packed[1]

    def _watch(self) -> Watch:
        """Watch what a plan is made of."""
        return Watch([self, *self.modules_at])

    @contextmanager
    def keeping_plan(self, dtype: torch.dtype) -> Iterator[None]:
        """Let passes that are recorded within a block act by the plan of the parameters as they are now.

        Args:
            dtype: of the states.
        """
        self._kept = self._plan_now()
        if self._kept is not None:
            self._kept.packed(dtype)
        try:
            yield
        finally:
            self._kept = None

    @property
    def _can_plan(self) -> bool:
        """Whether the vectors of all values are the rows of their tables."""
        is_own = not self.described and not self.shards and len(self.tables) == len(self.slots)
        return is_own and type(self).plan is not AttributeMethod.plan

    def train(self, mode: bool = True) -> Self:
        """Switch to training, after which plans are packed anew, since fused optimisers change no versions."""
        self._packed = None if mode else self._packed
        return super().train(mode)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self._packed = None
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_packed": None}


class VectorMethod(AttributeMethod):
    """A method whose vectors all have size Z and start as N(0, s²)."""

    def __init__(self, config: VectorMethodConfig, host: Host) -> None:
        super().__init__(
            config,
            host,
            sizes=[config.vector_size] * len(host.slots),
            initial=partial(nn.init.normal_, std=config.initial_vector),
        )
