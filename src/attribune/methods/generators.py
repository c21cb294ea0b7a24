"""The generators of an Injector's weights from vectors: with and without low rank and PHM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import psutil
import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.functional.factored import can_be_factored
from attribune.functional.injector import kronecker_factors
from attribune.functional.tanh_sum import SMALLEST_REACH, odd_powers, right_factor, terms_for
from attribune.methods.config import VectorMethodConfig

_CHUNK = 1 << 22  # numbers at once, of values that are looked at one by one
_MOST_CHECKED = 10**11  # products that this takes at most: seconds


class GeneratorSettings(VectorMethodConfig):
    """The settings of the Injector that determine how weights are generated; see there."""

    bottleneck: PositiveInt = 64
    hypercomplex: PositiveInt = 4
    low_rank: bool = True
    phm: bool = True
    initial_weight: PositiveFloat = 0.05
    initial_projection: PositiveFloat = 1.0


class Generator(nn.Module):
    """Generates g of the distinct values, summed over the values of each row."""

    def forward(self, z: Float[Tensor, "U Z"], membership: Float[Tensor, "B U"]) -> Float[Tensor, "B H A"]:
        """Generate the weights of the rows."""
        raise NotImplementedError(type(self).__name__)


class _Phm(Generator):
    """Low rank and PHM, the paper's own (eq. 6-9)."""

    def __init__(self, config: GeneratorSettings, *, hidden: int) -> None:
        super().__init__()
        O, A, Z = config.hypercomplex, config.bottleneck, config.vector_size
        self.sigma = nn.Parameter(torch.randn(O, A, Z) * config.initial_projection)
        self.s = nn.Parameter(torch.randn(O, hidden // O**2) * config.initial_weight * O**-0.5)
        self.A_o = nn.Parameter(torch.randn(O, O, O))

    def forward(self, z: Tensor, membership: Tensor) -> Tensor:
        return functional.phm_weight(z, membership, self.sigma, self.s, self.A_o)


class _LowRank(Generator):
    """Low rank alone."""

    def __init__(self, config: GeneratorSettings, *, hidden: int) -> None:
        super().__init__()
        A, Z = config.bottleneck, config.vector_size
        self.sigma = nn.Parameter(torch.randn(A, Z) * config.initial_projection)
        self.s = nn.Parameter(torch.randn(hidden) * config.initial_weight)

    def forward(self, z: Tensor, membership: Tensor) -> Tensor:
        return functional.low_rank_weight(z, membership, self.sigma, self.s)


class _PhmFull(Generator):
    """PHM alone: S_o is a full map of z."""

    def __init__(self, config: GeneratorSettings, *, hidden: int) -> None:
        super().__init__()
        O, A, Z = config.hypercomplex, config.bottleneck, config.vector_size
        scale = config.initial_weight * config.initial_projection * O**-0.5
        self.sigma = nn.Parameter(torch.randn(O, A, hidden // O**2, Z) * scale)
        self.A_o = nn.Parameter(torch.randn(O, O, O))

    def forward(self, z: Tensor, membership: Tensor) -> Tensor:
        return functional.phm_full_weight(z, membership, self.sigma, self.A_o)


class _Full(Generator):
    """Neither: one full linear map."""

    def __init__(self, config: GeneratorSettings, *, hidden: int) -> None:
        super().__init__()
        A, Z = config.bottleneck, config.vector_size
        self.sigma = nn.Parameter(torch.randn(hidden, A, Z) * config.initial_weight * config.initial_projection)

    def forward(self, z: Tensor, membership: Tensor) -> Tensor:
        return functional.full_weight(z, membership, self.sigma)


def build_generator(config: GeneratorSettings, *, hidden: int) -> Generator:
    """Build the generator for the options `low_rank` and `phm`.

    Raises:
        ConfigError: if PHM is on and the hidden size is not divisible by O²; the message names the O that fit.
    """
    O = config.hypercomplex
    if not config.phm:
        return (_LowRank if config.low_rank else _Full)(config, hidden=hidden)
    if hidden % O**2:
        fitting = [o for o in range(1, int(hidden**0.5) + 1) if hidden % o**2 == 0]
        raise ConfigError(
            f"injector: hypercomplex is {O}, but the hidden size {hidden} is not divisible by {O}² = {O**2}: "
            f"choose one of {', '.join(map(str, fitting))}"
        )
    return (_Phm if config.low_rank else _PhmFull)(config, hidden=hidden)


def factors_of_sites(
    generators: Sequence[Generator | None], z: Float[Tensor, "U Z"], membership: Float[Tensor, "B U"] | None
) -> tuple[Float[Tensor, "S B A K"], Float[Tensor, "S K H"]] | None:
    """Return the factors of the weights that the generators of all sites make; None where each makes its own.

    Args:
        membership: None where z are the vectors of the rows themselves.
    """
    of_sites = [one for one in generators if isinstance(one, _Phm)]
    rows = (z if membership is None else membership).shape[0]  # and not its len(), which an export takes for a constant
    if not of_sites or not can_be_factored(z, rows, sites=len(of_sites), size=of_sites[0].sigma[..., 0].numel()):
        return None
    sigma, s, A_o = (torch.stack(one) for one in zip(*((one.sigma, one.s, one.A_o) for one in of_sites), strict=True))
    return functional.phm_factors(z, membership, sigma, s, A_o)


class TableFactors:
    """The factors of the weights of all sites, with as many powers as any value of a table needs.

    Attributes:
        right: (S, K, H).
    """

    def __init__(self, generators: Sequence[_Phm], table: Float[Tensor, "U Z"], terms: int) -> None:
        sigma, K = _stacked(generators, table)
        self._reach = _reach(sigma, K)
        self.right, scale = right_factor(K, terms)
        S, O, A, _ = sigma.shape
        self._shape, self._terms = (S, O, A), terms
        self._scaled = (sigma * scale[..., None, None]).flatten(0, 2).T.contiguous()

    @classmethod
    def of(cls, generators: Sequence[Generator | None], table: Float[Tensor, "U Z"]) -> Self | None:
        """Return the factors; None for other generators, or values that are too large for powers."""
        of_sites = [one for one in generators if isinstance(one, _Phm)]
        if not of_sites or len(of_sites) < len(generators) or table.dtype != torch.float32:
            return None
        terms = _terms_of_table(_reach(*_stacked(of_sites, table)), table)
        return None if terms is None else cls(of_sites, table, terms)

    def are_enough(self, vectors: Float[Tensor, "U Z"]) -> bool:
        """Return whether other values need no more powers."""
        terms = _terms_of_table(self._reach, vectors)
        return terms is not None and terms <= self._terms

    def left(self, z: Float[Tensor, "B Z"]) -> Float[Tensor, "S B A K"]:
        """Return the left factors of rows with these vectors."""
        z_hat = (z @ self._scaled).view(-1, *self._shape).permute(1, 0, 3, 2)
        return odd_powers(z_hat, self._terms, dim=4).flatten(3)


def _stacked(
    generators: Sequence[_Phm], table: Float[Tensor, "U Z"]
) -> tuple[Float[Tensor, "S O A Z"], Float[Tensor, "S O H"]]:
    sigma, s, A_o = (torch.stack(one) for one in zip(*((one.sigma, one.s, one.A_o) for one in generators), strict=True))
    return sigma, kronecker_factors(table[:1], sigma, s, A_o)[1]


def _reach(sigma: Float[Tensor, "S O A Z"], K: Float[Tensor, "S O H"]) -> Float[Tensor, "SOA Z"]:
    """Return the map of a vector to the largest arguments of its tangents."""
    return (sigma * K.abs().amax(dim=2)[..., None, None]).flatten(0, 2)


def _terms_of_table(reach: Float[Tensor, "SOA Z"], table: Float[Tensor, "U Z"]) -> int | None:
    """Return how many powers are enough for all values of a table, by their lengths or, if too many, one by one.

    None where one is too large for powers, or that is not known of too many.
    """
    if not len(table):
        return terms_for(0.0)
    bounds = reach.norm(dim=1).max() * table.norm(dim=1)
    long = table[bounds > SMALLEST_REACH]  # all others need the fewest powers
    if not len(long) or len(long) * reach.numel() > _MOST_CHECKED:
        return terms_for(float(bounds.max()))
    step = max(1, _CHUNK // len(reach))
    largest = [float((long[start : start + step] @ reach.T).abs().max()) for start in range(0, len(long), step)]
    return terms_for(max(largest))


def check_memory(config: GeneratorSettings, *, hidden: int, copies: int) -> None:
    """Refuse generators without low rank that the machine cannot train, before anything is allocated.

    The estimate is of weight, gradient and the two moments of AdamW, 4 bytes each.

    Args:
        copies: sites times attributes.
    """
    if config.low_rank or torch.get_default_device().type == "meta":
        return
    A, Z, O = config.bottleneck, config.vector_size, config.hypercomplex
    each = A * hidden * Z // O if config.phm else A * hidden * Z
    needed, available = 16 * each * copies, _largest_memory()
    if needed > available:
        raise ConfigError(
            f"injector: without low_rank the generators need {needed / 2**30:.1f} GiB to train ({each:,} numbers for "
            f"each of {copies} sites and attributes), and the machine has {available / 2**30:.1f} GiB: turn "
            "low_rank on, or lower vector_size or bottleneck"
        )


def _largest_memory() -> int:
    memory: int = psutil.virtual_memory().total
    return max(memory, torch.cuda.get_device_properties().total_memory) if torch.cuda.is_available() else memory
