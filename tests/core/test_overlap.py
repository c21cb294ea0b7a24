"""While a device computes, a thread prepares what comes next, and what was computed is fetched late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from attribune.core import overlap
from attribune.core.overlap import ahead, fetched, late

CPU = torch.device("cpu")


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "has_overlap", lambda _device: True)


def counted(made: list[int], last: int, *, bad: int | None = None) -> Iterator[int]:
    for number in range(last):
        if number == bad:
            raise ValueError(f"item {number} cannot be made")
        made.append(number)
        yield number


def test_on_a_processor_nothing_is_made_ahead() -> None:
    made: list[int] = []
    items = ahead(counted(made, 5), device=CPU)
    assert next(items) == 0
    assert made == [0]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_items_come_in_order_from_one_thread_and_few_wait() -> None:
    made, threads = [], set()

    def items() -> Iterator[int]:
        for number in counted(made, 50):
            threads.add(threading.current_thread().name)
            yield number

    found = []
    for number in ahead(items(), device=CPU, most=2):
        found.append(number)
        assert len(made) <= len(found) + 2
    assert found == list(range(50))
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


@pytest.mark.usefixtures("as_on_a_gpu")
def test_an_error_comes_in_the_place_of_its_item() -> None:
    found: list[int] = []
    with pytest.raises(ValueError, match="item 3 cannot be made"):
        found.extend(ahead(counted([], 9, bad=3), device=CPU))
    assert found == [0, 1, 2]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_who_stops_early_leaves_no_thread() -> None:
    made: list[int] = []
    before = threading.active_count()
    items: Any = ahead(counted(made, 100), device=CPU)
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before
    assert len(made) <= 4


def test_numbers_are_waited_for_when_the_next_are_under_way() -> None:
    order: list[str] = []

    def computed() -> Iterator[tuple[int, Any]]:
        for number in range(3):
            order.append(f"begin {number}")
            yield number, lambda number=number: (order.append(f"wait {number}"), np.array([number]))[1]

    found = {key: int(numbers[0]) for key, numbers in late(computed())}
    assert found == {0: 0, 1: 1, 2: 2}
    assert order == ["begin 0", "begin 1", "wait 0", "begin 2", "wait 1", "wait 2"]
    assert not list(late(iter(())))


def test_arrays_and_tensors_are_fetched() -> None:
    for given in (np.array([1.0, 2.0]), torch.tensor([1.0, 2.0], requires_grad=True)):
        np.testing.assert_array_equal(fetched(given)(), [1.0, 2.0])
