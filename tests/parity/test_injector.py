"""The Injector against loops written from Amplayo, Yoo and Lee 2022, equations 1 to 11, in float64.

The loops are in `helpers/slow_injector.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hosts import make_host
from slow_injector import (
    Matrix,
    bottleneck,
    linear,
    slow_full,
    slow_low_rank,
    slow_phm,
    slow_phm_full,
    slow_site,
)
from slow_layers import assert_apart, assert_same, draw
from tiny_models import at_random
from torch import Tensor, nn

from attribune import functional
from attribune.functional import tanh_sum as tangents
from attribune.methods import Injector
from attribune.methods.condition import Slots, Values

# Cases


def user(start: int = 0) -> Slots:
    return Slots(name="user", start=start, count=1, size=5)


ONE = ([user()], [[1], [0], [4], [1]])
TAGS = ([Slots(name="tags", start=0, count=3, size=7)], [[1, 2, 3], [0, 6, 0], [0, 0, 0], [2, 5, 0], [4, 4, 0]])
SEVERAL = (
    [user(), Slots(name="tags", start=1, count=3, size=7), Slots(name="film", start=4, count=1, size=3)],
    [[1, 2, 3, 6, 2], [0, 0, 0, 0, 0], [3, 0, 5, 0, 0], [0, 6, 2, 0, 1]],
)
ROWS = {"one attribute": ONE, "several values": TAGS, "several attributes": SEVERAL}

FORMS = [{"low_rank": low_rank, "phm": phm} for low_rank, phm in itertools.product((True, False), (True, False))]
SWITCHES = [
    {"bias_injection": bias, "weight_injection": weight, "task_adapter": task, "aggregation": aggregation, **form}
    for bias, weight, task, aggregation in itertools.product(
        (True, False), (True, False), (True, False), ("post", "pre")
    )
    for form in (FORMS if weight else FORMS[:1])
    if bias or weight
]


def label(settings: Any) -> str | None:
    if not isinstance(settings, dict):
        return None
    return "-".join(
        value if isinstance(value, str) else f"{'' if value else 'no_'}{name}" for name, value in settings.items()
    )


def build(config: Injector, *, hidden: int, slots: list[Slots], sites: int = 1) -> nn.Module:
    """The method in float64 with random numbers, none of them small, in every parameter, row 0 of the tables too."""
    method = config.build(make_host(hidden=hidden, sites=sites, slots=slots, outputs=2)).double().eval()
    at_random(method)
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            if "W_up" in name:
                parameter.mul_(0.4)
    return method


def check(
    config: Injector,
    rows: tuple[list[Slots], list[list[int]]],
    *,
    hidden: int,
    sites: int = 1,
    trains: bool = False,
    compare: Callable[[Tensor, Tensor], None] = assert_same,
) -> None:
    """All sites are those of the loops."""
    slots, ids = rows[0], torch.tensor(rows[1])
    method = build(config, hidden=hidden, slots=slots, sites=sites).train(trains)
    tables, h = [table.tolist() for table in method.tables], draw(len(ids), 2, hidden)
    condition = method.condition(ids, len(ids))
    for site in method.sites:
        compare(site(h, condition), slow_site(config, site, tables, slots, ids, h))


# The complete module


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("switches", SWITCHES, ids=label)
def test_every_switch(switches: dict[str, Any]) -> None:
    config = Injector(hypercomplex=4, bottleneck=8, vector_size=7, **switches)
    check(config, SEVERAL, hidden=48)


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=label)
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows(rows: tuple[list[Slots], list[list[int]]], form: dict[str, bool]) -> None:
    for aggregation in ("post", "pre"):
        config = Injector(hypercomplex=4, bottleneck=8, vector_size=5, aggregation=aggregation, **form)
        check(config, rows, hidden=48, sites=2)


@pytest.mark.parametrize(
    "switches",
    [{}, {"task_adapter": False, "phm": False}, {"weight_injection": False}, {"bias_injection": False}],
    ids=label,
)
def test_adapters_in_parallel(switches: dict[str, bool]) -> None:
    config = Injector(hypercomplex=4, bottleneck=8, vector_size=7, arrangement="parallel", **switches)
    check(config, SEVERAL, hidden=48, sites=2)


SIZES = [  # H, O, A, Z
    (44, 2, 7, 11),
    (63, 3, 5, 2),
    (50, 5, 3, 7),
    (13, 1, 5, 3),
    (4, 2, 1, 1),
    (7, 1, 7, 7),
    (8, 2, 8, 8),
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=label)
@pytest.mark.parametrize(("H", "O", "A", "Z"), SIZES)
def test_sizes(H: int, O: int, A: int, Z: int, form: dict[str, bool]) -> None:
    config = Injector(hypercomplex=O, bottleneck=A, vector_size=Z, **form)
    check(config, TAGS, hidden=H)


@pytest.mark.parametrize("elements", [1, 48 * 8, 2 * 48 * 8, 5 * 48 * 8])
def test_chunks_of_values(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents, "_CHUNK", {"cpu": elements})
    check(Injector(hypercomplex=4, bottleneck=8, vector_size=5), SEVERAL, hidden=48)


def test_under_compilation_every_slot_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for form in FORMS:
        config = Injector(hypercomplex=4, bottleneck=8, vector_size=5, **form)
        check(config, SEVERAL, hidden=48)


def test_dropout_switched_off_in_training() -> None:
    config = Injector(hypercomplex=4, bottleneck=8, vector_size=5, attribute_dropout=0.0)
    check(config, SEVERAL, hidden=48, trains=True)


@pytest.mark.slow
def test_gradients_of_the_complete_module() -> None:
    config = Injector(hypercomplex=2, bottleneck=3, vector_size=2)
    method = build(config, hidden=8, slots=TAGS[0])
    ids, h = torch.tensor(TAGS[1]), draw(5, 2, 8).requires_grad_()
    names, weights = zip(*method.named_parameters(), strict=True)

    def run(h: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(
            _Whole(method), {f"method.{n}": w for n, w in zip(names, weights, strict=True)}, (h, ids)
        )

    assert torch.autograd.gradcheck(run, (h, *weights))
    run(h, *weights).sum().backward()
    table = method.tables[0].grad
    assert table is not None
    assert not table[0].any(), "id 0 contributes nothing, so it learns nothing"
    assert bool((table[1:] != 0).all())


class _Whole(nn.Module):
    def __init__(self, method: nn.Module) -> None:
        super().__init__()
        self.method = method

    def forward(self, h: Tensor, ids: Tensor) -> Tensor:
        return self.method.sites[0](h, self.method.condition(ids, len(ids)))


# The pieces


def values(U: int, Z: int, B: int) -> tuple[Tensor, Tensor]:
    membership = torch.randint(0, 3, (B, U)).double()
    membership[0] = 0
    return draw(U, Z), membership


def weighted(membership: Tensor, matrices: list[Matrix]) -> Tensor:
    rows = [
        sum(m * torch.tensor(W, dtype=torch.float64) for m, W in zip(row, matrices, strict=True)) for row in membership
    ]
    return torch.stack(rows)


@pytest.mark.parametrize(("H", "O", "A", "Z"), [(48, 4, 8, 7), *SIZES])
def test_weight_functions(H: int, O: int, A: int, Z: int) -> None:
    P = H // O**2
    z, membership = values(U=5, Z=Z, B=3)
    for fast, slow, weights in (
        (functional.phm_weight, slow_phm, (draw(O, A, Z), draw(O, P), draw(O, O, O))),
        (functional.low_rank_weight, slow_low_rank, (draw(A, Z), draw(H))),
        (functional.phm_full_weight, slow_phm_full, (draw(O, A, P, Z), draw(O, O, O))),
        (functional.full_weight, slow_full, (draw(H, A, Z),)),
    ):
        result = fast(z, membership, *weights)
        assert_same(result, weighted(membership, [slow(v, *(w.tolist() for w in weights)) for v in z.tolist()]))
        assert not result[0].any(), "a row without a value has the empty sum, exactly zero"


def test_bias_and_weight_functions() -> None:
    z, membership = values(U=5, Z=7, B=3)
    G, c = draw(11, 7), draw(11)
    b = functional.attribute_bias(z, membership, G, c)
    for row, counts in enumerate(membership.tolist()):
        expected = c.tolist()
        for u, count in enumerate(counts):
            expected = [e + count * g for e, g in zip(expected, linear(G.tolist(), z[u].tolist()), strict=True)]
        assert_same(b[row], expected)
    assert torch.equal(b[0], c)
    g, C = draw(3, 5, 11), draw(5, 11)
    W = functional.attribute_weight(g, C)
    for r, i, a in itertools.product(range(3), range(5), range(11)):
        assert float(W[r, i, a]) == float(g[r, i, a]) + float(C[i, a])


@pytest.mark.parametrize("own_weight", [True, False])
@pytest.mark.parametrize("own_bias", [True, False])
def test_attribute_adapter_with_as_many_rows_as_tokens(own_weight: bool, own_bias: bool) -> None:
    """B = T = A would let a wrong broadcast pass the check of shapes."""
    B, H, A = 5, 7, 5
    h, W_up, b_up = draw(B, B, H), draw(A, H), draw(H)
    W, b = draw(B, H, A) if own_weight else draw(H, A), draw(B, A) if own_bias else draw(A)
    result = functional.attribute_adapter(h, W, b, W_up, b_up)
    for row, t in itertools.product(range(B), range(B)):
        own_W, own_b = (W[row] if own_weight else W).tolist(), (b[row] if own_bias else b).tolist()
        assert_same(result[row, t], bottleneck(h[row, t].tolist(), own_W, own_b, W_up.tolist(), b_up.tolist()))


def test_attribute_dropout() -> None:
    """Section 4: each attribute of a row is kept with all its values, or hidden with all of them."""
    counts, r_drop = [1, 3, 2], 0.4
    ids, chance = torch.randint(0, 5, (30, 6)), torch.rand(30, 3, dtype=torch.float64)
    expected = ids.clone()
    for row in range(30):
        for m in range(3):
            if float(chance[row, m]) < r_drop:
                for slot in range(sum(counts[:m]), sum(counts[: m + 1])):
                    expected[row, slot] = 0
    assert torch.equal(functional.attribute_dropout(ids, chance, counts, r_drop=r_drop), expected)
    assert not torch.equal(functional.attribute_dropout(ids, chance.flip(1), counts, r_drop=r_drop), expected)


def test_the_loops_agree_with_torch_kron() -> None:
    """The reference is itself checked by another way of writing equation 9."""
    O, A, Z, P = 4, 8, 7, 3
    sigma, s, A_o, z = draw(O, A, Z), draw(O, P), draw(O, O, O), draw(Z)
    W = sum(torch.kron(torch.outer(sigma[o] @ z, s[o]), A_o[o]).tanh().reshape(P * O * O, A) for o in range(O))
    assert_same(W, slow_phm(z.tolist(), sigma.tolist(), s.tolist(), A_o.tolist()))


# Planted mistakes


CONFIG = Injector(hypercomplex=4, bottleneck=8, vector_size=5)


def wrong(
    *,
    product: Callable[[Tensor, Tensor], Tensor] = lambda S, A_o: torch.kron(S, A_o).tanh(),
    after_sum: Callable[[Tensor], Tensor] = lambda W: W,
    reshape: Callable[[Tensor, int, int], Tensor] = lambda W, H, A: W.reshape(H, A),
    factors: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] = lambda sigma, s, A_o: (sigma, s, A_o),
    sum_first: bool = False,
) -> Callable[..., Tensor]:
    """Equation 9 with one thing wrong, in place of `functional.phm_weight`; with nothing wrong unless told."""

    def phm_weight(z: Tensor, membership: Tensor, sigma: Tensor, s: Tensor, A_o: Tensor) -> Tensor:
        O, A, _ = sigma.shape
        H = s.shape[1] * O * O
        sigma, s, A_o = factors(sigma, s, A_o)
        if sum_first:
            z, membership = membership @ z, torch.eye(len(membership), dtype=z.dtype)
        weights = []
        for vector in z:
            products = [product(torch.outer(sigma[o] @ vector, s[o]), A_o[o]) for o in range(O)]
            weights.append(reshape(after_sum(torch.stack(products).sum(0)), H, A))
        return torch.einsum("bu,uha->bha", membership, torch.stack(weights))

    return phm_weight


PLANTED: dict[str, Callable[..., Tensor]] = {
    "tanh after the sum over o": wrong(product=torch.kron, after_sum=torch.tanh),
    "tanh inside the Kronecker factor": wrong(product=lambda S, A_o: torch.kron(S.tanh(), A_o)),
    "tanh of both factors": wrong(product=lambda S, A_o: torch.kron(S.tanh(), A_o.tanh())),
    "no tanh": wrong(product=torch.kron),
    "one s for all o": wrong(factors=lambda sigma, s, A_o: (sigma, s[:1].expand_as(s), A_o)),
    "one sigma for all o": wrong(factors=lambda sigma, s, A_o: (sigma[:1].expand_as(sigma), s, A_o)),
    "one A for all o": wrong(factors=lambda sigma, s, A_o: (sigma, s, A_o[:1].expand_as(A_o))),
    "transposed A": wrong(factors=lambda sigma, s, A_o: (sigma, s, A_o.transpose(1, 2).contiguous())),
    "sum over values before g": wrong(sum_first=True),
    "reshape(A, H) transposed": wrong(reshape=lambda W, H, A: W.reshape(A, H).T),
    "column-major reshape": wrong(reshape=lambda W, H, A: W.T.reshape(A, H).T),
    "reshape of the transposed product": wrong(reshape=lambda W, H, A: W.T.reshape(H, A)),
    "Kronecker factors swapped": wrong(product=lambda S, A_o: torch.kron(A_o, S).tanh()),
}


def test_the_frame_of_the_mistakes_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing wrong it passes, so that what is seen below is the mistake alone."""
    monkeypatch.setattr(functional, "phm_weight", wrong())
    check(CONFIG, TAGS, hidden=48)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "phm_weight", PLANTED[mistake])
    check(CONFIG, TAGS, hidden=48, compare=assert_apart)


def id_0_counts(ids: Tensor, counted: Values, look_up: Callable[[Tensor], Tensor]) -> Values:
    distinct, index = torch.unique(ids, return_inverse=True)
    membership = nn.functional.one_hot(index, len(distinct)).sum(dim=1).to(counted.membership)
    return Values(ids=distinct, membership=membership, vectors=look_up(distinct))


def twice_is_once(_ids: Tensor, counted: Values, _look_up: Any) -> Values:
    return Values(ids=counted.ids, membership=counted.membership.clamp(max=1), vectors=counted.vectors)


def mean_of_values(_ids: Tensor, counted: Values, _look_up: Any) -> Values:
    share = counted.membership / counted.membership.sum(dim=1, keepdim=True).clamp(min=1)
    return Values(ids=counted.ids, membership=share, vectors=counted.vectors)


@pytest.mark.parametrize("mistake", [id_0_counts, twice_is_once, mean_of_values])
def test_planted_mistakes_in_the_condition_are_seen(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Values.collect
    monkeypatch.setattr(Values, "collect", lambda ids, look_up, **_: mistake(ids, right(ids, look_up), look_up))
    check(CONFIG, TAGS, hidden=48, compare=assert_apart)


@pytest.mark.parametrize("mistake", ["backwards", "parallel"])
def test_the_order_of_attributes_matters(mistake: str) -> None:
    """Adapters run in schema order, one after the other."""
    slots, ids = SEVERAL[0], torch.tensor(SEVERAL[1])
    method, h = build(CONFIG, hidden=48, slots=slots), draw(4, 2, 48)
    site, condition = method.sites[0], method.condition(ids, 4)
    expected = slow_site(CONFIG, site, [table.tolist() for table in method.tables], slots, ids, h)
    found = after_task = site.task(h)
    for adapter, values_ in reversed(list(zip(site.attributes, condition.values, strict=True))):
        read = found if mistake == "backwards" else after_task
        found = found + adapter(read, values_) - read
    assert_apart(found, expected)
