"""Attribute tables whose rows are dealt out to the processes that train together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from attribune.methods.base import AttributeMethod

__all__ = ["RowShard", "ShardedTables"]


class RowShard:
    """The rows of a table that this process has, of those that all have together; looked up with torch's DTensor.

    The processes look the rows up of all their ids, each those that it has, and hand the vectors over. The gradient is
    sparse, and scaled for processes that average what they find: DTensor's own would be one of the whole table in
    every process.

    Args:
        rows: of the whole table.
        device: of the table.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.processes, self.number = dist.get_world_size(), dist.get_rank()
        self.mesh: DeviceMesh = init_device_mesh(device.type, (self.processes,))
        share = -(-rows // self.processes)  # as torch.chunk and DTensor deal them out
        self.start, self.stop = min(self.number * share, rows), min((self.number + 1) * share, rows)
        self.share = share

    def own(self, whole: Tensor) -> Tensor:
        """The rows (own, ...) of this process, of all the rows (rows, ...)."""
        return whole[self.start : self.stop].clone()

    def look_up(self, ids: Tensor, own: Tensor) -> Tensor:
        """The vectors (U, Z) of ids (U,); every process must ask at once, each for as many as it likes.

        Args:
            ids: (U,), of the whole table.
            own: (own rows, Z), the part of the table that this process has.
        """
        return cast(Tensor, _LookUp.apply(ids, own, self))  # type: ignore[no-untyped-call]

    def whole(self, own: Tensor) -> Tensor | None:
        """All rows (rows, ...), in the first process; None in the others."""
        padded = own.new_zeros(self.share, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.processes)] if self.number == 0 else None
        dist.gather(padded, parts, dst=0)
        return None if parts is None else torch.cat(parts)[: self.rows]

    def everywhere(self, local: Tensor) -> Tensor:
        """The rows of all processes, one after the other; each has as many."""
        return self._dealt(local).redistribute(placements=[Replicate()]).to_local()

    def _dealt(self, local: Tensor) -> DTensor:
        return DTensor.from_local(local, self.mesh, [Shard(0)], run_check=False)

    def _look_up(self, ids: Tensor, own: Tensor) -> Tensor:
        """The vectors (n, Z) of this process's ids, found by all; `ids` (processes n,) are those of all."""
        shape, stride = torch.Size((self.rows, own.shape[1])), (own.shape[1], 1)
        table = DTensor.from_local(own, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)
        asked = DTensor.from_local(ids, self.mesh, [Replicate()], run_check=False)
        found = cast(DTensor, nn.functional.embedding(asked, table))
        return found.redistribute(placements=[Shard(0)]).to_local()


class _LookUp(torch.autograd.Function):
    """Rows of a dealt-out table."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, own: Tensor, shard: RowShard) -> Tensor:
        most = torch.tensor([len(ids)], device=ids.device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        padded = ids[-1:].repeat(int(most))
        padded[: len(ids)] = ids
        ctx.asked, ctx.shard, ctx.own_shape, ctx.count = shard.everywhere(padded), shard, own.shape, len(ids)
        return shard._look_up(ctx.asked, own)[: len(ids)].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        shard: RowShard = ctx.shard
        padded = grad.new_zeros(len(ctx.asked) // shard.processes, grad.shape[1])
        padded[: ctx.count] = grad
        grads = shard.everywhere(padded) / shard.processes
        mine = (ctx.asked >= shard.start) & (ctx.asked < shard.stop)
        rows = ctx.asked[mine] - shard.start
        return None, torch.sparse_coo_tensor(rows[None], grads[mine], ctx.own_shape, check_invariants=False), None


class ShardedTables:
    """The attribute tables of a model, dealt out to the processes, and put together for files.

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

    def put_together(self, model: nn.Module) -> None:
        """Give the first process the whole tables; the others have no further use for the model."""
        for table in self._shards:
            table.data = self._whole(table, table.data)
        for method in (module for module in model.modules() if isinstance(module, AttributeMethod)):
            method.shards = []

    def _whole(self, table: nn.Parameter, own: Tensor) -> Tensor:
        """All rows of what there is for each row, in the first process; else, and where it is one number, as it is."""
        whole = self._shards[table].whole(own) if own.dim() else None
        return own if whole is None else whole
