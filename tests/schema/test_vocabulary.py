"""Lookups against a dictionary, also where all hashes collide; and what makes it a sequence."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribune.schema import vocabulary
from attribune.schema.columns import other_spellings
from attribune.schema.vocabulary import Vocabulary

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(lambda text: not other_spellings(text))


def constant(texts: Sequence[str]) -> np.ndarray:
    return np.zeros(len(texts), dtype=np.uint64)


def coarse(texts: Sequence[str]) -> np.ndarray:
    return np.array([len(text) for text in texts], dtype=np.uint64)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(values=st.lists(TEXTS, unique=True, max_size=12), asked=st.lists(TEXTS, max_size=12))
@pytest.mark.parametrize("hashes", [None, constant, coarse])
def test_a_text_has_its_place(hashes: object, values: list[str], asked: list[str]) -> None:
    asked = [*asked, *values[::-1], *values[:2]]
    expected = {text: place for place, text in enumerate(values, start=1)}
    with pytest.MonkeyPatch.context() as patch:
        if hashes is not None:
            patch.setattr(vocabulary, "_hashes", hashes)
        patch.setattr(vocabulary, "_BLOCK", 5)
        found = Vocabulary(values)
        assert found.ids(asked).tolist() == [expected.get(text, 0) for text in asked]
        assert found.repeated() is None
        assert list(found) == values


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(values=st.lists(TEXTS, unique=True, max_size=12), cut=st.integers(0, 12))
@pytest.mark.parametrize("hashes", [None, constant, coarse])
def test_texts_that_are_added_are_as_if_they_had_always_been_there(hashes: object, values: list[str], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if hashes is not None:
            patch.setattr(vocabulary, "_hashes", hashes)
        found, expected = Vocabulary(values[:cut]).added(values[cut:]), Vocabulary(values)
        assert found == expected
        for ours, others in zip(found._index, expected._index, strict=True):
            np.testing.assert_array_equal(ours, others)


@pytest.mark.parametrize("hashes", [None, constant, coarse])
def test_a_text_that_is_there_twice_is_found(hashes: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if hashes is not None:
        monkeypatch.setattr(vocabulary, "_hashes", hashes)
    assert Vocabulary(["a", "b", "c", "b", "d"]).repeated() == "b"
    assert Vocabulary(["a", "b", "c", "d"]).repeated() is None
    assert Vocabulary().repeated() is None


def test_it_is_a_sequence() -> None:
    found = Vocabulary(["b", "a", "ä"])
    assert (len(found), found[0], found[-1], found[1:], found.index("a")) == (3, "b", "ä", ("a", "ä"), 1)
    assert found == ("b", "a", "ä") == found == Vocabulary(["b", "a", "ä"])
    assert found not in (["b", "a"], "baä")
    assert [value in found for value in ("ä", 1)] == [True, False]
    assert not Vocabulary()
    assert repr(found) == "Vocabulary(['b', 'a', 'ä'], 3 values)"
    with pytest.raises(IndexError):
        found[3]


def test_copies_find_the_same() -> None:
    found = Vocabulary(["b", "a"])
    assert found.ids(["a"]).tolist() == [2]
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found
        assert other.ids(["a", "c"]).tolist() == [2, 0]
