"""The optimisers: AdamW and others, with separate learning rates for new and for pretrained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from attribune.backbones.added_tokens import is_added
from attribune.models.base import ConditionedModel
from attribune.runs.recipe import TrainingRecipe

if TYPE_CHECKING:
    from attribune.training.sharding import ShardedTables

_START = 0.1  # of the sum of squares, as in TensorFlow, so that first steps are finite


_LARGE = 1 << 24  # numbers in the tables from which `auto` updates only the rows of the batch


class RowAdamW(torch.optim.AdamW):
    """AdamW that updates only the rows of the batch in parameters with sparse gradients.

    Its state is two numbers per row instead of two per element: the running mean of the row's squared gradients,
    averaged over the row, and the step at which the row was last seen. The decay that AdamW applies to all rows at
    every step is applied when a row is seen again, to its mean square and to the row itself. There is no momentum: a
    gradient takes effect at once, which AdamW spreads over the next steps.

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


def build_optimizer(model: ConditionedModel, settings: TrainingRecipe) -> torch.optim.Optimizer:
    """Return the optimiser of all trained parameters. Biases, gains and other vectors do not decay.

    Args:
        settings: with both learning rates: that of the method, LoRA and the head, and that of the backbone.
    """
    assert settings.backbone_learning_rate is not None
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    # L2 would pull vectors to zero that a batch does not have.
    exempt = () if settings.optimizer == "adamw" else (*model.values.tables(), *_word_vectors(model))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_pretrained = name.startswith("backbone.") and ".lora_" not in name and not is_added(name)
            rate = settings.backbone_learning_rate if is_pretrained else settings.learning_rate
            decay = settings.weight_decay if parameter.dim() > 1 and name not in exempt else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    parameters = [{"params": group, "lr": rate, "weight_decay": decay} for (rate, decay), group in groups.items()]
    return _optimizer(parameters, settings)


def _optimizer(groups: list[dict[str, Any]], settings: TrainingRecipe) -> torch.optim.Optimizer:
    options: dict[str, Any] = dict(settings.optimizer_options)
    rate = settings.learning_rate
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, lr=rate, **options)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, fused=True, **options)
    betas = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    kind = RowAdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=rate, betas=betas, fused=True, **options)


def _word_vectors(model: ConditionedModel) -> list[str]:
    """Return the names of the backbone's embeddings of tokens, added ones included."""
    embeddings = model.get_input_embeddings()
    path = next(name for name, module in model.named_modules() if module is embeddings)
    return [f"{path}.{name}" for name, _ in embeddings.named_parameters()]


class MaxHeadNorm(TrainerCallback):
    """Scale the weights of a class in the head to a largest norm after each step (Kim 2014, section 2.1)."""

    def __init__(self, model: ConditionedModel, limit: float) -> None:
        self.weight, self.limit = model.get_parameter("head.weight"), limit

    @torch.no_grad()
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Scale the rows of the weight that are longer."""
        self.weight.copy_(torch.renorm(self.weight, 2, 0, self.limit))


def update_rows_alone(model: ConditionedModel, choice: str = "rows") -> bool:
    """Choose whether a model's attribute tables have sparse gradients, which `RowAdamW` takes; returns the choice.

    Args:
        choice: ``rows``, ``all``, or ``auto``, which is ``rows`` for tables of 2**24 numbers or more.
    """
    methods = model.values.methods()
    numbers = sum(table.numel() for method in methods for table in method.tables if table.requires_grad)
    rows = choice == "rows" or (choice == "auto" and numbers >= _LARGE)
    for method in methods:
        method.sparse_gradients = rows and not method.reads_whole_tables
    return rows and numbers > 0


def clip_gradients(parameters: Iterable[Tensor], limit: float, sharded: ShardedTables | None = None) -> Tensor:
    """Scale gradients, sparse ones included, so that their total norm is at most `limit`; returns the norm before.

    Args:
        sharded: parameters whose other rows, in other processes, count as well.
    """
    grads, sharded_grads = list[Tensor](), list[Tensor]()
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
        grad = parameter.grad.values() if parameter.grad.is_sparse else parameter.grad
        (sharded_grads if sharded is not None and parameter in sharded else grads).append(grad)
    norm = torch.nn.utils.get_total_norm(grads)
    if sharded is not None:
        norm = (norm.square() + sharded.squared_norm(sharded_grads)).sqrt()
    if limit < float("inf"):
        scale = torch.clamp(limit / (norm + 1e-6), max=1.0)
        grads += sharded_grads
        torch._foreach_mul_(grads, scale.to(grads[0].device))
    return norm
