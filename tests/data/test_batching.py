from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from attribune.data.batching import LengthGroupedBatches, padding_share
from attribune.errors import ConfigError


@given(st.lists(st.integers(1, 300), max_size=700), st.integers(1, 9), st.integers(0, 3))
def test_every_row_comes_once_and_the_longest_first(lengths: list[int], batch_size: int, seed: int) -> None:
    order = list(LengthGroupedBatches(lengths, batch_size=batch_size, seed=seed))
    assert sorted(order) == list(range(len(lengths)))
    if lengths:
        assert max(lengths) in [lengths[row] for row in order[:batch_size]]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = np.random.default_rng(0).integers(1, 99, 1000)
    sampler = LengthGroupedBatches(lengths, batch_size=8, seed=5)
    first = list(sampler)
    assert first == list(sampler) == list(LengthGroupedBatches(lengths, batch_size=8, seed=5))
    assert list(LengthGroupedBatches(lengths, batch_size=8, seed=6)) != first
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_little_is_padding_and_much_is_random() -> None:
    lengths = np.random.default_rng(0).lognormal(4, 0.8, 20_000).astype(int).clip(2, 256)
    sampler = LengthGroupedBatches(lengths, batch_size=32)
    order = sampler.order()
    random = np.random.default_rng(1).permutation(len(lengths))
    assert padding_share(lengths[random], batch_size=32) > 0.6
    assert padding_share(lengths[order], batch_size=32) < 0.04
    first = {frozenset(batch) for batch in order.reshape(-1, 32).tolist()}
    sampler.set_epoch(1)
    second = {frozenset(batch) for batch in sampler.order().reshape(-1, 32).tolist()}
    assert not first & second
    means = lengths[order].reshape(-1, 32).mean(axis=1)
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.2


def test_the_incomplete_batch_comes_last_and_batches_stay_aligned() -> None:
    lengths = np.arange(1, 1004)
    loader = DataLoader(list(range(1003)), batch_size=10, sampler=LengthGroupedBatches(lengths, batch_size=10))
    batches = [batch.tolist() for batch in loader]
    assert [len(batch) for batch in batches] == [10] * 100 + [3]
    assert 1002 in batches[0]


def test_padding_share_by_hand() -> None:
    assert padding_share([4, 2, 3], batch_size=2) == pytest.approx(1 - 9 / 11)
    assert padding_share([], batch_size=2) == 0
    assert padding_share([5, 5], batch_size=2) == 0


def test_a_batch_needs_a_row() -> None:
    with pytest.raises(ConfigError, match="batch_size=0"):
        LengthGroupedBatches([1], batch_size=0)
