"""A pretended second device: it computes on the CPU, and refuses what a GPU refuses.

Its name is ``lazy``, a device type that every build of PyTorch knows and nobody uses. Within `second_device`, a tensor
that was moved there says so; an operation on tensors of both devices fails, and so does `Tensor.numpy`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("lazy", 0)
_MAY_MIX = ("copy", "index")  # a GPU copies from the CPU, and takes indices that are there


class OnSecondDevice(Tensor):
    """A tensor on the second device, around one on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnSecondDevice:
        sizes = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=DEVICE, **sizes)
        made.inner = inner
        return made

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: OnSecondDevice) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.inner = value.inner

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.inner.is_sparse

    def to_dense(self, **_: Any) -> Tensor:
        return OnSecondDevice(self.inner.to_dense()) if self.inner.is_sparse else self

    def tolist(self) -> Any:
        return self.inner.tolist()

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        return _tensor(data, **{"dtype": self.dtype, "device": self.device, **options})

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert a tensor of the second device to numpy: use Tensor.cpu() first")

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.inner!r} on {DEVICE}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    there = [x for x in given if isinstance(x, OnSecondDevice)]
    name, asked = func.overloadpacket._qualified_op_name, kwargs.get("device")
    elsewhere = [x for x in given if x.dim() and not isinstance(x, OnSecondDevice)]
    if there and elsewhere and not any(word in name for word in _MAY_MIX):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found {DEVICE} and cpu")
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    found = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    stays = torch.device(asked).type == DEVICE.type if asked is not None else bool(there)
    if "copy_" in name and given and not isinstance(given[0], OnSecondDevice):
        stays = False
    known = {id(x.inner): x for x in there}

    def moved(x: Any) -> Any:
        if not stays or not isinstance(x, Tensor):
            return x
        return known[id(x)] if id(x) in known else OnSecondDevice(x)

    return tree_map(moved, found)


_make_tensor = torch.tensor


def _tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
    """Make a tensor by `torch.tensor`, which knows no device of a mode."""
    made = _make_tensor(data, **options)
    return made if device is None else made.to(device)


def _inner(x: Any) -> Any:
    return x.inner if isinstance(x, OnSecondDevice) else x


@contextmanager
def second_device() -> Iterator[torch.device]:
    """Within the block there is a second device: a real one where `ATTRIBUNE_SECOND_DEVICE` names it, as ``cuda``."""
    if real := os.environ.get("ATTRIBUNE_SECOND_DEVICE"):
        yield torch.device(real, 0)
        return

    def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*words: Any, **options: Any) -> Any:
            return function(*("cpu" if word == DEVICE.type else word for word in words), **options)

        return asked

    autocast = {
        name: on_cpu(getattr(torch, name)) for name in ("autocast", "is_autocast_enabled", "get_autocast_dtype")
    }
    with _Mode(), mock.patch.multiple(torch, tensor=_tensor, inference_mode=torch.no_grad, **autocast):
        yield DEVICE
