"""Attribute tables that are sharded by rows over processes."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard


class RowShard:
    """This process's shard of a table that is sharded by rows, with look-ups by torch's DTensor.

    Each process looks up its own rows among the ids of all processes, then they exchange the vectors. The gradient is
    sparse, and scaled for processes that average gradients: DTensor's own would be of the whole table in every process.

    Args:
        rows: the number of rows of the whole table.
        device: that of the table.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.processes, self.number = dist.get_world_size(), dist.get_rank()
        self.mesh: DeviceMesh = init_device_mesh(device.type, (self.processes,))
        share = -(-rows // self.processes)  # as torch.chunk and DTensor shard
        self.start, self.stop = min(self.number * share, rows), min((self.number + 1) * share, rows)
        self.share = share

    def own(self, table: Shaped[Tensor, "rows ..."]) -> Shaped[Tensor, "own ..."]:
        """Copy the rows of this process out of a whole table."""
        return table[self.start : self.stop].clone()

    def look_up(self, ids: Int[Tensor, " U"], own: Float[Tensor, "own Z"]) -> Float[Tensor, "U Z"]:
        """Look up the vectors of ids of the whole table; a collective call, each process with any number of ids.

        Args:
            ids: those that this process needs.
            own: the shard of this process.
        """
        return cast(Tensor, _LookUp.apply(ids, own, self))  # type: ignore[no-untyped-call]

    def gather(self, own: Shaped[Tensor, "own ..."]) -> Shaped[Tensor, "rows ..."] | None:
        """Gather all rows in the first process; the others return None."""
        padded = own.new_zeros(self.share, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.processes)] if self.number == 0 else None
        dist.gather(padded, parts, dst=0)
        return None if parts is None else torch.cat(parts)[: self.rows]

    def all_gather(self, local: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "all ..."]:
        """Concatenate the rows of all processes in each of them; all must have the same number."""
        return self._sharded(local).redistribute(placements=[Replicate()]).to_local()

    def _sharded(self, local: Tensor) -> DTensor:
        return DTensor.from_local(local, self.mesh, [Shard(0)], run_check=False)

    def _look_up(self, ids: Tensor, own: Tensor) -> Tensor:
        """Return the vectors of this process's ids, `ids` being those of all processes in order."""
        shape, stride = torch.Size((self.rows, own.shape[1])), (own.shape[1], 1)
        table = DTensor.from_local(own, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)
        replicated = DTensor.from_local(ids, self.mesh, [Replicate()], run_check=False)
        vectors = cast(DTensor, nn.functional.embedding(replicated, table))
        return vectors.redistribute(placements=[Shard(0)]).to_local()


class _LookUp(torch.autograd.Function):
    """Look-up in a sharded table with a sparse gradient."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, own: Tensor, shard: RowShard) -> Tensor:
        longest = torch.tensor([len(ids)], device=ids.device)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        padded = ids[-1:].repeat(int(longest))
        padded[: len(ids)] = ids
        ctx.all_ids, ctx.shard, ctx.own_shape, ctx.count = shard.all_gather(padded), shard, own.shape, len(ids)
        return shard._look_up(ctx.all_ids, own)[: len(ids)].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        shard: RowShard = ctx.shard
        padded = grad.new_zeros(len(ctx.all_ids) // shard.processes, grad.shape[1])
        padded[: ctx.count] = grad
        grads = shard.all_gather(padded) / shard.processes
        mine = (ctx.all_ids >= shard.start) & (ctx.all_ids < shard.stop)
        rows = ctx.all_ids[mine] - shard.start
        return None, torch.sparse_coo_tensor(rows[None], grads[mine], ctx.own_shape, check_invariants=False), None
