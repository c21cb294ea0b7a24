"""Weights kept for values seen before: the same answers, in bounded memory, and never those of other parameters."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from itertools import product
from operator import ne
from typing import Any

import pytest
import torch
from families import tiny_backbone
from tiny_models import at_random, make_batch
from torch import Tensor

from attribune import AttributeModel, Categorical, Classification, Combined, Injector, MultiLabel, Schema
from attribune.errors import ConfigError
from attribune.methods.chim import Chim
from attribune.methods.weight_cache import WeightCache
from attribune.schema.schema import Revision

SETTINGS = Injector(bottleneck=4, hypercomplex=2, vector_size=4)


SCHEMA = Schema.fit(
    {"user": [f"u{i}" for i in range(6)], "tags": [["x", "y"]] * 6, "film": [f"f{i % 3}" for i in range(6)]},
    [Categorical("user"), MultiLabel("tags"), Categorical("film")],
)


def model_of(family: str = "bert", method: Any = SETTINGS) -> AttributeModel:
    backbone = tiny_backbone(family)
    model = AttributeModel.build(backbone, SCHEMA, task=Classification(classes=3), method=method).eval()
    at_random(model.method)
    return model


def batches(number: int) -> list[dict[str, Tensor]]:
    chance = torch.Generator().manual_seed(number)
    found = []
    for _ in range(number):
        ids = [torch.randint(0, a.size, (4, a.slots), generator=chance) for a in SCHEMA]
        found.append({**make_batch(1), "attribute_ids": torch.cat(ids, dim=1)})
    return found


def assert_close(found: Any, expected: Any, *, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=atol)


def answers(model: AttributeModel, given: list[dict[str, Tensor]]) -> list[Tensor]:
    with torch.inference_mode():
        return [model(**batch).logits.clone() for batch in given]


def megabytes(model: AttributeModel, values: int) -> float:
    """Room for so many values of each of the two attributes with one value per row."""
    return 2 * values * 4 * model.method._value_size / 2**20 * 1.001


# Each family, each room and each precision once beside the usual others.
USUAL = ("bert", 5, "float32")
CASES = [
    pytest.param(*case, marks=[] if sum(map(ne, case, USUAL)) < 2 else pytest.mark.exhaustive)
    for case in product(["bert", "albert", "gpt2"], [4, 5, 100], ["float32", "bf16"])
]


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("family", "values", "precision"), CASES)
def test_answers_are_the_same(family: str, values: int, precision: str) -> None:
    model = model_of(family)
    given = batches(12)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        expected = answers(model, given)
        model.enable_weight_cache(megabytes(model, values))
        assert model.method.weight_caches
        found = answers(model, given)
    # In bf16 a weight that is not cached is a product of rounded factors.
    assert_close(found, expected, atol=1e-5 if precision == "float32" else 3e-2)
    assert all(store.hits and store.misses for store in model.method.weight_caches.values())


def test_the_same_values_again_cost_nothing() -> None:
    model = model_of()
    model.enable_weight_cache(10)
    given = batches(1)
    first = answers(model, given)
    misses = {name: store.misses for name, store in model.method.weight_caches.items()}
    assert all(misses.values())
    again = answers(model, given * 3)
    assert {name: store.misses for name, store in model.method.weight_caches.items()} == misses
    assert all(torch.equal(one, first[0]) for one in again)


def test_room_is_bounded_and_small_vocabularies_leave_theirs() -> None:
    model = model_of()
    model.enable_weight_cache(1000)
    assert {name: store.capacity for name, store in model.method.weight_caches.items()} == {"film": 4, "user": 7}
    model.enable_weight_cache(megabytes(model, 5))
    assert {name: store.capacity for name, store in model.method.weight_caches.items()} == {"film": 4, "user": 6}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answers(model, batches(1))
    assert {name: store.capacity for name, store in model.method.weight_caches.items()} == {"film": 4, "user": 7}
    limit = megabytes(model, 4)
    model.enable_weight_cache(limit)
    answers(model, batches(8))
    assert sum(store.megabytes for store in model.method.weight_caches.values()) <= limit
    model.enable_weight_cache(0)
    assert not model.method.weight_caches
    with pytest.raises(ConfigError, match="cache_mb is -1"):
        model.enable_weight_cache(-1)


def step(model: AttributeModel) -> None:
    batch = batches(1)[0]
    optimizer = torch.optim.AdamW(model.method.parameters(), lr=0.1)
    model(**batch).logits.sum().backward()
    optimizer.step()


def load(model: AttributeModel) -> None:
    model.load_state_dict({name: tensor + 0.1 for name, tensor in model.state_dict().items()})


def replace(model: AttributeModel) -> None:
    for parameter in model.method.parameters():
        parameter.data = parameter.data * 1.1


def train(model: AttributeModel) -> None:
    model.train()
    for parameter in model.method.parameters():
        parameter.data.mul_(1.1)  # which autograd does not count
    model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("adds", [True, False])
def test_a_table_at_the_address_of_an_earlier_one_is_another(adds: bool) -> None:
    """A value is forgotten and added again, and the memory of the first table is that of the last."""
    model = model_of()
    model.enable_weight_cache(10)
    batch = {name: x[:1] for name, x in make_batch(1).items()}

    def answer(user: str) -> Tensor:
        ids = SCHEMA.encode({"user": [user], "tags": [["x"]], "film": ["f0"]})[0]
        ids[0, 0] = model.schema["user"].values.ids([user])[0]
        return answers(model, [{**batch, "attribute_ids": torch.from_numpy(ids)}])[0]

    users = list(SCHEMA["user"].values)
    before, known = {user: answer(user) for user in users}, model.values.known()
    (name,) = [name for name, owner in known.owners.items() if owner == "user"]
    fewer = known.revised(Revision.removing(known.schema, {"user": (users[0],)}))
    model.values.use(fewer)
    again = fewer.revised(Revision.adding(fewer.schema, {"user": {users[0]: 1}}))
    again.tables[name][-1] = known.tables[name][1]
    memory = known.tables[name].data
    memory.copy_(again.tables[name])
    model.values.use(dataclasses.replace(again, tables={**again.tables, name: memory}), adds=adds)
    assert_close({user: answer(user) for user in users}, before)


@pytest.mark.slow
@pytest.mark.parametrize("change", [step, load, replace, train])
def test_other_parameters_forget(change: Callable[[AttributeModel], None]) -> None:
    model = model_of()
    model.enable_weight_cache(10)
    given = batches(2)
    before = answers(model, given)
    change(model)
    found = answers(model, given)
    assert not torch.allclose(found[0], before[0])
    model.enable_weight_cache(0)
    assert_close(found, answers(model, given))


def test_a_pass_that_broke_off_leaves_nothing_half_made() -> None:
    model = model_of()
    given = batches(2)
    expected = answers(model, given)
    model.enable_weight_cache(10)
    broken = model.method.sites[1]
    forward = broken.forward

    def fail(*_: Any) -> Tensor:
        raise RuntimeError("out of memory")

    broken.forward = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        answers(model, given)
    broken.forward = forward
    assert_close(answers(model, given), expected)


def test_gradients_precision_and_mode_are_not_mixed() -> None:
    model = model_of()
    given = batches(3)
    expected = answers(model, given)
    model.enable_weight_cache(10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answers(model, given)
    with torch.no_grad():
        plain = [model(**batch).logits for batch in given]
    for found in (answers(model, given), plain):
        assert_close(found, expected)
    model(**given[0]).logits.sum().backward()
    assert all(p.grad is not None for p in model.method.tables)


def test_in_a_combination() -> None:
    model = model_of(method=Combined(parts=(SETTINGS, Chim())))
    given = batches(4)
    expected = answers(model, given)
    model.enable_weight_cache(10)
    found = answers(model, given)
    assert model.method.parts[0].weight_caches["user"].hits
    assert_close(found, expected)


def test_settings_without_anything_to_keep() -> None:
    for settings in (Injector(weight_injection=False), Injector(aggregation="pre")):
        model = model_of(method=settings)
        model.enable_weight_cache(10)
        assert not model.method.weight_caches
        answers(model, batches(1))


def test_copies_are_empty() -> None:
    model = model_of()
    model.enable_weight_cache(10)
    given = batches(1)
    expected = answers(model, given)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert all(not store.megabytes for store in copied.method.weight_caches.values())
        torch.testing.assert_close(answers(copied, given)[0], expected[0])


def test_the_value_not_used_for_longest_gives_way() -> None:
    store = WeightCache(2 * 4, value_size=1, sites=1, vocabulary_size=10)
    made: list[int] = []

    def ask(*values: int) -> list[float]:
        ids = torch.tensor(values)
        kept = store.look_up(ids, torch.arange(len(ids)), stamp=0, dtype=torch.float32)
        assert kept is not None

        def make(fresh: Tensor) -> tuple[Tensor]:
            made.extend(ids[fresh].tolist())
            return (ids[fresh].float()[:, None],)

        return [float(x) for x in kept.read("site", make)[0][:, 0]]

    assert ask(1) == [1]
    assert ask(1, 2) == [1, 2]
    assert ask(1, 3) == [1, 3], "2 gives way"
    assert ask(3, 1) == [3, 1]
    assert ask(2, 3) == [2, 3], "1 gives way"
    assert made == [1, 2, 3, 2]
    assert store.look_up(torch.tensor([1, 2, 3]), torch.arange(3), stamp=0, dtype=torch.float32) is None
    assert ask(2, 3) == [2, 3]
    assert made == [1, 2, 3, 2]
    assert (store.hits, store.misses) == (7, 7)


def test_what_was_cached_with_another_stamp_is_not_kept() -> None:
    """After a change in which values keep their vectors, weights of the parameters before it are right, no others."""
    ids, index = torch.tensor([1, 2]), torch.tensor([0, 1])
    for before, hits in (("before", 2), ("another", 0)):
        cache = WeightCache(2**20, value_size=4, sites=1, vocabulary_size=3)
        given = {"dtype": torch.float32}
        assert cache.look_up(ids, index, stamp="before", **given) is not None
        cache.sites_read = {"site"}
        cache.restamp(before, "after")
        cache.look_up(ids, index, stamp="after" if hits else "before", **given)
        assert cache.hits == hits
