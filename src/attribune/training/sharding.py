"""Attribute tables sharded by rows over the processes that train together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods.row_shard import RowShard
from attribune.models.base import ConditionedModel


class ShardedTables:
    """The attribute tables of a model, sharded over the processes by rows, and gathered for files."""

    def __init__(self, model: ConditionedModel) -> None:
        self._shards: dict[nn.Parameter, RowShard] = {}
        for method in model.values.methods():
            if method.reads_whole_tables:
                raise ConfigError(
                    "the method reads the vectors of all values for each row, and each process has a part of them: "
                    "set training.table_updates to all, or train in one process"
                )
            method.shards = [RowShard(len(table), table.device) for table in method.tables]
            self._shards.update(zip(method.tables, method.shards, strict=True))
        for table, shard in self._shards.items():
            table.data = shard.own(table.data)
        # DistributedDataParallel would make the tables of all processes equal.
        sharded = [name for name, parameter in model.named_parameters() if parameter in self]
        model._ddp_params_and_buffers_to_ignore = sharded

    def squared_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the squared norm of the tables' gradients in all processes, given those of this process."""
        total = torch.stack([gradient.float().square().sum() for gradient in gradients]).sum()
        dist.all_reduce(total)
        return total

    def __contains__(self, parameter: object) -> bool:
        return parameter in self._shards

    @contextmanager
    def written(self, optimizer: Any) -> Iterator[None]:
        """While the block runs, the first process has complete tables and the optimiser's state of all rows."""
        own = [(table, table.data) for table in self._shards]
        state = [(table, dict(optimizer.state[table])) for table in self._shards if optimizer.state.get(table)]
        for table, data in own:
            table.data = self._whole(table, data)
        for table, values in state:
            optimizer.state[table] = {name: self._whole(table, value) for name, value in values.items()}
        try:
            yield
        finally:
            for table, data in own:
                table.data = data
            for table, values in state:
                optimizer.state[table] = values

    @contextmanager
    def read(self) -> Iterator[None]:
        """While the block runs, all processes have complete tables, which are read from a file."""
        for table, shard in self._shards.items():
            table.data = table.new_empty(shard.rows, *table.shape[1:])
        yield
        for table, shard in self._shards.items():
            table.data = shard.own(table.data)

    def keep_own_state(self, optimizer: Any) -> None:
        """Keep this process's rows of an optimiser's state that was read from a file."""
        for table, shard in self._shards.items():
            state = optimizer.state.get(table, {})
            state.update({name: shard.own(value) for name, value in state.items() if value.dim()})

    def gather(self, model: ConditionedModel) -> None:
        """Collect the complete tables in the first process; the others cannot use the model any more."""
        for table in self._shards:
            table.data = self._whole(table, table.data)
        for method in model.values.methods():
            method.shards = []

    def _whole(self, table: nn.Parameter, own: Tensor) -> Tensor:
        """Return the values of all rows in the first process; in others, and for a scalar, the argument itself."""
        gathered = self._shards[table].gather(own) if own.dim() else None
        return own if gathered is None else gathered
