"""What the fused kernel gives in Triton's interpreter, for `parity/test_fused.py`; run with the file to write.

The interpreter has to be chosen before Triton is imported, hence a process of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from attribune import functional

CASES: dict[str, dict[str, Any]] = {
    "one value a row": {},
    "one token": {"T": 1},
    "two blocks of tokens, the second with one": {"T": 65},
    "one value in all": {"U": 1},
    "many values, each in few rows": {"U": 37},
    "several values a row": {"several": True},
    "a bottleneck that does not divide the hidden size": {"H": 54, "O": 3, "A": 7},
    "a wide bottleneck in pieces": {"H": 128, "O": 4, "A": 96, "T": 3},
    "arguments beyond the powers": {"size": 4.0},
    "float16": {"dtype": torch.float16},
}


def tensors(
    *, B: int = 4, T: int = 6, H: int = 48, O: int = 4, A: int = 8, U: int = 3, Z: int = 5, size: float = 0.6, **_: Any
) -> dict[str, Tensor]:
    """Inputs of `functional.phm_projection` in float64, rounded so that float32 has them exactly."""
    drawn = torch.Generator().manual_seed(B * T + H * A + U)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=drawn, dtype=torch.float32, device="cpu").to(torch.get_default_device())

    found = {"h": draw(B, T, H), "z": draw(U, Z) * size, "sigma": draw(O, A, Z), "s": draw(O, H // O**2)}
    return {name: x.double() for name, x in (found | {"A_o": draw(O, O, O), "C": draw(H, A)}).items()}


def membership(*, several: bool = False, B: int = 4, U: int = 3, **_: Any) -> Tensor:
    """Which values rows have: the second row none, with several some twice and some half."""
    found = torch.zeros(B, U, dtype=torch.float64)
    found[torch.arange(B), torch.arange(B) * 11 % U] = 1
    if several:
        found += torch.tensor([0.0, 2.0, 0.5]).double()[(torch.arange(B)[:, None] + torch.arange(U)) % 3]
    found[1] = 0
    return found


def run(case: dict[str, Any], way: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """The result and all gradients, of h in the precision of the case."""
    given = {name: x.to(dtype).requires_grad_() for name, x in tensors(**case).items()}
    h = given["h"].to(case.get("dtype", dtype) if dtype != torch.float64 else dtype)
    rest = {name: x for name, x in given.items() if name != "h"}
    out = functional.phm_projection(h, membership=membership(**case).to(dtype), implementation=way, **rest)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=dtype).view_as(out)
    grads = torch.autograd.grad((out * upstream).sum(), list(given.values()))
    return {"out": out.detach(), **dict(zip(given, grads, strict=True))}


if __name__ == "__main__":
    torch.save({name: run(case, "fused", torch.float32) for name, case in CASES.items()}, sys.argv[1])
