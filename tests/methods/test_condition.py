from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attribune.errors import DataError
from attribune.methods.condition import Condition, ConditionHolder, Slots, Values, check_attribute_ids
from attribune.methods.dropout import drop_attributes

USER = Slots(name="user", start=0, count=1, size=5)
TAGS = Slots(name="tags", start=1, count=3, size=7)
FILM = Slots(name="film", start=4, count=1, size=3)
SLOTS = (USER, TAGS, FILM)


# Values


def rows_of(table: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return partial(torch.nn.functional.embedding, weight=table)


def test_distinct_values_and_membership() -> None:
    table = torch.arange(14.0).view(7, 2)
    ids = torch.tensor([[5, 2, 0], [0, 0, 0], [2, 2, 5]])
    values = Values.collect(ids, rows_of(table))
    assert values.ids.tolist() == [0, 2, 5]
    assert values.membership.tolist() == [[0, 1, 1], [0, 0, 0], [0, 2, 1]]
    assert values.vectors.tolist() == [[0, 1], [4, 5], [10, 11]]


@pytest.mark.parametrize("compiling", [False, True])
@settings(max_examples=40, deadline=None)
@given(ids=st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=6))
def test_sums_over_the_values_of_a_row(ids: list[list[int]], compiling: bool) -> None:
    table = torch.randn(7, 2, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        if compiling:
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
        values = Values.collect(torch.tensor(ids), rows_of(table))
    sums = values.membership @ values.vectors.tanh()
    for row, mine in enumerate(ids):
        expected = sum((table[value].tanh() for value in mine if value != 0), torch.zeros(2, dtype=torch.float64))
        assert float((sums[row] - expected).abs().max()) < 1e-12


def test_under_compilation_the_shape_does_not_depend_on_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch, "unique", None)
    for ids in (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([[1, 2, 3], [4, 5, 6]])):
        values = Values.collect(ids, rows_of(torch.randn(7, 2)))
        assert values.vectors.shape == (6, 2)
        assert values.membership.shape == (2, 6)


@pytest.mark.parametrize("compiling", [False, True])
def test_gradient_of_the_table(compiling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One per occurrence, none for id 0 and for values that are not in the batch."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    table = torch.randn(7, 2, requires_grad=True)
    values = Values.collect(torch.tensor([[5, 2, 0], [2, 2, 0]]), rows_of(table))
    (values.membership @ values.vectors).sum().backward()
    assert table.grad is not None
    assert table.grad[:, 0].tolist() == [0, 0, 3, 0, 0, 1, 0]


def test_narrow_ids_and_wide_tables() -> None:
    for dtype in (torch.int32, torch.int64):
        values = Values.collect(torch.tensor([[1], [0]], dtype=dtype), rows_of(torch.ones(2, 3, dtype=torch.bfloat16)))
        assert values.membership.dtype == torch.bfloat16
        assert values.membership.sum(dim=1).tolist() == [1, 0]


# The holder


def test_conditions_nest_and_come_back() -> None:
    """Also where a forward pass fails; outside of one there is none, nor in a copy."""
    holder, outer, inner = ConditionHolder(), Condition(rows=1, values=()), Condition(rows=2, values=())
    twin = copy.deepcopy(holder)
    outside = pytest.raises(RuntimeError, match=r"outside AttributeModel\.forward.*call the AttributeModel itself")
    with holder.use(outer):
        with holder.use(inner):
            assert holder.current is inner
        with pytest.raises(ZeroDivisionError), holder.use(inner):
            raise ZeroDivisionError
        assert holder.current is outer
        with outside:
            _ = twin.current
    with outside:
        _ = holder.current


# Checks


def test_right_ids_pass() -> None:
    check_attribute_ids(torch.tensor([[4, 6, 0, 0, 2], [0, 0, 0, 0, 0]]), SLOTS, 2)
    check_attribute_ids(torch.empty(0, 5, dtype=torch.int64), SLOTS, 0)


@pytest.mark.parametrize("shape", [(3, 5), (2, 4), (2, 6), (10,), (2, 5, 1), (0, 5)])
def test_wrong_shape(shape: tuple[int, ...]) -> None:
    cure = "encode the rows with the model's own schema"
    with pytest.raises(DataError, match=rf"{re.escape(str(shape))}.*expected \(2, 5\).*{cure}"):
        check_attribute_ids(torch.zeros(shape, dtype=torch.int64), SLOTS, 2)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 5, "attribute 'user' has id 5, outside 0 to 4"),
        (0, -1, "attribute 'user' has id -1, outside 0 to 4"),
        (2, 7, "attribute 'tags' has id 7, outside 0 to 6"),
        (3, -9, "attribute 'tags' has id -9, outside 0 to 6"),
        (4, 3, "attribute 'film' has id 3, outside 0 to 2"),
    ],
)
def test_id_outside_the_vocabulary(column: int, value: int, message: str) -> None:
    ids = torch.zeros(2, 5, dtype=torch.int64)
    ids[1, column] = value
    with pytest.raises(DataError, match=message):
        check_attribute_ids(ids, SLOTS, 2)


# Attribute dropout


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.5, 0.9])
def test_rate_and_independence(rate: float) -> None:
    """Of what is drawn; that an attribute is hidden as a whole is in tests/parity."""
    n = 40_000
    ids = torch.ones(n, 5, dtype=torch.int64)
    dropped = drop_attributes(ids, SLOTS, rate)
    assert bool(ids.all()), "what is given is left as it was"
    hidden = torch.stack([slots.of(dropped)[:, 0] == 0 for slots in SLOTS]).float()
    assert float((hidden.mean(dim=1) - rate).abs().max()) <= 5 * (rate * (1 - rate) / n) ** 0.5
    both = float((hidden[0] * hidden[1]).mean())
    assert abs(both - rate**2) <= 5 * (rate**2 * (1 - rate**2) / n) ** 0.5, "attributes are dropped independently"


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.9])
def test_a_hierarchy_also_loses_its_lower_levels(rate: float) -> None:
    n, nested = 40_000, Slots(name="city", start=0, count=3, size=9, is_nested=True)
    kept = drop_attributes(torch.tensor([[1, 2, 3]]).expand(n, 3), [nested], rate)
    levels, counts = (kept != 0).sum(dim=1).unique(return_counts=True)
    assert bool(((kept == 0) | (kept == torch.tensor([1, 2, 3]))).all())
    assert bool((kept[:, :-1] != 0).ge(kept[:, 1:] != 0).all()), "no level is kept below one that is hidden"
    shares = dict(zip(levels.tolist(), (counts / n).tolist(), strict=True))
    cut = min(rate, 1 - rate)
    assert abs(shares.get(0, 0) - rate) < 0.02
    assert abs(shares.get(1, 0) + shares.get(2, 0) - cut) < 0.02
