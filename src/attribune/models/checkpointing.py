"""Gradient checkpointing of layers that read the attributes of a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from attribune.errors import ConfigError
from attribune.methods.base import Method
from attribune.methods.condition import Condition
from attribune.models.stored import StoredModel

__all__ = ["CheckpointedModel"]


class CheckpointedModel(StoredModel):
    """A model whose layers may be run again in the backward pass, with the attributes of their first run."""

    method: Method

    @property
    def supports_gradient_checkpointing(self) -> bool:
        """Whether the backbone's family can be checkpointed (ALBERT and MPNet cannot)."""
        return bool(self.backbone.supports_gradient_checkpointing)

    def _set_gradient_checkpointing(
        self,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        if enable:
            if getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant"):
                raise ConfigError(
                    "reentrant gradient checkpointing loses the attributes of the batch: pass "
                    "{'use_reentrant': False}, which is the default"
                )
            gradient_checkpointing_func = partial(self._checkpoint, gradient_checkpointing_func)
        super()._set_gradient_checkpointing(enable, gradient_checkpointing_func, every_n_layers)

    def _checkpoint(self, function: Callable[..., Any], run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Checkpoint one layer so that its second run, in backward, sees the attributes of its first."""
        kwargs.setdefault("use_reentrant", False)
        if not torch.compiler.is_compiling():
            kwargs["context_fn"] = partial(self._contexts, self.method.holder.current)
        return function(run, *args, **kwargs)

    def _contexts(self, condition: Condition) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), self.method.holder.use(condition)
