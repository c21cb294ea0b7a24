"""The rank of the weights that the Injector generates, at each step of their making.

    python benchmarks/rank.py

Amplayo, Yoo and Lee 2022, appendix A.4, bounds the rank of W by O² + 1: each ``(sigma_o z) s_o^T ⊗ A_o`` has a rank of
at most O, and there are O of them. Measured here, in float64, on BERT-base's shape with random parameters: the sum of
the products as they are (A·O, H/O), the same reshaped to (H, A), with tanh on every element as equations 6 to 9 have
it, and with C added. Writes benchmarks/results/rank.json.
"""

from __future__ import annotations

import torch
from harness import arguments, write_result
from torch import Tensor

from attribune import functional

HIDDEN, BOTTLENECK, VECTOR = 768, 64, 768
SCALES = {"elements of size 1": 1.0, "elements of size 0.05, as this library starts": 0.05}


def products(z: Tensor, sigma: Tensor, s: Tensor, A_o: Tensor) -> Tensor:
    """The sum over o of ``(sigma_o z) s_o^T ⊗ A_o`` (A·O, H/O), without tanh."""
    return sum(torch.kron(torch.outer(sigma[o] @ z, s[o]), A_o[o]) for o in range(len(A_o)))


def rank(matrix: Tensor) -> int:
    return int(torch.linalg.matrix_rank(matrix))


def effective_rank(matrix: Tensor) -> int:
    """How many singular values hold 99 % of the squares."""
    squares = torch.linalg.svdvals(matrix).square()
    return int((squares.cumsum(0) / squares.sum() < 0.99).sum()) + 1


def measure(O: int, scale: float) -> dict[str, int]:
    """Ranks for one random value; `scale` is the size of a generated element."""
    torch.manual_seed(0)
    z = torch.randn(VECTOR, dtype=torch.float64)
    sigma = torch.randn(O, BOTTLENECK, VECTOR, dtype=torch.float64) * VECTOR**-0.5
    s = torch.randn(O, HIDDEN // O**2, dtype=torch.float64) * scale**0.5
    A_o = torch.randn(O, O, O, dtype=torch.float64) * scale**0.5
    C = 0.01 * torch.randn(HIDDEN, BOTTLENECK, dtype=torch.float64)
    plain = products(z, sigma, s, A_o)
    generated = functional.phm_weight(z[None], torch.ones(1, 1, dtype=torch.float64), sigma, s, A_o)[0]
    return {
        "bound (O squared)": O * O,
        "sum of products": rank(plain),
        "reshaped to (H, A)": rank(plain.reshape(HIDDEN, BOTTLENECK)),
        "with tanh": rank(generated),
        "with tanh, 99 % of the energy": effective_rank(generated),
        "with C": rank(generated + C),
    }


def main() -> None:
    options = arguments(__doc__, "rank").parse_args()
    ranks = {f"O = {O}, {name}": measure(O, scale) for O in (2, 4, 8) for name, scale in SCALES.items()}
    write_result(
        options.output, {"shape": {"hidden": HIDDEN, "bottleneck": BOTTLENECK, "vector": VECTOR}, "ranks": ranks}
    )


if __name__ == "__main__":
    main()
