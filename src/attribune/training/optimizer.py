"""The optimiser: AdamW, with one learning rate for what is new and one for what was pretrained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel

if TYPE_CHECKING:
    from attribune.training.sharding import ShardedTables

__all__ = ["RowAdamW", "build_optimizer", "clip_gradients", "update_rows_alone"]

_LARGE = 1 << 24  # numbers in the tables from which on `auto` updates rows alone


class RowAdamW(torch.optim.AdamW):
    """AdamW that updates, of parameters with sparse gradients, the rows of the batch alone.

    For such a table it keeps two numbers a row instead of two for each element: the running mean of the row's squared
    gradients, averaged over the row, and the step at which the row was seen last. What happens to all rows at every
    step in AdamW is made up for when a row is seen again: its mean square decays as often, and so does the row itself.
    There is no momentum: all of a gradient's effect, which AdamW spreads over the next steps, comes at once.

        v_r <- beta2^(t - t_r) v_r + (1 - beta2) mean(g_r²)
        w_r <- (1 - rate decay)^(t - t_r) w_r - rate g_r / (sqrt(v_r / (1 - beta2^t)) + eps)

    After Kingma and Ba 2015, "Adam", algorithm 1, and Loshchilov and Hutter 2019, "Decoupled Weight Decay
    Regularization", algorithm 2, with one second moment a row as row-wise AdaGrad has.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update dense parameters as AdamW does, and the rows of those with sparse gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        sparse = [
            (group, p, p.grad)
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None and p.grad.is_sparse
        ]
        for group, parameter, grad in sparse:
            self._update_rows(group, parameter, grad.coalesce())
            parameter.grad = None
        super().step()
        for _, parameter, grad in sparse:
            parameter.grad = grad
        return loss

    def _update_rows(self, group: dict[str, Any], table: Tensor, grad: Tensor) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["square"] = torch.zeros(len(table), dtype=table.dtype, device=table.device)
            state["seen"] = torch.zeros_like(state["square"])  # float, as all state is when it is loaded
        state["step"] += 1
        t, (_, beta), rate = float(state["step"]), group["betas"], group["lr"]
        rows, g = grad.indices()[0], grad.values()
        since = t - state["seen"][rows]
        square = state["square"][rows] * beta**since + (1 - beta) * g.square().mean(dim=1)
        state["square"][rows], state["seen"][rows] = square, t
        shrink = (1 - rate * group["weight_decay"]) ** since
        move = rate * g / ((square / (1 - beta**t)).sqrt() + group["eps"])[:, None]
        table.index_copy_(0, rows, table[rows] * shrink[:, None] - move)


def build_optimizer(
    model: ConditionedModel, *, learning_rate: float, backbone_learning_rate: float, weight_decay: float
) -> RowAdamW:
    """AdamW over everything that learns. Biases, gains and other vectors do not decay.

    Args:
        model: the model.
        learning_rate: of the method, of LoRA and the head, which start from nothing.
        backbone_learning_rate: of the backbone, which must not forget.
        weight_decay: of matrices.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            pretrained = name.startswith("backbone.") and ".lora_" not in name
            rate = backbone_learning_rate if pretrained else learning_rate
            decay = weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    return RowAdamW(
        [{"params": found, "lr": rate, "weight_decay": decay} for (rate, decay), found in groups.items()],
        lr=learning_rate,
    )


def update_rows_alone(model: ConditionedModel, choice: str = "rows") -> bool:
    """Let the attribute tables of a model have sparse gradients, for `RowAdamW` or another optimiser that takes these.

    Args:
        model: the model.
        choice: ``rows``, ``all``, or ``auto``: rows where the tables hold 2**24 numbers or more.

    Returns:
        Whether they have.
    """
    methods = [module for module in model.modules() if isinstance(module, AttributeMethod)]
    numbers = sum(table.numel() for method in methods for table in method.tables if table.requires_grad)
    rows = choice == "rows" or (choice == "auto" and numbers >= _LARGE)
    for method in methods:
        method.sparse_gradients = rows
    return rows and numbers > 0


def clip_gradients(parameters: Iterable[Tensor], limit: float, sharded: ShardedTables | None = None) -> Tensor:
    """Scale gradients, sparse ones among them, so that their common norm is at most `limit`; returns it as it was.

    Args:
        sharded: the parameters of which other processes have the other rows, whose gradients count as well.
    """
    grads, parts = list[Tensor](), list[Tensor]()
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            grad = parameter.grad.values() if parameter.grad.is_sparse else parameter.grad
            grads.append(grad)
            if sharded is not None and parameter in sharded:
                parts.append(grad)
    norm = torch.nn.utils.get_total_norm([grad for grad in grads if not any(grad is part for part in parts)])
    if sharded is not None:
        norm = (norm.square() + sharded.squared_norm(parts)).sqrt()
    if limit < float("inf"):
        scale = torch.clamp(limit / (norm + 1e-6), max=1.0)
        torch._foreach_mul_(grads, scale.to(grads[0].device))
    return norm
