"""Attribute tables sharded by rows over the processes that train together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.row_shard import RowShard

__all__ = ["ShardedTables"]


class ShardedTables:
    """The attribute tables of a model: sharded over the processes, gathered for files.

    Args:
        model: of which each process keeps its own rows alone from now on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._shards: dict[nn.Parameter, RowShard] = {}
        methods = [module for module in model.modules() if isinstance(module, AttributeMethod)]
        for method in methods:
            method.shards = [RowShard(len(table), table.device) for table in method.tables]
            self._shards.update(zip(method.tables, method.shards, strict=True))
        for table, shard in self._shards.items():
            table.data = shard.own(table.data)
        # DistributedDataParallel would make the tables of all processes equal.
        names = [name for name, parameter in model.named_parameters() if parameter in self._shards]
        model._ddp_params_and_buffers_to_ignore = names  # type: ignore[assignment]

    def squared_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Of the tables' gradients in all processes, of which this one has these."""
        total = torch.stack([gradient.float().square().sum() for gradient in gradients]).sum()
        dist.all_reduce(total)
        return total

    def __contains__(self, parameter: object) -> bool:
        return parameter in self._shards

    @contextmanager
    def written(self, optimizer: Any) -> Iterator[None]:
        """For the duration of a block, the first process has whole tables and the optimiser's state of all rows."""
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
        """For the duration of a block, in which they are read from a file, all have whole tables."""
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

    def gather(self, model: nn.Module) -> None:
        """Give the first process the whole tables; the others have no further use for the model."""
        for table in self._shards:
            table.data = self._whole(table, table.data)
        for method in (module for module in model.modules() if isinstance(module, AttributeMethod)):
            method.shards = []

    def _whole(self, table: nn.Parameter, own: Tensor) -> Tensor:
        """All rows of what there is for each row, in the first process; else, and where it is one number, as it is."""
        whole = self._shards[table].gather(own) if own.dim() else None
        return own if whole is None else whole
